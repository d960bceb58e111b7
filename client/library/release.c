/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * On the wire an event is claimed or not, however often a program registers it: all of them have the same bit. Which bits were
 * released is noted in a page of bits; when the daemon is to be told, those go that another event has still.
 */

#include "client/library/library.h"

static bool bit_is_in(const uint8_t *bits, uint32_t bit)
{
	return (bits[bit / 8] & 1U << bit % 8) != 0;
}

/* Where there is no memory for it, the daemon learns it from the end of the connection. */
void bit_leaves(struct userev *userev, uint32_t bit)
{
	if (!userev->up)
		return;
	if (!userev->left)
		userev->left = memory_new(WIRE_PAGE_BYTES);
	if (!userev->left || bit_is_in(userev->left, bit))
		return;
	userev->left[bit / 8] |= (uint8_t)(1U << bit % 8);
	userev->n_left++;
}

static void bit_stays(struct userev *userev, uint32_t bit)
{
	if (!bit_is_in(userev->left, bit))
		return;
	userev->left[bit / 8] &= (uint8_t) ~(1U << bit % 8);
	userev->n_left--;
}

void bits_forget(struct userev *userev)
{
	memory_free(userev->left);
	userev->left = NULL;
	userev->n_left = 0;
}

/* All events are looked at, but not for each that is released: `seen` is a page of bits, too. */
static void forget_what_others_have(struct userev *userev, uint8_t *seen)
{
	struct batch *batch;

	if (userev->bits_differ)
		return;
	memset(seen, 0, WIRE_PAGE_BYTES);
	userev->bits_differ = true;
	TAILQ_FOREACH(batch, &userev->batches, entry)
		BATCH_FOREACH(event, batch)
		{
			const uint32_t bit = event->place.part.bit & PLACE_BIT;

			bit_stays(userev, bit);
			if (bit != 0 && bit_is_in(seen, bit))
				userev->bits_differ = false;
			seen[bit / 8] |= (uint8_t)(1U << bit % 8);
		}
}

/* From there on; there is one. */
static uint32_t next_bit(const uint8_t *bits, uint32_t bit)
{
	while (!bit_is_in(bits, bit))
		bit += bits[bit / 8] ? 1 : 8 - bit % 8;
	return bit;
}

/* The first of them, as many as fit. */
static uint16_t encode_bits(struct packet *packet, const struct userev *userev)
{
	const size_t room = (packet->capacity - packet->size) / sizeof(uint32_t);
	const uint16_t count = (uint16_t)MIN(MIN(room, userev->n_left), (size_t)WIRE_BATCH_MAX);
	uint32_t bit = 0;

	for (uint16_t i = 0; i < count; i++) {
		bit = next_bit(userev->left, bit + 1);
		encode_release_bit(packet, bit);
	}
	return count;
}

static void forget_first(struct userev *userev, uint16_t count)
{
	for (uint32_t bit = 0; count > 0; count--) {
		bit = next_bit(userev->left, bit);
		bit_stays(userev, bit);
	}
}

static int send_bits(struct userev *userev, uint8_t *buffer)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	uint16_t count;
	size_t mark;
	int r;

	encode_begin(&packet, KIND_RELEASE, userev->serial + 1, 0, NULL, 0);
	mark = encode_release(&packet);
	count = encode_bits(&packet, userev);
	encode_count(&packet, mark, count);
	encode_end(&packet);
	r = request_send(userev, &packet);
	if (r <= 0)
		return r;
	userev->serial++;
	request_note(userev, KIND_RELEASED, count);
	forget_first(userev, count);
	return r;
}

int bits_give_back(struct userev *userev, uint8_t *buffer)
{
	int r = 0;

	forget_what_others_have(userev, buffer);
	if (userev->n_left > 0)
		r = send_bits(userev, buffer);
	/* Not before: what is under way, or not given back, lets the daemon believe that we have the stream where no event is. */
	if (r > 0 && userev->n_left == 0)
		streams_tidy(&userev->streams);
	return r;
}

_public_ void userev_release(struct userev *userev, struct userev_event *event)
{
	ENTER_LIBRARY;
	const struct stream *stream = stream_at(event->place);

	if (!stream || stream->userev != userev)
		return;
	batch_release(userev, batch_of(event));
	connection_settle(userev, now_ms() + library_patience_ms);
	if (!userev->up)
		streams_tidy(&userev->streams);
	losses_report(userev);
}
