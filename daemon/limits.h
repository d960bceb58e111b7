/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Every limit of the daemon, each with the reason for its number. What the wire limits is in protocol/protocol.h. */

enum {
	/* Large programs have a few hundred events; a tenant is one container. */
	DEFAULT_MAX_EVENTS = 1024,
	/* A minute of a thousand records a second, and still nothing on any machine. */
	DEFAULT_RING_BYTES = 4 << 20,
	/* Connections taken per turn of the loop, so that a storm of them does not starve those that are there. */
	ACCEPT_BATCH = 64,
	/* `events` names this many holders of an event; the rest is a number. A row's list ends at 64 KiB. */
	HOLDERS_MAX = 64,
	/* Seconds with who says nothing, or does not read its answer: longer than any machine is stuck, and no longer. */
	DEFAULT_PATIENCE = 10,
	/* Packets of one who is hung up on that are still read, so that our last words are not lost. */
	UNREAD_MAX = 64,
	/* Pending connections before connect() waits: the kernel's own ceiling. */
	LISTEN_BACKLOG = 4096,
	/* fds that clients do not get: a dozen of our own, and some for admins, who come to see who has the others. */
	OWN_FDS = 48,
	/* Dead events on a stream that matter to nobody: below this no new one is begun. */
	STREAM_DEAD_MIN = 64,
	/* Events on one stream of the kernel's, and at most a batch more: beyond, each costs noticeably more than the last. */
	STREAM_EVENTS_MAX = 256,
	/* Bits that one CHANGED names; more, and it says "look at all". */
	CHANGED_MAX = 64,
};

/* Seconds. */
#define REQUESTS_TIME  0.01 /* of handling requests, before accepts, admins and records are looked at again */
#define ACCEPT_BACKOFF 0.1  /* after EMFILE: long enough not to spin, short enough not to be noticed */
#define PAGES_INTERVAL 0.05 /* between looks at pages that somebody watches: a person does not notice */
#define PROBE_INTERVAL 10.0 /* between looks at data files that nobody guards */
#define LINGER_FIRST   0.02 /* a process that ends closes its fds one after the other */
#define LINGER_LAST    1.0  /* a charge is refunded within two seconds of the last close */
