/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The unit of trust and accounting: a cgroup, with its status page and the events and files charged to it. */

#include "daemon/policy/policy.h"
#include "daemon/registry/registry.h"
#include "daemon/registry/summary.h"
#include "protocol/base/table.h"
#include "protocol/refusal.h"

struct peer;

TAILQ_HEAD(client_queue, client);

#define TENANT_OF_POLICY SUMMARY_OF_POLICY /* no cgroup has this path: it does not begin with a slash */

/* The policy's rules for it; rules.c keeps them up to date. */
struct rules {
	struct policy *policy; /* NULL: nothing is known yet */
	struct policy_rules values;
	struct reserve *reserve[POLICY_LEVELS_MAX + 1]; /* that it may fill, the nearest section's first */
	size_t n_reserves;
};

enum tenant_turn {
	TURN_NONE,     /* none of its clients has sent a request */
	TURN_RUNNABLE, /* it takes turns with other tenants */
	TURN_DELAYED,  /* its request rate, memory or unread answers are at their limit */
	TURN_BACKLOG,  /* until the kernel has answered some of its calls */
};

/* Its traces of itself; see own_trace.h. */
struct own_traces {
	struct own_trace *slot[WIRE_TRACES_MAX];
	unsigned n;
	unsigned last;	    /* the slot that was taken last */
	uint32_t entry;	    /* in the ledger, while the keeper may have traced events */
	struct grant *walk; /* the next grant to be compared with them */
	bool walking;
	unsigned under_way; /* batches that the kernel has not answered */
	TAILQ_ENTRY(tenant) in_walks;
};

struct tenant {
	struct registry *registry;
	uint32_t number;  /* of its page, too */
	uint32_t entry;	  /* in the ledger */
	const char *path; /* the level's */
	uint64_t cgroup_id;
	bool is_contained; /* its cgroup is delegated, or a policy names it */
	bool is_native;	   /* its programs may register by themselves: see native/ */
	struct rules rules;
	struct summary *summary; /* NULL: there was no memory for one */
	struct level *level;	 /* pays for its events: of its path, whatever the id */
	struct page_view *view;	 /* of the page, while a client watches it */
	int page_fd;		 /* read-only, for its clients; -1 until the first one says hello */
	int page_writable; /* the same page, for a keeper that takes the place of this one; -1 where there is none */

	struct holder_list holders;
	uint32_t connections;
	bool muted; /* by rules of admins; see silence.h */
	bool blocked;
	bool expelling;		      /* its clients are being disconnected: */
	struct holder *next_expelled; /* NULL: none is left */
	LIST_ENTRY(tenant) in_expelling;
	struct client_queue ready; /* clients with a new request; see connection/scheduler.c */
	struct client_queue begun; /* clients that go on with a long one */
	bool has_begun;		   /* a new request was the last that was handled */
	enum tenant_turn turn;	   /* while there are such clients */
	TAILQ_ENTRY(tenant) in_turns;
	ev_timer w_delayed;	     /* while it is delayed */
	struct client *last_delayed; /* of the ready clients: the others are behind it */
	size_t backlog;		     /* calls that the kernel has not answered */
	uint32_t streams;
	uint32_t lingering_streams; /* of those */
	struct stream_list due;	    /* lingering streams that the kernel is to be asked about */
	TAILQ_ENTRY(tenant) look;   /* while there are such streams */
	unsigned unwatched;	    /* streams that linger unguarded */
	unsigned self_registered;   /* those of them on which a program has registered directly */
	uint32_t foreign_before;    /* the fewest foreign events since the first of them */
	LIST_ENTRY(tenant) in_unwatched;
	struct sharing_list sharing; /* streams that serve more than one client, the newest first */
	struct grant_list all_grants;
	struct own_traces traces;
	struct id_table grants;	     /* by the number of their event, but for those that are the event's first */
	unsigned n_grants;	     /* with these */
	struct precedent *precedent; /* for requests to come; NULL: none */
	uint64_t ended;		     /* counts references that have ended or are being released */
	uint32_t lingering;	     /* grants without a lease */

	uint64_t lost;
	uint64_t too_big;
	uint32_t in_flight; /* fds that its clients were sent and have not read */
	size_t waiting;	    /* bytes of requests under way, and of answers that wait for room in its clients' sockets */
	uint64_t throttled; /* requests that had to wait for tokens or room */
	uint64_t refusals[REFUSAL_MAX_];

	LIST_ENTRY(tenant) in_level;
	UT_hash_handle by_number;
};

/* Finds or makes the tenant that the peer belongs to. 0, or -ENOMEM. See tenant_release() for its end. */
int tenant_of_peer(struct registry *, const struct peer *, struct tenant **ret);
/* As tenant_of_peer(), for a process in this cgroup. */
int tenant_of_cgroup(struct registry *, const char *cgroup, struct tenant **ret);
/* The tenant of the events that the policy declares; it has no clients. */
int tenant_of_policy(struct registry *, struct tenant **ret);
/* As it was before a restart. 0 or a negative errno. */
int tenant_restore(struct registry *, uint32_t number, const char *path, uint64_t id, bool is_contained,
		   struct tenant **ret);
struct tenant *tenant_by_number(struct registry *, uint32_t number);
/* The tenant that was made next after that number, which may be free by now; NULL: none was. */
struct tenant *tenant_after(struct registry *, uint32_t number);

/* The calls that make its page, of which a keeper that outlives us makes a second copy: how many. `text` is its path, for as long. */
size_t tenant_page_calls(const struct tenant *, const char *text, struct kernel_call ret[2]);
/* Takes over what these calls have answered, unless the tenant has ended or has its page meanwhile. 0, or a negative errno. */
int tenant_take_page(struct registry *, struct kernel_call *, size_t n);

/* Frees the tenant if it has no connection, no grant and no stream. */
void tenant_release(struct tenant *);
