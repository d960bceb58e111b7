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
 * Most clients read at once and go on, so the daemon asks about a client when it sends its next request, and about all when the fds of
 * UNASKED_MAX of them may have been read, or no fds are left to be sent. For those that have not read by then, or have sent a request
 * without reading, or have left, it waits: the kernel reports each packet that a client has read as room to write, to an edge-triggered
 * epoll instance of its own. That needs no timer, and has no event as long as nothing is read, even where a client has shut its
 * connection down.
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
};

static bool has_read_all(const struct client *client)
{
	int bytes;

	return ioctl(client->fd, SIOCOUTQ, &bytes) < 0 || bytes < QUEUE_EMPTY;
}

void inflight_add(struct client *client, size_t n)
{
	struct connections *connections = client->connections;

	if (n == 0)
		return;
	if (client->in_flight == 0 && !client->watched) {
		TAILQ_INSERT_TAIL(&connections->unasked, client, in_unasked);
		connections->n_unasked++;
	}
	client->in_flight += (unsigned)n;
	client->holder.tenant->in_flight += (uint32_t)n;
	connections->in_flight += (uint32_t)n;
}

/* Before the connection is closed: the keeper's copy would keep it in the epoll instance. */
static void inflight_unwatch(struct client *client)
{
	epoll_ctl(client->connections->w_in_flight.fd, EPOLL_CTL_DEL, client->fd, NULL);
	client->watched = false;
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
	if (!client->watched)
		TAILQ_REMOVE(&client->connections->unasked, client, in_unasked);
	else if (client->stall != STALL_RATE)
		inflight_unwatch(client);
}

void inflight_restore(struct client *client)
{
	inflight_add(client, !has_read_all(client));
	client->files_unread = client->in_flight > 0;
}

bool inflight_watch(struct client *client)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET, .data.ptr = client };
	int op = client->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (epoll_ctl(client->connections->w_in_flight.fd, op, client->fd, &event) < 0)
		return false;
	if (!client->watched && client->in_flight > 0)
		TAILQ_REMOVE(&client->connections->unasked, client, in_unasked);
	client->watched = true;
	return true;
}

void inflight_forget(struct client *client)
{
	inflight_undo(client, client->in_flight);
	if (client->watched)
		inflight_unwatch(client);
}

bool inflight_remains(struct client *client)
{
	if (client->in_flight > 0 && has_read_all(client))
		inflight_undo(client, client->in_flight);
	return client->in_flight > 0;
}

/* Where epoll has no room for a client's fd, the client is asked about again the next time. */
void inflight_look(struct connections *connections)
{
	struct client *client, *next;

	connections->n_unasked = 0;
	connections->fds_limit = fds_limit();
	for (client = TAILQ_FIRST(&connections->unasked); client; client = next) {
		next = TAILQ_NEXT(client, in_unasked);
		if (inflight_remains(client))
			inflight_watch(client);
		else
			client_has_read(client);
	}
}

static bool has_room(const struct connections *connections, const struct tenant *tenant)
{
	rlim_t most = connections->fds_limit - connections->fds_limit / 4;

	return tenant->in_flight < most - MIN((rlim_t)connections->in_flight, most);
}

bool inflight_has_room(struct connections *connections, const struct tenant *tenant)
{
	if (has_room(connections, tenant))
		return true;
	inflight_look(connections);
	return has_room(connections, tenant);
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

		if (client->stall == STALL_RATE && ready[i].events & EPOLLHUP)
			client_close(client);
		else if (client->in_flight == 0)
			continue;
		else if (!inflight_remains(client))
			client_has_read(client);
		else if (ready[i].events & EPOLLHUP)
			client_close(client);
	}
}

int inflight_init(struct connections *connections)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	TAILQ_INIT(&connections->unasked);
	inflight_look(connections);

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
