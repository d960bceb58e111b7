/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Messages between daemon and keeper; neither trusts the other. */

#include "kernel/rpc/message.h"
#include "tests/fuzz/fuzz.h"

static void look_at_calls(struct cursor body, unsigned count)
{
	_cleanup_(freep) char *text = malloc(WIRE_TENANT_MAX + 1 + body.left);
	struct kernel_call call;
	bool has_fd;

	require(text);
	while (count-- > 0 && message_next_call(&body, &call, text, &has_fd)) {
		require(call.op < KERNEL_OP_MAX_);
		require(!has_fd || message_op_takes_fd(call.op));
		require(!call.text || strlen(call.text) <= WIRE_TENANT_MAX + body.left);
		if (message_op_makes(call.op))
			message_undo(&call);
	}
}

static void look_at_answers(struct cursor body, unsigned count)
{
	bool has_fd;

	for (unsigned i = 0; i < count; i++) {
		struct kernel_call call = { .op = (enum kernel_op)(i % KERNEL_OP_MAX_), .fd = -1 };

		if (!message_next_answer(&body, &call, &has_fd))
			return;
		require(!has_fd || message_op_gives_fd(call.op));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) void *packet = exactly(data, size);
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct message_header header;
	struct kernel_facts facts;
	struct cursor body;

	if (!message_read(packet, size, &header, &body))
		return 0;
	look_at_calls(body, header.count);
	look_at_answers(body, header.count);
	if (message_get_ready(body, &facts))
		require(memchr(facts.note, 0, sizeof(facts.note)));
	if (message_get_failed(body, sentence))
		require(memchr(sentence, 0, sizeof(sentence)));
	return 0;
}
