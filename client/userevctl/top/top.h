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
	unsigned order;	   /* of tenant_orders */
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
/* A key: a small letter, or KEY_SEQUENCE and the letter or number in an escape sequence. */
enum {
	KEY_SEQUENCE = 256,
	KEY_UP = KEY_SEQUENCE + 'A',
	KEY_DOWN = KEY_SEQUENCE + 'B',
	KEY_RIGHT = KEY_SEQUENCE + 'C',
	KEY_LEFT = KEY_SEQUENCE + 'D',
	KEY_PAGE_UP = KEY_SEQUENCE + '5',
	KEY_PAGE_DOWN = KEY_SEQUENCE + '6',
};
/* The key at `*bytes`, which is moved behind it; 0: it is none of ours. */
int top_key_take(const char **bytes, const char *end);

struct top_screen {
	int out;     /* the input is stdin */
	int signals; /* a signalfd: signals that end, stop or resize */
	struct termios saved;
};
/* 0 or a negative errno. */
int top_screen_open(struct top_screen *, int out);
/* Restores the terminal. */
void top_screen_leave(struct top_screen *);
/* Takes the terminal (again). */
void top_screen_enter(struct top_screen *);
/* Restores the terminal and stops, as Ctrl-Z does; returns after SIGCONT. */
void top_screen_stop(struct top_screen *);
/* In one write if the terminal accepts it. 0 or a negative errno. */
int top_screen_write(const struct top_screen *, const char *, size_t);
