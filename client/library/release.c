/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The daemon grants a connection one lease for each event, however often the program has registered it: all of them have the same
 * bit. Bits whose events were released are set in a bitmap. Before it is sent, bits that another event still has are removed.
 */

#include "client/library/memory.h"
#include "client/library/place.h"
#include "client/library/requests.h"

static bool bit_is_in(const uint8_t *bits, uint32_t bit)
{
	return (bits[bit / 8] & 1U << bit % 8) != 0;
}

/* Without memory for the bitmap, the daemon releases the event when the connection ends. */
void release_bit(struct userev *userev, uint32_t bit)
{
	if (userev->connection.state != CONNECTION_UP)
		return;
	if (!userev->released)
		userev->released = memory_new(WIRE_PAGE_BYTES);
	if (!userev->released || bit_is_in(userev->released, bit))
		return;
	userev->released[bit / 8] |= (uint8_t)(1U << bit % 8);
	userev->n_released++;
}

void release_batch(struct userev *userev, struct batch *batch)
{
	BATCH_FOREACH(event, batch)
	if (place_is_granted(event->place))
		release_bit(userev, event->place.part.bit & PLACE_BIT);
	batch_release(&userev->events, batch);
}

static void release_clear(struct userev *userev, uint32_t bit)
{
	if (!bit_is_in(userev->released, bit))
		return;
	userev->released[bit / 8] &= (uint8_t) ~(1U << bit % 8);
	userev->n_released--;
}

/* Looks at all events, but only if two events may have the same bit. */
static void release_keep_shared(struct userev *userev)
{
	static uint8_t seen[WIRE_PAGE_BYTES];
	struct batch *batch;

	if (userev->bits_differ || userev->n_released == 0)
		return;
	memset(seen, 0, sizeof(seen));
	userev->bits_differ = true;
	QUEUE_FOREACH(batch, &userev->events.batches)
		BATCH_FOREACH(event, batch)
		{
			const uint32_t bit = event->place.part.bit & PLACE_BIT;

			release_clear(userev, bit);
			if (bit != 0 && bit_is_in(seen, bit))
				userev->bits_differ = false;
			seen[bit / 8] |= (uint8_t)(1U << bit % 8);
		}
}

int release_ask(struct userev *userev)
{
	struct packet packet = connection_begin(&userev->connection, KIND_RELEASE);
	const size_t mark = encode_list(&packet, 0), room = (packet.capacity - packet.size) / sizeof(uint32_t);
	uint32_t bit = 0;
	uint16_t count;
	int r;

	release_keep_shared(userev);
	if (userev->n_released == 0)
		return 0;
	count = (uint16_t)MIN(MIN(room, userev->n_released), (size_t)WIRE_BATCH_MAX);
	for (uint16_t left = count; left > 0;)
		if (bit_is_in(userev->released, ++bit)) {
			encode_release_bit(&packet, bit);
			left--;
		}
	encode_count(&packet, mark, count);
	r = connection_ask(&userev->connection, &packet, KIND_RELEASED, count);
	if (r <= 0)
		return r;
	for (; bit > 0; bit--)
		release_clear(userev, bit);
	/* Not earlier: until all are released, the daemon may assume that this client still has the stream's file. */
	if (userev->n_released == 0)
		streams_close_unused(&userev->files.streams);
	return r;
}

int release_take(struct userev *userev _unused_, const struct message *message, struct fdset *fds _unused_,
		 uint16_t count _unused_)
{
	struct wire_released released;

	return decode_fixed(message->body, KIND_RELEASED, &released) == 0 ? 0 : -EPROTO;
}
