/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Every limit of the daemon, each with the reason for its number. The limits of the protocol are in protocol/protocol.h. */

enum {
	/* Large programs have a few hundred events; a tenant is one container. */
	DEFAULT_MAX_EVENTS = 1024,
	/* One for each worker of a large service, and a tenth of the usual number of fds. */
	DEFAULT_MAX_CONNECTIONS = 1024,
	/* Without a guard each connection has a file of its own, and may have its second one while the first lingers. */
	DEFAULT_MAX_FILES = 2048,
	/* As many connections with 128 events each, on files of their own; some 20 MiB of the daemon's memory. */
	DEFAULT_MAX_LEASES = 131072,
	/* Types of kernel events that are left for others: kprobes, synthetic events, events that a tracing session makes. */
	DEFAULT_KERNEL_MARGIN = 256,
	/* A minute of a thousand records a second, and little memory on any machine. */
	DEFAULT_RING_BYTES = 4 << 20,
	/* `events` names this many holders of an event; the rest is a number. A row's list ends at 64 KiB. */
	HOLDERS_MAX = 64,
	/* Seconds until a client that is silent or does not read is disconnected: longer than any machine hangs. */
	DEFAULT_CLIENT_TIMEOUT = 10,
	/* Bytes of one tenant's requests under way and unread answers: 16 long requests, or 32 long answers. */
	WAITING_BYTES_MAX = 4 << 20,
	/* Clients that are looked after in one turn of the loop: a millisecond's work, and more than can come in DEFER_INTERVAL. */
	DEFERRED_MAX = 512,
	/* Leases, or events of a stream, that are released in one turn of the loop: a tenth of a millisecond. */
	RELEASES_MAX = 128,
	/* A client that leaves takes as long as so many of them, and each file that it was sent. */
	RELEASES_OF_CLIENT = 8,
	RELEASES_OF_FILE = 32,
	/* Clients of a delayed tenant whose hangups the kernel is asked to report, in one turn: a system call each. */
	DELAYED_MAX = 16,
	/* Packets of a disconnected client that are still read, so that our last packet is not lost. */
	UNREAD_MAX = 64,
	/* Readers of the metrics at the same time; others wait. There is one exporter, and now and then an admin. */
	METRICS_READERS_MAX = 8,
	/* Clients' sockets that systemd hands over: the usual one, that in a directory to mount, and an admin's own ones. */
	CLIENT_LISTENERS_MAX = 8,
	/* Pending connections before connect() waits: the kernel's own ceiling. */
	LISTEN_BACKLOG = 4096,
	/* fds that clients do not get: a dozen of our own, and some for admins. */
	OWN_FDS = 48,
	/* Calls of one tenant that the kernel has not answered: two parts of a request, so that the kernel is never idle. */
	BACKLOG_MAX = 100,
	/* Dead events on a stream that do not matter: below this number no new stream is begun. */
	STREAM_DEAD_MIN = 64,
	/* Events on one stream of the kernel's, and at most a batch more: beyond, each costs noticeably more than the last. */
	STREAM_EVENTS_MAX = 256,
	/* Streams of one cgroup that are kept for programs that start again: a few users', or a few programs'. */
	KEPT_MAX = 16,
	/* Levels without a tenant whose request rates are kept: as many as come and go in a minute. */
	RESTING_MAX = 1024,
	/* Lingering streams of one tenant that are all polled once a second; more are polled less often. */
	LINGER_PER_SECOND = 64,
	/* Polls of lingering streams in a second: each is a walk along the locks of all data files, 20 µs with a thousand. */
	LOOKS_PER_SECOND = 250,
	/* … with the embedded backend, where each is a poll(2). */
	LOOKS_OWN = 2500,
	/* … of which so many at once. */
	LOOKS_AT_ONCE = 50,
	/* Bytes that are freed before malloc_trim(3); and the bytes that it keeps. */
	TRIM_LEAST = 16 << 10,
	TRIM_PAD = 128 << 10,
	/* Attempts to connect to a keeper at the start: one that is out of memory may be replaced. */
	KEEPER_TRIES = 3,
	KEEPER_START_TRIES = 600, /* half a minute */
	/* Rules of admins about tenants and events: all events of a large service for a few tenants, 4 KiB each at most. */
	SILENCE_RULES_MAX = 4096,
	/* Events and grants that are compared with these in one turn of the loop: a quarter of a millisecond. */
	SILENCE_AT_ONCE = 4096,
	/* Attempts to tell the kernel, LATER_INTERVAL apart: a second. */
	SILENCE_TRIES = 50,
	/* Patterns of tenants in one request, so that the answer has room for their paths. */
	SILENCE_PATTERNS_MAX = 16,
	/* Bytes of the records that wait for those who read a tenant's own traces: the buffers of four sockets, as most machines have them. */
	DEFAULT_MAX_TRACE_BYTES = 1 << 20,
	/* Grants that are compared with their tenant's traces in one turn of the loop: three system calls each with the embedded backend. */
	TRACED_AT_ONCE = 16,
	/* Sockets of traces that lie unread with one program: the others come when it makes a request. */
	TRACES_UNREAD_MAX = 8,
	/* Clients of a blocked tenant that are disconnected in one turn: each is a few system calls, as those that are delayed. */
	EXPELLED_AT_ONCE = 16,
	/* Bits in one CHANGED; for more it tells the client to look at all. */
	CHANGED_MAX = 64,
};

/* Seconds. */
#define STATUS_INTERVAL	  1.0  /* between lines for systemctl status */
#define LOOK_INTERVAL	  5.0  /* between reads of the kernel's list of events, which take milliseconds */
#define REFUSALS_INTERVAL 60.0 /* between lines of the log about the same kind of refusal of one tenant */
#define THROTTLE_LEAST	  0.01 /* between looks at tenants over their request rate */
#define WAITING_INTERVAL  0.1  /* between looks at tenants with too many requests under way or answers unread */
#define LATER_INTERVAL	  0.02 /* after ETOOMANYREFS: other receivers have to take fds first */
#define TRIM_INTERVAL                                                                                                  \
	0.25 /* until malloc_trim(3) returns as much as was freed meanwhile: which takes it milliseconds */
#define REST_INTERVAL	1.0    /* between looks at levels without a tenant */
#define TURN_TIME	0.0001 /* of handling requests in one turn of the loop */
#define ACCEPT_BACKOFF	0.1    /* after EMFILE: long enough not to spin, short enough not to be noticed */
#define BORDER_INTERVAL 1.0    /* between looks at the delegation of cgroups with clients */
#define DEFER_INTERVAL	0.05   /* until new connections are deposited: the shortest programs have ended by then */
#define DEPOSIT_TIMEOUT 1.0    /* for the keeper's answers, at the daemon's end */
#define PAGES_INTERVAL	0.05   /* between looks at watched pages: a person does not notice */
#define KEEPER_INTERVAL 0.05   /* between attempts to connect to the next keeper: a restart takes longer */
#define KEEPER_PAUSE	1.     /* … after a keeper that ended within that time */
#define PROBE_INTERVAL	10.0   /* between probes of unguarded data files */
#define SETTLE_INTERVAL 0.01   /* before a name that the kernel is about to free is asked for again */
#define SETTLE_TRIES	10     /* … after which the name counts as taken; the kernel needs some milliseconds */
#define LINGER_FIRST	0.02   /* a process that ends closes its fds one after the other */
#define LINGER_LAST	1.0    /* a charge is refunded within two seconds of the last close */
#define LINGER_MOST	8.0    /* … with many lingering streams of one tenant: within ten */
