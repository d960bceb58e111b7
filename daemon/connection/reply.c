/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "daemon/connection/client.h"
#include "daemon/connection/inflight.h"
#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/registry/own_trace.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/share.h"
#include "daemon/registry/tenant.h"
#include "kernel/disposal.h"
#include "protocol/transport.h"

/* The answer has left. */
void client_end_request(struct client *client)
{
	if (!client->asks)
		return;
	client->asks = client->may_repeat = false;
	if (client->asked > 0.)
		duration_note(&client->connections->durations[client->request], clock_now() - client->asked);
	client->asked = 0.;
	shares_enter(&client->holder);
	/* A request that stays there would be answered again and again. */
	if (client->in_socket && transport_drop(client->fd) < 0)
		client_close(client);
	client_watch(client);
}

void client_drop_answer(struct client *client)
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
	struct wire_header header;
	int r;

	inflight_add(client, n);
	r = transport_send(client->fd, packet, size, fds, n, MSG_DONTWAIT);
	client->later = r == -ETOOMANYREFS;
	if (client->later)
		client_defer(client);
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
		if (size >= 0 ? size == 0 && !from.known : size != -EMSGSIZE)
			break;
	}
}

bool connection_empty(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	shutdown(fd, SHUT_RDWR);
	disposal_close(copy);
	return copy >= 0;
}

static void client_hang_up(struct client *client)
{
	connection_end(client->connections, client->fd);
	client_close(client);
}

void client_on_writable(struct client *client)
{
	struct answer_waiting *waiting = client->waiting;
	int r;

	if (waiting) {
		r = client_send_now(client, waiting->packet, waiting->size, waiting->fds.fd, waiting->fds.count);
		if (send_may_be_retried(r))
			return;
		if (r < 0) {
			client_close(client);
			return;
		}
		if (waiting->is_answer)
			client_end_request(client);
		client_drop_answer(client);
		if (client->holder.known.greeted)
			deadline_clear(client);
	}
	if (client->life == LIFE_REFUSED)
		client_hang_up(client);
	else
		client->connections->call->go_on(client);
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

	/* A client whose last packet waits, or was sent, gets nothing more. */
	if (client->life >= LIFE_CLOSING || client->waiting)
		return;
	encode_end(packet);
	/* Our own limits are such that every answer fits. */
	r = packet->failed ? -EMSGSIZE : client_send_now(client, packet->data, packet->size, fds, n);
	if (r == 0 && is_answer)
		client_end_request(client);
	if (send_may_be_retried(r))
		r = client_keep_answer(client, packet, fds, n, is_answer);
	if (r < 0) {
		if (r != -EPIPE && r != -ECONNRESET)
			log_line(LOG_OF_CLIENTS, LOG_WARNING, "answer to process %d lost: %s; its connection is closed",
				 client->holder.known.pid, strerror(-r));
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

static void client_note(struct client *client)
{
	if (!client->flushes)
		TAILQ_INSERT_TAIL(&client->connections->flushing, client, changes);
	client->flushes = true;
}

void client_note_change(struct holder *holder, uint32_t bit)
{
	struct client *client = client_of(holder);

	if (client->n_changed < CHANGED_MAX)
		client->changed[client->n_changed] = (uint16_t)bit;
	client->n_changed = MIN(client->n_changed + 1, CHANGED_MAX + 1);
	client_note(client);
}

void client_note_all(struct client *client)
{
	client->n_changed = CHANGED_MAX + 1;
	client_note(client);
}

void client_note_trace(struct holder *holder, unsigned slot)
{
	struct client *client = client_of(holder);

	client->untold |= (uint8_t)(1u << slot);
	client_note(client);
}

void client_note_read(struct client *client)
{
	if (client->untold && client->in_flight == 0)
		client_note(client);
}

void client_drop_notes(struct client *client)
{
	if (client->flushes)
		TAILQ_REMOVE(&client->connections->flushing, client, changes);
	client->flushes = false;
	client->n_changed = 0;
}

static void client_send_changed(struct client *client)
{
	const uint16_t count = client->n_changed > CHANGED_MAX ? 0 : client->n_changed;
	struct packet *packet = client_answer(client, KIND_CHANGED, 0, 0);
	const size_t mark = encode_changed(packet, client->connections->registry->kernel->facts.payload_max);

	for (size_t i = 0; i < count; i++)
		encode_changed_bit(packet, client->changed[i]);
	encode_count(packet, mark, count);
	client->n_changed = 0;
	client_send_packet(client, NULL, 0, false);
}

/* A program that does not read gets no more of them until it has read. */
static void client_send_traces(struct client *client)
{
	const struct own_traces *traces = &client->holder.tenant->traces;

	for (uint32_t i = 0; i < WIRE_TRACES_MAX && !client->waiting && client->life == LIFE_OPEN; i++) {
		if (!(client->untold & 1u << i))
			continue;
		if (traces->slot[i] && ((client->in_flight >= TRACES_UNREAD_MAX && inflight_remains(client)) ||
					!inflight_has_room(client->connections, client->holder.tenant))) {
			inflight_await(client);
			return;
		}
		client->untold &= (uint8_t) ~(1u << i);
		if (!traces->slot[i])
			continue;
		encode_fixed(client_answer(client, KIND_TRACED, 0, 0), KIND_TRACED,
			     &(struct wire_traced){ .trace = i });
		client_send_packet(client, &traces->slot[i]->fd, 1, false);
	}
}

void clients_flush_notes(struct connections *connections)
{
	struct client *client, *next;

	for (client = TAILQ_FIRST(&connections->flushing); client; client = next) {
		next = TAILQ_NEXT(client, changes);
		/* Nor while the kernel is asked: the answer to the request may find no room then. */
		if (client->waiting || client->task)
			continue;
		TAILQ_REMOVE(&connections->flushing, client, changes);
		client->flushes = false;
		if (client->life == LIFE_OPEN && client->n_changed > 0)
			client_send_changed(client);
		client->n_changed = 0;
		if (client->untold)
			client_send_traces(client);
		if (client->untold && client->waiting)
			client_note(client);
	}
}
