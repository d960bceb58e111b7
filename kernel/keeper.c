/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper.h"

#include <poll.h>

#include "kernel/message.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"

/*
 * One packet of calls, then its answers, and so on. The daemon faces strangers, so it is checked as a stranger: what makes no
 * sense is refused in words, nothing of it is done, and nothing that it asks later.
 */

struct keeper {
	int socket;
	struct kernel *kernel;
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char texts[MESSAGE_CALLS_MAX][WIRE_TENANT_MAX + 1];
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

static void send_answers(void *data, struct kernel_call *calls, size_t n)
{
	struct keeper *keeper = data;
	struct packet packet = packet_make(keeper->packet, sizeof(keeper->packet));
	int fds[MESSAGE_FDS_MAX];
	size_t n_fds = 0;

	message_put_answers(&packet, calls, n);
	for (size_t i = 0; i < n; i++)
		if (calls[i].fd >= 0)
			fds[n_fds++] = calls[i].fd;
	/* If it can't be told it has gone, or is about to: the next look at the socket will show. */
	transport_send(keeper->socket, packet.data, packet.size, fds, n_fds, 0);
	for (size_t i = 0; i < n_fds; i++)
		fd_close(fds[i]);
}

static bool read_calls(struct keeper *keeper, const struct message_header *header, struct cursor body)
{
	size_t fds = 0;

	if (header->kind != MESSAGE_CALLS || header->count == 0 || header->count > MESSAGE_CALLS_MAX)
		return false;
	for (size_t i = 0; i < header->count; i++) {
		if (!message_next_call(&body, &keeper->calls[i], keeper->texts[i]))
			return false;
		fds += message_op_gives_fd(keeper->calls[i].op);
	}
	return fds <= MESSAGE_FDS_MAX && cursor_done(&body);
}

/* 1, 0 at the end, or a negative errno. */
static int serve_packet(struct keeper *keeper)
{
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
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
	    !read_calls(keeper, &header, body)) {
		keeper_refuse(keeper->socket, "the keeper was asked for something that makes no sense, and ends");
		return -EPROTO;
	}
	kernel_submit(keeper->kernel, keeper->calls, header.count, send_answers, keeper);
	return 1;
}

static int serve(struct keeper *keeper)
{
	int r = say_ready(keeper);

	while (r >= 0) {
		struct pollfd ask[] = {
			{ .fd = keeper->socket, .events = POLLIN },
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
	free(keeper);
	return r;
}
