/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Structs → bytes. Nothing fails half-way: a packet that ran out of room says so at its end. */

#include "protocol/wire.h"

void encode_begin(struct packet *packet, uint16_t kind, uint32_t serial, uint8_t flags, const uint32_t *streams,
		  uint8_t n)
{
	struct wire_header header = {
		.kind = htole16(kind),
		.flags = flags,
		.streams = n,
		.serial = htole32(serial),
	};

	packet->size = 0;
	packet->failed = false;
	packet_put(packet, &header, sizeof(header));
	for (size_t i = 0; i < n; i++) {
		uint32_t stream = htole32(streams[i]);
		packet_put(packet, &stream, sizeof(stream));
	}
}

void encode_end(struct packet *packet)
{
	uint32_t size = htole32((uint32_t)packet->size);

	if (!packet->failed)
		memcpy(packet->data + offsetof(struct wire_header, size), &size, sizeof(size));
}

void encode_hello(struct packet *packet, const struct wire_hello *hello)
{
	struct wire_hello wire = { .understands = htole64(hello->understands), .needs = htole64(hello->needs) };

	packet_put(packet, &wire, sizeof(wire));
}

void encode_welcome(struct packet *packet, const struct wire_welcome *welcome, const char *tenant)
{
	size_t length = strnlen(tenant, WIRE_TENANT_MAX);
	struct wire_welcome wire = {
		.features = htole64(welcome->features),
		.page_bytes = htole32(welcome->page_bytes),
		.page_bits = htole32(welcome->page_bits),
		.payload_max = htole32(welcome->payload_max),
		.packet_max = htole32(welcome->packet_max),
		.batch_max = htole32(welcome->batch_max),
		.events_max = htole32(welcome->events_max),
		.backend = htole16(welcome->backend),
		.tenant_length = htole16((uint16_t)length),
	};

	packet_put(packet, &wire, sizeof(wire));
	packet_put(packet, tenant, length);
}

size_t encode_strings(struct packet *packet, uint16_t flags)
{
	struct wire_strings wire = { .flags = htole16(flags) };
	size_t mark = packet->size;

	packet_put(packet, &wire, sizeof(wire));
	return mark;
}

void encode_string(struct packet *packet, uint16_t flags, const char *text, size_t length)
{
	struct wire_string wire = { .flags = htole16(flags), .length = htole16((uint16_t)length) };

	if (length > UINT16_MAX) {
		packet->failed = true;
		return;
	}
	packet_put(packet, &wire, sizeof(wire));
	packet_put_padded(packet, text, length);
}

size_t encode_answers(struct packet *packet)
{
	struct wire_registered wire = { 0 };
	size_t mark = packet->size;

	packet_put(packet, &wire, sizeof(wire));
	return mark;
}

void encode_answer(struct packet *packet, const struct answer *answer)
{
	size_t length = MIN(answer->length, WIRE_SENTENCE_MAX);
	struct wire_answer wire = {
		.refusal = htole16((uint16_t)answer->refusal),
		.length = htole16((uint16_t)length),
		.bit = htole32(answer->bit),
		.stream = htole32(answer->stream),
		.index = htole32(answer->index),
	};

	packet_put(packet, &wire, sizeof(wire));
	packet_put_padded(packet, answer->text, length);
}

size_t encode_release(struct packet *packet)
{
	struct wire_release wire = { 0 };
	size_t mark = packet->size;

	packet_put(packet, &wire, sizeof(wire));
	return mark;
}

void encode_release_bit(struct packet *packet, uint32_t bit)
{
	uint32_t wire = htole32(bit);

	packet_put(packet, &wire, sizeof(wire));
}

void encode_released(struct packet *packet, const struct wire_released *released)
{
	struct wire_released wire = {
		.released = htole16(released->released),
		.not_held = htole16(released->not_held),
	};

	packet_put(packet, &wire, sizeof(wire));
}

void encode_account(struct packet *packet, const struct wire_account *account)
{
	struct wire_account wire = {
		.events = htole32(account->events),
		.events_max = htole32(account->events_max),
		.lingering = htole32(account->lingering),
		.leases = htole32(account->leases),
		.connections = htole32(account->connections),
		.lost = htole64(account->lost),
		.records = htole64(account->records),
		.bad = htole64(account->bad),
	};

	packet_put(packet, &wire, sizeof(wire));
}

void encode_watch(struct packet *packet, const struct wire_watch *watch)
{
	struct wire_watch wire = { .on = htole32(watch->on) };

	packet_put(packet, &wire, sizeof(wire));
}

size_t encode_changed(struct packet *packet, uint32_t payload_max)
{
	struct wire_changed wire = { .payload_max = htole32(payload_max) };
	size_t mark = packet->size + offsetof(struct wire_changed, count);

	packet_put(packet, &wire, sizeof(wire));
	return mark;
}

void encode_changed_bit(struct packet *packet, uint32_t bit)
{
	uint16_t wire = htole16((uint16_t)bit);

	packet_put(packet, &wire, sizeof(wire));
}

void encode_lost(struct packet *packet, const struct wire_lost *lost)
{
	struct wire_lost wire = { .queue_full = htole64(lost->queue_full), .too_big = htole64(lost->too_big) };

	packet_put(packet, &wire, sizeof(wire));
}

void encode_error(struct packet *packet, uint32_t refusal, const char *sentence)
{
	size_t length = strnlen(sentence, WIRE_SENTENCE_MAX);
	struct wire_error wire = {
		.refusal = htole16((uint16_t)refusal),
		.length = htole16((uint16_t)length),
	};

	packet_put(packet, &wire, sizeof(wire));
	packet_put(packet, sentence, length);
}

size_t encode_rows(struct packet *packet)
{
	struct wire_rows wire = { 0 };
	size_t mark = packet->size;

	packet_put(packet, &wire, sizeof(wire));
	return mark;
}

size_t encode_row_begin(struct packet *packet)
{
	uint32_t length = 0;
	size_t mark = packet->size;

	packet_put(packet, &length, sizeof(length));
	return mark;
}

void encode_row_end(struct packet *packet, size_t mark)
{
	uint32_t length = htole32((uint32_t)(packet->size - mark - sizeof(uint32_t)));

	if (!packet->failed)
		memcpy(packet->data + mark, &length, sizeof(length));
}

void encode_count(struct packet *packet, size_t mark, uint16_t count)
{
	uint16_t wire = htole16(count);

	if (!packet->failed)
		memcpy(packet->data + mark, &wire, sizeof(wire));
}
