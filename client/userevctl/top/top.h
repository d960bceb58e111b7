/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* top: what the daemon says (source), how that looks (frame), and the terminal that it is shown on (screen, keys). */

#include <signal.h>
#include <termios.h>

#include "client/userevctl/output.h"
#include "client/userevctl/show/tenant_view.h"
#include "protocol/protocol.h"

struct control;

/* One look at the daemon. */
struct top_look {
	uint8_t *status; /* its row; NULL: there was no look yet */
	size_t status_size;
	struct tenant_views tenants;
	uint64_t time;	/* ms on the monotonic clock */
	double seconds; /* since the look before; 0: there was none */
};
static inline void top_look_deinit(struct top_look *look)
{
	free(look->status);
	tenant_views_deinit(&look->tenants);
	*look = (struct top_look){ 0 };
}
static inline struct cursor top_look_status(const struct top_look *look)
{
	return cursor_make(look->status, look->status_size);
}

/* ctl_top_source.c: asks, and takes the answer packet by packet, so that nobody waits for a daemon that hangs. */
struct top_source {
	const char *path;
	struct control *control;		  /* NULL: not connected */
	uint16_t asked;				  /* KIND_STATUS, KIND_TENANTS, or 0 */
	struct top_look look;			  /* what has come of it */
	char sentence[WIRE_SENTENCE_MAX * 4 + 1]; /* of the last refusal, safe to show */
};
void top_source_deinit(struct top_source *);
int top_source_fd(const struct top_source *);
bool top_source_waits(const struct top_source *);
/* 0 or a negative errno, as control_open() has them. */
int top_source_ask(struct top_source *);
/*
 * Takes a packet, or waits so many ms for one: 1 with a look that is whole; 0 when there is more to come; a negative
 * errno, as control_receive() has them, and the connection is closed. `ret` is compared with what it was.
 */
int top_source_take(struct top_source *, int timeout, struct top_look *ret);

/* ctl_top_frame.c: pure: the numbers and the size of the terminal → text. */
struct top_frame {
	const struct top_look *look;
	enum tenant_order order; /* that they are in */
	size_t first;		 /* of the tenants that are shown */
	size_t columns;
	size_t lines;	     /* 0: as many as it takes */
	const char *trouble; /* with the daemon, safe to show; or NULL */
	bool on_screen;	     /* over the frame before, and with the keys at its bottom */
	bool help;	     /* about columns and keys, instead of the tenants */
};
void top_frame_print(const struct output *, const struct top_frame *);
/* How many tenants can be seen at once. */
size_t top_frame_room(const struct top_frame *);

/* ctl_top_keys.c: pure: bytes → what is meant. */
enum top_key {
	TOP_KEY_NONE,
	TOP_KEY_QUIT,
	TOP_KEY_HELP,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_ORDER, /* and the order itself added */
};
struct top_keys {
	char sequence[8]; /* that an ESC began */
	size_t length;
};
/* The next byte that was typed. */
enum top_key top_keys_take(struct top_keys *, char byte);

/* ctl_top_screen.c: the terminal, as it is while we have it and as it was. */
struct top_screen {
	int in, out;
	int signals; /* a signalfd: what would end, stop or change us */
	struct termios saved;
	sigset_t mask;
	bool entered;
};
/* 0 or a negative errno. */
int top_screen_open(struct top_screen *, int in, int out);
/* Leaves it as it was found. */
void top_screen_close(struct top_screen *);
/* Takes the terminal (again). */
void top_screen_enter(struct top_screen *);
/* Gives it back and stops, as Ctrl-Z wants it; returns when it goes on. */
void top_screen_stop(struct top_screen *);
void top_screen_size(const struct top_screen *, size_t *ret_columns, size_t *ret_lines);
/* In one write where the terminal takes it. 0 or a negative errno. */
int top_screen_write(const struct top_screen *, const char *, size_t);
/* The next signal that has come, or 0. */
int top_screen_signal(const struct top_screen *);
