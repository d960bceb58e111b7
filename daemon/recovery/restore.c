/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The ledger says what there was, the keeper has it: what both know of is there again. It is built in the order in which one
 * thing needs another, by the same functions by which it was made at first, so that a ledger of this daemon's is written on
 * the way. What only the keeper knows of it is told to disown; what only the ledger knows of has ended meanwhile.
 *
 * The last daemon may have asked the kernel for an event and not have heard: that is asked once more, which changes nothing
 * where it is there, and then it lingers like anything that nobody claims.
 */

#include "daemon/recovery/restore.h"

#include <fcntl.h>

#include "daemon/connection/deposit.h"
#include "daemon/daemon.h"
#include "daemon/ledger/entries.h"
#include "daemon/process/log.h"
#include "daemon/registry/bundle.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/share.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "protocol/event/description.h"

struct restoration {
	struct daemon *daemon;
	struct ledger_image image;
	struct grant_by_number *grants; /* table by number; each holds a reference */
	unsigned connections;		/* that are there again */
	int failed; /* a negative errno: something could not be made, so the next one has to try again */
};

struct grant_by_number {
	uint64_t number;
	struct grant *grant;
	UT_hash_handle by_number;
};

/* --- the kernel, while nobody else wants anything --- */

/* Where memory is short; whatever else is wrong with a thing, there will be none. */
static void note(struct restoration *restoration, int r)
{
	if (r == -ENOMEM)
		restoration->failed = r;
}

static void on_answered(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	*(bool *)data = false;
}

static int ask(struct daemon *daemon, struct kernel_call *calls, size_t n)
{
	bool under_way = n > 0;

	if (n > 0)
		kernel_submit(daemon->registry.kernel, calls, n, on_answered, &under_way);
	return settling_await(&daemon->registry, &under_way);
}

static int ask_one(struct daemon *daemon, struct kernel_call *call)
{
	int r = ask(daemon, call, 1);

	return r < 0 ? r : MIN(call->result, 0);
}

/* One call for each thing of a kind, in their order. NULL: there are none, or there is no memory. */
static struct kernel_call *calls_for(const struct restoration *restoration, enum entry_kind kind, enum kernel_op op,
				     uint32_t index, size_t *ret_n)
{
	const struct ledger_thing *thing = NULL;
	struct kernel_call *calls;
	size_t n = 0;

	while ((thing = ledger_next(&restoration->image, kind, thing)))
		n++;
	calls = calloc(MAX(n, 1), sizeof(*calls));
	*ret_n = calls ? n : 0;
	for (size_t i = 0; calls && (thing = ledger_next(&restoration->image, kind, thing)); i++)
		calls[i] = (struct kernel_call){
			.op = op,
			.page = (uint32_t)thing->key.a,
			.stream = (uint32_t)thing->key.a,
			.index = index,
			.number = thing->key.a,
			.fd = -1,
		};
	return calls;
}

/* Calls for each thing, with what the kernel has given for it, which `take` takes over. */
static int fetch(struct restoration *restoration, enum entry_kind kind, enum kernel_op op, uint32_t index,
		 void (*take)(struct restoration *, const struct ledger_thing *, struct kernel_call *))
{
	const struct ledger_thing *thing = NULL;
	size_t n;
	_cleanup_(freep) struct kernel_call *calls = calls_for(restoration, kind, op, index, &n);
	int r = calls ? ask(restoration->daemon, calls, n) : -ENOMEM;

	for (size_t i = 0; calls && i < n; i++) {
		thing = ledger_next(&restoration->image, kind, thing);
		if (r == 0 && calls[i].result < 0)
			restoration->failed = calls[i].result;
		if (r == 0)
			take(restoration, thing, &calls[i]);
		fd_close(calls[i].fd);
	}
	return r;
}

/* --- tenants and their pages --- */

static void restore_tenant(struct restoration *restoration, const struct ledger_thing *thing)
{
	struct entry_tenant entry;
	struct tenant *tenant;
	char path[PATH_MAX];
	size_t length;

	ledger_get(thing, &entry, sizeof(entry));
	length = thing->size > sizeof(entry) ? MIN(thing->size - sizeof(entry), sizeof(path) - 1) : 0;
	memcpy(path, (const char *)thing->data + sizeof(entry), length);
	path[length] = '\0';
	note(restoration, tenant_restore(&restoration->daemon->registry, (uint32_t)thing->key.a, path, entry.cgroup_id,
					 entry.is_contained, &tenant));
}

static void take_writable_page(struct restoration *restoration, const struct ledger_thing *thing,
			       struct kernel_call *call)
{
	struct tenant *tenant = tenant_by_number(&restoration->daemon->registry, (uint32_t)thing->key.a);

	if (tenant && call->result == KERNEL_OK)
		tenant->page_writable = fd_steal(&call->fd);
}

static void take_page(struct restoration *restoration, const struct ledger_thing *thing, struct kernel_call *call)
{
	struct tenant *tenant = tenant_by_number(&restoration->daemon->registry, (uint32_t)thing->key.a);

	if (tenant && call->result == KERNEL_OK)
		tenant->page_fd = fd_steal(&call->fd);
}

/* --- streams --- */

static void restore_stream(struct restoration *restoration, const struct ledger_thing *thing, struct kernel_call *call)
{
	struct entry_stream entry;
	struct tenant *tenant;
	struct stream *stream;

	/* KERNEL_E_GONE: of those that linger the keeper has no copy. */
	if (call->result != KERNEL_OK && call->result != KERNEL_E_GONE)
		return;
	ledger_get(thing, &entry, sizeof(entry));
	tenant = tenant_by_number(&restoration->daemon->registry, entry.tenant);
	stream = tenant ? stream_restore(tenant, entry.uid, (uint32_t)thing->key.a, entry.self_registered) : NULL;
	note(restoration, stream || !tenant ? 0 : -ENOMEM);
	if (!stream)
		return;
	stream->place = call->number;
	stream->closed = call->result == KERNEL_E_GONE;
	if (!stream->closed)
		stream_resume(stream, fd_steal(&call->fd));
}

/* --- grants, and what is registered --- */

static struct grant *find_grant(const struct restoration *restoration, uint64_t number)
{
	struct grant_by_number *found;

	NUMBER_FIND(by_number, restoration->grants, number, found);
	return found ? found->grant : NULL;
}

static void keep_grant(struct restoration *restoration, struct grant *grant)
{
	struct grant_by_number *kept = calloc(1, sizeof(*kept));

	if (kept) {
		kept->number = grant->number;
		kept->grant = grant;
		NUMBER_ADD(by_number, restoration->grants, number, kept);
	}
	if (!kept || !table_added()) {
		free(kept);
		grant_unref(grant);
		note(restoration, -ENOMEM);
	}
}

static void restore_grant(struct restoration *restoration, const struct ledger_thing *thing)
{
	static struct description description; /* large */
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	struct entry_grant entry;
	struct tenant *tenant;
	struct grant *grant;
	int r;

	ledger_get(thing, &entry, sizeof(entry));
	tenant = tenant_by_number(&restoration->daemon->registry, entry.tenant);
	if (!tenant || thing->size <= sizeof(entry) ||
	    description_parse((const char *)thing->data + sizeof(entry), thing->size - sizeof(entry), &description,
			      &why) != 0)
		return;
	r = grant_restore(tenant, thing->key.a, &description, entry.flags, &grant);
	note(restoration, r);
	if (r < 0)
		return;
	if (entry.persistent)
		grant_persists(grant);
	keep_grant(restoration, grant);
}

static void restore_reference(struct restoration *restoration, struct stream *stream, struct grant *grant, uint32_t bit,
			      uint32_t index)
{
	grant->bit = bit;
	note(restoration, reference_get(stream, grant, index) ? 0 : -ENOMEM);
}

/* What was asked for and not answered: one by one, since there are few. */
static int ask_for_reference(struct restoration *restoration, struct stream *stream, struct grant *grant)
{
	struct kernel_call call = {
		.op = KERNEL_REGISTER,
		.page = stream->tenant->number,
		.stream = stream->number,
		.flags = grant->event->flags,
		.text = grant->event->description,
		.fd = -1,
	};
	int r;

	/* It can't be asked for any more, and nobody has been told of it. */
	if (stream->fd < 0)
		return 0;
	r = ask(restoration->daemon, &call, 1);
	if (r == 0 && call.result == KERNEL_OK)
		restore_reference(restoration, stream, grant, call.bit, call.index);
	return r;
}

static int restore_references(struct restoration *restoration)
{
	const struct ledger_thing *thing = NULL;
	int r = 0;

	while (r == 0 && (thing = ledger_next(&restoration->image, ENTRY_REFERENCE, thing))) {
		struct stream *stream = stream_by_number(&restoration->daemon->registry, (uint32_t)thing->key.a);
		struct grant *grant = find_grant(restoration, thing->key.b);
		struct entry_reference entry;

		if (!stream || !grant || grant->tenant != stream->tenant)
			continue;
		ledger_get(thing, &entry, sizeof(entry));
		if (entry.index == ENTRY_ASKED)
			r = ask_for_reference(restoration, stream, grant);
		else
			restore_reference(restoration, stream, grant, entry.bit, entry.index);
	}
	return r;
}

/* --- clients and what they hold --- */

static void restore_client(struct restoration *restoration, const struct ledger_thing *thing, struct kernel_call *call)
{
	struct daemon *daemon = restoration->daemon;
	struct entry_client entry;
	struct tenant *tenant;
	int r;

	if (call->result != KERNEL_OK)
		return;
	ledger_get(thing, &entry, sizeof(entry));
	tenant = tenant_by_number(&daemon->registry, entry.tenant);
	r = tenant ? client_restore(&daemon->connections, call->fd, thing->key.a, &entry, tenant) : -ESRCH;
	note(restoration, r);
	if (r < 0)
		return;
	fd_steal(&call->fd);
	restoration->connections++;
}

/* Who has the leases that stand under a number. */
struct lease_owner {
	uint64_t number;
	struct client *client;
	UT_hash_handle by_number;
};

static struct client *lease_owner_find(struct lease_owner *const *table, uint64_t number)
{
	struct lease_owner *owner;

	NUMBER_FIND(by_number, *table, number, owner);
	return owner ? owner->client : NULL;
}

static void lease_owner_add(struct restoration *restoration, struct lease_owner **table, uint64_t number,
			    struct client *client)
{
	struct lease_owner *owner = calloc(1, sizeof(*owner));

	if (owner) {
		owner->number = number;
		owner->client = client;
		NUMBER_ADD(by_number, *table, number, owner);
	}
	if (!owner || !table_added()) {
		free(owner);
		note(restoration, -ENOMEM);
	}
}

static void lease_owners_free(struct lease_owner **table)
{
	while (*table) {
		struct lease_owner *owner = *table;

		HASH_DELETE(by_number, *table, owner);
		free(owner);
	}
}

static struct entry_client entry_of(const struct restoration *restoration, const struct client *client)
{
	struct entry_client entry;

	ledger_get(ledger_find(&restoration->image, ENTRY_CLIENT, client->holder.number, 0), &entry, sizeof(entry));
	return entry;
}

static struct reference *find_reference(const struct restoration *restoration, const struct ledger_thing *lease)
{
	struct grant *grant = find_grant(restoration, lease->key.b);
	struct entry_lease entry;
	struct stream *stream;

	ledger_get(lease, &entry, sizeof(entry));
	stream = stream_by_number(&restoration->daemon->registry, entry.stream);
	return grant && stream ? reference_find(stream, grant) : NULL;
}

/* Of all holders in the table. */
static void restore_leases(struct restoration *restoration, struct lease_owner *const *holders)
{
	const struct ledger_thing *thing = NULL;

	while ((thing = ledger_next(&restoration->image, ENTRY_LEASE, thing))) {
		struct client *client = lease_owner_find(holders, thing->key.a);
		struct reference *reference = client ? find_reference(restoration, thing) : NULL;

		if (reference && reference->stream->tenant == client->holder.tenant)
			note(restoration, lease_get(&client->holder, reference) ? 0 : -ENOMEM);
	}
}

/* Its first client has it at first, and then all who had it. */
static void restore_bundle(struct restoration *restoration, struct client *first, uint64_t number)
{
	struct bundle *bundle = bundle_restore(&first->holder);
	struct holder *holder;

	note(restoration, bundle ? 0 : -ENOMEM);
	first->holder.lease_number = entry_of(restoration, first).holder;
	holder_enter(&first->holder);
	LIST_FOREACH(holder, &first->holder.tenant->holders, in_tenant)
		if (bundle && holder != &first->holder && entry_of(restoration, client_of(holder)).bundle == number)
			note(restoration, bundle_join(bundle, holder));
}

static void restore_bundles(struct restoration *restoration)
{
	_cleanup_(lease_owners_free) struct lease_owner *bundles = NULL;
	struct client *client;

	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all) {
		uint64_t number = entry_of(restoration, client).bundle;

		if (number == 0 || lease_owner_find(&bundles, number))
			continue;
		client->holder.lease_number = number;
		lease_owner_add(restoration, &bundles, number, client);
	}
	restore_leases(restoration, &bundles);
	for (struct lease_owner *owner = bundles; owner; owner = owner->by_number.next)
		restore_bundle(restoration, owner->client, owner->number);
}

static void restore_own_leases(struct restoration *restoration)
{
	_cleanup_(lease_owners_free) struct lease_owner *holders = NULL;
	struct client *client;

	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all)
		lease_owner_add(restoration, &holders, client->holder.lease_number, client);
	restore_leases(restoration, &holders);
}

static void restore_shares(const struct restoration *restoration)
{
	struct client *client;
	struct share *share;

	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all) {
		LIST_FOREACH(share, &client->holder.shares, in_client)
			share->sent = ledger_find(&restoration->image, ENTRY_SHARE, client->holder.number,
						  share->stream->number);
		shares_enter(&client->holder);
	}
}

/* What has changed meanwhile nobody has seen: they are to look at everything. */
static void restore_watches(const struct restoration *restoration)
{
	struct client *client;

	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all) {
		if (!entry_of(restoration, client).watching || client->holder.tenant->page_fd < 0)
			continue;
		pages_watch(&client->holder, true);
		client_note_all(client);
	}
}

/* --- what is left over --- */

/* What nobody uses lingers, or ends; and what was held for the time of this goes with whatever else does not hold it. */
static void let_go(struct restoration *restoration)
{
	struct daemon *daemon = restoration->daemon;

	while (restoration->grants) {
		struct grant_by_number *kept = restoration->grants;

		HASH_DELETE(by_number, restoration->grants, kept);
		grant_unref(kept->grant);
		free(kept);
	}
	for (struct stream *stream = daemon->registry.streams, *next; stream; stream = next) {
		next = stream->by_number.next;
		stream_unuse(stream);
	}
	for (struct tenant *tenant = daemon->registry.tenants, *next; tenant; tenant = next) {
		next = tenant->by_identity.next;
		tenant_release(tenant);
	}
}

/* Above all numbers that are in use. */
static void raise_numbers(const struct restoration *restoration)
{
	uint64_t *last = &restoration->daemon->registry.last_number;

	for (const struct ledger_thing *thing = restoration->image.things; thing; thing = thing->by_key.next) {
		struct entry_client entry;

		*last = MAX(*last, MAX(thing->key.a, thing->key.b));
		if (thing->key.kind != ENTRY_CLIENT)
			continue;
		ledger_get(thing, &entry, sizeof(entry));
		*last = MAX(*last, MAX(entry.holder, entry.bundle));
	}
}

static int build(struct restoration *restoration)
{
	const struct ledger_thing *thing = NULL;
	int r;

	raise_numbers(restoration);
	while ((thing = ledger_next(&restoration->image, ENTRY_TENANT, thing)))
		restore_tenant(restoration, thing);
	r = fetch(restoration, ENTRY_TENANT, KERNEL_PAGE_FETCH, 0, take_page);
	if (r == 0)
		r = fetch(restoration, ENTRY_TENANT, KERNEL_PAGE_FETCH, 1, take_writable_page);
	if (r == 0)
		r = fetch(restoration, ENTRY_STREAM, KERNEL_STREAM_FETCH, 0, restore_stream);
	while (r == 0 && (thing = ledger_next(&restoration->image, ENTRY_GRANT, thing)))
		restore_grant(restoration, thing);
	if (r == 0)
		r = restore_references(restoration);
	if (r == 0)
		r = fetch(restoration, ENTRY_CLIENT, KERNEL_DEPOSITED, 0, restore_client);
	if (r < 0)
		return r;
	restore_bundles(restoration);
	restore_own_leases(restoration);
	restore_shares(restoration);
	restore_watches(restoration);
	return restoration->failed;
}

/* What there is to read; else 0, and there is nothing. */
static int read_deposited(struct daemon *daemon, struct ledger_image *ret)
{
	struct kernel_call call = { .op = KERNEL_DEPOSITED, .number = DEPOSIT_LEDGER, .fd = -1 };
	int r = ask_one(daemon, &call);

	if (r < 0 || call.result != KERNEL_OK)
		return r;
	r = ledger_read(call.fd, ret);
	fd_close(call.fd);
	if (r < 0 && r != -EPROTONOSUPPORT && r != -EBADMSG)
		return r; /* what is short now may be there for the next one */
	if (r == -EPROTONOSUPPORT)
		log_warning("the last daemon was a newer one, whose ledger can't be read: it starts with nothing; who "
			    "was connected connects again, and keeps what it has");
	else if (r < 0)
		log_warning("the last daemon's ledger can't be read (%s): it starts with nothing", strerror(-r));
	return 0;
}

/* From here on this daemon's ledger is the one that counts: the last one's must not be what the next daemon finds. */
static int take_over(struct daemon *daemon)
{
	struct kernel_call deposit = {
		.op = KERNEL_DEPOSIT,
		.number = DEPOSIT_LEDGER,
		.fd = fcntl(daemon->registry.ledger->fd, F_DUPFD_CLOEXEC, 0),
	};
	struct kernel_call disown = { .op = KERNEL_DISOWN, .fd = -1 };
	int r;

	if (deposit.fd < 0)
		return -errno;
	r = ask_one(daemon, &deposit);
	return r < 0 ? r : ask_one(daemon, &disown);
}

int restore(struct daemon *daemon)
{
	struct restoration restoration = { .daemon = daemon };
	int r = deposit_begin(&daemon->connections);

	if (r < 0 || !daemon->registry.ledger)
		return r;
	r = read_deposited(daemon, &restoration.image);
	if (r == 0)
		r = build(&restoration);
	/* Then all that there is is for the next one, which finds the last ledger. */
	if (r < 0)
		kernel_cancel(daemon->registry.kernel);
	else
		declared_inherit(&daemon->registry);
	let_go(&restoration);
	if (r == 0 && restoration.image.things)
		log_notice("took over %u connections, %u streams and %u events of %u tenants", restoration.connections,
			   HASH_CNT(by_number, daemon->registry.streams),
			   daemon->registry.machine.common + daemon->registry.machine.filled,
			   HASH_CNT(by_identity, daemon->registry.tenants));
	ledger_image_deinit(&restoration.image);
	if (r == 0)
		r = take_over(daemon);
	if (r < 0)
		log_error("can't take over what the last daemon has left: %s", strerror(-r));
	return r;
}
