/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/admin/listing.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/daemon.h"

enum { ROWS_PER_PACKET = 512 };

void control_refuse(struct client *client, uint32_t serial, uint32_t refusal, const char *format, ...)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	encode_error(client_answer(client, KIND_REFUSED, serial, 0), refusal, sentence);
	client_send(client, NULL, 0);
}

/* Sends one packet, if there is a row to send. Whether there may be more rows now. */
static bool listing_send_packet(struct listing *listing)
{
	struct client *client = listing->client;
	struct packet *packet = client_answer(client, KIND_ROWS, listing->serial, WIRE_MORE);
	size_t list = encode_list(packet, 0);
	uint16_t rows = 0;
	int state = LISTING_ROW;

	while (rows < ROWS_PER_PACKET && packet->size < WIRE_PACKET_MAX / 2) {
		size_t row = encode_row_begin(packet);

		state = listing->kind->next(listing, packet);
		if (state != LISTING_ROW) {
			packet->size = row;
			break;
		}
		encode_row_end(packet, row);
		rows++;
		listing->n_rows++;
	}
	encode_count(packet, list, rows);
	if (state == LISTING_END)
		packet->data[offsetof(struct wire_header, flags)] = 0;
	/* The first packet of a listing without rows shows that it has begun. */
	if (rows > 0 || state == LISTING_END || !listing->announced)
		client_send(client, NULL, 0);
	listing->announced = true;
	if (state == LISTING_END)
		listing_free(client);
	return state == LISTING_ROW;
}

static bool listing_may_send(const struct client *client)
{
	return client->listing && !client->waiting && client->life < LIFE_CLOSING;
}

void listing_continue(struct client *client)
{
	bool more;

	do
		more = listing_may_send(client) && listing_send_packet(client->listing) && listing_may_send(client);
	while (more && client->listing->kind->at_once);
	if (more)
		ev_timer_start(daemon_of(client)->loop, &client->listing->w_turn);
	more = client->listing && ev_is_active(&client->listing->w_turn);
	if (client->syncing && !client->waiting && !more) {
		client->syncing = false;
		client_answer(client, KIND_SYNCED, client->sync_serial, 0);
		client_send(client, NULL, 0);
	}
	client_watch(client);
}

void listings_continue(struct daemon *daemon, const struct listing_kind *kind)
{
	struct client *client;

	TAILQ_FOREACH(client, &daemon->connections.clients, all)
		if (client->listing && client->listing->kind == kind)
			listing_continue(client);
}

static void on_turn(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	listing_continue(container_of(w, struct listing, w_turn)->client);
}

bool control_has_tracer(struct client *client, uint32_t serial)
{
	const struct kernel *kernel = client->holder.registry->kernel;

	if (!kernel->tracer)
		control_refuse(client, serial, REFUSAL_NOT_THE_TRACER,
			       "with the %s backend events are traced in the kernel, not in the daemon",
			       backend_name(kernel->facts.backend));
	return kernel->tracer;
}

bool control_has_listing(struct client *client, uint32_t serial)
{
	if (client->listing)
		control_refuse(client, serial, REFUSAL_BAD_PACKET, "this connection has an unfinished listing");
	return client->listing;
}

void *listing_new(struct client *client, uint32_t serial, const struct listing_kind *kind)
{
	struct listing *listing;

	if (control_has_listing(client, serial))
		return NULL;
	listing = calloc(1, kind->size);
	if (!listing) {
		control_refuse(client, serial, REFUSAL_TROUBLE, "the daemon is out of memory; try again later");
		return NULL;
	}
	listing->kind = kind;
	listing->client = client;
	listing->serial = serial;
	ev_timer_init(&listing->w_turn, on_turn, 0., 0.);
	client->listing = listing;
	return listing;
}

int listing_handle(struct client *client, const struct message *message, const struct listing_kind *kind)
{
	if (listing_new(client, message->serial, kind))
		listing_continue(client);
	return 0;
}

void listing_free(struct client *client)
{
	struct listing *listing = client->listing;

	client->listing = NULL;
	if (!listing)
		return;
	ev_timer_stop(daemon_of(client)->loop, &listing->w_turn);
	if (listing->kind->deinit)
		listing->kind->deinit(listing);
	free(listing);
}
