/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Everything the daemon wants of user_events, whichever way this machine has it. What is asked is plain data with numbers
 * instead of pointers, so that it can be answered in this process (embedded) or by another one (the keeper).
 *
 * A page is a tenant's status page; a stream is an open data file with events registered on it. The daemon numbers both.
 * Calls of one batch are carried out in order; one that fails does not stop those after it, but what names a page or a
 * stream that does not exist gets KERNEL_E_NO_SUCH.
 */

#include <sys/types.h>

#include "protocol/protocol.h"

enum kernel_op {
	KERNEL_PAGE_NEW,    /* page, text: whose it is → fd: the page, read-only for whoever gets it */
	KERNEL_PAGE_FREE,   /* page: no stream refers to it any more */
	KERNEL_STREAM_NEW,  /* stream, page → fd: for the clients */
	KERNEL_STREAM_FREE, /* stream: and all that is registered on it, whether or not somebody holds it open */
	/*
	 * stream, text: canonical description, flags → bit, index; what is there already is found again. number: 1, another
	 * program has registered on the stream, too.
	 */
	KERNEL_REGISTER,
	KERNEL_RELEASE, /* stream, index → 0, or KERNEL_E_LINGERS: the reference stays until the stream is closed */
	/*
	 * stream, index: KERNEL_UNGUARDED, or 0 → 0, or KERNEL_E_GONE: no copy of the stream is open anywhere. Whatever copy the
	 * kernel's part keeps itself is closed with the first such question, so that nothing can be registered on the stream from
	 * then on. KERNEL_E_SELF_REGISTERED: it is open, and another program had registered on it by then.
	 */
	KERNEL_STILL_OPEN,
	KERNEL_CLEAN, /* stream → 0, or KERNEL_E_SELF_REGISTERED: who holds it has registered something by itself */
	KERNEL_LOOK, /* → index: events that the kernel has; number: of these the keeper's; bit: the most that it takes */
	KERNEL_SET_MAXIMUM, /* index: the most that it is to take */

	/* What a keeper that outlives its daemon holds for the next one. Elsewhere KERNEL_E_UNSUPPORTED. */
	KERNEL_DEPOSIT,	   /* number, fd: in the place of what may be there */
	KERNEL_WITHDRAW,   /* number: who asks still has a copy, since the last close may take as long as others like */
	KERNEL_DEPOSITED,  /* number → fd: a copy of what is there */
	KERNEL_PAGE_FETCH, /* page → fd: as PAGE_NEW gave it; index 1: writable, for the keeper's successor */
	KERNEL_STREAM_FETCH, /* stream → fd, number: as STREAM_NEW gave them; KERNEL_E_GONE: the keeper has no fd any more */
	/*
	 * All pages and streams that the last daemon had and this one has neither fetched nor asked after go: they are charged
	 * to nobody, and freed when no copy is open. So does what was deposited and not asked for.
	 */
	KERNEL_DISOWN,

	/* What a keeper is given that succeeds another one, so that everything is as it was. */
	KERNEL_PAGE_ADOPT,   /* page, fd: the writable one with index 1, then what its clients have with index 0 */
	KERNEL_STREAM_ADOPT, /* stream, page, number: its lock, fd: or none, of one that is only asked after */
	KERNEL_ADOPT, /* stream, text, flags, bit, index: as REGISTER has answered; the bit is brought up to date */
	KERNEL_OP_MAX_,
};

/* Answers; what is negative is an errno that nobody expected. What has failed has made nothing, or had it freed. */
enum kernel_answer {
	KERNEL_OK = 0,
	KERNEL_E_NAME_TAKEN = 1, /* by an event with other fields */
	KERNEL_E_PAGE_FULL = 2,
	KERNEL_E_FULL = 3, /* the machine holds as many events as it can */
	KERNEL_E_UNSUPPORTED = 4,
	KERNEL_E_LINGERS = 5,
	KERNEL_E_GONE = 6,
	KERNEL_E_NO_SUCH = 7,
	KERNEL_E_BAD_DESCRIPTION = 8,
	KERNEL_E_SELF_REGISTERED = 9,
	KERNEL_E_SETTLING = 10, /* REGISTER: the name was freed a moment ago, and the kernel still has it */
};

/* In STILL_OPEN: programs that have the stream could take its lock away, or take another's. */
enum { KERNEL_UNGUARDED = 1 };

/* As in the kernel's struct user_reg. */
enum { KERNEL_PERSIST = 1 << 0, KERNEL_MULTI_FORMAT = 1 << 1 };

struct kernel_call {
	enum kernel_op op;
	uint32_t page;
	uint32_t stream;
	uint16_t flags;
	const char *text;
	uint32_t bit;	 /* out of REGISTER and LOOK, in of ADOPT */
	uint32_t index;	 /* out of REGISTER and LOOK, in of RELEASE, SET_MAXIMUM, ADOPT */
	uint64_t number; /* in of the deposit; out of STREAM_NEW and FETCH, in of STREAM_ADOPT: where its lock is; … */
	int fd;		 /* out: the caller's; in: the kernel's, whatever becomes of the call */
	int result;
};

/* What a backend is and can do; fixed once it runs. */
struct kernel_facts {
	uint16_t backend;     /* enum wire_backend */
	const char *name;     /* "embedded" */
	bool guarded;	      /* who holds a stream can't register on it, so that one may serve several clients */
	bool shared_page;     /* all tenants look at one page */
	bool deposits;	      /* what it holds outlives the daemon */
	uint16_t flags;	      /* KERNEL_PERSIST … that it takes */
	uint32_t page_bits;   /* a page's bits, bit 0 included */
	uint32_t capacity;    /* events in the whole machine */
	uint32_t payload_max; /* the largest record that every tracer can hold */
	char note[WIRE_SENTENCE_MAX + 1]; /* what an admin should know: why there is no guard, what is not isolated */
};

/* What came from one page's programs. */
struct kernel_page_stats {
	uint64_t records;
	uint64_t bad; /* too short, unknown index, dynamic field outside */
};

struct kernel;
struct tracer;

typedef void kernel_done(void *data, struct kernel_call *calls, size_t n);
/* An event was turned on or off on a page; said after the bit has changed. Must not call the kernel or its tracer. */
typedef void kernel_changed(void *data, uint32_t page, uint32_t bit);

struct kernel_ops {
	void (*submit)(struct kernel *, struct kernel_call *calls, size_t n, kernel_done *done, void *data);
	void (*cancel)(struct kernel *); /* NULL where nothing is ever under way */
	int (*dispatch)(struct kernel *);
	void (*free)(struct kernel *);
	bool (*page_stats)(struct kernel *, uint32_t page, struct kernel_page_stats *ret);
	void (*orphan)(struct kernel *); /* NULL where nothing outlives who asks */
};

struct kernel {
	const struct kernel_ops *ops;
	struct kernel_facts facts;
	int fd;	      /* when it is readable, kernel_dispatch(); changes with remote_succeed() alone */
	bool stalled; /* too many fds of this process's user are in flight: kernel_dispatch() in a while, too */
	struct kernel_page_stats totals; /* of all pages that there ever were */
	struct tracer *tracer;		 /* where the daemon itself is the tracer, else NULL */
	kernel_changed *changed;	 /* called by the embedded backend alone: elsewhere only the pages tell */
	void *changed_data;
};

/*
 * Carries out `calls` and then calls `done` once, perhaps before this returns. The calls belong to the kernel until then
 * and must stay where they are. Without `done` nobody waits for the answers, and what cannot be carried out before this
 * returns is copied, but not a text: such calls have none.
 */
static inline void kernel_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done,
				 void *data)
{
	kernel->ops->submit(kernel, calls, n, done, data);
}

/* For what has no answer worth waiting for. */
static inline void kernel_tell(struct kernel *kernel, struct kernel_call call)
{
	kernel_submit(kernel, &call, 1, NULL, NULL);
}

/*
 * For the end: answers all that is under way before it returns, with -ECANCELED what was not carried out, and from then on
 * whatever is asked at once. (Where all is carried out by this process, it can be asked for more.)
 */
static inline void kernel_cancel(struct kernel *kernel)
{
	if (kernel->ops->cancel)
		kernel->ops->cancel(kernel);
}

/*
 * Who has asked so far has gone, and nothing is under way for him: all that there is was the last daemon's, for the next one
 * to fetch, to ask after or to disown.
 */
static inline void kernel_orphan(struct kernel *kernel)
{
	if (kernel->ops->orphan)
		kernel->ops->orphan(kernel);
}

/*
 * Never blocks. 0, or a negative errno after which the kernel is of no more use: unless it is a keeper that has gone, for
 * which there may be another one.
 */
static inline int kernel_dispatch(struct kernel *kernel)
{
	return kernel->ops->dispatch(kernel);
}

static inline bool kernel_page_stats(struct kernel *kernel, uint32_t page, struct kernel_page_stats *ret)
{
	return kernel->ops->page_stats(kernel, page, ret);
}

static inline struct kernel *kernel_free(struct kernel *kernel)
{
	if (kernel)
		kernel->ops->free(kernel);
	return NULL;
}

static inline void kernel_freep(struct kernel **kernel)
{
	*kernel = kernel_free(*kernel);
}

struct kernel_limits {
	uint32_t page_bits; /* 0: as many as there are */
	uint32_t capacity;  /* 0: likewise */
	size_t ring_bytes;  /* embedded: 0 for the default */
	bool persist;	    /* user_events: events that outlive their programs may be asked for */
	const char *pages;  /* embedded: the directory for them; NULL: they end with this process */
	uid_t pages_owner;  /* whose it is */
};

/* The backend that keeps everything in this process. 0 or a negative errno. */
int embedded_new(const struct kernel_limits *, struct kernel **ret);

/*
 * The one behind a keeper at the other end of the socket, which it takes over once the keeper says what it is: waits for
 * that, at most as long as a machine may be busy. -ECONNREFUSED with the keeper's sentence in `why` where it says no.
 */
int remote_new(int socket, struct kernel **ret, char why[WIRE_SENTENCE_MAX + 1]);

/*
 * Where kernel_dispatch() has said that the keeper has gone (-ECONNRESET), or whenever: goes on with the one at the other end
 * of this socket, which it takes over; the kernel's fd is another one from then on. Nothing waits. Whatever is asked meanwhile
 * is kept until kernel_dispatch() has heard the new keeper's first words, for which there is no time limit here.
 *
 * Then `restore` is called, once. The facts are the new keeper's by then (but for page_bits and capacity, which stay what
 * they were): look whether there still is a guard. What is submitted in the course of it goes before everything else, in its
 * own order: that is where the new keeper is given what it is to have (KERNEL_PAGE_ADOPT …, KERNEL_DEPOSIT). Behind it
 * batches that were not wholly answered are asked again, from their first call on; what they had been given is closed, so
 * nothing of theirs is to be adopted. A DEPOSIT or a WITHDRAW by itself is not: it is answered with -ECANCELED. If this keeper goes, too, what was submitted in `restore` is answered with -ECANCELED
 * when the next one takes its place: all of it is to be said again.
 *
 * A keeper that has another backend or smaller pages is no successor: kernel_dispatch() says -ESTALE, and facts.note why. One
 * that can't is -ECONNREFUSED, as ever.
 */
typedef void kernel_restore(void *data);
void remote_succeed(struct kernel *, int socket, kernel_restore *restore, void *data);
