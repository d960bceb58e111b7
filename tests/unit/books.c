/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/books.h"

#include "daemon/registry/bundle.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/share.h"

/* A slot of the kernel's, for what the ledger says. */
static void expect_registered(const struct reference *reference)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && fake.slot[i].stream == reference->stream->number &&
		    fake.slot[i].index == reference->index && fake.slot[i].bit == reference->grant->bit &&
		    streq(fake.slot[i].text, reference->grant->event->description))
			return;
	ck_abort_msg("%s is not registered on stream %u", reference->grant->event->description,
		     reference->stream->number);
}

unsigned count_shares(const struct daemon *daemon, const struct stream *stream)
{
	const struct client *client;
	unsigned n = 0;

	TAILQ_FOREACH(client, &daemon->connections.clients, all)
		n += client->holder.tenant && share_find(&client->holder, stream);
	return n;
}

/* Those of bundles, listed or not. */
static unsigned count_bundles(const struct daemon *daemon, const struct stream *stream)
{
	const struct client *client;
	unsigned n = 0;

	TAILQ_FOREACH(client, &daemon->connections.clients, all) {
		const struct holder *bundle = client->holder.bundle;

		n += bundle && LIST_FIRST(&bundle->members) == &client->holder && share_find(bundle, stream);
	}
	return n;
}

static void check_stream(const struct daemon *daemon, const struct stream *stream)
{
	unsigned live = 0, shares = count_shares(daemon, stream) + count_bundles(daemon, stream);

	/* The daemon's own. */
	shares += streq(stream->tenant->path, TENANT_OF_POLICY) && stream->users > 0;

	for (const struct reference *reference = stream->references; reference; reference = reference->by_grant.next) {
		live += !LIST_EMPTY(&reference->leases);
		expect_registered(reference);
	}
	if (live != stream->live)
		ck_abort_msg("stream %u has %u live events, not %u", stream->number, live, stream->live);
	if (shares > stream->users || (script.n_under_way == 0 && shares != stream->users))
		ck_abort_msg("stream %u has %u users and %u shares", stream->number, stream->users, shares);
	if (stream->closed && (stream->users > 0 || stream->kept))
		ck_abort_msg("stream %u is in use, and closed", stream->number);
	if (stream->kept && (stream->users > 0 || stream->self_registered))
		ck_abort_msg("stream %u is kept for nobody", stream->number);
	if (stream->shared && ((stream->users == 0 && !stream->kept) || (stream->made && stream->fd < 0)))
		ck_abort_msg("stream %u is shared by nobody", stream->number);
	if (script.n_under_way == 0 && !find_stream(stream->number))
		ck_abort_msg("stream %u is not the kernel's", stream->number);
}

static unsigned count_on(const struct lease *leases, const struct stream *stream)
{
	unsigned n = 0;

	for (const struct lease *lease = leases; lease; lease = lease->by_bit.next)
		n += lease->reference->stream == stream;
	return n;
}

static void check_share(const struct client *client, const struct share *share)
{
	const struct stream *stream = share->stream;
	unsigned leases = count_on(client->holder.leases, stream);

	if (client->holder.bundle)
		leases += count_on(client->holder.bundle->leases, stream);
	if (leases != share->leases)
		ck_abort_msg("a share of stream %u for %u leases, not %u", stream->number, leases, share->leases);
	if (stream->uid != client->holder.uid || stream->tenant != client->holder.tenant)
		ck_abort_msg("stream %u is another's", stream->number);
	if (client->life < LIFE_CLOSING && !client->task && (leases == 0 || !share->sent))
		ck_abort_msg("a share of stream %u for nothing", stream->number);
}

static void check_leases(const struct holder *holder)
{
	for (const struct lease *lease = holder->leases; lease; lease = lease->by_bit.next)
		if (lease->holder != holder || lease->bit != lease->reference->grant->bit)
			ck_abort_msg("a lease of bit %u that is another's", lease->bit);
}

/* It is what is found by its key. */
static bool is_listed(const struct bundle *bundle)
{
	const struct bundle *found;

	HASH_FIND(by_key, bundle->holder.tenant->bundles, bundle->key, bundle->by_key.keylen, found);
	return found == bundle;
}

static unsigned count_members(const struct daemon *daemon, const struct holder *bundle)
{
	const struct client *client;
	unsigned n = 0;

	TAILQ_FOREACH(client, &daemon->connections.clients, all)
		n += client->holder.bundle == bundle;
	return n;
}

static void check_bundle(const struct daemon *daemon, const struct holder *bundle)
{
	const struct bundle *whole = container_of(bundle, struct bundle, holder);
	const struct holder *holder;
	unsigned n = 0;

	LIST_FOREACH(holder, &bundle->members, in_bundle)
		n += holder->bundle == bundle && holder->tenant == bundle->tenant;
	if (n == 0 || n != bundle->n_members || n != count_members(daemon, bundle))
		ck_abort_msg("a bundle of %u clients, where %u of %u are right", bundle->n_members, n,
			     count_members(daemon, bundle));
	if (whole->listed != is_listed(whole))
		ck_abort_msg("a bundle that is in its tenant's table, or is not, and believes the opposite");
	check_leases(bundle);
}

static void check_client(const struct daemon *daemon, const struct client *client)
{
	const struct share *share;
	unsigned leases = 0;

	LIST_FOREACH(share, &client->holder.shares, in_client) {
		check_share(client, share);
		leases += share->leases;
	}
	/* Each of them is on a stream of which the client has a share. */
	if (leases != leases_count(&client->holder))
		ck_abort_msg("%u leases, not %u", leases_count(&client->holder), leases);
	check_leases(&client->holder);
	if (client->holder.bundle)
		check_bundle(daemon, client->holder.bundle);
	if (client->holder.bundle && shares_count(client->holder.bundle) > shares_count(&client->holder))
		ck_abort_msg("a bundle on %u streams, of %u that its client has", shares_count(client->holder.bundle),
			     shares_count(&client->holder));
}

static void check_grant(const struct grant *grant)
{
	const struct reference *reference;
	const struct lease *lease;
	size_t leases = declared_is(grant);

	LIST_FOREACH(reference, &grant->registered, in_grant)
		LIST_FOREACH(lease, &reference->leases, in_reference)
			leases += MAX(lease->holder->n_members, 1u);
	if (leases != grant->leases)
		ck_abort_msg("%s is leased %zu times, not %u", grant->event->description, leases, grant->leases);
}

/* What is asked of the kernel is counted, too. */
static void check_claims(const struct tenant *tenant)
{
	unsigned n = 0;

	for (const struct stream *stream = tenant->registry->streams; stream; stream = stream->by_number.next) {
		if (stream->tenant != tenant)
			continue;
		for (const struct reference *reference = stream->references; reference;
		     reference = reference->by_grant.next) {
			const struct lease *lease;
			unsigned leases = 0;

			LIST_FOREACH(lease, &reference->leases, in_reference)
				leases++;
			n += MAX(leases, 1u);
		}
	}
	if (n > tenant->level->own_leases.held || (script.n_under_way == 0 && n != tenant->level->own_leases.held))
		ck_abort_msg("%s has %u leases, not %u", tenant->path, n, tenant->level->own_leases.held);
}

static void check_tenant(const struct tenant *tenant)
{
	unsigned lingering = 0;

	for (const struct grant *grant = tenant->grants; grant; grant = grant->by_event.next) {
		check_grant(grant);
		lingering += grant->leases == 0;
	}
	if (lingering != tenant->lingering)
		ck_abort_msg("%s has %u lingering, not %u", tenant->path, lingering, tenant->lingering);
	check_claims(tenant);
	if (tenant->streams != tenant->level->own_files.held)
		ck_abort_msg("%s has %u data files, not %u", tenant->path, tenant->streams,
			     tenant->level->own_files.held);
	if (HASH_CNT(by_event, tenant->grants) != tenant->level->own.held)
		ck_abort_msg("%s holds %u, and is charged %u", tenant->path, HASH_CNT(by_event, tenant->grants),
			     tenant->level->own.held);
	if (script.n_under_way == 0 && tenant->parkings)
		ck_abort_msg("in %s somebody waits for nothing", tenant->path);
}

void check_books(const struct daemon *daemon)
{
	const struct client *client;
	unsigned leases = 0;

	for (const struct stream *stream = daemon->registry.streams; stream; stream = stream->by_number.next)
		check_stream(daemon, stream);
	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_identity.next)
		check_tenant(tenant);
	TAILQ_FOREACH(client, &daemon->connections.clients, all) {
		check_client(daemon, client);
		leases += leases_count(&client->holder);
	}
	if (leases != daemon->registry.leases)
		ck_abort_msg("%u leases, not %u", leases, daemon->registry.leases);
	/* What is in a reserve is not common. */
	if (daemon->registry.machine.filled == 0 &&
	    HASH_CNT(by_key, daemon->registry.events) != daemon->registry.machine.common)
		ck_abort_msg("%u events, %u charged", HASH_CNT(by_key, daemon->registry.events),
			     daemon->registry.machine.common);
	if (script.n_under_way == 0 && HASH_CNT(by_number, daemon->registry.streams) != count_fake_streams())
		ck_abort_msg("%u streams, not %u", count_fake_streams(), HASH_CNT(by_number, daemon->registry.streams));
}
