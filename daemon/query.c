/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/query.h"

#include "daemon/daemon.h"
#include "daemon/lease.h"
#include "daemon/tenant.h"

int handle_query(struct client *client, const struct message *message)
{
	const struct tenant *tenant = client->tenant;
	struct kernel_page_stats stats = { 0 };
	struct wire_account account;

	if (decode_empty(message->body) != 0)
		return REFUSAL_BAD_PACKET;
	kernel_page_stats(client->daemon->kernel, tenant->number, &stats);
	account = (struct wire_account){
		.events = tenant->quota.used,
		.events_max = tenant->quota.maximum,
		.lingering = tenant->lingering,
		.leases = HASH_CNT(by_bit, client->leases),
		.connections = tenant->connections,
		.lost = tenant->lost,
		.records = stats.records,
		.bad = stats.bad,
	};
	encode_account(client_answer(client, KIND_ACCOUNT, message->serial, 0), &account);
	client_send(client, NULL, 0);
	return 0;
}

/* A client may say what it likes; sums that stop at their end can't be made to look small. */
static void add(uint64_t *sum, uint64_t more)
{
	*sum = more > UINT64_MAX - *sum ? UINT64_MAX : *sum + more;
}

int handle_lost(struct client *client, const struct message *message)
{
	struct wire_lost lost;

	if (decode_lost(message->body, &lost) != 0)
		return REFUSAL_BAD_PACKET;
	add(&client->tenant->lost, lost.queue_full);
	add(&client->tenant->too_big, lost.too_big);
	add(&client->daemon->lost, lost.queue_full);
	add(&client->daemon->too_big, lost.too_big);
	return 0;
}
