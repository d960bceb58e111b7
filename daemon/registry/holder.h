/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The identity of a client, its leases and its shares. Embedded in struct client. */

#include "daemon/ledger/entries.h"
#include "daemon/registry/registry.h"

struct holder {
	struct registry *registry;
	struct tenant *tenant;	   /* NULL: an admin's connection, which holds nothing */
	uint64_t number;	   /* in the ledger, and of its connection with the keeper */
	uint32_t entry;		   /* in the ledger */
	struct id_table leases;	   /* references, by bit */
	uint32_t leases_dropped;   /* places before that one in the table are empty */
	struct share_list shares;  /* of streams */
	struct own_trace *trace;   /* that it reads; NULL: none */
	bool has_new_share;	   /* whose file was not sent, or that is not in the ledger */
	struct entry_client known; /* in the ledger, too, if it has a tenant */
	char comm[16];		   /* "": not read yet */
	LIST_ENTRY(holder) in_tenant;
};

/* In the ledger. Nothing happens for a holder without a tenant. */
void holder_enter(struct holder *);
