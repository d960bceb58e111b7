/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/reference.h"

#include "daemon/ledger/entries.h"
#include "daemon/process/memory.h"
#include "daemon/registry/event.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "kernel/kernel.h"

/* A reference that is being released. It is NULL if the reference was freed before the kernel answered. */
struct release {
	struct reference *reference;
};

struct releases {
	struct kernel_call *calls;
	struct release release[];
};

static void reference_enter(struct reference *reference)
{
	const struct stream *stream = reference->stream;
	const struct entry_reference entry = { .index = reference->index, .bit = reference->grant->bit };

	ledger_enter(stream->registry->ledger, &reference->entry, ENTRY_REFERENCE, stream->number,
		     reference->grant->number, &entry, sizeof(entry));
}

void reference_enter_asked(const struct stream *stream, const struct grant *grant, uint32_t *ret_entry)
{
	ledger_enter(stream->registry->ledger, ret_entry, ENTRY_ASKED, stream->number, grant->number, "", 0);
}

void reference_free(struct reference *reference)
{
	if (reference->release)
		reference->release->reference = NULL;
	ledger_strike(reference->stream->registry->ledger, &reference->entry);
	HASH_DELETE(by_grant, reference->stream->references, reference);
	LIST_REMOVE(reference, in_grant);
	grant_unref(reference->grant);
	quota_release(&reference->stream->tenant->level->own_leases);
	memory_freed(&reference->stream->registry->memory, sizeof(*reference));
	free(reference);
}

struct reference *reference_find(const struct stream *stream, struct grant *grant)
{
	struct reference *reference;

	NUMBER_FIND(by_grant, stream->references, grant, reference);
	return reference && !reference->release ? reference : NULL;
}

struct reference *reference_get(struct stream *stream, struct grant *grant, uint32_t index)
{
	struct reference *reference;

	NUMBER_FIND(by_grant, stream->references, grant, reference);
	if (!reference) {
		reference = calloc(1, sizeof(*reference));
		if (!reference)
			return NULL;
		memory_taken(&stream->registry->memory, sizeof(*reference));
		reference->stream = stream;
		reference->grant = grant;
		LIST_INIT(&reference->leases);
		NUMBER_ADD(by_grant, stream->references, grant, reference);
		if (!table_added()) {
			free(reference);
			return NULL;
		}
		grant_ref(grant);
		LIST_INSERT_HEAD(&grant->registered, reference, in_grant);
		/* The charge of its first lease; without any lease the reference itself counts as one. */
		quota_hold(&stream->tenant->level->own_leases);
	}
	reference->index = index;
	reference_enter(reference);
	return reference;
}

static void on_released(void *data, struct kernel_call *calls, size_t n)
{
	struct releases *releases = data;

	for (size_t i = 0; i < n; i++) {
		struct reference *reference = releases->release[i].reference;
		struct stream *stream = reference ? reference->stream : NULL;
		bool gone = calls[i].result == KERNEL_OK || calls[i].result == KERNEL_E_NO_SUCH;

		if (!reference)
			continue;
		reference->release = NULL;
		/* KERNEL_E_LINGERS: it stays as long as its stream. It may have been leased again meanwhile. */
		if (!gone || !LIST_EMPTY(&reference->leases))
			continue;
		reference_free(reference);
		if (stream->users == 0 && !stream->references)
			stream_free(stream);
	}
	free(calls);
	free(releases);
}

void references_release(struct reference *const *references, size_t n)
{
	struct releases *releases;

	/* With KeepFor=, events without a lease stay registered. */
	if (n == 0 || rules_keep_for(references[0]->stream->tenant) > 0)
		return;
	releases = calloc(1, sizeof(*releases) + n * sizeof(releases->release[0]));
	if (releases)
		releases->calls = calloc(n, sizeof(*releases->calls));
	if (!releases || !releases->calls) {
		free(releases);
		return; /* they stay charged until their stream ends */
	}
	for (size_t i = 0; i < n; i++) {
		if (references[i]->release)
			references[i]->release->reference = NULL;
		references[i]->release = &releases->release[i];
		releases->release[i].reference = references[i];
		releases->calls[i] = (struct kernel_call){
			.op = KERNEL_RELEASE,
			.stream = references[i]->stream->number,
			.index = references[i]->index,
		};
	}
	kernel_submit(references[0]->stream->registry->kernel, releases->calls, n, on_released, releases);
}
