/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* This process as a service of systemd: the fds that it was started with, and notifications. Without systemd all of this does nothing. */

#include "protocol/base/base.h"

/* Takes the fd, also if it fails. 0 or a negative errno. */
typedef int service_take(void *data, int fd, const char *name);
/* Calls `take` for each fd, and closes the rest after a failure. Their number, or a negative errno. */
int service_take_fds(service_take *take, void *data);

/* Sends a notification, with fds for the file descriptor store. 0, -ENOTCONN without systemd, or a negative errno. */
int service_notify(const char *text, const int *fds, size_t n);

/* Whether systemd expects WATCHDOG=1, with the longest time between two of them. */
bool service_has_watchdog(uint64_t *ret_microseconds);
