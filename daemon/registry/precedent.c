/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/precedent.h"

#include "daemon/registry/reference.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

static struct cursor copy_bytes(uint8_t *to, struct cursor bytes)
{
	memcpy(to, bytes.at, bytes.left);
	return cursor_make(to, bytes.left);
}

void precedent_set(struct holder *holder, struct cursor request, struct cursor answer,
		   struct reference *const *references, size_t n)
{
	struct tenant *tenant = holder->tenant;
	struct precedent *precedent;
	uint8_t *bytes;

	free(steal_pointer(tenant->precedent));
	precedent = malloc(sizeof(*precedent) + n * sizeof(struct reference *) + request.left + answer.left);
	if (!precedent)
		return;
	bytes = (uint8_t *)&precedent->reference[n];
	*precedent = (struct precedent){
		.uid = holder->known.uid,
		.generation = holder->registry->generation,
		.ended = tenant->ended,
		.request = copy_bytes(bytes, request),
		.answer = copy_bytes(bytes + request.left, answer),
		.n = n,
	};
	memcpy(precedent->reference, references, n * sizeof(struct reference *));
	tenant->precedent = precedent;
}

/* Whether each of its files may be sent to the client, and all of them fit into one answer. */
static bool precedent_may_serve(const struct precedent *precedent, const struct holder *holder)
{
	const struct stream *stream = NULL;
	unsigned files = 0;

	for (size_t i = 0; i < precedent->n; i++) {
		if (precedent->reference[i]->stream == stream)
			continue;
		stream = precedent->reference[i]->stream;
		if (!stream_may_serve(stream, holder) || ++files > WIRE_FDS_MAX)
			return false;
	}
	return true;
}

const struct precedent *precedent_find(const struct holder *holder, struct cursor request)
{
	const struct precedent *precedent = holder->tenant->precedent;

	if (!precedent || holder->leases.n > 0 || precedent->uid != holder->known.uid ||
	    precedent->generation != holder->registry->generation || precedent->ended != holder->tenant->ended)
		return NULL;
	if (precedent->request.left != request.left || memcmp(precedent->request.at, request.at, request.left) != 0)
		return NULL;
	if (!rules_share_streams(holder->tenant) || !precedent_may_serve(precedent, holder) ||
	    level_room(holder->tenant->level, RESOURCE_LEASES) < precedent->n)
		return NULL;
	return precedent;
}
