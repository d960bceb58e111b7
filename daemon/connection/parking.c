/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/parking.h"

#include "daemon/connection/client.h"
#include "daemon/connection/scheduler.h"
#include "daemon/registry/bundle.h"
#include "daemon/registry/tenant.h"

/* A client whose request is still in its socket. */
struct parked {
	struct client_task task;
	TAILQ_ENTRY(parked) entry;
};

void parking_open(struct parking *parking, struct tenant *tenant, const struct bundle_key *key)
{
	parking->key = bundle_key_copy(key);
	if (!parking->key)
		return;
	TAILQ_INIT(&parking->parked);
	HASH_ADD_KEYPTR(by_key, tenant->parkings, &parking->key->uid, key->size, parking);
	if (table_added())
		parking->tenant = tenant;
}

struct parking *parking_find(const struct tenant *tenant, const struct bundle_key *key)
{
	struct parking *parking;

	HASH_FIND(by_key, tenant->parkings, &key->uid, key->size, parking);
	return parking;
}

void parking_close(struct parking *parking)
{
	struct parked *parked;

	if (parking->tenant)
		HASH_DELETE(by_key, parking->tenant->parkings, parking);
	parking->tenant = NULL;
	free(parking->key);
	parking->key = NULL;
	while ((parked = TAILQ_FIRST(&parking->parked))) {
		struct client *client = task_end(&parked->task);

		TAILQ_REMOVE(&parking->parked, parked, entry);
		free(parked);
		if (!client)
			continue;
		client->asks_again = true;
		scheduler_add(client);
	}
}

bool park(struct client *client, struct parking *parking)
{
	struct parked *parked = calloc(1, sizeof(*parked));

	if (!parked)
		return false;
	TAILQ_INSERT_TAIL(&parking->parked, parked, entry);
	task_begin(&parked->task, client);
	return true;
}
