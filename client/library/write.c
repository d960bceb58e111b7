/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A record is the index, followed by the program's pieces. A small one is copied into one buffer and written with write(), for
 * which the kernel needs a fifth less than for a writev() of two pieces.
 *
 * Nothing here waits for the lock.
 *
 * Checking for each record whether the fd is still the library's would cost a system call; that is done when writing fails.
 */

#include <sys/uio.h>
#include <unistd.h>

#include "client/library/open.h"
#include "client/library/place.h"
#include "client/library/requests.h"
#include "client/library/session.h"

enum { PIECES_MAX = 31 }; /* three quarters of a kilobyte of stack, with the buffer */

_public_ struct userev_losses userev_lost(const struct userev *userev)
{
	userev = open_resolve((struct userev *)(uintptr_t)userev);
	if (!userev)
		return (struct userev_losses){ 0 };
	return (struct userev_losses){
		.queue_full = userev->losses.queue_full,
		.too_big = userev->losses.too_big,
	};
}

static ssize_t write_failed(struct stream *stream, const void *record, size_t size)
{
	const struct iovec padded[] = { { (void *)(uintptr_t)record, size }, { (char[]){ 0 }, 1 } };
	struct userev *userev = userev_of(stream);

	switch (errno) {
	case EPIPE:	 /* embedded backend: the daemon has ended */
	case ECONNRESET: /* likewise */
	case ENOTCONN:	 /* the stream is quarantined */
		if (!atomic_exchange_explicit(&stream->ended, true, memory_order_relaxed))
			atomic_store_explicit(&stream->files->rescan, true, memory_order_release);
		session_look(userev);
		return 0;
	case EBADF:  /* the event was switched off, or the fd was closed */
	case ENOENT: /* the event is not registered on this file */
		session_look(userev);
		return 0;
	case EAGAIN:
	case ENOBUFS:
		loss_add(userev, &userev->losses.queue_full);
		return -EAGAIN;
	case EMSGSIZE:
		loss_add(userev, &userev->losses.too_big);
		return -E2BIG;
	case EFAULT:
		/* Linux before 6.4, for a record without a payload, although an event may have no fields: send one byte. */
		return size > sizeof(uint32_t) || writev(stream->fd, padded, ARRAY_SIZE(padded)) < 0 ? -errno : 0;
	default:
		return -errno;
	}
}

/* After a write that has failed, or while a look at the connection is due. `record` begins with the index. */
static __attribute__((__cold__, __noinline__)) ssize_t write_end(struct stream *stream, const void *record, size_t size,
								 ssize_t result, int saved_errno)
{
	if (result >= 0) {
		result = MAX(result - (ssize_t)sizeof(uint32_t), 0);
	} else {
		result = write_failed(stream, record, size);
		errno = saved_errno;
	}
	if (files_are_marked(stream->files))
		session_look(userev_of(stream));
	return result;
}

/* Whether a trace of the tenant's own has the event: a load from a page that hardly ever changes. */
static inline bool is_traced(const struct stream *stream, union userev_place place)
{
	const uint8_t *traced = atomic_load_explicit(&stream->files->traced, memory_order_relaxed);
	const unsigned bit = place.part.bit & PLACE_BIT;

	return __builtin_expect((__atomic_load_n(&traced[bit / 8], __ATOMIC_RELAXED) & 1u << bit % 8) != 0, 0);
}

/* Any record. The first piece begins with room for the index. */
_public_ ssize_t userev_write_record(const struct userev_event *event, const struct iovec *pieces, int n)
{
	const union userev_place place = place_of(event);
	struct stream *stream = stream_at(place);
	const int saved_errno = errno;
	ssize_t result = -1;
	bool fits = true, traced, wanted;
	size_t size = 0, max;

	if (!place_is_granted(place))
		return 0;
	memcpy(pieces[0].iov_base, &place.part.index, sizeof(place.part.index));
	max = sizeof(place.part.index) + stream->files->payload_max;
	for (int i = 0; i < n && fits; i++) {
		fits = pieces[i].iov_len <= max - size;
		size += pieces[i].iov_len;
	}
	traced = fits && is_traced(stream, place);
	wanted = !traced || traces_write(userev_of(stream), event, pieces, n);
	if (!fits)
		errno = EMSGSIZE;
	else if (wanted)
		result = writev(stream->fd, pieces, n);
	/* EBADF: the event is off in the kernel, or the fd was closed. */
	if (traced && (!wanted || (result < 0 && errno == EBADF))) {
		errno = saved_errno;
		return (ssize_t)(size - sizeof(place.part.index));
	}
	return write_end(stream, pieces[0].iov_base, size, result, saved_errno);
}

static __attribute__((__cold__, __noinline__)) ssize_t write_piece(const struct userev_event *event, void *record,
								   size_t size)
{
	return userev_write_record(event, &(struct iovec){ record, size }, 1);
}

/*
 * The fast path: a record in one buffer, which begins with room for the index. The stream of an event that has just lost its grant
 * has no file, and a sealed program may have forbidden itself all system calls but writev().
 */
static inline __attribute__((__always_inline__)) ssize_t write_buffer(const struct userev_event *event,
								      unsigned char *buffer, size_t size)
{
	const union userev_place place = place_of(event);
	struct stream *stream = stream_at(place);
	ssize_t result;
	int saved_errno;

	if (!stream || size > atomic_load_explicit(&stream->files->buffer_max, memory_order_relaxed) ||
	    is_traced(stream, place))
		return write_piece(event, buffer, size);
	memcpy(buffer, &place.part.index, sizeof(place.part.index));
	saved_errno = errno;
	result = write(stream->fd, buffer, size);
	if (__builtin_expect(result < (ssize_t)sizeof(uint32_t) || files_are_marked(stream->files), 0))
		return write_end(stream, buffer, size, result, saved_errno);
	return result - (ssize_t)sizeof(uint32_t);
}

_public_ void userev_write_buffer(const struct userev_event *event, unsigned char *buffer, size_t size)
{
	write_buffer(event, buffer, size);
}

_public_ ssize_t userev_writev(const struct userev_event *event, const struct iovec *payload, int n)
{
	unsigned char buffer[USEREV_BUFFER_];
	struct iovec pieces[1 + PIECES_MAX];
	struct userev_record_ record = { .buffer = buffer, .pieces = pieces, .at = sizeof(uint32_t) };

	if (n < 0 || n > PIECES_MAX)
		return -EINVAL;
	if (!userev_enabled(event))
		return 0;
	record.left = sizeof(buffer) - record.at;
	for (int i = 0; i < n; i++)
		userev_put_bytes_(&record, payload[i].iov_base, payload[i].iov_len);
	if (record.n == 0)
		return write_buffer(event, buffer, record.at);
	userev_end_run_(&record);
	return userev_write_record(event, pieces, record.n);
}

_public_ ssize_t userev_write(const struct userev_event *event, const void *payload, size_t size)
{
	unsigned char buffer[USEREV_BUFFER_];

	if (!userev_enabled(event))
		return 0;
	if (size > sizeof(buffer) - sizeof(uint32_t))
		return userev_writev(event, &(struct iovec){ (void *)(uintptr_t)payload, size }, 1);
	if (size > 0)
		memcpy(buffer + sizeof(uint32_t), payload, size);
	return write_buffer(event, buffer, sizeof(uint32_t) + size);
}
