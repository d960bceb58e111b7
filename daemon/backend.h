/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Which kernel the daemon gets, and the keeper behind it. */

struct daemon;

/* Chooses and opens it: 0, or a negative errno after a line in the log. */
int backend_open(struct daemon *);
/* To another keeper than the one that there was. 0 with a socket, or a negative errno; never waits. */
int backend_connect_keeper(const struct daemon *, int *ret);
