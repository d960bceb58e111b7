/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* top: the text of a frame, and the terminal (screen). */

#include <signal.h>
#include <termios.h>

#include "client/userevctl/show/tenants.h"

/* One answer of the daemon. */
struct top_look {
	struct cursor status; /* a copy of its row; empty: there was no answer yet */
	struct tenant_views tenants;
	uint64_t time; /* ns on the monotonic clock */
};
static inline void top_look_deinit(struct top_look *look)
{
	free((void *)look->status.at);
	tenant_views_deinit(&look->tenants);
	*look = (struct top_look){ 0 };
}

enum { TOP_HEAD_LINES = 4 /* with the titles of the table */, TOP_FOOT_LINES = 1 };

/* frame.c: the lines of one frame. */
struct top_frame {
	struct top_look look;
	enum tenant_order order;
	size_t first;	   /* the first tenant that is shown */
	size_t most;	   /* tenants that fit */
	char trouble[512]; /* with the daemon, safe to show; "": none */
	bool help;	   /* the meaning of the columns instead of the tenants */
};
/* For a terminal of `output->width` columns. */
void top_frame_print(const struct top_frame *, const struct output *);
/* The last line of a screen. */
void top_frame_print_keys(const struct top_frame *, const struct output *);

/* screen.c: the terminal. */
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
	TOP_KEY_ORDER, /* plus the order */
};
struct top_keys {
	char sequence[8]; /* that began with an ESC */
	size_t length;
};
/* The next byte that was typed. */
enum top_key top_keys_take(struct top_keys *, char byte);

struct top_screen {
	int in, out;
	int signals; /* a signalfd: signals that end, stop or resize */
	struct termios saved;
	sigset_t mask;
	bool entered;
};
/* 0 or a negative errno. */
int top_screen_open(struct top_screen *, int in, int out);
/* Restores the terminal. */
void top_screen_close(struct top_screen *);
/* Takes the terminal (again). */
void top_screen_enter(struct top_screen *);
/* Restores the terminal and stops, as Ctrl-Z does; returns after SIGCONT. */
void top_screen_stop(struct top_screen *);
/* In one write if the terminal accepts it. 0 or a negative errno. */
int top_screen_write(const struct top_screen *, const char *, size_t);
