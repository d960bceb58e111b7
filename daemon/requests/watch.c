/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/watch.h"

#include "daemon/daemon.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/tenant.h"

int handle_watch(struct client *client, const struct message *message)
{
	struct wire_watch watch;

	if (decode_watch(message->body, &watch) != 0)
		return REFUSAL_BAD_PACKET;
	pages_watch(client, watch.on);
	client_answer(client, KIND_WATCHING, message->serial, 0);
	client_send(client, NULL, 0);
	return 0;
}

void watch_changed(void *data, uint32_t page, uint32_t bit)
{
	struct tenant *tenant = tenant_by_number(data, page);
	struct client *client;

	if (!tenant)
		return;
	LIST_FOREACH(client, &tenant->clients, in_tenant)
		if (client->watching && lease_by_bit(client, bit))
			client_note_change(client, bit);
}
