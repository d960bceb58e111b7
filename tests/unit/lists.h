/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Requests for many numbered events at once, in a world with the fake kernel. After each answer the books are checked. */

#include "tests/unit/books.h"

struct list {
	uint16_t flags;
	unsigned n;
	unsigned event[WIRE_BATCH_MAX];
};

struct granted {
	struct answer answer[WIRE_BATCH_MAX];
};

struct list list_of(unsigned first, unsigned n);
/* event_7 u32 x */
void describe(char text[TEXT_MAX], unsigned event);

void say_list(struct end *, const struct list *);
/* All of it is granted, as the kernel has it. */
struct granted expect_list(struct end *, const struct list *);
struct granted get_list(struct end *, const struct list *);
/* All of it is refused, and the client gets no file. */
void expect_list_refused(struct end *, const struct list *, uint32_t refusal);
/* That one is refused, and all others are granted. */
void expect_list_but(struct end *, const struct list *, unsigned refused, uint32_t refusal);
/* The kernel has the event of the answer where it says. */
void expect_right(const struct answer *, unsigned event);
void expect_same_answers(const struct granted *, const struct granted *, unsigned n);
/* In one packet. */
void say_release_list(struct end *, const struct granted *, unsigned n);
void release_list(struct end *, const struct granted *, unsigned n);

/* Leaves so many events without a lease on the client's stream, and the others that it holds. */
void leave_dead(struct end *, unsigned n);
