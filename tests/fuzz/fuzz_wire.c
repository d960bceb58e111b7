/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Packets, as daemon and clients decode them: what is accepted lies within the packet, and says what it seems to. */

#include "protocol/wire.h"
#include "tests/fuzz/fuzz.h"

static void look_at_strings(struct cursor body)
{
	struct strings strings;
	struct string_item item;
	unsigned n = 0, sum = 0;

	if (decode_strings(body, &strings) != 0)
		return;
	while (strings_next(&strings, &item)) {
		n++;
		for (size_t i = 0; i < item.length; i++)
			sum += (unsigned char)item.text[i];
	}
	require(n <= WIRE_PACKET_MAX && sum <= 255U * WIRE_PACKET_MAX);
}

static void look_at_answers(struct cursor body)
{
	struct answers answers;
	struct answer answer;
	unsigned sum = 0;

	if (decode_registered(body, &answers) != 0)
		return;
	while (answers_next(&answers, &answer))
		for (size_t i = 0; i < answer.length; i++)
			sum += (unsigned char)answer.text[i];
	require(sum <= 255U * WIRE_PACKET_MAX);
}

static void look_at_bits(struct cursor body)
{
	struct wire_changed changed;
	struct cursor bits;
	uint16_t count;

	if (decode_release(body, &count, &bits) == 0)
		for (unsigned i = 0; i < count; i++)
			release_next(&bits);
	if (decode_changed(body, &changed, &bits) == 0)
		require(bits.left <= body.left);
}

static void look_at_rows(struct cursor body)
{
	struct cursor rows, row;
	uint16_t count;

	if (decode_rows(body, &count, &rows) != 0)
		return;
	while (rows_next(&rows, &row))
		require(row.left <= body.left);
}

static void look_at_small_ones(struct cursor body)
{
	struct wire_hello hello;
	struct wire_welcome welcome;
	struct wire_released released;
	struct wire_account account;
	struct wire_watch watch;
	struct wire_lost lost;
	struct string_item text = { 0 };
	uint32_t refusal;

	decode_hello(body, &hello);
	decode_released(body, &released);
	decode_account(body, &account);
	decode_watch(body, &watch);
	decode_lost(body, &lost);
	decode_empty(body);
	if (decode_welcome(body, &welcome, &text) == 0)
		require(text.length <= body.left);
	if (decode_error(body, &refusal, &text) == 0)
		require(text.length <= body.left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) void *packet = exactly(data, size);
	struct message message;

	if (decode_message(packet, size, &message) != 0)
		return 0;
	require(message.body.left <= size && message.streams <= WIRE_FDS_MAX);
	/* As a client may hear, and as the daemon may: whatever the kind is. */
	look_at_small_ones(message.body);
	look_at_strings(message.body);
	look_at_answers(message.body);
	look_at_bits(message.body);
	look_at_rows(message.body);
	return 0;
}
