/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* userevd-keeper with the test as its daemon. */

#include "tests/suite.h"

#include <sys/types.h>

#include "kernel/rpc/message.h"

struct keeper {
	pid_t pid;
	int socket;
	struct kernel_facts facts;
	char sentence[WIRE_SENTENCE_MAX + 1]; /* of FAILED */
	char *events_before;
	const char *path; /* of its socket, if it outlives its daemons */
};

/* Starts it with these options (ending in NULL, or NULL) and waits for its first message: false if that is FAILED. */
bool keeper_start(struct keeper *, const char *const *options);
/* A keeper that outlives its daemon, with a listening socket at that path; with --hold=1 it ends soon after the last daemon. */
void keeper_listen(struct keeper *, const char *path, const char *const *options);
/* Connects as the next daemon, and waits for the first message. */
bool keeper_connect(struct keeper *);
void keeper_kill(struct keeper *);
/* The same as keeper_start(); prints why not if this machine has no user_events. */
bool need_keeper(struct keeper *, const char *const *options);
/* Sends calls, and receives their answers; false after FAILED. */
bool keeper_ask(struct keeper *, struct kernel_call *calls, size_t n);
/* Both apart: more calls may be sent before the first are answered. */
void keeper_say(struct keeper *, const struct kernel_call *calls, size_t n);
bool keeper_hear(struct keeper *, struct kernel_call *calls, size_t n);
/* Sends any packet, perhaps with an fd. */
void keeper_send(const struct keeper *, const void *packet, size_t size, int fd);
/* Expects FAILED with a sentence, and then the end. */
void keeper_expect_the_end(struct keeper *);
/* Hangs up: the keeper has to end by itself, and leave nothing in the kernel. Its exit status. */
int keeper_stop(struct keeper *);

/* Calls. */
struct kernel_call page_new(uint32_t page);
struct kernel_call stream_new(uint32_t stream, uint32_t page);
struct kernel_call register_on(uint32_t stream, const char *description);
/* A call whose result is enough. */
int keeper_do(struct keeper *, struct kernel_call call);
