/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A stream: an open data file with events registered on it. It is passed to one client, or, where the guard prevents programs
 * from registering on it themselves, to all clients of one tenant and user. A client has it as long as it leases an event
 * there. It outlives its clients as long as a copy of the file is open anywhere; the events registered on it are charged
 * until then. Events can't be removed from a stream, so streams come in generations: one with more dead events than live ones
 * is given to no new client; one with many events takes no more.
 *
 * With KeepFor= in the policy, a stream without a client is kept for that time, and serves the next client if it is shared.
 */

#include <ev.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/quota/charge.h"
#include "daemon/registry/registry.h"
#include "protocol/base/table.h"

struct stream {
	struct registry *registry;
	struct tenant *tenant; /* whose page it needs */
	struct quota_event account;
	struct quota_charge charge; /* of the file, until the kernel has let it go */
	uid_t uid;		    /* whose programs it is for */
	uint32_t number;
	uint32_t entry;		    /* in the ledger */
	uint64_t place;		    /* of its lock, for the next keeper */
	int fd;			    /* open while more clients may get it, or the first one has not got it yet */
	bool made;		    /* the kernel has made it */
	bool shared;		    /* is in the tenant's list of streams that serve all clients of a user */
	bool self_registered;	    /* a program has registered events on it directly, and that was logged */
	bool unwatched;		    /* it lingers, and nothing guards it */
	bool closed;		    /* the kernel's part has no copy of its own any more */
	int failed;		    /* the error of the kernel that did not make it, for waiting requests */
	unsigned users;		    /* shares, and requests that are about to have a share */
	unsigned live;		    /* references with a lease */
	bool kept;		    /* in the list of its level */
	bool sent;		    /* a client was sent the file, and may still have a copy after it has left */
	bool lingers;		    /* see linger.c */
	bool ends;		    /* it is being freed */
	bool is_due;		    /* in the list of its tenant, to be looked at */
	struct id_table references; /* by bit */
	LIST_ENTRY(stream) sharing;
	TAILQ_ENTRY(stream) idle; /* while users == 0: it is kept, lingers or ends */
	TAILQ_ENTRY(stream) due;
	ev_timer w_idle;   /* kept: its end. Lingers: the next poll */
	double look_after; /* the last look: seconds */
	UT_hash_handle by_number;
};

/*
 * A new stream for one user of a tenant; `ret_call` makes it in the kernel. It has one user, the caller. 0; a positive enum
 * refusal, with a sentence; or -ENOMEM.
 */
int stream_new(struct tenant *, uid_t, struct kernel_call *ret_call, struct stream **ret, struct text *why);
/* The kernel's answer to that call: 0, or why there is no such stream, a negative errno. */
int stream_came(struct stream *, struct kernel_call *);
/* As stream_came(), for a file that is to be sent to a client: also STREAM_E_UNGUARDED. */
int stream_made(struct stream *, struct kernel_call *);
enum { STREAM_E_UNGUARDED = 1 };

/* A stream of the last daemon, with one user, the caller. NULL: no memory, or the number is taken. */
struct stream *stream_restore(struct tenant *, uid_t, uint32_t number, bool self_registered);
/* … and with its file, which is taken over. */
void stream_resume(struct stream *, int fd);

/* NULL: there is no such stream. */
struct stream *stream_by_number(const struct registry *, uint32_t number);
/* The stream on which the client's next event is to be registered; NULL: a new stream. */
struct stream *stream_for(const struct holder *);
/*
 * Whether the client may use the events registered there: the stream is shared, for this user, and has not too many dead
 * events.
 */
bool stream_may_serve(const struct stream *, const struct holder *);

/* Keeps it from lingering. */
struct stream *stream_use(struct stream *);
/* The opposite: with the last user it is kept for a while, or lingers until the kernel says that no copy is open any more. */
void stream_unuse(struct stream *);

/*
 * Whether its file must not be sent: it fails the proof, and either the guard is required or others have the file, too. `own`
 * of the stream's users belong to the client that asks.
 */
bool stream_must_stay(struct stream *, unsigned own);

/* It has no user, and is not kept any more: it lingers, or ends if nothing is registered on it. */
void stream_leave(struct stream *);
/*
 * Ends it, whether or not copies of the file are open. If it has many events, streams_end() releases the rest; their charges stay until
 * then.
 */
void stream_free(struct stream *);
/* Releases some events of streams that are being freed. */
void streams_end(struct registry *);
/* A program has registered on it directly: logs that once, and disconnects its clients. */
void stream_note_self_registered(struct stream *);
/*
 * Whether the tenant gets no new data file: it has a lingering unguarded one on which a program has registered directly, or
 * since when the kernel has unknown events that it did not have before.
 */
bool streams_are_suspect(const struct tenant *);
/* Asks the kernel whether a program has registered on it directly; then calls stream_note_self_registered(). */
void stream_probe(struct stream *);
/* Probes all streams. Whether there are any to ask about. */
bool streams_probe(struct registry *);
/* There is a stream that nothing guards: probes all such streams from time to time. */
void streams_watch(struct registry *);
