/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Structs → bytes. Encoding does not fail half-way: a packet without room is marked as failed. */

#include "protocol/layout.h"
#include "protocol/wire.h"

void encode_begin(struct packet *packet, uint16_t kind, uint32_t serial, uint8_t flags, const uint32_t *streams,
		  uint8_t n)
{
	const struct wire_header header = { .kind = kind, .flags = flags, .streams = n, .serial = serial };

	packet->size = 0;
	packet->failed = false;
	layout_put(packet, LAYOUT_HEADER, &header, sizeof(header));
	for (size_t i = 0; i < n; i++)
		layout_put(packet, LAYOUT_NUMBER, &streams[i], sizeof(streams[i]));
}

static void fill_in_u32(struct packet *packet, size_t mark, size_t number)
{
	const uint32_t wire = htole32((uint32_t)number);

	if (!packet->failed)
		memcpy(packet->data + mark, &wire, sizeof(wire));
}

void encode_end(struct packet *packet)
{
	fill_in_u32(packet, offsetof(struct wire_header, size), packet->size);
}

size_t encode_list(struct packet *packet, uint16_t flags)
{
	const struct wire_strings head = { .flags = flags };
	size_t mark = packet->size;

	layout_put(packet, LAYOUT_PAIR, &head, sizeof(head));
	return mark;
}

void encode_count(struct packet *packet, size_t mark, uint16_t count)
{
	const uint16_t wire = htole16(count);

	if (!packet->failed)
		memcpy(packet->data + mark, &wire, sizeof(wire));
}

void encode_fixed(struct packet *packet, uint16_t kind, const void *body)
{
	layout_put(packet, fixed_bodies[kind].layout, body, fixed_bodies[kind].size);
}

void encode_welcome(struct packet *packet, const struct wire_welcome *welcome, const char *tenant)
{
	struct wire_welcome wire = *welcome;

	wire.tenant_length = (uint16_t)strnlen(tenant, WIRE_TENANT_MAX);
	wire.zero = 0;
	layout_put(packet, LAYOUT_WELCOME, &wire, sizeof(wire));
	packet_put(packet, tenant, wire.tenant_length);
}

void encode_string(struct packet *packet, uint16_t flags, const char *text, size_t length)
{
	const struct wire_string head = { .flags = flags, .length = (uint16_t)length };

	if (length > UINT16_MAX) {
		packet->failed = true;
		return;
	}
	layout_put(packet, LAYOUT_PAIR, &head, sizeof(head));
	packet_put_padded(packet, text, length);
}

void encode_answer(struct packet *packet, const struct answer *answer)
{
	const struct wire_answer head = {
		.refusal = (uint16_t)answer->refusal,
		.length = (uint16_t)MIN(answer->length, WIRE_SENTENCE_MAX),
		.bit = answer->bit,
		.stream = answer->stream,
		.index = answer->index,
	};

	layout_put(packet, LAYOUT_ANSWER, &head, sizeof(head));
	packet_put_padded(packet, answer->text, head.length);
}

void encode_release_bit(struct packet *packet, uint32_t bit)
{
	layout_put(packet, LAYOUT_NUMBER, &bit, sizeof(bit));
}

size_t encode_changed(struct packet *packet, uint32_t payload_max)
{
	const struct wire_changed wire = { .payload_max = payload_max };
	size_t mark = packet->size + offsetof(struct wire_changed, count);

	layout_put(packet, LAYOUT_CHANGED, &wire, sizeof(wire));
	return mark;
}

void encode_changed_bit(struct packet *packet, uint32_t bit)
{
	const uint16_t wire = htole16((uint16_t)bit);

	packet_put(packet, &wire, sizeof(wire));
}

void encode_error(struct packet *packet, uint32_t refusal, const char *sentence)
{
	const struct wire_error wire = {
		.refusal = (uint16_t)refusal,
		.length = (uint16_t)strnlen(sentence, WIRE_SENTENCE_MAX),
	};

	layout_put(packet, LAYOUT_PAIR, &wire, sizeof(wire));
	packet_put(packet, sentence, wire.length);
}

size_t encode_row_begin(struct packet *packet)
{
	size_t mark = packet->size;

	layout_put(packet, LAYOUT_NUMBER, &(uint32_t){ 0 }, sizeof(uint32_t));
	return mark;
}

void encode_row_end(struct packet *packet, size_t mark)
{
	fill_in_u32(packet, mark, packet->size - mark - sizeof(uint32_t));
}
