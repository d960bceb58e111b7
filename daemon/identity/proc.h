/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Files of /proc/PID. */

#include <sys/types.h>

#include "protocol/base/base.h"

/* Reads /proc/PID/NAME up to size - 1 bytes, with a NUL behind them. The number of bytes, or a negative errno: -ESRCH: no such process. */
ssize_t proc_read(pid_t pid, const char *name, char *ret, size_t size);
