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
	struct strings answers;

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
	static char texts[WIRE_BATCH_MAX + 1][128];
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
	raw_strings(KIND_REGISTER, 0, descriptions, n, 0);
}

static inline void send_register(int socket, const char *description)
{
	batch_put(&description, 1);
	ck_assert_int_eq(raw_send(socket), 0);
}

/* Sends the shared packet, which is a REGISTER, and reads the answer. */
static inline void batch_ask(int socket, struct batch *ret)
{
	raw_ask(socket, KIND_REGISTERED, &ret->reply);
	batch_read(ret);
	raw_reply_deinit(&ret->reply);
}

/* The refusal is that of each, or 0. */
static inline void batch_expect(const struct batch *batch, uint32_t refusal)
{
	for (size_t i = 0; i < batch->count; i++)
		ck_assert_msg(batch->answer[i].refusal == refusal, "%zu: %s: %.*s", i,
			      refusal_name(batch->answer[i].refusal), (int)batch->answer[i].length,
			      batch->answer[i].text);
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

/* All are granted. Their bits go to `ret_bits`, unless that is NULL; which stream the first one is on. */
static inline uint32_t take_batch(int socket, const char *const *descriptions, size_t n, uint32_t *ret_bits,
				  int *ret_stream)
{
	static struct batch batch;

	batch_register(socket, descriptions, n, &batch, ret_stream);
	batch_expect(&batch, 0);
	for (size_t i = 0; i < n && ret_bits; i++)
		ret_bits[i] = batch.answer[i].bit;
	return batch.answer[0].stream;
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

/* How many of n new events are granted; the others are beyond a maximum. A stream goes to `ret_stream`, unless that is NULL. */
static inline unsigned take_events(int socket, const char *name, unsigned n, int *ret_stream)
{
	unsigned taken = 0;
	char event[96];

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
	return taken;
}
