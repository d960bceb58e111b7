/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which kernel the daemon gets, and the keeper behind it. */

struct daemon;

/* Chooses and opens it: 0, or a negative errno after a line in the log. */
int backend_open(struct daemon *);
/* To a keeper that systemd has started. 0 with a socket, or a negative errno: -EAGAIN: its backlog is full. Does not block. */
int backend_connect_keeper(const struct daemon *, int *ret);
