/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Streams stand in blocks that are never freed, each in a slot by which events name it: whoever writes an event may have read the
 * name, or the fd's number, when the event leaves the stream and the stream is closed.
 *
 * Where that may be so the file goes all the same, since events are charged for as long as it is open. An unconnected socket
 * takes the place of its number, and the slot rests: a writer would have to stand between two instructions until it is used again,
 * at the earliest for a later stream of the same connection.
 */

#include <fcntl.h>
#include <sys/socket.h>

#include "client/library/library.h"

enum {
	BLOCK = 8,
	SLOTS = PLACE_STREAM + 1,
	REST_MS = 10000,
	RESTING_MAX = 64, /* so many fds it may cost */
};

static _Atomic(struct stream *) blocks[SLOTS / BLOCK];
static struct streams unused = TAILQ_HEAD_INITIALIZER(unused);

struct stream *stream_at(union userev_place place)
{
	const unsigned slot = place.part.stream & PLACE_STREAM;

	if (slot == 0)
		return NULL;
	return atomic_load_explicit(&blocks[slot / BLOCK], memory_order_acquire) + slot % BLOCK;
}

/* Slot 0 is nobody's. */
static struct stream *cut_slot(void)
{
	static uint16_t last;
	const uint16_t slot = (uint16_t)(last + 1);
	struct stream *block;

	if (slot == SLOTS)
		return NULL;
	block = atomic_load(&blocks[slot / BLOCK]);
	if (!block)
		block = memory_new(BLOCK * sizeof(*block));
	if (!block)
		return NULL;
	atomic_store_explicit(&blocks[slot / BLOCK], block, memory_order_release);
	last = slot;
	block[slot % BLOCK].slot = slot;
	block[slot % BLOCK].fd = -1;
	return &block[slot % BLOCK];
}

static struct stream *take_rested(struct userev *userev)
{
	struct stream *stream = TAILQ_FIRST(&userev->resting);

	if (!stream || (userev->n_resting < RESTING_MAX && about_now_ms() - stream->rests_since < REST_MS))
		return NULL;
	TAILQ_REMOVE(&userev->resting, stream, entry);
	userev->n_resting--;
	return stream;
}

static struct stream *take_slot(struct userev *userev)
{
	struct stream *stream = take_rested(userev);

	if (stream)
		return stream;
	stream = TAILQ_FIRST(&unused);
	if (!stream)
		return cut_slot();
	TAILQ_REMOVE(&unused, stream, entry);
	return stream;
}

/* One that has rested keeps its number. */
static int take_number(const struct stream *stream, int fd)
{
	if (!fd_is(stream->fd, &stream->id) || dup3(fd, stream->fd, O_CLOEXEC) < 0)
		return fd;
	fd_close(fd);
	return stream->fd;
}

struct stream *stream_open(struct userev *userev, uint32_t number, int fd)
{
	struct stream *stream = take_slot(userev);

	if (!stream)
		return NULL;
	stream->userev = userev;
	stream->number = number;
	stream->holders = 0;
	stream->watched = userev->limits.backend == BACKEND_STATUS_PAGE;
	stream->in_doubt = false;
	stream->payload_max = userev->limits.payload_max;
	stream->fd = take_number(stream, fd);
	stream->ended = false;
	fd_identify(stream->fd, &stream->id);
	return stream;
}

void stream_close(struct stream *stream)
{
	if (fd_is(stream->fd, &stream->id))
		fd_close(stream->fd);
	stream->fd = -1;
	TAILQ_INSERT_TAIL(&unused, stream, entry);
}

void streams_close(struct streams *streams)
{
	struct stream *stream;

	while ((stream = TAILQ_FIRST(streams))) {
		TAILQ_REMOVE(streams, stream, entry);
		stream_close(stream);
	}
}

/* In front: where the daemon says a number again, the new file is meant. */
int streams_take(struct userev *userev, struct reply *reply, size_t position, struct streams *to)
{
	for (size_t i = 0; i < reply->message.streams; i++) {
		struct stream *stream;

		reply->fds.fd[position + i] = fd_out_of_the_way(reply->fds.fd[position + i]);
		if (!fd_is_data_file(reply->fds.fd[position + i]))
			return -EPROTO;
		stream = stream_open(userev, reply->message.stream[i], reply->fds.fd[position + i]);
		if (!stream)
			return -ENOMEM;
		fdset_steal(&reply->fds, position + i);
		TAILQ_INSERT_HEAD(to, stream, entry);
	}
	return 0;
}

struct stream *streams_find(struct streams *streams, uint32_t number)
{
	struct stream *stream;

	TAILQ_FOREACH(stream, streams, entry)
		if (stream->number == number)
			break;
	return stream;
}

void streams_doubt(struct streams *streams)
{
	struct stream *stream;

	TAILQ_FOREACH(stream, streams, entry)
		stream->in_doubt = true;
}

/* Who still writes there gets ENOTCONN. */
static void rest(struct stream *stream)
{
	_cleanup_(fd_closep) int nowhere = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct userev *userev = stream->userev;

	stream->ended = true;
	if (nowhere >= 0 && fd_is(stream->fd, &stream->id) && dup3(nowhere, stream->fd, O_CLOEXEC) >= 0)
		fd_identify(stream->fd, &stream->id);
	stream->rests_since = about_now_ms();
	TAILQ_INSERT_TAIL(&userev->resting, stream, entry);
	userev->n_resting++;
}

void streams_tidy(struct streams *streams)
{
	struct stream *stream, *next;

	for (stream = TAILQ_FIRST(streams); stream; stream = next) {
		next = TAILQ_NEXT(stream, entry);
		if (stream->holders > 0)
			continue;
		TAILQ_REMOVE(streams, stream, entry);
		if (stream->in_doubt)
			rest(stream);
		else
			stream_close(stream);
	}
}

bool streams_verify(struct streams *streams)
{
	struct stream *stream;
	bool good = true;

	TAILQ_FOREACH(stream, streams, entry) {
		if (stream->fd < 0 || fd_is(stream->fd, &stream->id))
			continue;
		stream->fd = -1;
		stream->ended = true;
		stream->userev->look_again = true;
		good = false;
	}
	return good;
}

bool streams_lead_somewhere(const struct streams *streams)
{
	const struct stream *stream;

	TAILQ_FOREACH(stream, streams, entry)
		if (stream->ended)
			return false;
	return true;
}
