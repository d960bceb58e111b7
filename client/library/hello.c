/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Page and streams of the last connection stay in use until WELCOME has brought new ones. */

#include "client/library/debug.h"
#include "client/library/page.h"
#include "client/library/place.h"
#include "client/library/requests.h"

/* A packet has room for the longest description. */
enum {
	PACKET_MIN = sizeof(struct wire_header) + sizeof(struct wire_strings) + sizeof(struct wire_string) +
		     WIRE_DESCRIPTION_MAX + 1
};

int hello_ask(struct userev *userev)
{
	const struct wire_hello hello = { .understands = WIRE_FEATURE_WATCH | WIRE_FEATURE_PERSIST |
							 WIRE_FEATURE_MULTI_FORMAT | WIRE_FEATURE_OWN_TRACES };
	struct packet packet = connection_begin(&userev->connection, KIND_HELLO);

	encode_fixed(&packet, KIND_HELLO, &hello);
	return connection_ask(&userev->connection, &packet, KIND_WELCOME, 0);
}

int hello_take(struct userev *userev, const struct message *message, struct fdset *fds, uint16_t count _unused_)
{
	_cleanup_(streams_close) struct streams streams = QUEUE_INITIALIZER(streams);
	struct files *files = &userev->files;
	struct wire_welcome limits;
	struct string_item tenant;
	int r;

	if (decode_welcome(message->body, &limits, &tenant) != 0 || limits.page_bytes != WIRE_PAGE_BYTES ||
	    limits.page_bits == 0 || limits.page_bits > WIRE_PAGE_BITS || limits.packet_max < PACKET_MIN ||
	    limits.batch_max == 0)
		return -EPROTO;
	limits.packet_max = MIN(limits.packet_max, WIRE_PACKET_MAX);
	limits.batch_max = MIN(limits.batch_max, WIRE_BATCH_MAX);
	r = streams_take(files, message, fds, 1, &streams);
	if (r == 0)
		r = page_map(fds->fd[0], userev->connection.fd, &files->page);
	if (r < 0)
		return r;
	files_note_page(files, r > 0);
	userev->connection.limits = limits;
	userev->connection.state = CONNECTION_UP;
	files_mark(files, true); /* loss_report() ends that */
	userev_limit(userev, limits.payload_max);
	streams_expect_writers(&files->streams);
	QUEUE_CONCAT(&files->outdated, &files->streams);
	QUEUE_CONCAT(&files->streams, &streams);
	batches_place(&userev->events, place_wait_anew);
	batches_scan_again(&userev->events);
	debug_print("connected: tenant %.*s, at most %u events", (int)MIN(tenant.length, (size_t)300), tenant.text,
		    limits.events_max);
	return 0;
}
