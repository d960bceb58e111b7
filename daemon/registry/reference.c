/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/reference.h"

#include "daemon/ledger/entries.h"
#include "daemon/registry/event.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "kernel/kernel.h"

void reference_free(struct reference *reference)
{
	struct grant *grant = reference->grant;
	struct tenant *tenant = reference->stream->tenant;

	tenant->ended++;
	ledger_strike(tenant->registry->ledger, &reference->entry);
	id_table_remove(&reference->stream->references, reference);
	LIST_REMOVE(reference, in_grant);
	quota_release(&tenant->level->own[RESOURCE_LEASES]);
	reference->stream = NULL;
	if (reference != &grant->first)
		free(reference);
	grant_unref(grant);
}

/* Until the kernel has answered, the grant has bit 0, and no reference. */
struct reference *reference_there(const struct stream *stream, const struct grant *grant)
{
	return id_table_find(&stream->references, grant->bit);
}

struct reference *reference_find(const struct stream *stream, const struct grant *grant)
{
	struct reference *reference = reference_there(stream, grant);

	return reference && !reference->releasing ? reference : NULL;
}

/* NULL: no memory. */
static struct reference *reference_new(struct stream *stream, struct grant *grant)
{
	struct reference *reference = grant->first.stream ? malloc(sizeof(*reference)) : &grant->first;

	if (!reference)
		return NULL;
	*reference = (struct reference){ .bit = grant->bit, .stream = stream, .grant = grant };
	if (!id_table_add(&stream->references, reference)) {
		reference->stream = NULL;
		if (reference != &grant->first)
			free(reference);
		return NULL;
	}
	grant_ref(grant);
	LIST_INSERT_HEAD(&grant->registered, reference, in_grant);
	/* The charge of its first lease; without any lease the reference itself counts as one. */
	quota_hold(&stream->tenant->level->own[RESOURCE_LEASES]);
	return reference;
}

/*
 * The entry of a question to the kernel becomes that of the reference, unless it has one. (In a longer function GCC's analyser takes
 * `entry` for uninitialised memory.)
 */
static void reference_enter(struct reference *reference, uint32_t *asked)
{
	const struct entry_reference entry = { .index = reference->index, .bit = reference->grant->bit };
	const struct stream *stream = reference->stream;
	uint64_t word;

	_Static_assert(sizeof(word) == sizeof(entry), "data of one word");
	if (reference->entry != 0 || *asked == 0) {
		ledger_enter(stream->registry->ledger, &reference->entry, ENTRY_REFERENCE, stream->number,
			     reference->grant->number, &entry, sizeof(entry), "");
		return;
	}
	memcpy(&word, &entry, sizeof(word));
	ledger_become(stream->registry->ledger, *asked, ENTRY_REFERENCE, word);
	reference->entry = *asked;
	*asked = 0;
}

struct reference *reference_get(struct stream *stream, struct grant *grant, uint32_t index, uint32_t *asked)
{
	struct reference *reference = reference_there(stream, grant);

	if (!reference)
		reference = reference_new(stream, grant);
	if (!reference)
		return NULL;
	reference->index = index;
	reference_enter(reference, asked);
	return reference;
}

struct releases {
	struct registry *registry;
	uint32_t *bit; /* of the references, behind the calls */
	struct kernel_call calls[];
};

/*
 * Meanwhile an event may have been leased again, or a stream may have ended. Answers come in the order of the calls, so a registration
 * that was asked for since then is answered after this.
 */
static void references_on_released(void *data, struct kernel_call *calls, size_t n)
{
	_cleanup_(freep) struct releases *releases = data;

	for (size_t i = 0; i < n; i++) {
		struct stream *stream = stream_by_number(releases->registry, calls[i].stream);
		struct reference *reference = stream ? id_table_find(&stream->references, releases->bit[i]) : NULL;

		if (!reference || !reference->releasing)
			continue;
		reference->releasing = false;
		/* KERNEL_E_LINGERS: it stays as long as its stream. */
		if ((calls[i].result != KERNEL_OK && calls[i].result != KERNEL_E_NO_SUCH) || reference->leases > 0)
			continue;
		reference_free(reference);
		if (stream->users == 0 && stream->references.n == 0)
			stream_free(stream);
	}
}

void references_release(struct reference *const *references, size_t n)
{
	struct releases *releases;

	/* With KeepFor=, events without a lease stay registered. */
	if (n == 0 || rules_keep_for(references[0]->stream->tenant) > 0)
		return;
	releases = malloc(sizeof(*releases) + n * (sizeof(releases->calls[0]) + sizeof(releases->bit[0])));
	if (!releases)
		return; /* they stay charged until their stream ends */
	references[0]->stream->tenant->ended++;
	releases->registry = references[0]->stream->registry;
	releases->bit = (uint32_t *)&releases->calls[n];
	for (size_t i = 0; i < n; i++) {
		references[i]->releasing = true;
		releases->bit[i] = (uint32_t)references[i]->bit;
		releases->calls[i] = (struct kernel_call){
			.op = KERNEL_RELEASE,
			.stream = references[i]->stream->number,
			.index = references[i]->index,
		};
	}
	kernel_submit(releases->registry->kernel, releases->calls, n, references_on_released, releases);
}
