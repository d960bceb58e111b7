/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Owns everything; start and stop order in one place. */

#include <ev.h>

#include "daemon/cgroup.h"
#include "daemon/client.h"
#include "daemon/event.h"
#include "daemon/listener.h"
#include "daemon/options.h"
#include "daemon/quota.h"
#include "daemon/stream.h"
#include "kernel/kernel.h"
#include "kernel/probe.h"
#include "kernel/roster.h"

struct tenant;

struct daemon {
	struct options options;
	struct ev_loop *loop;
	struct probe probe;
	struct kernel *kernel;
	pid_t keeper;	  /* whom we started for it; 0: nobody */
	bool guarded;	  /* the last stream that was looked at */
	pid_t janitor;	  /* who removes the sockets' files; 0: we do */
	int janitor_pipe; /* it ends when this does */
	struct cgroups cgroups;
	ev_tstamp started;

	struct listener clients_listener;
	struct listener control_listener;

	/* The ledger: who holds what. */
	struct quota machine;
	struct tenant *tenants;		  /* table by identity */
	struct tenant *tenants_by_number; /* the same ones */
	struct event *events;		  /* table by key */
	struct roster event_roster;	  /* the same ones, by number */
	struct grant_list persistent;	  /* those that the kernel keeps */
	struct stream *streams;		  /* table by number */
	struct stream_list lingering;	  /* streams without a client */
	uint32_t last_tenant;
	uint32_t last_stream;
	uint64_t last_event;
	uint32_t leases;

	struct tenant_queue turns; /* who has something to say */
	struct client_queue clients;
	struct client_queue impatient; /* who has a deadline, the oldest first */
	struct client_queue flushing;  /* who has changes to be told */
	uint32_t connections;	       /* of clients, not of admins */
	uint64_t records_told;	       /* of the ring, to those who tail */
	bool closing;		       /* some client is marked */
	int failed;		       /* why it ends by itself: a negative errno */
	uint64_t lost;		       /* records, by all who ever reported */
	uint64_t too_big;

	ev_io w_kernel;
	ev_timer w_linger;
	ev_timer w_pages; /* while somebody watches pages that nobody tells us about */
	ev_timer w_probe; /* while there are streams that nobody guards */
	ev_timer w_deadlines;
	ev_prepare w_turn;
	ev_signal w_terminate;
	ev_signal w_interrupt;

	struct packet answer; /* the one that is being written, into: */
	uint8_t answer_buffer[WIRE_PACKET_MAX];
	uint8_t request[WIRE_PACKET_MAX];
};

/* 0, or a negative errno after a line in the log; nothing is left behind then. */
int daemon_new(const struct options *, struct daemon **ret);
/* Until a signal ends it: 0, or a negative errno. */
int daemon_run(struct daemon *);
struct daemon *daemon_free(struct daemon *);

/* A stream began to linger: look after it from time to time. */
void daemon_watch_lingering(struct daemon *);
/* There is a stream that nobody guards: probe it from time to time. */
void daemon_watch_strangers(struct daemon *);
/* The list of deadlines changed. */
void daemon_watch_deadlines(struct daemon *);
/* Whether there are fds left for clients; the last ones are kept for admins and for ourselves. */
bool daemon_has_fds(const struct daemon *);
/* An fd was closed: accept again, if that was what was missing. */
void daemon_fd_freed(struct daemon *);

/* Counts a refusal, and logs the first of its kind for each tenant. The tenant and the event may be NULL. */
void daemon_refused(struct daemon *, struct tenant *, const char *event, uint32_t refusal, const char *sentence);
