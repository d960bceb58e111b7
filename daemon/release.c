/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/release.h"

#include "daemon/bundle.h"
#include "daemon/lease.h"
#include "daemon/reference.h"
#include "daemon/stream.h"

/* What nobody claims any more goes to the kernel in one batch, however long the packet. */
static int release_all(struct client *client, uint16_t count, struct cursor bits, struct wire_released *ret)
{
	struct reference **unclaimed = calloc(MAX(count, 1), sizeof(struct reference *));
	size_t n = 0;

	if (!unclaimed || bundle_split(client) < 0) {
		free(unclaimed);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		struct lease *lease = lease_by_bit(client, release_next(&bits));

		if (!lease) {
			ret->not_held++;
			continue;
		}
		ret->released++;
		unclaimed[n] = lease_release(lease);
		n += unclaimed[n] != NULL;
	}
	references_release(unclaimed, n);
	shares_tidy(client);
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
	if (release_all(client, count, bits, &released) < 0) {
		client_cut(client, message->serial, REFUSAL_TROUBLE, "the daemon is out of memory; try again later");
		return 0;
	}
	encode_released(client_answer(client, KIND_RELEASED, message->serial, 0), &released);
	client_send(client, NULL, 0);
	return 0;
}
