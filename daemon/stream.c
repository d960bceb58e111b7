/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/stream.h"

#include "daemon/daemon.h"
#include "daemon/event.h"
#include "daemon/tenant.h"
#include "kernel/kernel.h"

static struct stream *find(struct daemon *daemon, uint32_t number)
{
	struct stream *stream;

	HASH_FIND(by_number, daemon->streams, &number, sizeof(number), stream);
	return stream;
}

uint32_t stream_next_number(struct daemon *daemon)
{
	do
		daemon->last_stream++;
	while (daemon->last_stream == 0 || find(daemon, daemon->last_stream));
	return daemon->last_stream;
}

struct stream *stream_new(struct tenant *tenant, uint32_t number)
{
	struct daemon *daemon = tenant->daemon;
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->daemon = daemon;
	stream->tenant = tenant;
	stream->number = number;
	stream->clients = 1;
	HASH_ADD(by_number, daemon->streams, number, sizeof(stream->number), stream);
	if (!table_added()) {
		free(stream);
		return NULL;
	}
	tenant->streams++;
	return stream;
}

/* What is being released. A reference that ends before the kernel answers is not in it any more. */
struct release {
	struct reference *reference;
};

struct releases {
	struct kernel_call *calls;
	struct release release[];
};

static void reference_free(struct reference *reference)
{
	if (reference->release)
		reference->release->reference = NULL;
	HASH_DELETE(by_grant, reference->stream->references, reference);
	LIST_REMOVE(reference, in_grant);
	grant_unref(reference->grant);
	free(reference);
}

void stream_free(struct stream *stream)
{
	struct daemon *daemon = stream->daemon;
	struct tenant *tenant = stream->tenant;
	struct reference *reference, *next;

	if (stream->clients == 0)
		TAILQ_REMOVE(&daemon->lingering, stream, lingers);
	kernel_tell(daemon->kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = stream->number });
	HASH_ITER(by_grant, stream->references, reference, next)
		reference_free(reference);
	HASH_DELETE(by_number, daemon->streams, stream);
	free(stream);
	tenant->streams--;
	tenant_release(tenant);
}

/* What the kernel said of one lingering stream, which may have ended while the question was under way. */
static void on_still_open(void *data, struct kernel_call *call, size_t n _unused_)
{
	struct daemon *daemon = data;
	struct stream *stream = find(daemon, call->stream);

	if (stream)
		stream->asked = false;
	/* What nobody expected is no answer: charged until there is one. */
	if (stream && (call->result == KERNEL_E_GONE || call->result == KERNEL_E_NO_SUCH))
		stream_free(stream);
	free(call);
}

static void look(struct stream *stream)
{
	struct kernel_call *call = stream->asked ? NULL : malloc(sizeof(*call));

	if (!call)
		return; /* the next look will find it */
	stream->asked = true;
	*call = (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = stream->number };
	kernel_submit(stream->daemon->kernel, call, 1, on_still_open, stream->daemon);
}

void stream_client_ends(struct stream *stream)
{
	struct daemon *daemon = stream->daemon;

	if (--stream->clients > 0)
		return;
	TAILQ_INSERT_TAIL(&daemon->lingering, stream, lingers);
	if (!stream->references)
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

struct reference *reference_get(struct stream *stream, struct grant *grant, uint32_t index)
{
	struct reference *reference;

	HASH_FIND(by_grant, stream->references, &grant, sizeof(struct grant *), reference);
	if (!reference) {
		reference = calloc(1, sizeof(*reference));
		if (!reference)
			return NULL;
		reference->stream = stream;
		reference->grant = grant;
		LIST_INIT(&reference->leases);
		HASH_ADD(by_grant, stream->references, grant, sizeof(struct grant *), reference);
		if (!table_added()) {
			free(reference);
			return NULL;
		}
		grant_ref(grant);
		LIST_INSERT_HEAD(&grant->registered, reference, in_grant);
	}
	reference->index = index;
	return reference;
}

/* With the last thing that a client left behind on it, a stream ends. */
static void reference_end(struct reference *reference)
{
	struct stream *stream = reference->stream;

	reference_free(reference);
	if (stream->clients == 0 && !stream->references)
		stream_free(stream);
}

static void on_released(void *data, struct kernel_call *calls, size_t n)
{
	struct releases *releases = data;

	for (size_t i = 0; i < n; i++) {
		struct reference *reference = releases->release[i].reference;
		bool gone = calls[i].result == KERNEL_OK || calls[i].result == KERNEL_E_NO_SUCH;

		if (!reference)
			continue;
		reference->release = NULL;
		/* KERNEL_E_LINGERS: it stays as long as its stream. And it may have been leased anew meanwhile. */
		if (gone && LIST_EMPTY(&reference->leases))
			reference_end(reference);
	}
	free(calls);
	free(releases);
}

static void add_release(struct releases *releases, size_t i, struct reference *reference)
{
	if (reference->release)
		reference->release->reference = NULL;
	reference->release = &releases->release[i];
	releases->release[i].reference = reference;
	releases->calls[i] = (struct kernel_call){
		.op = KERNEL_RELEASE,
		.stream = reference->stream->number,
		.index = reference->index,
	};
}

void references_release(struct reference *const *references, size_t n)
{
	struct releases *releases;

	if (n == 0)
		return;
	releases = calloc(1, sizeof(*releases) + n * sizeof(releases->release[0]));
	if (releases)
		releases->calls = calloc(n, sizeof(*releases->calls));
	if (!releases || !releases->calls) {
		free(releases);
		return; /* charged until their stream ends: dearer than right, never cheaper */
	}
	for (size_t i = 0; i < n; i++)
		add_release(releases, i, references[i]);
	kernel_submit(references[0]->stream->daemon->kernel, releases->calls, n, on_released, releases);
}
