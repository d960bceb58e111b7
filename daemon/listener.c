/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/listener.h"

#include <libgen.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/peer.h"
#include "daemon/tenant.h"
#include "protocol/disposal.h"
#include "protocol/transport.h"

/* Out of fds or memory: the connection stays in the backlog, and we come back for it. */
static bool is_passing(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS;
}

static void back_off(struct listener *listener, int error)
{
	if (listener->backoffs++ == 0)
		log_warning("can't accept on %s: %s; trying again every %.0f ms", listener->path, strerror(-error),
			    ACCEPT_BACKOFF * 1000);
	ev_io_stop(listener->daemon->loop, &listener->w_accept);
	ev_timer_set(&listener->w_backoff, ACCEPT_BACKOFF, 0.);
	ev_timer_start(listener->daemon->loop, &listener->w_backoff);
}

/* The one that is held comes first, whether or not there are others. */
static void start_accepting(struct listener *listener)
{
	ev_io_start(listener->daemon->loop, &listener->w_accept);
	ev_feed_event(listener->daemon->loop, &listener->w_accept, EV_READ);
}

static void on_backoff(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	start_accepting(container_of(w, struct listener, w_backoff));
}

void listener_resume(struct listener *listener)
{
	if (!ev_is_active(&listener->w_backoff))
		return;
	ev_timer_stop(listener->daemon->loop, &listener->w_backoff);
	start_accepting(listener);
}

/* Whom we can't see gets nothing, and is told why. */
static void turn_away(struct listener *listener, int fd, const char *sentence)
{
	uint8_t buffer[512];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	daemon_refused(listener->daemon, NULL, NULL, REFUSAL_UNKNOWN_PEER, sentence);
	encode_begin(&packet, KIND_ERROR, 0, 0, NULL, 0);
	encode_error(&packet, REFUSAL_UNKNOWN_PEER, sentence);
	encode_end(&packet);
	transport_send(fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT);
	shutdown(fd, SHUT_RDWR);
	disposal_close(fd);
}

/* 0: the connection is the client's now, or was turned away. Negative: out of something. */
static int welcome(struct listener *listener, int fd)
{
	struct daemon *daemon = listener->daemon;
	struct tenant *tenant = NULL;
	struct peer peer;
	int r;

	r = peer_identify(fd, &daemon->cgroups, &peer);
	if (r == PEER_E_GONE) {
		disposal_close(fd);
		return 0;
	}
	if (r == PEER_E_HIDDEN) {
		turn_away(listener, fd, "the daemon can't see your process; is it in a pid namespace that hides it?");
		return 0;
	}
	if (r == 0 && listener->socket == SOCKET_CLIENTS)
		r = tenant_of_peer(daemon, &peer, &tenant);
	if (r == 0)
		r = client_new(daemon, fd, listener->socket, &peer, tenant);
	if (r < 0 && tenant)
		tenant_release(tenant);
	return r;
}

static int take_connection(struct listener *listener)
{
	if (listener->held >= 0)
		return fd_steal(&listener->held);
	return accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void on_accept(struct ev_loop *loop _unused_, ev_io *w, int events _unused_)
{
	struct listener *listener = container_of(w, struct listener, w_accept);

	for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
		int fd, r;

		if (listener->socket == SOCKET_CLIENTS && !daemon_has_fds(listener->daemon)) {
			back_off(listener, -EMFILE);
			return;
		}
		fd = take_connection(listener);

		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		r = fd < 0 ? -errno : welcome(listener, fd);
		if (r == 0)
			continue;
		if (is_passing(r)) {
			listener->held = fd;
			back_off(listener, r);
			return;
		}
		disposal_close(fd);
		log_warning("a connection on %s was dropped: %s", listener->path, strerror(-r));
	}
}

/* A socket's file that nobody listens on any more is in the way; one that somebody does is not ours to take. */
static int remove_stale(const char *path, const struct sockaddr_un *address, socklen_t length)
{
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	if (connect(fd, (const struct sockaddr *)address, length) == 0 || errno == EAGAIN)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(path) < 0 ? -errno : 0;
}

/* /run/userevd is gone after each boot. What was made here is removed again at the end. */
static int make_directory(struct listener *listener, const char *path)
{
	_cleanup_(freep) char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	listener->made_directory = mkdir(dirname(copy), 0755) == 0;
	return !listener->made_directory && errno != EEXIST ? -errno : 0;
}

void listener_remove_files(const struct listener *listener)
{
	_cleanup_(freep) char *copy = strdup(listener->path);
	const char *path = listener->path;
	struct stat status;

	if (lstat(path, &status) == 0 && status.st_dev == listener->device && status.st_ino == listener->inode)
		unlink(path);
	if (copy && listener->made_directory)
		rmdir(dirname(copy));
}

/*
 * What a connection inherits: each packet says who sent it, and none brings an fd. Where the kernel is too old for the
 * latter, whoever sends one is cut off.
 */
static int set_options(int fd)
{
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) < 0)
		return -errno;
	return transport_refuse_fds(fd);
}

static int listen_at(struct listener *listener, const char *path, mode_t mode)
{
	struct sockaddr_un address;
	struct stat status;
	socklen_t length;
	int r;

	listener->path = path;
	r = transport_address(path, &address, &length);
	if (r == 0)
		r = make_directory(listener, path);
	if (r == 0)
		r = remove_stale(path, &address, length);
	if (r < 0)
		return r;
	listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return -errno;
	r = set_options(listener->fd);
	if (r < 0)
		return r;
	/* Nobody can connect between bind() and chmod(): it does not listen yet. */
	if (bind(listener->fd, (struct sockaddr *)&address, length) < 0)
		return -errno;
	if (lstat(path, &status) < 0)
		return -errno;
	listener->device = status.st_dev;
	listener->inode = status.st_ino;
	if (chmod(path, mode) < 0 || listen(listener->fd, LISTEN_BACKLOG) < 0)
		return -errno;
	return 0;
}

int listener_init(struct listener *listener, struct daemon *daemon, const char *path, mode_t mode,
		  enum client_socket socket)
{
	int r;

	*listener = (struct listener){ .daemon = daemon, .fd = -1, .held = -1, .socket = socket };
	r = listen_at(listener, path, mode);
	if (r < 0) {
		listener_deinit(listener);
		return r;
	}
	ev_io_init(&listener->w_accept, on_accept, listener->fd, EV_READ);
	ev_timer_init(&listener->w_backoff, on_backoff, ACCEPT_BACKOFF, 0.);
	ev_io_start(daemon->loop, &listener->w_accept);
	return 0;
}

void listener_deinit(struct listener *listener)
{
	if (!listener->daemon)
		return;
	if (listener->w_accept.fd >= 0 && ev_is_active(&listener->w_accept))
		ev_io_stop(listener->daemon->loop, &listener->w_accept);
	if (ev_is_active(&listener->w_backoff))
		ev_timer_stop(listener->daemon->loop, &listener->w_backoff);
	if (listener->path)
		listener_remove_files(listener);
	disposal_close(listener->held);
	fd_close(listener->fd);
	*listener = (struct listener){ .fd = -1, .held = -1 };
}
