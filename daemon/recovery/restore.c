/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Restores the things that both the ledger of the last daemon and the keeper have. Things are restored in the order of their dependencies, by
 * the functions that made them first, which write them into the ledger of this daemon, too. The keeper then drops
 * things that are not in the ledger; things that are in the ledger alone have ended meanwhile.
 *
 * The last daemon may have sent a registration to the kernel without an answer: it is sent again, which changes nothing if the event
 * exists, and the event lingers until a client claims it.
 */

#include "daemon/recovery/restore.h"

#include <fcntl.h>

#include "daemon/connection/deposit.h"
#include "daemon/daemon.h"
#include "daemon/ledger/entries.h"
#include "daemon/process/log.h"
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

/* Things by their number in the ledger. */
struct numbered {
	uint64_t number;
	void *thing;
	UT_hash_handle by_number;
};

struct restoration {
	struct daemon *daemon;
	struct ledger_image image;
	struct numbered *grants; /* each holds a reference */
	unsigned connections;
	int failed; /* a negative errno: something could not be restored, so the next daemon has to try again */
};

/* Only a lack of memory may be over for the next daemon; after other errors the thing is left out. */
static void restore_check(struct restoration *restoration, int r)
{
	if (r == -ENOMEM)
		restoration->failed = r;
}

static void *numbered_find(const struct numbered *table, uint64_t number)
{
	const struct numbered *found;

	NUMBER_FIND(by_number, table, number, found);
	return found ? found->thing : NULL;
}

static bool numbered_add(struct restoration *restoration, struct numbered **table, uint64_t number, void *thing)
{
	struct numbered *added = calloc(1, sizeof(*added));

	if (added) {
		*added = (struct numbered){ .number = number, .thing = thing };
		NUMBER_ADD(by_number, *table, number, added);
	}
	if (added && table_added())
		return true;
	free(added);
	restore_check(restoration, -ENOMEM);
	return false;
}

/* Removes one thing and returns it; NULL: the table is empty. */
static void *numbered_take(struct numbered **table)
{
	struct numbered *first = *table;
	void *thing = first ? first->thing : NULL;

	if (first)
		HASH_DELETE(by_number, *table, first);
	free(first);
	return thing;
}

static void numbered_free(struct numbered **table)
{
	while (numbered_take(table))
		;
}

/* --- the kernel, before the daemon serves clients --- */

static void on_answered(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	*(bool *)data = false;
}

static int restore_call(struct daemon *daemon, struct kernel_call *calls, size_t n)
{
	bool under_way = n > 0;

	if (n > 0)
		kernel_submit(daemon->registry.kernel, calls, n, on_answered, &under_way);
	return settling_await(&daemon->registry, &under_way);
}

static int restore_call_one(struct daemon *daemon, struct kernel_call *call)
{
	int r = restore_call(daemon, call, 1);

	return r < 0 ? r : MIN(call->result, 0);
}

/* Makes a call for each thing of a kind, in their order, and calls `take` with each result. */
static int fetch(struct restoration *restoration, enum entry_kind kind, enum kernel_op op, uint32_t index,
		 void (*take)(struct restoration *, const struct ledger_entry *, struct kernel_call *))
{
	_cleanup_(freep) struct kernel_call *calls = NULL;
	const struct ledger_entry *thing = NULL;
	size_t n = 0;
	int r;

	while ((thing = ledger_next(&restoration->image, kind, thing)))
		n++;
	calls = calloc(n + 1, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	for (size_t i = 0; (thing = ledger_next(&restoration->image, kind, thing)); i++)
		calls[i] = (struct kernel_call){
			.op = op,
			.page = (uint32_t)thing->a,
			.stream = (uint32_t)thing->a,
			.index = index,
			.number = thing->a,
			.fd = -1,
		};
	r = restore_call(restoration->daemon, calls, n);
	for (size_t i = 0; i < n; i++) {
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

static void restore_tenant(struct restoration *restoration, const struct ledger_entry *thing)
{
	struct entry_tenant entry;
	struct tenant *tenant;
	char path[PATH_MAX];
	size_t length;

	ledger_get(thing, &entry, sizeof(entry));
	length = thing->data_size > sizeof(entry) ? MIN(thing->data_size - sizeof(entry), sizeof(path) - 1) : 0;
	memcpy(path, (const char *)(thing + 1) + sizeof(entry), length);
	path[length] = '\0';
	restore_check(restoration, tenant_restore(&restoration->daemon->registry, (uint32_t)thing->a, path,
						  entry.cgroup_id, entry.is_contained, &tenant));
}

/* Index 1 is the writable file. */
static void take_page(struct restoration *restoration, const struct ledger_entry *thing, struct kernel_call *call)
{
	struct tenant *tenant = tenant_by_number(&restoration->daemon->registry, (uint32_t)thing->a);

	if (tenant && call->result == KERNEL_OK)
		*(call->index == 1 ? &tenant->page_writable : &tenant->page_fd) = fd_steal(&call->fd);
}

/* --- streams --- */

static void restore_stream(struct restoration *restoration, const struct ledger_entry *thing, struct kernel_call *call)
{
	struct entry_stream entry;
	struct tenant *tenant;
	struct stream *stream;

	/* KERNEL_E_GONE: the keeper has no copy of a lingering file. */
	if (call->result != KERNEL_OK && call->result != KERNEL_E_GONE)
		return;
	ledger_get(thing, &entry, sizeof(entry));
	tenant = tenant_by_number(&restoration->daemon->registry, entry.tenant);
	stream = tenant ? stream_restore(tenant, entry.uid, (uint32_t)thing->a, entry.self_registered) : NULL;
	restore_check(restoration, stream || !tenant ? 0 : -ENOMEM);
	if (!stream)
		return;
	stream->place = call->number;
	stream->closed = call->result == KERNEL_E_GONE;
	if (!stream->closed)
		stream_resume(stream, fd_steal(&call->fd));
}

/* --- grants and references --- */

static void restore_grant(struct restoration *restoration, const struct ledger_entry *thing)
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
	if (!tenant || thing->data_size <= sizeof(entry) ||
	    description_parse((const char *)(thing + 1) + sizeof(entry), thing->data_size - sizeof(entry), &description,
			      &why) != 0)
		return;
	r = grant_get(tenant, &description, entry.flags, thing->a, &grant, &why);
	restore_check(restoration, r);
	if (r != 0)
		return;
	if (entry.persistent)
		grant_persists(grant);
	if (!numbered_add(restoration, &restoration->grants, grant->number, grant))
		grant_unref(grant);
}

static void restore_reference(struct restoration *restoration, struct stream *stream, struct grant *grant, uint32_t bit,
			      uint32_t index)
{
	uint32_t asked = 0;

	grant->bit = bit;
	restore_check(restoration, reference_get(stream, grant, index, &asked) ? 0 : -ENOMEM);
}

/* A registration without an answer is sent again: one by one, since there are few. */
static int restore_asked(struct restoration *restoration, struct stream *stream, struct grant *grant)
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

	/* Without the file that is impossible, and no client knows of the event. */
	if (stream->fd < 0 || reference_find(stream, grant))
		return 0;
	r = restore_call(restoration->daemon, &call, 1);
	if (r == 0 && call.result == KERNEL_OK)
		restore_reference(restoration, stream, grant, call.bit, call.index);
	return r;
}

static int restore_references(struct restoration *restoration, enum entry_kind kind)
{
	const struct ledger_entry *thing = NULL;
	int r = 0;

	while (r == 0 && (thing = ledger_next(&restoration->image, kind, thing))) {
		struct stream *stream = stream_by_number(&restoration->daemon->registry, (uint32_t)thing->a);
		struct grant *grant = numbered_find(restoration->grants, thing->b);
		struct entry_reference entry;

		if (!stream || !grant || grant->tenant != stream->tenant)
			continue;
		ledger_get(thing, &entry, sizeof(entry));
		if (kind == ENTRY_ASKED || entry.index == ENTRY_INDEX_ASKED)
			r = restore_asked(restoration, stream, grant);
		else
			restore_reference(restoration, stream, grant, entry.bit, entry.index);
	}
	return r;
}

/* --- clients and their leases --- */

static void restore_client(struct restoration *restoration, const struct ledger_entry *thing, struct kernel_call *call)
{
	struct daemon *daemon = restoration->daemon;
	struct entry_client entry;
	struct tenant *tenant;
	int r;

	if (call->result != KERNEL_OK)
		return;
	ledger_get(thing, &entry, sizeof(entry));
	tenant = tenant_by_number(&daemon->registry, entry.tenant);
	r = tenant ? client_restore(&daemon->connections, call->fd, thing->a, &entry, tenant) : -ESRCH;
	restore_check(restoration, r);
	if (r < 0)
		return;
	fd_steal(&call->fd);
	restoration->connections++;
}

static struct entry_client entry_of(const struct restoration *restoration, const struct client *client)
{
	struct entry_client entry;

	ledger_get(ledger_find(&restoration->image, ENTRY_CLIENT, client->holder.number, 0), &entry, sizeof(entry));
	return entry;
}

static void restore_leases(struct restoration *restoration, const struct numbered *clients)
{
	const struct ledger_entry *thing = NULL;

	while ((thing = ledger_next(&restoration->image, ENTRY_LEASES, thing))) {
		struct stream *stream = stream_by_number(&restoration->daemon->registry, (uint32_t)thing->b);
		struct client *client = numbered_find(clients, thing->a);
		struct reference *reference;

		if (!client || !stream || stream->tenant != client->holder.tenant)
			continue;
		ID_TABLE_FOREACH(reference, &stream->references)
			if (ledger_is_marked(thing, reference->index))
				restore_check(restoration, lease_get(&client->holder, reference) ? 0 : -ENOMEM);
	}
}

/* Those of older daemons. The table is of clients by the number of the holder of leases. */
static void restore_old_leases(struct restoration *restoration, const struct numbered *holders)
{
	const struct ledger_entry *thing = NULL;

	while ((thing = ledger_next(&restoration->image, ENTRY_LEASE, thing))) {
		struct client *client = numbered_find(holders, thing->a);
		struct grant *grant = numbered_find(restoration->grants, thing->b);
		struct reference *reference;
		struct entry_lease entry;
		struct stream *stream;

		ledger_get(thing, &entry, sizeof(entry));
		stream = stream_by_number(&restoration->daemon->registry, entry.stream);
		if (!client || !grant || !stream || stream->tenant != client->holder.tenant)
			continue;
		reference = reference_find(stream, grant);
		if (reference)
			restore_check(restoration, lease_get(&client->holder, reference) ? 0 : -ENOMEM);
	}
}

/* Older daemons recorded leases of clients with identical requests once for all of these clients: a bundle. */
static void restore_bundles(struct restoration *restoration)
{
	_cleanup_(numbered_free) struct numbered *first = NULL, *holders = NULL;
	struct client *client, *with_leases;
	struct reference *reference;

	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all) {
		const struct entry_client entry = entry_of(restoration, client);

		if (entry.bundle != 0 && !numbered_find(first, entry.bundle))
			numbered_add(restoration, &first, entry.bundle, client);
		if (entry.holder != 0)
			numbered_add(restoration, &holders, entry.holder, client);
	}
	restore_old_leases(restoration, first);
	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all) {
		with_leases = numbered_find(first, entry_of(restoration, client).bundle);
		if (!with_leases || with_leases == client)
			continue;
		ID_TABLE_FOREACH(reference, &with_leases->holder.leases)
			restore_check(restoration, lease_get(&client->holder, reference) ? 0 : -ENOMEM);
	}
	restore_old_leases(restoration, holders);
}

/*
 * The leases, shares and watches of each client. Changes since the last daemon have not been sent: watching clients have to look at
 * all events.
 */
static void restore_holdings(struct restoration *restoration)
{
	_cleanup_(numbered_free) struct numbered *clients = NULL;
	struct client *client;
	struct share *share;

	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all)
		numbered_add(restoration, &clients, client->holder.number, client);
	restore_leases(restoration, clients);
	TAILQ_FOREACH(client, &restoration->daemon->connections.clients, all) {
		LIST_FOREACH(share, &client->holder.shares, in_client)
			if (ledger_find(&restoration->image, ENTRY_SHARE, client->holder.number, share->stream->number))
				share_send(share);
		shares_enter(&client->holder);
		if (!entry_of(restoration, client).watching || client->holder.tenant->page_fd < 0)
			continue;
		pages_watch(&client->holder, true);
		client_note_all(client);
	}
}

/* --- the end --- */

/* Drops the references of the restoration: things that no client uses linger, or end. */
static void release_unused(struct restoration *restoration)
{
	struct daemon *daemon = restoration->daemon;
	struct grant *grant;

	while ((grant = numbered_take(&restoration->grants)))
		grant_unref(grant);
	for (struct stream *stream = daemon->registry.streams, *next; stream; stream = next) {
		next = stream->by_number.next;
		stream_unuse(stream);
	}
	for (struct tenant *tenant = daemon->registry.tenants, *next; tenant; tenant = next) {
		next = tenant->by_identity.next;
		tenant_release(tenant);
	}
}

/* New numbers have to be above all numbers of the ledger. */
static void raise_numbers(const struct restoration *restoration)
{
	uint64_t *last = &restoration->daemon->registry.last_number;

	for (size_t i = 0; i < restoration->image.n; i++) {
		const struct ledger_entry *thing = restoration->image.entries[i];
		struct entry_client entry;

		*last = MAX(*last, MAX(thing->a, thing->b));
		if (thing->kind != ENTRY_CLIENT)
			continue;
		ledger_get(thing, &entry, sizeof(entry));
		*last = MAX(*last, MAX(entry.holder, entry.bundle));
	}
}

static int restore_all(struct restoration *restoration)
{
	const struct ledger_entry *thing = NULL;
	int r;

	raise_numbers(restoration);
	while ((thing = ledger_next(&restoration->image, ENTRY_TENANT, thing)))
		restore_tenant(restoration, thing);
	r = fetch(restoration, ENTRY_TENANT, KERNEL_PAGE_FETCH, 0, take_page);
	if (r == 0)
		r = fetch(restoration, ENTRY_TENANT, KERNEL_PAGE_FETCH, 1, take_page);
	if (r == 0)
		r = fetch(restoration, ENTRY_STREAM, KERNEL_STREAM_FETCH, 0, restore_stream);
	while (r == 0 && (thing = ledger_next(&restoration->image, ENTRY_GRANT, thing)))
		restore_grant(restoration, thing);
	if (r == 0)
		r = restore_references(restoration, ENTRY_REFERENCE);
	if (r == 0)
		r = restore_references(restoration, ENTRY_ASKED);
	if (r == 0)
		r = fetch(restoration, ENTRY_CLIENT, KERNEL_DEPOSITED, 0, restore_client);
	if (r < 0)
		return r;
	restore_bundles(restoration);
	restore_holdings(restoration);
	return restoration->failed;
}

/* The ledger of the last daemon, or an empty one where there is none, or none that can be read. */
static int read_deposited(struct daemon *daemon, struct ledger_image *ret)
{
	struct kernel_call call = { .op = KERNEL_DEPOSITED, .number = DEPOSIT_LEDGER, .fd = -1 };
	int r = restore_call_one(daemon, &call);

	if (r < 0 || call.result != KERNEL_OK)
		return r;
	r = ledger_read(call.fd, ret);
	fd_close(call.fd);
	if (r < 0 && r != -EPROTONOSUPPORT && r != -EBADMSG)
		return r; /* the next daemon may have the memory or fds that this one lacks */
	if (r == -EPROTONOSUPPORT)
		log_warning("the ledger of the last daemon, a newer version, can't be read: starting without state; "
			    "clients reconnect and keep their files");
	else if (r < 0)
		log_warning("the ledger of the last daemon can't be read (%s): starting without state", strerror(-r));
	return 0;
}

/* Deposits this daemon's ledger in the place of the last one, and lets the keeper drop everything that is not restored. */
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
	r = restore_call_one(daemon, &deposit);
	return r < 0 ? r : restore_call_one(daemon, &disown);
}

int restore(struct daemon *daemon)
{
	struct restoration restoration = { .daemon = daemon };
	int r = deposit_begin(&daemon->connections);

	if (r < 0 || !daemon->registry.ledger)
		return r;
	r = read_deposited(daemon, &restoration.image);
	if (r == 0)
		r = restore_all(&restoration);
	/* After an error everything stays with the keeper, and the next daemon finds the last ledger. */
	if (r < 0)
		kernel_cancel(daemon->registry.kernel);
	else
		declared_inherit(&daemon->registry);
	release_unused(&restoration);
	if (r == 0 && restoration.image.n > 0)
		log_notice("restored %u connections, %u streams and %u events of %u tenants", restoration.connections,
			   HASH_CNT(by_number, daemon->registry.streams),
			   daemon->registry.machine.common + daemon->registry.machine.filled,
			   HASH_CNT(by_identity, daemon->registry.tenants));
	ledger_image_deinit(&restoration.image);
	if (r == 0)
		r = take_over(daemon);
	if (r < 0)
		log_error("can't restore the state of the last daemon: %s", strerror(-r));
	return r;
}
