/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <sys/types.h>

/* Listens for daemons of this user, where no systemd does. 0; -EADDRINUSE if another keeper does; or another negative errno. */
int keeper_listen(const char *path, uid_t owner, int *ret);
