/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/admin/listing.h"

#include "daemon/daemon.h"

enum { ROWS_PER_PACKET = 512 };

/* Fills one packet. LISTING_ROW: there is more than it holds; else what the kind said last. */
static int fill_packet(struct listing *listing, struct packet *packet, uint16_t *ret_rows)
{
	size_t list = encode_rows(packet);
	int state = LISTING_ROW;

	*ret_rows = 0;
	while (*ret_rows < ROWS_PER_PACKET && packet->size < WIRE_PACKET_MAX / 2) {
		size_t row = encode_row_begin(packet);

		state = listing->kind->next(listing, packet);
		if (state != LISTING_ROW) {
			packet->size = row;
			break;
		}
		encode_row_end(packet, row);
		++*ret_rows;
	}
	encode_count(packet, list, *ret_rows);
	return state;
}

/* Sends one packet, if there is anything to say in it. Whether there may be more to send. */
static bool send_packet(struct listing *listing)
{
	struct client *client = listing->client;
	struct packet *packet = client_answer(client, KIND_ROWS, listing->serial, WIRE_MORE);
	uint16_t rows;
	int state = fill_packet(listing, packet, &rows);

	if (state == LISTING_END)
		packet->data[offsetof(struct wire_header, flags)] = 0;
	/* The first packet of a listing that waits for rows says that it does. */
	if (rows > 0 || state == LISTING_END || !listing->announced)
		client_send(client, NULL, 0);
	listing->announced = true;
	if (state == LISTING_END)
		listing_free(client);
	return state == LISTING_ROW;
}

static void answer_sync(struct client *client)
{
	bool more = client->listing && ev_is_active(&client->listing->w_turn);

	if (!client->syncing || client->waiting || more)
		return;
	client->syncing = false;
	client_answer(client, KIND_SYNCED, client->sync_serial, 0);
	client_send(client, NULL, 0);
}

static bool may_send(const struct client *client)
{
	return client->listing && !client->waiting && client->life < LIFE_CLOSING;
}

void listing_continue(struct client *client)
{
	bool more;

	do
		more = may_send(client) && send_packet(client->listing) && may_send(client);
	while (more && client->listing->kind->at_once);
	if (more)
		ev_timer_start(daemon_of(client)->loop, &client->listing->w_turn);
	answer_sync(client);
	client_watch(client);
}

static void on_turn(struct ev_loop *loop _unused_, ev_timer *w, int events _unused_)
{
	listing_continue(container_of(w, struct listing, w_turn)->client);
}

void listing_start(struct client *client, struct listing *listing, const struct listing_kind *kind, uint32_t serial)
{
	listing->kind = kind;
	listing->client = client;
	listing->serial = serial;
	ev_timer_init(&listing->w_turn, on_turn, 0., 0.);
	client->listing = listing;
	listing_continue(client);
}

void listing_sync(struct client *client, uint32_t serial)
{
	client->syncing = true;
	client->sync_serial = serial;
	listing_continue(client);
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
