/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An fd whose number the program has reused is left alone.
 *
 * A program's event loop needs an fd that stays the same while connections come and go: an epoll instance that watches the fd of
 * the current connection.
 */

#include <poll.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "client/library/connection.h"
#include "client/library/lock.h"
#include "protocol/transport.h"

int connection_silence_timeout_ms = 30000;

int connection_init(struct connection *connection, const char *socket)
{
	struct sockaddr_un address;
	socklen_t length;
	int r;

	if (!socket)
		socket = secure_getenv("USEREV_SOCKET");
	if (socket && *socket) {
		r = transport_address(socket, &address, &length);
		if (r < 0)
			return r;
		string_copy(connection->socket, sizeof(connection->socket), socket);
	}
	connection->fd = -1;
	connection->poll_fd = -1;
	connection->limits.packet_max = WIRE_PACKET_MAX;
	connection->limits.batch_max = WIRE_BATCH_MAX;
	return 0;
}

static int connection_connect(const char *path, int64_t deadline, int *ret)
{
	const bool blocks = connection_left_ms(deadline) > 0;
	_cleanup_(fd_closep) int fd = -1;
	struct sockaddr_un address;
	socklen_t length;
	int r = transport_address(path, &address, &length);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* While the daemon's queue is full poll() would not wait for room, and connect() would not end at the deadline. */
	while ((r = connect(fd, (const struct sockaddr *)&address, length) < 0 ? -errno : 0) == -EAGAIN && blocks) {
		if (connection_left_ms(deadline) == 0)
			return -ETIMEDOUT;
		poll(NULL, 0, CONNECTION_QUEUE_FULL_MS);
	}
	if (r == 0)
		*ret = fd_steal(&fd);
	return r;
}

/* The epoll instance begins or ends to follow the connection. Without an instance this has no effect. */
static void connection_follow(const struct connection *connection, int operation)
{
	struct epoll_event readable = { .events = EPOLLIN };

	if (connection->poll_fd >= 0)
		epoll_ctl(connection->poll_fd, operation, connection->fd, &readable);
}

int connection_poll_fd(struct connection *connection)
{
	int fd;

	if (connection->poll_fd < 0) {
		fd = epoll_create1(EPOLL_CLOEXEC);
		if (fd < 0)
			return -errno;
		connection->poll_fd = file_move_up(fd);
		connection_follow(connection, EPOLL_CTL_ADD);
	}
	return connection->poll_fd;
}

int connection_open(struct connection *connection, int64_t deadline)
{
	const char *const paths[] = {
		connection->socket[0] ? connection->socket : "/run/userevd/client/userevd.sock",
		connection->socket[0] ? NULL : "/run/userevd.sock",
	};
	int fd = -1, r = -ENOENT;

	/* Of two default sockets that fail, the error is that of the first one that exists. */
	for (size_t i = 0; r != 0 && i < ARRAY_SIZE(paths) && paths[i]; i++) {
		int error = connection_connect(paths[i], deadline, &fd);

		if (i == 0 || error == 0 || (r == -ENOENT && error != -ENOENT)) {
			connection->tried = paths[i];
			r = error;
		}
	}
	if (r < 0)
		return r;
	connection->fd = file_move_up(fd);
	connection->state = CONNECTION_GREETING;
	file_identify(connection->fd, &connection->id);
	connection_follow(connection, EPOLL_CTL_ADD);
	return 0;
}

void connection_close(struct connection *connection, enum connection_state state)
{
	const bool is_intact = file_is(connection->fd, &connection->id);

	/* The parent keeps the connection, and shares the epoll instance: do not change it. */
	if (state == CONNECTION_INHERITED) {
		connection->poll_fd = fd_close(connection->poll_fd);
	} else {
		connection_follow(connection, EPOLL_CTL_DEL);
		/* A forked child that has not called the library yet has a copy of the fd: closing would not end the connection. */
		if (is_intact)
			shutdown(connection->fd, SHUT_RDWR);
	}
	if (is_intact)
		fd_close(connection->fd);
	connection->fd = -1;
	connection->state = state;
	connection->n_pending = 0;
}

struct packet connection_begin(const struct connection *connection, uint16_t kind)
{
	struct packet packet = packet_make(lock_memory->packet, connection->limits.packet_max);

	encode_begin(&packet, kind, connection->serial + 1, 0, NULL, 0);
	return packet;
}

int connection_ask(struct connection *connection, struct packet *packet, uint16_t answer, uint16_t count)
{
	int r;

	encode_end(packet);
	if (packet->failed)
		return -EMSGSIZE;
	r = transport_send(connection->fd, packet->data, packet->size, NULL, 0, MSG_DONTWAIT);
	if (r == -EMSGSIZE) {
		setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &(int){ WIRE_PACKET_MAX }, sizeof(int));
		r = transport_send(connection->fd, packet->data, packet->size, NULL, 0, MSG_DONTWAIT);
	}
	/* If the daemon has closed the connection, its reason may still be readable. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return r;
	connection->serial++;
	if (connection->n_pending == 0)
		connection->waiting_since = clock_ms();
	connection->pending[connection->n_pending++] = (struct request){ connection->serial, answer, count };
	return 1;
}

static int64_t connection_silence_end(const struct connection *connection)
{
	return connection->n_pending > 0 ? connection->waiting_since + connection_silence_timeout_ms : INT64_MAX;
}

int connection_check_time(const struct connection *connection, int64_t deadline)
{
	if (connection_left_ms(connection_silence_end(connection)) == 0)
		return -ETIMEDOUT;
	return connection_left_ms(deadline) == 0 ? -EAGAIN : 0;
}

int connection_receive(struct connection *connection, struct message *message, struct fdset *fds)
{
	uint8_t *packet = lock_memory->packet;
	ssize_t received = transport_receive_fds(connection->fd, packet, WIRE_PACKET_MAX, fds, MSG_DONTWAIT);

	/* The daemon closed the connection without reading everything. Its last packets follow this error. */
	if (received == -ECONNRESET)
		received = transport_receive_fds(connection->fd, packet, WIRE_PACKET_MAX, fds, MSG_DONTWAIT);
	if (received == 0)
		return -ECONNRESET;
	if (received == -EAGAIN)
		return MIN(connection_check_time(connection, INT64_MAX), -EAGAIN);
	if (received < 0)
		return (int)received;
	return decode_message(packet, (size_t)received, message) == 0 ? 0 : -EPROTO;
}

/* poll() and not a timeout of the socket, which would start again whenever an interval timer interrupts it. */
int connection_wait(const struct connection *connection, int64_t deadline)
{
	/* POLLOUT: the queue is full, and no answer is pending that would be a sign of room in it. */
	struct pollfd poll_fd = { .fd = connection->fd,
				  .events = (short)(connection->n_pending == 0 ? POLLIN | POLLOUT : POLLIN) };
	const int64_t until = MIN(deadline, connection_silence_end(connection));
	int left, r;

	do {
		left = connection_left_ms(until);
		r = left > 0 ? poll(&poll_fd, 1, left) : 0;
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r == 0 && until == deadline ? -EAGAIN : 0;
}
