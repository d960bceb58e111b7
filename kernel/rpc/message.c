/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/rpc/message.h"

#include "kernel/probe.h"

static const struct {
	bool gives_fd;
	bool takes_fd;
	bool needs_fd;
	enum kernel_op undo; /* frees what the call makes */
} ops[KERNEL_OP_MAX_] = {
	[KERNEL_PAGE_NEW] = { .gives_fd = true, .undo = KERNEL_PAGE_FREE },
	[KERNEL_STREAM_NEW] = { .gives_fd = true, .undo = KERNEL_STREAM_FREE },
	[KERNEL_DEPOSITED] = { .gives_fd = true },
	[KERNEL_PAGE_FETCH] = { .gives_fd = true },
	[KERNEL_STREAM_FETCH] = { .gives_fd = true },
	[KERNEL_DEPOSIT] = { .takes_fd = true, .needs_fd = true },
	[KERNEL_PAGE_ADOPT] = { .takes_fd = true, .needs_fd = true },
	[KERNEL_STREAM_ADOPT] = { .takes_fd = true },
};

bool message_op_gives_fd(enum kernel_op op)
{
	return op < KERNEL_OP_MAX_ && ops[op].gives_fd;
}

bool message_op_takes_fd(enum kernel_op op)
{
	return op < KERNEL_OP_MAX_ && ops[op].takes_fd;
}

bool message_op_needs_fd(enum kernel_op op)
{
	return op < KERNEL_OP_MAX_ && ops[op].needs_fd;
}

bool message_op_makes(enum kernel_op op)
{
	return op < KERNEL_OP_MAX_ && ops[op].undo != 0;
}

struct kernel_call message_undo(const struct kernel_call *call)
{
	return (struct kernel_call){
		.op = ops[call->op].undo,
		.page = call->page,
		.stream = call->stream,
		.fd = -1,
	};
}

static void message_begin(struct packet *packet)
{
	packet_room(packet, sizeof(struct message_header));
}

static void message_end(struct packet *packet, enum message_kind kind, size_t count)
{
	const struct message_header header = {
		.size = (uint32_t)packet->size,
		.kind = (uint16_t)kind,
		.count = (uint16_t)count,
	};

	if (!packet->failed)
		memcpy(packet->data, &header, sizeof(header));
}

static bool has_fd(const struct kernel_call *call)
{
	return message_op_takes_fd(call->op) && call->fd >= 0;
}

static void put_call(struct packet *packet, const struct kernel_call *call)
{
	const struct message_call raw = {
		.op = (uint16_t)call->op,
		.flags = call->flags,
		.page = call->page,
		.stream = call->stream,
		.bit = call->bit,
		.number = call->number,
		.index = call->index,
		.has_fd = has_fd(call),
		.text_length = call->text ? (uint32_t)strlen(call->text) : 0,
	};

	packet_put(packet, &raw, sizeof(raw));
	if (raw.text_length > 0)
		packet_put_padded(packet, call->text, raw.text_length);
}

size_t message_put_calls(struct packet *packet, const struct kernel_call *calls, size_t n)
{
	size_t put = 0, there = 0, back = 0;

	message_begin(packet);
	while (put < n && put < MESSAGE_CALLS_MAX) {
		size_t before = packet->size;

		there += has_fd(&calls[put]);
		back += message_op_gives_fd(calls[put].op);
		if (there > MESSAGE_FDS_MAX || back > MESSAGE_FDS_MAX)
			break;

		put_call(packet, &calls[put]);
		if (packet->failed) {
			packet->size = before;
			packet->failed = put == 0;
			break;
		}
		put++;
	}
	message_end(packet, MESSAGE_CALLS, put);
	return put;
}

void message_put_answers(struct packet *packet, const struct kernel_call *calls, size_t n)
{
	message_begin(packet);
	for (size_t i = 0; i < n; i++) {
		const struct message_answer raw = {
			.result = calls[i].result,
			.bit = calls[i].bit,
			.index = calls[i].index,
			.has_fd = calls[i].fd >= 0,
			.number = calls[i].number,
		};

		packet_put(packet, &raw, sizeof(raw));
	}
	message_end(packet, MESSAGE_ANSWERS, n);
}

void message_put_ready(struct packet *packet, const struct kernel_facts *facts)
{
	const struct message_ready raw = {
		.backend = facts->backend,
		.flags = facts->flags,
		.guarded = facts->guarded,
		.shared_page = facts->shared_page,
		.deposits = facts->deposits,
		.note_length = (uint16_t)strlen(facts->note),
		.page_bits = facts->page_bits,
		.capacity = facts->capacity,
		.payload_max = facts->payload_max,
	};

	message_begin(packet);
	packet_put(packet, &raw, sizeof(raw));
	packet_put_padded(packet, facts->note, raw.note_length);
	message_end(packet, MESSAGE_READY, 1);
}

void message_put_failed(struct packet *packet, const char *sentence)
{
	uint32_t length = (uint32_t)strnlen(sentence, WIRE_SENTENCE_MAX);

	message_begin(packet);
	packet_put(packet, &length, sizeof(length));
	packet_put_padded(packet, sentence, length);
	message_end(packet, MESSAGE_FAILED, 1);
}

bool message_read(const void *packet, size_t size, struct message_header *ret, struct cursor *ret_body)
{
	struct cursor cursor = cursor_make(packet, size);

	cursor_get(&cursor, ret, sizeof(*ret));
	*ret_body = cursor;
	return !cursor.failed && ret->size == size && ret->kind >= MESSAGE_READY && ret->kind <= MESSAGE_ANSWERS;
}

/* Copies a text and terminates it. False: it is missing, longer than `most`, or has a NUL inside. */
static bool message_get_text(struct cursor *body, uint32_t length, uint32_t most, char *ret)
{
	static const char zeros[4];
	const char *from;

	if (length > most)
		return false;
	from = cursor_take(body, length + padding(length));
	if (!from || memchr(from, '\0', length) || memcmp(from + length, zeros, padding(length)) != 0)
		return false;
	memcpy(ret, from, length);
	ret[length] = '\0';
	return true;
}

bool message_next_call(struct cursor *body, struct kernel_call *ret, char *text, bool *ret_has_fd)
{
	struct message_call raw;

	cursor_get(body, &raw, sizeof(raw));
	if (body->failed || raw.op >= KERNEL_OP_MAX_ || raw.zero != 0 || raw.has_fd > ops[raw.op].takes_fd ||
	    raw.has_fd < ops[raw.op].needs_fd || !message_get_text(body, raw.text_length, WIRE_TENANT_MAX, text))
		return false;
	*ret = (struct kernel_call){
		.op = (enum kernel_op)raw.op,
		.flags = raw.flags,
		.page = raw.page,
		.stream = raw.stream,
		.bit = raw.bit,
		.number = raw.number,
		.index = raw.index,
		.text = text,
		.fd = -1,
	};
	*ret_has_fd = raw.has_fd;
	return true;
}

bool message_next_answer(struct cursor *body, struct kernel_call *call, bool *ret_has_fd)
{
	struct message_answer raw;

	cursor_get(body, &raw, sizeof(raw));
	if (body->failed || raw.has_fd > 1 || (raw.has_fd && !message_op_gives_fd(call->op)))
		return false;
	call->result = raw.result;
	call->bit = raw.bit;
	call->index = raw.index;
	call->number = raw.number;
	*ret_has_fd = raw.has_fd;
	return true;
}

bool message_get_ready(struct cursor body, struct kernel_facts *ret)
{
	struct message_ready raw;
	struct kernel_facts facts;

	cursor_get(&body, &raw, sizeof(raw));
	if (body.failed || raw.page_bits == 0 || raw.page_bits > WIRE_PAGE_BITS || raw.guarded > 1 ||
	    raw.shared_page > 1 || raw.deposits > 1 || raw.zero != 0 || raw.zeros != 0 ||
	    (raw.backend != BACKEND_STATUS_PAGE && raw.backend != BACKEND_ENABLE_ADDRESS))
		return false;
	facts = (struct kernel_facts){
		.backend = raw.backend,
		.name = backend_name(raw.backend),
		.guarded = raw.guarded,
		.shared_page = raw.shared_page,
		.deposits = raw.deposits,
		.flags = raw.flags,
		.page_bits = raw.page_bits,
		.capacity = raw.capacity,
		.payload_max = raw.payload_max,
	};
	if (!message_get_text(&body, raw.note_length, sizeof(facts.note) - 1, facts.note) || !cursor_done(&body))
		return false;
	*ret = facts;
	return true;
}

bool message_get_failed(struct cursor body, char ret[WIRE_SENTENCE_MAX + 1])
{
	uint32_t length;

	cursor_get(&body, &length, sizeof(length));
	return !body.failed && message_get_text(&body, length, WIRE_SENTENCE_MAX, ret) && cursor_done(&body);
}
