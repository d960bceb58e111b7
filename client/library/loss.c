/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * If the lock is taken when a record is lost, a later record reports the loss, or the lock's holder does. LOST has no answer, so it
 * may be sent between a request and its answer.
 */

#include "client/library/loss.h"
#include "client/library/lock.h"
#include "protocol/transport.h"

enum { REPORT_MS = 100 }; /* the least time between two reports, so that they do not fill the connection, too */

static void losses_add(struct losses *losses, uint64_t queue_full, uint64_t too_big)
{
	atomic_fetch_add_explicit(&losses->queue_full, queue_full, memory_order_relaxed);
	atomic_fetch_add_explicit(&losses->too_big, too_big, memory_order_relaxed);
}

void loss_add(struct userev *userev, uint64_t queue_full, uint64_t too_big)
{
	losses_add(&userev->losses, queue_full, too_big);
	losses_add(&userev->unreported, queue_full, too_big);
}

void loss_report(struct userev *userev)
{
	uint8_t buffer[sizeof(struct wire_header) + sizeof(struct wire_lost)];
	struct packet packet = packet_make(buffer, sizeof(buffer));
	struct connection *connection = &userev->connection;
	struct wire_lost lost;

	if (!loss_is_unreported(userev) || connection->state != CONNECTION_UP || !connection_is_intact(connection))
		return;
	lost = (struct wire_lost){
		.queue_full = atomic_exchange(&userev->unreported.queue_full, 0),
		.too_big = atomic_exchange(&userev->unreported.too_big, 0),
	};
	encode_begin(&packet, KIND_LOST, 0, 0, NULL, 0);
	encode_lost(&packet, &lost);
	encode_end(&packet);
	if (transport_send(connection->fd, packet.data, packet.size, NULL, 0, MSG_DONTWAIT) != 0)
		losses_add(&userev->unreported, lost.queue_full, lost.too_big);
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
