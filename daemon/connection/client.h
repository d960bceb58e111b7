/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* One connection: read a request, let it be handled, send the answer, and no second request before the first has left. */

#include <ev.h>
#include <sys/queue.h>

#include "daemon/connection/turns.h"
#include "daemon/limits.h"
#include "daemon/registry/stream.h"
#include "protocol/fdset.h"
#include "protocol/wire.h"

struct bundle;
struct daemon;
struct entry_client;
struct lease;
struct listing;
struct peer;
struct registration;
struct stream;
struct tenant;

/* On the last one nothing is asked. */
enum client_socket { SOCKET_CLIENTS = 1 << 0, SOCKET_CONTROL = 1 << 1, SOCKET_METRICS = 1 << 2 };

/* What the kernel has been asked for a client, who may leave before the answer comes: then `client` is NULL. */
struct errand {
	struct client *client;
};

/* An answer that the socket had no room for yet. */
struct answer_waiting {
	bool is_answer; /* to what it asks */
	size_t size;
	struct fdset fds;
	uint8_t packet[];
};

struct client {
	struct daemon *daemon;
	uint64_t number; /* of its connection, with the keeper */
	uint64_t holder; /* of its leases, in the ledger */
	int fd;
	enum client_socket socket;
	ev_io w_io;

	pid_t pid; /* as it was when it connected */
	uid_t uid;
	uid_t real_uid;	  /* what its packets carry: another one in a set-user-ID program */
	bool may_be_root; /* its user namespace has our uid 0 */
	char comm[16];
	struct tenant *tenant; /* NULL on the control socket */

	bool greeted;
	bool watching;
	bool closing;	/* swept at the end of this turn of the loop */
	bool cut;	/* the last packet has been sent; nothing is read any more */
	bool impatient; /* is in the list of those who have a deadline */
	bool flushing;	/* is in the list of those who have changes to be told */
	double since;

	struct lease *leases;	       /* table by bit */
	struct bundle *bundle;	       /* what else it holds */
	struct share_list shares;      /* of streams, the newest first */
	struct errand *errand;	       /* what the kernel was asked for it, or for another */
	struct registration *deciding; /* what goes on at its turn */
	struct answer_waiting *waiting;
	struct listing *listing; /* control: an answer of many packets */
	bool syncing;		 /* control: SYNC waits until all there is has been sent */
	uint32_t sync_serial;

	uint16_t changed[CHANGED_MAX];
	uint16_t n_changed; /* above CHANGED_MAX: look at all */

	bool has_turn;	    /* waits for it */
	bool throttled;	    /* stands aside */
	bool asks_again;    /* what has been counted already */
	bool held;	    /* waits until the kernel has answered others of its tenant */
	bool asks;	    /* something that is still in its socket: it is taken out when the answer leaves */
	bool kept;	    /* its connection is the next daemon's */
	bool ended;	    /* nothing is left of it but its place, while the peer has fds in its queue */
	bool later;	    /* its answer waits until the daemon may send fds again */
	bool stalled;	    /* it asks on, and has not read the files that it was sent */
	bool files_unread;  /* since it was sent files: as of the last look */
	unsigned in_flight; /* fds that it was sent, and that are not known to be read */
	bool repeats;	    /* its last HELLO may have been answered by the daemon before this one */

	TAILQ_ENTRY(client) all;
	TAILQ_ENTRY(client) turn;
	TAILQ_ENTRY(client) aside;
	TAILQ_ENTRY(client) held_back;
	TAILQ_ENTRY(client) deadline;
	TAILQ_ENTRY(client) changes;
	TAILQ_ENTRY(client) leaves;
	TAILQ_ENTRY(client) again_later;
	LIST_ENTRY(client) in_tenant;
	LIST_ENTRY(client) in_bundle;
};

void clients_init(struct daemon *);
/* Takes over the connection. 0, or a negative errno (and the fd is still the caller's). The tenant is NULL for control. */
int client_new(struct daemon *, int fd, enum client_socket, const struct peer *, struct tenant *);
/* As it was before a restart; likewise. */
int client_restore(struct daemon *, int fd, uint64_t number, const struct entry_client *, struct tenant *);
/* Marks it: it is freed at the end of this turn, so that whoever is handling it can go on. */
void client_close(struct client *);
/* Takes one request from it, if it has one. */
void client_take_request(struct client *);
/* Frees all that are marked. */
void clients_sweep(struct daemon *);
/* Frees it at once; at the daemon's end. */
void client_free(struct client *);

/*
 * Begins the answer to the request with that serial, in the daemon's one buffer for answers: fill it, then client_send().
 */
struct packet *client_answer(struct client *, uint16_t kind, uint32_t serial, uint8_t flags);

/* Sends what client_answer() began, with copies of the fds, now or as soon as there is room. */
void client_send(struct client *, const int *fds, size_t n);

/* After our last words on it, which the other side is to hear. The fd stays the caller's. */
void connection_end(struct daemon *, int fd);
/* Tells why in one last ERROR packet and cuts the connection off. */
void client_cut(struct client *, uint32_t serial, uint32_t refusal, const char *format, ...) _printf_(4, 5);
/* The same for a refusal that has been counted, and logged, already. */
void client_cut_counted(struct client *, uint32_t serial, uint32_t refusal, const char *sentence);

/* An event of this client changed; it is told once at the end of this turn. */
void client_note_change(struct client *, uint32_t bit);
/* Anything may have. */
void client_note_all(struct client *);
/* Tells all who have something to be told. */
void clients_flush_changes(struct daemon *);

/* Cuts those off whose time is up. */
void clients_expire(struct daemon *);

/* It has been welcomed: from now on it may be silent for as long as it likes. */
void client_greet(struct client *);

/* The client is not read until the errand ends; errand_end() says whose it was, if anybody's. */
void errand_begin(struct errand *, struct client *);
struct client *errand_end(struct errand *);

/* It has read all that it was sent. May free it. */
void client_has_read(struct client *);
/* What it waits for may have changed: watch its fd accordingly. */
void client_watch(struct client *);
