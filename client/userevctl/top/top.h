/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* top: the text of a frame, and the terminal (screen). */

#include "client/userevctl/show/tenants.h"

enum { TOP_HEAD_LINES = 4 /* with the titles of the table */, TOP_FOOT_LINES = 1 };

/* frame.c: the lines of one frame. */
struct top_frame {
	struct tenant_views tenants;
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

/* A signalfd, of signals that end, stop or resize; or a negative errno. */
int top_screen_open(int out);
/* Restores the terminal. */
void top_screen_leave(void);
/* Takes the terminal (again). */
void top_screen_enter(void);
/* Restores the terminal and stops, as Ctrl-Z does; returns after SIGCONT. */
void top_screen_stop(void);
/* In one write if the terminal accepts it. 0 or a negative errno. */
int top_screen_write(const char *, size_t);
