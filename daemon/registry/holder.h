/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The identity of a client, its leases and its shares. Embedded in struct client, and in struct bundle, whose leases are for all of
 * its members.
 */

#include "daemon/registry/registry.h"

struct lease;
struct tenant;

struct holder {
	struct registry *registry;
	struct tenant *tenant;	    /* NULL: an admin's connection, which holds nothing */
	uint64_t number;	    /* in the ledger, and of its connection with the keeper */
	uint64_t lease_number;	    /* of its leases, in the ledger */
	struct lease *leases;	    /* table by bit */
	struct holder *bundle;	    /* that it is a member of; NULL: none */
	struct holder_list members; /* of a bundle; a client has none */
	unsigned n_members;
	struct share_list shares; /* of streams, the newest first */
	pid_t pid;		  /* as it was when it connected */
	uid_t uid;
	uid_t real_uid;	  /* the sender's uid in its packets: it differs in a set-user-ID program */
	bool may_be_root; /* its user namespace has our uid 0 */
	bool greeted;	  /* it has been given its tenant's page */
	bool watching;
	char comm[16]; /* "": not read yet */
	LIST_ENTRY(holder) in_tenant;
	LIST_ENTRY(holder) in_bundle;
};

/* In the ledger. Nothing happens for a holder without a tenant. */
void holder_enter(const struct holder *);
void holder_strike(const struct holder *);
