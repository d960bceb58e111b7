/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A keeper in a thread, with a kernel that notes its calls; the test is its daemon. */

#include <pthread.h>

#include "kernel/keeper/deposit.h"
#include "kernel/keeper/serve.h"
#include "kernel/rpc/message.h"
#include "tests/suite.h"

enum { NOTED_MAX = 400, GIVEN_MAX = 32 };

struct note {
	struct kernel_call call;
	char text[WIRE_TENANT_MAX + 1];
};

/* The test reads its members when the keeper has ended, or has answered. */
struct fake {
	struct kernel kernel;
	struct note note[NOTED_MAX];
	size_t noted;
	size_t batches;
	int result; /* of all but pages and streams */
	unsigned orphaned;
	int dispatch;
	_Atomic unsigned dispatches;
	_Atomic bool held;	/* a dispatch does not return */
	ino_t given[GIVEN_MAX]; /* fds */
	size_t n_given;
};

struct scene {
	struct fake fake;
	struct deposit_box *box; /* or NULL */
	int daemon;
	int keeper; /* of the thread; a listening socket for several daemons */
	unsigned hold;
	pthread_t thread;
	bool running;
	int served; /* the result of the thread */
};

/* The keeper is not started yet. */
struct scene *scene_new(void);
void scene_start(struct scene *);
/* The keeper has sent that it is ready. */
struct scene *scene_ready(struct deposit_box *);
/* For several daemons, the keeper listens. */
struct scene *scene_of_many(unsigned hold);
void scene_free(struct scene **);

#define SCENE(name)		  _cleanup_(scene_free) struct scene *name = scene_new()
#define READY_SCENE(name)	  _cleanup_(scene_free) struct scene *name = scene_ready(NULL)
#define SCENE_WITH_BOX(name, box) _cleanup_(scene_free) struct scene *name = scene_ready(box)
#define SCENE_OF_MANY(name, hold) _cleanup_(scene_free) struct scene *name = scene_of_many(hold)

/* The result of keeper_serve(). */
int scene_join(struct scene *);
int hang_up(struct scene *);

/* For several daemons. */
extern char scene_directory[64], scene_address[100];
int connect_daemon(void);
void next_daemon(struct scene *);
void disown(const struct scene *);

/* The message that the daemon has received last. */
extern struct message_packet last_message;
void receive(const struct scene *, enum message_kind);
bool nothing_is_received(const struct scene *);
void expect_ended(const struct scene *, int socket);

/* Calls with their fds, which stay the test's. */
void send_calls(const struct scene *, const struct kernel_call *calls, size_t n);
/* `fds`: with so many fds, which have gone to the calls. */
void expect_answered(const struct scene *, struct kernel_call *calls, size_t n, size_t fds);
void close_fds(struct kernel_call *calls, size_t n);
/* One dispatch of the kernel. */
void dispatch_kernel(struct scene *);

/* Another thread does it; the suite's time limit ends this otherwise. */
#define wait_until(condition)                                                                                          \
	while (!(condition))                                                                                           \
	usleep(10)

extern const struct kernel_call examples[9];

int some_fd(void);
struct kernel_call deposit(uint64_t number, int fd);
void send_deposit(const struct scene *, uint64_t number, int fd);
int ask_for(const struct scene *, enum kernel_op, uint64_t number);
void expect_deposited(const struct scene *, uint64_t number, int fd);
