/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A client's claim on a stream: its data file, and leases on it. */

#include "daemon/registry/holder.h"

struct share {
	struct holder *holder;
	struct stream *stream;
	bool sent;	/* the file was sent, or is about to be; see share_send() */
	uint32_t entry; /* in the ledger */
	uint32_t leases_entry;
	unsigned leases; /* of this client on this stream */
	LIST_ENTRY(share) in_client;
};

/* Finds or makes the client's share. NULL: no memory. */
struct share *share_get(struct holder *, struct stream *);
/* In constant time when asked for one stream after the other. */
struct share *share_find(struct holder *, const struct stream *);
/*
 * Whether the data file must not be sent to the client: see stream_must_stay(); or the client is not trusted with an
 * unguarded file.
 */
bool share_must_stay(const struct share *, unsigned own);
/* The client has the file, or will have it at once. */
void share_send(struct share *);
void share_free(struct share *);
/* Enters in the ledger which files were sent. */
void shares_enter(struct holder *);
/* `unsent`: those whose file the client does not have yet. */
unsigned shares_count(const struct holder *, bool unsent);
/* Ends the client's shares without a lease: the client closes the file, and is sent it again when needed. */
void shares_tidy(struct holder *);
