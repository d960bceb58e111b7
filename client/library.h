/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What the library's files share. One mutex of the whole process guards all of it (lock.c), except what userev_enabled(),
 * userev_writev() and userev_lost() touch: an event's three words, the grant it points to, and the atomics.
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
	REQUESTS_MAX = 4, /* under way at once: two REGISTER, a RELEASE or a HELLO, a WATCH */
	REGISTERS_MAX = 2 /* so that the daemon never waits for us, and we not for more than that */
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

/* An open data file. Grants hold it, and the list of its connection. */
struct stream {
	unsigned holders;
	struct userev *userev;
	uint32_t number;
	_Atomic uint32_t payload_max;
	_Atomic int
		fd; /* never another number, since a thread may be about to write to it; -1 when it is no longer ours */
	_Atomic bool ended; /* nobody reads there any more */
	struct file_id id;
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
	uint32_t bit;
	const char *name;	    /* in the same allocation */
	struct userev_grant *older; /* from a former connection; others may be writing through it */
};

/* One registered struct userev_event, from its registration to its release; or on, until the daemon knows of that. */
struct claim {
	struct userev *userev;
	struct userev_event *event;	   /* NULL: released */
	struct userev_grant waiting;	   /* what the event points to while it is not granted */
	struct userev_grant *newest;	   /* and the older ones behind it */
	uint32_t bit;			   /* that this connection granted; 0: none */
	bool under_way;			   /* asked for, and not answered */
	bool kept;			   /* somebody may be writing with it even when it is gone */
	bool was_on;			   /* as userev_changed() has told */
	struct sentence *refused;	   /* why; NULL: it is not */
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

/* A packet that was sent and not answered. */
struct request {
	uint32_t serial;
	uint16_t kind; /* of the answer */
	uint16_t count;
};

struct userev {
	LIST_ENTRY(userev) entry;
	char socket[108]; /* as long as an address can be; "" for the usual places */
	bool explains;	  /* to stderr: $USEREV_DEBUG */
	_Atomic bool sealed;

	bool up;	/* welcomed, and not hung up on since */
	bool borrowed;	/* after a fork: page and streams are our parent's, whose connection we have not */
	int candidate;	/* where we wait to be welcomed; -1: nowhere */
	_Atomic int fd; /* -1 before the first welcome; then always the same number, which losses_report() needs */
	struct file_id candidate_id, id;
	uint32_t serial;
	struct request asked[REQUESTS_MAX]; /* in their order */
	unsigned n_asked;
	unsigned answers; /* so far */
	int64_t heard_at; /* when the daemon began to owe us the next answer */
	struct wire_welcome limits;
	uint8_t *page;		 /* one address for ever; NULL before the first welcome */
	uint32_t *users;	 /* of each bit: how many claims share the lease on it */
	struct streams streams;	 /* of this connection */
	struct streams outdated; /* of former ones, in use until all is claimed anew */

	unsigned failures;		      /* since all went well: the next attempt waits longer */
	int64_t not_before;		      /* when that is */
	int error;			      /* the last one's, as a negative errno */
	char sentence[WIRE_SENTENCE_MAX + 1]; /* what the daemon said of it; or "" */
	_Atomic uint32_t look_at; /* milliseconds: not before that does a test of an event bother with all this */

	struct claims claims;
	struct claim *unanswered; /* the first that this connection has not answered, and all behind it */
	struct claim *unasked;	  /* the first that it was not asked for, and all behind it */
	struct claims leaving;	  /* released: the daemon is to be told */
	struct claims kept;	  /* gone, but for who may be writing */
	struct sentences sentences;

	int poll_fd;		 /* of userev_fd(); -1: nobody wants it */
	int followed;		 /* what that one waits for; -1: nothing */
	bool watching;		 /* userev_watch() was called */
	bool watch_asked;	 /* on this connection */
	struct claim *look_from; /* userev_changed(): all before it have been looked at */

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
/* Whether this process is the one that made the connections; false in a child that has not yet been in here. */
bool library_is_at_home(void);
/* Under the mutex: whether the caller wants to be told why. */
bool library_is_asked(void);

/* clock.c */
int64_t now_ms(void);
/* Costs no system call, but may be some milliseconds behind. */
uint32_t about_now_ms(void);
int deadline_left(int64_t deadline);

/* memory.c */
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

/* page.c */
/* Maps the page, or puts it in the place of the one that is mapped at `*page`. -EPROTO where it is no page. */
int page_map(int fd, uint8_t **page);
void page_unmap(uint8_t *page);
/* Whether records may go there: they can neither block nor raise a signal. */
bool fd_is_data_file(int fd);

/* stream.c */
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
/* False where one of them is not ours any more: that one has ended, and is forgotten. */
bool streams_verify(struct streams *);
bool streams_lead_somewhere(const struct streams *);

/* claim.c */
int claim_new(struct userev *, struct userev_registration *);
/* The event is off, and not registered. What the daemon must know of it, it is told later. */
void claim_release(struct claim *);
/* The same, where other threads may be writing it: the memory stays, until claims_free_kept(). */
void claim_release_and_keep(struct claim *);
void claims_free_kept(struct userev *);
/* Without telling anybody: the claim is gone. */
void claim_free(struct claim *);
void claims_free(struct claims *);
/* The answer has come. 0 or a negative errno. */
int claim_answered(struct claim *, const struct answer *);
/* There is no connection: whoever tests an event looks for one. Where it was on it goes on. */
void claims_suspend(struct userev *);
/* The opposite: what was granted is good, and nobody looks for the rest. */
void claims_resume(struct userev *);
/* Another connection: all has to be asked for, and answered, anew. */
void claims_ask_anew(struct userev *);
/* Another page: all are off until they are answered. */
void claims_wait(struct userev *);
/* What its bit says, whatever the event says. */
bool grant_is_on(const struct userev_grant *);

/* register.c */
/* 0, or why it is refused without asking anybody. */
int registration_check(struct userev_registration *);
/* Sends what fits of those that are to be asked for. As of request_send(). */
int claims_ask(struct userev *, uint8_t *buffer);
int claims_take_answers(struct userev *, const struct message *, uint16_t count);
void sentences_free(struct sentences *);

/* release.c */
/* The same for those that have left. */
int claims_give_back(struct userev *, uint8_t *buffer);

/* poll.c */
/* userev_fd() is to be readable when this one is; -1: none. */
void poll_follow(struct userev *, int fd);

/* watch.c */
/* The same, once for each connection. */
int changes_ask(struct userev *, uint8_t *buffer);
int changes_note(struct userev *, const struct message *);
/* Events have got another page, or another state. */
void changes_look_again(struct userev *);

/* look.c */
/* Now and then, without waiting for anything: is there something to do? */
void connection_look(struct userev *);

/* module.c */
/* Whom the caller of a public function means: NULL is that of the static events, which may not be there. */
struct userev *library_meant(struct userev *);

/* open.c */
int library_new(const char *socket, struct userev **ret);

/* write.c */
/* Tells the daemon what was lost since the last time. Async-signal-safe, from any thread. */
void losses_report(struct userev *);

/* event.c */
/* The sentence that userev_refusal() returns to this thread. */
void refusal_set(const char *text, size_t length);
struct sentence *sentence_new(const char *text, size_t length);

/* debug.c */
_printf_(2, 3) void explain(const struct userev *, const char *format, ...);
