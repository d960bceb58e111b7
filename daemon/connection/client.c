/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A client is never read while an answer of its waits for room in its socket, or for the kernel. So what one connection can
 * hold is one answer, however much it asks for; when those of one tenant add up, none of its clients is read; and since one
 * who never reads its answers would keep that one for ever, it has a deadline, as has one who connects and says nothing.
 *
 * Nor is a client read while files that it was sent lie unread in its own queue: they count against all that this daemon may
 * send (inflight.c). The page does not: it comes once for a connection, and programs ask on before they look. A connection that
 * ends with fds unread keeps its place among its tenant's connections until the peer has read all, or closed its end.
 *
 * What a tenant's client asks stays in its socket until the answer has left. So if this process ends before that, the next one
 * finds it there and does it again, and if it ends in between, the answer comes twice: that is all a client notices.
 */

#include "daemon/connection/client.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "daemon/admin/listing.h"
#include "daemon/connection/backlog.h"
#include "daemon/connection/inflight.h"
#include "daemon/connection/throttle.h"
#include "daemon/daemon.h"
#include "daemon/dispatch.h"
#include "daemon/identity/peer.h"
#include "daemon/ledger/deposit.h"
#include "daemon/ledger/entries.h"
#include "daemon/process/log.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "daemon/requests/bundle.h"
#include "daemon/requests/register.h"
#include "kernel/disposal.h"
#include "protocol/transport.h"

static void set_deadline(struct client *client)
{
	struct daemon *daemon = client->daemon;

	if (client->impatient || client->socket == SOCKET_CONTROL)
		return;
	client->impatient = true;
	client->since = daemon_now();
	TAILQ_INSERT_TAIL(&daemon->impatient, client, deadline);
	daemon_watch_deadlines(daemon);
}

static void clear_deadline(struct client *client)
{
	if (!client->impatient)
		return;
	client->impatient = false;
	TAILQ_REMOVE(&client->daemon->impatient, client, deadline);
	daemon_watch_deadlines(client->daemon);
}

static bool wants_to_read(const struct client *client)
{
	return !client->cut && !client->waiting && !client->errand && !client->throttled && !client->held &&
	       !client->stalled;
}

/* Which way the fd is watched follows from the client's state, and from nothing else. */
void client_watch(struct client *client)
{
	int events = (wants_to_read(client) ? EV_READ : 0) | (client->waiting && !client->later ? EV_WRITE : 0);

	if (client->closing || events == client->w_io.events)
		return;
	ev_io_stop(client->daemon->loop, &client->w_io);
	ev_io_set(&client->w_io, client->fd, events);
	if (events)
		ev_io_start(client->daemon->loop, &client->w_io);
}

/* An empty packet says who sent it, the end does not. */
static bool has_ended(ssize_t size, const struct transport_from *from)
{
	return size == 0 && !from->known;
}

/*
 * A shutdown, since a copy of the connection that is kept elsewhere would keep a merely closed one open. And what it still
 * had to say is read, since the kernel tells who is hung up on with something unread ECONNRESET before our last words.
 */
void connection_end(struct daemon *daemon, int fd)
{
	struct transport_from from;
	ssize_t size;

	shutdown(fd, SHUT_RDWR);
	/* Up to what has fds attached, which nobody takes. Who has sent more than this does not listen anyway. */
	for (unsigned i = 0; i < UNREAD_MAX; i++) {
		size = transport_receive(fd, daemon->request, sizeof(daemon->request), &from);
		if (size >= 0 ? has_ended(size, &from) : size != -EMSGSIZE)
			break;
	}
}

static void hang_up(struct client *client)
{
	connection_end(client->daemon, client->fd);
	client_close(client);
}

/* The answer has left. */
static void end_request(struct client *client)
{
	if (!client->asks)
		return;
	client->asks = false;
	client->repeats = false;
	shares_enter(client);
	/* What stays there would be answered for ever. */
	if (transport_drop(client->fd) < 0)
		client_close(client);
}

static void drop_waiting(struct client *client)
{
	struct answer_waiting *waiting = steal_pointer(client->waiting);

	if (!waiting)
		return;
	if (client->tenant)
		client->tenant->waiting -= waiting->size;
	fdset_deinit(&waiting->fds);
	free(waiting);
}

/* A page is in no need of being read before the next request; so only streams are files here. */
static bool brings_files(const void *packet)
{
	struct wire_header header;

	memcpy(&header, packet, sizeof(header));
	return header.streams > 0;
}

static int send_now(struct client *client, const void *packet, size_t size, const int *fds, size_t n)
{
	int r = inflight_add(client, n);

	if (r < 0)
		return r;
	r = transport_send(client->fd, packet, size, fds, n, MSG_DONTWAIT);
	if (r < 0)
		inflight_undo(client, n);
	else
		client->files_unread |= brings_files(packet);
	return r;
}

/* The socket is full, or too many fds of all programs of this daemon's user are in flight. */
static bool is_passing(int error)
{
	return error == -EAGAIN || error == -ETOOMANYREFS;
}

/* There is room in the socket all the time, so that only a timer helps. */
static void try_later(struct client *client)
{
	struct daemon *daemon = client->daemon;

	if (!client->later)
		TAILQ_INSERT_TAIL(&daemon->later, client, again_later);
	client->later = true;
	if (!ev_is_active(&daemon->w_later))
		ev_timer_again(daemon->loop, &daemon->w_later);
}

static void no_more_later(struct client *client)
{
	if (client->later)
		TAILQ_REMOVE(&client->daemon->later, client, again_later);
	client->later = false;
}

static void on_writable(struct client *client)
{
	struct answer_waiting *waiting = client->waiting;
	int r;

	if (waiting) {
		r = send_now(client, waiting->packet, waiting->size, waiting->fds.fd, waiting->fds.count);
		if (r == -ETOOMANYREFS)
			try_later(client);
		else
			no_more_later(client);
		if (is_passing(r))
			return;
		if (r < 0) {
			client_close(client);
			return;
		}
		if (waiting->is_answer)
			end_request(client);
		drop_waiting(client);
		if (client->greeted)
			clear_deadline(client);
	}
	if (client->cut)
		hang_up(client);
	else
		listing_continue(client);
}

/* The first one for which there is no room speaks for all: the kernel counts the fds of this daemon's user. */
static void on_later(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct daemon *daemon = container_of(w, struct daemon, w_later);
	struct client *client;

	for (unsigned i = 0; i < LATER_MAX && (client = TAILQ_FIRST(&daemon->later)); i++) {
		on_writable(client);
		client_watch(client);
		if (client->later)
			break;
	}
	if (TAILQ_EMPTY(&daemon->later))
		ev_timer_stop(loop, w);
}

void clients_init(struct daemon *daemon)
{
	TAILQ_INIT(&daemon->clients);
	TAILQ_INIT(&daemon->impatient);
	TAILQ_INIT(&daemon->flushing);
	TAILQ_INIT(&daemon->leaving);
	TAILQ_INIT(&daemon->later);
	ev_timer_init(&daemon->w_later, on_later, 0., LATER_INTERVAL);
}

static void take_packet(struct client *client, size_t size, const struct transport_from *from)
{
	if (client->tenant && !client->asks_again)
		throttle_count(client);
	client->asks_again = false;
	client->asks = client->tenant;
	dispatch(client, client->daemon->request, size, from);
	/* It wants no answer. */
	if (!client->errand && !client->waiting && !client->closing)
		end_request(client);
}

static ssize_t read_request(struct client *client, struct transport_from *from)
{
	struct daemon *daemon = client->daemon;

	return (client->tenant ? transport_peek : transport_receive)(client->fd, daemon->request,
								     sizeof(daemon->request), from);
}

static void take_request(struct client *client)
{
	struct transport_from from;
	ssize_t size;

	if (client->closing || (!client->deciding && !wants_to_read(client)))
		return;
	if (backlog_holds(client))
		return;
	if (client->tenant)
		rules_update(client->tenant);
	if (client->deciding) {
		register_continue(client);
		client_watch(client);
		return;
	}
	if (client->files_unread && inflight_remains(client)) {
		client->stalled = true;
		client_watch(client);
		return;
	}
	if (client->tenant && !throttle_passes(client))
		return;
	size = read_request(client, &from);
	if (size == -EAGAIN)
		return;
	if (size == -EPROTO)
		client_cut(client, 0, REFUSAL_UNEXPECTED_FDS, "no request takes file descriptors");
	else if (size == -EMSGSIZE)
		client_cut(client, 0, REFUSAL_BAD_PACKET, "a packet is at most %d bytes", WIRE_PACKET_MAX);
	else if (size < 0 || has_ended(size, &from))
		client_close(client);
	else
		take_packet(client, (size_t)size, &from);
	client_watch(client);
}

void client_take_request(struct client *client)
{
	take_request(client);
	/* While it was in the queue it was not. */
	if (!client->closing && client->w_io.events & (EV_READ | EV_WRITE))
		ev_io_start(client->daemon->loop, &client->w_io);
}

static void on_io(struct ev_loop *loop, ev_io *w, int events)
{
	struct client *client = container_of(w, struct client, w_io);

	/* The kernel has no room for it among what is waited for. */
	if (events & EV_ERROR) {
		client_cut(client, 0, REFUSAL_TROUBLE, "the daemon can't wait for more connections; try again later");
		return;
	}
	if (events & EV_WRITE) {
		on_writable(client);
		client_watch(client);
	}
	/* Admins need not queue. Who does is not looked at meanwhile: with thousands of them, nothing else would be done. */
	if (events & EV_READ && client->tenant) {
		turns_add(&client->daemon->turns, client);
		ev_io_stop(loop, w);
	} else if (events & EV_READ)
		client_take_request(client);
}

static struct client *client_make(struct daemon *daemon, int fd, enum client_socket socket, struct tenant *tenant)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->daemon = daemon;
	LIST_INIT(&client->shares);
	client->fd = fd;
	client->socket = socket;
	ev_io_init(&client->w_io, on_io, fd, EV_READ);
	ev_io_start(daemon->loop, &client->w_io);
	TAILQ_INSERT_TAIL(&daemon->clients, client, all);
	if (tenant) {
		client->tenant = tenant;
		tenant->connections++;
		level_connect(tenant->level);
		daemon->connections++;
		LIST_INSERT_HEAD(&tenant->clients, client, in_tenant);
	}
	return client;
}

int client_new(struct daemon *daemon, int fd, enum client_socket socket, const struct peer *peer, struct tenant *tenant)
{
	struct client *client = client_make(daemon, fd, socket, tenant);

	if (!client)
		return -ENOMEM;
	client->pid = peer->pid;
	client->uid = peer->uid;
	client->real_uid = peer->uid;
	client->may_be_root = peer->may_be_root;
	string_copy(client->comm, sizeof(client->comm), peer->comm);
	if (tenant) {
		client->number = ++daemon->last_number;
		client->holder = ++daemon->last_number;
		enter_client(client);
		deposit_connection(client);
	}
	set_deadline(client);
	return 0;
}

int client_restore(struct daemon *daemon, int fd, uint64_t number, const struct entry_client *entry,
		   struct tenant *tenant)
{
	struct client *client = client_make(daemon, fd, SOCKET_CLIENTS, tenant);

	if (!client)
		return -ENOMEM;
	client->number = number;
	client->holder = entry->holder;
	client->pid = entry->pid;
	client->uid = entry->uid;
	client->real_uid = entry->real_uid;
	client->may_be_root = entry->may_be_root;
	string_copy(client->comm, sizeof(client->comm), entry->comm);
	client->greeted = entry->greeted;
	client->repeats = entry->greeted;
	enter_client(client);
	if (!client->greeted)
		set_deadline(client);
	if (inflight_restore(client) < 0)
		client_close(client);
	return 0;
}

void client_close(struct client *client)
{
	if (client->closing)
		return;
	client->closing = true;
	ev_io_stop(client->daemon->loop, &client->w_io);
	clear_deadline(client);
	turns_remove(&client->daemon->turns, client);
	throttle_remove(client);
	backlog_remove(client);
	no_more_later(client);
	TAILQ_INSERT_TAIL(&client->daemon->leaving, client, leaves);
}

/* All that it holds, but its place among its tenant's connections. */
static void give_up_all(struct client *client)
{
	struct lease *lease, *next;

	HASH_ITER(by_bit, client->leases, lease, next)
		lease_drop(lease);
	bundle_leave(client);
	while (!LIST_EMPTY(&client->shares))
		share_free(LIST_FIRST(&client->shares));
	if (client->watching)
		pages_watch(client, false);
}

static void leave_tenant(struct client *client)
{
	struct tenant *tenant = client->tenant;

	strike_client(client);
	LIST_REMOVE(client, in_tenant);
	tenant->connections--;
	level_disconnect(tenant->level);
	client->daemon->connections--;
	tenant_release(tenant);
}

/* Whatever was to be done for it, or with it. */
static void stop_all(struct client *client)
{
	struct daemon *daemon = client->daemon;

	ev_io_stop(daemon->loop, &client->w_io);
	clear_deadline(client);
	turns_remove(&daemon->turns, client);
	throttle_remove(client);
	backlog_remove(client);
	no_more_later(client);
	if (client->flushing)
		TAILQ_REMOVE(&daemon->flushing, client, changes);
	client->flushing = false;
	if (client->errand)
		steal_pointer(client->errand)->client = NULL;
	if (client->deciding)
		register_abandon(client);
	listing_free(client);
	drop_waiting(client);
}

void client_free(struct client *client)
{
	struct daemon *daemon = client->daemon;

	stop_all(client);
	inflight_forget(client);
	/* The connection before the stream: whoever sees it closed may have closed the rest, too. */
	deposit_close(client);
	if (client->tenant) {
		give_up_all(client);
		leave_tenant(client);
	}
	TAILQ_REMOVE(&daemon->clients, client, all);
	if (client->closing && !client->ended)
		TAILQ_REMOVE(&daemon->leaving, client, leaves);
	free(client);
}

/* The connection has ended, but the peer has fds in its queue. The keeper keeps its copy, for the next daemon. */
static void end(struct client *client)
{
	stop_all(client);
	shutdown(client->fd, SHUT_RDWR);
	give_up_all(client);
	enter_client(client);
	client->ended = true;
	TAILQ_REMOVE(&client->daemon->leaving, client, leaves);
}

void client_has_read(struct client *client)
{
	struct daemon *daemon = client->daemon;

	if (!client->ended) {
		client_watch(client);
		return;
	}
	client_free(client);
	daemon_fd_freed(daemon);
}

void clients_sweep(struct daemon *daemon)
{
	if (TAILQ_EMPTY(&daemon->leaving))
		return;
	while (!TAILQ_EMPTY(&daemon->leaving)) {
		struct client *client = TAILQ_FIRST(&daemon->leaving);

		if (inflight_remains(client))
			end(client);
		else
			client_free(client);
	}
	daemon_fd_freed(daemon);
}

struct packet *client_answer(struct client *client, uint16_t kind, uint32_t serial, uint8_t flags)
{
	struct daemon *daemon = client->daemon;

	daemon->answer = packet_make(daemon->answer_buffer, sizeof(daemon->answer_buffer));
	encode_begin(&daemon->answer, kind, serial, flags, NULL, 0);
	return &daemon->answer;
}

/* Keeps the packet and copies of its fds until there is room. */
static int keep_waiting(struct client *client, const struct packet *packet, const int *fds, size_t n, bool is_answer)
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
	if (client->tenant)
		client->tenant->waiting += waiting->size;
	set_deadline(client);
	client_watch(client);
	return 0;
}

static void send_packet(struct client *client, const int *fds, size_t n, bool is_answer)
{
	struct packet *packet = &client->daemon->answer;
	int r;

	/* One whose last packet waits, or was sent, gets nothing more. */
	if (client->closing || client->waiting)
		return;
	encode_end(packet);
	/* Our own limits are such that every answer fits. */
	r = packet->failed ? -EMSGSIZE : send_now(client, packet->data, packet->size, fds, n);
	if (r == 0 && is_answer)
		end_request(client);
	if (r == -ETOOMANYREFS)
		try_later(client);
	if (is_passing(r))
		r = keep_waiting(client, packet, fds, n, is_answer);
	if (r < 0) {
		if (r != -EPIPE && r != -ECONNRESET)
			log_line(LOG_OF_CLIENTS, LOG_WARNING,
				 "answer to %s (pid %d) lost: %s; its connection is closed", client->comm, client->pid,
				 strerror(-r));
		client_close(client);
	}
}

void client_send(struct client *client, const int *fds, size_t n)
{
	send_packet(client, fds, n, true);
}

void client_cut(struct client *client, uint32_t serial, uint32_t refusal, const char *format, ...)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	va_list arguments;

	if (client->closing || client->cut)
		return;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	daemon_refused(client->daemon, client->tenant, NULL, refusal, sentence);
	client_cut_counted(client, serial, refusal, sentence);
}

void client_cut_counted(struct client *client, uint32_t serial, uint32_t refusal, const char *sentence)
{
	if (client->closing || client->cut)
		return;
	client->cut = true;
	encode_error(client_answer(client, KIND_ERROR, serial, 0), refusal, sentence);
	/* An answer still waiting goes first; there is no room for a second, so then the cut says nothing. */
	if (client->waiting)
		client_close(client);
	else
		client_send(client, NULL, 0);
	if (!client->waiting)
		hang_up(client);
}

static void flush_soon(struct client *client)
{
	if (client->flushing)
		return;
	client->flushing = true;
	TAILQ_INSERT_TAIL(&client->daemon->flushing, client, changes);
}

void client_note_change(struct client *client, uint32_t bit)
{
	if (client->n_changed < CHANGED_MAX)
		client->changed[client->n_changed] = (uint16_t)bit;
	client->n_changed = MIN(client->n_changed + 1, CHANGED_MAX + 1);
	flush_soon(client);
}

void client_note_all(struct client *client)
{
	client->n_changed = CHANGED_MAX + 1;
	flush_soon(client);
}

static void flush_changes(struct client *client)
{
	struct packet *packet = client_answer(client, KIND_CHANGED, 0, 0);
	size_t mark = encode_changed(packet, client->daemon->kernel->facts.payload_max);
	uint16_t count = client->n_changed > CHANGED_MAX ? 0 : client->n_changed;

	for (size_t i = 0; i < count; i++)
		encode_changed_bit(packet, client->changed[i]);
	encode_count(packet, mark, count);
	send_packet(client, NULL, 0, false);
	client->n_changed = 0;
}

void clients_flush_changes(struct daemon *daemon)
{
	struct client *client, *next;

	for (client = TAILQ_FIRST(&daemon->flushing); client; client = next) {
		next = TAILQ_NEXT(client, changes);
		/* Nor while the kernel is asked: the answer to that may be the one that finds no room. */
		if (client->waiting || client->errand)
			continue;
		TAILQ_REMOVE(&daemon->flushing, client, changes);
		client->flushing = false;
		if (!client->closing && !client->cut)
			flush_changes(client);
	}
}

void clients_expire(struct daemon *daemon)
{
	struct client *client, *next;

	for (client = TAILQ_FIRST(&daemon->impatient); client; client = next) {
		next = TAILQ_NEXT(client, deadline);
		if (daemon_now() - client->since < daemon->options.client_timeout)
			break;
		if (client->waiting && !client->later) {
			daemon_refused(daemon, client->tenant, NULL, REFUSAL_TOO_SLOW, "it does not read its answers");
			client_close(client);
		} else if (client->throttled || client->held || client->has_turn || client->later) {
			/* It has said something: we are who keeps it waiting. */
			clear_deadline(client);
			set_deadline(client);
		} else if (client->errand) {
			client_cut(client, 0, REFUSAL_TROUBLE, "no status page could be made within %u seconds",
				   daemon->options.client_timeout);
		} else {
			client_cut(client, 0, REFUSAL_TOO_SLOW, "no HELLO within %u seconds", daemon->options.client_timeout);
		}
	}
}

void client_greet(struct client *client)
{
	client->greeted = true;
	enter_client(client);
	if (!client->waiting)
		clear_deadline(client);
}

void errand_begin(struct errand *errand, struct client *client)
{
	errand->client = client;
	client->errand = errand;
}

struct client *errand_end(struct errand *errand)
{
	struct client *client = errand->client;

	errand->client = NULL;
	if (client) {
		client->errand = NULL;
		client_watch(client);
	}
	return client;
}
