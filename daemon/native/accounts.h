/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The nodes in which the kernel counts: one for each quota, share and reserve of tenants with native events. accounts.c explains. */

#include "daemon/registry/registry.h"
#include "kernel/native.h"

struct account;
struct accounts {
	struct registry *registry;
	struct admission_node *nodes;
	struct account **at; /* by the number of the node */
	LIST_HEAD(account_list, account) all;
	uint32_t last; /* the number that was taken last */
	unsigned idle; /* accounts that nobody refers to, in which something is still counted */
};

enum { ACCOUNT_POOL = 1, ACCOUNT_END = ADMISSION_NODES - ADMISSION_PROOF_NODES };

/* Goes on with what the last daemon has left in the nodes. 0 or -ENOMEM. */
int accounts_init(struct accounts *, struct registry *, struct admission_node *nodes);
/* The nodes stay as they are, for the next daemon. */
void accounts_deinit(struct accounts *);

/* Each with a reference; NULL: no memory, or no node. */
struct account *account_of_tenant(struct accounts *, struct level *);
struct account *account_of_share(struct accounts *, struct level *);
struct account *account_of_reserve(struct accounts *, struct reserve *, const char *pattern);
struct account *account_unref(struct accounts *, struct account *);

uint32_t account_number(const struct account *);
uint32_t account_used(const struct accounts *, const struct account *);
void account_limit(const struct accounts *, const struct account *, uint32_t limit);
/* The kernel has counted something, or less: brings reserves up to date, and frees accounts that are not needed any more. */
void accounts_update(struct accounts *);
