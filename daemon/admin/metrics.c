/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * OpenMetrics 1.0, in a form that readers of the older text format of Prometheus take, too: no type but gauge and counter, which
 * both have, and no time. (The older one knows a counter by the name of its samples, with "_total", and the newer one by the
 * name without; it is written as the newer one wants it, and to older readers it is a number of no type.)
 *
 * All samples of a family stand together, so the tenants are gone through once for each. They come and go meanwhile. One that
 * goes and comes back would be there twice in a family, for which readers throw the whole text away: so nobody is in it who
 * has come since it was begun.
 *
 * A tenant is told by path and cgroup: of one path there may be several, while some of an older cgroup's events linger.
 */

#include "daemon/admin/metrics.h"

#include <inttypes.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/daemon.h"
#include "daemon/process/clock.h"
#include "daemon/registry/event.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "protocol/row.h"

_Static_assert(METRICS_PIECE_MAX > 5 * PATH_MAX + 1024, "the longest path, each byte of it escaped");

#define NOTHING UINT64_MAX /* there is no such number, so there is no sample */

struct family {
	const char *name;
	enum { GAUGE, COUNTER } type;
	const char *help;
	/* Writes the next sample; false: there is none any more. */
	bool (*next)(struct metrics_walk *, const struct family *, struct daemon *, struct text *);
	uint64_t (*of_daemon)(const struct daemon *);
	uint64_t (*of_tenant)(const struct tenant *);
};

static void put_name(struct text *text, const struct family *family)
{
	text_printf(text, "userevd_%s%s", family->name, family->type == COUNTER ? "_total" : "");
}

static void put_label(struct text *text, const char *before, const char *value)
{
	text_printf(text, "%s=\"", before);
	text_label(text, value, strlen(value));
	text_put(text, "\"", 1);
}

static void put_value(struct text *text, uint64_t value)
{
	text_printf(text, " %" PRIu64 "\n", value);
}

static void put_tenant(struct text *text, const struct family *family, const struct tenant *tenant)
{
	put_name(text, family);
	put_label(text, "{tenant", tenant->path);
	text_printf(text, ",cgroup_id=\"%" PRIu64 "\"", tenant->cgroup_id);
}

/* The only sample of its family. */
static bool take_turn(struct metrics_walk *walk)
{
	return walk->position++ == 0;
}

static bool next_build(struct metrics_walk *walk, const struct family *family, struct daemon *daemon, struct text *text)
{
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;

	if (!take_turn(walk))
		return false;
	put_name(text, family);
	put_label(text, "{version", VERSION);
	put_label(text, ",backend", facts->name);
	put_label(text, ",guard",
		  daemon->registry.guarded		     ? "on"
		  : facts->backend == BACKEND_ENABLE_ADDRESS ? "off"
							     : "none");
	text_put(text, "}", 1);
	put_value(text, 1);
	return true;
}

static bool next_total(struct metrics_walk *walk, const struct family *family, struct daemon *daemon, struct text *text)
{
	uint64_t value = family->of_daemon(daemon);

	if (!take_turn(walk) || value == NOTHING)
		return false;
	put_name(text, family);
	put_value(text, value);
	return true;
}

static struct tenant *next_tenant(struct metrics_walk *walk, struct daemon *daemon)
{
	struct tenant *tenant = tenant_after(&daemon->registry, walk->position);

	if (!tenant || tenant->number > walk->youngest)
		return NULL;
	walk->position = tenant->number;
	walk->reason = 0;
	return tenant;
}

static bool next_of_tenants(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
			    struct text *text)
{
	uint64_t value = NOTHING;
	struct tenant *tenant;

	while (value == NOTHING && (tenant = next_tenant(walk, daemon))) {
		rules_update(tenant);
		value = family->of_tenant(tenant);
		if (value == NOTHING)
			continue;
		put_tenant(text, family, tenant);
		text_put(text, "}", 1);
		put_value(text, value);
	}
	return value != NOTHING;
}

/* The next reason, from `reason` on, for which it was refused something; REFUSAL_MAX_: there is none. */
static uint32_t find_reason(const struct tenant *tenant, uint32_t reason)
{
	while (reason < REFUSAL_MAX_ && tenant->refusals[reason] == 0)
		reason++;
	return reason;
}

static bool next_refusals(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
			  struct text *text)
{
	struct tenant *tenant = tenant_by_number(&daemon->registry, walk->position);

	if (!tenant)
		tenant = next_tenant(walk, daemon);
	while (tenant && (walk->reason = find_reason(tenant, walk->reason)) == REFUSAL_MAX_)
		tenant = next_tenant(walk, daemon);
	if (!tenant)
		return false;
	put_tenant(text, family, tenant);
	put_label(text, ",reason", refusal_name(walk->reason));
	text_put(text, "}", 1);
	put_value(text, tenant->refusals[walk->reason++]);
	return true;
}

static uint64_t uptime(const struct daemon *daemon)
{
	return (uint64_t)(clock_now() - daemon->started);
}

static uint64_t capacity(const struct daemon *daemon)
{
	return daemon->registry.machine.capacity;
}

static uint64_t charged(const struct daemon *daemon)
{
	return (uint64_t)daemon->registry.machine.common + daemon->registry.machine.filled;
}

static uint64_t reserved(const struct daemon *daemon)
{
	return daemon->registry.machine.claimed;
}

static uint64_t events(const struct daemon *daemon)
{
	return HASH_CNT(by_key, daemon->registry.events);
}

static uint64_t lingering(const struct daemon *daemon)
{
	uint64_t sum = 0;

	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_identity.next)
		sum += tenant->lingering;
	return sum;
}

static uint64_t tenants(const struct daemon *daemon)
{
	return HASH_CNT(by_identity, daemon->registry.tenants);
}

static uint64_t connections(const struct daemon *daemon)
{
	return daemon->registry.n_holders;
}

static uint64_t in_flight(const struct daemon *daemon)
{
	return daemon->connections.in_flight;
}

static uint64_t streams(const struct daemon *daemon)
{
	return HASH_CNT(by_number, daemon->registry.streams);
}

/* Where the kernel is the tracer nobody counts them. */
static uint64_t records(const struct daemon *daemon)
{
	return daemon->registry.kernel->tracer ? daemon->registry.kernel->totals.records : NOTHING;
}

static uint64_t bad(const struct daemon *daemon)
{
	return daemon->registry.kernel->tracer ? daemon->registry.kernel->totals.bad : NOTHING;
}

static uint64_t lost(const struct daemon *daemon)
{
	return daemon->registry.lost;
}

static uint64_t oversized(const struct daemon *daemon)
{
	return daemon->registry.too_big;
}

static uint64_t file_capacity(const struct daemon *daemon)
{
	return daemon->registry.files.capacity;
}

static uint64_t files_reserved(const struct daemon *daemon)
{
	return daemon->registry.files.claimed;
}

static uint64_t tenants_events(const struct tenant *tenant)
{
	return HASH_CNT(by_event, tenant->grants);
}

static uint64_t or_nothing(uint32_t limit)
{
	return limit == LEVEL_NO_LIMIT ? NOTHING : limit;
}

static uint64_t tenants_maximum(const struct tenant *tenant)
{
	return or_nothing(tenant->level->own.maximum);
}

static uint64_t tenants_reserves(const struct tenant *tenant)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tenant->rules.n_reserves; i++)
		sum += tenant->rules.reserve[i]->maximum;
	return sum;
}

static uint64_t tenants_lingering(const struct tenant *tenant)
{
	return tenant->lingering;
}

static uint64_t tenants_connections(const struct tenant *tenant)
{
	return tenant->connections;
}

static uint64_t tenants_most_connections(const struct tenant *tenant)
{
	return or_nothing(tenant->rules.max_connections);
}

static uint64_t tenants_files(const struct tenant *tenant)
{
	return tenant->streams;
}

static uint64_t tenants_most_files(const struct tenant *tenant)
{
	return or_nothing(tenant->level->own_files.maximum);
}

static uint64_t tenants_leases(const struct tenant *tenant)
{
	return tenant->level->own_leases.held;
}

static uint64_t tenants_most_leases(const struct tenant *tenant)
{
	return or_nothing(tenant->level->own_leases.maximum);
}

static uint64_t tenants_waiting(const struct tenant *tenant)
{
	return tenant->waiting;
}

static uint64_t tenants_in_flight(const struct tenant *tenant)
{
	return tenant->in_flight;
}

static uint64_t tenants_lost(const struct tenant *tenant)
{
	return tenant->lost;
}

static uint64_t tenants_oversized(const struct tenant *tenant)
{
	return tenant->too_big;
}

static uint64_t tenants_throttled(const struct tenant *tenant)
{
	return tenant->throttled;
}

/* userevctl(1) has them, too. */
static const struct family families[] = {
	{ "build_info", GAUGE, "The daemon: its version, its backend, and whether a guard holds.", .next = next_build },
	{ "uptime_seconds", GAUGE, "Since the daemon was started.", next_total, .of_daemon = uptime },
	{ "capacity_events", GAUGE, "Events that the machine has room for.", next_total, .of_daemon = capacity },
	{ "charged_events", GAUGE, "Events that this room is used up by.", next_total, .of_daemon = charged },
	{ "reserved_events", GAUGE, "Room that is set aside, filled or not.", next_total, .of_daemon = reserved },
	{ "events", GAUGE, "Different events that somebody holds.", next_total, .of_daemon = events },
	{ "lingering_events", GAUGE, "Events that were released, and are still open somewhere.", next_total,
	  .of_daemon = lingering },
	{ "tenants", GAUGE, "Tenants that hold something.", next_total, .of_daemon = tenants },
	{ "connections", GAUGE, "Connections of clients.", next_total, .of_daemon = connections },
	{ "fds_in_flight", GAUGE, "Fds that clients were sent and have not taken yet.", next_total,
	  .of_daemon = in_flight },
	{ "streams", GAUGE, "Data files that are open.", next_total, .of_daemon = streams },
	{ "capacity_files", GAUGE, "Data files that there is room for.", next_total, .of_daemon = file_capacity },
	{ "reserved_files", GAUGE, "Room for data files that is set aside, filled or not.", next_total,
	  .of_daemon = files_reserved },
	{ "records", COUNTER, "Records that the daemon took, where it is the tracer.", next_total,
	  .of_daemon = records },
	{ "bad_records", COUNTER, "Records that it took and that fit no event.", next_total, .of_daemon = bad },
	{ "lost_records", COUNTER, "Records that clients lost because the queue was full.", next_total,
	  .of_daemon = lost },
	{ "oversized_records", COUNTER, "Records that clients did not write because they were too big.", next_total,
	  .of_daemon = oversized },
	{ "refusals", COUNTER, "What the tenant was refused.", .next = next_refusals },
	{ "tenant_events", GAUGE, "Events that the tenant holds.", next_of_tenants, .of_tenant = tenants_events },
	{ "tenant_events_max", GAUGE, "Events that it may hold.", next_of_tenants, .of_tenant = tenants_maximum },
	{ "tenant_reserved_events", GAUGE, "Room that is set aside for it, and for others of its sections.",
	  next_of_tenants, .of_tenant = tenants_reserves },
	{ "tenant_lingering_events", GAUGE, "Events that it released, and that are still open somewhere.",
	  next_of_tenants, .of_tenant = tenants_lingering },
	{ "tenant_connections", GAUGE, "Its connections.", next_of_tenants, .of_tenant = tenants_connections },
	{ "tenant_connections_max", GAUGE, "Connections that it may have.", next_of_tenants,
	  .of_tenant = tenants_most_connections },
	{ "tenant_fds_in_flight", GAUGE, "Fds that its clients were sent and have not taken yet.", next_of_tenants,
	  .of_tenant = tenants_in_flight },
	{ "tenant_files", GAUGE, "Its data files, those included that linger.", next_of_tenants,
	  .of_tenant = tenants_files },
	{ "tenant_files_max", GAUGE, "Data files that it may have.", next_of_tenants, .of_tenant = tenants_most_files },
	{ "tenant_leases", GAUGE, "Its leases, and events on its files that nobody leases.", next_of_tenants,
	  .of_tenant = tenants_leases },
	{ "tenant_leases_max", GAUGE, "Leases that it may have.", next_of_tenants, .of_tenant = tenants_most_leases },
	{ "tenant_waiting_bytes", GAUGE, "Memory of its requests and answers that are under way.", next_of_tenants,
	  .of_tenant = tenants_waiting },
	{ "tenant_lost_records", COUNTER, "Records that it lost because the queue was full.", next_of_tenants,
	  .of_tenant = tenants_lost },
	{ "tenant_oversized_records", COUNTER, "Records that it did not write because they were too big.",
	  next_of_tenants, .of_tenant = tenants_oversized },
	{ "tenant_throttled", COUNTER, "Times that it asked too much, and had to wait.", next_of_tenants,
	  .of_tenant = tenants_throttled },
};

static void describe(struct text *text, const struct family *family)
{
	text_printf(text, "# HELP userevd_%s %s\n# TYPE userevd_%s %s\n", family->name, family->help, family->name,
		    family->type == COUNTER ? "counter" : "gauge");
}

void metrics_begin(struct metrics_walk *walk, const struct daemon *daemon)
{
	*walk = (struct metrics_walk){ .youngest = daemon->registry.last_tenant };
}

static void next_family(struct metrics_walk *walk)
{
	walk->family++;
	walk->described = false;
	walk->position = 0;
	walk->reason = 0;
}

bool metrics_next(struct metrics_walk *walk, struct daemon *daemon, struct text *text)
{
	for (; walk->family < ARRAY_SIZE(families); next_family(walk)) {
		const struct family *family = &families[walk->family];

		if (!walk->described) {
			describe(text, family);
			walk->described = true;
			return true;
		}
		if (family->next(walk, family, daemon, text))
			return true;
	}
	if (walk->ended)
		return false;
	text_printf(text, "# EOF\n");
	walk->ended = true;
	return true;
}

struct metrics_listing {
	struct listing listing;
	struct metrics_walk walk;
};

static int next_row(struct listing *listing, struct packet *packet)
{
	struct metrics_listing *metrics = container_of(listing, struct metrics_listing, listing);
	char buffer[METRICS_PIECE_MAX + 1];
	struct text text = text_make(buffer, sizeof(buffer));

	if (!metrics_next(&metrics->walk, daemon_of(listing->client), &text))
		return LISTING_END;
	row_put_string(packet, "text", buffer);
	return LISTING_ROW;
}

int handle_metrics(struct client *client, const struct message *message)
{
	static const struct listing_kind kind = { .next = next_row };
	struct metrics_listing *metrics;

	if (decode_empty(message->body) != 0)
		return REFUSAL_BAD_PACKET;
	if (!control_may_list(client, message->serial, false))
		return 0;
	metrics = calloc(1, sizeof(*metrics));
	if (!metrics) {
		control_refuse(client, message->serial, REFUSAL_TROUBLE,
			       "the daemon is out of memory; try again later");
		return 0;
	}
	metrics_begin(&metrics->walk, daemon_of(client));
	listing_start(client, &metrics->listing, &kind, message->serial);
	return 0;
}
