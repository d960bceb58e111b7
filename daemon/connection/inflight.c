/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The kernel counts the fds in flight for each user who sends them, and lets a user send no more than RLIMIT_NOFILE of them
 * (ETOOMANYREFS). Clients that do not read would use up what the daemon may send to all others. So the daemon counts the fds
 * for the client, its tenant and the whole daemon until SIOCOUTQ says that the client's queue is empty: all was read, or the
 * client has closed its end.
 *
 * A tenant may have as many fds in flight as are left for all other tenants. One greedy tenant gets half of all, each of n
 * gets 1/(n + 1), and a tenant with few always finds room. A quarter of the limit is kept for talking to the keeper, and for
 * answers that are under way when a tenant reaches its maximum.
 *
 * The kernel reports each packet that a client has read as room to write. An edge-triggered epoll instance of its own waits for
 * that: it needs no timer, and has no event as long as nothing is read, even where a client has shut its connection down.
 */

#include "daemon/connection/inflight.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "daemon/connection/client.h"
#include "daemon/process/log.h"
#include "daemon/registry/tenant.h"

enum {
	LOOKS_MAX = 64, /* clients that are looked at in one turn of the loop */
	/* When the kernel reports room it still counts a byte of each packet that it is freeing; a packet counts for hundreds. */
	QUEUE_EMPTY = 64,
};

static bool has_read_all(const struct client *client)
{
	int bytes;

	return ioctl(client->fd, SIOCOUTQ, &bytes) < 0 || bytes < QUEUE_EMPTY;
}

int inflight_add(struct client *client, size_t n)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET, .data.ptr = client };

	if (n == 0)
		return 0;
	/* First: where there is no room for it, nothing may be sent. */
	if (client->in_flight == 0 &&
	    epoll_ctl(client->connections->w_in_flight.fd, EPOLL_CTL_ADD, client->fd, &event) < 0)
		return -errno;
	client->in_flight += (unsigned)n;
	client->holder.tenant->in_flight += (uint32_t)n;
	client->connections->in_flight += (uint32_t)n;
	return 0;
}

void inflight_undo(struct client *client, size_t n)
{
	if (n == 0)
		return;
	client->in_flight -= (unsigned)n;
	client->holder.tenant->in_flight -= (uint32_t)n;
	client->connections->in_flight -= (uint32_t)n;
	if (client->in_flight > 0)
		return;
	client->files_unread = false;
	if (client->stall == STALL_UNREAD)
		client->stall = STALL_NONE;
	/* Before the connection is closed: the keeper's copy would keep it in the epoll instance. */
	epoll_ctl(client->connections->w_in_flight.fd, EPOLL_CTL_DEL, client->fd, NULL);
}

int inflight_restore(struct client *client)
{
	int r = has_read_all(client) ? 0 : inflight_add(client, 1);

	client->files_unread = client->in_flight > 0;
	return r;
}

void inflight_forget(struct client *client)
{
	inflight_undo(client, client->in_flight);
}

bool inflight_remains(struct client *client)
{
	if (client->in_flight > 0 && has_read_all(client))
		inflight_forget(client);
	return client->in_flight > 0;
}

bool inflight_has_room(const struct connections *connections, const struct tenant *tenant)
{
	struct rlimit limit;
	rlim_t most;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return true;
	most = limit.rlim_cur - limit.rlim_cur / 4;
	return tenant->in_flight < most - MIN((rlim_t)connections->in_flight, most);
}

static void inflight_on_read(struct ev_loop *loop, ev_io *w, int events)
{
	struct connections *connections = container_of(w, struct connections, w_in_flight);
	struct epoll_event ready[LOOKS_MAX];
	int n;

	/* EV_ERROR: epoll has no room for its fd (max_user_watches). Stalled clients would wait for ever. */
	if (events & EV_ERROR) {
		log_error("can't wait for clients to read their answers: %s", strerror(ENOSPC));
		connections->failed = -ENOSPC;
		ev_break(loop, EVBREAK_ALL);
		return;
	}
	/* Clients are freed at the end of the turn alone, so each of these is there. */
	n = epoll_wait(w->fd, ready, LOOKS_MAX, 0);
	for (int i = 0; i < n; i++) {
		struct client *client = ready[i].data.ptr;

		if (!inflight_remains(client))
			client_has_read(client);
		else if (ready[i].events & EPOLLHUP)
			client_close(client);
	}
}

int inflight_init(struct connections *connections)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0) {
		log_error("can't wait for clients to read their answers: %s", strerror(errno));
		return -errno;
	}
	ev_io_init(&connections->w_in_flight, inflight_on_read, fd, EV_READ);
	ev_io_start(connections->loop, &connections->w_in_flight);
	return 0;
}

void inflight_deinit(struct connections *connections)
{
	if (!ev_cb(&connections->w_in_flight))
		return;
	ev_io_stop(connections->loop, &connections->w_in_flight);
	fd_close(connections->w_in_flight.fd);
}
