/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A client is never read while its last answer waits for the kernel, or for room in its socket. So a connection holds the
 * memory of one answer, however much it asks for; when these add up for one tenant, none of its clients is read. An answer
 * that is not read has a timeout, as has a new connection without a request.
 *
 * Nor is a client read while data files that it was sent lie unread in its socket: they count against the fds that this
 * daemon may send (inflight.c). The status page does not count here: it is sent once for a connection, and programs send the
 * next request before they read it. A connection that ends with unread fds counts as one of its tenant's connections until
 * the peer has read all, or closed its end.
 *
 * A request stays in the client's socket until its answer is sent. If this process ends before that, the next daemon finds
 * the request there and handles it again; if it ends in between, the client gets the answer twice.
 */

#include "daemon/connection/client.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "daemon/connection/deadlines.h"
#include "daemon/connection/deposit.h"
#include "daemon/connection/inflight.h"
#include "daemon/connection/scheduler.h"
#include "daemon/identity/peer.h"
#include "daemon/ledger/entries.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/registry/bundle.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/share.h"
#include "daemon/registry/tenant.h"
#include "kernel/disposal.h"
#include "protocol/transport.h"

static bool wants_to_read(const struct client *client)
{
	return client->life == LIFE_OPEN && !client->waiting && !client->task && client->stall == STALL_NONE;
}

/* Which way the fd is watched follows from the client's state, and from nothing else. */
void client_watch(struct client *client)
{
	int events = (wants_to_read(client) ? EV_READ : 0) | (client->waiting && !client->later ? EV_WRITE : 0);

	if (client->life >= LIFE_CLOSING)
		return;
	/* While it is in a queue its fd is not looked at: with thousands of them, nothing else would be done. */
	if ((client->stall == STALL_TURN || client->stall == STALL_RATE) && !client->waiting) {
		ev_io_stop(client->connections->loop, &client->w_io);
		return;
	}
	if (events == client->w_io.events)
		return;
	ev_io_stop(client->connections->loop, &client->w_io);
	ev_io_set(&client->w_io, client->fd, events);
	if (events)
		ev_io_start(client->connections->loop, &client->w_io);
}

/* An empty packet has a sender, the end of the connection has none. */
static bool packet_is_end(ssize_t size, const struct transport_from *from)
{
	return size == 0 && !from->known;
}

/*
 * A shutdown, since the keeper's copy would keep the connection open after a close. And the unread requests are read:
 * otherwise the peer would get ECONNRESET before our last packet.
 */
void connection_end(struct connections *connections, int fd)
{
	struct transport_from from;
	ssize_t size;

	shutdown(fd, SHUT_RDWR);
	/* Up to a packet with fds. A peer that has sent more than UNREAD_MAX packets does not read answers anyway. */
	for (unsigned i = 0; i < UNREAD_MAX; i++) {
		size = transport_receive(fd, connections->request, sizeof(connections->request), &from);
		if (size >= 0 ? packet_is_end(size, &from) : size != -EMSGSIZE)
			break;
	}
}

static void client_hang_up(struct client *client)
{
	connection_end(client->connections, client->fd);
	client_close(client);
}

/* The answer has left. */
static void client_end_request(struct client *client)
{
	if (!client->asks)
		return;
	client->asks = false;
	client->repeats = false;
	shares_enter(&client->holder);
	/* A request that stays there would be answered again and again. */
	if (transport_drop(client->fd) < 0)
		client_close(client);
}

static void client_drop_answer(struct client *client)
{
	struct answer_waiting *waiting = steal_pointer(client->waiting);

	if (!waiting)
		return;
	if (client->holder.tenant)
		client->holder.tenant->waiting -= waiting->size;
	fdset_deinit(&waiting->fds);
	free(waiting);
}

static int client_send_now(struct client *client, const void *packet, size_t size, const int *fds, size_t n)
{
	int r = inflight_add(client, n);
	struct wire_header header;

	if (r < 0)
		return r;
	r = transport_send(client->fd, packet, size, fds, n, MSG_DONTWAIT);
	if (r < 0) {
		inflight_undo(client, n);
		return r;
	}
	/* Only data files have to be read before the next request is: not a status page. */
	memcpy(&header, packet, sizeof(header));
	client->files_unread |= header.streams > 0;
	return r;
}

/* The socket is full, or too many fds of all programs of this daemon's user are in flight. */
static bool send_may_be_retried(int error)
{
	return error == -EAGAIN || error == -ETOOMANYREFS;
}

/* There is room in the socket all the time, so that only a timer helps. */
static void client_send_later(struct client *client)
{
	struct connections *connections = client->connections;

	if (!client->later)
		TAILQ_INSERT_TAIL(&connections->later, client, again_later);
	client->later = true;
	if (!ev_is_active(&connections->w_later))
		ev_timer_again(connections->loop, &connections->w_later);
}

static void client_send_no_later(struct client *client)
{
	if (client->later)
		TAILQ_REMOVE(&client->connections->later, client, again_later);
	client->later = false;
}

static void client_on_writable(struct client *client)
{
	struct answer_waiting *waiting = client->waiting;
	int r;

	if (waiting) {
		r = client_send_now(client, waiting->packet, waiting->size, waiting->fds.fd, waiting->fds.count);
		if (r == -ETOOMANYREFS)
			client_send_later(client);
		else
			client_send_no_later(client);
		if (send_may_be_retried(r))
			return;
		if (r < 0) {
			client_close(client);
			return;
		}
		if (waiting->is_answer)
			client_end_request(client);
		client_drop_answer(client);
		if (client->holder.greeted)
			deadline_clear(client);
	}
	if (client->life == LIFE_REFUSED)
		client_hang_up(client);
	else
		client->connections->call->go_on(client);
}

/* The first one for which there is no room speaks for all: the kernel counts the fds of this daemon's user. */
static void on_later(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct connections *connections = container_of(w, struct connections, w_later);
	struct client *client;

	for (unsigned i = 0; i < LATER_MAX && (client = TAILQ_FIRST(&connections->later)); i++) {
		client_on_writable(client);
		client_watch(client);
		if (client->later)
			break;
	}
	if (TAILQ_EMPTY(&connections->later))
		ev_timer_stop(loop, w);
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
		return;
	}
	size = (tenant ? transport_peek : transport_receive)(client->fd, connections->request,
							     sizeof(connections->request), &from);
	if (size == -EAGAIN)
		return;
	if (size == -EPROTO)
		client_disconnect(client, 0, REFUSAL_UNEXPECTED_FDS, "no request takes file descriptors");
	else if (size == -EMSGSIZE)
		client_disconnect(client, 0, REFUSAL_BAD_PACKET, "a packet is at most %d bytes", WIRE_PACKET_MAX);
	else if (size < 0 || packet_is_end(size, &from))
		client_close(client);
	if (client->life != LIFE_OPEN)
		return;
	if (tenant && !client->asks_again)
		scheduler_charge(tenant);
	client->asks_again = false;
	client->asks = tenant;
	connections->call->dispatch(client, connections->request, (size_t)size, &from);
	/* The request has no answer. */
	if (!client->task && !client->waiting && client->life < LIFE_CLOSING)
		client_end_request(client);
}

void client_take_request(struct client *client)
{
	client_read_request(client);
	client_watch(client);
	/* While it was in a queue it was not. */
	if (client->life < LIFE_CLOSING && client->w_io.events & (EV_READ | EV_WRITE))
		ev_io_start(client->connections->loop, &client->w_io);
}

/* For a while: the clients that are not reached keep their places. */
void clients_take_requests(struct connections *connections)
{
	double end = clock_now() + TURN_TIME;
	struct client *client;

	do {
		client = scheduler_next(connections);
		if (client)
			client_take_request(client);
	} while (client && clock_now() < end);
	/* Without the idle watcher nothing would wake the loop: the fds of queued clients are not watched. */
	if (TAILQ_EMPTY(&connections->runnable))
		ev_idle_stop(connections->loop, &connections->w_busy);
	else
		ev_idle_start(connections->loop, &connections->w_busy);
}

static void on_busy(struct ev_loop *loop _unused_, ev_idle *w _unused_, int events _unused_)
{
}

static void on_io(struct ev_loop *loop _unused_, ev_io *w, int events)
{
	struct client *client = container_of(w, struct client, w_io);

	/* EV_ERROR: epoll has no room for its fd (max_user_watches). */
	if (events & EV_ERROR) {
		client_disconnect(client, 0, REFUSAL_TROUBLE,
				  "the daemon can't wait for more connections; try again later");
		return;
	}
	if (events & EV_WRITE) {
		client_on_writable(client);
		client_watch(client);
	}
	/* Admins need not queue. */
	if (events & EV_READ && client->holder.tenant) {
		scheduler_add(client);
		client_watch(client);
	} else if (events & EV_READ)
		client_take_request(client);
}

static struct client *client_make(struct connections *connections, int fd, enum client_socket socket,
				  struct tenant *tenant)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->connections = connections;
	client->holder.registry = connections->registry;
	LIST_INIT(&client->holder.shares);
	client->fd = fd;
	client->socket = socket;
	ev_io_init(&client->w_io, on_io, fd, EV_READ);
	ev_io_start(connections->loop, &client->w_io);
	TAILQ_INSERT_TAIL(&connections->clients, client, all);
	if (tenant) {
		client->holder.tenant = tenant;
		tenant->connections++;
		level_connect(tenant->level);
		connections->registry->n_holders++;
		LIST_INSERT_HEAD(&tenant->holders, &client->holder, in_tenant);
	}
	return client;
}

int client_new(struct connections *connections, int fd, enum client_socket socket, const struct peer *peer,
	       struct tenant *tenant)
{
	struct client *client = client_make(connections, fd, socket, tenant);

	if (!client)
		return -ENOMEM;
	client->holder.pid = peer->pid;
	client->holder.uid = peer->uid;
	client->holder.real_uid = peer->uid;
	client->holder.may_be_root = peer->may_be_root;
	string_copy(client->holder.comm, sizeof(client->holder.comm), peer->comm);
	if (tenant) {
		client->holder.number = ++connections->registry->last_number;
		client->holder.lease_number = ++connections->registry->last_number;
		holder_enter(&client->holder);
		deposit_connection(client);
	}
	deadline_set(client);
	return 0;
}

int client_restore(struct connections *connections, int fd, uint64_t number, const struct entry_client *entry,
		   struct tenant *tenant)
{
	struct client *client = client_make(connections, fd, SOCKET_CLIENTS, tenant);

	if (!client)
		return -ENOMEM;
	client->holder.number = number;
	client->holder.lease_number = entry->holder;
	client->holder.pid = entry->pid;
	client->holder.uid = entry->uid;
	client->holder.real_uid = entry->real_uid;
	client->holder.may_be_root = entry->may_be_root;
	string_copy(client->holder.comm, sizeof(client->holder.comm), entry->comm);
	client->holder.greeted = entry->greeted;
	client->repeats = entry->greeted;
	holder_enter(&client->holder);
	if (!client->holder.greeted)
		deadline_set(client);
	if (inflight_restore(client) < 0)
		client_close(client);
	return 0;
}

void client_close(struct client *client)
{
	if (client->life >= LIFE_CLOSING)
		return;
	client->life = LIFE_CLOSING;
	ev_io_stop(client->connections->loop, &client->w_io);
	deadline_clear(client);
	scheduler_remove(client);
	client_send_no_later(client);
	TAILQ_INSERT_TAIL(&client->connections->leaving, client, leaves);
}

/* All that it holds, but its place among its tenant's connections. */
static void client_release_all(struct client *client)
{
	struct lease *lease, *next;

	HASH_ITER(by_bit, client->holder.leases, lease, next)
		lease_drop(lease);
	bundle_leave(&client->holder);
	while (!LIST_EMPTY(&client->holder.shares))
		share_free(LIST_FIRST(&client->holder.shares));
	if (client->holder.watching)
		pages_watch(&client->holder, false);
}

/* Whatever was to be done for it, or with it. */
static void client_stop(struct client *client)
{
	struct connections *connections = client->connections;
	struct client_task *task = client->task;

	ev_io_stop(connections->loop, &client->w_io);
	deadline_clear(client);
	scheduler_remove(client);
	client_send_no_later(client);
	if (client->n_changed > 0)
		TAILQ_REMOVE(&connections->flushing, client, changes);
	client->n_changed = 0;
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
	inflight_forget(client);
	/* The connection before the streams: a peer that sees it closed may rely on the rest being released soon. */
	deposit_close(client);
	if (tenant) {
		client_release_all(client);
		holder_strike(&client->holder);
		LIST_REMOVE(&client->holder, in_tenant);
		tenant->connections--;
		level_disconnect(tenant->level);
		connections->registry->n_holders--;
		tenant_release(tenant);
	}
	TAILQ_REMOVE(&connections->clients, client, all);
	if (client->life == LIFE_CLOSING)
		TAILQ_REMOVE(&connections->leaving, client, leaves);
	free(client);
}

/* The connection has ended, but the peer has fds in its queue. The keeper keeps its copy, for the next daemon. */
static void client_end(struct client *client)
{
	client_stop(client);
	shutdown(client->fd, SHUT_RDWR);
	client_release_all(client);
	holder_enter(&client->holder);
	client->life = LIFE_ENDED;
	TAILQ_REMOVE(&client->connections->leaving, client, leaves);
}

void client_has_read(struct client *client)
{
	struct connections *connections = client->connections;

	if (client->life < LIFE_ENDED) {
		client_watch(client);
		return;
	}
	client_free(client);
	connections->call->fd_freed(connections);
}

void clients_sweep(struct connections *connections)
{
	if (TAILQ_EMPTY(&connections->leaving))
		return;
	while (!TAILQ_EMPTY(&connections->leaving)) {
		struct client *client = TAILQ_FIRST(&connections->leaving);

		if (inflight_remains(client))
			client_end(client);
		else
			client_free(client);
	}
	connections->call->fd_freed(connections);
}

struct packet *client_answer(struct client *client, uint16_t kind, uint32_t serial, uint8_t flags)
{
	struct connections *connections = client->connections;

	connections->answer = packet_make(connections->answer_buffer, sizeof(connections->answer_buffer));
	encode_begin(&connections->answer, kind, serial, flags, NULL, 0);
	return &connections->answer;
}

/* Keeps the packet and copies of its fds until there is room. */
static int client_keep_answer(struct client *client, const struct packet *packet, const int *fds, size_t n,
			      bool is_answer)
{
	struct answer_waiting *waiting = malloc(sizeof(*waiting) + packet->size);

	if (!waiting)
		return -ENOMEM;
	waiting->is_answer = is_answer;
	waiting->size = packet->size;
	waiting->fds = (struct fdset){ 0 };
	memcpy(waiting->packet, packet->data, packet->size);
	for (size_t i = 0; i < n; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

		if (copy < 0) {
			fdset_deinit(&waiting->fds);
			free(waiting);
			return -errno;
		}
		fdset_take(&waiting->fds, copy);
	}
	client->waiting = waiting;
	if (client->holder.tenant)
		client->holder.tenant->waiting += waiting->size;
	deadline_set(client);
	client_watch(client);
	return 0;
}

static void client_send_packet(struct client *client, const int *fds, size_t n, bool is_answer)
{
	struct packet *packet = &client->connections->answer;
	int r;

	/* One whose last packet waits, or was sent, gets nothing more. */
	if (client->life >= LIFE_CLOSING || client->waiting)
		return;
	encode_end(packet);
	/* Our own limits are such that every answer fits. */
	r = packet->failed ? -EMSGSIZE : client_send_now(client, packet->data, packet->size, fds, n);
	if (r == 0 && is_answer)
		client_end_request(client);
	if (r == -ETOOMANYREFS)
		client_send_later(client);
	if (send_may_be_retried(r))
		r = client_keep_answer(client, packet, fds, n, is_answer);
	if (r < 0) {
		if (r != -EPIPE && r != -ECONNRESET)
			log_line(LOG_OF_CLIENTS, LOG_WARNING,
				 "answer to %s (pid %d) lost: %s; its connection is closed", client->holder.comm,
				 client->holder.pid, strerror(-r));
		client_close(client);
	}
}

void client_send(struct client *client, const int *fds, size_t n)
{
	client_send_packet(client, fds, n, true);
}

void client_disconnect(struct client *client, uint32_t serial, uint32_t refusal, const char *format, ...)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	va_list arguments;

	if (client->life != LIFE_OPEN)
		return;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	refusal_note(client->connections->registry, client->holder.tenant, NULL, refusal, sentence);
	client_disconnect_counted(client, serial, refusal, sentence);
}

void client_disconnect_counted(struct client *client, uint32_t serial, uint32_t refusal, const char *sentence)
{
	if (client->life != LIFE_OPEN)
		return;
	client->life = LIFE_REFUSED;
	encode_error(client_answer(client, KIND_ERROR, serial, 0), refusal, sentence);
	/* A waiting answer is the last packet that fits: then the connection ends without an ERROR packet. */
	if (client->waiting)
		client_close(client);
	else
		client_send(client, NULL, 0);
	if (!client->waiting)
		client_hang_up(client);
}

static void note_changes(struct client *client, uint16_t n)
{
	if (client->n_changed == 0)
		TAILQ_INSERT_TAIL(&client->connections->flushing, client, changes);
	client->n_changed = n;
}

void client_note_change(struct client *client, uint32_t bit)
{
	if (client->n_changed < CHANGED_MAX)
		client->changed[client->n_changed] = (uint16_t)bit;
	note_changes(client, MIN(client->n_changed + 1, CHANGED_MAX + 1));
}

void client_note_all(struct client *client)
{
	note_changes(client, CHANGED_MAX + 1);
}

static void flush_changes(struct client *client)
{
	struct packet *packet = client_answer(client, KIND_CHANGED, 0, 0);
	size_t mark = encode_changed(packet, client->holder.registry->kernel->facts.payload_max);
	uint16_t count = client->n_changed > CHANGED_MAX ? 0 : client->n_changed;

	for (size_t i = 0; i < count; i++)
		encode_changed_bit(packet, client->changed[i]);
	encode_count(packet, mark, count);
	client_send_packet(client, NULL, 0, false);
}

void clients_flush_changes(struct connections *connections)
{
	struct client *client, *next;

	for (client = TAILQ_FIRST(&connections->flushing); client; client = next) {
		next = TAILQ_NEXT(client, changes);
		/* Nor while the kernel is asked: the answer to that may be the one that finds no room. */
		if (client->waiting || client->task)
			continue;
		TAILQ_REMOVE(&connections->flushing, client, changes);
		if (client->life == LIFE_OPEN)
			flush_changes(client);
		client->n_changed = 0;
	}
}

void client_greet(struct client *client)
{
	client->holder.greeted = true;
	holder_enter(&client->holder);
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
	if (client) {
		client->task = NULL;
		client_watch(client);
	}
	return client;
}

void task_put_off(struct client_task *task, void (*resume)(struct client_task *), void (*abandon)(struct client_task *))
{
	task->resume = resume;
	task->abandon = abandon;
	scheduler_add(task->client);
}

void clients_init(struct connections *connections)
{
	TAILQ_INIT(&connections->clients);
	TAILQ_INIT(&connections->flushing);
	TAILQ_INIT(&connections->leaving);
	TAILQ_INIT(&connections->later);
	ev_timer_init(&connections->w_later, on_later, 0., LATER_INTERVAL);
	ev_idle_init(&connections->w_busy, on_busy);
}

void clients_deinit(struct connections *connections)
{
	ev_timer_stop(connections->loop, &connections->w_later);
	ev_idle_stop(connections->loop, &connections->w_busy);
}
