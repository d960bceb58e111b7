/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The rules of admins (daemon/registry/silence.h) in a file of the state directory, for a daemon that finds no ledger. */

#include <sys/types.h>

#include "daemon/registry/silence.h"

/* Makes the rules of the file. `user`: that the daemon becomes. Logs lines that it cannot use. */
void last_silence_read(const char *directory, uid_t user, struct registry *);
/* Writes the rules as they are now. 0 or a negative errno. */
int last_silence_keep(const char *directory, const struct registry *);
