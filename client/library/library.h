/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the library's files share. One mutex of the whole process guards all of it (lock.c), except what userev_enabled(),
 * userev_writev() and userev_lost() touch: an event's words, the streams that they name, and the atomics.
 *
 * Anything may run in a signal handler that has come upon malloc() or the mutex: what can be reached from userev_enabled()
 * never waits for the mutex, and has its memory from memory.c.
 */

#include <signal.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "client/userev.h"
#include "protocol/fdset.h"
#include "protocol/wire.h"

#define _public_ __attribute__((visibility("default")))

enum {
	REQUESTS_MAX = 4,    /* under way at once: two REGISTER, a RELEASE or a HELLO, a WATCH */
	REGISTERS_MAX = 2,   /* so that the daemon never waits for us, and we not for more than that */
	PAUSE_MAX_MS = 5000, /* between two attempts to reach a daemon */
};

/* How long a call waits for the daemon's accept and for each of its answers. Tests have less of it. */
extern int library_patience_ms;
/* How long the daemon may owe an answer before the connection is given up. */
extern int library_silence_ms;

/* Which file an fd is: a program that closes all of its fds may soon have another one under the same number. */
struct file_id {
	dev_t device;
	ino_t inode;
};

/*
 * An open data file, or, in a stream that no daemon has given us, where events are while they are not granted. Each has a slot,
 * by which events name it, and its memory stays for ever: whoever writes an event may be looking at the stream that it has left.
 */
struct stream {
	struct userev *userev;
	uint32_t number;
	uint32_t holders; /* events that are there */
	_Atomic uint32_t payload_max;
	_Atomic int
		fd; /* never another number, since a thread may be about to write to it; -1 when it is no longer ours */
	uint32_t rests_since; /* milliseconds */
	uint16_t slot;
	bool watched;	    /* its page never says that it is abandoned */
	bool in_doubt;	    /* somebody may be writing there for an event that has left it */
	_Atomic bool ended; /* nobody reads there any more */
	struct file_id id;
	TAILQ_ENTRY(stream) entry;
};

TAILQ_HEAD(streams, stream);

/* Bits of an event's place; with USEREV_PENDING_. */
enum {
	PLACE_BIT = 0x7fff,    /* of the page; 0: no daemon has granted it */
	PLACE_STREAM = 0x7fff, /* its slot; 0: the event is not registered */
	PLACE_WAS_ON = 0x8000, /* in `stream`: as userev_changed() has told */
};

/* Read as one word, so that nobody ever pairs an index with another's stream. */
static inline union userev_place place_of(const struct userev_event *event)
{
	return (union userev_place){ .whole = __atomic_load_n(&event->place.whole, __ATOMIC_ACQUIRE) };
}

static inline bool place_is_granted(union userev_place place)
{
	return (place.part.bit & PLACE_BIT) != 0;
}

/* What the daemon has said of an event: why it is refused, or its name where that is not the one that we gave it. */
struct sentence {
	SLIST_ENTRY(sentence) entry;
	const struct userev_event *event;
	bool refuses;
	char text[];
};

SLIST_HEAD(sentences, sentence);

/*
 * Events that stand one behind the other in memory, and come and go together: those that a module declares, or a single one
 * that was registered by hand.
 */
struct batch {
	TAILQ_ENTRY(batch) entry;
	struct userev_event *event; /* the first of them; NULL: they have gone, and some are not answered yet */
	uint32_t n;
	uint32_t asked;	   /* for so many of them, on this connection */
	uint32_t answered; /* of those */
	struct sentences said;
};

TAILQ_HEAD(batches, batch);

/* The only one of its batch, with a copy of what it was registered with. */
struct single {
	struct batch batch;
	struct userev_registration *asked; /* by the call that is running; else NULL */
	struct userev_declaration declaration;
	char text[]; /* the description, and the name */
};

#define BATCH_FOREACH(event_, batch)                                                                                   \
	for (struct userev_event *event_ = (batch)->event; event_ && event_ < (batch)->event + (batch)->n; event_++)

struct losses {
	_Alignas(8) _Atomic uint64_t queue_full;
	_Alignas(8) _Atomic uint64_t too_big;
};

/* A packet that was sent and not answered. */
struct request {
	uint32_t serial;
	uint16_t kind; /* of the answer */
	uint16_t count;
};

/* Each includes those before it. */
enum explains { EXPLAINS_NOTHING, EXPLAINS_REFUSALS, EXPLAINS_ALL };

struct userev {
	LIST_ENTRY(userev) entry;
	char socket[108];	/* as long as an address can be; "" for the usual places */
	enum explains explains; /* to stderr: $USEREV_DEBUG */
	int wait_ms;		/* as long as a call waits at least: $USEREV_WAIT */
	_Atomic bool sealed;

	bool up;       /* welcomed, and not hung up on since */
	bool borrowed; /* after a fork: page and streams are our parent's, whose connection we have not */
	int candidate; /* where we wait to be welcomed; -1: nowhere */
	int fd;	       /* of the one that is up; else -1 */
	struct file_id candidate_id, id;
	uint32_t serial;
	struct request asked[REQUESTS_MAX]; /* in their order */
	unsigned n_asked;
	unsigned answers; /* so far */
	int64_t heard_at; /* when the daemon began to owe us the next answer */
	struct wire_welcome limits;
	uint8_t *page;		 /* one address for ever; NULL before the first welcome */
	uint8_t *left;		 /* a page of bits that were released, and perhaps not by all who have them; or NULL */
	uint32_t n_left;	 /* so many of them */
	bool bits_differ;	 /* no two events have the same, as was seen after the last grant */
	struct stream *nowhere;	 /* where events are that no daemon has granted */
	struct streams streams;	 /* of this connection */
	struct streams outdated; /* of former ones, open until all is claimed anew */
	struct streams resting;	 /* closed, and not to be used again yet; the oldest first */
	unsigned n_resting;

	unsigned failures;		      /* since all went well: the next attempt waits longer */
	int error;			      /* the last attempt's, as a negative errno */
	const char *tried;		      /* the socket that it was of */
	int64_t not_before;		      /* the time of the next one */
	char sentence[WIRE_SENTENCE_MAX + 1]; /* what the daemon said of it; or "" */
	_Atomic uint32_t look_at; /* milliseconds: not before that does a test of an event bother with all this */

	bool declares; /* its events are declared, not registered by hand */
	struct batches batches;
	struct batch *unanswered;   /* the first that this connection has not answered, and all behind it */
	struct batch *unasked;	    /* the first that it was not asked for, and all behind it */
	struct sentences sentences; /* that the last userev_register_all() gave */

	int poll_fd;		 /* of userev_fd(); -1: nobody wants it */
	int followed;		 /* what that one waits for; -1: nothing */
	bool watching;		 /* userev_watch() was called */
	bool watch_asked;	 /* on this connection */
	struct batch *look_from; /* userev_changed(): all before it have been looked at, */
	uint32_t looked_at;	 /* and so many of its own */
	_Atomic bool look_again; /* a write has found out that a stream has ended, and with it events */

	struct losses losses;
	struct losses unreported;
	_Atomic uint32_t reported_at; /* milliseconds */
};

/* lock.c */
struct entered {
	int saved_errno;
	int cancel_state;
	sigset_t signals; /* only of who enters quietly */
};

/* Takes the mutex and remembers errno; leaving gives both back. */
struct entered library_enter(void);
void library_leave(struct entered *);
#define ENTER_LIBRARY _cleanup_(library_leave) struct entered entered_ _unused_ = library_enter()
/* The same without waiting and without signals, and nothing is said to the thread (refusal_set()). */
bool library_enter_quietly(struct entered *);
void library_leave_quietly(const struct entered *);
/* From now on a fork's child drops the connection that it inherits. 0 or -ENOMEM. */
int library_adopt(struct userev *);
void library_disown(struct userev *);
/* Under the mutex: whether the caller wants to be told why. */
bool library_is_asked(void);

/* clock.c */
int64_t now_ms(void);
/* Costs no system call, but may be some milliseconds behind. */
uint32_t about_now_ms(void);
int deadline_left(int64_t deadline);

/* memory.c */
extern size_t memory_mapped; /* all that it has, for the test that says how much that may be */
/* Zeros, or NULL. */
void *memory_new(size_t size);
void memory_free(void *);
void memory_freep(void *pointer);

/* fd.c */
/* Moves the fd to where nobody looks for one. Returns it. */
int fd_out_of_the_way(int fd);
void fd_identify(int fd, struct file_id *ret);
bool fd_is(int fd, const struct file_id *);

/* connection.c */
struct reply {
	struct message message;
	struct fdset fds;
};

void reply_deinit(struct reply *);
/* Connects, which may wait until the deadline, and says hello. 0 or a negative errno. */
int connection_begin(struct userev *, int64_t deadline);
/* The answer to that. */
int connection_welcome(struct userev *, struct reply *);
bool connection_is_up(const struct userev *);
/* Where packets go now. */
int connection_fd(const struct userev *);
/* Hangs up. What was granted goes on as far as the kernel carries it. */
void connection_drop(struct userev *);
/* Forgets a connection that is our parent's. */
void connection_abandon(struct userev *);
/* Drops what somebody has closed behind our back, or replaced. */
void connection_verify(struct userev *);

/* request.c */
/*
 * Whatever can be done until the deadline: connect, be welcomed, ask, be answered. One that has passed means without waiting,
 * and where connecting has failed lately not even trying. 0: there is nothing left to do; -EAGAIN: the daemon has not
 * answered yet; else why there is no connection.
 */
int connection_advance(struct userev *, int64_t deadline);
/* The same, and as long as answers come in time. */
int connection_advance_patiently(struct userev *);
/* Says hello if nobody has, and does not wait. */
void connection_greet(struct userev *);
/* As connection_advance(), but makes no connection where there is none. */
void connection_settle(struct userev *, int64_t deadline);
/* 1, or 0 where there is no room for it now, or a negative errno. */
int request_send(const struct userev *, const struct packet *);
/* What was sent: its answer will be of that kind. */
void request_note(struct userev *, uint16_t answer, uint16_t count);

/*
 * Bit 0 of a page is no event's: it is set when no daemon keeps the page any more, and all others with it, so that a test of any
 * event comes here.
 */
static inline bool page_is_abandoned(const struct userev *userev)
{
	return (*(const volatile uint8_t *)userev->page & 1) != 0;
}

/* page.c */
/* Maps the page that came over `socket`, or puts it in the place of the one at `*page`. -EPROTO where it is no page, or might not stay one. */
int page_map(int fd, int socket, uint8_t **page);
void page_unmap(uint8_t *page);
/* Whether records may go there: they can neither block nor raise a signal. */
bool fd_is_data_file(int fd);

/* stream.c */
/* The one that an event names: NULL where it is not registered. Never waits. */
struct stream *stream_at(union userev_place);
/* It owns the fd, which may be -1. NULL where there is no memory, or no slot. */
struct stream *stream_open(struct userev *, uint32_t number, int fd);
/* Nobody uses it, nor is about to. */
void stream_close(struct stream *);
/* Moves the fds from `position` on into new streams. 0 or a negative errno. */
int streams_take(struct userev *, struct reply *, size_t position, struct streams *to);
struct stream *streams_find(struct streams *, uint32_t number);
/* Events are about to leave them while others may be writing. */
void streams_doubt(struct streams *);
/* Closes those where no event is any more: the daemon sends them again when it needs them. */
void streams_tidy(struct streams *);
/* As stream_close(), all. */
void streams_close(struct streams *);
/* False where one of them is not ours any more: that one has ended, and is forgotten. */
bool streams_verify(struct streams *);
bool streams_lead_somewhere(const struct streams *);

/* batch.c */
/* Takes the batch over; its events wait. */
void batch_add(struct userev *, struct batch *, struct userev_event *first, size_t n);
/* Its events are off, and not registered. What the daemon must know of them, it is told later. */
void batch_release(struct userev *, struct batch *);
/* Without telling anybody. */
void batch_drop(struct userev *, struct batch *);
/* One that has no events any more. */
void batch_free(struct userev *, struct batch *);
/* Of an event that is registered. */
struct batch *batch_of(const struct userev_event *);
/* There is no connection: whoever tests an event looks for one. Where it was on it goes on. */
void batches_suspend(struct userev *);
/* The opposite: what was granted is good, and nobody looks for the rest. */
void batches_resume(struct userev *);
/* Another connection: all has to be asked for, and answered, anew. */
void batches_ask_anew(struct userev *);
/* Another page: all are off until they are answered. */
void batches_wait(struct userev *);

/* place.c */
/* The event is granted, at that place. */
void event_is_granted(struct userev_event *, union userev_place);
/* It is off, but registered. */
void event_is_refused(const struct userev *, struct userev_event *);
/* Whoever tests it looks for a daemon. What was granted goes on to be tested and written, until there is something better. */
void event_waits(const struct userev *, struct userev_event *);
/* The same, and what was granted is over. */
void event_waits_anew(const struct userev *, struct userev_event *);
/* What was granted is good; what was not is off. */
void event_goes_on(const struct userev *, struct userev_event *);
/* It is off, and not registered. */
void event_forget(struct userev_event *);
/* Since this was asked the last time; at first all are off. */
bool event_has_changed(struct userev_event *);
/* What its bit says, whatever the event says. */
bool place_is_on(union userev_place);

/* said.c */
/* 0 or -ENOMEM. */
int said_is_named(struct batch *, const struct userev_event *, const char *text, size_t length);
/* Until the event is released. */
const char *said_name(const struct batch *, const struct userev_event *);
void said_refusal(struct batch *, const struct userev_event *, const char *text, size_t length);
void said_no_refusal(struct batch *, const struct userev_event *);
/* The sentence of its refusal; NULL where there is none. */
const char *said_why(const struct batch *, const struct userev_event *);
struct sentence *sentence_new(const struct userev_event *, const char *text, size_t length);
void sentences_free(struct sentences *);

/* register.c */
struct single *single_of(const struct userev_event *);
/* Sends what fits of those that are to be asked for. As of request_send(). */
int batches_ask(struct userev *, uint8_t *buffer);

/* answer.c */
/* 0 or a negative errno. */
int answers_take(struct userev *, const struct message *, uint16_t count);

/* release.c */
/* An event that had it has left. */
void bit_leaves(struct userev *, uint32_t bit);
void bits_forget(struct userev *);
/* Sends what fits of those that nobody has any more. As of request_send(). */
int bits_give_back(struct userev *, uint8_t *buffer);

/* poll.c */
/* userev_fd() is to be readable when this one is; -1: none. */
void poll_follow(struct userev *, int fd);

/* watch.c */
/* Asks for them, once for each connection. As of request_send(). */
int changes_ask(struct userev *, uint8_t *buffer);
int changes_note(struct userev *, const struct message *);
/* Events have got another page, or another state. */
void changes_look_again(struct userev *);
/* The batch that is being looked at is about to go. */
void changes_look_behind(struct userev *);

/* look.c */
/* Now and then, without waiting for anything: is there something to do? */
void connection_look(struct userev *);

/* module.c */
/* Whom the caller of a public function means: NULL is that of the static events, which may not be there. */
struct userev *library_meant(struct userev *);

/* open.c */
int library_new(const char *socket, struct userev **ret);

/* write.c */
/* Tells the daemon what was lost since the last time. */
void losses_report(struct userev *);

/* event.c */
/* The sentence that userev_refusal() returns to this thread. */
void refusal_set(const char *text, size_t length);

/* debug.c */
enum explains explains_what(void);
_printf_(3, 4) void explain_to(const struct userev *, enum explains least, const char *format, ...);
#define explain(userev, ...) explain_to(userev, EXPLAINS_ALL, __VA_ARGS__)
/* An event is refused. `asked` is its description. */
void explain_refusal(const struct userev *, const char *asked, const char *sentence, size_t length);
