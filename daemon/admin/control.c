/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/admin/control.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/admin/listing.h"
#include "daemon/admin/reload.h"
#include "daemon/daemon.h"
#include "daemon/process/clock.h"
#include "daemon/quota/reserve.h"
#include "daemon/registry/bundle.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "kernel/embedded/tracer.h"
#include "protocol/row.h"

enum { HOLDERS_BYTES_MAX = 32768 }; /* half of what a row's list can be, whatever the length of tenants' paths */

void control_refuse(struct client *client, uint32_t serial, uint32_t refusal, const char *format, ...)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	encode_error(client_answer(client, KIND_REFUSED, serial, 0), refusal, sentence);
	client_send(client, NULL, 0);
}

bool control_may_list(struct client *client, uint32_t serial, bool wants_tracer)
{
	if (client->listing)
		control_refuse(client, serial, REFUSAL_BAD_PACKET, "this connection has a listing under way");
	else if (wants_tracer && !client->holder.registry->kernel->tracer)
		control_refuse(client, serial, REFUSAL_NOT_THE_TRACER,
			       "with the %s backend events are traced in the kernel, not in the daemon",
			       client->holder.registry->kernel->facts.name);
	else
		return true;
	return false;
}

static void start(struct client *client, uint32_t serial, size_t size, const struct listing_kind *kind)
{
	struct listing *listing = calloc(1, size);

	if (listing)
		listing_start(client, listing, kind, serial);
	else
		control_refuse(client, serial, REFUSAL_TROUBLE, "the daemon is out of memory; try again later");
}

/* STATUS: one row. */

struct status_listing {
	struct listing listing;
	bool done;
};

static uint32_t count_lingering(const struct daemon *daemon)
{
	uint32_t lingering = 0;

	for (struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_identity.next)
		lingering += tenant->lingering;
	return lingering;
}

static void put_totals(struct packet *packet, const struct daemon *daemon)
{
	const struct kernel_page_stats *totals = &daemon->registry.kernel->totals;

	row_put_u64(packet, "tenants", HASH_CNT(by_identity, daemon->registry.tenants));
	row_put_u64(packet, "connections", daemon->registry.n_holders);
	row_put_u64(packet, "in_flight", daemon->connections.in_flight);
	row_put_u64(packet, "events", HASH_CNT(by_key, daemon->registry.events));
	row_put_u64(packet, "leases", daemon->registry.leases);
	row_put_u64(packet, "lingering", count_lingering(daemon));
	row_put_u64(packet, "streams", HASH_CNT(by_number, daemon->registry.streams));
	row_put_u64(packet, "charges", daemon->registry.machine.common + daemon->registry.machine.filled);
	row_put_u64(packet, "capacity", daemon->registry.machine.capacity);
	row_put_u64(packet, "foreign", daemon->registry.foreign);
	row_put_u64(packet, "reserved", daemon->registry.machine.claimed);
	row_put_u64(packet, "files_capacity", daemon->registry.files.capacity);
	row_put_u64(packet, "files_reserved", daemon->registry.files.claimed);
	row_put_u64(packet, "records", totals->records);
	row_put_u64(packet, "bad", totals->bad);
	row_put_u64(packet, "lost", daemon->registry.lost);
	row_put_u64(packet, "too_big", daemon->registry.too_big);
}

/* As the last data file that left was found; "none" where clients have nothing to register on, or nothing keeps them from it. */
static void put_guard(struct packet *packet, const struct daemon *daemon)
{
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;
	char off[WIRE_SENTENCE_MAX + 8];

	snprintf(off, sizeof(off), "off: %s", facts->guarded ? "it was there, and is gone" : facts->note);
	if (daemon->registry.guarded)
		row_put_string(packet, "guard", "on");
	else
		row_put_string(packet, "guard", facts->backend == BACKEND_ENABLE_ADDRESS ? off : "none");
	row_put_string(packet, "note", facts->backend == BACKEND_STATUS_PAGE ? facts->note : "");
}

static int next_status(struct listing *listing, struct packet *packet)
{
	struct status_listing *status = container_of(listing, struct status_listing, listing);
	const struct daemon *daemon = daemon_of(listing->client);

	if (status->done)
		return LISTING_END;
	status->done = true;
	capacity_look(listing->client->holder.registry);
	row_put_string(packet, "version", VERSION);
	row_put_string(packet, "backend", daemon->registry.kernel->facts.name);
	row_put_string(packet, "why", daemon->probe.sentence);
	put_guard(packet, daemon);
	row_put_u64(packet, "pid", (uint64_t)getpid());
	row_put_u64(packet, "uptime", (uint64_t)(clock_now() - daemon->started));
	row_put_string(packet, "socket", daemon->options.socket);
	row_put_string(packet, "control_socket", daemon->options.control_socket);
	row_put_string(packet, "policy", daemon->options.policy);
	row_put_string(packet, "policy_note", reload_note(daemon));
	row_put_u64(packet, "page_bits", daemon->registry.kernel->facts.page_bits);
	row_put_u64(packet, "payload_max", daemon->registry.kernel->facts.payload_max);
	put_totals(packet, daemon);
	return LISTING_ROW;
}

int handle_status(struct client *client, const struct message *message)
{
	static const struct listing_kind kind = { .next = next_status };

	if (decode_empty(message->body) != 0)
		return REFUSAL_BAD_PACKET;
	if (control_may_list(client, message->serial, false))
		start(client, message->serial, sizeof(struct status_listing), &kind);
	return 0;
}

/* EVENTS: what the tracer knows of each, where that is us, and who holds it. */

struct events_listing {
	struct listing listing;
	uint64_t after;
};

struct holders {
	struct packet *packet;
	size_t mark;
	size_t shown;
};

static bool may_show_more(const struct holders *holders)
{
	return holders->shown < HOLDERS_MAX && holders->packet->size - holders->mark < HOLDERS_BYTES_MAX;
}

static void put_holder(struct holders *holders, const struct holder *holder)
{
	size_t item = row_begin_item(holders->packet);

	holders->shown++;
	row_put_string(holders->packet, "tenant", holder->tenant->path);
	row_put_u64(holders->packet, "pid", (uint64_t)holder->pid);
	row_put_u64(holders->packet, "uid", holder->uid);
	row_put_string(holders->packet, "comm", holder->comm);
	row_end_item(holders->packet, item);
}

/* What the policy declares. */
static void put_ourselves(struct holders *holders, const struct tenant *tenant)
{
	size_t item = row_begin_item(holders->packet);

	holders->shown++;
	row_put_string(holders->packet, "tenant", tenant->path);
	row_put_u64(holders->packet, "pid", (uint64_t)getpid());
	row_put_u64(holders->packet, "uid", geteuid());
	row_put_string(holders->packet, "comm", "userevd");
	row_end_item(holders->packet, item);
}

static void put_lease(struct holders *holders, const struct lease *lease)
{
	const struct holder *holder;

	if (lease->holder) {
		put_holder(holders, lease->holder);
		return;
	}
	for (holder = LIST_FIRST(&lease->bundle->holders); holder && may_show_more(holders);
	     holder = LIST_NEXT(holder, in_bundle))
		put_holder(holders, holder);
}

static void put_grant(struct holders *holders, const struct grant *grant)
{
	const struct reference *reference;
	const struct lease *lease;

	if (declared_is(grant) && may_show_more(holders))
		put_ourselves(holders, grant->tenant);
	LIST_FOREACH(reference, &grant->registered, in_grant)
		for (lease = LIST_FIRST(&reference->leases); lease && may_show_more(holders);
		     lease = LIST_NEXT(lease, in_reference))
			put_lease(holders, lease);
}

static void put_holders(struct packet *packet, const struct event *event)
{
	struct holders holders = { .packet = packet, .mark = row_begin_rows(packet, "holders") };
	size_t total = 0, lingering = 0, tenants = 0;
	const struct grant *grant;

	for (grant = event ? LIST_FIRST(&event->grants) : NULL; grant; grant = LIST_NEXT(grant, in_event)) {
		tenants++;
		lingering += grant->leases == 0;
		total += grant->leases;
		put_grant(&holders, grant);
	}
	row_end_rows(packet, holders.mark);
	row_put_u64(packet, "holders_total", total);
	row_put_u64(packet, "tenants", tenants);
	row_put_u64(packet, "lingering", lingering);
}

static void put_name(struct packet *packet, const char *description, size_t name_length)
{
	char name[DESCRIPTION_NAME_MAX + 1];

	string_copy(name, MIN(sizeof(name), name_length + 1), description);
	row_put_string(packet, "event", name);
	row_put_string(packet, "description", description);
}

static int next_traced(struct listing *listing, struct packet *packet)
{
	struct events_listing *events = container_of(listing, struct events_listing, listing);
	struct daemon *daemon = daemon_of(listing->client);
	struct tracer_event event;

	if (!tracer_next(daemon->registry.kernel->tracer, events->after, &event))
		return LISTING_END;
	events->after = event.id;
	put_name(packet, event.description, event.name_length);
	row_put_bool(packet, "on", event.on);
	row_put_u64(packet, "records", event.records);
	row_put_u64(packet, "bad", event.bad);
	put_holders(packet, event_by_name(&daemon->registry, event.description, event.name_length));
	return LISTING_ROW;
}

/* Whether it is on, and what for, is the kernel's to say, to whoever may ask it. */
static int next_held(struct listing *listing, struct packet *packet)
{
	struct events_listing *events = container_of(listing, struct events_listing, listing);
	const struct event *event = event_after(listing->client->holder.registry, events->after);

	if (!event)
		return LISTING_END;
	events->after = event->number;
	put_name(packet, event->description, event->name_length);
	row_put_bool(packet, "multi_format", event->flags & REGISTER_MULTI_FORMAT);
	put_holders(packet, event);
	return LISTING_ROW;
}

int handle_events(struct client *client, const struct message *message)
{
	static const struct listing_kind traced = { .next = next_traced }, held = { .next = next_held };

	if (decode_empty(message->body) != 0)
		return REFUSAL_BAD_PACKET;
	if (control_may_list(client, message->serial, false))
		start(client, message->serial, sizeof(struct events_listing),
		      client->holder.registry->kernel->tracer ? &traced : &held);
	return 0;
}

/* TENANTS: in the order in which they came, so that one who comes or goes meanwhile disturbs nobody. */

struct tenants_listing {
	struct listing listing;
	uint32_t after;
};

static void put_refusals(struct packet *packet, const struct tenant *tenant)
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

/* What it may fill, and what others may, too, whom the same sections name. */
static void put_reserves(struct packet *packet, const struct rules *rules)
{
	uint64_t reserved = 0, filled = 0, files = 0;

	for (size_t i = 0; i < rules->n_reserves; i++) {
		reserved += rules->reserve[i]->maximum;
		filled += rules->reserve[i]->filled;
		files += rules->reserve[i]->files->maximum;
	}
	row_put_u64(packet, "reserved", reserved);
	row_put_u64(packet, "reserved_filled", filled);
	row_put_u64(packet, "files_reserved", files);
}

/* No number says that there is no limit. */
static void put_limit(struct packet *packet, const char *key, uint32_t limit)
{
	if (limit != LEVEL_NO_LIMIT)
		row_put_u64(packet, key, limit);
}

static int next_tenant(struct listing *listing, struct packet *packet)
{
	struct tenants_listing *tenants = container_of(listing, struct tenants_listing, listing);
	struct daemon *daemon = daemon_of(listing->client);
	struct tenant *tenant = tenant_after(&daemon->registry, tenants->after);
	struct kernel_page_stats stats = { 0 };

	if (!tenant)
		return LISTING_END;
	tenants->after = tenant->number;
	kernel_page_stats(daemon->registry.kernel, tenant->number, &stats);
	row_put_string(packet, "tenant", tenant->path);
	row_put_u64(packet, "cgroup_id", tenant->cgroup_id);
	rules_update(tenant);
	row_put_u64(packet, "connections", tenant->connections);
	put_limit(packet, "connections_max", tenant->rules.max_connections);
	row_put_u64(packet, "in_flight", tenant->in_flight);
	row_put_u64(packet, "events", HASH_CNT(by_event, tenant->grants));
	put_limit(packet, "events_max", tenant->level->own.maximum);
	row_put_u64(packet, "files", tenant->streams);
	put_limit(packet, "files_max", tenant->level->own_files.maximum);
	row_put_u64(packet, "leases", tenant->level->own_leases.held);
	put_limit(packet, "leases_max", tenant->level->own_leases.maximum);
	put_reserves(packet, &tenant->rules);
	row_put_u64(packet, "lingering", tenant->lingering);
	if (daemon->registry.kernel->tracer) {
		row_put_u64(packet, "records", stats.records);
		row_put_u64(packet, "bad", stats.bad);
	}
	row_put_u64(packet, "lost", tenant->lost);
	row_put_u64(packet, "too_big", tenant->too_big);
	row_put_u64(packet, "throttled", tenant->throttled);
	row_put_u64(packet, "waiting_bytes", tenant->waiting);
	put_refusals(packet, tenant);
	return LISTING_ROW;
}

int handle_tenants(struct client *client, const struct message *message)
{
	static const struct listing_kind kind = { .next = next_tenant };

	if (decode_empty(message->body) != 0)
		return REFUSAL_BAD_PACKET;
	if (control_may_list(client, message->serial, false))
		start(client, message->serial, sizeof(struct tenants_listing), &kind);
	return 0;
}
