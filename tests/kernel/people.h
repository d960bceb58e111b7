/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Other processes, of other users. They have copies of every fd of the test.
 *
 *	ck_assert_int_eq(as(STRANGER, join(stream, text)), 0);
 */

#include <sys/types.h>

#include "tests/suite.h"

enum who {
	ROOT,		/* as the test is */
	STRANGER,	/* uid 1000, no capability */
	NAMESPACE_ROOT, /* root and every capability in a user namespace of uid 1000's */
	POWERLESS_ROOT, /* root without a capability, as the keeper is */
};

struct person {
	pid_t pid; /* 0: that is who runs */
	int pipe;
};

struct person person_start(enum who);
_Noreturn void person_answer(const struct person *, int answer);
/* Waits for its end. */
int person_result(struct person *);

/* What the expression is when another process works it out. Where that asserts, the test fails. */
#define as(who, expression)                                                                                            \
	({                                                                                                             \
		struct person person_ = person_start(who);                                                             \
		if (person_.pid == 0)                                                                                  \
			person_answer(&person_, (expression));                                                         \
		person_result(&person_);                                                                               \
	})

/* A fork that does nothing but live, with copies of everything, until companion_end(). */
struct person companion_start(void);
void companion_end(struct person *);
