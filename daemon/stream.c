/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/stream.h"

#include "daemon/daemon.h"
#include "daemon/event.h"
#include "kernel/kernel.h"

struct stream *stream_new(struct daemon *daemon, uint32_t number)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->daemon = daemon;
	stream->number = number;
	stream->clients = 1;
	LIST_INIT(&stream->references);
	HASH_ADD(by_number, daemon->streams, number, sizeof(stream->number), stream);
	if (!table_added()) {
		free(stream);
		return NULL;
	}
	return stream;
}

/* A release whose reference ends before the kernel answers finds nobody. */
struct release {
	struct kernel_call call;
	struct reference *reference;
};

static void reference_free(struct reference *reference)
{
	if (reference->release)
		reference->release->reference = NULL;
	LIST_REMOVE(reference, in_stream);
	LIST_REMOVE(reference, in_grant);
	grant_unref(reference->grant);
	free(reference);
}

void stream_free(struct stream *stream)
{
	struct daemon *daemon = stream->daemon;

	if (stream->clients == 0)
		TAILQ_REMOVE(&daemon->lingering, stream, lingers);
	kernel_tell(daemon->kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = stream->number });
	while (!LIST_EMPTY(&stream->references))
		reference_free(LIST_FIRST(&stream->references));
	HASH_DELETE(by_number, daemon->streams, stream);
	free(stream);
}

/* What the kernel said of one lingering stream, which may have ended while the question was under way. */
static void on_still_open(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct daemon *daemon = data;
	struct stream *stream;

	HASH_FIND(by_number, daemon->streams, &call->stream, sizeof(call->stream), stream);
	if (stream && call->result != KERNEL_OK)
		stream_free(stream);
	free(call);
}

static void look(struct stream *stream)
{
	struct kernel_call *call = malloc(sizeof(*call));

	if (!call)
		return; /* the next look will find it */
	*call = (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = stream->number };
	kernel_submit(stream->daemon->kernel, call, 1, on_still_open, stream->daemon);
}

void stream_client_ends(struct stream *stream)
{
	struct daemon *daemon = stream->daemon;

	if (--stream->clients > 0)
		return;
	TAILQ_INSERT_TAIL(&daemon->lingering, stream, lingers);
	if (LIST_EMPTY(&stream->references))
		stream_free(stream);
	else
		look(stream);
	daemon_watch_lingering(daemon);
}

bool streams_look(struct daemon *daemon)
{
	struct stream *stream, *next;

	for (stream = TAILQ_FIRST(&daemon->lingering); stream; stream = next) {
		next = TAILQ_NEXT(stream, lingers);
		look(stream);
	}
	return !TAILQ_EMPTY(&daemon->lingering);
}

static struct reference *reference_find(struct stream *stream, struct grant *grant)
{
	struct reference *reference;

	/* A grant stands on few streams; a stream may have thousands of grants. */
	LIST_FOREACH(reference, &grant->registered, in_grant)
		if (reference->stream == stream)
			return reference;
	return NULL;
}

struct reference *reference_get(struct stream *stream, struct grant *grant, uint32_t index)
{
	struct reference *reference = reference_find(stream, grant);

	if (!reference) {
		reference = calloc(1, sizeof(*reference));
		if (!reference)
			return NULL;
		reference->stream = stream;
		reference->grant = grant_ref(grant);
		LIST_INIT(&reference->leases);
		LIST_INSERT_HEAD(&stream->references, reference, in_stream);
		LIST_INSERT_HEAD(&grant->registered, reference, in_grant);
	}
	reference->index = index;
	return reference;
}

static void on_released(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct release *release = data;
	struct reference *reference = release->reference;

	if (reference) {
		reference->release = NULL;
		/* KERNEL_E_LINGERS: it stays as long as its stream. And it may have been leased anew meanwhile. */
		if (call->result == KERNEL_OK && LIST_EMPTY(&reference->leases))
			reference_free(reference);
	}
	free(release);
}

void reference_release(struct reference *reference)
{
	struct release *release = calloc(1, sizeof(*release));

	if (!release)
		return; /* charged until its stream ends: dearer than right, never cheaper */
	if (reference->release)
		reference->release->reference = NULL;
	reference->release = release;
	release->reference = reference;
	release->call = (struct kernel_call){
		.op = KERNEL_RELEASE,
		.stream = reference->stream->number,
		.index = reference->index,
	};
	kernel_submit(reference->stream->daemon->kernel, &release->call, 1, on_released, release);
}
