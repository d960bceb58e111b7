/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The seccomp profiles for containers, as filters for the process that calls. */

#include <linux/filter.h>

#include "protocol/base/base.h"

/* Compiles a file of systemd/containers as an OCI runtime does it. False: that isn't possible here; it prints that. */
bool profile_compile(const char *name, struct sock_fprog *ret);
/* For this process and its children. */
void profile_enter(const struct sock_fprog *);
