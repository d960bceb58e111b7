/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The daemon says where to look; we look everywhere, since the page is the truth, and compare with what was told before. So it
 * does not matter whether a change was missed with a connection that ended, or was undone before anybody looked.
 */

#include "client/library/library.h"

int changes_ask(struct userev *userev, uint8_t *buffer)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	int r;

	userev->watch_asked = true;
	if (!(userev->limits.features & WIRE_FEATURE_WATCH))
		return 0;
	encode_begin(&packet, KIND_WATCH, userev->serial + 1, 0, NULL, 0);
	encode_watch(&packet, &(struct wire_watch){ .on = 1 });
	encode_end(&packet);
	r = request_send(userev, &packet);
	userev->watch_asked = r > 0;
	if (r <= 0)
		return r;
	userev->serial++;
	request_note(userev, KIND_WATCHING, 0);
	return 1;
}

void changes_look_again(struct userev *userev)
{
	userev->look_from = TAILQ_FIRST(&userev->batches);
	userev->looked_at = 0;
}

void changes_look_behind(struct userev *userev)
{
	userev->look_from = TAILQ_NEXT(userev->look_from, entry);
	userev->looked_at = 0;
}

int changes_note(struct userev *userev, const struct message *message)
{
	struct wire_changed changed;
	struct stream *stream;
	struct cursor bits;

	if (decode_changed(message->body, &changed, &bits) != 0)
		return -EPROTO;
	TAILQ_FOREACH(stream, &userev->streams, entry)
		stream->payload_max = changed.payload_max;
	userev->limits.payload_max = changed.payload_max;
	changes_look_again(userev);
	return 0;
}

_public_ int userev_watch(struct userev *userev)
{
	int fd = userev_fd(userev);
	ENTER_LIBRARY;

	userev = library_meant(userev);
	if (fd < 0 || !userev)
		return fd;
	userev->watching = true;
	changes_look_again(userev);
	connection_advance(userev, 0);
	return fd;
}

static struct userev_event *look_at_next(struct userev *userev)
{
	struct batch *batch;

	while ((batch = userev->look_from)) {
		if (batch->event && userev->looked_at < batch->n)
			return &batch->event[userev->looked_at++];
		changes_look_behind(userev);
	}
	return NULL;
}

_public_ struct userev_event *userev_changed(struct userev *userev)
{
	ENTER_LIBRARY;
	struct userev_event *event;

	userev = library_meant(userev);
	if (!userev)
		return NULL;
	connection_advance(userev, 0);
	if (atomic_exchange_explicit(&userev->look_again, false, memory_order_acquire))
		changes_look_again(userev);
	do
		event = look_at_next(userev);
	while (event && !event_has_changed(event));
	return event;
}
