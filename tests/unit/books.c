/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/books.h"

#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/share.h"

#define CHECK(condition, ...)                                                                                          \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			ck_abort_msg(__VA_ARGS__);                                                                     \
	} while (0)

static bool is_idle(void)
{
	return script.n_under_way == 0;
}

/* --- the kernel's part --- */

static bool is_embedded(void)
{
	return script.real != &fake_ops;
}

static bool is_registered(const struct reference *reference)
{
	const char *text = reference->grant->event->description;
	const struct slot *slot;
	struct source *source;

	if (!is_embedded())
		return find_slot(reference->stream->number, reference->index, reference->grant->bit, text);
	NUMBER_FIND(by_number, embedded()->sources, reference->stream->number, source);
	slot = source ? slot_find(source, reference->index) : NULL;
	return slot && slot->holding->bit == reference->grant->bit && streq(slot->holding->of.event->description, text);
}

static unsigned count_kernel_streams(void)
{
	return is_embedded() ? HASH_CNT(by_number, embedded()->sources) : count_fake_streams();
}

static void check_embedded(const struct registry *registry)
{
	unsigned pages = 0, references = 0;

	for (const struct tenant *tenant = registry->tenants; tenant; tenant = tenant->by_number.next)
		pages += tenant->page_fd >= 0;
	for (const struct stream *stream = registry->streams; stream; stream = stream->by_number.next)
		references += stream->references.n;
	CHECK(HASH_CNT(by_number, embedded()->pages) == pages, "%u pages", pages);
	CHECK(count_slots() == references, "%u registered, not %u", count_slots(), references);
}

/* --- streams, shares and leases --- */

unsigned count_shares(const struct daemon *daemon, const struct stream *stream)
{
	struct client *client;
	unsigned n = 0;

	TAILQ_FOREACH(client, &daemon->connections.clients, all)
		n += client->holder.tenant && share_find(&client->holder, stream);
	return n;
}

static void check_stream(const struct daemon *daemon, const struct stream *stream)
{
	const unsigned number = stream->number;
	unsigned live = 0, users = count_shares(daemon, stream);
	const struct reference *reference;

	ID_TABLE_FOREACH(reference, &stream->references) {
		live += reference->leases > 0;
		CHECK(reference->bit == reference->grant->bit, "a reference of bit %llu",
		      (unsigned long long)reference->bit);
		CHECK(reference->releasing || is_registered(reference), "%s is not registered on stream %u",
		      reference->grant->event->description, number);
	}
	/* Declared events have no share and no lease: each uses its file, until that is closed and lingers. */
	if (streq(stream->tenant->path, TENANT_OF_POLICY) && !stream->closed)
		users += stream->references.n;
	CHECK(live == stream->live, "stream %u has %u live events, not %u", number, live, stream->live);
	CHECK(users == stream->users || (users < stream->users && (!is_idle() || daemon->registry.declaring)),
	      "stream %u has %u users, not %u", number, users, stream->users);
	CHECK(!stream->closed || (stream->users == 0 && !stream->kept), "stream %u is in use, and closed", number);
	CHECK(!stream->kept || (stream->users == 0 && !stream->self_registered), "stream %u is kept", number);
	CHECK(!stream->shared || ((stream->users > 0 || stream->kept) && (!stream->made || stream->fd >= 0)),
	      "stream %u is shared without users", number);
	CHECK(!is_idle() || is_embedded() || find_stream(number), "stream %u is not the kernel's", number);
}

static unsigned count_on(const struct holder *holder, const struct stream *stream)
{
	const struct reference *reference;
	unsigned n = 0;

	ID_TABLE_FOREACH(reference, &holder->leases)
		n += reference->stream == stream;
	return n;
}

static void check_client(const struct client *client)
{
	const struct holder *holder = &client->holder;
	const struct share *share;
	unsigned leases = 0;

	LIST_FOREACH(share, &holder->shares, in_client) {
		const unsigned number = share->stream->number;
		unsigned here = count_on(holder, share->stream);

		CHECK(here == share->leases, "a share of stream %u for %u leases, not %u", number, here, share->leases);
		CHECK(share->stream->uid == holder->known.uid && share->stream->tenant == holder->tenant,
		      "stream %u is another user's", number);
		CHECK(client->life >= LIFE_CLOSING || client->task || (here > 0 && share->sent),
		      "a share of stream %u without leases", number);
		leases += here;
	}
	CHECK(leases == holder->leases.n, "%u leases, not %u", holder->leases.n, leases);
}

/* --- tenants and the machine --- */

static void check_grant(const struct grant *grant)
{
	const struct reference *reference;
	const struct holder *holder;
	unsigned leases = declared_is(grant), of_references = leases;

	LIST_FOREACH(reference, &grant->registered, in_grant)
		of_references += reference->leases;
	LIST_FOREACH(holder, &grant->tenant->holders, in_tenant) {
		reference = lease_by_bit(holder, grant->bit);
		leases += reference && reference->grant == grant;
	}
	CHECK(leases == grant->leases && leases == of_references, "%s is leased %u times, not %u, or %u",
	      grant->event->description, leases, grant->leases, of_references);
}

/* A reference without leases counts as one; as does an event that the kernel is asked for. */
static unsigned count_leases(const struct tenant *tenant)
{
	const struct reference *reference;
	unsigned n = 0;

	for (const struct stream *stream = tenant->registry->streams; stream; stream = stream->by_number.next) {
		if (stream->tenant != tenant)
			continue;
		ID_TABLE_FOREACH(reference, &stream->references)
			n += MAX(reference->leases, 1u);
	}
	return n;
}

static void check_tenant(const struct tenant *tenant)
{
	const unsigned claims = count_leases(tenant), held = tenant->level->own[RESOURCE_LEASES].held;
	const struct holder *holder;
	const struct grant *grant;
	unsigned lingering = 0, connections = 0, grants = 0;

	LIST_FOREACH(holder, &tenant->holders, in_tenant)
		connections++;
	for (const struct event *event = tenant->registry->events; event; event = event->by_key.next) {
		LIST_FOREACH(grant, &event->grants, in_event) {
			if (grant->tenant != tenant)
				continue;
			check_grant(grant);
			lingering += grant->leases == 0;
			grants++;
		}
	}
	CHECK(tenant->connections == connections, "%s has %u connections", tenant->path, connections);
	CHECK(lingering == tenant->lingering, "%s has %u lingering, not %u", tenant->path, lingering,
	      tenant->lingering);
	CHECK(claims == held || (claims < held && !is_idle()), "%s has %u leases, not %u", tenant->path, claims, held);
	CHECK(tenant->streams == tenant->level->own[RESOURCE_FILES].held, "%s has %u data files", tenant->path,
	      tenant->streams);
	CHECK(tenant->connections == tenant->level->own[RESOURCE_CONNECTIONS].held, "%s has %u connections",
	      tenant->path, tenant->connections);
	CHECK(grants == tenant->n_grants && grants == tenant->level->own[RESOURCE_EVENTS].held,
	      "%s holds %u, not %u, and is charged %u", tenant->path, grants, tenant->n_grants,
	      tenant->level->own[RESOURCE_EVENTS].held);
}

void check_books(const struct daemon *daemon)
{
	const struct registry *registry = &daemon->registry;
	const struct client *client;
	unsigned leases = 0;

	for (const struct stream *stream = registry->streams; stream; stream = stream->by_number.next)
		check_stream(daemon, stream);
	for (const struct tenant *tenant = registry->tenants; tenant; tenant = tenant->by_number.next)
		check_tenant(tenant);
	TAILQ_FOREACH(client, &daemon->connections.clients, all) {
		check_client(client);
		leases += client->holder.leases.n;
	}
	for (const struct event *event = registry->events; event; event = event->by_key.next)
		CHECK(!LIST_EMPTY(&event->grants), "no tenant has %s", event->description);
	CHECK(leases == registry->leases, "%u leases, not %u", leases, registry->leases);
	/* Events in a reserve are not common. */
	CHECK(registry->machine.filled > 0 || HASH_CNT(by_key, registry->events) == registry->machine.common,
	      "%u events, %u charged", HASH_CNT(by_key, registry->events), registry->machine.common);
	if (is_idle())
		CHECK(HASH_CNT(by_number, registry->streams) == count_kernel_streams(), "%u streams, not %u",
		      count_kernel_streams(), HASH_CNT(by_number, registry->streams));
	if (is_idle() && is_embedded())
		check_embedded(registry);
}
