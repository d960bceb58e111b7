/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The process from which enabler processes are forked. */

#include <sys/types.h>

struct spawner {
	pid_t pid; /* 0: there is none */
	int fd;	   /* or -1 */
};

/* Starts an enabler process, which is this process's child, with a socket that leads to it. 0 or a negative errno. */
int spawner_spawn(struct spawner *, unsigned timeout, int *ret_socket, pid_t *ret_pid);
void spawner_end(struct spawner *);
/* An answer of one of these processes. 0; -EPIPE if it has another size, as at the process's end; or a negative errno. */
int answer_receive(int socket, void *ret, size_t size);
