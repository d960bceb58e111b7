/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <sys/un.h>

#include "client/library/library.h"
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

/* For programs that are over before the daemon has answered. */
static int patience_of_the_user(void)
{
	const char *wait = secure_getenv("USEREV_WAIT");
	const long ms = wait ? strtol(wait, NULL, 10) : 0;

	return (int)MIN(MAX(ms, 0), (long)INT32_MAX);
}

static int settle_nowhere(struct userev *userev)
{
	int r;

	userev->nowhere = stream_open(userev, 0, -1);
	r = userev->nowhere ? library_adopt(userev) : -ENOMEM;
	if (userev->nowhere && r < 0)
		stream_close(userev->nowhere);
	return r;
}

int library_new(const char *socket, struct userev **ret)
{
	_cleanup_(memory_freep) struct userev *userev = memory_new(sizeof(*userev));
	int r;

	if (!userev)
		return -ENOMEM;
	userev->fd = -1;
	userev->candidate = -1;
	userev->poll_fd = -1;
	/* Until the daemon says otherwise. */
	userev->limits.packet_max = WIRE_PACKET_MAX;
	userev->limits.batch_max = WIRE_BATCH_MAX;
	TAILQ_INIT(&userev->streams);
	TAILQ_INIT(&userev->outdated);
	TAILQ_INIT(&userev->resting);
	TAILQ_INIT(&userev->batches);
	SLIST_INIT(&userev->sentences);
	userev->explains = explains_what();
	userev->wait_ms = patience_of_the_user();
	r = choose_socket(userev, socket);
	if (r == 0)
		r = settle_nowhere(userev);
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
	r = library_new(socket, ret);
	if (r == 0)
		connection_advance_patiently(*ret);
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
	int r;

	refusal_set("", 0);
	userev = library_meant(userev);
	r = userev ? connection_advance_patiently(userev) : 0;
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

static void close_fds(struct userev *userev)
{
	streams_close(&userev->streams);
	streams_close(&userev->outdated);
	streams_close(&userev->resting);
	stream_close(userev->nowhere);
	fd_close(userev->poll_fd);
}

_public_ void userev_close(struct userev *userev)
{
	ENTER_LIBRARY;
	struct batch *batch;

	if (!userev)
		return;
	library_disown(userev);
	losses_report(userev);
	connection_drop(userev);
	while ((batch = TAILQ_FIRST(&userev->batches)))
		batch_drop(userev, batch);
	close_fds(userev);
	sentences_free(&userev->sentences);
	page_unmap(userev->page);
	memory_free(userev);
}
