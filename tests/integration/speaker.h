/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Requests whose sender has another uid than the test, on a connection that an actor has made. */

#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"

/* A request has the real uid of the process that sends it. */
static inline void speak_as(uid_t uid)
{
	ck_assert_int_eq(setreuid(uid, (uid_t)-1), 0);
}

/* Evaluates the expression as that user. */
#define as_user(uid, expression)                                                                                       \
	({                                                                                                             \
		speak_as(uid);                                                                                         \
		__typeof__(expression) result_ = (expression);                                                         \
		speak_as(geteuid());                                                                                   \
		result_;                                                                                               \
	})

/* The daemon drops the connection for that request of that user, and releases everything that it held. */
static inline void expect_wrong_user(const struct fixture *fixture, uid_t uid, int socket, uint16_t kind)
{
	raw_packet(kind);
	if (kind == KIND_HELLO)
		encode_fixed(raw_packet(kind), KIND_HELLO, &(struct wire_hello){ 0 });
	ck_assert_int_eq(as_user(uid, raw_send(socket)), 0);
	expect_cut(socket, REFUSAL_WRONG_USER);
	await_status(fixture, "connections=0");
	ck_assert(log_has(fixture, "wrong-user"));
}
