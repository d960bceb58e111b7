/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* userevd-keeper without a daemon: we are the one that asks it, sense and nonsense. */

#include "tests/suite.h"

#include <sys/types.h>

#include "kernel/rpc/message.h"

struct keeper {
	pid_t pid;
	int socket;
	struct kernel_facts facts;
	char sentence[WIRE_SENTENCE_MAX + 1]; /* its last words */
	char *events_before;
	const char *path; /* of its socket, if it outlives whoever connects */
};

/* Starts it with these options (ending in NULL, or NULL) and waits for its first words: false where they are why it can't. */
bool keeper_start(struct keeper *, const char *const *options);
/* One that outlives its daemon, with a listening socket at that path; with --hold=1 it ends soon after the last one. */
void keeper_listen(struct keeper *, const char *path, const char *const *options);
/* As the next daemon, in the place of what was connected. Waits for its first words, too. */
bool keeper_connect(struct keeper *);
void keeper_kill(struct keeper *);
/* As needed by a test of what it does; says so where this machine has no user_events. */
bool need_keeper(struct keeper *, const char *const *options);
/* Asks, and takes the answers; false where it has said that it ends. */
bool keeper_ask(struct keeper *, struct kernel_call *calls, size_t n);
/* The two apart: more may be asked before the first is answered. */
void keeper_say(struct keeper *, const struct kernel_call *calls, size_t n);
bool keeper_hear(struct keeper *, struct kernel_call *calls, size_t n);
/* The same with a packet of whatever bytes, perhaps with an fd; nothing is read. */
void keeper_send(const struct keeper *, const void *packet, size_t size, int fd);
/* Its next words are its last: the sentence, and then the end. */
void keeper_expect_the_end(struct keeper *);
/* Hangs up: it must end by itself, and leave nothing in the kernel. Its exit status. */
int keeper_stop(struct keeper *);

/* Calls. */
struct kernel_call page_new(uint32_t page);
struct kernel_call stream_new(uint32_t stream, uint32_t page);
struct kernel_call register_on(uint32_t stream, const char *description);
/* One that has no answer but its result. */
int keeper_do(struct keeper *, struct kernel_call call);
