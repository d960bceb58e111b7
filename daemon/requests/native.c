/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/native/native.h"

#include "daemon/registry/tenant.h"
#include "daemon/requests/requests.h"

/* The client may pass it on: the tenant that registers on it is charged. */
int handle_native(struct client *client, const struct message *message)
{
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	_cleanup_(fd_closep) int file = native_open_file(client->holder.tenant, &why);

	if (file < 0) {
		client_disconnect(client, message->serial, REFUSAL_NOT_PERMITTED, "%s", why.buffer);
		return 0;
	}
	client_answer(client, KIND_NATIVE_FILE, message->serial, 0);
	client_send(client, &file, 1);
	return 0;
}
