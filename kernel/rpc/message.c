/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/rpc/message.h"

#include "kernel/probe.h"

bool message_op_gives_fd(enum kernel_op op)
{
	return message_op_makes(op) || op == KERNEL_DEPOSITED || op == KERNEL_PAGE_FETCH || op == KERNEL_STREAM_FETCH;
}

bool message_op_takes_fd(enum kernel_op op)
{
	return message_op_needs_fd(op) || op == KERNEL_STREAM_ADOPT;
}

bool message_op_needs_fd(enum kernel_op op)
{
	return op == KERNEL_DEPOSIT || op == KERNEL_PAGE_ADOPT;
}

bool message_op_makes(enum kernel_op op)
{
	return op == KERNEL_PAGE_NEW || op == KERNEL_STREAM_NEW;
}

struct kernel_call message_undo(const struct kernel_call *call)
{
	return (struct kernel_call){
		.op = call->op == KERNEL_PAGE_NEW ? KERNEL_PAGE_FREE : KERNEL_STREAM_FREE,
		.page = call->page,
		.stream = call->stream,
		.fd = -1,
	};
}

static void begin(struct packet *packet)
{
	packet_room(packet, sizeof(struct message_header));
}

static void end(struct packet *packet, enum message_kind kind, size_t count)
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

	begin(packet);
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
	end(packet, MESSAGE_CALLS, put);
	return put;
}

void message_put_answers(struct packet *packet, const struct kernel_call *calls, size_t n)
{
	begin(packet);
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
	end(packet, MESSAGE_ANSWERS, n);
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

	begin(packet);
	packet_put(packet, &raw, sizeof(raw));
	packet_put_padded(packet, facts->note, raw.note_length);
	end(packet, MESSAGE_READY, 1);
}

void message_put_failed(struct packet *packet, const char *sentence)
{
	uint32_t length = (uint32_t)strnlen(sentence, WIRE_SENTENCE_MAX);

	begin(packet);
	packet_put(packet, &length, sizeof(length));
	packet_put_padded(packet, sentence, length);
	end(packet, MESSAGE_FAILED, 1);
}

bool message_read(const void *packet, size_t size, struct message_header *ret, struct cursor *ret_body)
{
	struct cursor cursor = cursor_make(packet, size);

	cursor_get(&cursor, ret, sizeof(*ret));
	*ret_body = cursor;
	return !cursor.failed && ret->size == size && ret->kind >= MESSAGE_READY && ret->kind <= MESSAGE_ANSWERS;
}

/* Terminated, without zeros inside; false where it is not there or longer than `most`. */
static bool get_text(struct cursor *body, uint32_t length, uint32_t most, char *ret)
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

static bool may_have_fd(const struct message_call *raw)
{
	const enum kernel_op op = (enum kernel_op)raw->op;

	return raw->has_fd ? raw->has_fd == 1 && message_op_takes_fd(op) : !message_op_needs_fd(op);
}

bool message_next_call(struct cursor *body, struct kernel_call *ret, char *text, bool *ret_has_fd)
{
	struct message_call raw;

	cursor_get(body, &raw, sizeof(raw));
	if (body->failed || raw.op >= KERNEL_OP_MAX_ || raw.zero != 0 || !may_have_fd(&raw) ||
	    !get_text(body, raw.text_length, WIRE_TENANT_MAX, text))
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
	if (!get_text(&body, raw.note_length, sizeof(facts.note) - 1, facts.note) || !cursor_done(&body))
		return false;
	*ret = facts;
	return true;
}

bool message_get_failed(struct cursor body, char ret[WIRE_SENTENCE_MAX + 1])
{
	uint32_t length;

	cursor_get(&body, &length, sizeof(length));
	return !body.failed && get_text(&body, length, WIRE_SENTENCE_MAX, ret) && cursor_done(&body);
}
