/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A client with a page, a stream and a few events, which writes their records. */

#include <stdio.h>
#include <sys/mman.h>

#include "tests/integration/fixture.h"
#include "tests/integration/raw.h"

enum { MEMBER_EVENTS = 4 };

struct member {
	int socket;
	int stream; /* the last data file that it got; -1: none */
	const uint8_t *page;
	struct answer answer; /* to its first event */
	unsigned n;
	struct {
		struct answer answer;
		char name[48];
		unsigned written; /* records, and the sum of their first fields */
		uint64_t sum;
	} event[MEMBER_EVENTS];
};

/* Its number. */
static inline unsigned member_register(struct member *member, const char *description)
{
	int stream = -1;
	unsigned i = member->n++;
	uint32_t refusal;

	ck_assert_uint_lt(i, MEMBER_EVENTS);
	refusal = raw_register(member->socket, description, &member->event[i].answer, &stream);
	ck_assert_msg(refusal == 0, "%s was refused: %s", description, refusal_name(refusal));
	snprintf(member->event[i].name, sizeof(member->event[i].name), "%.*s", (int)strcspn(description, " "),
		 description);
	member->answer = member->event[0].answer;
	if (stream >= 0) {
		fd_close(member->stream);
		member->stream = stream;
	}
	return i;
}

/* Without a description it has no event yet. */
static inline struct member member_new(const struct fixture *fixture, const char *description)
{
	struct member member = { .stream = -1 };
	int page;

	member.socket = raw_hello(fixture->socket, 0, NULL, &page);
	member.page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	ck_assert_ptr_ne(member.page, MAP_FAILED);
	close(page);
	if (description)
		member_register(&member, description);
	return member;
}

static inline void member_free(struct member *member)
{
	if (member->page)
		munmap((void *)(uintptr_t)member->page, WIRE_PAGE_BYTES);
	member->page = NULL;
	member->stream = fd_close(member->stream);
	member->socket = fd_close(member->socket);
}

static inline bool member_is_on(const struct member *member, unsigned i)
{
	uint32_t bit = member->event[i].answer.bit;

	return __atomic_load_n(&member->page[bit / 8], __ATOMIC_ACQUIRE) >> bit % 8 & 1;
}

static inline ssize_t write_number(const struct member *member, uint32_t number)
{
	const uint32_t record[] = { member->answer.index, number };

	return write(member->stream, record, sizeof(record)) < 0 ? -errno : (ssize_t)sizeof(record);
}

/* A record that must be taken, and that expect_traced() then finds. */
static inline void member_emit(struct member *member, unsigned i, uint32_t number)
{
	const uint32_t record[] = { member->event[i].answer.index, number };

	ck_assert_int_eq(write(member->stream, record, sizeof(record)), sizeof(record));
	member->event[i].written++;
	member->event[i].sum += number;
}

static inline void expect_traced(struct fixture *fixture, const struct member *member, unsigned i)
{
	struct seen seen;

	see(fixture, member->event[i].name, &seen);
	ck_assert_uint_eq(seen.records, member->event[i].written);
	ck_assert_uint_eq(seen.sum, member->event[i].sum);
}
