/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/release.h"

#include "daemon/lease.h"

int handle_release(struct client *client, const struct message *message)
{
	struct wire_released released = { 0 };
	struct cursor bits;
	uint16_t count;
	int r;

	r = decode_release(message->body, &count, &bits);
	if (r != 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		struct lease *lease = lease_by_bit(client, release_next(&bits));

		if (lease) {
			lease_release(lease);
			released.released++;
		} else {
			released.not_held++;
		}
	}
	encode_released(client_answer(client, KIND_RELEASED, message->serial, 0), &released);
	client_send(client, NULL, 0);
	return 0;
}
