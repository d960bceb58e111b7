/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/requests.h"

#include "daemon/registry/pages.h"

int handle_watch(struct client *client, const struct message *message)
{
	struct wire_watch watch;

	if (decode_fixed(message->body, KIND_WATCH, &watch) != 0)
		return REFUSAL_BAD_PACKET;
	pages_watch(&client->holder, watch.on);
	client_answer(client, KIND_WATCHING, message->serial, 0);
	client_send(client, NULL, 0);
	return 0;
}
