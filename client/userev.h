/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef USEREV_H
#define USEREV_H

/*
 * libuserev: user_events tracepoints for unprivileged programs, through the daemon userevd.
 *
 *	USEREV_EVENT(shop, request, (u32, status), (u64, ns), (string, path));
 *
 *	userev_emit(shop_request, 404, 4000, "/favicon.ico");
 *
 * A program needs nothing else: userev_event.h, included at the end, documents declarations. An event whose description is known
 * only at run time is registered with userev_register():
 *
 *	static struct userev_event hello;
 *
 *	struct userev *userev = userev_open(NULL, 0);
 *	userev_register(userev, &hello, "hello u32 count; __rel_loc char[] whom", 0);
 *	if (userev_enabled(&hello))
 *		userev_write(&hello, payload, size);
 *
 * Without a daemon the program runs the same, with all events off. They become usable when a daemon starts: each test of an
 * event that has no daemon tries to connect, at growing intervals and without blocking. The library has no thread and no signal
 * handler, raises no signal and depends only on libc.
 *
 * Threads: all functions may be called concurrently, with two exceptions. Do not release an event, and do not close a struct
 * userev, while another thread uses it.
 *
 * Signal handlers: only userev_enabled(), userev_writev(), userev_write() and userev_emit() are async-signal-safe.
 *
 * Forks: after fork() parent and child both keep their events; the child opens its own connection when it next needs one. The
 * child of a vfork() must not call the library. After chroot() and setuid() events stay usable; if the library has to reconnect,
 * the daemon's socket must be reachable, and the daemon sees the new user.
 *
 * File descriptors: all are close-on-exec, and numbered above 100 where RLIMIT_NOFILE permits. A program may close descriptors
 * that it did not open, as daemons do at their start: the library notices after a fork, at its next call, or when a record cannot
 * be written, and opens new ones. One case goes unnoticed: a program that closes the library's descriptors without forking or
 * calling the library, and opens enough files of its own that one gets a stream's number. Records of enabled events are then
 * written to that file.
 *
 * Call userev_seal() before installing a seccomp filter.
 *
 * Environment. All of these variables are ignored in set-user-ID programs (secure_getenv(3)).
 *	USEREV_SOCKET=PATH	the daemon's socket
 *	USEREV_DEBUG=1		log connections, failures and refused events on stderr
 *	USEREV_DEBUG=refused	log refused events only
 *	USEREV_WAIT=MS		a program or library with declared events waits up to MS milliseconds at its start for the
 *				daemon's answers; calls that block use MS as their minimum timeout
 *
 * Functions return 0 or a positive result, or a negative errno. They do not change errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct userev; /* a connection to the daemon, with the events registered through it */
struct userev_declaration;

/* Index, stream and bit of a registered event, in one word so that they are read and written atomically. */
union userev_place {
	uint64_t whole;
	struct {
		uint32_t index;
		uint16_t stream;
		uint16_t bit; /* in the status page */
	} part;
};

/* In `bit`: the event has no grant yet. */
#define USEREV_PENDING_ 0x8000u

/*
 * One event. Initialize it with zeros: that is a valid event that is off. From registration to release it must not move, and
 * only the library may modify it. With a thousand declared events the library uses 28 bytes of writable memory for each, these
 * 24 included.
 */
struct userev_event {
	intptr_t status; /* offset from here to the byte of the status page; 0: this member itself, off */
	const struct userev_declaration *declared;
	union userev_place place __attribute__((__aligned__(8)));
};

/* One event of a userev_register_all() call. */
struct userev_registration {
	struct userev_event *event;
	const char *description;
	unsigned flags;
	/* Out: 0 or a negative errno, as userev_register() returns. */
	int result;
	/* Out: why the event was refused, valid until the next registration through this struct userev; else NULL. */
	const char *why;
};

/* Flags of a registration. */
#define USEREV_PERSIST	    (1u << 0) /* keep the event after its last user has gone, where policy and kernel allow it */
#define USEREV_MULTI_FORMAT (1u << 1) /* allow events of the same name with other fields */

/*
 * Opens a connection to the daemon at `socket`. NULL means $USEREV_SOCKET, else /run/userevd/client/userevd.sock, else
 * /run/userevd.sock. `flags` must be 0.
 *
 * Succeeds even if no daemon is running; userev_connected() returns the state. Returns NULL and sets errno only for ENOMEM,
 * EINVAL (flags) and ENAMETOOLONG (socket). Free the result with userev_close().
 */
struct userev *userev_open(const char *socket, unsigned flags);

/*
 * Closes the connection. Its events are switched off and unregistered: they may be freed, or registered elsewhere. NULL is
 * allowed.
 */
void userev_close(struct userev *userev);

/*
 * Connects if necessary, and waits up to two seconds for each answer of the daemon. Answers that arrive later are processed by
 * later calls.
 *
 * Returns 0 when the daemon has answered for all events, otherwise a negative errno: -ENOENT or -ECONNREFUSED (no daemon),
 * -EACCES (no permission on the socket), -EPROTO (the daemon refused the connection, see userev_refusal()), -ETIMEDOUT, …
 */
int userev_connected(struct userev *userev);

/*
 * Registers `event` under a description: "name type field; type field". The description is copied; `event` belongs to the
 * library until it is released. A program may register the same name and fields several times, each with a struct userev_event
 * of its own and a release of its own.
 *
 * Waits up to two seconds for the daemon, and not again while it stays silent. 0: the event is registered, or will be when the
 * daemon starts or answers. Until then it is off. If the daemon refuses it later, it stays off and userev_why() returns the reason.
 *
 * A negative errno: the event is off and not registered, and userev_refusal() returns a sentence that says how to correct it.
 *	-EINVAL		wrong description or flags
 *	-EBUSY		this struct userev_event is registered already
 *	-EEXIST		an event with other fields has this name, and kernel or policy allow no second one
 *	-EDQUOT		the tenant has reached its maximum of events
 *	-ENOSPC		the status page or the machine has no room for another event
 *	-EACCES		the policy forbids it
 *	-EOPNOTSUPP	this kernel does not support it
 *	-EIO		an internal error of the daemon
 *	-ENOMEM
 */
int userev_register(struct userev *userev, struct userev_event *event, const char *description, unsigned flags);

/*
 * Registers `n` events in as few packets as possible, and stores a result in each registration. Returns the number of refused
 * events, or -ENOMEM if nothing was done.
 */
int userev_register_all(struct userev *userev, struct userev_registration *registrations, size_t n);

/* Releases the event: it is off, and may be freed or registered again. Has no effect on an event that is not registered. */
void userev_release(struct userev *userev, struct userev_event *event);

/* The slow path of userev_enabled(): looks for a daemon for an event without a grant. */
bool userev_awaken(const struct userev_event *event) __attribute__((__cold__));

/*
 * Returns whether a tracer has enabled the event. Two loads and one test while the event is off; false for an event that was
 * never registered.
 */
static inline bool userev_enabled(const struct userev_event *event)
{
	/* Another thread may be registering the event. Relaxed atomic loads cost as much as plain loads. */
	uintptr_t status = (uintptr_t)event + (uintptr_t)__atomic_load_n(&event->status, __ATOMIC_RELAXED);
	unsigned bit;

	/* The eight events of a byte are nearly always off together: test the byte first, then the event's own bit. */
	if (__builtin_expect(__atomic_load_n((const unsigned char *)status, __ATOMIC_RELAXED) == 0, 1))
		return false;
	/* Load the address again: until here it needs no register of its own. */
	status = (uintptr_t)event + (uintptr_t)__atomic_load_n(&event->status, __ATOMIC_RELAXED);
	bit = __atomic_load_n(&event->place.part.bit, __ATOMIC_RELAXED);
	if (__builtin_expect((bit & USEREV_PENDING_) != 0, 0))
		return userev_awaken(event);
	return (__atomic_load_n((const unsigned char *)status, __ATOMIC_RELAXED) & 1u << bit % 8) != 0;
}

/*
 * Writes one record. The payload is laid out as the description defines; the library adds the index in front. At most 31 pieces.
 * Does not allocate, lock or block, and raises no signal.
 *
 * Returns the number of payload bytes written, or 0 if the event is off or not registered. Errors:
 *	-E2BIG	the payload is larger than any tracer accepts: 4,064 bytes, unless the daemon announces another maximum
 *	-EAGAIN	the queue is full (embedded backend)
 *	-EINVAL	more than 31 pieces, or shorter than the event's fixed fields (the embedded daemon counts such a record as bad
 *		instead)
 * -E2BIG and -EAGAIN lose the record; userev_lost() counts it.
 */
ssize_t userev_writev(const struct userev_event *event, const struct iovec *payload, int n);

/* The same, for a payload in one buffer. */
ssize_t userev_write(const struct userev_event *event, const void *payload, size_t size);

/*
 * Returns the event's name, with the prefix that policy may have added; NULL while the daemon has not granted it. Valid until
 * the event is released.
 */
const char *userev_event_name(const struct userev_event *event);

/*
 * For programs that pass the kernel's own user_events_data to others, which register events on it by themselves, such as collectors for
 * EventPipe of .NET. Opens it through the daemon at `socket` (as userev_open()), where the policy of this program's tenant has Native=yes.
 * Returns a descriptor of the caller's, opened for writing; or a negative errno: -EPERM (the daemon refuses it, see userev_refusal()),
 * or as userev_connected(). Events are charged to the tenant of the first process that registers on it.
 */
int userev_native_file(const char *socket);

/* Returns the daemon's last refusal in this thread, or "". Valid until this thread's next call of the library. */
const char *userev_refusal(void);

/* Returns how many records were lost since userev_open(), by cause. */
struct userev_losses {
	uint64_t queue_full;
	uint64_t too_big;
};
struct userev_losses userev_lost(const struct userev *userev);

/*
 * Returns why the event has no grant: the daemon's refusal, or the state of the connection. NULL if the daemon has granted the
 * event. Valid until the event is released, or the next call.
 */
const char *userev_why(const struct userev_event *event);

/*
 * The functions below, userev_connected() and userev_lost() accept NULL for the connection of the events that are declared with
 * USEREV_EVENT.
 */

/*
 * Processes whatever can be processed within `timeout_ms`; 0 does not block, a negative value has no limit. Programs need it
 * only if they would rather not leave connecting to tests of events.
 *
 * Returns 0 when the daemon has answered for all events, -EAGAIN while answers are outstanding, or the reason why there is no
 * connection (as userev_connected()). Returns at once if there is no daemon; with a timeout of 0 it tries again only after a
 * pause, which grows to five seconds.
 */
int userev_poll(struct userev *userev, int timeout_ms);

/*
 * Returns an fd for poll(2) and epoll(7), owned by the library. It is readable (POLLIN) when userev_poll(userev, 0) has
 * something to do. It stays the same until a fork; afterwards call userev_fd() again in both processes. While no daemon is
 * running, the program needs a timer that calls userev_poll().
 */
int userev_fd(struct userev *userev);

/* userev_poll(NULL, timeout_ms), for programs that end soon after their start. */
int userev_wait(int timeout_ms);

/*
 * For programs that start expensive collection only while an event is enabled. userev_watch() returns the fd of userev_fd(),
 * which from then on also becomes readable when an event is switched on or off. Then call userev_changed() until it returns NULL:
 * each call returns an event whose state differs from the state last reported for it (initially off); userev_enabled() returns
 * the new state. Call it once after userev_watch(), too. userev_changed() also does the work of userev_poll(userev, 0).
 */
int userev_watch(struct userev *userev);
struct userev_event *userev_changed(struct userev *userev);

/*
 * For programs that are about to restrict their system calls. From now on testing an event makes no system call, and writing a
 * record calls only writev(2). Events without a grant are off and stay off.
 */
void userev_seal(struct userev *userev);

/* Returns the version of the library at run time, as "1.2.3". */
const char *userev_version(void);

#ifdef __cplusplus
}
#endif

#include "userev_event.h"

#endif
