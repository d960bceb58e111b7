/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/ledger/entries.h"

#include "daemon/connection/client.h"
#include "daemon/daemon.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "daemon/requests/bundle.h"

_Static_assert(sizeof(struct entry_tenant) + PATH_MAX <= LEDGER_DATA_MAX, "a tenant with the longest path");
_Static_assert(sizeof(struct entry_grant) + WIRE_DESCRIPTION_MAX <= LEDGER_DATA_MAX, "a grant of the longest event");

/* With a text behind it. */
static void enter_text(struct ledger *ledger, enum entry_kind kind, uint64_t number, const void *data, size_t size,
		       const char *text)
{
	static uint8_t buffer[LEDGER_DATA_MAX];
	size_t length = strlen(text);

	if (!ledger)
		return;
	memcpy(buffer, data, size);
	memcpy(buffer + size, text, length);
	ledger_enter(ledger, kind, number, 0, buffer, size + length);
}

void enter_tenant(const struct tenant *tenant)
{
	const struct entry_tenant entry = { .cgroup_id = tenant->cgroup_id, .is_contained = tenant->is_contained };

	enter_text(tenant->daemon->ledger, ENTRY_TENANT, tenant->number, &entry, sizeof(entry), tenant->path);
}

void strike_tenant(const struct tenant *tenant)
{
	ledger_strike(tenant->daemon->ledger, ENTRY_TENANT, tenant->number, 0);
}

void enter_stream(const struct stream *stream)
{
	const struct entry_stream entry = {
		.tenant = stream->tenant->number,
		.uid = stream->uid,
		.stranger = stream->stranger,
	};

	ledger_enter(stream->daemon->ledger, ENTRY_STREAM, stream->number, 0, &entry, sizeof(entry));
}

void strike_stream(const struct stream *stream)
{
	ledger_strike(stream->daemon->ledger, ENTRY_STREAM, stream->number, 0);
}

void enter_grant(const struct grant *grant)
{
	const struct entry_grant entry = {
		.tenant = grant->tenant->number,
		.flags = grant->event->flags,
		.persistent = grant->persistent,
	};

	enter_text(grant->tenant->daemon->ledger, ENTRY_GRANT, grant->number, &entry, sizeof(entry),
		   grant->event->description);
}

void strike_grant(const struct grant *grant)
{
	ledger_strike(grant->tenant->daemon->ledger, ENTRY_GRANT, grant->number, 0);
}

static void enter_index(const struct stream *stream, const struct grant *grant, uint32_t index)
{
	const struct entry_reference entry = { .index = index, .bit = grant->bit };

	ledger_enter(stream->daemon->ledger, ENTRY_REFERENCE, stream->number, grant->number, &entry, sizeof(entry));
}

void enter_asked(const struct stream *stream, const struct grant *grant)
{
	enter_index(stream, grant, ENTRY_ASKED);
}

void enter_reference(const struct reference *reference)
{
	enter_index(reference->stream, reference->grant, reference->index);
}

void strike_reference(const struct stream *stream, const struct grant *grant)
{
	ledger_strike(stream->daemon->ledger, ENTRY_REFERENCE, stream->number, grant->number);
}

void enter_client(const struct client *client)
{
	struct entry_client entry = {
		.pid = client->pid,
		.uid = client->uid,
		.real_uid = client->real_uid,
		.holder = client->holder,
		.bundle = client->bundle ? client->bundle->holder : 0,
		.greeted = client->greeted,
		.watching = client->watching,
		.may_be_root = client->may_be_root,
	};

	/* Admins ask again. */
	if (!client->tenant)
		return;
	entry.tenant = client->tenant->number;
	string_copy(entry.comm, sizeof(entry.comm), client->comm);
	ledger_enter(client->daemon->ledger, ENTRY_CLIENT, client->number, 0, &entry, sizeof(entry));
}

void strike_client(const struct client *client)
{
	if (client->tenant)
		ledger_strike(client->daemon->ledger, ENTRY_CLIENT, client->number, 0);
}

static uint64_t holder_of(const struct lease *lease)
{
	return lease->client ? lease->client->holder : lease->bundle->holder;
}

void enter_lease(const struct lease *lease)
{
	const struct reference *reference = lease->reference;
	const struct entry_lease entry = { .stream = reference->stream->number };

	ledger_enter(reference->stream->daemon->ledger, ENTRY_LEASE, holder_of(lease), reference->grant->number, &entry,
		     sizeof(entry));
}

void strike_lease(const struct lease *lease)
{
	const struct reference *reference = lease->reference;

	ledger_strike(reference->stream->daemon->ledger, ENTRY_LEASE, holder_of(lease), reference->grant->number);
}

void enter_share(const struct share *share)
{
	ledger_enter(share->client->daemon->ledger, ENTRY_SHARE, share->client->number, share->stream->number, NULL, 0);
}

void strike_share(const struct share *share)
{
	ledger_strike(share->client->daemon->ledger, ENTRY_SHARE, share->client->number, share->stream->number);
}
