/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Many events asked for in one packet. */

#include <stdio.h>

#include "tests/integration/raw.h"

struct batch {
	struct raw_reply reply;
	uint16_t count;
	struct answer answer[WIRE_BATCH_MAX]; /* their texts lie in the reply */
};

static inline void batch_read(struct batch *batch)
{
	struct answers answers;

	ck_assert_msg(batch->reply.size > 0, "no answer: %zd", batch->reply.size);
	ck_assert_uint_eq(batch->reply.message.kind, KIND_REGISTERED);
	ck_assert_int_eq(decode_registered(batch->reply.message.body, &answers), 0);
	batch->count = answers.count;
	for (size_t i = 0; answers_next(&answers, &batch->answer[i]); i++)
		;
}

/* `n` texts, each with a number from `from` on, until the next call. */
static inline const char *const *numbered(const char *format, unsigned from, unsigned n)
{
	static char texts[WIRE_BATCH_MAX + 1][64];
	static const char *all[ARRAY_SIZE(texts)];

	for (unsigned i = 0; i < n; i++) {
		snprintf(texts[i], sizeof(texts[i]), format, from + i);
		all[i] = texts[i];
	}
	return all;
}

/* Into the shared packet, for raw_send(). */
static inline void batch_put(const char *const *descriptions, size_t n)
{
	struct packet *to = raw_packet(KIND_REGISTER);
	size_t mark = encode_strings(to, 0);

	for (size_t i = 0; i < n; i++)
		encode_string(to, 0, descriptions[i], strlen(descriptions[i]));
	encode_count(to, mark, (uint16_t)n);
}

static inline void send_register(int socket, const char *description)
{
	batch_put(&description, 1);
	ck_assert_int_eq(raw_send(socket), 0);
}

/* The stream goes to `ret_stream` if one came, unless that is NULL. */
static inline void batch_register(int socket, const char *const *descriptions, size_t n, struct batch *ret,
				  int *ret_stream)
{
	batch_put(descriptions, n);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &ret->reply);
	batch_read(ret);
	ck_assert_uint_eq(ret->count, n);
	if (ret_stream && ret->reply.fds.count == 1)
		*ret_stream = fdset_steal(&ret->reply.fds, 0);
	raw_reply_deinit(&ret->reply);
}

/* One event: 0, or its refusal with the sentence. */
static inline uint32_t register_one(int socket, const char *description, char *ret_sentence, size_t size)
{
	static struct batch batch;

	batch_register(socket, &description, 1, &batch, NULL);
	snprintf(ret_sentence, size, "%.*s", (int)batch.answer[0].length,
		 batch.answer[0].text ? batch.answer[0].text : "");
	return batch.answer[0].refusal;
}
