/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/requests.h"

#include "daemon/registry/tenant.h"
#include "kernel/embedded/tracer.h"

int handle_query(struct client *client, const struct message *message)
{
	const struct tenant *tenant = client->holder.tenant;
	struct kernel_page_stats stats = { 0 };
	struct wire_account account;

	if (client->holder.registry->kernel->tracer)
		stats = tracer_page_stats(client->holder.registry->kernel->tracer, tenant->number);
	account = (struct wire_account){
		.events = quota_held(&tenant->level->own[RESOURCE_EVENTS]),
		.events_max = tenant->level->own[RESOURCE_EVENTS].maximum,
		.lingering = tenant->lingering,
		.leases = client->holder.leases.n,
		.connections = tenant->connections,
		.lost = tenant->lost,
		.records = stats.records,
		.bad = stats.bad,
	};
	encode_fixed(client_answer(client, KIND_ACCOUNT, message->serial, 0), KIND_ACCOUNT, &account);
	client_send(client, NULL, 0);
	return 0;
}

/* The number is not trusted: it is limited to UINT32_MAX, so that a false report does not spoil the machine's sum. */
static uint64_t believable(uint64_t lost)
{
	return MIN(lost, UINT32_MAX);
}

int handle_lost(struct client *client, const struct message *message)
{
	struct tenant *tenant = client->holder.tenant;
	uint64_t queue_full, too_big;
	struct wire_lost lost;

	if (decode_fixed(message->body, KIND_LOST, &lost) != 0)
		return REFUSAL_BAD_PACKET;
	queue_full = believable(lost.queue_full);
	too_big = believable(lost.too_big);
	tenant->lost += queue_full;
	tenant->too_big += too_big;
	if (tenant->summary) {
		tenant->summary->lost += queue_full;
		tenant->summary->too_big += too_big;
	}
	tenant->registry->lost += queue_full;
	tenant->registry->too_big += too_big;
	return 0;
}
