/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/parking.h"

#include <assert.h>

#include "daemon/bundle.h"
#include "daemon/daemon.h"
#include "daemon/register.h"
#include "daemon/tenant.h"

struct parked {
	struct errand errand;
	TAILQ_ENTRY(parked) entry;
	uint32_t serial;
	size_t size;
	uint8_t body[];
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

static void ask_again(struct parked *parked)
{
	struct client *client = errand_end(&parked->errand);

	if (!client) {
		free(parked);
		return;
	}
	client->again = parked;
	turns_add(&client->daemon->turns, client);
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
		TAILQ_REMOVE(&parking->parked, parked, entry);
		ask_again(parked);
	}
}

bool park(struct client *client, struct parking *parking, const struct message *message)
{
	struct parked *parked = malloc(sizeof(*parked) + message->body.left);

	if (!parked)
		return false;
	parked->serial = message->serial;
	parked->size = message->body.left;
	memcpy(parked->body, message->body.at, parked->size);
	TAILQ_INSERT_TAIL(&parking->parked, parked, entry);
	errand_begin(&parked->errand, client);
	return true;
}

void unpark(struct client *client)
{
	struct parked *parked = steal_pointer(client->again);
	const struct message message = {
		.kind = KIND_REGISTER,
		.serial = parked->serial,
		.body = cursor_make(parked->body, parked->size),
	};
	int r = handle_register(client, &message);

	/* The same bytes have been read once. */
	assert(r == 0);
	free(parked);
}
