/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A client is never read while its last answer waits for the kernel, or for room in its socket. So a connection holds the
 * memory of one answer, however much it asks for; when these add up for one tenant, none of its clients is read. An answer
 * that is not read has a timeout, as has a new connection without a request.
 *
 * Nor is a client read while data files that it was sent lie unread in its socket: they count against the fds that this
 * daemon may send (inflight.c). That has a timeout, too. The status page does not count here: it is sent once for a connection, and
 * programs send the next request before they read it. A connection that ends with unread fds counts as one of its tenant's connections until
 * the peer has read all, or closed its end.
 *
 * Once its connection is deposited (deposit.c), a request stays in the client's socket until its answer is sent. If this process ends
 * before that, the next daemon finds the request there and handles it again; if it ends in between, the client gets the answer twice.
 */

#include "daemon/connection/client.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "daemon/connection/deposit.h"
#include "daemon/connection/inflight.h"
#include "daemon/connection/scheduler.h"
#include "daemon/identity/peer.h"
#include "daemon/ledger/entries.h"
#include "daemon/process/clock.h"
#include "daemon/process/loop.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/own_trace.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/share.h"
#include "daemon/registry/silencing.h"
#include "daemon/registry/tenant.h"
#include "protocol/transport.h"

static bool wants_to_read(const struct client *client)
{
	return client->life == LIFE_OPEN && !client->waiting && !client->asks && !client->task &&
	       client->stall == STALL_NONE;
}

/*
 * Sets the epoll events of a client, which follow from its state alone. They are edge-triggered, and each epoll_ctl() makes the kernel
 * report input once more that has arrived before. So a client that is not read costs nothing, although its request is still in its socket;
 * and the epoll_ctl() at the end of a request reports packets that arrived meanwhile.
 */
void client_watch(struct client *client)
{
	const bool reads = wants_to_read(client), writes = client->awaited || (client->waiting && !client->later);
	const bool listens = reads || client->stall == STALL_RATE;
	struct epoll_event event = {
		.events = EPOLLET | (reads ? EPOLLIN : 0) | (writes ? EPOLLOUT : 0),
		.data.u64 = LOOP_EVENT_TAG | (uintptr_t)client,
	};
	int op = client->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if ((!listens && !writes) || (event.events == client->events && !(listens && client->has_input)))
		return;
	client->events = event.events;
	client->has_input = false;
	if (epoll_ctl(loop_epoll, op, client->fd, &event) == 0)
		return;
	/* There is no room for one more fd (max_user_watches). */
	if (op == EPOLL_CTL_ADD)
		client->events = 0;
	client_disconnect(client, 0, REFUSAL_TROUBLE, "the daemon can't wait for more connections; try again later");
}

static void client_read_request(struct client *client)
{
	struct connections *connections = client->connections;
	struct tenant *tenant = client->holder.tenant;
	void (*resume)(struct client_task *);
	bool goes_on = client_goes_on(client);
	struct transport_from from;
	ssize_t size;

	if (client->life >= LIFE_CLOSING || (!goes_on && !wants_to_read(client)))
		return;
	if (goes_on) {
		resume = client->task->resume;
		client->task->resume = client->task->abandon = NULL;
		resume(client->task);
		return;
	}
	if (client->files_unread && inflight_remains(client)) {
		client->stall = STALL_UNREAD;
		inflight_await(client);
		deadline_set(client);
		return;
	}
	client->in_socket = client->deposited;
	size = (client->in_socket ? transport_peek : transport_receive)(client->fd, connections->request,
									sizeof(connections->request), &from);
	if (size == -EAGAIN)
		return;
	if (size == -EPROTO)
		client_disconnect(client, 0, REFUSAL_UNEXPECTED_FDS, "no request takes file descriptors");
	else if (size == -EMSGSIZE)
		client_disconnect(client, 0, REFUSAL_BAD_PACKET, "a packet is at most %d bytes", WIRE_PACKET_MAX);
	/* An empty packet has a sender, the end of the connection has none. */
	else if (size < 0 || (size == 0 && !from.known))
		client_close(client);
	if (client->life != LIFE_OPEN)
		return;
	if (tenant)
		level_take(tenant->level, clock_now());
	client->asks = true;
	connections->call->dispatch(client, connections->request, (size_t)size, &from);
	/* The request has no answer. */
	if (!client->task && !client->waiting && client->life < LIFE_CLOSING)
		client_end_request(client);
}

void client_take_request(struct client *client)
{
	client_read_request(client);
	client_watch(client);
}

/* For a while: the clients that are not reached keep their places. */
void clients_take_requests(struct connections *connections)
{
	struct client *client;
	double end;

	if (TAILQ_EMPTY(&connections->runnable))
		return;
	end = clock_now() + TURN_TIME;
	do {
		client = scheduler_next(connections);
		if (client)
			client_take_request(client);
	} while (!TAILQ_EMPTY(&connections->runnable) && clock_now() < end);
}

void clients_stay_awake(struct connections *connections)
{
	if (TAILQ_EMPTY(&connections->runnable) && TAILQ_EMPTY(&connections->leaving) &&
	    TAILQ_EMPTY(&connections->registry->ending))
		ev_idle_stop(connections->loop, &connections->w_busy);
	else
		ev_idle_start(connections->loop, &connections->w_busy);
}

static void on_busy(struct ev_loop *loop _unused_, ev_idle *w _unused_, int events _unused_)
{
}

static void client_go_on(struct client *client)
{
	if (client->waiting && !client->later)
		client_on_writable(client);
	if (!client->has_input || !wants_to_read(client))
		client_watch(client);
	/* Admins need not queue. */
	else if (client->holder.tenant)
		scheduler_add(client);
	else
		client_take_request(client);
}

void clients_take_events(void)
{
	struct epoll_event event;

	/* Clients are freed at the end of the turn alone, so each of these is there. */
	while (loop_next_event(&event)) {
		struct client *client = (struct client *)(uintptr_t)event.data.u64;
		struct connections *connections = client->connections;
		const bool remains = client->awaited && inflight_remains(client);

		client->has_input |= (event.events & (EPOLLIN | EPOLLHUP)) != 0;
		if (event.events & EPOLLHUP && (remains || client->stall == STALL_RATE))
			client_close(client);
		if (client->life < LIFE_CLOSING) {
			client_note_read(client);
			client_go_on(client);
		}
		if (client->life < LIFE_ENDED || remains)
			continue;
		client_free(client);
		connections->call->fd_freed(connections);
	}
}

static struct client *client_make(struct connections *connections, int fd, enum client_socket socket,
				  const struct entry_client *entry, struct tenant *tenant)
{
	struct client *client = malloc(sizeof(*client)); /* calloc() would not take what free() has kept */

	if (!client)
		return NULL;
	memory_taken(&connections->registry->memory, sizeof(*client));
	*client = (struct client){ .connections = connections, .fd = fd, .socket = socket };
	client->holder.registry = connections->registry;
	TAILQ_INSERT_TAIL(&connections->clients, client, all);
	client->holder.known = *entry;
	if (tenant) {
		client->holder.tenant = tenant;
		client->holder.known.tenant = tenant->number;
		tenant->connections++;
		quota_hold(&tenant->level->own[RESOURCE_CONNECTIONS]);
		connections->registry->n_holders++;
		LIST_INSERT_HEAD(&tenant->holders, &client->holder, in_tenant);
	}
	return client;
}

const char *client_comm(struct client *client)
{
	if (!*client->holder.comm)
		peer_comm(client->fd, client->holder.known.pid, client->holder.comm, sizeof(client->holder.comm));
	return client->holder.comm;
}

int client_new(struct connections *connections, int fd, enum client_socket socket, const struct peer *peer,
	       struct tenant *tenant)
{
	const struct entry_client entry = {
		.pid = peer->pid, .uid = peer->uid, .real_uid = peer->uid, .may_be_root = peer->may_be_root
	};
	struct client *client = client_make(connections, fd, socket, &entry, tenant);

	if (!client)
		return -ENOMEM;
	string_copy(client->holder.comm, sizeof(client->holder.comm), peer->comm);
	if (tenant) {
		client->holder.number = ++connections->registry->last_number;
		if (peer->has_asked && tenant->turn != TURN_DELAYED)
			scheduler_add(client);
	}
	deadline_set(client);
	client_watch(client);
	return 0;
}

int client_restore(struct connections *connections, int fd, uint64_t number, const struct entry_client *entry,
		   struct tenant *tenant)
{
	struct client *client = client_make(connections, fd, SOCKET_CLIENTS, entry, tenant);

	if (!client)
		return -ENOMEM;
	client->holder.number = number;
	client->deposited = client->may_repeat = true;
	holder_enter(&client->holder);
	if (!client->holder.known.greeted)
		deadline_set(client);
	inflight_restore(client);
	client_watch(client);
	return 0;
}

static void client_expect_nothing(struct client *client)
{
	deadline_clear(client);
	scheduler_remove(client);
	if (client->deferred)
		TAILQ_REMOVE(&client->connections->deferred, client, in_deferred);
	client->deferred = false;
}

void client_close(struct client *client)
{
	if (client->life >= LIFE_CLOSING)
		return;
	client->life = LIFE_CLOSING;
	client_expect_nothing(client);
	if (client->socket == SOCKET_CONTROL && silence_leave(client->holder.registry, client))
		silencing_begin(client->holder.registry);
	own_trace_end(&client->holder);
	TAILQ_INSERT_TAIL(&client->connections->leaving, client, leaves);
}

/*
 * Releases leases and files, about `most` of them: a file takes as long as RELEASES_OF_FILE leases. The client keeps its place among its
 * tenant's connections.
 */
static void client_release(struct client *client, unsigned most)
{
	struct holder *holder = &client->holder;
	unsigned leases = holder->leases.n;

	if (holder->known.watching)
		pages_watch(holder, false);
	leases_drop(holder, most);
	most -= MIN(most, leases);
	for (; !LIST_EMPTY(&holder->shares) && most > 0; most -= MIN(most, (unsigned)RELEASES_OF_FILE))
		share_free(LIST_FIRST(&holder->shares));
}

/* Whatever was to be done for it, or with it. */
static void client_stop(struct client *client)
{
	struct connections *connections = client->connections;
	struct client_task *task = client->task;

	client_expect_nothing(client);
	client_drop_notes(client);
	own_trace_end(&client->holder);
	if (task) {
		client->task = NULL;
		task->client = NULL;
		if (task->abandon)
			task->abandon(task);
	}
	connections->call->leave(client);
	client_drop_answer(client);
}

void client_free(struct client *client)
{
	struct connections *connections = client->connections;
	struct tenant *tenant = client->holder.tenant;

	client_stop(client);
	inflight_undo(client, client->in_flight);
	/* The keeper's copy would keep it in the epoll instance. */
	if (client->events != 0)
		loop_forget(client->fd);
	/* The connection before the streams: a peer that sees it closed may rely on the rest being released soon. */
	deposit_close(client);
	if (tenant) {
		client_release(client, UINT_MAX);
		ledger_strike(connections->registry->ledger, &client->holder.entry);
		silencing_forget_holder(&client->holder);
		LIST_REMOVE(&client->holder, in_tenant);
		tenant->connections--;
		quota_release(&tenant->level->own[RESOURCE_CONNECTIONS]);
		connections->registry->n_holders--;
		tenant_release(tenant);
	}
	TAILQ_REMOVE(&connections->clients, client, all);
	if (client->life == LIFE_CLOSING)
		TAILQ_REMOVE(&connections->leaving, client, leaves);
	memory_freed(&connections->registry->memory, sizeof(*client));
	free(client);
}

void client_defer(struct client *client)
{
	struct connections *connections = client->connections;

	if (client->deferred)
		return;
	client->deferred = true;
	TAILQ_INSERT_TAIL(&connections->deferred, client, in_deferred);
	if (!ev_is_active(&connections->w_deferred))
		ev_timer_again(connections->loop, &connections->w_deferred);
}

void clients_do_deferred(struct connections *connections)
{
	struct client *client = NULL, *last = TAILQ_LAST(&connections->deferred, client_queue);

	for (unsigned i = 0; client != last && i < DEFERRED_MAX; i++) {
		bool remains;

		client = TAILQ_FIRST(&connections->deferred);
		TAILQ_REMOVE(&connections->deferred, client, in_deferred);
		client->deferred = false;
		if (client->later) {
			client_on_writable(client);
			client_watch(client);
		}
		if (client->life == LIFE_CLOSING)
			continue;
		remains = inflight_remains(client);
		client_note_read(client);
		if (remains)
			inflight_await(client);
		else
			client_watch(client);
		if (!deposit_connection(client))
			client_defer(client);
	}
}

static void on_deferred(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct connections *connections = container_of(w, struct connections, w_deferred);

	clients_do_deferred(connections);
	if (TAILQ_EMPTY(&connections->deferred))
		ev_timer_stop(loop, w);
}

void clients_sweep(struct connections *connections)
{
	unsigned left = RELEASES_MAX;
	struct client *client;

	if (TAILQ_EMPTY(&connections->leaving))
		return;
	while (left > 0 && (client = TAILQ_FIRST(&connections->leaving))) {
		unsigned n = client->holder.leases.n + RELEASES_OF_FILE * shares_count(&client->holder, false) +
			     RELEASES_OF_CLIENT;

		if (n > left) {
			/* The connection ends first; the rest is released in later turns. */
			client_stop(client);
			shutdown(client->fd, SHUT_RDWR);
			client_release(client, left);
		} else if (inflight_remains(client) && inflight_await(client) && connection_empty(client->fd)) {
			/* The peer has fds in its queue. The keeper keeps its copy of the connection, for the next daemon. */
			client_stop(client);
			client_release(client, UINT_MAX);
			holder_enter(&client->holder);
			deposit_connection(client);
			client->life = LIFE_ENDED;
			TAILQ_REMOVE(&connections->leaving, client, leaves);
		} else {
			client_free(client);
		}
		left -= MIN(n, left);
	}
	connections->call->fd_freed(connections);
}

void client_greet(struct client *client)
{
	client->holder.known.greeted = true;
	holder_enter(&client->holder);
	client_defer(client);
	if (!client->waiting)
		deadline_clear(client);
}

void task_begin(struct client_task *task, struct client *client)
{
	task->client = client;
	client->task = task;
}

struct client *task_end(struct client_task *task)
{
	struct client *client = task->client;

	task->client = NULL;
	if (client)
		client->task = NULL;
	return client;
}

void clients_init(struct connections *connections)
{
	TAILQ_INIT(&connections->clients);
	TAILQ_INIT(&connections->runnable);
	TAILQ_INIT(&connections->leaving);
	TAILQ_INIT(&connections->deferred);
	TAILQ_INIT(&connections->flushing);
	ev_timer_init(&connections->w_deferred, on_deferred, 0., DEFER_INTERVAL);
	ev_idle_init(&connections->w_busy, on_busy);
	deadlines_init(connections);
}
