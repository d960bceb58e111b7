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
#include "daemon/recovery/last_silence.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/share.h"
#include "daemon/registry/silencing.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "protocol/event/description.h"

struct restoration {
	struct daemon *daemon;
	struct ledger_image image; /* each grant in it is referenced */
	size_t end[ENTRY_KINDS_];  /* of each kind, in the image */
	unsigned connections;
	bool has_silence; /* the keeper may have silent events */
};

/* Only a lack of memory may be over for the next daemon; after other errors the thing is left out. */
static int left_out(int r)
{
	return r == -ENOMEM ? r : 0;
}

static void *restored(const struct restoration *restoration, enum entry_kind kind, uint64_t number)
{
	const struct ledger_item *item = ledger_find(&restoration->image, kind, number, 0);

	return item ? item->thing : NULL;
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

/* --- tenants and their pages --- */

static int restore_tenant(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call _unused_)
{
	const struct ledger_entry *thing = item->entry;
	struct entry_tenant entry;
	struct tenant *tenant;
	char path[PATH_MAX];
	size_t length;

	ledger_get(thing, &entry, sizeof(entry));
	length = thing->data_size > sizeof(entry) ? MIN(thing->data_size - sizeof(entry), sizeof(path) - 1) : 0;
	memcpy(path, (const char *)(thing + 1) + sizeof(entry), length);
	path[length] = '\0';
	return left_out(tenant_restore(&restoration->daemon->registry, (uint32_t)thing->a, path, entry.cgroup_id,
				       entry.is_contained, &tenant));
}

/* Index 1 is the writable file. */
static int restore_page(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call)
{
	struct tenant *tenant = tenant_by_number(&restoration->daemon->registry, (uint32_t)item->entry->a);

	if (tenant && call->result == KERNEL_OK)
		*(call->index == 1 ? &tenant->page_writable : &tenant->page_fd) = fd_steal(&call->fd);
	return 0;
}

/* --- streams, grants and references --- */

static int restore_stream(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call)
{
	struct entry_stream entry;
	struct tenant *tenant;
	struct stream *stream;

	ledger_get(item->entry, &entry, sizeof(entry));
	tenant = tenant_by_number(&restoration->daemon->registry, entry.tenant);
	/* KERNEL_E_GONE: the keeper has no copy of a lingering file. */
	if (!tenant || (call->result != KERNEL_OK && call->result != KERNEL_E_GONE))
		return 0;
	stream = stream_restore(tenant, entry.uid, (uint32_t)item->entry->a, entry.self_registered);
	if (!stream)
		return -ENOMEM;
	stream->place = call->number;
	stream->closed = call->result == KERNEL_E_GONE;
	if (!stream->closed)
		stream_resume(stream, fd_steal(&call->fd));
	return 0;
}

static int restore_grant(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call _unused_)
{
	static struct description description; /* large */
	const struct ledger_entry *thing = item->entry;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct entry_grant entry;
	struct tenant *tenant;
	struct grant *grant;
	int r;

	ledger_get(thing, &entry, sizeof(entry));
	tenant = tenant_by_number(&restoration->daemon->registry, entry.tenant);
	if (!tenant || thing->data_size <= sizeof(entry) ||
	    description_parse((const char *)(thing + 1) + sizeof(entry), thing->data_size - sizeof(entry), &description,
			      &why) != 0)
		return 0;
	r = grant_get(tenant, &description, entry.flags, thing->a, &grant, &why);
	if (r != 0)
		return left_out(r);
	if (entry.persistent)
		grant_persists(grant);
	item->thing = grant;
	return 0;
}

static int restore_registered(struct stream *stream, struct grant *grant, uint32_t bit, uint32_t index)
{
	uint32_t asked = 0;

	grant->bit = bit;
	return reference_get(stream, grant, index, &asked) ? 0 : -ENOMEM;
}

/* A registration without an answer is sent again: one by one, since there are few. */
static int restore_asked(struct daemon *daemon, struct stream *stream, struct grant *grant)
{
	struct kernel_call call = {
		.op = KERNEL_REGISTER,
		.page = stream->tenant->number,
		.stream = stream->number,
		.flags = grant->event->flags | silencing_ask(grant),
		.text = grant->event->description,
		.fd = -1,
	};
	int r;

	/* Without the file that is impossible, and no client knows of the event. */
	if (stream->fd < 0 || reference_find(stream, grant))
		return 0;
	r = restore_call(daemon, &call, 1);
	return r == 0 && call.result == KERNEL_OK ? restore_registered(stream, grant, call.bit, call.index) : r;
}

static int restore_reference(struct restoration *restoration, struct ledger_item *item,
			     struct kernel_call *call _unused_)
{
	struct stream *stream = stream_by_number(&restoration->daemon->registry, (uint32_t)item->entry->a);
	struct grant *grant = restored(restoration, ENTRY_GRANT, item->entry->b);
	struct entry_reference entry;

	if (!stream || !grant || grant->tenant != stream->tenant)
		return 0;
	ledger_get(item->entry, &entry, sizeof(entry));
	return item->entry->kind == ENTRY_ASKED ? restore_asked(restoration->daemon, stream, grant)
						: restore_registered(stream, grant, entry.bit, entry.index);
}

/* --- clients, their leases and shares --- */

static int restore_client(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call)
{
	struct daemon *daemon = restoration->daemon;
	struct entry_client entry;
	struct tenant *tenant;
	int r;

	ledger_get(item->entry, &entry, sizeof(entry));
	tenant = tenant_by_number(&daemon->registry, entry.tenant);
	if (!tenant || call->result != KERNEL_OK)
		return 0;
	r = client_restore(&daemon->connections, call->fd, item->entry->a, &entry, tenant);
	if (r < 0)
		return left_out(r);
	fd_steal(&call->fd);
	item->thing = TAILQ_LAST(&daemon->connections.clients, client_queue);
	/* Its trace has ended with the last daemon: it asks this one. */
	if (entry.traces)
		client_close(item->thing);
	restoration->connections++;
	return 0;
}

static int restore_leases(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call _unused_)
{
	struct stream *stream = stream_by_number(&restoration->daemon->registry, (uint32_t)item->entry->b);
	struct client *client = restored(restoration, ENTRY_CLIENT, item->entry->a);
	struct reference *reference;

	if (!client || !stream || stream->tenant != client->holder.tenant)
		return 0;
	ID_TABLE_FOREACH(reference, &stream->references)
		if (ledger_is_marked(item->entry, reference->index) && !lease_get(&client->holder, reference))
			return -ENOMEM;
	return 0;
}

static int restore_share(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call _unused_)
{
	struct stream *stream = stream_by_number(&restoration->daemon->registry, (uint32_t)item->entry->b);
	struct client *client = restored(restoration, ENTRY_CLIENT, item->entry->a);
	struct share *share = client && stream ? share_find(&client->holder, stream) : NULL;

	/* Without a lease on the file the client does not use it. */
	if (!share)
		return 0;
	share_send(share);
	shares_enter(&client->holder);
	return 0;
}

static int restore_enabled(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call _unused_)
{
	struct grant *grant = restored(restoration, ENTRY_GRANT, item->entry->a);
	struct entry_enabled admin;

	ledger_get(item->entry, &admin, sizeof(admin));
	admin.comm[sizeof(admin.comm) - 1] = '\0';
	return grant ? event_set_enabled_by(&restoration->daemon->registry, grant->event, &admin) : 0;
}

/* Before any event is registered: the rules of admins. */
static int restore_silence(struct restoration *restoration, struct ledger_item *item, struct kernel_call *call _unused_)
{
	char event[WIRE_DESCRIPTION_MAX + 1], tenant[PATH_MAX];
	const struct ledger_entry *thing = item->entry;
	const char *text = (const char *)(thing + 1) + sizeof(struct entry_silence);
	struct entry_silence entry;
	size_t length;

	restoration->has_silence = true;
	ledger_get(thing, &entry, sizeof(entry));
	if (thing->kind == ENTRY_SILENCING || thing->data_size < sizeof(entry))
		return 0;
	length = thing->data_size - sizeof(entry);
	if (entry.event_length > length || entry.event_length >= sizeof(event) ||
	    length - entry.event_length >= sizeof(tenant))
		return 0;
	string_copy(event, entry.event_length + 1, text);
	string_copy(tenant, length - entry.event_length + 1, text + entry.event_length);
	return left_out(
		silence_add(&restoration->daemon->registry, (enum silence_kind)entry.kind, event, tenant, NULL));
}

/* Changes since the last daemon have not been sent: watching clients have to look at all events. */
static int restore_watch(struct restoration *restoration _unused_, struct ledger_item *item,
			 struct kernel_call *call _unused_)
{
	struct client *client = item->thing;

	if (!client || !client->holder.known.watching || client->holder.tenant->page_fd < 0)
		return 0;
	pages_watch(&client->holder, true);
	client_note_all(client);
	return 0;
}

/* --- all kinds in their order --- */

/* Restores a thing of the kind, perhaps with the answer of the keeper to a call for it. 0; negative errnos are for the next daemon. */
struct step {
	enum entry_kind kind;
	int (*restore)(struct restoration *, struct ledger_item *, struct kernel_call *);
	bool asks;
	enum kernel_op op;
	uint32_t index;
};

static const struct step steps[] = {
	{ ENTRY_SILENCE, restore_silence, .asks = false },
	{ ENTRY_SILENCING, restore_silence, .asks = false },
	{ ENTRY_TENANT, restore_tenant, .asks = false },
	{ ENTRY_TENANT, restore_page, .asks = true, .op = KERNEL_PAGE_FETCH, .index = 0 },
	{ ENTRY_TENANT, restore_page, .asks = true, .op = KERNEL_PAGE_FETCH, .index = 1 },
	{ ENTRY_STREAM, restore_stream, .asks = true, .op = KERNEL_STREAM_FETCH },
	{ ENTRY_GRANT, restore_grant, .asks = false },
	{ ENTRY_REFERENCE, restore_reference, .asks = false },
	{ ENTRY_ASKED, restore_reference, .asks = false },
	{ ENTRY_CLIENT, restore_client, .asks = true, .op = KERNEL_DEPOSITED },
	{ ENTRY_LEASES, restore_leases, .asks = false },
	{ ENTRY_SHARE, restore_share, .asks = false },
	{ ENTRY_ENABLED, restore_enabled, .asks = false },
	{ ENTRY_CLIENT, restore_watch, .asks = false },
};

static int step_ask(struct restoration *restoration, const struct step *step, struct ledger_item *items, size_t n)
{
	_cleanup_(freep) struct kernel_call *calls = calloc(n, sizeof(*calls));
	int r;

	if (!calls)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		calls[i] = (struct kernel_call){
			.op = step->op,
			.page = (uint32_t)items[i].entry->a,
			.stream = (uint32_t)items[i].entry->a,
			.index = step->index,
			.number = items[i].entry->a,
			.fd = -1,
		};
	r = restore_call(restoration->daemon, calls, n);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = MIN(calls[i].result, 0);
		if (r == 0)
			r = step->restore(restoration, &items[i], &calls[i]);
		fd_close(calls[i].fd);
	}
	return r;
}

static int restore_all(struct restoration *restoration)
{
	uint64_t *last = &restoration->daemon->registry.last_number;
	int r = 0;

	/* New numbers have to be above all numbers of the ledger. */
	for (size_t i = 0; i < restoration->image.n; i++) {
		const struct ledger_entry *thing = restoration->image.items[i].entry;

		*last = MAX(*last, MAX(thing->a, thing->b));
		for (unsigned kind = thing->kind; kind < ENTRY_KINDS_; kind++)
			restoration->end[kind] = i + 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(steps) && r == 0; i++) {
		const struct step *step = &steps[i];
		const size_t first = restoration->end[step->kind - 1], end = restoration->end[step->kind];

		if (step->asks && end > first)
			r = step_ask(restoration, step, restoration->image.items + first, end - first);
		for (size_t j = first; j < end && r == 0 && !step->asks; j++)
			r = step->restore(restoration, &restoration->image.items[j], NULL);
	}
	return r;
}

/* Drops the references of the restoration: things that no client uses linger, or end. */
static void release_unused(struct restoration *restoration)
{
	struct registry *registry = &restoration->daemon->registry;

	for (size_t i = restoration->end[ENTRY_GRANT - 1]; i < restoration->end[ENTRY_GRANT]; i++)
		if (restoration->image.items[i].thing)
			grant_unref(restoration->image.items[i].thing);
	for (struct stream *stream = registry->streams, *next; stream; stream = next) {
		next = stream->by_number.next;
		stream_unuse(stream);
	}
	for (struct tenant *tenant = registry->tenants, *next; tenant; tenant = next) {
		next = tenant->by_number.next;
		tenant_release(tenant);
	}
}

/* --- the ledgers --- */

/* The ledger of the last daemon, or an empty one where there is none, or none that can be read. */
static int read_deposited(struct daemon *daemon, struct ledger_image *ret)
{
	struct kernel_call call = { .op = KERNEL_DEPOSITED, .number = DEPOSIT_LEDGER, .fd = -1 };
	int r = restore_call_one(daemon, &call);

	if (r < 0 || call.result != KERNEL_OK)
		return r;
	r = ledger_read(call.fd, ret);
	fd_close(call.fd);
	if (r != -EBADMSG)
		return r; /* the next daemon may have the memory or fds that this one lacks */
	log_warning("the ledger of the last daemon is damaged, or of another version: starting without state; "
		    "clients reconnect and keep their files");
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

/* Without a ledger. No client is there yet, and no event. */
static void restore_rules(struct daemon *daemon)
{
	if (daemon->options.state_directory)
		last_silence_read(daemon->options.state_directory, daemon->user.uid, &daemon->registry);
}

int restore(struct daemon *daemon)
{
	struct restoration restoration = { .daemon = daemon };
	int r;

	if (!daemon->registry.kernel->facts.deposits) {
		restore_rules(daemon);
		return 0;
	}
	/* From now on everything is entered in it. */
	r = ledger_new(&daemon->registry.ledger);
	if (r == 0)
		r = read_deposited(daemon, &restoration.image);
	if (r == 0 && restoration.image.n == 0)
		restore_rules(daemon);
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
			   HASH_CNT(by_number, daemon->registry.tenants));
	ledger_image_deinit(&restoration.image);
	if (r == 0)
		r = silencing_restore(&daemon->registry, restoration.has_silence);
	if (r == 0)
		r = take_over(daemon);
	if (r < 0)
		log_error("can't restore the state of the last daemon: %s", strerror(-r));
	return r;
}
