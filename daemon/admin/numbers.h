/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The numbers of the daemon and of each tenant: a row is a key of STATUS or TENANTS, and a metric. */

#include "protocol/base/base.h"

struct daemon;
struct registry;
struct summary;
struct tenant;

#define NUMBER_ABSENT UINT64_MAX /* there is no such number now, so there is neither key nor sample */

enum { NUMBERS_OF_DAEMON = 25, NUMBERS_OF_SECTION = 15, NUMBERS_OF_TENANT = 21 };

struct number {
	const char *key;    /* NULL: metrics only */
	const char *metric; /* NULL: rows only */
	enum { NUMBER_GAUGE, NUMBER_COUNTER } type;
	const char *help; /* of the metric */
	uint64_t value;
};

void numbers_of_daemon(const struct daemon *, struct number ret[NUMBERS_OF_DAEMON]);
/* Sums up the tenants of each section, for: */
void numbers_sum(struct registry *);
/* Metrics only: of all tenants for which this section is the nearest. */
void numbers_of_section(const struct summary *, struct number ret[NUMBERS_OF_SECTION]);
/* Each tenant has the same rows in the same order. */
void numbers_of_tenant(const struct tenant *, struct number ret[NUMBERS_OF_TENANT]);
