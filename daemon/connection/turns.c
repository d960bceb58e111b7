/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A request may be for five hundred events, and a tenant may have as many connections as it likes to ask with. So requests
 * are not handled as they are seen, but queue: tenants take turns, whatever the number of their connections, and one request
 * is handled in each, or a part of a long one. Within a tenant, who came first is first: one process that connects again and
 * again must not keep its siblings waiting. But when many of them have begun something long, which takes memory, that is ended
 * before others begin. The daemon stops after a short while and looks at everything else (accepts, admins,
 * records, who else has something to say); who was not reached keeps its place.
 */

#include "daemon/connection/turns.h"

#include "daemon/connection/connections.h"
#include "daemon/limits.h"
#include "daemon/registry/tenant.h"

bool turns_is_urgent(const struct client *client)
{
	return client_goes_on(client) && client->holder.tenant->deciding > DECIDING_MAX;
}

void turns_add(struct client *client)
{
	struct tenant_queue *turns = &client->connections->turns;
	struct tenant *tenant = client->holder.tenant;

	if (client->has_turn)
		return;
	if (TAILQ_EMPTY(&tenant->ready))
		TAILQ_INSERT_TAIL(turns, tenant, turn);
	client->has_turn = true;
	if (turns_is_urgent(client))
		TAILQ_INSERT_HEAD(&tenant->ready, client, turn);
	else
		TAILQ_INSERT_TAIL(&tenant->ready, client, turn);
}

void turns_remove(struct client *client)
{
	struct tenant_queue *turns = &client->connections->turns;
	struct tenant *tenant = client->holder.tenant; /* none on the control socket, where nobody waits */

	if (!client->has_turn)
		return;
	client->has_turn = false;
	TAILQ_REMOVE(&tenant->ready, client, turn);
	if (TAILQ_EMPTY(&tenant->ready))
		TAILQ_REMOVE(turns, tenant, turn);
}

struct client *turns_next(struct tenant_queue *turns)
{
	struct tenant *tenant = TAILQ_FIRST(turns);
	struct client *client;

	if (!tenant)
		return NULL;
	client = TAILQ_FIRST(&tenant->ready);
	turns_remove(client);
	if (!TAILQ_EMPTY(&tenant->ready)) {
		TAILQ_REMOVE(turns, tenant, turn);
		TAILQ_INSERT_TAIL(turns, tenant, turn);
	}
	return client;
}
