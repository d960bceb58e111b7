/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A loss makes writers look at the connection, at intervals, until it is reported: session_look(). LOST has no answer, so it may be
 * sent between a request and its answer.
 */

#include "client/library/requests.h"
#include "protocol/transport.h"

void loss_add(struct userev *userev, _Atomic uint64_t *count)
{
	*count += 1;
	files_mark(&userev->files, true);
}

void loss_report(struct userev *userev)
{
	uint8_t buffer[sizeof(struct wire_header) + sizeof(struct wire_lost)];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct connection *connection = &userev->connection;
	struct wire_lost lost;
	uint64_t queue_full, too_big;

	if (connection->state != CONNECTION_UP)
		return;
	/* Before the counts are read: from here on a loss marks the files again. */
	files_mark(&userev->files, connection->limits.backend == BACKEND_STATUS_PAGE);
	queue_full = userev->losses.queue_full;
	too_big = userev->losses.too_big;
	lost.queue_full = queue_full - userev->reported.queue_full;
	lost.too_big = too_big - userev->reported.too_big;
	if (lost.queue_full == 0 && lost.too_big == 0)
		return;
	encode_begin(&packet, KIND_LOST, 0, 0, NULL, 0);
	encode_fixed(&packet, KIND_LOST, &lost);
	encode_end(&packet);
	if (!file_is(connection->fd, &connection->id) ||
	    transport_send(connection->fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT) != 0) {
		files_mark(&userev->files, true);
		return;
	}
	userev->reported.queue_full = queue_full;
	userev->reported.too_big = too_big;
}
