/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Traces that the program's tenant makes of itself. A byte behind the status page says which of them have an event; the daemon sends the
 * socket of a new trace before the first event is in it, unasked, and it is received when the first record is written. Sending there can
 * neither block nor raise a signal. A trace ends when nothing reads its socket any more.
 *
 * Nothing but traces_take() waits for the lock. An event's description lives as long as the event is registered.
 */

#include <sys/socket.h>
#include <time.h>

#include "client/library/place.h"
#include "client/library/requests.h"
#include "client/library/session.h"
#include "protocol/fdset.h"

enum {
	TRACE_PIECES_MAX = 40, /* of a record, with the header and the description */
	TRACE_LOOKS = 16,      /* for one socket */
};

int traces_take(struct userev *userev, const struct message *message, struct fdset *fds)
{
	struct files *files = &userev->files;
	struct stream *stream, *former;
	struct wire_traced traced;
	int domain = 0;

	if (decode_fixed(message->body, KIND_TRACED, &traced) != 0 || message->streams > 0 || fds->count != 1 ||
	    getsockopt(fds->fd[0], SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){ sizeof(domain) }) < 0 ||
	    domain != AF_UNIX)
		return -EPROTO;
	fds->fd[0] = file_move_up(fds->fd[0]);
	stream = stream_open(files, traced.trace, fds->fd[0]);
	if (!stream)
		return -ENOMEM;
	fdset_steal(fds, 0);
	QUEUE_PREPEND(&files->traces, stream);
	files->trace_lost[traced.trace] = 0;
	former = atomic_exchange_explicit(&files->trace[traced.trace], stream, memory_order_acq_rel);
	if (former) {
		former->may_have_writers = true;
		QUEUE_REMOVE(&files->traces, former);
		QUEUE_PREPEND(&files->outdated, former);
	}
	files->trace_looks = 0;
	return 0;
}

static struct stream *trace_at(struct files *files, unsigned i)
{
	struct stream *stream = atomic_load_explicit(&files->trace[i], memory_order_acquire);

	return stream && !atomic_load_explicit(&stream->ended, memory_order_relaxed) ? stream : NULL;
}

/*
 * The first record of a new trace: its socket has been sent, and was not received yet. If it does not come, which only happens to a program
 * that has left too many of them unread, this looks at intervals.
 */
static struct stream *trace_await(struct userev *userev, unsigned i)
{
	if (atomic_fetch_add_explicit(&userev->files.trace_looks, 1, memory_order_relaxed) < TRACE_LOOKS)
		atomic_store_explicit(&userev->look_at, clock_coarse_ms(), memory_order_relaxed);
	session_look(userev);
	return trace_at(&userev->files, i);
}

/* False: nothing reads this trace any more. */
static bool trace_send(struct stream *stream, struct msghdr *message, _Atomic uint32_t *lost)
{
	struct wire_own_record *header = message->msg_iov[0].iov_base;

	header->lost = atomic_exchange_explicit(lost, 0, memory_order_relaxed);
	if (sendmsg(stream->fd, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM && errno != EMSGSIZE) {
		atomic_store_explicit(&stream->ended, true, memory_order_relaxed);
		return false;
	}
	atomic_fetch_add_explicit(lost, header->lost + 1, memory_order_relaxed);
	return true;
}

static void trace_write(struct userev *userev, unsigned i, struct msghdr *message)
{
	struct files *files = &userev->files;
	struct stream *stream = trace_at(files, i);

	/* Of the slot's last trace, there may be an end that nothing reads. */
	if (stream && trace_send(stream, message, &files->trace_lost[i]))
		return;
	stream = trace_await(userev, i);
	if (!stream || !trace_send(stream, message, &files->trace_lost[i]))
		atomic_fetch_add_explicit(&files->trace_lost[i], 1, memory_order_relaxed);
}

bool traces_write(struct userev *userev, const struct userev_event *event, const struct iovec *pieces, int n)
{
	const union userev_place place = place_of(event);
	const uint8_t byte = userev->files.page[WIRE_TRACES_AT + (place.part.bit & PLACE_BIT)];
	const char *description = event->declared->description;
	struct wire_own_record header = { .description_length = (uint32_t)strlen(description) };
	struct iovec all[TRACE_PIECES_MAX] = { { &header, sizeof(header) },
					       { (void *)(uintptr_t)description, header.description_length } };
	struct msghdr message = { .msg_iov = all, .msg_iovlen = 2 + (size_t)n };
	struct timespec now;

	for (int i = 0; i < n; i++)
		all[2 + i] = pieces[i];
	/* In front of the first piece is the index. */
	all[2].iov_base = (uint8_t *)all[2].iov_base + sizeof(uint32_t);
	all[2].iov_len -= sizeof(uint32_t);
	clock_gettime(CLOCK_REALTIME, &now);
	header.time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	for (unsigned i = 0; i < WIRE_TRACES_MAX && !userev->sealed; i++)
		if (byte & 1u << i)
			trace_write(userev, i, &message);
	return !(byte & WIRE_TRACED_ONLY);
}
