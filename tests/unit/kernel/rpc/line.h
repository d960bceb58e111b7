/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The daemon's side of its connection to a keeper, with a keeper whose answers the test chooses. */

#include "kernel/rpc/message.h"
#include "tests/suite.h"

enum { BATCH_MAX = 260, WINDOW = 16, ORDER_MAX = 32 };

struct line {
	int daemon; /* -1: it is the kernel's */
	int keeper;
	struct kernel *kernel;
};

/* With a kernel, unless it is raw. */
struct line line_new(void);
struct line line_new_raw(void);
void line_deinit(struct line *);

#define RAW_LINE(name) _cleanup_(line_deinit) struct line name = line_new_raw()
#define LINE(name)     _cleanup_(line_deinit) struct line name = line_new()

extern const struct kernel_facts good_facts;

/* The keeper's packets. */
void keeper_sends(const struct line *, const void *packet, size_t size, size_t n_fds);
void keeper_sends_facts(const struct line *, enum message_kind, const struct kernel_facts *);
void keeper_is_ready(const struct line *);
void keeper_fails(const struct line *, const char *sentence);
/* Each fd of an answer is closed. */
void send_answers(const struct line *, struct kernel_call *calls, size_t n);

/* One packet of each kind of nonsense; `i` counts them. False behind the last. */
enum { NONSENSE = 4 };
void keeper_sends_nonsense(const struct line *, size_t i, size_t n_fds);
void keeper_sends_answer(const struct line *);

/* The packet that the keeper has received last. */
struct received {
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char text[MESSAGE_CALLS_MAX][WIRE_TENANT_MAX + 1];
	size_t n;
	ino_t inode[MESSAGE_FDS_MAX];
	size_t n_fds;
};
extern struct received received;

bool keeper_receives(const struct line *);
void expect_received(const struct line *, size_t n);
void expect_nothing_received(const struct line *);
/* Answers the received calls: OK, with an fd, and a bit and an index that depend on the call's index. */
void keeper_answers(const struct line *);
void answer_well(struct kernel_call *);
/* Each packet in its turn, so many calls each: received, answered, dispatched. */
void exchange(const struct line *, const size_t *packets, size_t n);
#define EXCHANGE(line, ...)                                                                                            \
	exchange(line, (const size_t[]){ __VA_ARGS__ }, sizeof((size_t[]){ __VA_ARGS__ }) / sizeof(size_t))

void expect_dispatched(const struct line *);
/* Now, and ever after. */
void expect_failure(const struct line *, int result);

ino_t inode_of(int fd);
int new_fd(void);

struct batch {
	struct kernel_call calls[BATCH_MAX];
	size_t n;
	unsigned done;
	struct batch *next; /* is submitted when this one is done */
	struct line *line;
};

/* The order in which batches were done. */
struct order {
	const struct batch *batch[ORDER_MAX];
	size_t n;
};
extern struct order order;

struct batch *batch_new(struct line *, enum kernel_op, size_t n);
/* Each with an fd; their inodes. */
struct batch *deposits_new(struct line *, size_t n, ino_t *ret_inodes);
void batch_free(struct batch **);
void submit(struct line *, struct batch *);

#define BATCH(name, line, op, n)       _cleanup_(batch_free) struct batch *name = batch_new(&(line), op, n)
#define DEPOSITS(name, line, n, inode) _cleanup_(batch_free) struct batch *name = deposits_new(&(line), n, inode)

void expect_results(const struct batch *, size_t from, size_t to, int result);
void expect_all_ok(const struct batch *);
void expect_cancelled(const struct batch *);
void expect_deposits_received(const ino_t *inodes, size_t n);
