/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * CHANGED is only a hint. userev_changed() scans all events, and compares each one's bit of the status page with the state that
 * it last reported. So it does not matter if a change was missed because a connection ended, or was reverted meanwhile.
 */

#include "client/library/requests.h"

int watch_ask(struct userev *userev)
{
	struct packet packet = connection_begin(&userev->connection, KIND_WATCH);
	int r;

	if (!userev->watching || userev->connection.state != CONNECTION_UP || userev->watch_asked)
		return 0;
	userev->watch_asked = true;
	if (!(userev->connection.limits.features & WIRE_FEATURE_WATCH))
		return 0;
	encode_fixed(&packet, KIND_WATCH, &(struct wire_watch){ .on = 1 });
	r = connection_ask(&userev->connection, &packet, KIND_WATCHING, 0);
	userev->watch_asked = r > 0;
	return r;
}

int watch_take_changed(struct userev *userev, const struct message *message)
{
	struct wire_changed changed;
	struct cursor bits;

	if (decode_changed(message->body, &changed, &bits) != 0)
		return -EPROTO;
	userev_limit(userev, changed.payload_max);
	batches_scan_again(&userev->events);
	return 0;
}
