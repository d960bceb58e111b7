/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Page and streams of the last connection stay in use until WELCOME has brought new ones. An fd whose number the program has
 * reused is left alone.
 */

#include <sys/time.h>
#include <sys/un.h>

#include "client/library/clock.h"
#include "client/library/connection.h"
#include "client/library/page.h"
#include "client/library/poll.h"
#include "client/library/release.h"
#include "client/library/session.h"
#include "protocol/transport.h"

/* A packet has room for the longest description. */
enum {
	PACKET_MIN = sizeof(struct wire_header) + sizeof(struct wire_strings) + sizeof(struct wire_string) +
		     WIRE_DESCRIPTION_MAX + 1
};

static int connection_connect(const char *path, int64_t deadline, int *ret)
{
	const bool blocks = clock_left_ms(deadline) > 0;
	const int largest_packet = WIRE_PACKET_MAX;
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	socklen_t length;
	int r;

	r = transport_address(path, &address, &length);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK), 0);
	if (fd < 0)
		return -errno;
	/* While the daemon's queue is full only a blocking connect() waits for room; poll() does not. */
	do {
		const int left = clock_left_ms(deadline);
		const struct timeval timeout = { .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };

		if (blocks && left == 0)
			return -ETIMEDOUT;
		if (blocks && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
			return -errno;
		r = connect(fd, (const struct sockaddr *)&address, length) < 0 ? -errno : 0;
	} while (blocks && r == -EINTR);
	if (r < 0)
		return blocks && r == -EAGAIN ? -ETIMEDOUT : r;
	/* Where this is not permitted, smaller packets may still fit. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &largest_packet, sizeof(largest_packet));
	*ret = fd_steal(&fd);
	return 0;
}

/* Of two default sockets that fail, the error is that of the first one that exists. */
static int connection_find(struct userev *userev, int64_t deadline, int *ret)
{
	static const char *const defaults[] = { "/run/userevd/client/userevd.sock", "/run/userevd.sock" };
	int error = -ENOENT;

	userev->tried = userev->socket[0] ? userev->socket : defaults[0];
	if (userev->socket[0])
		return connection_connect(userev->socket, deadline, ret);
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		int r = connection_connect(defaults[i], deadline, ret);

		if (r == 0)
			return 0;
		if (error == -ENOENT && r != -ENOENT) {
			userev->tried = defaults[i];
			error = r;
		}
	}
	return error;
}

int connection_begin(struct userev *userev, int64_t deadline)
{
	const struct wire_hello hello = { .understands = WIRE_FEATURE_WATCH | WIRE_FEATURE_PERSIST |
							 WIRE_FEATURE_MULTI_FORMAT };
	uint8_t buffer[sizeof(struct wire_header) + sizeof(struct wire_hello)];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	int fd = -1, r;

	r = connection_find(userev, deadline, &fd);
	if (r < 0)
		return r;
	userev->fd = file_move_up(fd);
	userev->state = CONNECTION_GREETING;
	file_identify(userev->fd, &userev->id);
	poll_follow(userev, userev->fd);
	batches_ask_anew(userev);
	encode_begin(&packet, KIND_HELLO, userev->serial + 1, 0, NULL, 0);
	encode_hello(&packet, &hello);
	encode_end(&packet);
	return MIN(session_ask(userev, &packet, KIND_WELCOME, 0), 0);
}

int connection_welcome(struct userev *userev, struct reply *reply, uint16_t count _unused_)
{
	_cleanup_(streams_close) struct streams streams = TAILQ_HEAD_INITIALIZER(streams);
	struct wire_welcome limits;
	struct string_item tenant;
	int r;

	if (decode_welcome(reply->message.body, &limits, &tenant) != 0)
		return -EPROTO;
	if (limits.page_bytes != WIRE_PAGE_BYTES || limits.page_bits == 0 || limits.page_bits > WIRE_PAGE_BITS ||
	    limits.packet_max < PACKET_MIN || limits.batch_max == 0)
		return -EPROTO;
	limits.packet_max = MIN(limits.packet_max, WIRE_PACKET_MAX);
	limits.batch_max = MIN(limits.batch_max, WIRE_BATCH_MAX);
	userev->limits = limits;
	r = streams_take(userev, reply, 1, &streams);
	if (r < 0)
		return r;
	r = page_map(reply->fds.fd[0], userev->fd, &userev->page);
	if (r < 0)
		return r;
	streams_expect_writers(&userev->streams);
	TAILQ_CONCAT(&userev->outdated, &userev->streams, entry);
	TAILQ_CONCAT(&userev->streams, &streams, entry);
	batches_wait(userev);
	userev->state = CONNECTION_UP;
	debug_print(userev, "connected: tenant %.*s, at most %u events", (int)MIN(tenant.length, (size_t)300),
		    tenant.text, limits.events_max);
	return 0;
}

/* Closes the fd if it is still ours, and forgets all that was asked on the connection. */
static void connection_close(struct userev *userev, enum connection_state state)
{
	if (file_is(userev->fd, &userev->id))
		fd_close(userev->fd);
	userev->fd = -1;
	userev->state = state;
	userev->n_pending = 0;
	userev->watch_asked = false;
	release_forget(userev);
	batches_suspend(userev);
}

void connection_drop(struct userev *userev)
{
	if (userev->fd < 0)
		return;
	poll_follow(userev, -1);
	/* A forked child that has not called the library yet has a copy of the fd, so closing alone would not end the connection. */
	if (file_is(userev->fd, &userev->id))
		shutdown(userev->fd, SHUT_RDWR);
	connection_close(userev, CONNECTION_DOWN);
}

void connection_abandon(struct userev *userev)
{
	/* The epoll instance is shared with the parent: do not change it. */
	userev->poll_fd = fd_close(userev->poll_fd);
	userev->look_at = clock_coarse_ms();
	userev->failures = 0;
	userev->not_before = 0;
	userev->unreported.queue_full = 0;
	userev->unreported.too_big = 0;
	connection_close(userev, CONNECTION_INHERITED);
}

void connection_verify(struct userev *userev)
{
	if (userev->fd >= 0 && !file_is(userev->fd, &userev->id)) {
		debug_print(userev, "the program has closed the connection's fd");
		poll_follow(userev, -1);
		connection_close(userev, CONNECTION_DOWN);
	}
	if (!streams_verify(&userev->streams)) {
		connection_drop(userev);
		userev->state = CONNECTION_DOWN;
	}
	streams_verify(&userev->outdated);
}
