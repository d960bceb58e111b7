/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A reader has one buffer, which is filled again once it is sent: so the text is made as fast as it is read, one buffer in a turn of
 * the loop. A few readers are served at a time; others wait in the queue of the listening socket.
 */

#include "daemon/admin/metrics_socket.h"

#include <sys/socket.h>

#include "daemon/admin/metrics.h"
#include "daemon/connection/client.h"
#include "daemon/daemon.h"
#include "daemon/limits.h"
#include "daemon/policy/policy.h"
#include "daemon/process/log.h"
#include "kernel/disposal.h"

enum { BUFFER_BYTES = 65536 };
_Static_assert(BUFFER_BYTES > 2 * METRICS_PIECE_MAX, "more than one piece at a time");

struct metrics_reader {
	struct metrics_socket *socket;
	int fd;
	ev_io w_io;
	ev_timer w_deadline; /* restarted for each buffer */
	struct metrics_walk walk;
	size_t sent;
	struct text text; /* in the buffer */
	char buffer[BUFFER_BYTES];
	LIST_ENTRY(metrics_reader) entry;
};

static void reader_free(struct metrics_reader *reader)
{
	struct metrics_socket *socket = reader->socket;
	struct daemon *daemon = reader->socket->daemon;

	ev_io_stop(daemon->loop, &reader->w_io);
	ev_timer_stop(daemon->loop, &reader->w_deadline);
	/* Reads what the reader has sent, such as a request of HTTP. */
	connection_end(&daemon->connections, reader->fd);
	disposal_close(reader->fd);
	LIST_REMOVE(reader, entry);
	free(reader);
	socket->n_readers--;
	metrics_socket_resume(socket);
}

/* False: at the end, or after an error. */
static bool reader_send(struct metrics_reader *reader)
{
	struct daemon *daemon = reader->socket->daemon;
	struct text *text = &reader->text;
	ssize_t n;

	if (reader->sent == text->length) {
		*text = text_make(reader->buffer, sizeof(reader->buffer));
		reader->sent = 0;
		while (text->size - text->length > METRICS_PIECE_MAX && metrics_next(&reader->walk, daemon, text))
			;
		if (text->length == 0)
			return false;
		ev_timer_again(daemon->loop, &reader->w_deadline);
	}
	n = send(reader->fd, text->buffer + reader->sent, text->length - reader->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	reader->sent += (size_t)n;
	return true;
}

static void on_writable(struct ev_loop *loop _unused_, ev_io *w, int events)
{
	struct metrics_reader *reader = container_of(w, struct metrics_reader, w_io);

	/* EV_ERROR: the kernel cannot watch one more fd. */
	if (events & EV_ERROR || !reader_send(reader))
		reader_free(reader);
}

static void on_deadline(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	struct metrics_reader *reader = container_of(w, struct metrics_reader, w_deadline);

	log_notice("disconnected a reader of the metrics on %s, which has not read for %u seconds",
		   reader->socket->path, reader->socket->daemon->options.client_timeout);
	reader_free(reader);
}

/* Takes over the connection: 0; or -ENOMEM, and the fd is still the caller's. */
static int metrics_socket_welcome(struct listener *listener, int fd)
{
	struct metrics_socket *socket = container_of(listener, struct metrics_socket, listener);
	struct daemon *daemon = socket->daemon;
	struct metrics_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	reader->socket = socket;
	reader->fd = fd;
	ev_io_init(&reader->w_io, on_writable, fd, EV_WRITE);
	ev_io_start(daemon->loop, &reader->w_io);
	ev_init(&reader->w_deadline, on_deadline);
	reader->w_deadline.repeat = daemon->options.client_timeout;
	LIST_INSERT_HEAD(&socket->readers, reader, entry);
	if (++socket->n_readers == METRICS_READERS_MAX)
		ev_io_stop(daemon->loop, &socket->listener.w_accept);
	return 0;
}

void metrics_socket_resume(struct metrics_socket *socket)
{
	if (socket->n_readers < METRICS_READERS_MAX)
		listener_resume(&socket->listener);
}

void metrics_socket_init(struct metrics_socket *socket, struct daemon *daemon)
{
	const char *path = policy_daemon(daemon->registry.policy, POLICY_METRICS_SOCKET)->text;
	int r;

	LIST_INIT(&socket->readers);
	socket->daemon = daemon;
	if (!path)
		return;
	string_copy(socket->path, sizeof(socket->path), path);
	/* Mode 0660, since the text has the names of all tenants; a set-group-ID directory sets the group. */
	r = listener_init(&socket->listener, &daemon->connections, socket->path, 0660, SOCKET_METRICS);
	socket->listener.take = metrics_socket_welcome;
	if (r < 0)
		log_error("MetricsSocket=%s: %s; the metrics are not served there", path,
			  r == -EADDRINUSE ? "another process listens there" : strerror(-r));
}

void metrics_socket_deinit(struct metrics_socket *socket)
{
	while (!LIST_EMPTY(&socket->readers))
		reader_free(LIST_FIRST(&socket->readers));
	listener_deinit(&socket->listener);
}
