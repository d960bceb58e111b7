/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A private daemon in a directory of its own. */

#include <signal.h>
#include <spawn.h>

#include "client/userevctl/ctl.h"

struct private_daemon {
	pid_t pid; /* 0: none */
	char directory[80];
	char socket[100];
	char control_socket[100];
};

/* posix_spawnp() in the signal state in which userevctl was started, with further POSIX_SPAWN_… flags: 0 or an errno. */
int private_spawn(const struct ctl *, pid_t *ret, char *const *arguments, char *const *environment,
		  const posix_spawn_file_actions_t *, short flags);
/*
 * 0, or a negative errno after a message; then nothing is left behind. When `stop_fd` becomes readable it returns -EINTR,
 * without a message.
 */
int private_start(const struct ctl *, struct private_daemon *, bool quiet, int stop_fd);
/* Ends the daemon and removes the directory. Does nothing if there is none. */
void private_end(struct private_daemon *);
