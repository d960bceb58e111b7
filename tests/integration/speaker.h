/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Requests whose sender has another uid than the test: on a connection that an actor has made. */

#include "tests/integration/fixture.h"
#include "tests/integration/raw.h"

/* What is said on a connection has the real uid of who says it. */
static inline void speak_as(uid_t uid)
{
	ck_assert_int_eq(setreuid(uid, (uid_t)-1), 0);
}

static inline uint32_t register_as(uid_t uid, int socket, const char *description)
{
	uint32_t refusal;

	speak_as(uid);
	refusal = raw_register(socket, description, NULL, NULL);
	speak_as(geteuid());
	return refusal;
}

/* How many of n new events it is given; the stream, if one comes, goes to `ret_stream` unless that is NULL. */
static inline unsigned take(uid_t uid, int socket, const char *name, unsigned n, int *ret_stream)
{
	unsigned taken = 0;
	char event[96];

	speak_as(uid);
	for (unsigned i = 0; i < n; i++) {
		uint32_t refusal;
		int stream = -1;

		snprintf(event, sizeof(event), "%s_%u", name, i);
		refusal = raw_register(socket, event, NULL, &stream);
		ck_assert(refusal == 0 || refusal == REFUSAL_QUOTA_EXCEEDED);
		taken += refusal == 0;
		if (ret_stream && stream >= 0)
			*ret_stream = stream;
		else
			fd_close(stream);
	}
	speak_as(geteuid());
	return taken;
}

static inline uint64_t held_as(uid_t uid, int socket)
{
	struct wire_account account;

	speak_as(uid);
	account = raw_query(socket);
	speak_as(geteuid());
	return account.events;
}

/* Sends a request as that user. The daemon drops the connection, and releases all that it held. */
static inline void expect_wrong_user(const struct fixture *fixture, uid_t uid, int socket, uint16_t kind)
{
	speak_as(uid);
	raw_packet(kind);
	if (kind == KIND_HELLO)
		encode_hello(raw_packet(kind), &(struct wire_hello){ 0 });
	ck_assert_int_eq(raw_send(socket), 0);
	speak_as(geteuid());
	expect_cut(socket, REFUSAL_WRONG_USER);
	ck_assert(eventually(status_number(fixture, "connections") == 0));
	ck_assert(log_has(fixture, "wrong-user"));
}
