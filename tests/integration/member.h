/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A client with one event, which writes its records. */

#include "tests/integration/fixture.h"
#include "tests/integration/raw.h"

struct member {
	int socket;
	int stream; /* the file; -1 where none came */
	struct answer answer;
};

static inline struct member member_new(const struct fixture *fixture, const char *description)
{
	struct member member = { .stream = -1 };

	member.socket = raw_hello(fixture->socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(member.socket, description, &member.answer, &member.stream), 0);
	return member;
}

static inline void member_free(struct member *member)
{
	member->stream = fd_close(member->stream);
	member->socket = fd_close(member->socket);
}

static inline ssize_t write_number(const struct member *member, uint32_t number)
{
	const uint32_t record[] = { member->answer.index, number };

	return write(member->stream, record, sizeof(record)) < 0 ? -errno : (ssize_t)sizeof(record);
}
