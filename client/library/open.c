/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opening and closing a userev, and calls that advance its connection. */

#include "client/library/open.h"
#include "client/library/debug.h"
#include "client/library/lock.h"
#include "client/library/memory.h"
#include "client/library/place.h"
#include "client/library/requests.h"
#include "client/library/session.h"

static struct userev *declared;

/* Does not connect. 0 or a negative errno. */
static int open_new(const char *socket, struct userev **ret)
{
	struct userev *userev = memory_new(sizeof(*userev));
	const char *wait = secure_getenv("USEREV_WAIT");
	int r;

	if (!userev)
		return -ENOMEM;
	debug_init();
	QUEUE_INIT(&userev->files.streams);
	QUEUE_INIT(&userev->files.outdated);
	QUEUE_INIT(&userev->files.quarantine);
	QUEUE_INIT(&userev->files.traces);
	files_note_page(&userev->files, false);
	QUEUE_INIT(&userev->events.batches);
	QUEUE_INIT(&userev->sentences);
	userev->wait_ms = wait ? (int)MIN(MAX(strtol(wait, NULL, 10), 0), (long)INT32_MAX) : 0;
	r = connection_init(&userev->connection, socket);
	if (r == 0) {
		userev->events.ungranted = stream_open(&userev->files, 0, -1);
		r = userev->events.ungranted ? session_add(userev) : -ENOMEM;
	}
	if (r < 0 && userev->events.ungranted)
		stream_close(userev->events.ungranted);
	if (r < 0)
		memory_free(userev);
	else
		*ret = userev;
	return r;
}

int open_at(const char *socket, uint8_t *page, struct userev **ret)
{
	LOCK_LIBRARY;
	int r = open_new(socket, ret);

	if (r == 0)
		(*ret)->files.page = page;
	return r;
}

struct userev *open_resolve(struct userev *userev)
{
	return userev ? userev : declared;
}

struct userev *open_declared(void)
{
	if (!declared && open_new(NULL, &declared) == 0)
		declared->events.are_declared = true;
	return declared;
}

_public_ struct userev *userev_open(const char *socket, unsigned flags)
{
	struct userev *userev = NULL;
	int r = -EINVAL;

	if (flags == 0) {
		LOCK_LIBRARY;

		sentence_set_last("", 0);
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

	sentence_set_last("", 0);
	userev = open_resolve(userev);
	r = userev ? session_advance_patiently(userev) : 0;
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

_public_ int userev_fd(struct userev *userev)
{
	LOCK_LIBRARY;

	userev = open_resolve(userev);
	return userev ? connection_poll_fd(&userev->connection) : -ENOENT;
}

_public_ int userev_poll(struct userev *userev, int timeout_ms)
{
	LOCK_LIBRARY;

	sentence_set_last("", 0);
	userev = open_resolve(userev);
	if (!userev)
		return 0;
	return session_advance(userev, timeout_ms < 0 ? INT64_MAX : clock_ms() + timeout_ms);
}

_public_ int userev_wait(int timeout_ms)
{
	return userev_poll(NULL, timeout_ms);
}

_public_ int userev_watch(struct userev *userev)
{
	LOCK_LIBRARY;
	int fd;

	userev = open_resolve(userev);
	if (!userev)
		return -ENOENT;
	fd = connection_poll_fd(&userev->connection);
	if (fd < 0)
		return fd;
	userev->watching = true;
	batches_scan_again(&userev->events);
	session_advance(userev, 0);
	return fd;
}

_public_ struct userev_event *userev_changed(struct userev *userev)
{
	LOCK_LIBRARY;

	userev = open_resolve(userev);
	if (!userev)
		return NULL;
	session_advance(userev, 0);
	if (atomic_exchange_explicit(&userev->files.rescan, false, memory_order_acquire))
		batches_scan_again(&userev->events);
	return batches_next_changed(&userev->events);
}

_public_ void userev_seal(struct userev *userev)
{
	LOCK_LIBRARY;

	userev = open_resolve(userev);
	if (!userev)
		return;
	userev->sealed = true;
	userev_limit(userev, userev->files.payload_max);
	streams_verify(&userev->files.streams);
	batches_place(&userev->events, place_resume);
}

_public_ void userev_close(struct userev *userev)
{
	LOCK_LIBRARY;

	if (!userev)
		return;
	loss_report(userev);
	session_remove(userev);
	session_drop(userev);
	while (QUEUE_FIRST(&userev->events.batches))
		batch_drop(&userev->events, QUEUE_FIRST(&userev->events.batches));
	stream_close(userev->events.ungranted);
	streams_close(&userev->files.streams);
	streams_close(&userev->files.outdated);
	streams_close(&userev->files.quarantine);
	streams_close(&userev->files.traces);
	page_unmap(userev->files.page);
	fd_close(userev->connection.poll_fd);
	sentences_free(&userev->sentences);
	memory_free(userev);
}

_public_ const char *userev_version(void)
{
	return VERSION;
}
