/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * If the lock is taken when a record is lost, a later record reports the loss, or the lock's holder does. LOST has no answer, so it
 * may be sent between a request and its answer.
 */

#include "client/library/loss.h"
#include "client/library/lock.h"
#include "protocol/transport.h"

enum { REPORT_MS = 100 }; /* the least time between two reports, so that they do not fill the connection, too */

void loss_report(struct userev *userev)
{
	const uint64_t queue_full = loss_count(&userev->losses.queue_full),
		       too_big = loss_count(&userev->losses.too_big);
	uint8_t buffer[sizeof(struct wire_header) + sizeof(struct wire_lost)];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct connection *connection = &userev->connection;

	if (!loss_is_unreported(userev) || connection->state != CONNECTION_UP || !connection_is_intact(connection))
		return;
	encode_begin(&packet, KIND_LOST, 0, 0, NULL, 0);
	encode_lost(&packet, &(struct wire_lost){ .queue_full = queue_full - userev->reported.queue_full,
						  .too_big = too_big - userev->reported.too_big });
	encode_end(&packet);
	if (transport_send(connection->fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT) != 0)
		return;
	userev->reported.queue_full = queue_full;
	userev->reported.too_big = too_big;
}

/* At most one report in REPORT_MS for all threads. */
void loss_report_at_intervals(struct userev *userev)
{
	uint32_t last = atomic_load(&userev->reported_at);
	const uint32_t now = clock_coarse_ms();
	struct lock lock;

	if (now - last < REPORT_MS || !atomic_compare_exchange_strong(&userev->reported_at, &last, now) ||
	    !lock_try(&lock))
		return;
	loss_report(userev);
	lock_leave_try(&lock);
}
