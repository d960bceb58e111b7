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
 * Most clients read at once and go on, so the daemon asks when the client sends its next request, or a moment later, or when no fds
 * are left to be sent. Then it waits for those that have not read: the kernel reports each packet that a client has read as room to
 * write, to an edge-triggered epoll instance of its own. That needs no timer, and has no event as long as nothing is read, even where a
 * client has shut its connection down.
 */

#include "daemon/connection/inflight.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "daemon/connection/client.h"
#include "daemon/process/fds.h"
#include "daemon/process/log.h"
#include "daemon/registry/tenant.h"

enum {
	LOOKS_MAX = 64, /* clients that are looked at in one turn of the loop */
	/* When the kernel reports room it still counts a byte of each packet that it is freeing; a packet counts for hundreds. */
	QUEUE_EMPTY = 64,
	FEW_IN_FLIGHT = 8, /* less than any limit under which the daemon could have started: no system call */
};

static bool has_read_all(const struct client *client)
{
	int bytes;

	return ioctl(client->fd, SIOCOUTQ, &bytes) < 0 || bytes < QUEUE_EMPTY;
}

/* EPOLLHUP is always reported; for a hangup in the past, by a second call. */
bool inflight_watch(struct client *client)
{
	struct epoll_event event = { .events = EPOLLET | (client->in_flight > 0 ? EPOLLOUT : 0), .data.ptr = client };
	int op = client->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	client->watched |= epoll_ctl(client->connections->w_in_flight.fd, op, client->fd, &event) == 0;
	return client->watched;
}

/* The keeper's copy would keep it in the epoll instance. */
static void inflight_unwatch(struct client *client)
{
	if (client->watched)
		epoll_ctl(client->connections->w_in_flight.fd, EPOLL_CTL_DEL, client->fd, NULL);
	client->watched = false;
}

void inflight_add(struct client *client, size_t n)
{
	if (n == 0)
		return;
	client_defer(client);
	client->in_flight += (unsigned)n;
	client->holder.tenant->in_flight += (uint32_t)n;
	client->connections->in_flight += (uint32_t)n;
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
	/* A client that is delayed by its rate is watched for its end. */
	if (client->stall != STALL_RATE)
		inflight_unwatch(client);
}

void inflight_restore(struct client *client)
{
	inflight_add(client, !has_read_all(client));
	client->files_unread = client->in_flight > 0;
}

void inflight_forget(struct client *client)
{
	inflight_unwatch(client);
	inflight_undo(client, client->in_flight);
}

bool inflight_remains(struct client *client)
{
	if (client->in_flight > 0 && has_read_all(client))
		inflight_undo(client, client->in_flight);
	return client->in_flight > 0;
}

bool inflight_has_room(struct connections *connections, const struct tenant *tenant)
{
	rlim_t limit = connections->in_flight < FEW_IN_FLIGHT ? RLIM_INFINITY : fds_limit(), most = limit - limit / 4;

	if (tenant->in_flight >= most - MIN((rlim_t)connections->in_flight, most))
		clients_do_deferred(connections);
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
		const bool remains = inflight_remains(client);

		if (ready[i].events & EPOLLHUP && (remains || client->stall == STALL_RATE))
			client_close(client);
		else if (!remains)
			client_has_read(client);
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
