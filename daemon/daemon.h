/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Owns everything; start and stop order in one place. */

#include <ev.h>

#include "daemon/admin/metrics_socket.h"
#include "daemon/connection/client.h"
#include "daemon/connection/listener.h"
#include "daemon/identity/cgroup.h"
#include "daemon/options.h"
#include "daemon/process/log.h"
#include "daemon/process/systemd.h"
#include "daemon/quota/level.h"
#include "daemon/quota/reserve.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/event.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/stream.h"
#include "kernel/kernel.h"
#include "kernel/probe.h"
#include "protocol/refusal.h"

struct declared;
struct ledger;
struct policy;
struct reload;
struct section_reserve;
struct tenant;

struct daemon {
	struct options options;
	struct ev_loop *loop;
	struct probe probe;
	struct kernel *kernel;
	pid_t keeper;	      /* whom we started for it; 0: nobody */
	bool guarded;	      /* the last stream that was looked at */
	bool declaring;	      /* the kernel is asked for what the policy declares */
	bool keeper_has_gone; /* and the next one has not been told anything yet */
	double keeper_came;   /* in the place of another; daemon_now() */
	char pages[PATH_MAX]; /* the directory of ours that they are in; "": none */
	pid_t janitor;	      /* who removes the sockets' files; 0: we do */
	int janitor_pipe;     /* it ends when this does */
	struct cgroups cgroups;
	double started; /* by a clock that nobody sets, as are all such times */

	struct systemd_sockets handed_over; /* until they are listeners */
	struct listener client_listeners[CLIENT_LISTENERS_MAX];
	size_t n_client_listeners;
	struct listener control_listener;
	struct metrics_socket metrics;
	struct systemd systemd;

	struct policy *policy;
	struct reload *reload;
	unsigned generation;		  /* of the policy */
	struct declared *declared;	  /* the events that are in it; NULL: there are none */
	struct declared *declared_before; /* until the kernel has those */

	struct ledger *ledger; /* of what follows, for the next daemon; NULL: nobody keeps it */
	uint64_t last_number;  /* of a client, a grant, a holder of leases */

	/* Who holds what. */
	struct machine machine;
	struct machine files;		  /* the same for data files, each of which is one */
	uint32_t kernel_maximum;	  /* events that the kernel takes */
	uint32_t foreign;		  /* of them that are others' */
	double looked;			  /* when that was seen */
	bool looking;			  /* at it just now */
	struct foreign_count others;	  /* the same in bounds */
	struct section_reserve *reserves; /* table by pattern */
	struct level *levels;		  /* table by path */
	struct tenant *tenants;		  /* table by identity */
	struct tenant *tenants_by_number; /* the same ones */
	struct event *events;		  /* table by key; its order, of insertion, is that of numbers */
	struct event *event_cursor;	  /* the event that was found last, or one before it; or NULL */
	struct grant_list persistent;	  /* those that the kernel keeps */
	struct stream *streams;		  /* table by number */
	struct stream_list lingering;	  /* streams without a client */
	struct tenant_queue looks;	  /* with some of those that it is time to look at */
	struct bucket look_tokens;
	struct settling_list settling; /* calls that are asked again in a moment, the next first */
	struct tenant_list unwatched;  /* tenants with streams that linger unguarded */
	uint32_t last_tenant;
	uint32_t last_stream;
	uint64_t last_event;
	uint32_t leases;
	unsigned copies; /* fds on their way to the keeper, or that are closed when it has closed its own */

	struct tenant_queue turns;     /* who has something to say */
	struct client_queue throttled; /* who has asked too much, and stands aside */
	double asked_who_has_left;     /* of those, all */
	struct level_queue resting;    /* whose tenants have gone, and had asked much */
	unsigned n_resting;
	struct client_queue clients;
	struct client_queue impatient; /* who has a deadline, the oldest first */
	struct client_queue flushing;  /* who has changes to be told */
	struct client_queue leaving;   /* who is freed at the end of this turn */
	struct client_queue later;     /* whose answers wait until fds can be sent again */
	uint32_t in_flight;	       /* fds that clients were sent and have not read */
	uint32_t connections;	       /* of clients, not of admins */
	uint64_t records_told;	       /* of the ring, to those who tail */
	int failed;		       /* why it ends by itself: a negative errno */
	uint64_t lost;		       /* records, by all who ever reported */
	uint64_t too_big;
	struct refusal_told refusals_told[REFUSAL_MAX_]; /* of peers without a tenant, all together */

	ev_io w_kernel;
	ev_timer w_succession; /* while there is no keeper */
	ev_timer w_linger;
	ev_timer w_pages; /* while somebody watches pages that nobody tells us about */
	ev_timer w_probe; /* while there are streams that nobody guards */
	ev_timer w_settling;
	ev_timer w_deadlines;
	ev_timer w_later;
	ev_timer w_stalled; /* while too many fds are in flight for the keeper to get one */
	ev_io w_in_flight;  /* clients have read */
	ev_prepare w_turn;
	ev_idle w_busy;	     /* while somebody waits for its turn */
	ev_timer w_throttle; /* while somebody stands aside */
	ev_timer w_trim;     /* while much has been freed: */
	size_t freed;
	ev_timer w_rest; /* while levels rest */
	ev_signal w_hangup;
	ev_signal w_terminate;
	ev_signal w_interrupt;

	struct packet answer; /* the one that is being written, into: */
	uint8_t answer_buffer[WIRE_PACKET_MAX];
	uint8_t request[WIRE_PACKET_MAX];
};

/* 0; POLICY_E_WRONG, or a negative errno, after a line in the log; nothing is left behind then. */
int daemon_new(const struct options *, struct daemon **ret);
/* Until a signal ends it: 0, or a negative errno. */
int daemon_run(struct daemon *);
struct daemon *daemon_free(struct daemon *);

/* There is a stream that nobody guards: probe it from time to time. */
void daemon_watch_strangers(struct daemon *);
/* The list of deadlines changed. */
void daemon_watch_deadlines(struct daemon *);
/* Whether there are fds left for clients; the last ones are kept for admins and for ourselves. */
bool daemon_has_fds(const struct daemon *);
/* How many data files there is room for, those included that linger. Asked each time, as the limit on fds is. */
uint32_t daemon_file_capacity(void);
/* Whether so few fds are in use that some may be held for those who have gone. */
bool daemon_may_keep(const struct daemon *);
/* Waits for the kernel while something is under way; for the start alone. 0 or a negative errno. */
int daemon_await(struct daemon *, const bool *under_way);
/* An fd was closed: accept again, if that was what was missing. */
void daemon_fd_freed(struct daemon *);

/* Seconds, on a clock that nobody sets. */
double daemon_now(void);

/* Counts a refusal, and logs one of a kind for each tenant and minute. The tenant and the event may be NULL. */
void daemon_refused(struct daemon *, struct tenant *, const char *event, uint32_t refusal, const char *sentence);
