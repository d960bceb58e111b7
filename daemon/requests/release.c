/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/requests.h"

#include "daemon/registry/bundle.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/share.h"

/* Events without any lease are unregistered in one batch, however long the packet is. */
static int release_leases(struct client *client, uint16_t count, struct cursor bits, struct wire_released *ret)
{
	struct reference **unclaimed = calloc(MAX(count, 1), sizeof(struct reference *));
	int r = unclaimed ? bundle_split(&client->holder) : -ENOMEM;
	size_t n = 0;

	if (r < 0) {
		free(unclaimed);
		return r;
	}
	for (size_t i = 0; i < count; i++) {
		struct lease *lease = lease_by_bit(&client->holder, release_next(&bits));

		if (!lease) {
			ret->not_held++;
			continue;
		}
		ret->released++;
		unclaimed[n] = lease_release(lease);
		n += unclaimed[n] != NULL;
	}
	references_release(unclaimed, n);
	shares_tidy(&client->holder);
	free(unclaimed);
	return 0;
}

int handle_release(struct client *client, const struct message *message)
{
	struct wire_released released = { 0 };
	struct cursor bits;
	uint16_t count;
	int r;

	r = decode_release(message->body, &count, &bits);
	if (r != 0)
		return r;
	r = release_leases(client, count, bits, &released);
	if (r == -EDQUOT) {
		client_disconnect(
			client, message->serial, REFUSAL_QUOTA_EXCEEDED,
			"programs with identical requests share their leases; leases of its own for the rest would be more "
			"than this tenant may have; connect again, and register only the rest");
		return 0;
	}
	if (r < 0) {
		client_disconnect(client, message->serial, REFUSAL_TROUBLE,
				  "the daemon is out of memory; try again later");
		return 0;
	}
	encode_released(client_answer(client, KIND_RELEASED, message->serial, 0), &released);
	client_send(client, NULL, 0);
	return 0;
}
