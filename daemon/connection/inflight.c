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
 * write, edge-triggered. That needs no timer, and has no event as long as nothing is read, even where a client has shut its connection
 * down.
 */

#include "daemon/connection/inflight.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "daemon/connection/client.h"
#include "daemon/process/fds.h"
#include "daemon/registry/tenant.h"

enum {
	/* When the kernel reports room it still counts a byte of each packet that it is freeing; a packet counts for hundreds. */
	QUEUE_EMPTY = 64,
	FEW_IN_FLIGHT = 8, /* less than any limit under which the daemon could have started: no system call */
};

static bool has_read_all(const struct client *client)
{
	int bytes;

	return ioctl(client->fd, SIOCOUTQ, &bytes) < 0 || bytes < QUEUE_EMPTY;
}

bool inflight_await(struct client *client)
{
	client->awaited = true;
	client_watch(client);
	return client->events != 0;
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
	client->awaited = false;
	if (client->stall == STALL_UNREAD) {
		client->stall = STALL_NONE;
		deadline_clear(client);
	}
}

void inflight_restore(struct client *client)
{
	inflight_add(client, !has_read_all(client));
	client->files_unread = client->in_flight > 0;
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
