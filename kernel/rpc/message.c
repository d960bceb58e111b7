/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/rpc/message.h"

#include "protocol/transport.h"

const struct message_op *message_op(enum kernel_op op)
{
	static const struct message_op ops[KERNEL_OP_MAX_ + 1] = {
		[KERNEL_PAGE_NEW] = { .gives_fd = true, .undo = KERNEL_PAGE_FREE },
		[KERNEL_STREAM_NEW] = { .gives_fd = true, .undo = KERNEL_STREAM_FREE },
		[KERNEL_DEPOSITED] = { .gives_fd = true },
		[KERNEL_PAGE_FETCH] = { .gives_fd = true },
		[KERNEL_STREAM_FETCH] = { .gives_fd = true },
		[KERNEL_DEPOSIT] = { .takes_fd = true, .needs_fd = true },
		[KERNEL_PAGE_ADOPT] = { .takes_fd = true, .needs_fd = true },
		[KERNEL_STREAM_ADOPT] = { .takes_fd = true },
		[KERNEL_NATIVE] = { .gives_fd = true },
	};

	return &ops[MIN(op, KERNEL_OP_MAX_)];
}

/* --- sending --- */

static bool has_fd(enum message_kind kind, const struct kernel_call *call)
{
	return call->fd >= 0 && (kind == MESSAGE_ANSWERS || message_op(call->op)->takes_fd);
}

size_t message_put(struct packet *packet, enum message_kind kind, const struct kernel_call *calls, size_t n)
{
	struct message_header header = { .kind = (uint16_t)kind };
	size_t there = 0, back = 0;

	packet_room(packet, sizeof(header));
	for (; header.count < MIN(n, (size_t)MESSAGE_CALLS_MAX); header.count++) {
		const struct kernel_call *call = &calls[header.count];
		const char *text = kind == MESSAGE_CALLS && call->text ? call->text : "";
		const struct message_end end = { has_fd(kind, call), (uint32_t)strlen(text) };
		const size_t before = packet->size;

		there += end.has_fd;
		back += kind == MESSAGE_CALLS && message_op(call->op)->gives_fd;
		if (there > MESSAGE_FDS_MAX || back > MESSAGE_FDS_MAX)
			break;
		packet_put(packet, call, MESSAGE_CALL_BYTES);
		packet_put(packet, &end, sizeof(end));
		packet_put_padded(packet, text, end.text_length);
		if (packet->failed) {
			packet->size = before;
			packet->failed = header.count == 0;
			break;
		}
	}
	header.size = (uint32_t)packet->size;
	if (!packet->failed)
		memcpy(packet->data, &header, sizeof(header));
	return header.count;
}

int message_send(int socket, uint8_t room[MESSAGE_MAX], enum message_kind kind, const struct kernel_call *calls,
		 size_t n)
{
	struct packet packet = packet_make(room, MESSAGE_MAX);
	int fds[MESSAGE_FDS_MAX], r;
	size_t n_fds = 0;

	n = message_put(&packet, kind, calls, n);
	if (n == 0)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		if (has_fd(kind, &calls[i]))
			fds[n_fds++] = calls[i].fd;
	r = transport_send(socket, packet.data, packet.size, fds, n_fds, kind == MESSAGE_CALLS ? MSG_DONTWAIT : 0);
	return r < 0 ? r : (int)n;
}

int message_send_facts(int socket, enum message_kind kind, const struct kernel_facts *facts)
{
	struct {
		struct message_header header;
		struct kernel_facts facts;
	} packet = { .header = { .size = sizeof(packet), .kind = (uint16_t)kind, .count = 1 }, .facts = *facts };

	return transport_send(socket, &packet, sizeof(packet), NULL, 0, 0);
}

/* --- receiving --- */

int message_receive(int socket, struct message_packet *ret)
{
	ssize_t size;

	ret->next_fd = 0;
	ret->fds.count = 0;
	ret->fds_lost = false;
	size = transport_receive_first_fds(socket, ret->packet, sizeof(ret->packet), &ret->fds, &ret->fds_lost,
					   MSG_DONTWAIT);
	if (size <= 0)
		return (int)size;
	ret->body = cursor_make(ret->packet, (size_t)size);
	cursor_get(&ret->body, &ret->header, sizeof(ret->header));
	return !ret->body.failed && ret->header.size == (size_t)size ? 1 : -EPROTO;
}

bool message_next_call(struct message_packet *message, struct kernel_call *ret, char **text)
{
	static const char zeros[4];
	const struct message_op *op;
	struct message_end end;
	const char *from;

	*ret = (struct kernel_call){ .text = *text, .fd = -1 };
	cursor_get(&message->body, ret, MESSAGE_CALL_BYTES);
	cursor_get(&message->body, &end, sizeof(end));
	op = message_op(ret->op);
	ret->result = 0;
	if (message->body.failed || ret->op >= KERNEL_OP_MAX_ || end.has_fd > op->takes_fd ||
	    end.has_fd < op->needs_fd || end.text_length > WIRE_TENANT_MAX)
		return false;
	from = cursor_take(&message->body, end.text_length + padding(end.text_length));
	if (!from || memchr(from, '\0', end.text_length) ||
	    memcmp(from + end.text_length, zeros, padding(end.text_length)) != 0)
		return false;
	memcpy(*text, from, end.text_length);
	(*text)[end.text_length] = '\0';
	if (end.has_fd)
		ret->fd = fdset_steal(&message->fds, message->next_fd++);
	if (end.has_fd && ret->fd < 0)
		ret->result = -EMFILE;
	*text += end.text_length + 1;
	return true;
}

bool message_next_answer(struct message_packet *message, struct kernel_call *call)
{
	struct message_end end;
	struct kernel_call answer;

	cursor_get(&message->body, &answer, MESSAGE_CALL_BYTES);
	cursor_get(&message->body, &end, sizeof(end));
	if (message->body.failed || end.text_length != 0 ||
	    end.has_fd != (answer.result == KERNEL_OK && message_op(call->op)->gives_fd))
		return false;
	call->result = answer.result;
	call->bit = answer.bit;
	call->index = answer.index;
	call->number = answer.number;
	if (!end.has_fd)
		return true;
	call->fd = fdset_steal(&message->fds, message->next_fd++);
	if (call->fd < 0)
		call->result = -EMFILE;
	return call->fd >= 0 || message->fds_lost;
}

bool message_is_done(const struct message_packet *message)
{
	const size_t came = message->fds.count;

	return cursor_done(&message->body) && (message->fds_lost ? message->next_fd > came : message->next_fd == came);
}

bool message_get_facts(const struct message_packet *message, struct kernel_facts *ret)
{
	struct cursor body = message->body;
	struct kernel_facts facts;

	cursor_get(&body, &facts, sizeof(facts));
	if (!cursor_done(&body) || !memchr(facts.note, '\0', sizeof(facts.note)))
		return false;
	if (message->header.kind == MESSAGE_READY &&
	    (facts.page_bits == 0 || facts.page_bits > WIRE_PAGE_BITS || facts.guarded > 1 || facts.shared_page > 1 ||
	     facts.deposits > 1 || (facts.backend != BACKEND_STATUS_PAGE && facts.backend != BACKEND_ENABLE_ADDRESS)))
		return false;
	*ret = facts;
	return true;
}
