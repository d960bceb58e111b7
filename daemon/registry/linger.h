/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Asks the kernel about streams without a client, until no copy of them is open any more. linger.c explains. */

struct registry;
struct stream;

void linger_init(struct registry *);

/* The daemon has closed its copy of the stream, which may be freed before this returns. */
void linger_begin(struct stream *);
/* The stream is being freed. Fine if it does not linger. */
void linger_end(struct stream *);
