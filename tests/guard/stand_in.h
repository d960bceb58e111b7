/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A process that has what a keeper has: a mount of tracefs of its own, and data files that were opened through it. */

#include <sys/types.h>

#include "tests/guard/attempt.h"

struct stand_in {
	pid_t pid;
	int socket;
	uint64_t mount;
};

enum stand_in_who { STAND_IN_ITSELF, STAND_IN_CHILD };

/* In a cgroup of this name. */
void stand_in_start(struct stand_in *, const char *cgroup);
void stand_in_end(struct stand_in *);
/* A data file of which it keeps a copy. Its byte is locked. */
int stand_in_open(struct stand_in *, off_t *ret_byte);
/* The errno that it, or a child of it, gets when it tries this on the file. */
int stand_in_try(struct stand_in *, enum stand_in_who, int fd, enum operation, const char *event);

/* A mount of tracefs that stands nowhere, and its id. */
int clone_tracefs(uint64_t *ret_id);
int open_data_file(int directory);
/* Whether somebody holds a write lock on this byte of the data file. */
bool is_locked(off_t byte);

/* Runs it in a child, as a stranger of the parent: what it returns, 0 to 254. */
typedef int in_child(void *data);
int run_in_child(in_child *, void *data);
/* With an fd, unless it is -1; returns the one that came, or -1. */
void send_packet(int socket, const void *packet, size_t size, int fd);
int receive_packet(int socket, void *packet, size_t size);

void cgroup_make(const char *name);
void cgroup_enter(const char *name);
