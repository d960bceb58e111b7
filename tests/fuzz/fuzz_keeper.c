/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Messages between daemon and keeper, as each of them reads the other's. */

#include "kernel/rpc/message.h"
#include "tests/fuzz/fuzz.h"

static void read_calls(struct message_packet *message)
{
	_cleanup_(freep) char *text = malloc(WIRE_TENANT_MAX + 1 + message->body.left);
	struct kernel_call call;

	require(text);
	for (unsigned n = message->header.count; n > 0 && message_next_call(message, &call, text); n--) {
		require(call.op < KERNEL_OP_MAX_);
		require(call.result == 0 || message_op(call.op)->takes_fd);
		require(strlen(call.text) <= WIRE_TENANT_MAX);
	}
}

static void read_answers(struct message_packet *message)
{
	bool lost;

	for (unsigned i = 0; i < message->header.count; i++) {
		struct kernel_call call = { .op = (enum kernel_op)(i % KERNEL_OP_MAX_), .fd = -1 };

		if (!message_next_answer(message, &call, &lost))
			return;
		require(!lost || message_op(call.op)->gives_fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) void *packet = exactly(data, size);
	struct message_packet *message = calloc(1, sizeof(*message));
	const struct cursor body = cursor_make(packet, size);
	struct kernel_facts facts;

	require(message);
	message->body = body;
	cursor_get(&message->body, &message->header, sizeof(message->header));
	if (message_get_facts(message, &facts))
		require(memchr(facts.note, 0, sizeof(facts.note)));
	read_calls(message);
	message->body = body;
	cursor_get(&message->body, &message->header, sizeof(message->header));
	read_answers(message);
	free(message);
	return 0;
}
