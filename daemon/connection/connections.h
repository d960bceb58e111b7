/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* struct client, a connection of a client or an admin, and struct connections, the state that they have in common. */

#include <ev.h>
#include <sys/queue.h>

#include "daemon/connection/duration.h"
#include "daemon/limits.h"
#include "daemon/registry/holder.h"
#include "daemon/registry/tenant.h"
#include "protocol/fdset.h"
#include "protocol/wire.h"

struct transport_from;

/* The metrics socket takes no requests. */
enum client_socket { SOCKET_CLIENTS = 1 << 0, SOCKET_CONTROL = 1 << 1, SOCKET_METRICS = 1 << 2 };

/*
 * A request that is not answered yet: the client is not read meanwhile. It waits for the kernel, unless it has `resume`: then a
 * part of it is still to be done, at the client's next turn.
 */
struct client_task {
	struct client *client; /* NULL: it has disconnected */
	void (*resume)(struct client_task *);
	void (*abandon)(struct client_task *); /* instead of `resume`, when the client has disconnected */
};

/* An answer that the socket had no room for yet. */
struct answer_waiting {
	bool is_answer; /* to its request; otherwise CHANGED */
	size_t size;
	struct fdset fds;
	uint8_t packet[];
};

enum client_life {
	LIFE_OPEN,
	LIFE_REFUSED, /* its last packet is sent, or waits; nothing is read any more */
	LIFE_CLOSING, /* to be freed at the end of this turn of the loop */
	LIFE_ENDED,   /* it holds nothing, but still counts as a connection: the peer has fds in its queue */
};

/* Why a client is not read although no request of its is under way. */
enum client_stall {
	STALL_NONE,   /* it is read as soon as it has sent something */
	STALL_TURN,   /* it waits for its turn */
	STALL_RATE,   /* likewise, and its tenant may make no request now */
	STALL_UNREAD, /* it has sent a request, and has not read the files that it was sent */
};

struct client {
	struct holder holder;
	struct connections *connections;
	int fd;
	enum client_socket socket;
	uint32_t events; /* that epoll reports; 0: its fd is not watched */
	bool has_input;	 /* an event was reported since its fd was watched last */

	enum client_life life;
	double since; /* when its deadline began; 0: it has none */

	enum client_stall stall;
	struct client_task *task; /* of the request that is not answered yet */
	struct answer_waiting *waiting;
	struct listing *listing; /* control: an answer of many packets */
	bool syncing;		 /* control: SYNC waits until all records and rows have been sent */
	uint32_t sync_serial;

	uint16_t changed[CHANGED_MAX];
	uint16_t n_changed; /* above CHANGED_MAX: it has to look at all bits */
	uint8_t untold;	    /* traces of its tenant whose sockets it was not sent yet, a bit each */
	bool flushes;	    /* it is in `flushing` */

	bool asks;	    /* its request has not been answered: */
	unsigned request;   /* its row in dispatch.c */
	double asked;	    /* when it was read */
	bool in_socket;	    /* its request is still in its socket */
	bool deferred;	    /* it is in the list of that name */
	bool may_repeat;    /* its next request may be one that the last daemon has handled already */
	bool deposited;	    /* the next daemon will find its connection, with the unread request */
	bool later;	    /* its answer waits until the daemon may send fds again */
	bool files_unread;  /* it had not read all fds that it was sent, at the last look */
	unsigned in_flight; /* fds that it was sent and may not have read */
	bool awaited;	    /* the daemon waits until it has read them */

	TAILQ_ENTRY(client) all;
	TAILQ_ENTRY(client) in_queue; /* of its tenant */
	TAILQ_ENTRY(client) deadline;
	TAILQ_ENTRY(client) changes;
	TAILQ_ENTRY(client) leaves;
	TAILQ_ENTRY(client) in_deferred;
};

static inline struct client *client_of(struct holder *holder)
{
	return container_of(holder, struct client, holder);
}

/* Whether a part of its request is still to be done, at its next turn. */
static inline bool client_goes_on(const struct client *client)
{
	return client->task && client->task->resume;
}

/* Set from above. */
struct connection_calls {
	/* Handles one packet. */
	void (*dispatch)(struct client *, const void *packet, size_t size, const struct transport_from *);
	/* There is room again in an admin's socket. */
	void (*go_on)(struct client *);
	/* The client leaves. */
	void (*leave)(struct client *);
	/* An fd was closed: accept again, if there was none left. */
	void (*fd_freed)(struct connections *);
};

struct connections {
	struct registry *registry;
	struct ev_loop *loop;
	const struct connection_calls *call;
	int failed; /* why the loop was ended: a negative errno */

	struct client_queue clients;
	struct tenant_queue runnable;  /* tenants with a client that has sent a request */
	struct client_queue impatient; /* clients with a deadline, the oldest first */
	struct client_queue flushing;  /* clients that are to be told of changed events or of traces */
	struct client_queue leaving;   /* clients to be freed at the end of this turn of the loop */
	struct client_queue deferred;  /* clients to be looked after in a moment */
	uint32_t in_flight;	       /* fds that clients were sent and have not read */
	bool keeper_has_gone;	       /* its successor has no pages and files yet */

	ev_idle w_busy; /* while clients wait for their turn, or something is to be freed */
	ev_timer w_deadlines;
	ev_timer w_deferred;

	struct durations durations[DURATION_KINDS]; /* of each row in dispatch.c */

	struct packet answer; /* the one that is being written, into: */
	uint8_t answer_buffer[WIRE_PACKET_MAX];
	uint8_t request[WIRE_PACKET_MAX];
};
