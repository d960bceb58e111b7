/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "client/library.h"

/* Who has been granted the same bit since keeps the lease. */
static void forget_who_need_not_leave(struct userev *userev)
{
	struct claims gone = TAILQ_HEAD_INITIALIZER(gone);
	struct claim *claim, *next;

	for (claim = TAILQ_FIRST(&userev->leaving); claim; claim = next) {
		next = TAILQ_NEXT(claim, entry);
		if (userev->users[claim->bit] == 0)
			continue;
		TAILQ_REMOVE(&userev->leaving, claim, entry);
		TAILQ_INSERT_TAIL(&gone, claim, entry);
	}
	claims_free(&gone);
}

static uint16_t encode_bits(struct packet *packet, const struct claims *leaving)
{
	struct claim *claim;
	uint16_t count = 0;

	for (claim = TAILQ_FIRST(leaving); claim; claim = TAILQ_NEXT(claim, entry)) {
		if (count == WIRE_BATCH_MAX || packet->capacity - packet->size < sizeof(uint32_t))
			break;
		encode_release_bit(packet, claim->bit);
		count++;
	}
	return count;
}

static void forget_first(struct claims *leaving, uint16_t count)
{
	struct claims told = TAILQ_HEAD_INITIALIZER(told);

	for (; count > 0; count--) {
		struct claim *claim = TAILQ_FIRST(leaving);

		TAILQ_REMOVE(leaving, claim, entry);
		TAILQ_INSERT_TAIL(&told, claim, entry);
	}
	claims_free(&told);
}

int claims_give_back(struct userev *userev, uint8_t *buffer)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	uint16_t count;
	size_t mark;
	int r;

	forget_who_need_not_leave(userev);
	if (TAILQ_EMPTY(&userev->leaving))
		return 0;
	encode_begin(&packet, KIND_RELEASE, userev->serial + 1, 0, NULL, 0);
	mark = encode_release(&packet);
	count = encode_bits(&packet, &userev->leaving);
	encode_count(&packet, mark, count);
	encode_end(&packet);
	r = request_send(userev, &packet);
	if (r <= 0)
		return r;
	userev->serial++;
	request_note(userev, KIND_RELEASED, count);
	forget_first(&userev->leaving, count);
	/* Not before: an answer under way may still name the stream that nobody holds. */
	streams_tidy(&userev->streams);
	return 1;
}

_public_ void userev_release(struct userev *userev, struct userev_event *event)
{
	ENTER_LIBRARY;

	if (!event->grant || event->grant->claim->userev != userev)
		return;
	claim_release(event->grant->claim);
	connection_settle(userev, now_ms() + library_patience_ms);
	if (!userev->up)
		streams_tidy(&userev->streams);
	losses_report(userev);
}
