/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which socket a client would use. */

#include "client/userevctl/ctl.h"

bool clients_socket_listens(const char *path)
{
	_cleanup_(control_freep) struct control *control = NULL;
	int r = control_open(path, &control);

	return r == 0 || r == -EAGAIN;
}

/* As the library chooses: the first one with a listener, otherwise the first that exists, otherwise the one in containers. */
const char *clients_socket_path(const struct ctl *ctl)
{
	static const char *const usual[] = { "/run/userevd/client/userevd.sock", "/run/userevd.sock" };
	const char *path = ctl && ctl->socket ? ctl->socket : getenv("USEREV_SOCKET");

	if (path && path[0])
		return path;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (clients_socket_listens(usual[i]))
			return usual[i];
	return access(usual[0], F_OK) < 0 && access(usual[1], F_OK) == 0 ? usual[1] : usual[0];
}
