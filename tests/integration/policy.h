/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Events that a policy grants and refuses, as clients and admins see them. */

#include <signal.h>

#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"

/* Without it, a later description with other fields is not refused where the kernel can have both. */
#define ONE_FORMAT "[/**]\nAllowMultiFormat=no\n"

/* Returns the event's bit. */
static inline uint32_t expect_granted(int socket, const char *description)
{
	static struct batch batch;

	batch_register(socket, &description, 1, &batch, NULL);
	ck_assert_msg(batch.answer[0].refusal == 0, "%s: %s: %.*s", description, refusal_name(batch.answer[0].refusal),
		      (int)batch.answer[0].length, batch.answer[0].text);
	return batch.answer[0].bit;
}

/* `words` have to be in the sentence. */
static inline void expect_refusal(int socket, const char *description, uint32_t refusal, const char *words)
{
	char sentence[256];
	uint32_t got = register_one(socket, description, sentence, sizeof(sentence));

	ck_assert_msg(got == refusal, "%s: %s instead of %s: %s", description, refusal_name(got), refusal_name(refusal),
		      sentence);
	ck_assert_msg(strstr(sentence, words), "'%s' is not in '%s'", words, sentence);
}

/* Events of that name with a number behind it. */
static inline void expect_granted_many(int socket, const char *name, unsigned n)
{
	char description[64];

	for (unsigned i = 0; i < n; i++) {
		snprintf(description, sizeof(description), "%s%u", name, i);
		expect_granted(socket, description);
	}
}

/* `userevctl reload` ends with this exit status, and prints these words. */
static inline void expect_reload(const struct fixture *fixture, int wanted, const char *words)
{
	char output[4096];
	int status = run_command(fixture, output, sizeof(output),
				 (const char *const[]){ built("userevctl"), "reload", NULL });

	ck_assert_msg(status == wanted, "exit status %d: %s", status, output);
	ck_assert_msg(strstr(output, words), "'%s' is not in '%s'", words, output);
}

static inline void change_policy(const struct fixture *fixture, const char *text)
{
	fixture_write_policy(fixture, text);
	expect_reload(fixture, 0, "loaded: ");
}

/* Rows of one answer to RELOAD. */
struct answered {
	unsigned rows, loaded;
	uint64_t sections;
};

static inline void read_answer(void *data, struct cursor row)
{
	struct answered *answered = data;

	answered->rows++;
	answered->loaded += row_get_u64(row, "loaded") == 1;
	answered->sections = row_get_u64(row, "sections");
}

static inline void receive_reload(int control, struct answered *ret)
{
	struct raw_reply reply = { .message.flags = WIRE_MORE };
	struct cursor rows, row;
	uint16_t n;

	*ret = (struct answered){ 0 };
	do {
		raw_receive(control, &reply);
		ck_assert_msg(reply.size > 0, "no answer: %zd", reply.size);
		ck_assert_int_eq(reply.message.kind, KIND_ROWS);
		ck_assert_int_eq(decode_rows(reply.message.body, &n, &rows), 0);
		while (rows_next(&rows, &row))
			read_answer(ret, row);
	} while (reply.message.flags & WIRE_MORE);
}
