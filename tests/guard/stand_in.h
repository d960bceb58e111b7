/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A process with a mount of tracefs of its own, and data files that were opened through it, as a keeper has. */

#include <sys/types.h>

#include "tests/guard/attempt.h"

struct stand_in {
	pid_t pid;
	int socket;
	uint64_t mount;
};

enum stand_in_process { STAND_IN_ITSELF, STAND_IN_CHILD };

/* In a cgroup of this name. */
void stand_in_start(struct stand_in *, const char *cgroup);
void stand_in_end(struct stand_in *);
/* A data file of which it keeps a copy. Its byte is locked. */
int stand_in_open(struct stand_in *, off_t *ret_byte);
/* Tries the operation in the stand-in or in its child: 0 or the errno. */
int stand_in_try(struct stand_in *, enum stand_in_process, int fd, enum operation, const char *event);

/* A mount of tracefs that is attached nowhere, and its id. */
int clone_tracefs(uint64_t *ret_id);
int open_data_file(int directory);
/* Whether any file has a write lock on this byte of the data file. */
bool is_locked(off_t byte);

/* Runs the function in a child, and returns its result, 0 to 254. */
typedef int in_child(void *data);
int run_in_child(in_child *, void *data);
/* With an fd, unless it is -1. */
void send_packet(int socket, const void *packet, size_t size, int fd);
int receive_packet(int socket, void *packet, size_t size);

void cgroup_make(const char *name);
void cgroup_enter(const char *name);
