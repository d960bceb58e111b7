/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A record is one writev: the index, then the program's own pieces.
 *
 * Nothing here takes a lock. What was lost is counted with atomics; who takes the unreported numbers reports them, or puts
 * them back. The connection's fd never changes its number (connection.c), so a report goes to the daemon or to nobody, but
 * never to a stranger that got the number since. LOST has no answer and may pass between another thread's request and its
 * answer.
 */

#include <sys/socket.h>
#include <time.h>

#include "client/library.h"
#include "protocol/transport.h"

enum {
	PIECES_MAX = 31, /* half a kilobyte of stack, index included */
	REPORT_MS = 100, /* a full queue must not become a full connection */
};

_public_ struct userev_losses userev_lost(const struct userev *userev)
{
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

	/* In this order: a pid that is ours says that the fd is ours, too. */
	if (!losses_wait(unreported) || atomic_load(&userev->pid) != getpid())
		return;
	lost = (struct wire_lost){
		.queue_full = atomic_exchange(&unreported->queue_full, 0),
		.too_big = atomic_exchange(&unreported->too_big, 0),
	};
	if (send_lost(atomic_load(&userev->fd), &lost) == 0)
		return;
	add(&unreported->queue_full, lost.queue_full);
	add(&unreported->too_big, lost.too_big);
}

/* At most one report in REPORT_MS, whatever the number of threads. */
static void report_now_and_then(struct userev *userev)
{
	uint32_t last = atomic_load(&userev->reported_at), now;
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	now = (uint32_t)time.tv_sec * 1000 + (uint32_t)(time.tv_nsec / 1000000);
	if (now - last >= REPORT_MS && atomic_compare_exchange_strong(&userev->reported_at, &last, now))
		losses_report(userev);
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

static ssize_t write_record(const struct stream *stream, const struct iovec *pieces, int n)
{
	ssize_t written = writev(stream->fd, pieces, n);

	if (written >= 0)
		return MAX(written - (ssize_t)sizeof(uint32_t), 0);
	switch (errno) {
	case EBADF:	 /* nobody traces it any more */
	case ENOENT:	 /* it is not registered there */
	case EPIPE:	 /* embedded: the daemon has gone */
	case ECONNRESET: /* likewise */
	case ENOTCONN:	 /* the stream has been retired */
		return 0;
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

/* Puts the index in front; false where the payload is larger than what every tracer holds. */
static bool gather(const struct userev_grant *grant, const struct iovec *payload, int n, struct iovec *pieces)
{
	size_t left = grant->stream->payload_max;

	pieces[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)&grant->index, .iov_len = sizeof(grant->index) };
	for (int i = 0; i < n; i++) {
		if (payload[i].iov_len > left)
			return false;
		left -= payload[i].iov_len;
		pieces[i + 1] = payload[i];
	}
	return true;
}

_public_ ssize_t userev_writev(const struct userev_event *event, const struct iovec *payload, int n)
{
	struct iovec pieces[1 + PIECES_MAX];
	const struct userev_grant *grant;
	int saved_errno = errno;
	ssize_t result;

	if (n < 0 || n > PIECES_MAX)
		return -EINVAL;
	if (!userev_enabled(event))
		return 0;
	grant = __atomic_load_n(&event->grant, __ATOMIC_ACQUIRE);
	if (!grant || !grant->stream)
		return 0;

	if (gather(grant, payload, n, pieces))
		result = write_record(grant->stream, pieces, n + 1);
	else
		result = lose_as_too_big(grant->stream->userev);
	if (losses_wait(&grant->stream->userev->unreported))
		report_now_and_then(grant->stream->userev);
	errno = saved_errno;
	return result;
}

_public_ ssize_t userev_write(const struct userev_event *event, const void *payload, size_t size)
{
	const struct iovec piece = { .iov_base = (void *)(uintptr_t)payload, .iov_len = size };

	return userev_writev(event, &piece, 1);
}
