/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A reply of many packets on the control socket: rows are made as fast as the admin reads them, so that nothing piles up however
 * long the list and however slow the reader. Each turn of the loop sends one packet, so that a fast reader does not keep others
 * waiting.
 */

#include "daemon/connection/client.h"

struct daemon;

struct listing_kind {
	size_t size; /* of the struct that begins with struct listing */
	/*
	 * Writes the next row behind `packet` and moves the listing on. LISTING_ROW; LISTING_END; LISTING_IDLE: no row
	 * now, but there may be one later. A row takes less than half a packet.
	 */
	int (*next)(struct listing *, struct packet *);
	void (*deinit)(struct listing *);
	bool at_once; /* send all rows in one turn of the loop: they are few, and more may come meanwhile */
};

enum { LISTING_ROW, LISTING_END, LISTING_IDLE };

struct listing {
	const struct listing_kind *kind;
	struct client *client;
	uint32_t serial;
	ev_timer w_turn; /* there are more rows to send */
	uint64_t n_rows; /* so far */
	uint64_t after;	 /* the number of the last thing that has a row, where rows are in the order of numbers */
	bool announced;	 /* a first packet has been sent: the reader knows that the listing has begun */
};

/* Refuses a request of an admin, whose connection survives that. */
void control_refuse(struct client *, uint32_t serial, uint32_t refusal, const char *format, ...) _printf_(4, 5);

/* False after a refusal: the backend is not the embedded one. */
bool control_has_tracer(struct client *, uint32_t serial);
/* True after a refusal. */
bool control_has_listing(struct client *, uint32_t serial);
/* A new listing, as zeros behind its beginning. NULL after a refusal: the connection has a listing already, or no memory. */
void *listing_new(struct client *, uint32_t serial, const struct listing_kind *);
/* The handler of a request without a body: listing_new() and listing_continue(). */
int listing_handle(struct client *, const struct message *, const struct listing_kind *);
/* Sends the rows that there are by now; of a new listing the first packet, though it may have none. Answers SYNC behind them. */
void listing_continue(struct client *);
/* All listings of the kind, which may have more rows now. */
void listings_continue(struct daemon *, const struct listing_kind *);
/* Frees the client's listing, if it has one: at its end, or at the end of the connection. */
void listing_free(struct client *);
