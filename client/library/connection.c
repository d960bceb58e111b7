/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The connection to the daemon: made when somebody needs it, dropped when it has ended or makes no sense. What is asked on it,
 * and how its answers are waited for, is request.c.
 *
 * A new connection is complete, page and streams included, before it takes the place of the old one: until then it is a
 * candidate, and the old page and streams go on. Where somebody else has got the number of one of our fds, it is his.
 */

#include <sys/time.h>
#include <sys/un.h>

#include "client/library/library.h"
#include "protocol/transport.h"

/* Room for the longest description. */
enum {
	PACKET_MIN = sizeof(struct wire_header) + sizeof(struct wire_strings) + sizeof(struct wire_string) +
		     WIRE_DESCRIPTION_MAX + 1
};

/* In the order of looking. */
static const char *const usual_sockets[] = { "/run/userevd/client/userevd.sock", "/run/userevd.sock" };

void reply_deinit(struct reply *reply)
{
	fdset_deinit(&reply->fds);
}

/* connect() waits for a daemon that is slow to accept; poll() cannot, on these sockets. */
static int connect_by(int fd, const struct sockaddr_un *address, socklen_t length, int64_t deadline)
{
	int left, r;

	do {
		struct timeval patience;

		left = deadline_left(deadline);
		patience = (struct timeval){ .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };
		if (left > 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
			return -errno;
		r = left > 0 ? connect(fd, (const struct sockaddr *)address, length) : -1;
	} while (r < 0 && left > 0 && errno == EINTR);
	if (r < 0)
		return left == 0 || errno == EAGAIN ? -ETIMEDOUT : -errno;
	return 0;
}

static int connect_now(int fd, const struct sockaddr_un *address, socklen_t length)
{
	return connect(fd, (const struct sockaddr *)address, length) < 0 ? -errno : 0;
}

static int connect_to(const char *path, int64_t deadline, int *ret)
{
	const bool waits = deadline_left(deadline) > 0;
	const int largest_packet = WIRE_PACKET_MAX;
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	socklen_t length;
	int r;

	r = transport_address(path, &address, &length);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0);
	if (fd < 0)
		return -errno;
	r = waits ? connect_by(fd, &address, length, deadline) : connect_now(fd, &address, length);
	if (r < 0)
		return r;
	/* The kernel doubles it; where even that is not allowed, smaller batches may still do. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &largest_packet, sizeof(largest_packet));
	*ret = fd_steal(&fd);
	return 0;
}

/* What is wrong with a socket that is there says more than that another one is not. */
static int find_daemon(struct userev *userev, int64_t deadline, int *ret)
{
	int r = -ENOENT;

	userev->tried = userev->socket[0] ? userev->socket : usual_sockets[0];
	if (userev->socket[0])
		return connect_to(userev->socket, deadline, ret);
	for (size_t i = 0; i < ARRAY_SIZE(usual_sockets); i++) {
		int one = connect_to(usual_sockets[i], deadline, ret);

		if (one == 0)
			return 0;
		if (r == -ENOENT && one != -ENOENT) {
			userev->tried = usual_sockets[i];
			r = one;
		}
	}
	return r;
}

static int say_hello(struct userev *userev)
{
	const struct wire_hello hello = { .understands = WIRE_FEATURE_WATCH | WIRE_FEATURE_PERSIST |
							 WIRE_FEATURE_MULTI_FORMAT };
	uint8_t buffer[sizeof(struct wire_header) + sizeof(struct wire_hello)];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	int r;

	encode_begin(&packet, KIND_HELLO, ++userev->serial, 0, NULL, 0);
	encode_hello(&packet, &hello);
	encode_end(&packet);
	r = request_send(userev, &packet);
	if (r > 0)
		request_note(userev, KIND_WELCOME, 0);
	return MIN(r, 0);
}

int connection_begin(struct userev *userev, int64_t deadline)
{
	int fd = -1, r;

	r = find_daemon(userev, deadline, &fd);
	if (r < 0)
		return r;
	userev->candidate = fd_out_of_the_way(fd);
	fd_identify(userev->candidate, &userev->candidate_id);
	poll_follow(userev, userev->candidate);
	batches_ask_anew(userev);
	return say_hello(userev);
}

static int check_welcome(const struct message *message, struct wire_welcome *ret, struct string_item *ret_tenant)
{
	struct wire_welcome welcome;

	if (decode_welcome(message->body, &welcome, ret_tenant) != 0)
		return -EPROTO;
	if (welcome.page_bytes != WIRE_PAGE_BYTES || welcome.page_bits == 0 || welcome.page_bits > WIRE_PAGE_BITS ||
	    welcome.packet_max < PACKET_MIN || welcome.batch_max == 0)
		return -EPROTO;
	welcome.packet_max = MIN(welcome.packet_max, WIRE_PACKET_MAX);
	welcome.batch_max = MIN(welcome.batch_max, WIRE_BATCH_MAX);
	*ret = welcome;
	return 0;
}

int connection_welcome(struct userev *userev, struct reply *reply)
{
	_cleanup_(streams_close) struct streams streams = TAILQ_HEAD_INITIALIZER(streams);
	struct wire_welcome limits;
	struct string_item tenant;
	int r;

	r = check_welcome(&reply->message, &limits, &tenant);
	if (r < 0)
		return r;
	userev->limits = limits;
	r = streams_take(userev, reply, 1, &streams);
	if (r < 0)
		return r;
	r = page_map(reply->fds.fd[0], userev->candidate, &userev->page);
	if (r < 0)
		return r;
	userev->fd = fd_steal(&userev->candidate);
	userev->id = userev->candidate_id;
	streams_doubt(&userev->streams);
	TAILQ_CONCAT(&userev->outdated, &userev->streams, entry);
	TAILQ_CONCAT(&userev->streams, &streams, entry);
	batches_wait(userev);
	userev->up = true;
	explain(userev, "connected: tenant %.*s, at most %u events", (int)MIN(tenant.length, (size_t)300), tenant.text,
		limits.events_max);
	return 0;
}

bool connection_is_up(const struct userev *userev)
{
	return userev->up;
}

int connection_fd(const struct userev *userev)
{
	return userev->candidate >= 0 ? userev->candidate : userev->fd;
}

/* The next one begins with nothing asked. */
static void forget_requests(struct userev *userev)
{
	userev->up = false;
	userev->n_asked = 0;
	userev->watch_asked = false;
	bits_forget(userev);
	batches_suspend(userev);
}

static void forget_what_is_not_ours(struct userev *userev)
{
	if (userev->candidate >= 0 && !fd_is(userev->candidate, &userev->candidate_id))
		userev->candidate = -1;
	if (userev->fd >= 0 && !fd_is(userev->fd, &userev->id))
		userev->fd = -1;
}

void connection_drop(struct userev *userev)
{
	if (!userev->up && userev->candidate < 0)
		return;
	poll_follow(userev, -1);
	forget_what_is_not_ours(userev);
	/* A child that has not been in here yet has a copy, which would hide our end from the daemon. */
	if (userev->up)
		shutdown(userev->fd, SHUT_RDWR);
	userev->fd = fd_close(userev->fd);
	userev->candidate = fd_close(userev->candidate);
	forget_requests(userev);
}

/* What is another's now is left alone. */
void connection_abandon(struct userev *userev)
{
	/* The copy of it that we have changes our parent's, too. */
	userev->poll_fd = fd_close(userev->poll_fd);
	forget_what_is_not_ours(userev);
	userev->candidate = fd_close(userev->candidate);
	userev->fd = fd_close(userev->fd);
	userev->borrowed = true;
	userev->look_at = about_now_ms();
	userev->failures = 0;
	userev->not_before = 0;
	forget_requests(userev);
	userev->unreported.queue_full = 0;
	userev->unreported.too_big = 0;
}

void connection_verify(struct userev *userev)
{
	const int before = connection_fd(userev);

	forget_what_is_not_ours(userev);
	if (connection_fd(userev) != before) {
		explain(userev, "somebody has closed our connection");
		poll_follow(userev, -1);
		forget_requests(userev);
	}
	if (!streams_verify(&userev->streams)) {
		connection_drop(userev);
		userev->borrowed = false;
	}
	streams_verify(&userev->outdated);
}
