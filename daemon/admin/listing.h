/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * An answer of many packets on the control socket: rows, made as fast as the admin reads them and never further ahead, so
 * that nothing piles up however long the list and however slow the reader. One who reads as fast as we write would keep
 * everybody waiting for as long as there are rows: so each turn of the loop has one packet.
 */

#include "daemon/connection/client.h"

struct listing;

struct listing_kind {
	/*
	 * Writes the next row behind `packet` and moves the listing on. LISTING_ROW; LISTING_END; LISTING_IDLE: nothing
	 * more for now, but there may be later. A row takes less than half a packet.
	 */
	int (*next)(struct listing *, struct packet *);
	void (*deinit)(struct listing *);
	/* Instead: all that there is at once, for it is not much, and more may come meanwhile. */
	bool at_once;
};

enum { LISTING_ROW, LISTING_END, LISTING_IDLE };

/* Begins each kind's own struct. */
struct listing {
	const struct listing_kind *kind;
	struct client *client;
	uint32_t serial;
	ev_timer w_turn; /* the next one: there is more */
	bool announced;	 /* a first packet has been sent, so that the reader knows that it is in force */
};

/* Takes the listing over and sends what there is. A listing that goes on ends with its connection. */
void listing_start(struct client *, struct listing *, const struct listing_kind *, uint32_t serial);
/* Sends what there is by now. */
void listing_continue(struct client *);
/* Answers SYNC once everything that there is by now has been sent. */
void listing_sync(struct client *, uint32_t serial);
void listing_free(struct client *);
