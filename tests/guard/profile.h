/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The seccomp profiles for containers, as filters for the process that calls. */

#include <linux/filter.h>

#include "protocol/base/base.h"

/* A file of systemd/containers, compiled as an OCI runtime does it. Prints the reason and returns false if that is impossible here. */
bool profile_compile(const char *name, struct sock_fprog *ret);
/* From now on for this process, and for all that it starts. */
void profile_enter(const struct sock_fprog *);
