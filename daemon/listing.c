/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/listing.h"

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
	if (!client->listing || !client->listing->syncing || client->waiting)
		return;
	client->listing->syncing = false;
	client_answer(client, KIND_SYNCED, client->listing->sync_serial, 0);
	client_send(client, NULL, 0);
}

void listing_continue(struct client *client)
{
	while (client->listing && !client->waiting && !client->closing)
		if (!send_packet(client->listing))
			break;
	answer_sync(client);
	client_watch(client);
}

void listing_start(struct client *client, struct listing *listing, const struct listing_kind *kind, uint32_t serial)
{
	listing->kind = kind;
	listing->client = client;
	listing->serial = serial;
	client->listing = listing;
	listing_continue(client);
}

void listing_sync(struct client *client, uint32_t serial)
{
	client->listing->syncing = true;
	client->listing->sync_serial = serial;
	listing_continue(client);
}

void listing_free(struct client *client)
{
	struct listing *listing = client->listing;

	client->listing = NULL;
	if (!listing)
		return;
	if (listing->kind->deinit)
		listing->kind->deinit(listing);
	free(listing);
}
