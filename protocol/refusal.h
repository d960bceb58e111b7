/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdint.h>

/*
 * Each refusal has a number on the wire, a name for scripts, and a sentence for people. Numbers never change: add new ones at the end.
 */
enum refusal {
	REFUSAL_NONE = 0,
	/* the packet itself: the connection ends */
	REFUSAL_BAD_PACKET = 1,
	REFUSAL_UNKNOWN_KIND = 2,
	REFUSAL_UNEXPECTED_FDS = 3,
	REFUSAL_HELLO_FIRST = 4,
	REFUSAL_FEATURE_MISSING = 5,
	REFUSAL_WRONG_USER = 6,
	REFUSAL_UNKNOWN_PEER = 7,
	REFUSAL_TOO_SLOW = 8,
	REFUSAL_TOO_MANY_CONNECTIONS = 9,
	/* one event: the connection goes on */
	REFUSAL_BAD_DESCRIPTION = 10,
	REFUSAL_NAME_TAKEN = 11,
	REFUSAL_QUOTA_EXCEEDED = 12,
	REFUSAL_PAGE_FULL = 13,
	REFUSAL_MACHINE_FULL = 14,
	REFUSAL_NOT_PERMITTED = 15,
	REFUSAL_KERNEL_TOO_OLD = 16,
	REFUSAL_NO_SUCH_EVENT = 17,
	REFUSAL_TROUBLE = 18, /* not the client's fault: no memory, no fds, an error of the kernel */
	REFUSAL_NOT_THE_TRACER = 19,
	REFUSAL_SELF_REGISTERED = 20, /* events on its data file, without the daemon: the connection ends */
	REFUSAL_IN_USE = 21,	      /* DELETE: a program or a tracer has the event, or the policy declares it */
	REFUSAL_MAX_,
};

/* "quota-exceeded"; "unknown" for an unknown number. */
const char *refusal_name(uint32_t refusal);

/* The negative errno that libuserev returns for it. */
int refusal_to_errno(uint32_t refusal);
