/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The contract between the daemon and a backend, which has user_events. Calls are plain data with numbers instead of pointers, so they can be
 * carried out in this process (embedded) or in the keeper.
 *
 * A page is a tenant's status page; a stream is an open data file with events registered on it. The daemon numbers both. Calls of a
 * batch are carried out in order. A call that fails does not stop those after it, but a call with the number of a page or stream that
 * does not exist gets KERNEL_E_NO_SUCH.
 */

#include <fcntl.h>
#include <sys/types.h>

#include "kernel/probe.h"
#include "protocol/protocol.h"

enum kernel_op {
	KERNEL_PAGE_NEW,    /* page, text: the tenant → fd: the page, read-only for its holders */
	KERNEL_PAGE_FREE,   /* page: no stream refers to it any more */
	KERNEL_STREAM_NEW,  /* stream, page → fd: for the clients */
	KERNEL_STREAM_FREE, /* stream: with everything registered on it, whether or not a copy is open */
	/*
	 * stream, text: canonical description, flags → bit, index: of an existing registration, or a new one. number: 1 if another
	 * program has registered on the stream, too.
	 */
	KERNEL_REGISTER,
	KERNEL_RELEASE, /* stream, index → 0, or KERNEL_E_LINGERS: the reference stays until the stream is closed */
	/*
	 * stream, index: KERNEL_UNGUARDED, or 0 → 0, or KERNEL_E_GONE: no copy of the stream is open. The keeper closes its own copy with
	 * the first such call, so nothing can be registered on the stream from then on. KERNEL_E_SELF_REGISTERED: it is open, and another
	 * program had registered on it by then.
	 */
	KERNEL_STILL_OPEN,
	KERNEL_CLEAN, /* stream → 0, or KERNEL_E_SELF_REGISTERED: a holder has registered an event itself */
	KERNEL_LOOK, /* → index: events that the kernel has; number: of these the keeper's; bit: the most that it takes */
	KERNEL_SET_MAXIMUM, /* index: the most that it is to take */

	/* For the next daemon, with a keeper that outlives its daemons. Otherwise KERNEL_E_UNSUPPORTED. */
	KERNEL_DEPOSIT,	 /* number, fd: replaces an existing deposit */
	KERNEL_WITHDRAW, /* number: the caller still has a copy, since the last close may take as long as clients like */
	KERNEL_DEPOSITED,  /* number → fd: a copy of the deposit */
	KERNEL_PAGE_FETCH, /* page → fd: as PAGE_NEW gave it; index 1: writable, for the keeper's successor */
	KERNEL_STREAM_FETCH, /* stream → fd, number: as STREAM_NEW gave them; KERNEL_E_GONE: the keeper has no fd any more */
	/*
	 * Disowns pages and streams of the last daemon that this one has neither fetched nor asked about: they are not charged any more, and
	 * freed when no copy is open. Closes deposits that were not fetched.
	 */
	KERNEL_DISOWN,

	/* For a keeper's successor, so that everything is as before. */
	KERNEL_PAGE_ADOPT,   /* page, fd: the writable one with index 1, then the clients' with index 0 */
	KERNEL_STREAM_ADOPT, /* stream, page, number: its lock, fd: or none, for a stream that only lingers */
	KERNEL_ADOPT,	     /* stream, text, flags, bit, index: as REGISTER answered; the bit is brought up to date */

	/*
	 * text: a name. Deletes all events of it, which only persistent events wait for, or before Linux 6.4 those that no program uses →
	 * 0; KERNEL_E_NO_SUCH; KERNEL_E_IN_USE: by a program or a tracer; KERNEL_E_UNSUPPORTED: the keeper lacks CAP_PERFMON.
	 */
	KERNEL_DELETE,
	/*
	 * page, bit, flags: KERNEL_SILENT and KERNEL_TRACES → 0, or KERNEL_E_NO_SUCH. Without any the bit is what it would have been.
	 * KERNEL_E_UNSUPPORTED: the page is the kernel's own.
	 */
	KERNEL_SILENCE,
	/*
	 * index: a map of enum native_map; KERNEL_NATIVE_FILE: the file that containers get, opened anew; KERNEL_NATIVE_REASON: a file with the
	 * sentence why there are no native events → fd. KERNEL_E_UNSUPPORTED: see the reason.
	 */
	KERNEL_NATIVE,
	KERNEL_NATIVE_ALLOW, /* index: whether other users than root can open that file: 1 or 0 */
	KERNEL_OP_MAX_,
};

/* Answers; a negative one is an unexpected errno. A call that fails has made nothing, or undone it. */
enum kernel_answer {
	KERNEL_OK = 0,
	KERNEL_E_NAME_TAKEN = 1, /* by an event with other fields */
	KERNEL_E_PAGE_FULL = 2,
	KERNEL_E_FULL = 3, /* the machine has as many events as it can */
	KERNEL_E_UNSUPPORTED = 4,
	KERNEL_E_LINGERS = 5,
	KERNEL_E_GONE = 6,
	KERNEL_E_NO_SUCH = 7,
	KERNEL_E_BAD_DESCRIPTION = 8,
	KERNEL_E_SELF_REGISTERED = 9,
	KERNEL_E_SETTLING = 10, /* REGISTER: the name was freed a moment ago, and the kernel still has it */
	KERNEL_E_IN_USE = 11,
};

/* Beside the flags of REGISTER, ADOPT and SILENCE, about the bit of the event on this page. */
enum {
	KERNEL_SILENT = 1 << 15, /* it stays off while the event is on */
	KERNEL_TRACES =
		0xf00, /* a bit for each trace of the tenant's own that has the event: it stays on, also if it is silent */
	KERNEL_TRACES_SHIFT = 8,
	KERNEL_STATES = KERNEL_SILENT | KERNEL_TRACES,
};
_Static_assert(KERNEL_TRACES >> KERNEL_TRACES_SHIFT == (1 << WIRE_TRACES_MAX) - 1, "a bit each");

/* Of KERNEL_NATIVE, besides the maps. */
enum { KERNEL_NATIVE_FILE = 100, KERNEL_NATIVE_REASON };

/* STILL_OPEN: programs with the stream could remove its lock, or use the lock of another stream. */
enum { KERNEL_UNGUARDED = 1 };

struct kernel_call {
	uint16_t op; /* enum kernel_op */
	uint16_t flags;
	uint32_t page;
	uint32_t stream;
	uint32_t bit;	/* result of REGISTER and LOOK; argument of ADOPT */
	uint32_t index; /* result of REGISTER and LOOK; argument of RELEASE, SET_MAXIMUM, ADOPT */
	int32_t result;
	uint64_t number; /* of a deposit; of a stream's lock; of the keeper's events */
	/* Up to here the keeper gets it as it is. */
	const char *text;
	int fd; /* result: the caller's; argument: the kernel's, also after a failure */
};

/* Gives the caller a copy of the fd. KERNEL_OK, or a negative errno. */
static inline int kernel_give_copy(struct kernel_call *call, int fd)
{
	call->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return call->fd < 0 ? -errno : KERNEL_OK;
}

/* A backend's kind and abilities. Constant, except after remote_succeed(). A keeper sends it as it is, so it has neither pointers nor padding. */
struct kernel_facts {
	uint16_t backend;     /* enum wire_backend */
	uint16_t flags;	      /* REGISTER_PERSIST … that it supports */
	uint32_t page_bits;   /* bits of a page, bit 0 included */
	uint32_t capacity;    /* events in the whole machine */
	uint32_t payload_max; /* the largest record that every tracer can take */
	uint8_t guarded;      /* holders of a stream can't register on it, so one stream may serve several clients */
	uint8_t shared_page;  /* all tenants have the same page */
	uint8_t deposits;     /* deposits, pages and streams outlive the daemon */
	char note[WIRE_SENTENCE_MAX + 1]; /* for the admin: why there is no guard, what is not isolated */
};

/* Records of one page's programs. */
struct kernel_page_stats {
	uint64_t records;
	uint64_t bad; /* too short, unknown index, dynamic field outside */
};

struct kernel;

typedef void kernel_done(void *data, struct kernel_call *calls, size_t n);
/* An event was switched on or off on a page, and its bit has changed. Must not call the kernel or its tracer. */
typedef void kernel_changed(void *data, uint32_t page, uint32_t bit);

struct kernel_ops {
	void (*submit)(struct kernel *, struct kernel_call *calls, size_t n, kernel_done *done, void *data);
	void (*cancel)(struct kernel *); /* NULL: nothing is ever under way */
	int (*dispatch)(struct kernel *);
	void (*free)(struct kernel *);
	/*
	 * The daemon has gone, and nothing is under way: pages and streams are there for the next daemon to fetch, ask about, or disown.
	 * NULL: nothing outlives the daemon.
	 */
	void (*orphan)(struct kernel *);
};

struct kernel {
	const struct kernel_ops *ops;
	struct kernel_facts facts;
	int fd;	      /* call kernel_dispatch() when it is readable; only remote_succeed() changes it */
	bool stalled; /* too many fds of this process's user are in flight: call kernel_dispatch() after a while, too */
	struct kernel_page_stats totals; /* of all pages, past ones included */
	struct tracer *tracer;		 /* if the daemon itself is the tracer, otherwise NULL */
	kernel_changed *changed;	 /* only the embedded backend calls it */
	void *changed_data;
};

/*
 * Carries out `calls` and then calls `done` once, perhaps before this function returns. The calls belong to the kernel until then, and
 * must not move. Without `done` the answers are dropped; calls that can't be carried out at once are copied, except for their texts,
 * which therefore have to be NULL.
 */
static inline void kernel_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done,
				 void *data)
{
	kernel->ops->submit(kernel, calls, n, done, data);
}

/* One call without an answer. */
static inline void kernel_tell(struct kernel *kernel, struct kernel_call call)
{
	kernel_submit(kernel, &call, 1, NULL, NULL);
}

/*
 * For the end: answers everything under way before it returns, with -ECANCELED if it was not carried out, and from then on every call at
 * once. (A backend in this process goes on carrying out calls.)
 */
static inline void kernel_cancel(struct kernel *kernel)
{
	if (kernel->ops->cancel)
		kernel->ops->cancel(kernel);
}

/* Never blocks. 0, or a negative errno after which the kernel can't be used any more, unless remote_succeed() gives it a new keeper. */
static inline int kernel_dispatch(struct kernel *kernel)
{
	return kernel->ops->dispatch(kernel);
}

static inline struct kernel *kernel_free(struct kernel *kernel)
{
	if (kernel)
		kernel->ops->free(kernel);
	return NULL;
}

struct kernel_limits {
	uint32_t page_bits;    /* 0: as many as possible */
	uint32_t capacity;     /* 0: as many as possible */
	size_t ring_bytes;     /* embedded; 0: the default */
	const char *no_native; /* user_events: why there are no native events */
	bool persist;	       /* user_events: allow events that outlive their programs */
	const char *pages;     /* embedded: the directory for pages; NULL: they end with this process */
	uid_t pages_owner;     /* the directory's owner */
};

/* The backend in this process. 0 or a negative errno. */
int embedded_new(const struct kernel_limits *, struct kernel **ret);

/*
 * The backend of the keeper at the other end of the socket, which it takes over once the keeper has sent its facts: it waits for these,
 * for as long as a busy machine may need. -ECONNREFUSED, with the keeper's sentence in `why`, if the keeper refuses.
 */
int remote_new(int socket, struct kernel **ret, char why[WIRE_SENTENCE_MAX + 1]);

/*
 * After kernel_dispatch() has returned -ECONNRESET, since the keeper has gone, or at any other time: goes on with the keeper at the other
 * end of this socket, which it takes over; the kernel's fd changes. It does not wait. Calls that are submitted meanwhile are kept until
 * kernel_dispatch() has read the new keeper's facts, for which there is no time limit here.
 *
 * Then `restore` is called, once. By then the facts are the new keeper's (page_bits and capacity stay as they were): check whether there
 * still is a guard. Calls that `restore` submits are sent first, in their order: with these the daemon gives the keeper what it is to have
 * (KERNEL_PAGE_ADOPT …, KERNEL_DEPOSIT). Behind them, batches that were not wholly answered are sent again, from their first call on;
 * fds of answers that they had got are closed, so nothing of theirs is to be adopted. A single DEPOSIT or WITHDRAW is not sent again, but
 * answered with -ECANCELED. If this keeper goes, too, calls of `restore` are answered with -ECANCELED when the next keeper takes its place,
 * and have to be submitted again.
 *
 * If a keeper has another backend or smaller pages, kernel_dispatch() returns -ESTALE, with the reason in facts.note; if it refuses,
 * -ECONNREFUSED.
 */
typedef void kernel_restore(void *data);
void remote_succeed(struct kernel *, int socket, kernel_restore *restore, void *data);
