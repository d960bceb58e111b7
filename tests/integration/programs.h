/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Programs of the build. */

#include <sys/types.h>

struct fixture;

/* A program in build/: "userevctl". */
const char *built(const char *name);
/*
 * Starts it; its options end in NULL, or are NULL. Stdout and stderr go into the log, unless that is NULL. Its fds from 3 on are these; with
 * names it has them from systemd, and no others.
 */
pid_t start_program(const char *program, const char *log, const char *const *options, const int *fds, size_t n,
		    const char *names);
/* Copies that program, with its mode. */
void copy_built(const char *name, const char *to);
/* Runs a command with stdout and stderr into `output`, terminated; its exit status. For userevctl, the fixture; otherwise NULL. */
int run_command(const struct fixture *, char *output, size_t size, const char *const *argv);
