/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "client/library.h"

/* The answer is read, so that the next one is the next request's; what it says changes nothing here. */
static void tell_daemon(struct userev *userev, uint32_t bit)
{
	_cleanup_(reply_deinit) struct reply reply = { 0 };
	uint8_t buffer[sizeof(struct wire_header) + WIRE_FDS_MAX * sizeof(uint32_t) + sizeof(struct wire_error) +
		       WIRE_SENTENCE_MAX];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct wire_released released;
	size_t mark;
	int r;

	encode_begin(&packet, KIND_RELEASE, ++userev->serial, 0, NULL, 0);
	mark = encode_release(&packet);
	encode_release_bit(&packet, bit);
	encode_count(&packet, mark, 1);
	encode_end(&packet);
	r = connection_request(userev, &packet, KIND_RELEASED, buffer, sizeof(buffer), &reply);
	if (r == 0 && decode_released(reply.message.body, &released) != 0)
		connection_drop(userev);
}

_public_ void userev_release(struct userev *userev, struct userev_event *event)
{
	ENTER_LIBRARY;
	struct claim *claim;
	uint32_t bit;

	if (!event->grant || event->grant->claim->userev != userev)
		return;
	claim = event->grant->claim;
	bit = claim->bit;
	claim_free(claim);
	streams_tidy(&userev->streams);
	if (bit && --userev->users[bit] == 0 && connection_is_up(userev))
		tell_daemon(userev, bit);
	losses_report(userev);
}
