/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <sys/socket.h>

#include "client/library.h"

/* A program that has closed its standard output must not find us there. */
int fd_above_stdio(int fd)
{
	int above = fd >= 0 && fd <= STDERR_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;

	if (above < 0)
		return fd;
	fd_close(fd);
	return above;
}

static struct stream *stream_new(struct userev *userev, uint32_t number, int fd)
{
	struct stream *stream = malloc(sizeof(*stream));

	if (!stream)
		return NULL;
	*stream = (struct stream){
		.holders = 1,
		.userev = userev,
		.number = number,
		.payload_max = userev->limits.payload_max,
		.fd = fd,
	};
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
		fd_close(stream->fd);
		free(stream);
	}
	return NULL;
}

/* In front: where the daemon says a number again, the new file is meant. */
int streams_take(struct userev *userev, struct reply *reply, size_t position, struct streams *to)
{
	for (size_t i = 0; i < reply->message.streams; i++) {
		struct stream *stream;

		reply->fds.fd[position + i] = fd_above_stdio(reply->fds.fd[position + i]);
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
	LIST_FOREACH(stream, streams, entry)
		if (nowhere >= 0)
			dup3(nowhere, stream->fd, O_CLOEXEC);
	streams_free(streams);
}
