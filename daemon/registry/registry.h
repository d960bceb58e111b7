/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Ownership: all tenants, events and data files, and what they are charged to. Nothing here knows of connections. */

#include <ev.h>

#include "daemon/identity/cgroup.h"
#include "daemon/options.h"
#include "daemon/process/bucket.h"
#include "daemon/process/log.h"
#include "daemon/process/memory.h"
#include "daemon/quota/level.h"
#include "daemon/quota/reserve.h"
#include "daemon/registry/id_table.h"
#include "kernel/kernel.h"
#include "protocol/refusal.h"

LIST_HEAD(grant_list, grant);
LIST_HEAD(holder_list, holder);
LIST_HEAD(reference_list, reference);
LIST_HEAD(share_list, share);
LIST_HEAD(sharing_list, stream);
LIST_HEAD(expelled_list, tenant);
LIST_HEAD(own_trace_list, own_trace);
TAILQ_HEAD(settling_list, settling);
TAILQ_HEAD(tenant_queue, tenant);

/* Foreign events in the kernel's list, when it was read last. Ours came and went while it was read. */
struct foreign_count {
	uint32_t least;
	uint32_t most;
	uint32_t ours;		  /* events, when the kernel was asked */
	uint32_t registering;	  /* calls of REGISTER that are under way */
	uint32_t was_registering; /* when the kernel was asked */
};

struct registry {
	struct ev_loop *loop;
	struct kernel *kernel;
	struct ledger *ledger; /* for the next daemon; NULL: no keeper keeps it */
	uint64_t last_number;  /* of a client, a grant, a set of leases */
	struct cgroups cgroups;

	/* Set by connection/: disconnects a client; notes that one of its events was turned on or off, or that it gets a trace's socket. */
	void (*disconnect)(struct holder *, uint32_t refusal, const char *sentence);
	void (*changed)(struct holder *, uint32_t bit);
	void (*traced)(struct holder *, unsigned slot);

	const struct options *options;

	struct policy *policy;
	unsigned generation;		  /* of the policy */
	struct declared *declared;	  /* the events that the policy declares; NULL: none */
	struct declared *declared_before; /* of the last policy, until the kernel has registered these */
	bool declaring;			  /* the kernel is being asked for them */

	struct natives *natives;	  /* programs that register by themselves; NULL: the policy has none */
	struct silence *silence;	  /* rules that keep bits off; NULL: there never was any */
	struct expelled_list expelling;	  /* blocked tenants whose clients are being disconnected */
	struct own_trace_list own_traces; /* all of them */
	struct tenant_queue walks;	  /* tenants whose grants are compared with their traces; see own_trace.c */

	struct machine machine;
	struct machine files;		  /* the same for data files */
	struct section_reserve *reserves; /* table by pattern */
	struct summary *summaries;	  /* table by section */
	struct level *levels;		  /* table by path */
	struct level_queue resting;	  /* see resting.c */
	unsigned n_resting;
	uint32_t kernel_maximum; /* events that the kernel takes */
	uint32_t foreign;	 /* foreign events among them */
	double looked;		 /* when the kernel was asked for both */
	bool looking;		 /* the kernel is being asked */
	struct foreign_count others;

	struct tenant *tenants; /* table by number */
	struct event *events;	/* table by key; its order, of insertion, is that of numbers */
	struct event
		*event_cursor;	/* for event_after(): an event that is not behind the last one it has found; or NULL */
	struct stream *streams; /* table by number */
	struct stream_list lingering; /* streams without a client */
	struct stream_list ending;    /* streams that are being freed */
	struct tenant_queue looks;    /* with lingering streams that the kernel is to be asked about */
	struct bucket look_tokens;
	struct tenant_list unwatched;  /* tenants with streams that linger unguarded */
	struct settling_list settling; /* requests that are continued in a moment, in order of time */
	bool guarded;		       /* the last proof of a stream showed the guard */
	uint32_t last_tenant;
	uint32_t last_stream;
	uint64_t last_event;
	uint32_t n_events;
	uint32_t leases;
	uint32_t n_holders;
	uint32_t n_streams;
	unsigned copies; /* fds on their way to the keeper, or that are closed when it has closed its own */

	uint64_t lost; /* records, by all programs that ever reported */
	uint64_t too_big;
	struct refusal_told refusals_told[REFUSAL_MAX_]; /* of all peers without a tenant */
	struct memory memory;

	ev_timer w_linger;
	ev_timer w_pages; /* while a client watches a page whose changes the kernel does not report */
	ev_timer w_probe; /* while there are streams that nothing guards */
	ev_timer w_settling;
	ev_timer w_rest;  /* while levels rest */
	ev_timer w_walks; /* while there are walks */
};
