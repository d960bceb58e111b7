/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Reads the policy files: at the start, on SIGHUP, and on RELOAD. reload.c explains. */

#include "protocol/base/base.h"

struct daemon;
struct reload;

/* Checks the policy against the kernel's capacity. 0, or POLICY_E_WRONG after a line in the log. */
int reload_check_capacity(struct daemon *);
/* At the start: reads the files, or the copy of the last good ones. 0; or POLICY_E_WRONG or a negative errno, after lines in the log. */
int reload_first(struct daemon *);
/* Once the daemon has become its user: keeps a copy of the files of the policy in force. */
void reload_keep_first(struct daemon *);
/* That an older policy is in force, since the files have errors; "": the files are in force. */
const char *reload_note(const struct daemon *);

/* Needs the daemon's loop. 0, or a negative errno. */
int reload_init(struct daemon *);
void reload_deinit(struct daemon *);
/* Reads the files again, in a thread. The outcome is logged. */
void reload_begin(struct daemon *);
