/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/requests.h"

#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/share.h"

/* Events without any lease are unregistered in one batch, however long the packet is. */
static int release_leases(struct client *client, uint16_t count, struct cursor bits, struct wire_released *ret)
{
	struct reference **unclaimed = malloc(MAX(count, 1) * sizeof(struct reference *));
	size_t n = 0;

	if (!unclaimed)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct reference *reference = lease_by_bit(&client->holder, release_next(&bits));

		if (!reference) {
			ret->not_held++;
			continue;
		}
		ret->released++;
		if (lease_release(&client->holder, reference))
			unclaimed[n++] = reference;
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
	if (r < 0)
		return r;
	/* Then this answers as the daemon before would have: it has released those that are not held any more. */
	if (client->may_repeat) {
		released.released += released.not_held;
		released.not_held = 0;
	}
	encode_fixed(client_answer(client, KIND_RELEASED, message->serial, 0), KIND_RELEASED, &released);
	client_send(client, NULL, 0);
	return 0;
}
