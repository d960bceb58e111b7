/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A stream: an open data file with events registered on it, passed to one client, or to all of one tenant and user where the
 * guard keeps them from registering on it themselves. A client has it as long as it leases something there. It outlives its
 * clients as long as a copy of the file is open anywhere; what is registered on it is charged until then. Events can't be
 * taken off a stream, so streams come in generations: one with more dead events than live ones serves those who have it, and
 * nobody new; one with many takes no more events.
 *
 * Where the policy says KeepFor=, one without a client is kept for that time, and serves the next client if it is shared.
 */

#include <ev.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/quota/charge.h"
#include "daemon/registry/registry.h"
#include "protocol/base/table.h"
#include "protocol/base/text.h"

struct holder;
struct reference;
struct tenant;

struct stream {
	struct registry *registry;
	struct tenant *tenant; /* whose page it needs */
	struct quota_event account;
	struct quota_charge charge; /* of the file, until the kernel has let it go */
	uid_t uid;		    /* whose programs it is for */
	uint32_t number;
	uint64_t place;		      /* of its lock, for the next keeper */
	int fd;			      /* ours: while more clients may get it, or its first one has not yet */
	bool made;		      /* the kernel has; before that nothing is known of it */
	bool shared;		      /* is in the tenant's list of those that serve all of a user's clients */
	bool stranger;		      /* somebody has registered on it by himself, and that was said */
	bool unwatched;		      /* it lingers, and nothing guards it */
	bool closed;		      /* the kernel's part has no copy of its own any more */
	int failed;		      /* why there is none after all, for those who have built on it meanwhile */
	unsigned users;		      /* shares, and whoever is about to have one */
	unsigned live;		      /* references with a lease */
	bool kept;		      /* in the list of its level */
	bool second_hand;	      /* it was kept, and who had it then may have a copy still */
	bool lingers;		      /* see linger.c */
	bool is_due;		      /* in the list of its tenant, to be looked at */
	struct reference *references; /* table by grant */
	LIST_ENTRY(stream) sharing;
	TAILQ_ENTRY(stream) idle; /* while users == 0: it is kept, or lingers */
	TAILQ_ENTRY(stream) due;
	ev_timer w_idle;   /* the end of being kept; or the next look */
	double look_after; /* the last look: seconds */
	UT_hash_handle by_number;
};

/*
 * A new one for the events of a tenant's user, one client's or if the guard holds all clients'; `ret_call` is what makes it in
 * the kernel. It has one user, the caller. 0; a positive enum refusal, with a sentence; or -ENOMEM.
 */
int stream_new(struct tenant *, uid_t, struct kernel_call *ret_call, struct stream **ret, struct text *why);
/* The kernel's answer to that call: 0, or why there is no such stream, a negative errno. */
int stream_came(struct stream *, struct kernel_call *);
/* The same for one that is to leave: or STREAM_E_UNGUARDED. */
int stream_made(struct stream *, struct kernel_call *);
enum { STREAM_E_UNGUARDED = 1 };

/* As it was before a restart, with one user, the caller. NULL: no memory, or the number is taken. */
struct stream *stream_restore(struct tenant *, uid_t, uint32_t number, bool stranger);
/* … and with its file, which is taken over. */
void stream_resume(struct stream *, int fd);

/* NULL: there is none. */
struct stream *stream_by_number(const struct registry *, uint32_t number);
/* On which stream the client's next event is to be registered; NULL: on a new one. */
struct stream *stream_for(const struct holder *);
/* Whether the client may have what is registered there: it is shared, and not so full of dead events that nobody new gets it. */
bool stream_may_serve(const struct stream *, const struct holder *);

/* Keeps it from lingering. */
struct stream *stream_use(struct stream *);
/* The opposite: with the last user it is kept for a while, or lingers until the kernel says that no copy is open any more. */
void stream_unuse(struct stream *);

/*
 * Whether its file must not leave, for it fails the proof and the guard is wanted, or others have it: `own` of the stream's
 * users are the client that asks.
 */
bool stream_must_stay(struct stream *, unsigned own);

/* Where so much is held that somebody was refused more: what is kept there is let go. Whether there was any. */
bool streams_yield(struct level *);
/* Whatever is kept beside this one, and has nothing but what this one has, too, is let go. */
void stream_replaces(const struct stream *);

/* Ends it now and here, whoever may still hold a copy. */
void stream_free(struct stream *);
/* A program has registered on it by itself: said once, and its clients are cut. */
void stream_is_strange(struct stream *);
/*
 * Whether the tenant gets no new data file: it has one that lingers unguarded, and that has a stranger's events, or the kernel
 * has events that nobody knows and did not have them before.
 */
bool streams_are_suspect(const struct tenant *);
/* Asks whether whoever has it has registered by himself on it; if so that is said, and he is cut off. */
void stream_probe(struct stream *);
/* All of them. Whether there are any to ask about. */
bool streams_probe(struct registry *);
/* There is a stream that nothing guards: probes all such streams from time to time. */
void streams_watch(struct registry *);
void streams_init(struct registry *);
void streams_deinit(struct registry *);
