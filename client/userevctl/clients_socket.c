/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which socket a client would use. */

#include "client/userevctl/ctl.h"

static const char *const usual[] = { "/run/userevd/client/userevd.sock", "/run/userevd.sock" };

static const char *chosen_socket(const struct ctl *ctl)
{
	const char *path = ctl && ctl->socket ? ctl->socket : getenv("USEREV_SOCKET");

	return path && path[0] ? path : NULL;
}

bool clients_socket_listens(const char *path)
{
	_cleanup_(control_freep) struct control *control = NULL;
	int r = control_open(path, &control);

	return r == 0 || r == -EAGAIN;
}

/* As the library chooses: the first one with a listener, otherwise the first that exists, otherwise the one in containers. */
const char *clients_socket_path(const struct ctl *ctl)
{
	const char *path = chosen_socket(ctl);

	for (size_t i = 0; !path && i < ARRAY_SIZE(usual); i++)
		if (clients_socket_listens(usual[i]))
			path = usual[i];
	for (size_t i = 0; !path && i < ARRAY_SIZE(usual); i++)
		if (access(usual[i], F_OK) == 0)
			path = usual[i];
	return path ? path : usual[0];
}

const char *clients_socket_advice(const struct ctl *ctl)
{
	if (chosen_socket(ctl))
		return "Start it, or give another path with --socket or USEREV_SOCKET.";
	if (access("/run/userevd/client", F_OK) == 0)
		return "Start it with 'systemctl start userevd' or 'userevd --foreground'; in a container, on its host.";
	return "Start one with 'systemctl start userevd' or 'userevd --foreground'. In a container, mount the host's "
	       "directory: '-v /run/userevd/client:/run/userevd/client:ro', see userevd-containers(7).";
}
