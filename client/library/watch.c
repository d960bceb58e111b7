/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * CHANGED is only a hint. userev_changed() scans all events, and compares each one's bit of the status page with the state that
 * it last reported. So it does not matter if a change was missed because a connection ended, or was reverted meanwhile.
 */

#include "client/library/watch.h"
#include "client/library/lock.h"
#include "client/library/module.h"
#include "client/library/place.h"
#include "client/library/public.h"

bool watch_is_wanted(const struct userev *userev)
{
	return userev->watching && userev->state == CONNECTION_UP && !userev->watch_asked;
}

int watch_ask(struct userev *userev, uint8_t *buffer)
{
	struct packet packet = packet_make(buffer, userev->limits.packet_max);
	int r;

	userev->watch_asked = true;
	if (!(userev->limits.features & WIRE_FEATURE_WATCH))
		return 0;
	encode_begin(&packet, KIND_WATCH, userev->serial + 1, 0, NULL, 0);
	encode_watch(&packet, &(struct wire_watch){ .on = 1 });
	encode_end(&packet);
	r = session_ask(userev, &packet, KIND_WATCHING, 0);
	userev->watch_asked = r > 0;
	return r;
}

void watch_scan_again(struct userev *userev)
{
	userev->scan_batch = TAILQ_FIRST(&userev->batches);
	userev->scan_at = 0;
}

void watch_scan_next(struct userev *userev)
{
	userev->scan_batch = TAILQ_NEXT(userev->scan_batch, entry);
	userev->scan_at = 0;
}

int watch_take_changed(struct userev *userev, const struct message *message)
{
	struct wire_changed changed;
	struct stream *stream;
	struct cursor bits;

	if (decode_changed(message->body, &changed, &bits) != 0)
		return -EPROTO;
	TAILQ_FOREACH(stream, &userev->streams, entry)
		stream->payload_max = changed.payload_max;
	userev->limits.payload_max = changed.payload_max;
	watch_scan_again(userev);
	return 0;
}

_public_ int userev_watch(struct userev *userev)
{
	int fd = userev_fd(userev);
	LOCK_LIBRARY;

	userev = module_resolve(userev);
	if (fd < 0 || !userev)
		return fd;
	userev->watching = true;
	watch_scan_again(userev);
	session_advance(userev, 0);
	return fd;
}

_public_ struct userev_event *userev_changed(struct userev *userev)
{
	LOCK_LIBRARY;

	userev = module_resolve(userev);
	if (!userev)
		return NULL;
	session_advance(userev, 0);
	if (atomic_exchange_explicit(&userev->rescan, false, memory_order_acquire))
		watch_scan_again(userev);
	for (; userev->scan_batch; watch_scan_next(userev)) {
		const struct batch *batch = userev->scan_batch;

		while (batch->event && userev->scan_at < batch->n) {
			struct userev_event *event = &batch->event[userev->scan_at++];

			if (place_has_changed(event))
				return event;
		}
	}
	return NULL;
}
