/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The ledger's entries: one for each thing that a client was promised. It is entered before the promise is sent, and struck
 * when the thing is gone; restore.c reads it. Data may grow at its end: fields that an older daemon has not written are zero.
 */

#include <limits.h>

#include "daemon/ledger/ledger.h"
#include "protocol/protocol.h"

enum entry_kind {
	ENTRY_TENANT = 1, /* number */
	ENTRY_STREAM,	  /* number */
	ENTRY_GRANT,	  /* number */
	ENTRY_REFERENCE,  /* stream, grant */
	ENTRY_CLIENT,	  /* number */
	ENTRY_LEASE,	  /* holder, grant; of older daemons */
	ENTRY_SHARE,	  /* client, stream: it has the file */
	ENTRY_ASKED,	  /* stream, grant: the kernel was asked for the reference and has not answered */
	ENTRY_LEASES,	  /* client, stream: a bit for each index on the stream */
};

/* The path follows. */
struct entry_tenant {
	uint64_t cgroup_id;
	uint32_t is_contained;
	uint32_t zero;
};

struct entry_stream {
	uint32_t tenant;
	uint32_t uid;
	uint32_t self_registered;
	uint32_t zero;
};

/* The description follows. */
struct entry_grant {
	uint32_t tenant;
	uint16_t flags; /* REGISTER_MULTI_FORMAT */
	uint16_t persistent;
};

/* Version 1 of the ledger has this index in place of an ENTRY_ASKED. */
enum { ENTRY_INDEX_ASKED = UINT32_MAX };

struct entry_reference {
	uint32_t index;
	uint32_t bit;
};

struct entry_client {
	uint32_t tenant;
	int32_t pid;
	uint32_t uid;
	uint32_t real_uid;
	uint64_t holder; /* of older daemons: of its leases */
	uint64_t bundle; /* … and of leases that are this client's, too; 0: none */
	uint16_t greeted;
	uint16_t watching;
	uint32_t may_be_root;
	uint64_t zero[2]; /* earlier daemons wrote its command's name */
};

struct entry_lease {
	uint32_t stream;
	uint32_t zero;
};

_Static_assert(sizeof(struct entry_tenant) + PATH_MAX <= LEDGER_DATA_MAX, "a tenant with the longest path");
_Static_assert(sizeof(struct entry_grant) + WIRE_DESCRIPTION_MAX <= LEDGER_DATA_MAX, "a grant of the longest event");
