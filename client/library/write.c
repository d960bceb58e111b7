/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A record is one writev: the index, then the program's own pieces.
 *
 * Nothing here waits for a lock. What was lost is counted with atomics. Who finds the mutex taken leaves the report to a later
 * record, or to whoever has it. LOST has no answer and may pass between a request and its answer.
 *
 * Whether the stream is still ours nobody can ask for each record. Where writing fails, it is found out.
 */

#include <sys/socket.h>

#include "client/library/library.h"
#include "protocol/transport.h"

enum {
	PIECES_MAX = 31, /* half a kilobyte of stack, index included */
	REPORT_MS = 100, /* a full queue must not become a full connection */
};

_public_ struct userev_losses userev_lost(const struct userev *userev)
{
	userev = library_meant((struct userev *)(uintptr_t)userev);
	if (!userev)
		return (struct userev_losses){ 0 };
	return (struct userev_losses){
		.queue_full = atomic_load_explicit(&userev->losses.queue_full, memory_order_relaxed),
		.too_big = atomic_load_explicit(&userev->losses.too_big, memory_order_relaxed),
	};
}

static bool losses_wait(const struct losses *unreported)
{
	return atomic_load_explicit(&unreported->queue_full, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&unreported->too_big, memory_order_relaxed) != 0;
}

static void add(_Atomic uint64_t *count, uint64_t more)
{
	atomic_fetch_add_explicit(count, more, memory_order_relaxed);
}

static int send_lost(int fd, const struct wire_lost *lost)
{
	uint8_t buffer[sizeof(struct wire_header) + sizeof(struct wire_lost)];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	encode_begin(&packet, KIND_LOST, 0, 0, NULL, 0);
	encode_lost(&packet, lost);
	encode_end(&packet);
	return transport_send(fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT);
}

void losses_report(struct userev *userev)
{
	struct losses *unreported = &userev->unreported;
	struct wire_lost lost;

	if (!losses_wait(unreported) || !fd_is(userev->fd, &userev->id))
		return;
	lost = (struct wire_lost){
		.queue_full = atomic_exchange(&unreported->queue_full, 0),
		.too_big = atomic_exchange(&unreported->too_big, 0),
	};
	if (send_lost(userev->fd, &lost) == 0)
		return;
	add(&unreported->queue_full, lost.queue_full);
	add(&unreported->too_big, lost.too_big);
}

/* At most one report in REPORT_MS, whatever the number of threads. */
static __attribute__((__cold__, __noinline__)) void report_now_and_then(struct userev *userev)
{
	uint32_t last = atomic_load(&userev->reported_at);
	const uint32_t now = about_now_ms();
	struct entered entered;

	if (now - last < REPORT_MS || !atomic_compare_exchange_strong(&userev->reported_at, &last, now))
		return;
	if (!library_enter_quietly(&entered))
		return;
	losses_report(userev);
	library_leave_quietly(&entered);
}

static ssize_t lose_to_full_queue(struct userev *userev)
{
	add(&userev->losses.queue_full, 1);
	add(&userev->unreported.queue_full, 1);
	return -EAGAIN;
}

static ssize_t lose_as_too_big(struct userev *userev)
{
	add(&userev->losses.too_big, 1);
	add(&userev->unreported.too_big, 1);
	return -E2BIG;
}

static bool is_empty(const struct iovec *pieces, int n)
{
	for (int i = 1; i < n; i++)
		if (pieces[i].iov_len > 0)
			return false;
	return true;
}

/* Before Linux 6.4 the kernel takes no record without a payload, although an event may have no fields. */
static ssize_t write_a_zero(const struct stream *stream, const struct iovec *index)
{
	const struct iovec pieces[] = { *index, { .iov_base = (char[]){ 0 }, .iov_len = 1 } };

	return writev(stream->fd, pieces, ARRAY_SIZE(pieces)) < 0 ? -errno : 0;
}

/* Something is not as it should be, or somebody has just switched the event off. */
static ssize_t lose_to_nobody(struct stream *stream, bool ended)
{
	if (ended && !atomic_exchange_explicit(&stream->ended, true, memory_order_relaxed))
		atomic_store_explicit(&stream->userev->look_again, true, memory_order_release);
	connection_look(stream->userev);
	return 0;
}

static __attribute__((__cold__, __noinline__)) ssize_t look_into_failure(struct stream *stream,
									 const struct iovec *pieces, int n)
{
	switch (errno) {
	case EBADF:  /* nobody traces it any more; or the fd was closed */
	case ENOENT: /* it is not registered there */
		return lose_to_nobody(stream, false);
	case EPIPE:	 /* embedded: the daemon has gone */
	case ECONNRESET: /* likewise */
	case ENOTCONN:	 /* the stream has been retired */
		return lose_to_nobody(stream, true);
	case EAGAIN:
	case ENOBUFS:
		return lose_to_full_queue(stream->userev);
	case EMSGSIZE:
		return lose_as_too_big(stream->userev);
	case EFAULT:
		return is_empty(pieces, n) ? write_a_zero(stream, pieces) : -EFAULT;
	default:
		return -errno;
	}
}

static ssize_t write_record(struct stream *stream, const struct iovec *pieces, int n)
{
	int saved_errno = errno;
	ssize_t written = writev(stream->fd, pieces, n);

	if (__builtin_expect(written >= 0, 1))
		return MAX(written - (ssize_t)sizeof(uint32_t), 0);
	written = look_into_failure(stream, pieces, n);
	errno = saved_errno;
	return written;
}

static bool is_too_big(const struct stream *stream, const struct iovec *pieces, int n)
{
	size_t left = atomic_load_explicit(&stream->payload_max, memory_order_relaxed);

	for (int i = 1; i < n; i++) {
		if (pieces[i].iov_len > left)
			return true;
		left -= pieces[i].iov_len;
	}
	return false;
}

/* The first piece is the index's. What happens to each record is here; what seldom does is elsewhere. */
static ssize_t write_pieces(const struct userev_event *event, struct iovec *pieces, int n)
{
	union userev_place place = place_of(event);
	struct stream *stream = stream_at(place);
	ssize_t result;

	if (!place_is_granted(place))
		return 0;
	pieces[0] = (struct iovec){ .iov_base = &place.part.index, .iov_len = sizeof(place.part.index) };
	if (is_too_big(stream, pieces, n))
		result = lose_as_too_big(stream->userev);
	else
		result = write_record(stream, pieces, n);
	if (__builtin_expect(stream->watched || page_is_abandoned(stream->userev), 0))
		connection_look(stream->userev);
	if (losses_wait(&stream->userev->unreported) && !stream->userev->sealed)
		report_now_and_then(stream->userev);
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
	return write_pieces(event, pieces, n + 1);
}

_public_ void userev_write_pieces(const struct userev_event *event, struct iovec *pieces, int n)
{
	write_pieces(event, pieces, n);
}

_public_ ssize_t userev_write(const struct userev_event *event, const void *payload, size_t size)
{
	struct iovec pieces[] = { { 0 }, { .iov_base = (void *)(uintptr_t)payload, .iov_len = size } };

	return userev_enabled(event) ? write_pieces(event, pieces, ARRAY_SIZE(pieces)) : 0;
}
