/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <linux/sockios.h>

#include "kernel/disposal.h"
#include "kernel/embedded/embedded.h"
#include "protocol/event/record.h"
#include "protocol/transport.h"

/*
 * Records, from the socket to the ring. A stream is a SOCK_SEQPACKET pair: datagrams with an end, so the last close of the other end is
 * seen after everything that was written before it. With each record the kernel sends its writer and time.
 */

enum {
	/* Exactly the size of what comes with a record, so the kernel has no room to give us fds. */
	CONTROL_BYTES = CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(struct timespec)),
	/* Hundreds of times what a queue holds by default: a client with a longer queue (SO_SNDBUFFORCE) must not keep us reading. */
	READ_AT_ONCE_MAX = 65536,
};

static int source_make_pair(int *ret_ours, int *ret_theirs)
{
	static const int on = 1, much = 1 << 30;
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	if (setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    setsockopt(ours, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) < 0)
		return -errno;
	r = transport_refuse_fds(ours);
	if (r < 0)
		return r;
	/* The longest queue that this machine allows: the kernel limits this to net.core.wmem_max. */
	setsockopt(ours, SOL_SOCKET, SO_RCVBUF, &much, sizeof(much));
	setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &much, sizeof(much));
	*ret_ours = fd_steal(&ours);
	*ret_theirs = fd_steal(&theirs);
	return 0;
}

int source_new(struct embedded *embedded, struct kernel_call *call, const struct target *target)
{
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	_cleanup_(freep) struct source *source = NULL;
	struct epoll_event event = { .events = EPOLLIN };
	int r;

	r = source_make_pair(&ours, &theirs);
	if (r < 0)
		return r;
	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;
	source->number = call->stream;
	source->page = target->page;
	event.data.ptr = source;
	NUMBER_ADD(by_number, embedded->sources, number, source);
	if (!table_added())
		return -ENOMEM;
	if (epoll_ctl(embedded->kernel.fd, EPOLL_CTL_ADD, ours, &event) < 0) {
		r = -errno;
		HASH_DELETE(by_number, embedded->sources, source);
		return r;
	}
	source->fd = fd_steal(&ours);
	target->page->sources++;
	call->fd = fd_steal(&theirs);
	steal_pointer(source);
	return 0;
}

/* close(2) removes it from the epoll only if there is no copy. */
static void source_end(struct embedded *embedded, struct source *source)
{
	epoll_ctl(embedded->kernel.fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = disposal_close(source->fd);
}

int source_free(struct embedded *embedded, struct kernel_call *call _unused_, const struct target *target)
{
	struct source *source = target->source;

	source_drain(embedded, source);
	if (source->fd >= 0)
		source_end(embedded, source);
	while (source->n_slots > 0)
		slot_free(embedded, source, &source->slots[source->n_slots - 1]);
	free(source->slots);
	HASH_DELETE(by_number, embedded->sources, source);
	source->page->sources--;
	free(source);
	return KERNEL_OK;
}

static void source_count_bad(struct embedded *embedded, struct source *source)
{
	source->page->stats.bad++;
	embedded->kernel.totals.bad++;
}

static void source_take(struct embedded *embedded, struct source *source, const struct record *record)
{
	const struct description *description;
	struct trace_event *event;
	const struct slot *slot;
	uint32_t index = UINT32_MAX;

	if (record->size >= RECORD_INDEX_SIZE)
		memcpy(&index, record->data, sizeof(index));
	if (index >= source->next_index) {
		source_count_bad(embedded, source);
		return;
	}
	/* Written while its event was released; or, if the event is off or silent, by a program that has not looked at the page since. */
	slot = slot_find(source, index);
	if (!slot || !holding_is_on(slot->holding))
		return;
	event = slot->holding->of.event;
	description = tracer_parsed(&embedded->tracer, event);
	if (!description || record->size > RECORD_MAX ||
	    !record_is_valid(description, record->data + RECORD_INDEX_SIZE, record->size - RECORD_INDEX_SIZE)) {
		event->bad++;
		source_count_bad(embedded, source);
		return;
	}
	event->records++;
	source->page->stats.records++;
	embedded->kernel.totals.records++;
	tracer_keep(embedded, source, event, record);
}

static void record_read_control(struct msghdr *message, struct record *record)
{
	struct timespec time = { 0 };

	record->writer = (struct ucred){ .uid = (uid_t)-1, .gid = (gid_t)-1 };
	for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
		if (control->cmsg_level != SOL_SOCKET)
			continue;
		if (control->cmsg_type == SCM_CREDENTIALS)
			memcpy(&record->writer, CMSG_DATA(control), sizeof(record->writer));
		else if (control->cmsg_type == SCM_TIMESTAMPNS)
			memcpy(&time, CMSG_DATA(control), sizeof(time));
	}
	record->time = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* 1, 0 at the end, -EPROTO if fds are attached, or another negative errno. */
static int record_receive(int fd, struct record *record)
{
	union {
		struct cmsghdr align;
		char space[CONTROL_BYTES];
	} control;
	struct iovec data = { .iov_base = record->data, .iov_len = sizeof(record->data) };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	/* Before Linux 6.16 a record with fds has to stay where it is. */
	int r = transport_fds_are_refused ? 1 : transport_look(fd, CONTROL_BYTES);
	ssize_t n;

	if (r <= 0)
		return r;
	n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	/* An empty record comes with its writer, the end without. */
	if (n == 0 && message.msg_controllen == 0)
		return 0;
	record->size = (size_t)n;
	record_read_control(&message, record);
	return 1;
}

/* Whether there was a record. */
static bool source_receive(struct embedded *embedded, struct source *source, size_t *ret_size)
{
	struct record record;
	int r = record_receive(source->fd, &record);

	*ret_size = r > 0 ? record.size : 0;
	if (r > 0)
		source_take(embedded, source, &record);
	else if (r == -EPROTO)
		source_count_bad(embedded, source);
	if (r <= 0 && r != -EAGAIN && r != -EINTR && r != -ENOMEM && r != -ENOBUFS)
		source_end(embedded, source);
	return r > 0;
}

/* Reads records of so many bytes, and the end if it is there. */
static void source_read(struct embedded *embedded, struct source *source, size_t bytes)
{
	size_t size, seen = 0;

	*embedded->writer.comm = '\0';
	for (size_t n = 0; n < READ_AT_ONCE_MAX && source_receive(embedded, source, &size); n++) {
		seen += size;
		if (seen >= bytes)
			break;
	}
}

void source_drain(struct embedded *embedded, struct source *source)
{
	int queued = 0;

	if (source->fd < 0)
		return;
	/* The bytes of all records that are queued now. Records that are written meanwhile come behind them. */
	ioctl(source->fd, SIOCINQ, &queued);
	source_read(embedded, source, (size_t)queued);
}

int source_still_open(struct embedded *embedded, struct kernel_call *call _unused_, const struct target *target)
{
	struct source *source = target->source;
	struct pollfd ask = { .fd = source->fd, .events = POLLRDHUP };

	if (source->fd < 0)
		return KERNEL_E_GONE;
	if (poll(&ask, 1, 0) <= 0 || !(ask.revents & (POLLHUP | POLLRDHUP)))
		return KERNEL_OK;
	/* No process can write any more. A later call or dispatch reads the rest of a very long queue. */
	source_read(embedded, source, SIZE_MAX);
	return source->fd >= 0 ? KERNEL_OK : KERNEL_E_GONE;
}

int sources_dispatch(struct kernel *kernel)
{
	struct embedded *embedded = container_of(kernel, struct embedded, kernel);
	struct epoll_event ready[EMBEDDED_DISPATCH_MAX / EMBEDDED_TURN_MAX];
	size_t asked = 0, size;
	int n;

	*embedded->writer.comm = '\0';
	page_files_dispatch(&embedded->files);
	/* The epoll is fair: a source that stays ready goes to the end of its list. */
	while (asked < EMBEDDED_DISPATCH_MAX) {
		n = epoll_wait(embedded->kernel.fd, ready, ARRAY_SIZE(ready), 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			/* At least one, for the timer of pages, which has no source. */
			asked++;
			for (unsigned turn = 0; ready[i].data.ptr && turn < EMBEDDED_TURN_MAX; turn++, asked++)
				if (!source_receive(embedded, ready[i].data.ptr, &size))
					break;
		}
	}
	return 0;
}
