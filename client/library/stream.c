/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Streams are never freed. A thread that writes a record may have read an event's slot, or a stream's fd number, just before the
 * event leaves the stream and the stream is closed.
 *
 * In that case the file is closed nevertheless, because the tenant is charged as long as it is open, but an unconnected socket
 * takes over its number, and the stream is quarantined. A writer would have to be delayed between two instructions for the whole
 * quarantine to reach a later stream, which is one of the same connection.
 */

#include <fcntl.h>
#include <sys/socket.h>

#include "client/library/memory.h"
#include "client/library/page.h"
#include "client/library/stream.h"
#include "protocol/base/clock.h"
#include "protocol/fdset.h"
#include "protocol/wire.h"

enum {
	QUARANTINE_MS = 10000,
	QUARANTINE_MAX = 64, /* fds */
};

_Atomic(struct stream *) stream_slots[STREAM_SLOTS];
static struct streams unused = QUEUE_INITIALIZER(unused);

/* A quarantined stream, or one that is not in use, or a new one. NULL if there is no memory or no slot. */
static struct stream *stream_take_slot(struct files *files)
{
	static uint16_t next = 1; /* its page is in use: behind the slots one more would be touched */
	struct stream *stream = QUEUE_FIRST(&files->quarantine);

	if (stream &&
	    (files->n_quarantined == QUARANTINE_MAX || clock_ms() - stream->quarantined_at >= QUARANTINE_MS)) {
		QUEUE_REMOVE(&files->quarantine, stream);
		files->n_quarantined--;
		return stream;
	}
	stream = QUEUE_FIRST(&unused);
	if (stream) {
		QUEUE_REMOVE(&unused, stream);
		return stream;
	}
	stream = next < STREAM_SLOTS ? memory_new(sizeof(*stream)) : NULL;
	if (stream) {
		stream->slot = next++;
		stream->fd = -1;
		atomic_store_explicit(&stream_slots[stream->slot], stream, memory_order_release);
	}
	return stream;
}

struct stream *stream_open(struct files *files, uint32_t number, int fd)
{
	struct stream *stream = stream_take_slot(files);

	if (!stream)
		return NULL;
	stream->files = files;
	stream->number = number;
	stream->n_events = 0;
	stream->may_have_writers = false;
	/* After a quarantine the file replaces the socket, under the same fd number. */
	if (file_is(stream->fd, &stream->id) && dup3(fd, stream->fd, O_CLOEXEC) >= 0)
		fd_close(fd);
	else
		stream->fd = fd;
	stream->ended = false;
	file_identify(stream->fd, &stream->id);
	return stream;
}

void stream_close(struct stream *stream)
{
	if (file_is(stream->fd, &stream->id))
		fd_close(stream->fd);
	stream->fd = -1;
	QUEUE_APPEND(&unused, stream);
}

void streams_close(struct streams *streams)
{
	struct stream *stream;

	while ((stream = QUEUE_FIRST(streams))) {
		QUEUE_REMOVE(streams, stream);
		stream_close(stream);
	}
}

int streams_take(struct files *files, const struct message *message, struct fdset *fds, size_t position,
		 struct streams *to)
{
	for (size_t i = 0; i < message->streams; i++) {
		int *fd = &fds->fd[position + i];
		struct stream *stream;

		*fd = file_move_up(*fd);
		if (!file_is_data_file(*fd))
			return -EPROTO;
		stream = stream_open(files, message->stream[i], *fd);
		if (!stream)
			return -ENOMEM;
		fdset_steal(fds, position + i);
		/* At the head: if the daemon reuses a number, register_take() finds the newer stream. */
		QUEUE_PREPEND(to, stream);
	}
	return 0;
}

void streams_expect_writers(struct streams *streams)
{
	struct stream *stream;

	QUEUE_FOREACH(stream, streams)
		stream->may_have_writers = true;
}

void streams_close_unused(struct streams *streams)
{
	struct stream *stream, *next;
	int unconnected;

	for (stream = QUEUE_FIRST(streams); stream; stream = next) {
		next = QUEUE_NEXT(stream);
		if (stream->n_events > 0)
			continue;
		QUEUE_REMOVE(streams, stream);
		if (!stream->may_have_writers) {
			stream_close(stream);
			continue;
		}
		stream->ended = true;
		stream->quarantined_at = clock_ms();
		/* Writing to an unconnected socket fails with ENOTCONN. */
		unconnected = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (unconnected >= 0 && file_is(stream->fd, &stream->id) &&
		    dup3(unconnected, stream->fd, O_CLOEXEC) >= 0)
			file_identify(stream->fd, &stream->id);
		fd_close(unconnected);
		QUEUE_APPEND(&stream->files->quarantine, stream);
		stream->files->n_quarantined++;
	}
}

bool streams_verify(struct streams *streams)
{
	struct stream *stream;
	bool good = true;

	QUEUE_FOREACH(stream, streams) {
		if (stream->fd < 0 || file_is(stream->fd, &stream->id))
			continue;
		stream->fd = -1;
		stream->ended = true;
		stream->files->rescan = true;
		good = false;
	}
	return good;
}

void files_note_page(struct files *files, bool has_traces)
{
	static const uint8_t untraced[WIRE_PAGE_BYTES];

	files->traced = has_traces ? files->page + WIRE_TRACED_AT : untraced;
}

void files_mark(struct files *files, bool always)
{
	static const uint8_t marked = 1;

	files->mark = always ? &marked : files->page;
}
