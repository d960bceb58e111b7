/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/admin/numbers.h"

#include "daemon/daemon.h"
#include "daemon/process/clock.h"
#include "daemon/registry/event.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

static uint64_t limit_or_absent(uint32_t limit)
{
	return limit == LEVEL_NO_LIMIT ? NUMBER_ABSENT : limit;
}

static uint64_t total_lingering(const struct daemon *daemon)
{
	uint64_t sum = 0;

	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_identity.next)
		sum += tenant->lingering;
	return sum;
}

/* Of all reserves that the tenant may fill. */
static struct reserve sum_reserves(const struct tenant *tenant, bool of_files)
{
	struct reserve sum = { 0 };

	for (size_t i = 0; i < tenant->rules.n_reserves; i++) {
		const struct reserve *reserve = tenant->rules.reserve[i];

		reserve = of_files ? reserve->files : reserve;
		sum.maximum += reserve->maximum;
		sum.filled += reserve->filled;
	}
	return sum;
}

#define TOTAL(name, value)                                                                                             \
	static uint64_t total_##name(const struct daemon *daemon)                                                      \
	{                                                                                                              \
		return value;                                                                                          \
	}
#define OF_TENANT(name, value)                                                                                         \
	static uint64_t tenant_##name(const struct tenant *tenant)                                                     \
	{                                                                                                              \
		return value;                                                                                          \
	}

TOTAL(build, daemon->registry.kernel ? 1 : NUMBER_ABSENT)
TOTAL(uptime, (uint64_t)(clock_now() - daemon->started))
TOTAL(capacity, daemon->registry.machine.capacity)
TOTAL(charges, (uint64_t)daemon->registry.machine.common + daemon->registry.machine.filled)
TOTAL(reserved, daemon->registry.machine.claimed)
TOTAL(foreign, daemon->registry.foreign)
TOTAL(events, HASH_CNT(by_key, daemon->registry.events))
TOTAL(leases, daemon->registry.leases)
TOTAL(tenants, HASH_CNT(by_identity, daemon->registry.tenants))
TOTAL(connections, daemon->registry.n_holders)
TOTAL(in_flight, daemon->connections.in_flight)
TOTAL(streams, HASH_CNT(by_number, daemon->registry.streams))
TOTAL(file_capacity, daemon->registry.files.capacity)
TOTAL(files_reserved, daemon->registry.files.claimed)
TOTAL(records, daemon->registry.kernel->tracer ? daemon->registry.kernel->totals.records : NUMBER_ABSENT)
TOTAL(bad, daemon->registry.kernel->tracer ? daemon->registry.kernel->totals.bad : NUMBER_ABSENT)
TOTAL(lost, daemon->registry.lost)
TOTAL(too_big, daemon->registry.too_big)

OF_TENANT(events, tenant->n_grants)
OF_TENANT(max_events, limit_or_absent(tenant->level->own[RESOURCE_EVENTS].maximum))
OF_TENANT(reserved, sum_reserves(tenant, false).maximum)
OF_TENANT(reserved_filled, sum_reserves(tenant, false).filled)
OF_TENANT(reserved_files, sum_reserves(tenant, true).maximum)
OF_TENANT(lingering, tenant->lingering)
OF_TENANT(connections, tenant->connections)
OF_TENANT(max_connections, limit_or_absent(tenant->rules.max_connections))
OF_TENANT(in_flight, tenant->in_flight)
OF_TENANT(files, tenant->streams)
OF_TENANT(max_files, limit_or_absent(tenant->level->own[RESOURCE_FILES].maximum))
OF_TENANT(leases, tenant->level->own[RESOURCE_LEASES].held)
OF_TENANT(max_leases, limit_or_absent(tenant->level->own[RESOURCE_LEASES].maximum))
OF_TENANT(waiting, tenant->waiting)
OF_TENANT(lost, tenant->lost)
OF_TENANT(too_big, tenant->too_big)
OF_TENANT(throttled, tenant->throttled)

/* userevctl(1) has the metrics, too. */
const struct number numbers[] = {
	{ NULL, "build_info", NUMBER_GAUGE, "The daemon's version and backend, and whether data files are guarded.",
	  .of_daemon = total_build, .has_labels = true },
	{ "uptime", "uptime_seconds", NUMBER_GAUGE, "Time since the daemon was started.", .of_daemon = total_uptime },
	{ "capacity", "capacity_events", NUMBER_GAUGE, "Events that the machine has room for.",
	  .of_daemon = total_capacity },
	{ "charges", "charged_events", NUMBER_GAUGE, "Events charged against the machine-wide limit.",
	  .of_daemon = total_charges },
	{ "reserved", "reserved_events", NUMBER_GAUGE, "Room for events that is reserved, filled or not.",
	  .of_daemon = total_reserved },
	{ "foreign", NULL, NUMBER_GAUGE, NULL, .of_daemon = total_foreign },
	{ "events", "events", NUMBER_GAUGE, "Different registered events.", .of_daemon = total_events },
	{ "leases", NULL, NUMBER_GAUGE, NULL, .of_daemon = total_leases },
	{ "lingering", "lingering_events", NUMBER_GAUGE, "Released events whose data file is still open somewhere.",
	  .of_daemon = total_lingering },
	{ "tenants", "tenants", NUMBER_GAUGE, "Tenants that have a connection or an event.",
	  .of_daemon = total_tenants },
	{ "connections", "connections", NUMBER_GAUGE, "Connections of clients.", .of_daemon = total_connections },
	{ "in_flight", "fds_in_flight", NUMBER_GAUGE, "File descriptors sent to clients and not received yet.",
	  .of_daemon = total_in_flight },
	{ "streams", "streams", NUMBER_GAUGE, "Open data files.", .of_daemon = total_streams },
	{ "files_capacity", "capacity_files", NUMBER_GAUGE, "Data files that there is room for.",
	  .of_daemon = total_file_capacity },
	{ "files_reserved", "reserved_files", NUMBER_GAUGE, "Room for data files that is reserved, filled or not.",
	  .of_daemon = total_files_reserved },
	{ NULL, "records", NUMBER_COUNTER, "Records received by the embedded backend.", .of_daemon = total_records },
	{ NULL, "bad_records", NUMBER_COUNTER, "Records received by the embedded backend that match no event.",
	  .of_daemon = total_bad },
	{ "lost", "lost_records", NUMBER_COUNTER, "Records that clients lost because the queue was full.",
	  .of_daemon = total_lost },
	{ "too_big", "oversized_records", NUMBER_COUNTER,
	  "Records that clients did not write because they were too big.", .of_daemon = total_too_big },
	{ NULL, "refusals", NUMBER_COUNTER, "Refused requests of the tenant, by reason.", .has_labels = true },
	{ "events", "tenant_events", NUMBER_GAUGE, "Events of the tenant.", .of_tenant = tenant_events },
	{ "events_max", "tenant_events_max", NUMBER_GAUGE, "Maximum of events of the tenant.",
	  .of_tenant = tenant_max_events },
	{ "reserved", "tenant_reserved_events", NUMBER_GAUGE,
	  "Events reserved for the tenant and others of its sections.", .of_tenant = tenant_reserved },
	{ "reserved_filled", NULL, NUMBER_GAUGE, NULL, .of_tenant = tenant_reserved_filled },
	{ "files_reserved", NULL, NUMBER_GAUGE, NULL, .of_tenant = tenant_reserved_files },
	{ "lingering", "tenant_lingering_events", NUMBER_GAUGE,
	  "Released events of the tenant whose data file is still open somewhere.", .of_tenant = tenant_lingering },
	{ "connections", "tenant_connections", NUMBER_GAUGE, "Connections of the tenant.",
	  .of_tenant = tenant_connections },
	{ "connections_max", "tenant_connections_max", NUMBER_GAUGE, "Maximum of connections of the tenant.",
	  .of_tenant = tenant_max_connections },
	{ "in_flight", "tenant_fds_in_flight", NUMBER_GAUGE,
	  "File descriptors sent to clients of the tenant and not received yet.", .of_tenant = tenant_in_flight },
	{ "files", "tenant_files", NUMBER_GAUGE, "Data files of the tenant, with those that linger.",
	  .of_tenant = tenant_files },
	{ "files_max", "tenant_files_max", NUMBER_GAUGE, "Maximum of data files of the tenant.",
	  .of_tenant = tenant_max_files },
	{ "leases", "tenant_leases", NUMBER_GAUGE,
	  "Leases of the tenant, and events on its data files without a lease.", .of_tenant = tenant_leases },
	{ "leases_max", "tenant_leases_max", NUMBER_GAUGE, "Maximum of leases of the tenant.",
	  .of_tenant = tenant_max_leases },
	{ "waiting_bytes", "tenant_waiting_bytes", NUMBER_GAUGE,
	  "Memory of the tenant's unfinished requests and unread replies.", .of_tenant = tenant_waiting },
	{ "lost", "tenant_lost_records", NUMBER_COUNTER, "Records that the tenant lost because the queue was full.",
	  .of_tenant = tenant_lost },
	{ "too_big", "tenant_oversized_records", NUMBER_COUNTER,
	  "Records that the tenant did not write because they were too big.", .of_tenant = tenant_too_big },
	{ "throttled", "tenant_throttled", NUMBER_COUNTER,
	  "Times that the tenant's request rate limit delayed a client.", .of_tenant = tenant_throttled },
};
const size_t n_numbers = ARRAY_SIZE(numbers);
