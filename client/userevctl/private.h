/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A private daemon in a directory of its own. */

#include "client/userevctl/ctl.h"

struct private_daemon {
	pid_t pid; /* 0: none */
	char directory[80];
	char socket[100];
	char control_socket[100];
};

/* fork(), with the new process in the signal state in which userevctl was started. */
pid_t private_fork(const struct ctl *);
/*
 * 0; a negative errno after a message; or the signal that came from `signals`, an fd of signals_take(). Unless 0 nothing is
 * left behind.
 */
int private_start(const struct ctl *, struct private_daemon *, bool quiet, int signals);
/* Ends the daemon and removes the directory. Does nothing if there is none. */
void private_end(struct private_daemon *);
