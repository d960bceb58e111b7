/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Other processes, of other users. They have copies of every fd of the test.
 *
 *	ck_assert_int_eq(as(UNPRIVILEGED, join(stream, text)), 0);
 */

#include <sys/types.h>

#include "tests/suite.h"

enum who {
	ROOT,		/* as the test is */
	UNPRIVILEGED,	/* uid 1000, no capability */
	NAMESPACE_ROOT, /* root and every capability in a user namespace of uid 1000's */
	POWERLESS_ROOT, /* root without a capability, as the keeper is */
};

struct person {
	pid_t pid; /* 0: the test itself */
	int pipe;
};

struct person person_start(enum who);
_Noreturn void person_answer(const struct person *, int answer);
/* Waits for its end. */
int person_result(struct person *);

/* The value of the expression in the process of that person. A failed assertion there fails the test. */
#define as(who, expression)                                                                                            \
	({                                                                                                             \
		struct person person_ = person_start(who);                                                             \
		if (person_.pid == 0)                                                                                  \
			person_answer(&person_, (expression));                                                         \
		person_result(&person_);                                                                               \
	})

/* An idle fork with copies of all fds, which lives until companion_end(). */
struct person companion_start(void);
void companion_end(struct person *);
