/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef USEREV_H
#define USEREV_H

/*
 * libuserev: trace events for programs without privilege.
 *
 *	USEREV_EVENT(shop, request, (u32, status), (u64, ns), (string, path));
 *
 *	userev_emit(shop_request, 404, 4000, "/favicon.ico");
 *
 * That is a whole program's part of it: userev_event.h, at the end, says what else can be declared. Events whose descriptions
 * are known at run time only are registered by hand:
 *
 *	static struct userev_event hello;
 *
 *	struct userev *userev = userev_open(NULL, 0);
 *	userev_register(userev, &hello, "hello u32 count; __rel_loc char[] whom", 0);
 *	if (userev_enabled(&hello))
 *		userev_write(&hello, payload, size);
 *
 * The program runs just as well where there is no daemon: its events are then off, and come alive by themselves when it is
 * there, since whoever tests one that waits for a daemon looks for it, now and then and without waiting. The library has no
 * thread and no signal handler, raises no signal and needs nothing but libc.
 *
 * All functions may be called from several threads at once, with two exceptions: an event must not be released, and a
 * struct userev not be closed, while another thread uses it. None may be called from a signal handler, except
 * userev_enabled(), userev_writev(), userev_write() and userev_emit().
 *
 * After a fork both processes go on using their events; the child makes a connection of its own when it next needs one. The
 * child of a vfork() must not call the library. Every fd is close-on-exec, and above 100 where the process may have so many.
 * A program may close all fds that it does not know: that is noticed after a fork, when the library is called, and when a
 * record cannot be written; the events come back on new ones. It cannot be noticed when a program that neither forks nor calls
 * the library closes them *and* opens as many of its own that one of them gets the number of a stream: records of events that
 * are on then go there. After chroot() and setuid() events go on; if the daemon has to be asked again it must be reachable, and
 * sees the new user. Who forbids himself system calls (seccomp) calls userev_seal() before that.
 *
 * The environment: USEREV_SOCKET is the daemon's socket; USEREV_DEBUG=1 prints on stderr what happens, USEREV_DEBUG=refused
 * only what is refused; with USEREV_WAIT=MS a program waits so long at its start for the daemon's answers to its declared events,
 * and calls that wait wait at least so long. All of them are ignored in set-user-ID programs (secure_getenv(3)).
 *
 * Results are 0 or more, or a negative errno. errno itself is not touched.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct userev; /* a connection to the daemon, and what was registered through it */
struct userev_declaration;

/* Where an event is while it is registered: one word. */
union userev_place {
	uint64_t whole;
	struct {
		uint32_t index;
		uint16_t stream;
		uint16_t bit; /* of the status page */
	} part;
};

/* In `bit`: the event waits for a daemon. */
#define USEREV_PENDING_ 0x8000u

/*
 * One event, and nearly all that the library knows of it: a program with a thousand declared ones has 28 bytes of writable memory
 * for each, these 24 included. Zeros are a valid event that is off. It must stay at its place from its registration to its
 * release, and is the library's to change meanwhile.
 */
struct userev_event {
	intptr_t status; /* from here to its byte of the status page; 0 is this very byte, which is 0: off */
	const struct userev_declaration *declared;
	union userev_place place __attribute__((__aligned__(8)));
};

/* One of many for userev_register_all(). */
struct userev_registration {
	struct userev_event *event;
	const char *description;
	unsigned flags;
	/* Out: 0 or a negative errno, as of userev_register(). */
	int result;
	/* Out: the sentence of a refusal, until the next registration through this struct userev; or NULL. */
	const char *why;
};

/* Flags of a registration. */
#define USEREV_PERSIST	    (1u << 0) /* the event outlives its last holder, where policy and kernel allow it */
#define USEREV_MULTI_FORMAT (1u << 1) /* the same name with other fields may exist beside it */

/*
 * Opens a connection to the daemon at `socket`; NULL is $USEREV_SOCKET, else /run/userevd/client/userevd.sock, else
 * /run/userevd.sock. `flags` must be 0.
 *
 * It succeeds also when no daemon is there; userev_connected() tells. NULL with errno only for ENOMEM, EINVAL (flags) and
 * ENAMETOOLONG (socket). Release it with userev_close().
 */
struct userev *userev_open(const char *socket, unsigned flags);

/*
 * Ends the connection. All events that were registered through it and not released are off from then on and may be freed or
 * registered elsewhere. NULL is fine.
 */
void userev_close(struct userev *userev);

/*
 * 0 when the daemon has welcomed us and answered for all events, else why not, as a negative errno: -ENOENT or -ECONNREFUSED
 * (no daemon), -EACCES (no permission on the socket), -EPROTO (refused us, see userev_refusal()), -ETIMEDOUT, … Tries to
 * connect if need be, and waits at most two seconds for each of the daemon's steps; what comes later is taken later.
 */
int userev_connected(struct userev *userev);

/*
 * Registers `event` under a description: "name type field; type field". The event and nothing else is the library's until
 * it is released; the description is copied.
 *
 * 0: the event is registered, or will be once the daemon is there, or has answered: we wait two seconds for that. Until then
 * it is off; if it is refused then, it stays off, and userev_why() says so. Otherwise the daemon refused it,
 * the event is off and not registered, and userev_refusal() is a sentence that says what to change:
 * -EINVAL (the description, or flags), -EBUSY (this event is registered already), -EEXIST (the name is taken by an event
 * with other fields, and kernel or policy allow no second one), -EDQUOT (the tenant has as many events as it may), -ENOSPC (the page or the machine is full), -EACCES
 * (policy), -EOPNOTSUPP (this kernel cannot), -EIO (trouble in the daemon), -ENOMEM.
 *
 * The same event may be registered at several places of a program; each struct userev_event is released for itself.
 */
int userev_register(struct userev *userev, struct userev_event *event, const char *description, unsigned flags);

/*
 * Registers `n` events in as few packets as possible. Each gets its own result; returns how many were refused, or a negative
 * errno when nothing was done (-ENOMEM).
 */
int userev_register_all(struct userev *userev, struct userev_registration *registrations, size_t n);

/* Gives the event back: it is off, and may be freed or registered again. Fine on an event that is not registered. */
void userev_release(struct userev *userev, struct userev_event *event);

/* For an event that waits for a daemon: is there one now? For userev_enabled(). */
bool userev_awaken(const struct userev_event *event) __attribute__((__cold__));

/*
 * Is anybody tracing it? One load and one test when nobody is; valid on an event that was never registered (false).
 */
static inline bool userev_enabled(const struct userev_event *event)
{
	/* Relaxed atomics: another thread may be registering it right now. They cost what plain loads cost. */
	uintptr_t status = (uintptr_t)event + (uintptr_t)__atomic_load_n(&event->status, __ATOMIC_RELAXED);
	unsigned bit;
#if defined(__x86_64__) || defined(__i386__)
	/* The eight events of a byte are nearly always off together: compare in memory, look at our own bit only if not. */
	bool some;

	__asm__ __volatile__("cmpb $0, %1" : "=@ccne"(some) : "m"(*(const unsigned char *)status));
	if (__builtin_expect(!some, 1))
		return false;
	/* Once more, so that the compiler need not keep the sum: the processor makes it when it compares. */
	status = (uintptr_t)event + (uintptr_t)__atomic_load_n(&event->status, __ATOMIC_RELAXED);
#else
	if (__builtin_expect(*(const volatile unsigned char *)status == 0, 1))
		return false;
#endif
	bit = __atomic_load_n(&event->place.part.bit, __ATOMIC_RELAXED);
	if (__builtin_expect((bit & USEREV_PENDING_) != 0, 0))
		return userev_awaken(event);
	return (*(const volatile unsigned char *)status & 1u << bit % 8) != 0;
}

/*
 * Writes one record: the payload, laid out as the description says, without the index in front, which the library adds. At
 * most 31 pieces (-EINVAL). Allocates nothing, waits for no lock and nobody, and never raises a signal.
 *
 * Returns the number of payload bytes written; 0 when nobody traces the event any more (or it is not registered), which is
 * no error. -E2BIG: larger than what every tracer can hold (4,064 bytes unless the daemon says otherwise). -EAGAIN: the
 * queue is full (embedded backend). Both lose the record and are counted: userev_lost(). -EINVAL: shorter than the event's
 * fixed fields (kernel backends; the embedded daemon counts it as bad).
 */
ssize_t userev_writev(const struct userev_event *event, const struct iovec *payload, int n);

/* The same for one buffer. */
ssize_t userev_write(const struct userev_event *event, const void *payload, size_t size);

/* The event's full name, which policy may have prefixed; NULL while it is not registered with a daemon. Until its release. */
const char *userev_event_name(const struct userev_event *event);

/* The daemon's sentence for the last refusal that this thread met, or "". Until the thread's next call into the library. */
const char *userev_refusal(void);

/* How many records were lost since userev_open(): because the queue was full, because they were too big. */
struct userev_losses {
	uint64_t queue_full;
	uint64_t too_big;
};
struct userev_losses userev_lost(const struct userev *userev);

/*
 * Why there is no grant for this event: the daemon's sentence where it was refused, else what is wrong with the connection, or
 * that nobody has answered yet; NULL where it is registered with a daemon. Until the event's release, or the next call.
 */
const char *userev_why(const struct userev_event *event);

/*
 * For who does not want to leave it to the tests of events, nor to be kept waiting. In the following functions NULL is the
 * struct userev of the events that are declared with USEREV_EVENT (in userev_connected() and userev_lost(), too).
 *
 * userev_poll() does all that can be done within `timeout_ms`, 0 not to wait, negative as long as it takes: 0 when the daemon
 * has answered for all events, -EAGAIN while it has not, else why there is none, as of userev_connected(). Without a daemon it
 * returns at once; with a timeout of 0 it then tries again after a pause, which grows to five seconds.
 *
 * userev_fd() is for poll(2) and epoll(7): readable (POLLIN) when userev_poll(userev, 0) has something to do; it stays the same
 * until a fork, after which both sides ask again. Where there is no daemon, a timer that calls userev_poll() is the program's.
 *
 * userev_wait(ms) is userev_poll(NULL, ms), for programs that end soon.
 */
int userev_poll(struct userev *userev, int timeout_ms);
int userev_fd(struct userev *userev);
int userev_wait(int timeout_ms);

/*
 * To start expensive collecting only when somebody looks: from now on the fd of userev_fd(), which this returns, is readable,
 * too, when an event was turned on or off. Then call userev_changed() until it returns NULL: each time it names an event that
 * is in another state than it was told before (userev_enabled() says which); at first all are off. Call it once at the start.
 * It does what userev_poll(userev, 0) does, too.
 */
int userev_watch(struct userev *userev);
struct userev_event *userev_changed(struct userev *userev);

/*
 * From now on no test of an event and no record does more than that: events that wait for a daemon are off, and nothing but
 * writev(2) is called for those that have one. For programs that are about to forbid themselves everything else.
 */
void userev_seal(struct userev *userev);

/* The version of the library that runs, as "1.2.3". */
const char *userev_version(void);

#ifdef __cplusplus
}
#endif

#include "userev_event.h"

#endif
