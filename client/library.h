/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the library's files share. One mutex of the whole process guards all of it (lock.c), except what userev_enabled(),
 * userev_writev() and userev_lost() touch: an event's three words, the grant it points to, and the atomics.
 */

#include <stdatomic.h>
#include <sys/queue.h>

#include "client/userev.h"
#include "protocol/fdset.h"
#include "protocol/wire.h"

#define _public_ __attribute__((visibility("default")))

/* How long a program waits for the daemon's accept and for each of its answers. Tests have less of it. */
extern int library_patience_ms;

/* An open data file. Grants hold it, and the list of its connection. */
struct stream {
	unsigned holders;
	struct userev *userev;
	uint32_t number;
	uint32_t payload_max;
	int fd; /* never another number: a thread may be about to write to it */
	LIST_ENTRY(stream) entry;
};

LIST_HEAD(streams, stream);

/*
 * What an event needs for writing, all behind one pointer, so that nobody ever writes an index to a stream that it does not
 * belong to. Immutable once published, and kept until the event is released.
 */
struct userev_grant {
	struct claim *claim;
	struct stream *stream; /* NULL: no daemon has granted it */
	uint32_t index;
	const char *name;	    /* in the same allocation */
	struct userev_grant *older; /* from a former connection; others may be writing through it */
};

/* One registered struct userev_event, from its registration to its release. */
struct claim {
	struct userev *userev;
	struct userev_event *event;
	struct userev_grant waiting;	   /* what the event points to while it is not granted */
	struct userev_grant *newest;	   /* and the older ones behind it */
	uint32_t bit;			   /* that this connection granted; 0: none */
	struct userev_registration *asked; /* by the call that is running; else NULL */
	TAILQ_ENTRY(claim) entry;
	uint16_t flags;
	uint16_t length;
	char description[];
};

TAILQ_HEAD(claims, claim);

/* Why a registration was refused. */
struct sentence {
	SLIST_ENTRY(sentence) entry;
	char text[];
};

SLIST_HEAD(sentences, sentence);

struct losses {
	_Alignas(8) _Atomic uint64_t queue_full;
	_Alignas(8) _Atomic uint64_t too_big;
};

struct userev {
	LIST_ENTRY(userev) entry;
	char socket[108]; /* as long as an address can be; "" for the usual places */

	bool up;	   /* welcomed, and not hung up on since */
	_Atomic pid_t pid; /* who made the connection: after a fork, not we */
	_Atomic int fd;	   /* -1 before the first welcome; then always the same number, which losses_report() needs */
	uint32_t serial;
	struct wire_welcome limits;
	uint8_t *page;		 /* one address for ever; NULL before the first welcome */
	uint32_t *users;	 /* of each bit: how many claims share the lease on it */
	struct streams streams;	 /* of this connection */
	struct streams outdated; /* of former ones, in use until all is claimed anew */

	struct claims claims;
	struct claim *waiting; /* the first that this connection was not asked for; all behind it wait, too */
	uint16_t batch_max;    /* claims that we put into one request: fewer once an answer was late */
	struct sentences sentences;

	struct losses losses;
	struct losses unreported;
	_Atomic uint32_t reported_at; /* milliseconds */
};

/* lock.c */
struct entered {
	int saved_errno;
	int cancel_state;
};

/* Takes the mutex and remembers errno; leaving gives both back. */
struct entered library_enter(void);
void library_leave(struct entered *);
#define ENTER_LIBRARY _cleanup_(library_leave) struct entered entered_ _unused_ = library_enter()
/* From now on a fork's child drops the connection that it inherits. 0 or -ENOMEM. */
int library_adopt(struct userev *);
void library_disown(struct userev *);

/* connection.c */
struct reply {
	struct message message;
	struct fdset fds;
};

void reply_deinit(struct reply *);
/* Sees to it that there is a connection, a new one if need be: then all claims are waiting. 0 or a negative errno. */
int connection_open(struct userev *);
bool connection_is_up(const struct userev *);
/* Hangs up. What was granted goes on as far as the kernel carries it. */
void connection_drop(struct userev *);
/* Forgets a connection that is our parent's. */
void connection_abandon(struct userev *);
/*
 * Sends a request and waits for its answer, into a buffer that may be the request's own; keeps the streams that come with
 * it. 0, or a negative errno, and the connection is dropped.
 */
int connection_request(struct userev *, const struct packet *, uint16_t answer, void *buffer, size_t size,
		       struct reply *ret);

/*
 * The same in two steps, so that something can be asked before the last answer has come: the answers come in the order of the
 * requests. What is sent at once may find no room; false then, and nothing has happened.
 */
int connection_send(struct userev *, const struct packet *);
bool connection_send_at_once(struct userev *, const struct packet *);
int connection_receive(struct userev *, uint16_t answer, uint32_t serial, void *buffer, size_t size, struct reply *ret);

/* page.c */
/* Maps the page, or puts it in the place of the one that is mapped at `*page`. -EPROTO where it is no page. */
int page_map(int fd, uint8_t **page);
void page_unmap(uint8_t *page);
/* Whether records may go there: they can neither block nor raise a signal. */
bool fd_is_data_file(int fd);

/* stream.c */
int fd_above_stdio(int fd);
/* Moves the fds from `position` on into new streams. 0 or a negative errno. */
int streams_take(struct userev *, struct reply *, size_t position, struct streams *to);
struct stream *streams_find(struct streams *, uint32_t number);
struct stream *stream_ref(struct stream *);
struct stream *stream_unref(struct stream *);
/* Closes those on which nothing is held any more: the daemon sends them again when it needs them. */
void streams_tidy(struct streams *);
void streams_free(struct streams *);
/* The same, where grants still refer to them: the files are closed, and writers write to nowhere. */
void streams_retire(struct streams *);

/* register.c */
/* Asks for all that wait; `buffer` has WIRE_PACKET_MAX bytes. 0, or a negative errno, and the connection is dropped. */
int claims_ask(struct userev *, uint8_t *buffer);
/* The event is off, and not registered. */
void claim_free(struct claim *);
void sentences_free(struct sentences *);

/* write.c */
/* Tells the daemon what was lost since the last time. Async-signal-safe, from any thread. */
void losses_report(struct userev *);

/* event.c */
/* The sentence that userev_refusal() returns to this thread. */
void refusal_set(const char *text, size_t length);
