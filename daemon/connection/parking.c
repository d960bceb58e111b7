/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/connection/parking.h"

#include "daemon/connection/client.h"
#include "daemon/connection/scheduler.h"

void parking_open(struct parking *parking, struct tenant *tenant, const struct bundle_key *key)
{
	size_t size = offsetof(struct bundle_key, uid) + key->size;

	parking->key = malloc(size);
	if (!parking->key)
		return;
	memcpy(parking->key, key, size);
	TAILQ_INIT(&parking->clients);
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
	struct client *client;

	if (parking->tenant)
		HASH_DELETE(by_key, parking->tenant->parkings, parking);
	while (parking->tenant && (client = TAILQ_FIRST(&parking->clients))) {
		parking_remove(client);
		client->asks_again = true;
		scheduler_add(client);
	}
	parking->tenant = NULL;
	free(steal_pointer(parking->key));
}

void parking_add(struct parking *parking, struct client *client)
{
	client->stall = STALL_PARKED;
	client->parking = parking;
	TAILQ_INSERT_TAIL(&parking->clients, client, in_queue);
}

void parking_remove(struct client *client)
{
	if (!client->parking)
		return;
	TAILQ_REMOVE(&client->parking->clients, client, in_queue);
	client->parking = NULL;
	client->stall = STALL_NONE;
}
