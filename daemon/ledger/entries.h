/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The ledger's entries: one for each thing that a client was promised. It is entered before the promise is sent, and struck
 * when the thing is gone; restore.c reads it. Data may grow at its end: fields that an older daemon has not written are zero.
 */

#include <limits.h>

#include "daemon/ledger/ledger.h"
#include "protocol/protocol.h"

/* In the order in which they are restored: each needs only things of those before it. */
enum entry_kind {
	ENTRY_TENANT = 1, /* number */
	ENTRY_STREAM,	  /* number */
	ENTRY_GRANT,	  /* number */
	ENTRY_REFERENCE,  /* stream, grant */
	ENTRY_ASKED,	  /* stream, grant: the kernel was asked for the reference and has not answered */
	ENTRY_CLIENT,	  /* number */
	ENTRY_LEASES,	  /* client, stream: a bit for each index on the stream */
	ENTRY_SHARE,	  /* client, stream: it has the file */
	ENTRY_ENABLED,	  /* grant: an admin has switched its event on */
	ENTRY_SILENCE,	  /* number: an admin's rule */
	ENTRY_SILENCING,  /* 1: the keeper is being told what is silent */
	ENTRY_KINDS_,
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

struct entry_reference {
	uint32_t index;
	uint32_t bit;
};

struct entry_client {
	uint32_t tenant;
	int32_t pid; /* as it was when it connected */
	uint32_t uid;
	uint32_t real_uid; /* the sender's uid in its packets: it differs in a set-user-ID program */
	uint16_t greeted;  /* it has been given its tenant's page */
	uint16_t watching;
	uint32_t may_be_root;  /* its user namespace has our uid 0 */
	uint16_t takes_traces; /* it understands TRACED */
	uint16_t traces;       /* it reads a trace, which ends with the daemon */
	uint32_t zero;
};

/* The event's name follows, and then the pattern of tenants. */
struct entry_silence {
	uint32_t kind;
	uint32_t event_length;
};

struct entry_enabled {
	uint64_t time; /* ns since 1970 */
	int32_t pid;
	uint32_t uid;
	char comm[16];
};

_Static_assert(sizeof(struct entry_tenant) + PATH_MAX <= LEDGER_DATA_MAX, "a tenant with the longest path");
_Static_assert(sizeof(struct entry_silence) + WIRE_DESCRIPTION_MAX + PATH_MAX <= LEDGER_DATA_MAX, "the longest rule");
_Static_assert(sizeof(struct entry_grant) + WIRE_DESCRIPTION_MAX <= LEDGER_DATA_MAX, "a grant of the longest event");
