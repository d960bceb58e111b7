/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The unit of trust and accounting: a cgroup, with its status page and what it is charged for. */

#include "daemon/policy/policy.h"
#include "daemon/registry/registry.h"
#include "protocol/base/table.h"
#include "protocol/refusal.h"

struct bundle;
struct client;
struct holder;
struct grant;
struct page_view;
struct parking;
struct peer;
struct reserve;

TAILQ_HEAD(client_queue, client);

#define TENANT_OF_POLICY "policy" /* made up, as whoever looks can tell */

/* What the policy says of it; rules.c keeps it up to date. */
struct rules {
	struct policy *policy; /* NULL: nothing is known yet */
	struct policy_rules values;
	uint32_t max_connections;
	struct reserve *reserve[POLICY_LEVELS_MAX + 1]; /* that it may fill, the nearest section's first */
	size_t n_reserves;
};

struct tenant {
	struct registry *registry;
	uint32_t number; /* of its page, too */
	char *path;
	uint64_t cgroup_id;
	bool is_contained; /* its cgroup was given away, or a policy names it: not just some part of this machine */
	struct rules rules;
	struct level *level;	/* pays for its events: of its path, whatever the id */
	struct page_view *view; /* of the page, while somebody watches */
	int page_fd;		/* read-only, for its clients; -1 until the first one says hello */
	int page_writable; /* the same page, for a keeper that takes the place of this one; -1 where there is none */

	struct holder_list holders;
	uint32_t connections;
	struct client_queue ready; /* with something to say; see connection/turns.c */
	struct client_queue held;  /* until the kernel has answered some of: */
	size_t backlog;		   /* calls */
	TAILQ_ENTRY(tenant) turn;  /* while there are such */
	uint32_t streams;
	uint32_t lingering_streams; /* of those */
	struct stream_list due;	    /* of those, to be looked at */
	TAILQ_ENTRY(tenant) look;   /* while there are such */
	unsigned unwatched;	    /* streams that linger unguarded */
	unsigned strangers;	    /* of these, those on which a program has registered by itself */
	uint32_t foreign_before;    /* the fewest foreign events since the first of them */
	LIST_ENTRY(tenant) in_unwatched;
	struct sharing_list sharing; /* streams that serve more than one client, the newest first */
	struct grant *grants;	     /* table by event */
	struct bundle *bundles;	     /* table by what was asked for */
	size_t bundle_bytes;	     /* of all that there are, listed or not */
	struct parking *parkings;    /* table by what is asked for */
	uint32_t lingering;	     /* grants without a lease */

	uint64_t lost;
	uint64_t too_big;
	unsigned deciding;  /* clients of whom a part of a long request is decided */
	uint32_t in_flight; /* fds that its clients were sent and have not read */
	size_t waiting;	    /* bytes of requests under way, and of answers that wait for room in its clients' sockets */
	uint64_t throttled; /* so often somebody had to stand aside */
	uint32_t let_go;    /* of those, in this look at them */
	uint64_t refusals[REFUSAL_MAX_];

	UT_hash_handle by_identity;
	UT_hash_handle by_number;
	char identity[]; /* "id:path" */
};

/* Finds or makes the tenant that the peer belongs to. 0, or -ENOMEM. It lives as long as somebody holds it. */
int tenant_of_peer(struct registry *, const struct peer *, struct tenant **ret);
/* The same for whoever is, or might be, in this cgroup. */
int tenant_of_cgroup(struct registry *, const char *cgroup, struct tenant **ret);
/* The one that has what the policy declares: no program is of it. */
int tenant_of_policy(struct registry *, struct tenant **ret);
/* As it was before a restart. 0 or a negative errno. */
int tenant_restore(struct registry *, uint32_t number, const char *path, uint64_t id, bool is_contained,
		   struct tenant **ret);
struct tenant *tenant_by_number(struct registry *, uint32_t number);
/* The one that came next after that number, which may be in use no more; NULL: none has. */
struct tenant *tenant_after(struct registry *, uint32_t number);

/* Frees the tenant if nothing is left that holds it: no connection, no grant and no stream. */
void tenant_release(struct tenant *);
