/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "kernel/rpc/message.h"

/* A call or an answer on its way between daemon and keeper, without its text: each of them may be older than the other. */
struct raw_call {
	uint16_t op;
	uint16_t flags;
	uint32_t page;
	uint32_t stream;
	uint32_t bit;
	uint32_t index;
	int32_t result;
	uint64_t number;
	uint32_t has_fd;
	uint32_t text_length;
};
_Static_assert(sizeof(struct raw_call) == MESSAGE_CALL_BYTES + sizeof(struct message_end), "what the code sends");
