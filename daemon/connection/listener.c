/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/listener.h"

#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/identity/peer.h"
#include "daemon/process/log.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/fd_budget.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/silencing.h"
#include "daemon/registry/tenant.h"
#include "kernel/disposal.h"
#include "protocol/transport.h"

static void listener_back_off(struct listener *listener, int error)
{
	if (listener->backoffs++ == 0)
		log_warning("can't accept on %s: %s; trying again every %.0f ms", listener->path, strerror(-error),
			    ACCEPT_BACKOFF * 1000);
	ev_io_stop(listener->connections->loop, &listener->w_accept);
	ev_timer_set(&listener->w_backoff, ACCEPT_BACKOFF, 0.);
	ev_timer_start(listener->connections->loop, &listener->w_backoff);
}

static void on_backoff(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	listener_resume(container_of(w, struct listener, w_backoff));
}

void listener_resume(struct listener *listener)
{
	if (!listener->connections || ev_is_active(&listener->w_accept))
		return;
	ev_timer_stop(listener->connections->loop, &listener->w_backoff);
	/* Otherwise libev takes a watcher that the kernel has refused for an active one. */
	ev_io_set(&listener->w_accept, listener->fd, EV_READ);
	ev_io_start(listener->connections->loop, &listener->w_accept);
}

/* Sends the reason, and disconnects. */
static void listener_refuse(struct listener *listener, int fd, struct tenant *tenant, uint32_t refusal,
			    const char *sentence)
{
	uint8_t buffer[512];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	refusal_note(listener->connections->registry, tenant, NULL, refusal, sentence);
	encode_begin(&packet, KIND_ERROR, 0, 0, NULL, 0);
	encode_error(&packet, refusal, sentence);
	encode_end(&packet);
	transport_send(fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT);
	connection_end(listener->connections, fd);
	disposal_close(fd);
}

/* 0: the connection is a client's now, or was refused. A negative errno: out of memory, or of fds. */
static int listener_welcome(struct listener *listener, int fd, bool has_asked)
{
	static const char *const unknown[] = {
		[PEER_E_HIDDEN] = "the daemon can't see your process: it is outside of the daemon's pid namespace, or "
				  "/proc hides it (hidepid=)",
		[PEER_E_NOWHERE] =
			"the daemon can't see which cgroup your process is in: neither cgroup2 nor systemd's "
			"own hierarchy is there; ask the admin to mount cgroup2",
	};
	struct connections *connections = listener->connections;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct tenant *tenant = NULL;
	struct peer peer;
	int r;

	if (listener->take)
		return listener->take(listener, fd);
	r = listener->socket == SOCKET_CLIENTS ? peer_identify(fd, &connections->registry->cgroups,
							       rules_are_unguarded(connections->registry), &peer)
					       : peer_identify_admin(fd, &peer);
	if (r == PEER_E_GONE) {
		disposal_close(fd);
		return 0;
	}
	if (r == PEER_E_HIDDEN || r == PEER_E_NOWHERE) {
		listener_refuse(listener, fd, NULL, REFUSAL_UNKNOWN_PEER, unknown[r]);
		return 0;
	}
	if (r == 0 && connections->registry->options->tenant_is_process)
		r = peer_comm(fd, peer.pid, peer.comm, sizeof(peer.comm));
	if (r == 0 && listener->socket == SOCKET_CLIENTS)
		r = tenant_of_peer(connections->registry, &peer, &tenant);
	if (tenant && tenant->blocked) {
		listener_refuse(listener, fd, tenant, REFUSAL_NOT_PERMITTED, tenant_blocked_sentence);
		tenant_release(tenant);
		return 0;
	}
	if (tenant && admission_ask_maximum(tenant, RESOURCE_CONNECTIONS, &why) != 0) {
		listener_refuse(listener, fd, tenant, REFUSAL_TOO_MANY_CONNECTIONS, why.buffer);
		tenant_release(tenant);
		return 0;
	}
	peer.has_asked = has_asked;
	if (r == 0)
		r = client_new(connections, fd, listener->socket, &peer, tenant);
	if (r < 0 && tenant)
		tenant_release(tenant);
	return r;
}

/* One connection a turn of the loop: a storm of connections costs each request of the others one accept4() at most. */
static void on_accept(struct ev_loop *loop _unused_, ev_io *w, int events)
{
	struct listener *listener = container_of(w, struct listener, w_accept);
	const bool has_room = listener->socket != SOCKET_CLIENTS || fd_budget_has_room(listener->connections->registry);
	struct pollfd state = { .events = POLLIN };
	int r;

	/* EV_ERROR: epoll has no room for its fd (max_user_watches). */
	if (events & EV_ERROR || !has_room) {
		listener_back_off(listener, events & EV_ERROR ? -ENOSPC : -EMFILE);
		return;
	}
	state.fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (state.fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			listener_back_off(listener, -errno);
		return;
	}
	/* Before anything that costs more: a process that connects and closes in a loop must not keep others waiting. */
	if (poll(&state, 1, 0) > 0 && state.revents & POLLHUP) {
		disposal_close(state.fd);
		return;
	}
	r = listener_welcome(listener, state.fd, state.revents & POLLIN);
	if (r == 0)
		return;
	disposal_close(state.fd);
	log_line(LOG_OF_CLIENTS, LOG_WARNING, "a connection on %s was dropped: %s", listener->path, strerror(-r));
}

/* Removes the file of a socket that no process listens on; -EADDRINUSE if one does. */
static int listener_remove_stale(int type, const char *path, const struct sockaddr_un *address, socklen_t length)
{
	_cleanup_(fd_closep) int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	if (connect(fd, (const struct sockaddr *)address, length) == 0 || errno == EAGAIN || errno == EPROTOTYPE)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(path) < 0 ? -errno : 0;
}

/* False: there is no such file. */
static bool listener_stat(const char *path, struct statx *ret)
{
	return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, ret) == 0;
}

void listener_remove_files(const struct listener *listener)
{
	const struct statx *ours = &listener->file;
	struct statx file;

	if (listener->handed_over)
		return;
	/* A later file may have the inode number of ours; where the file system records it, its time of birth differs. */
	if (listener->path && listener_stat(listener->path, &file) && file.stx_dev_major == ours->stx_dev_major &&
	    file.stx_dev_minor == ours->stx_dev_minor && file.stx_ino == ours->stx_ino &&
	    file.stx_btime.tv_sec == ours->stx_btime.tv_sec && file.stx_btime.tv_nsec == ours->stx_btime.tv_nsec)
		unlink(listener->path);
}

/*
 * Connections inherit these options: each packet has its sender, and none may have fds. Where the kernel is too old for the
 * latter, a client that sends fds is disconnected.
 */
static int listener_set_options(int fd)
{
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) < 0)
		return -errno;
	return transport_refuse_fds(fd);
}

static int listener_listen(struct listener *listener, const char *path, mode_t mode)
{
	int type = listener->socket == SOCKET_METRICS ? SOCK_STREAM : SOCK_SEQPACKET;
	_cleanup_(freep) char *copy = NULL;
	struct sockaddr_un address;
	socklen_t length;
	int r;

	listener->path = path;
	r = transport_address(path, &address, &length);
	if (r < 0)
		return r;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	/* /run/userevd is gone after each boot. A container that has mounted the directory would not see one made by the next daemon. */
	if (mkdir(dirname(copy), 0755) < 0 && errno != EEXIST)
		return -errno;
	r = listener_remove_stale(type, path, &address, length);
	if (r < 0)
		return r;
	listener->fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return -errno;
	r = listener_set_options(listener->fd);
	if (r < 0)
		return r;
	/* No connection is possible between bind() and chmod(): it does not listen yet. */
	if (bind(listener->fd, (struct sockaddr *)&address, length) < 0)
		return -errno;
	if (!listener_stat(path, &listener->file) || chmod(path, mode) < 0 || listen(listener->fd, LISTEN_BACKLOG) < 0)
		return -errno;
	return 0;
}

static void listener_start(struct listener *listener)
{
	ev_io_init(&listener->w_accept, on_accept, listener->fd, EV_READ);
	ev_timer_init(&listener->w_backoff, on_backoff, ACCEPT_BACKOFF, 0.);
	ev_io_start(listener->connections->loop, &listener->w_accept);
}

int listener_init(struct listener *listener, struct connections *connections, const char *path, mode_t mode,
		  enum client_socket socket)
{
	int r;

	*listener = (struct listener){ .connections = connections, .fd = -1, .socket = socket };
	r = listener_listen(listener, path, mode);
	if (r < 0) {
		listener_deinit(listener);
		return r;
	}
	listener_start(listener);
	return 0;
}

int listener_take(struct listener *listener, struct connections *connections, int fd, enum client_socket socket)
{
	struct sockaddr_un address = { 0 };
	socklen_t length = sizeof(address);
	int r = listener_set_options(fd);

	if (r < 0)
		return r;
	*listener = (struct listener){ .connections = connections, .fd = fd, .socket = socket, .handed_over = true };
	/* For messages alone: an address may have no name, or be truncated. */
	string_copy(listener->handed_path, sizeof(listener->handed_path), "a socket without a name");
	if (getsockname(fd, (struct sockaddr *)&address, &length) == 0 && *address.sun_path)
		string_copy(listener->handed_path, sizeof(listener->handed_path), address.sun_path);
	listener->path = listener->handed_path;
	listener_start(listener);
	return 0;
}

void listener_deinit(struct listener *listener)
{
	if (!listener->connections)
		return;
	if (listener->w_accept.fd >= 0 && ev_is_active(&listener->w_accept))
		ev_io_stop(listener->connections->loop, &listener->w_accept);
	if (ev_is_active(&listener->w_backoff))
		ev_timer_stop(listener->connections->loop, &listener->w_backoff);
	listener_remove_files(listener);
	fd_close(listener->fd);
	*listener = (struct listener){ .fd = -1 };
}
