/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/share.h"

#include "daemon/ledger/entries.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"

/* The share that was found last is the first in the list. */
struct share *share_find(struct holder *holder, const struct stream *stream)
{
	struct share *share = LIST_FIRST(&holder->shares);

	if (share && share->stream == stream)
		return share;
	while (share && share->stream != stream)
		share = LIST_NEXT(share, in_client);
	if (!share)
		return NULL;
	LIST_REMOVE(share, in_client);
	LIST_INSERT_HEAD(&holder->shares, share, in_client);
	return share;
}

struct share *share_get(struct holder *holder, struct stream *stream)
{
	struct share *share = share_find(holder, stream);

	if (share)
		return share;
	share = malloc(sizeof(*share));
	if (!share)
		return NULL;
	*share = (struct share){ .holder = holder, .stream = stream_use(stream) };
	LIST_INSERT_HEAD(&holder->shares, share, in_client);
	holder->has_new_share = true;
	return share;
}

bool share_must_stay(const struct share *share, unsigned own)
{
	/* The proof comes first: the client may have been welcomed when there was a guard. */
	return stream_must_stay(share->stream, own) || rules_distrust(share->holder);
}

void share_send(struct share *share)
{
	share->sent = true;
	share->stream->sent = true;
}

void share_free(struct share *share)
{
	struct stream *stream = share->stream;

	ledger_strike(share->holder->registry->ledger, &share->entry);
	ledger_strike(share->holder->registry->ledger, &share->leases_entry);
	LIST_REMOVE(share, in_client);
	free(share);
	stream_unuse(stream);
}

void shares_enter(struct holder *holder)
{
	struct share *share;

	if (!holder->has_new_share)
		return;
	holder->has_new_share = false;
	LIST_FOREACH(share, &holder->shares, in_client) {
		holder->has_new_share |= !share->sent;
		if (share->sent && share->entry == 0)
			ledger_enter(holder->registry->ledger, &share->entry, ENTRY_SHARE, holder->number,
				     share->stream->number, "", 0, "");
	}
}

unsigned shares_count(const struct holder *holder, bool unsent)
{
	const struct share *share;
	unsigned n = 0;

	LIST_FOREACH(share, &holder->shares, in_client)
		n += !unsent || !share->sent;
	return n;
}

void shares_tidy(struct holder *holder)
{
	struct share *share, *next;

	for (share = LIST_FIRST(&holder->shares); share; share = next) {
		next = LIST_NEXT(share, in_client);
		if (share->leases == 0)
			share_free(share);
	}
}
