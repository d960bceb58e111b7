/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * An enabler process holds enablers: registrations that make the kernel set an event's bit in a page. It registers events on streams that
 * the keeper lends it, for bits of pages that it maps, and does nothing else. It carries out one request after the other; the keeper may
 * have sent the next ones already.
 */

#include "kernel/kernel.h"
#include "kernel/uapi.h"
#include "protocol/protocol.h"

enum {
	ENABLER_BATCH_MAX = 100, /* events of one request: as many as a packet of the daemon has */
	ENABLER_PACKET_MAX = 65536,
};

enum enabler_kind {
	ENABLER_REGISTER = 1, /* items of one page, with the fds of stream and page; an answer has the event's index */
	ENABLER_REMOVE,	      /* items without text, with the fd of any data file, of pages that the process has */
	ENABLER_KEEP_OFF,     /* likewise; the process keeps the page, and the bit is off until RESUME */
	ENABLER_KEEP_ON,      /* likewise, but on */
	ENABLER_RESUME,	      /* items with text of such pages, with the fd of a data file */
};

/* Of an item's flags, beside the kernel's: REGISTER only puts the event onto the stream, and keeps the bit off or on. */
enum { ENABLER_OFF = 1 << 15, ENABLER_ON = 1 << 14 };

struct enabler_request {
	uint32_t kind;
	uint32_t count;
};
_Static_assert(sizeof(struct enabler_request) == 8, "request");

/* Followed by its text, and zeros to a multiple of four. */
struct enabler_item {
	uint32_t page;
	uint32_t bit;
	uint16_t flags;
	uint16_t text_length;
};
_Static_assert(sizeof(struct enabler_item) == 12, "item");

/* One for each item. */
struct enabler_answer {
	int32_t result; /* 0, or a negative errno */
	uint32_t index;
};
_Static_assert(sizeof(struct enabler_answer) == 8, "answer");

/* Serves until the keeper hangs up. Returns an exit status. */
int enabler_run(int socket);
