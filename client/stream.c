/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <sys/socket.h>

#include "client/library.h"

static struct stream *stream_new(struct userev *userev, uint32_t number, int fd)
{
	struct stream *stream = memory_new(sizeof(*stream));

	if (!stream)
		return NULL;
	stream->holders = 1;
	stream->userev = userev;
	stream->number = number;
	stream->payload_max = userev->limits.payload_max;
	stream->fd = fd;
	fd_identify(fd, &stream->id);
	return stream;
}

struct stream *stream_ref(struct stream *stream)
{
	stream->holders++;
	return stream;
}

struct stream *stream_unref(struct stream *stream)
{
	if (stream && --stream->holders == 0) {
		if (fd_is(stream->fd, &stream->id))
			fd_close(stream->fd);
		memory_free(stream);
	}
	return NULL;
}

/* In front: where the daemon says a number again, the new file is meant. */
int streams_take(struct userev *userev, struct reply *reply, size_t position, struct streams *to)
{
	for (size_t i = 0; i < reply->message.streams; i++) {
		struct stream *stream;

		reply->fds.fd[position + i] = fd_out_of_the_way(reply->fds.fd[position + i]);
		if (!fd_is_data_file(reply->fds.fd[position + i]))
			return -EPROTO;
		stream = stream_new(userev, reply->message.stream[i], reply->fds.fd[position + i]);
		if (!stream)
			return -ENOMEM;
		fdset_steal(&reply->fds, position + i);
		LIST_INSERT_HEAD(to, stream, entry);
	}
	return 0;
}

struct stream *streams_find(struct streams *streams, uint32_t number)
{
	struct stream *stream;

	LIST_FOREACH(stream, streams, entry)
		if (stream->number == number)
			return stream;
	return NULL;
}

void streams_tidy(struct streams *streams)
{
	struct stream *stream, *next;

	for (stream = LIST_FIRST(streams); stream; stream = next) {
		next = LIST_NEXT(stream, entry);
		if (stream->holders > 1)
			continue;
		LIST_REMOVE(stream, entry);
		stream_unref(stream);
	}
}

void streams_free(struct streams *streams)
{
	struct stream *stream;

	while ((stream = LIST_FIRST(streams))) {
		LIST_REMOVE(stream, entry);
		stream_unref(stream);
	}
}

/*
 * Events are charged for as long as their stream is open, so the file has to go. But a thread may have read the fd's number
 * and not yet written: it must find nothing else there. An unconnected socket takes the number's place (ENOTCONN).
 */
void streams_retire(struct streams *streams)
{
	_cleanup_(fd_closep) int nowhere = -1;
	struct stream *stream;

	if (LIST_EMPTY(streams))
		return;
	nowhere = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	for (stream = LIST_FIRST(streams); stream; stream = LIST_NEXT(stream, entry)) {
		stream->ended = true;
		if (nowhere >= 0 && fd_is(stream->fd, &stream->id) && dup3(nowhere, stream->fd, O_CLOEXEC) >= 0)
			fd_identify(stream->fd, &stream->id);
	}
	streams_free(streams);
}

bool streams_verify(struct streams *streams)
{
	struct stream *stream;
	bool good = true;

	for (stream = LIST_FIRST(streams); stream; stream = LIST_NEXT(stream, entry)) {
		if (stream->fd < 0 || fd_is(stream->fd, &stream->id))
			continue;
		stream->fd = -1;
		stream->ended = true;
		good = false;
	}
	return good;
}

bool streams_lead_somewhere(const struct streams *streams)
{
	const struct stream *stream;

	LIST_FOREACH(stream, streams, entry)
		if (stream->ended)
			return false;
	return true;
}
