/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Who watches, and where the kernel tells nobody but the page, a look at the page from time to time. */

#include <stdbool.h>

struct client;
struct daemon;
struct tenant;

/* The client begins or ceases to watch. */
void pages_watch(struct client *, bool on);
/* Nobody looks any more. */
void pages_forget(struct tenant *);

void pages_init(struct daemon *);
void pages_deinit(struct daemon *);
