/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Who may hold how many. Pure arithmetic: no I/O, no allocation, no clock. quota.c explains. */

#include "protocol/base.h"

struct quota {
	struct quota *parent;
	uint32_t used; /* here and below */
	uint32_t maximum;
};

/* The receipt of what was paid, kept in what it paid for. All zeros: nothing was paid. */
struct quota_charge {
	struct quota *quota;
	uint32_t amount;
};

enum { QUOTA_E_EXCEEDED = 1 };

void quota_init(struct quota *, struct quota *parent, uint32_t maximum);
/* Everything must have come back: asserted. */
void quota_deinit(struct quota *);

/* 0, or QUOTA_E_EXCEEDED with the level that had no room in `ret_full` (may be NULL); then nothing was charged. */
int quota_charge(struct quota *, uint32_t amount, struct quota_charge *ret, const struct quota **ret_full);
/* Refunds. Safe on a receipt that was never charged, and twice. */
void quota_charge_deinit(struct quota_charge *);
