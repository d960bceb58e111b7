/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The numbers of the daemon and of each tenant: a row of the table is a key of STATUS or TENANTS, and a metric. */

#include "protocol/base/base.h"

struct daemon;
struct tenant;

#define NUMBER_ABSENT UINT64_MAX /* there is no such number now, so there is neither key nor sample */

enum number_type { NUMBER_GAUGE, NUMBER_COUNTER };

struct number {
	const char *key;    /* NULL: metrics only */
	const char *metric; /* NULL: rows only */
	enum number_type type;
	const char *help;			      /* of the metric */
	uint64_t (*of_daemon)(const struct daemon *); /* one of these two; a tenant's refusals have neither */
	uint64_t (*of_tenant)(const struct tenant *);
	bool has_labels; /* the metric has more labels than the tenant: build_info and refusals */
};

extern const struct number numbers[];
extern const size_t n_numbers;
