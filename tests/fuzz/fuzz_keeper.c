/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Messages between daemon and keeper; neither trusts the other. */

#include <sys/socket.h>

#include "kernel/rpc/message.h"
#include "tests/fuzz/fuzz.h"

static void look_at_calls(struct message_packet message)
{
	const size_t room = WIRE_TENANT_MAX + 1 + message.body.left;
	_cleanup_(freep) char *texts = malloc(room);
	char *text = texts;
	struct kernel_call call;

	require(texts);
	for (unsigned i = 0; i < message.header.count && message_next_call(&message, &call, &text); i++) {
		require(call.op < KERNEL_OP_MAX_);
		require(text <= texts + room && text == call.text + strlen(call.text) + 1);
		require(call.fd < 0);
		require(!message_op(call.op)->needs_fd || call.result == -EMFILE);
	}
}

static void look_at_answers(struct message_packet message)
{
	for (unsigned i = 0; i < message.header.count; i++) {
		struct kernel_call call = { .op = (enum kernel_op)(i % KERNEL_OP_MAX_), .fd = -1 };

		if (!message_next_answer(&message, &call))
			return;
		require(call.fd < 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct message_packet message; /* large */
	static int ends[2];
	struct kernel_facts facts;

	if (ends[0] == ends[1])
		require(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	/* An empty packet is the end of the connection. */
	if (size == 0 || send(ends[0], data, size, 0) < 0 || message_receive(ends[1], &message) <= 0)
		return 0;
	look_at_calls(message);
	look_at_answers(message);
	if (message_get_facts(&message, &facts))
		require(memchr(facts.note, 0, sizeof(facts.note)));
	fdset_deinit(&message.fds);
	return 0;
}
