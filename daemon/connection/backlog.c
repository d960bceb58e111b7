/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The kernel is slow, and answers in the order in which it is asked, whoever asks. So what it has before it of one tenant is
 * bounded: who wants more waits, and a neighbour's event comes soon, however many are wanted here.
 */

#include "daemon/connection/backlog.h"

#include "daemon/connection/client.h"
#include "daemon/connection/connections.h"
#include "daemon/connection/turns.h"
#include "daemon/limits.h"
#include "daemon/registry/tenant.h"

static bool is_full(const struct tenant *tenant)
{
	return tenant->backlog >= BACKLOG_MAX;
}

void backlog_add(struct tenant *tenant, size_t calls)
{
	tenant->backlog += calls;
	tenant->registry->others.registering += (uint32_t)calls;
}

bool backlog_holds(struct client *client)
{
	struct tenant *tenant = client->holder.tenant;

	if (!tenant || !is_full(tenant))
		return false;
	client->held = true;
	if (turns_is_urgent(client))
		TAILQ_INSERT_HEAD(&tenant->held, client, held_back);
	else
		TAILQ_INSERT_TAIL(&tenant->held, client, held_back);
	client_watch(client);
	return true;
}

void backlog_remove(struct client *client)
{
	if (client->held)
		TAILQ_REMOVE(&client->holder.tenant->held, client, held_back);
	client->held = false;
}

/* One for each answer, since one is enough to fill it again; but for the last answer, after which nobody would come back. */
void backlog_answered(struct tenant *tenant, size_t calls)
{
	struct client *client;

	tenant->backlog -= calls;
	tenant->registry->others.registering -= (uint32_t)calls;
	while (!is_full(tenant) && (client = TAILQ_FIRST(&tenant->held))) {
		backlog_remove(client);
		client_watch(client);
		turns_add(client);
		if (tenant->backlog > 0)
			return;
	}
}
