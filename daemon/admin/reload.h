/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The policy files, read at the start and whenever an admin says so. reload.c explains. */

#include "daemon/connection/client.h"

struct daemon;
struct reload;

/* Once it is known how many events there can be: 0, or POLICY_E_WRONG after a line in the log. */
int reload_check_capacity(struct daemon *);
/* Reads them now, or what was kept of the last good ones. 0; POLICY_E_WRONG, and what is wrong with them has been logged; or a negative errno. */
int reload_first(struct daemon *);
/* With the daemon's own user: keeps what was read for the next daemon. */
void reload_keep_first(struct daemon *);
/* That an older policy is in force; "": it is what the files say, or said when they were read last. */
const char *reload_note(const struct daemon *);

/* Needs the daemon's loop. 0, or a negative errno. */
int reload_init(struct daemon *);
void reload_deinit(struct daemon *);
/* Reads them again, without keeping anybody waiting. What comes of it is logged. */
void reload_begin(struct daemon *);

/* RELOAD → ROWS: one for each problem, and one with what has become of it. */
int handle_reload(struct client *, const struct message *);
