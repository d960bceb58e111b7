/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The identity of a client, its leases and its shares. Embedded in struct client. */

#include "daemon/registry/registry.h"

struct holder {
	struct registry *registry;
	struct tenant *tenant;	  /* NULL: an admin's connection, which holds nothing */
	uint64_t number;	  /* in the ledger, and of its connection with the keeper */
	uint32_t entry;		  /* in the ledger */
	struct id_table leases;	  /* references, by bit */
	uint32_t leases_dropped;  /* places before that one in the table are empty */
	struct share_list shares; /* of streams */
	bool has_new_share;	  /* whose file was not sent, or that is not in the ledger */
	pid_t pid;		  /* as it was when it connected */
	uid_t uid;
	uid_t real_uid;	  /* the sender's uid in its packets: it differs in a set-user-ID program */
	bool may_be_root; /* its user namespace has our uid 0 */
	bool greeted;	  /* it has been given its tenant's page */
	bool watching;
	char comm[16]; /* "": not read yet */
	LIST_ENTRY(holder) in_tenant;
};

/* In the ledger. Nothing happens for a holder without a tenant. */
void holder_enter(struct holder *);
