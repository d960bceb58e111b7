/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A record is one writev(): the index, followed by the program's pieces.
 *
 * Nothing here waits for the lock.
 *
 * Checking for each record whether the fd is still the library's would cost a system call; that is done when writing fails.
 */

#include <sys/uio.h>

#include "client/library/loss.h"
#include "client/library/open.h"
#include "client/library/page.h"
#include "client/library/place.h"
#include "client/library/session.h"

enum { PIECES_MAX = 31 }; /* half a kilobyte of stack, with the index */

_public_ struct userev_losses userev_lost(const struct userev *userev)
{
	userev = open_resolve((struct userev *)(uintptr_t)userev);
	if (!userev)
		return (struct userev_losses){ 0 };
	return (struct userev_losses){
		.queue_full = loss_count(&userev->losses.queue_full),
		.too_big = loss_count(&userev->losses.too_big),
	};
}

static ssize_t write_lose_too_big(struct userev *userev)
{
	loss_add(&userev->losses.too_big);
	return -E2BIG;
}

/* The event was just switched off, or page or stream need attention. */
static ssize_t write_to_nobody(struct stream *stream, bool ended)
{
	if (ended && !atomic_exchange_explicit(&stream->ended, true, memory_order_relaxed))
		atomic_store_explicit(&stream->files->rescan, true, memory_order_release);
	session_look(userev_of(stream));
	return 0;
}

/* Linux before 6.4 fails with EFAULT for records without a payload, although an event may have no fields: send one byte. */
static ssize_t write_padded(const struct stream *stream, const struct iovec *pieces, int n)
{
	const struct iovec padded[] = { pieces[0], { .iov_base = (char[]){ 0 }, .iov_len = 1 } };

	for (int i = 1; i < n; i++)
		if (pieces[i].iov_len > 0)
			return -EFAULT;
	return writev(stream->fd, padded, ARRAY_SIZE(padded)) < 0 ? -errno : 0;
}

static __attribute__((__cold__, __noinline__)) ssize_t write_failed(struct stream *stream, const struct iovec *pieces,
								    int n)
{
	switch (errno) {
	case EBADF:  /* the event was switched off, or the fd was closed */
	case ENOENT: /* the event is not registered on this file */
		return write_to_nobody(stream, false);
	case EPIPE:	 /* embedded backend: the daemon has ended */
	case ECONNRESET: /* likewise */
	case ENOTCONN:	 /* the stream is quarantined */
		return write_to_nobody(stream, true);
	case EAGAIN:
	case ENOBUFS:
		loss_add(&userev_of(stream)->losses.queue_full);
		return -EAGAIN;
	case EMSGSIZE:
		return write_lose_too_big(userev_of(stream));
	case EFAULT:
		return write_padded(stream, pieces, n);
	default:
		return -errno;
	}
}

static bool write_is_too_big(const struct stream *stream, const struct iovec *pieces, int n)
{
	size_t left = atomic_load_explicit(&stream->files->payload_max, memory_order_relaxed);

	for (int i = 1; i < n; i++) {
		if (pieces[i].iov_len > left)
			return true;
		left -= pieces[i].iov_len;
	}
	return false;
}

/* Adds the index as the first piece. The fast path; everything that happens rarely is in other functions. */
static ssize_t write_record(const struct userev_event *event, struct iovec *pieces, int n)
{
	union userev_place place = place_of(event);
	struct stream *stream = stream_at(place);
	const int saved_errno = errno;
	ssize_t result;

	if (!place_is_granted(place))
		return 0;
	pieces[0] = (struct iovec){ .iov_base = &place.part.index, .iov_len = sizeof(place.part.index) };
	if (write_is_too_big(stream, pieces, n)) {
		result = write_lose_too_big(userev_of(stream));
	} else {
		result = writev(stream->fd, pieces, n);
		if (__builtin_expect(result >= 0, 1)) {
			result = MAX(result - (ssize_t)sizeof(place.part.index), 0);
		} else {
			result = write_failed(stream, pieces, n);
			errno = saved_errno;
		}
	}
	if (__builtin_expect(atomic_load_explicit(&stream->files->page_is_kernels, memory_order_relaxed) ||
				     page_is_abandoned(stream->files->page),
			     0))
		session_look(userev_of(stream));
	if (loss_is_unreported(userev_of(stream)) && !userev_of(stream)->sealed)
		loss_report_at_intervals(userev_of(stream));
	pieces[0].iov_base = NULL;
	return result;
}

_public_ ssize_t userev_writev(const struct userev_event *event, const struct iovec *payload, int n)
{
	struct iovec pieces[1 + PIECES_MAX];

	if (n < 0 || n > PIECES_MAX)
		return -EINVAL;
	if (!userev_enabled(event))
		return 0;
	for (int i = 0; i < n; i++)
		pieces[i + 1] = payload[i];
	return write_record(event, pieces, n + 1);
}

_public_ void userev_write_pieces(const struct userev_event *event, struct iovec *pieces, int n)
{
	write_record(event, pieces, n);
}

_public_ ssize_t userev_write(const struct userev_event *event, const void *payload, size_t size)
{
	struct iovec pieces[] = { { 0 }, { .iov_base = (void *)(uintptr_t)payload, .iov_len = size } };

	return userev_enabled(event) ? write_record(event, pieces, ARRAY_SIZE(pieces)) : 0;
}
