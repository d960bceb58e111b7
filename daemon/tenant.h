/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The unit of trust and accounting: a cgroup, with its status page and what it is charged for. */

#include <sys/queue.h>

#include "daemon/quota.h"
#include "daemon/stream.h"
#include "daemon/turns.h"
#include "protocol/refusal.h"
#include "protocol/table.h"

struct daemon;
struct client;
struct grant;
struct page_view;
struct peer;

LIST_HEAD(client_list, client);

struct tenant {
	struct daemon *daemon;
	uint32_t number; /* of its page, too */
	char *path;
	uint64_t cgroup_id;
	struct quota quota;	/* of events */
	struct page_view *view; /* of the page, while somebody watches */
	int page_fd;		/* read-only, for its clients; -1 until the first one says hello */

	struct client_list clients;
	uint32_t connections;
	struct client_queue ready; /* with something to say */
	TAILQ_ENTRY(tenant) turn;  /* while there are such */
	uint32_t streams;
	struct sharing_list sharing; /* streams that serve more than one client, the newest first */
	struct grant *grants;	     /* table by event */
	uint32_t lingering;	     /* grants without a lease */

	uint64_t lost;
	uint64_t too_big;
	uint64_t refusals[REFUSAL_MAX_];

	UT_hash_handle by_identity;
	UT_hash_handle by_number;
	char identity[]; /* "id:path" */
};

/* Finds or makes the tenant that the peer belongs to. 0, or -ENOMEM. It lives as long as somebody holds it. */
int tenant_of_peer(struct daemon *, const struct peer *, struct tenant **ret);
struct tenant *tenant_by_number(struct daemon *, uint32_t number);

/* Frees the tenant if nothing is left that holds it: no connection, no grant and no stream. */
void tenant_release(struct tenant *);
