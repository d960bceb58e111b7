/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Every limit of the daemon, each with the reason for its number. What the wire limits is in protocol/protocol.h. */

enum {
	/* Large programs have a few hundred events; a tenant is one container. */
	DEFAULT_MAX_EVENTS = 1024,
	/* One for each worker of a large service, and a tenth of what fds there usually are. */
	DEFAULT_MAX_CONNECTIONS = 1024,
	/* Where nothing guards them each connection has a file of its own, and may be at its second while the first one lingers. */
	DEFAULT_MAX_FILES = 2048,
	/* Six hundred programs with a hundred events each, on files of their own; some 20 MiB of the daemon's memory. */
	DEFAULT_MAX_LEASES = 65536,
	/* Types of kernel events that are left for others: kprobes, synthetic events, what tracers make for a session. */
	DEFAULT_KERNEL_MARGIN = 256,
	/* A minute of a thousand records a second, and still nothing on any machine. */
	DEFAULT_RING_BYTES = 4 << 20,
	/* `events` names this many holders of an event; the rest is a number. A row's list ends at 64 KiB. */
	HOLDERS_MAX = 64,
	/* Seconds until a client that is silent or does not read is disconnected: longer than any machine hangs. */
	DEFAULT_CLIENT_TIMEOUT = 10,
	/* Bytes of one tenant's requests under way, and of answers that it has to read: of 16 long requests, or 32 long answers. */
	WAITING_BYTES_MAX = 4 << 20,
	/* Answers that are sent at a time when fds can be sent again. */
	LATER_MAX = 64,
	/* Packets of one who is hung up on that are still read, so that our last words are not lost. */
	UNREAD_MAX = 64,
	/* Who reads the metrics at the same time; the others wait. One exporter does, and now and then an admin. */
	METRICS_READERS_MAX = 8,
	/* Clients' sockets that systemd hands over: the usual one, that in a directory to mount, and an admin's own ones. */
	CLIENT_LISTENERS_MAX = 8,
	/* Pending connections before connect() waits: the kernel's own ceiling. */
	LISTEN_BACKLOG = 4096,
	/* fds that clients do not get: a dozen of our own, and some for admins, who come to see who has the others. */
	OWN_FDS = 48,
	/* Calls of one tenant that the kernel has before it: two parts of a request, so that it never has to wait for one. */
	BACKLOG_MAX = 100,
	/* Dead events on a stream that matter to nobody: below this no new one is begun. */
	STREAM_DEAD_MIN = 64,
	/* Events on one stream of the kernel's, and at most a batch more: beyond, each costs noticeably more than the last. */
	STREAM_EVENTS_MAX = 256,
	/* Streams that are kept for programs of one cgroup that will come back: a few users', or a few programs'. */
	KEPT_MAX = 16,
	/* Tenants that have gone and whose requests are remembered: as many as come and go in a minute. */
	RESTING_MAX = 1024,
	/* Lingering streams of one tenant that are all looked at in a second; more are looked at less often. */
	LINGER_PER_SECOND = 64,
	/* Looks in a second, all tenants' together: each is a walk along the locks of all data files, 20 µs with a thousand. */
	LOOKS_PER_SECOND = 250,
	/* … where that is nothing but a poll(). */
	LOOKS_OWN = 10000,
	/* Bytes that are freed before the system gets them back, and what is kept for the next ones. */
	TRIM_BYTES = 1 << 20,
	TRIM_PAD = 128 << 10,
	/* Bytes of requests and answers that one tenant's bundles keep: eight of the longest. */
	BUNDLE_BYTES_MAX = 1 << 20,
	/* How often a daemon that starts tries to talk to a keeper that is there: one that is out of memory may be replaced. */
	KEEPER_TRIES = 3,
	/* Bits that one CHANGED names; more, and it says "look at all". */
	CHANGED_MAX = 64,
};

/* Seconds. */
#define STATUS_INTERVAL	  1.0  /* between lines for systemctl status */
#define LOOK_INTERVAL	  5.0  /* between looks at what others hold in the kernel: reading it takes milliseconds */
#define REFUSALS_INTERVAL 60.0 /* between lines of the log about the same kind of refusal of one tenant */
#define THROTTLE_LEAST	  0.01 /* between looks at those who have asked too much: nobody counts shorter times than that */
#define WAITING_INTERVAL                                                                                               \
	0.1 /* between looks at those of whom too much is under way or unread: they are not in a hurry */
#define LATER_INTERVAL	0.02   /* after ETOOMANYREFS: somebody else of this user has to take fds first */
#define LEFT_INTERVAL	0.1    /* between questions to all of them whether they are still there */
#define TRIM_INTERVAL	1.0    /* … and as often at most: it takes up to a millisecond for each ten MiB */
#define REST_INTERVAL	1.0    /* between looks at those that are remembered */
#define TURN_TIME	0.0001 /* of handling requests, before everybody else is looked at again */
#define ACCEPT_BACKOFF	0.1    /* after EMFILE: long enough not to spin, short enough not to be noticed */
#define PAGES_INTERVAL	0.05   /* between looks at pages that somebody watches: a person does not notice */
#define KEEPER_INTERVAL 0.05   /* between attempts to talk to another keeper: one that is restarted takes longer */
#define KEEPER_PAUSE	1.     /* … after one that was there for less than that */
#define PROBE_INTERVAL	10.0   /* between looks at data files that nobody guards */
#define SETTLE_INTERVAL 0.01   /* before a name that the kernel is about to free is asked for again */
#define SETTLE_PATIENCE 0.1    /* … after which it is taken; the kernel needs some milliseconds */
#define LINGER_FIRST	0.02   /* a process that ends closes its fds one after the other */
#define LINGER_LAST	1.0    /* a charge is refunded within two seconds of the last close */
#define LINGER_MOST	8.0    /* … where many of one tenant's streams linger: within ten, and its turn */
