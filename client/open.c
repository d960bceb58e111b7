/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <sys/un.h>

#include "client/library.h"
#include "protocol/transport.h"

static int choose_socket(struct userev *userev, const char *socket)
{
	struct sockaddr_un address;
	socklen_t length;
	int r;

	if (!socket) {
		/* Not in a program that runs with more rights than who set its environment. */
		socket = secure_getenv("USEREV_SOCKET");
		if (!socket || !*socket)
			return 0;
	}
	r = transport_address(socket, &address, &length);
	if (r < 0)
		return r;
	string_copy(userev->socket, sizeof(userev->socket), socket);
	return 0;
}

static int userev_new(const char *socket, struct userev **ret)
{
	_cleanup_(freep) struct userev *userev = calloc(1, sizeof(*userev));
	int r;

	if (!userev)
		return -ENOMEM;
	userev->fd = -1;
	LIST_INIT(&userev->streams);
	LIST_INIT(&userev->outdated);
	TAILQ_INIT(&userev->claims);
	SLIST_INIT(&userev->sentences);
	userev->batch_max = WIRE_BATCH_MAX;
	r = choose_socket(userev, socket);
	if (r == 0)
		r = library_adopt(userev);
	if (r < 0)
		return r;
	*ret = steal_pointer(userev);
	return 0;
}

static int open_and_connect(const char *socket, struct userev **ret)
{
	ENTER_LIBRARY;
	int r;

	refusal_set("", 0);
	r = userev_new(socket, ret);
	if (r == 0)
		connection_open(*ret);
	return r;
}

_public_ struct userev *userev_open(const char *socket, unsigned flags)
{
	struct userev *userev = NULL;
	int r = flags ? -EINVAL : open_and_connect(socket, &userev);

	if (r < 0)
		errno = -r;
	return userev;
}

_public_ int userev_connected(struct userev *userev)
{
	ENTER_LIBRARY;
	_cleanup_(freep) uint8_t *buffer = malloc(WIRE_PACKET_MAX);
	int r;

	refusal_set("", 0);
	if (!buffer)
		return -ENOMEM;
	r = connection_open(userev);
	return r < 0 ? r : claims_ask(userev, buffer);
}

_public_ void userev_close(struct userev *userev)
{
	ENTER_LIBRARY;
	struct claim *claim;

	if (!userev)
		return;
	library_disown(userev);
	losses_report(userev);
	connection_drop(userev);
	while ((claim = TAILQ_FIRST(&userev->claims)))
		claim_free(claim);
	streams_free(&userev->streams);
	streams_free(&userev->outdated);
	sentences_free(&userev->sentences);
	page_unmap(userev->page);
	fd_close(userev->fd);
	free(userev->users);
	free(userev);
}
