/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <sys/un.h>

#include "client/library/event.h"
#include "client/library/lock.h"
#include "client/library/memory.h"
#include "client/library/module.h"
#include "client/library/open.h"
#include "client/library/page.h"
#include "client/library/public.h"
#include "client/library/session.h"
#include "client/library/write.h"
#include "protocol/transport.h"

static int open_set_socket(struct userev *userev, const char *socket)
{
	struct sockaddr_un address;
	socklen_t length;
	int r;

	if (!socket) {
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

int open_new(const char *socket, struct userev **ret)
{
	_cleanup_(memory_freep) struct userev *userev = memory_new(sizeof(*userev));
	const char *wait = secure_getenv("USEREV_WAIT");
	int r;

	if (!userev)
		return -ENOMEM;
	userev->fd = -1;
	userev->poll_fd = -1;
	/* Until WELCOME. */
	userev->limits.packet_max = WIRE_PACKET_MAX;
	userev->limits.batch_max = WIRE_BATCH_MAX;
	TAILQ_INIT(&userev->streams);
	TAILQ_INIT(&userev->outdated);
	TAILQ_INIT(&userev->quarantine);
	TAILQ_INIT(&userev->batches);
	SLIST_INIT(&userev->sentences);
	userev->debug = debug_level();
	userev->wait_ms = wait ? (int)MIN(MAX(strtol(wait, NULL, 10), 0), (long)INT32_MAX) : 0;
	r = open_set_socket(userev, socket);
	if (r < 0)
		return r;
	userev->ungranted = stream_open(userev, 0, -1);
	if (!userev->ungranted)
		return -ENOMEM;
	r = lock_add(userev);
	if (r < 0) {
		stream_close(userev->ungranted);
		return r;
	}
	*ret = steal_pointer(userev);
	return 0;
}

_public_ struct userev *userev_open(const char *socket, unsigned flags)
{
	struct userev *userev = NULL;
	int r = -EINVAL;

	if (flags == 0) {
		LOCK_LIBRARY;

		event_set_refusal("", 0);
		r = open_new(socket, &userev);
		if (r == 0)
			session_advance_patiently(userev);
	}
	if (r < 0)
		errno = -r;
	return userev;
}

_public_ int userev_connected(struct userev *userev)
{
	LOCK_LIBRARY;
	int r;

	event_set_refusal("", 0);
	userev = module_resolve(userev);
	r = userev ? session_advance_patiently(userev) : 0;
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

_public_ void userev_close(struct userev *userev)
{
	LOCK_LIBRARY;
	struct batch *batch;

	if (!userev)
		return;
	lock_remove(userev);
	write_report_losses(userev);
	connection_drop(userev);
	while ((batch = TAILQ_FIRST(&userev->batches)))
		batch_drop(userev, batch);
	streams_close(&userev->streams);
	streams_close(&userev->outdated);
	streams_close(&userev->quarantine);
	stream_close(userev->ungranted);
	fd_close(userev->poll_fd);
	sentences_free(&userev->sentences);
	page_unmap(userev->page);
	memory_free(userev);
}
