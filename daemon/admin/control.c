/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/admin/control.h"

#include <stdio.h>

#include "daemon/admin/listing.h"
#include "daemon/admin/numbers.h"
#include "daemon/daemon.h"
#include "daemon/native/native.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/silence.h"
#include "daemon/registry/tenant.h"
#include "kernel/embedded/tracer.h"
#include "protocol/row.h"

enum { HOLDERS_BYTES_MAX = 32768 }; /* half of the longest list of a row, so that any tenant's path fits behind it */
enum { ONLY_BYTES_MAX = 8192 };	    /* likewise; SILENCES has all */

static void put_numbers(struct packet *packet, const struct number *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (numbers[i].key && numbers[i].value != NUMBER_ABSENT)
			row_put_u64(packet, numbers[i].key, numbers[i].value);
}

/* STATUS: one row. */

static int status_next(struct listing *listing, struct packet *packet)
{
	struct daemon *daemon = daemon_of(listing->client);
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;
	struct number numbers[NUMBERS_OF_DAEMON];
	char off[WIRE_SENTENCE_MAX + 8];
	TEXT(native, WIRE_SENTENCE_MAX + 8);

	if (listing->n_rows > 0)
		return LISTING_END;
	capacity_look(&daemon->registry);
	snprintf(off, sizeof(off), "off: %s", facts->guarded ? "it was there, and is gone" : facts->note);
	row_put_string(packet, "version", VERSION);
	row_put_string(packet, "backend", backend_name(facts->backend));
	row_put_string(packet, "why", daemon->probe.sentence);
	/* Whether the last data file that was sent was guarded; "none" with a backend that has no guard. */
	row_put_string(packet, "guard",
		       daemon->registry.guarded			  ? "on"
		       : facts->backend == BACKEND_ENABLE_ADDRESS ? off
								  : "none");
	native_state(&daemon->registry, &native);
	row_put_string(packet, "native", native.buffer);
	row_put_string(packet, "note", facts->backend == BACKEND_STATUS_PAGE ? facts->note : "");
	row_put_u64(packet, "pid", (uint64_t)getpid());
	row_put_string(packet, "socket", daemon->options.socket);
	row_put_string(packet, "control_socket", daemon->options.control_socket);
	row_put_string(packet, "policy", daemon->options.policy);
	row_put_string(packet, "policy_note", daemon->reload.note);
	row_put_u64(packet, "silences", daemon->registry.silence ? daemon->registry.silence->n : 0);
	row_put_u64(packet, "page_bits", facts->page_bits);
	row_put_u64(packet, "payload_max", facts->payload_max);
	numbers_of_daemon(daemon, numbers);
	put_numbers(packet, numbers, NUMBERS_OF_DAEMON);
	row_put_u64(packet, "records", daemon->registry.kernel->totals.records);
	row_put_u64(packet, "bad", daemon->registry.kernel->totals.bad);
	return LISTING_ROW;
}

const struct listing_kind status_listing = { .size = sizeof(struct listing), .next = status_next };

/* EVENTS: one row for each, with its holders, and with its records where this daemon is the tracer. */

struct holders {
	struct packet *packet;
	size_t mark;
	size_t shown;
};

static bool holders_has_room(const struct holders *holders)
{
	return holders->shown < HOLDERS_MAX && holders->packet->size - holders->mark < HOLDERS_BYTES_MAX;
}

static void holders_put_process(struct holders *holders, const char *tenant, uint64_t pid, uint32_t uid,
				const char *comm)
{
	size_t item;

	if (!holders_has_room(holders))
		return;
	item = row_begin_item(holders->packet);
	holders->shown++;
	row_put_string(holders->packet, "tenant", tenant);
	row_put_u64(holders->packet, "pid", pid);
	row_put_u64(holders->packet, "uid", uid);
	row_put_string(holders->packet, "comm", comm);
	row_end_item(holders->packet, item);
}

static void holders_put(struct holders *holders, struct holder *holder)
{
	if (holders_has_room(holders))
		holders_put_process(holders, holder->tenant->path, (uint64_t)holder->known.pid, holder->known.uid,
				    *holder->comm ? holder->comm : client_comm(client_of(holder)));
}

/* Of those that begin at `at` and have this text: how many. */
static size_t holders_put_native(struct holders *holders, const struct native_list *natives, size_t at,
				 const char *text, size_t *lingering)
{
	size_t n = 0;

	for (; at + n < natives->n && streq(natives->held[at + n].text, text); n++) {
		const struct native_held *held = &natives->held[at + n];

		*lingering += held->lingers;
		holders_put_process(holders, held->tenant ? held->tenant->path : "-", held->pid, held->uid, held->comm);
	}
	return n;
}

static void holders_put_grant(struct holders *holders, const struct grant *grant)
{
	struct holder self = { .tenant = grant->tenant,
			       .known = { .pid = getpid(), .uid = geteuid() },
			       .comm = "userevd" };
	struct holder *holder;
	unsigned left = grant->leases;

	/* The daemon itself holds the events that the policy declares. */
	if (declared_is(grant))
		holders_put(holders, &self);
	for (holder = LIST_FIRST(&grant->tenant->holders); holder && left > 0 && holders_has_room(holders);
	     holder = LIST_NEXT(holder, in_tenant)) {
		if (!lease_by_bit(holder, grant->bit))
			continue;
		holders_put(holders, holder);
		left--;
	}
}

/* Patterns of the tenants that it is on for, if there are rules; and how many tenants have it, and see it as off. */
static void event_put_silence(struct packet *packet, const struct event *event)
{
	const struct registry *registry = LIST_FIRST(&event->grants)->tenant->registry;
	const struct silence_rules *rules = silence_of_event(registry, event->description, event->name_length);
	const struct silence_rule *rule;
	const struct grant *grant;
	size_t silent = 0, mark, item;

	LIST_FOREACH(grant, &event->grants, in_event)
		silent += (grant->state & KERNEL_SILENT) != 0;
	if (silent > 0)
		row_put_u64(packet, "silent", silent);
	if (!rules)
		return;
	mark = row_begin_rows(packet, "only");
	TAILQ_FOREACH(rule, rules, in_list) {
		if (packet->size - mark >= ONLY_BYTES_MAX)
			break;
		item = row_begin_item(packet);
		row_put_string(packet, "tenant", rule->tenant);
		row_end_item(packet, item);
	}
	row_end_rows(packet, mark);
}

/* Those of the daemon's own event, or NULL, and of native ones of this text from `at` on: how many there are of these. */
static size_t event_put_holders(struct packet *packet, const struct event *event, const struct native_list *natives,
				size_t at, const char *text)
{
	struct holders holders = { .packet = packet, .mark = row_begin_rows(packet, "holders") };
	size_t total = 0, lingering = 0, tenants = 0, native, rows, item;
	const struct grant *grant;
	bool persistent = false;

	for (grant = event ? LIST_FIRST(&event->grants) : NULL; grant; grant = LIST_NEXT(grant, in_event)) {
		tenants++;
		persistent |= grant->persistent;
		lingering += grant->leases == 0;
		total += grant->leases;
		holders_put_grant(&holders, grant);
	}
	native = holders_put_native(&holders, natives, at, text, &lingering);
	row_end_rows(packet, holders.mark);
	row_put_u64(packet, "holders_total", total + native);
	row_put_u64(packet, "tenants", tenants + native);
	row_put_u64(packet, "lingering", lingering);
	row_put_bool(packet, "persistent", persistent);
	if (native > 0)
		row_put_u64(packet, "native", native);
	if (event)
		event_put_silence(packet, event);
	if (!event || !event->enabled_by)
		return native;
	rows = row_begin_rows(packet, "enabled_by");
	item = row_begin_item(packet);
	row_put_u64(packet, "uid", event->enabled_by->admin.uid);
	row_put_u64(packet, "pid", (uint64_t)event->enabled_by->admin.pid);
	row_put_string(packet, "comm", event->enabled_by->admin.comm);
	row_put_u64(packet, "time", event->enabled_by->admin.time);
	row_end_item(packet, item);
	row_end_rows(packet, rows);
	return native;
}

static void event_put_name(struct packet *packet, const char *description, size_t name_length)
{
	char name[DESCRIPTION_NAME_MAX + 1];

	string_copy(name, MIN(sizeof(name), name_length + 1), description);
	row_put_string(packet, "event", name);
	row_put_string(packet, "description", description);
}

static int events_next_traced(struct listing *listing, struct packet *packet)
{
	struct daemon *daemon = daemon_of(listing->client);
	const struct trace_event *event = tracer_next(daemon->registry.kernel->tracer, listing->after);

	if (!event)
		return LISTING_END;
	listing->after = event->id;
	event_put_name(packet, event->description, event->name_length);
	row_put_bool(packet, "on", event->on);
	row_put_u64(packet, "records", event->records);
	row_put_u64(packet, "bad", event->bad);
	event_put_holders(packet, event_by_name(&daemon->registry, event->description, event->name_length),
			  &(struct native_list){ 0 }, 0, "");
	return LISTING_ROW;
}

struct events_listing {
	struct listing listing;
	struct native_list natives;
	size_t next; /* of those, when all of ours are told */
	bool listed;
};

static size_t native_find(const struct native_list *natives, const char *text)
{
	size_t low = 0, high = natives->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (strcmp(natives->held[middle].text, text) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Events that native programs alone have. */
static int events_next_native(struct events_listing *listing, struct packet *packet)
{
	const struct registry *registry = listing->listing.client->holder.registry;
	const struct native_list *natives = &listing->natives;

	while (listing->next < natives->n) {
		const struct native_held *held = &natives->held[listing->next];
		const struct event *event = event_by_name(registry, held->text, held->name_length);

		if (event && streq(event->description, held->text)) {
			listing->next++; /* told with ours */
			continue;
		}
		event_put_name(packet, held->text, held->name_length);
		listing->next += event_put_holders(packet, NULL, natives, listing->next, held->text);
		return LISTING_ROW;
	}
	return LISTING_END;
}

/* Without the event's state: userevctl reads that from tracefs. */
static int events_next_held(struct listing *listing, struct packet *packet)
{
	struct events_listing *events = (struct events_listing *)listing;
	const struct event *event = event_after(listing->client->holder.registry, listing->after);

	if (!events->listed)
		events->natives = native_list_make(listing->client->holder.registry);
	events->listed = true;
	if (!event)
		return events_next_native(events, packet);
	listing->after = event->number;
	event_put_name(packet, event->description, event->name_length);
	row_put_bool(packet, "multi_format", event->flags & REGISTER_MULTI_FORMAT);
	event_put_holders(packet, event, &events->natives, native_find(&events->natives, event->description),
			  event->description);
	return LISTING_ROW;
}

static void events_deinit(struct listing *listing)
{
	native_list_free(&((struct events_listing *)listing)->natives);
}

int handle_events(struct client *client, const struct message *message)
{
	static const struct listing_kind traced = { .size = sizeof(struct listing), .next = events_next_traced };
	static const struct listing_kind held = { .size = sizeof(struct events_listing),
						  .next = events_next_held,
						  .deinit = events_deinit };

	return listing_handle(client, message, client->holder.registry->kernel->tracer ? &traced : &held);
}

/* TENANTS: in the order in which they were made, so that the listing stays right while tenants come and go. */

static void tenant_put_refusals(struct packet *packet, const struct tenant *tenant)
{
	size_t mark = row_begin_rows(packet, "refusals");

	for (uint32_t i = 0; i < ARRAY_SIZE(tenant->refusals); i++) {
		size_t item;

		if (tenant->refusals[i] == 0)
			continue;
		item = row_begin_item(packet);
		row_put_string(packet, "reason", refusal_name(i));
		row_put_u64(packet, "count", tenant->refusals[i]);
		row_end_item(packet, item);
	}
	row_end_rows(packet, mark);
}

static int tenants_next(struct listing *listing, struct packet *packet)
{
	struct daemon *daemon = daemon_of(listing->client);
	struct tenant *tenant = tenant_after(&daemon->registry, (uint32_t)listing->after);
	struct number numbers[NUMBERS_OF_TENANT];

	if (!tenant)
		return LISTING_END;
	listing->after = tenant->number;
	rules_update(tenant);
	row_put_string(packet, "tenant", tenant->path);
	row_put_u64(packet, "cgroup_id", tenant->cgroup_id);
	row_put_bool(packet, "muted", tenant->muted && silence_is_possible(&daemon->registry));
	row_put_bool(packet, "blocked", tenant->blocked);
	numbers_of_tenant(tenant, numbers);
	put_numbers(packet, numbers, NUMBERS_OF_TENANT);
	if (daemon->registry.kernel->tracer) {
		const struct kernel_page_stats stats =
			tracer_page_stats(daemon->registry.kernel->tracer, tenant->number);

		row_put_u64(packet, "records", stats.records);
		row_put_u64(packet, "bad", stats.bad);
	}
	tenant_put_refusals(packet, tenant);
	return LISTING_ROW;
}

const struct listing_kind tenants_listing = { .size = sizeof(struct listing), .next = tenants_next };
