/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/sockios.h>

#include "kernel/disposal.h"
#include "kernel/embedded/embedded.h"
#include "protocol/event/record.h"
#include "protocol/transport.h"

/*
 * Records, from the socket to the ring. A stream is a SOCK_SEQPACKET pair: datagrams with an end, so that the last close of
 * the other end is seen, after everything that was written before it. The kernel says of each record who wrote it and when.
 */

enum received { RECEIVED_RECORD, RECEIVED_NOTHING, RECEIVED_END, RECEIVED_FDS };

enum {
	/* Exactly what comes with a record, so that the kernel has no room to give us fds. */
	CONTROL_BYTES = CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(struct timespec)),
	/* Hundreds of times what a queue holds by default. Who may make it hold more (SO_SNDBUFFORCE) may not keep us. */
	READ_AT_ONCE_MAX = 65536,
};

/* As large as this machine allows without asking for more: the kernel cuts what is above net.core.wmem_max. */
static void enlarge_queue(int ours, int theirs)
{
	static const int much = 1 << 30;

	setsockopt(ours, SOL_SOCKET, SO_RCVBUF, &much, sizeof(much));
	setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &much, sizeof(much));
}

static int prepare(int ours, int theirs)
{
	static const int on = 1;
	int r;

	if (setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    setsockopt(ours, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) < 0)
		return -errno;
	r = transport_refuse_fds(ours);
	if (r < 0)
		return r;
	enlarge_queue(ours, theirs);
	return 0;
}

static int make_pair(int *ret_ours, int *ret_theirs)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	r = prepare(pair[0], pair[1]);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		return r;
	}
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return 0;
}

static struct source *source_make(uint32_t number, struct embedded_page *page)
{
	struct source *source = calloc(1, sizeof(*source));

	if (source) {
		source->number = number;
		source->fd = -1;
		source->page = page;
	}
	return source;
}

static int watch(struct embedded *embedded, struct source *source, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

	return epoll_ctl(embedded->kernel.fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int source_new(struct embedded *embedded, uint32_t number, struct embedded_page *page, int *ret_fd)
{
	_cleanup_(fd_closep) int ours = -1, theirs = -1;
	struct source *source;
	int r;

	r = make_pair(&ours, &theirs);
	if (r < 0)
		return r;
	source = source_make(number, page);
	if (!source)
		return -ENOMEM;
	NUMBER_ADD(by_number, embedded->sources, number, source);
	if (!table_added()) {
		free(source);
		return -ENOMEM;
	}
	r = watch(embedded, source, ours);
	if (r < 0) {
		HASH_DELETE(by_number, embedded->sources, source);
		free(source);
		return r;
	}
	source->fd = fd_steal(&ours);
	page->sources++;
	*ret_fd = fd_steal(&theirs);
	return 0;
}

/* Closing takes it out of the epoll too, but only where nobody has a copy. */
static void end(struct embedded *embedded, struct source *source)
{
	epoll_ctl(embedded->kernel.fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->fd = disposal_close(source->fd);
}

void source_free(struct embedded *embedded, struct source *source)
{
	struct slot *slot;

	source_drain(embedded, source);
	if (source->fd >= 0)
		end(embedded, source);
	for (uint64_t from = 0; (slot = roster_from(&source->slots, from));) {
		from = (uint64_t)slot->index + 1;
		slot_free(embedded, slot);
	}
	roster_deinit(&source->slots);
	HASH_DELETE(by_number, embedded->sources, source);
	source->page->sources--;
	free(source);
}

static bool is_good(struct embedded *embedded, const struct trace_event *event, const struct record *record)
{
	const struct description *description = tracer_parsed(&embedded->tracer, event);

	return description && record->size <= RECORD_MAX &&
	       record_check(description, record->data + RECORD_INDEX_SIZE, record->size - RECORD_INDEX_SIZE) ==
		       RECORD_OK;
}

static void count_bad(struct embedded *embedded, struct source *source)
{
	source->page->stats.bad++;
	embedded->kernel.totals.bad++;
}

static void take_for(struct embedded *embedded, struct source *source, struct trace_event *event,
		     const struct record *record)
{
	/* Off: it was written by somebody who has not looked at the page since, and nobody wants it. */
	if (!event->on)
		return;
	if (!is_good(embedded, event, record)) {
		event->bad++;
		count_bad(embedded, source);
		return;
	}
	event->records++;
	source->page->stats.records++;
	embedded->kernel.totals.records++;
	tracer_keep(embedded, source, event, record);
}

static void take(struct embedded *embedded, struct source *source, const struct record *record)
{
	struct slot *slot;
	uint32_t index;

	if (record->size < RECORD_INDEX_SIZE) {
		count_bad(embedded, source);
		return;
	}
	memcpy(&index, record->data, sizeof(index));
	if (index >= source->next_index) {
		count_bad(embedded, source);
		return;
	}
	slot = roster_find(&source->slots, index);
	/* None: it was written while its event was released. */
	if (slot)
		take_for(embedded, source, slot->of.holding->of.event, record);
}

static void read_control(struct msghdr *message, struct record *record)
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

static enum received failure(int error)
{
	return error == EAGAIN || error == EINTR || error == ENOMEM || error == ENOBUFS ? RECEIVED_NOTHING
											: RECEIVED_END;
}

/* Before Linux 6.16: a record with fds stays where it is. */
static enum received look(int fd)
{
	int r = transport_fds_are_refused ? 1 : transport_look(fd, CONTROL_BYTES);

	if (r == -EPROTO)
		return RECEIVED_FDS;
	return r < 0 ? failure(-r) : r == 0 ? RECEIVED_END : RECEIVED_RECORD;
}

static enum received receive(int fd, struct record *record)
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
	enum received next = look(fd);
	ssize_t n;

	if (next != RECEIVED_RECORD)
		return next;
	n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return failure(errno);
	/* An empty record comes with its writer, the end with nothing. */
	if (n == 0 && message.msg_controllen == 0)
		return RECEIVED_END;
	record->size = (size_t)n;
	read_control(&message, record);
	return RECEIVED_RECORD;
}

static enum received receive_one(struct embedded *embedded, struct source *source, size_t *ret_size)
{
	struct record record;
	enum received received = receive(source->fd, &record);

	if (received == RECEIVED_RECORD)
		take(embedded, source, &record);
	else if (received == RECEIVED_FDS)
		count_bad(embedded, source);
	if (received == RECEIVED_END || received == RECEIVED_FDS)
		end(embedded, source);
	*ret_size = received == RECEIVED_RECORD ? record.size : 0;
	return received;
}

void source_drain(struct embedded *embedded, struct source *source)
{
	size_t size, seen = 0;
	int queued = 0;

	embedded->writers = 0;
	if (source->fd < 0)
		return;
	/* All bytes of all records that are queued now; who goes on writing adds to what comes after. */
	ioctl(source->fd, SIOCINQ, &queued);
	for (size_t n = 0; n < READ_AT_ONCE_MAX && receive_one(embedded, source, &size) == RECEIVED_RECORD; n++) {
		seen += size;
		if (seen >= (size_t)queued)
			break;
	}
}

bool source_still_open(struct embedded *embedded, struct source *source)
{
	struct pollfd ask = { .fd = source->fd, .events = POLLRDHUP };
	size_t size;

	if (source->fd < 0)
		return false;
	if (poll(&ask, 1, 0) <= 0 || !(ask.revents & (POLLHUP | POLLRDHUP)))
		return true;
	embedded->writers = 0;
	/* Nobody is left who could write. What is too much for now is read when it is asked again, or by a dispatch before. */
	for (size_t n = 0; n < READ_AT_ONCE_MAX && receive_one(embedded, source, &size) == RECEIVED_RECORD; n++)
		;
	return source->fd >= 0;
}

/* How many times it asked; at least once. */
static size_t take_turn(struct embedded *embedded, struct source *source)
{
	size_t size, asked = 0;

	while (asked++ < EMBEDDED_TURN_MAX)
		if (receive_one(embedded, source, &size) != RECEIVED_RECORD)
			break;
	return asked;
}

int sources_dispatch(struct embedded *embedded)
{
	struct epoll_event ready[EMBEDDED_DISPATCH_MAX / EMBEDDED_TURN_MAX];
	size_t asked = 0;
	int n;

	embedded->writers = 0;
	page_files_dispatch(&embedded->files);
	/* The epoll gives each its turn: what was ready and is still goes to the end. */
	while (asked < EMBEDDED_DISPATCH_MAX) {
		n = epoll_wait(embedded->kernel.fd, ready, ARRAY_SIZE(ready), 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++)
			asked += ready[i].data.ptr ? take_turn(embedded, ready[i].data.ptr) : 1;
	}
	return 0;
}

/* Whether any of these had not been drained before. */
static bool drain_ready(struct embedded *embedded, const struct epoll_event *ready, int n)
{
	bool any = false;

	for (int i = 0; i < n; i++) {
		struct source *source = ready[i].data.ptr;

		/* The timer's. */
		if (!source || source->drained == embedded->drains)
			continue;
		source->drained = embedded->drains;
		source_drain(embedded, source);
		any = true;
	}
	return any;
}

void sources_drain(struct embedded *embedded)
{
	struct epoll_event ready[64];
	int n;

	embedded->drains++;
	/* Once round all that are ready: those that are seen again had their turn. */
	do
		n = epoll_wait(embedded->kernel.fd, ready, ARRAY_SIZE(ready), 0);
	while (n > 0 && drain_ready(embedded, ready, n));
}
