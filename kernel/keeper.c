/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper.h"

#include <poll.h>

#include "kernel/message.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"

/*
 * Packets of calls come, and their answers go back in the same order. The next packet is read while the kernel is busy with
 * those before. The daemon faces strangers, so it is checked as a stranger: what makes no sense is refused in words, nothing of
 * it is done, and nothing that it asks later.
 */

enum { PACKETS_MAX = 16 /* that are not answered; more wait in the socket */ };

struct work {
	struct keeper *keeper;
	bool done;
	size_t n;
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char texts[MESSAGE_MAX]; /* less than the packet that they came in */
};

struct keeper {
	int socket;
	struct kernel *kernel;
	bool answering;
	size_t first; /* the oldest of those that are under way */
	size_t n;
	struct work work[PACKETS_MAX]; /* a ring */
	uint8_t packet[MESSAGE_MAX];
};

void keeper_refuse(int socket, const char *sentence)
{
	uint8_t buffer[sizeof(struct message_header) + sizeof(uint32_t) + WIRE_SENTENCE_MAX + 4];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	message_put_failed(&packet, sentence);
	transport_send(socket, packet.data, packet.size, NULL, 0, 0);
}

static int say_ready(struct keeper *keeper)
{
	struct packet packet = packet_make(keeper->packet, sizeof(keeper->packet));

	message_put_ready(&packet, &keeper->kernel->facts);
	return transport_send(keeper->socket, packet.data, packet.size, NULL, 0, 0);
}

static int try_to_send_answers(struct keeper *keeper, const struct kernel_call *calls, size_t n)
{
	struct packet packet = packet_make(keeper->packet, sizeof(keeper->packet));
	int fds[MESSAGE_FDS_MAX];
	size_t n_fds = 0;

	message_put_answers(&packet, calls, n);
	for (size_t i = 0; i < n; i++)
		if (calls[i].fd >= 0)
			fds[n_fds++] = calls[i].fd;
	return transport_send(keeper->socket, packet.data, packet.size, fds, n_fds, 0);
}

/* From the end on: a page goes behind the streams that were made for it. */
static void take_back(struct keeper *keeper, struct kernel_call *calls, size_t n, int error)
{
	for (size_t i = n; i-- > 0;) {
		if (calls[i].fd < 0)
			continue;
		calls[i].fd = fd_close(calls[i].fd);
		calls[i].result = error;
		kernel_tell(keeper->kernel, message_undo(&calls[i]));
	}
}

static void send_answers(struct keeper *keeper, struct kernel_call *calls, size_t n)
{
	int r = try_to_send_answers(keeper, calls, n);

	/* fds on their way are counted for all programs of a user, so others' can leave no room for ours. */
	if (r == -ETOOMANYREFS) {
		take_back(keeper, calls, n, r);
		try_to_send_answers(keeper, calls, n);
	}
	/* If it can't be told otherwise it has gone, or is about to: the next look at the socket will show. */
	for (size_t i = 0; i < n; i++)
		calls[i].fd = fd_close(calls[i].fd);
}

/* What is taken back may have to wait for what is under way, and that is done then: but in its turn. */
static void on_done(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct work *work = data;
	struct keeper *keeper = work->keeper;

	work->done = true;
	if (keeper->answering)
		return;
	keeper->answering = true;
	while (keeper->n > 0 && keeper->work[keeper->first].done) {
		work = &keeper->work[keeper->first];
		send_answers(keeper, work->calls, work->n);
		keeper->first = (keeper->first + 1) % PACKETS_MAX;
		keeper->n--;
	}
	keeper->answering = false;
}

static bool read_calls(const struct message_header *header, struct cursor body, struct work *ret)
{
	char *text = ret->texts;
	size_t fds = 0;

	if (header->kind != MESSAGE_CALLS || header->count == 0 || header->count > MESSAGE_CALLS_MAX)
		return false;
	for (size_t i = 0; i < header->count; i++) {
		if (!message_next_call(&body, &ret->calls[i], text))
			return false;
		text += strlen(text) + 1;
		fds += message_op_gives_fd(ret->calls[i].op);
	}
	return fds <= MESSAGE_FDS_MAX && cursor_done(&body);
}

/* There is room for one. */
static struct work *next_work(struct keeper *keeper)
{
	struct work *work = &keeper->work[(keeper->first + keeper->n) % PACKETS_MAX];

	work->keeper = keeper;
	work->done = false;
	return work;
}

/* 1, 0 at the end, or a negative errno. */
static int serve_packet(struct keeper *keeper)
{
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct work *work = next_work(keeper);
	struct message_header header;
	struct cursor body;
	ssize_t n;

	n = transport_receive_fds(keeper->socket, keeper->packet, sizeof(keeper->packet), &fds, MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EINTR)
		return 1;
	if (n == -ECONNRESET || n == 0)
		return 0;
	if (n < 0 && n != -EMSGSIZE && n != -EPROTO)
		return (int)n;
	if (n < 0 || fds.count > 0 || !message_read(keeper->packet, (size_t)n, &header, &body) ||
	    !read_calls(&header, body, work)) {
		/* What was asked before that is answered first. */
		kernel_cancel(keeper->kernel);
		keeper_refuse(keeper->socket, "the keeper was asked for something that makes no sense, and ends");
		return -EPROTO;
	}
	work->n = header.count;
	keeper->n++;
	kernel_submit(keeper->kernel, work->calls, work->n, on_done, work);
	return 1;
}

static bool is_full(const struct keeper *keeper)
{
	return keeper->n == PACKETS_MAX;
}

static int serve(struct keeper *keeper)
{
	int r = say_ready(keeper);

	while (r >= 0) {
		struct pollfd ask[] = {
			{ .fd = keeper->socket, .events = is_full(keeper) ? 0 : POLLIN },
			{ .fd = keeper->kernel->fd, .events = POLLIN },
		};

		if (poll(ask, ARRAY_SIZE(ask), -1) < 0 && errno != EINTR)
			return -errno;
		if (ask[1].revents) {
			r = kernel_dispatch(keeper->kernel);
			if (r < 0)
				return r;
		}
		if (!ask[0].revents)
			continue;
		/* The daemon has gone: nothing else is told of without being asked for. */
		if (is_full(keeper))
			kernel_cancel(keeper->kernel);
		r = serve_packet(keeper);
		if (r == 0)
			return 0;
	}
	return r;
}

int keeper_serve(int socket, struct kernel *kernel)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	int r;

	if (!keeper)
		return -ENOMEM;
	keeper->socket = socket;
	keeper->kernel = kernel;
	r = serve(keeper);
	/* Whatever is still under way is ours. */
	kernel_cancel(kernel);
	free(keeper);
	return r;
}
