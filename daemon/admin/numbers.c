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

static uint64_t total_records(const struct daemon *daemon)
{
	return daemon->registry.kernel->tracer ? daemon->registry.kernel->totals.records : NUMBER_ABSENT;
}

static uint64_t total_bad(const struct daemon *daemon)
{
	return daemon->registry.kernel->tracer ? daemon->registry.kernel->totals.bad : NUMBER_ABSENT;
}

static uint64_t tenant_reserved(const struct tenant *tenant)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tenant->rules.n_reserves; i++)
		sum += tenant->rules.reserve[i]->maximum;
	return sum;
}

static uint64_t tenant_reserved_filled(const struct tenant *tenant)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tenant->rules.n_reserves; i++)
		sum += tenant->rules.reserve[i]->filled;
	return sum;
}

static uint64_t tenant_reserved_files(const struct tenant *tenant)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tenant->rules.n_reserves; i++)
		sum += tenant->rules.reserve[i]->files->maximum;
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
TOTAL(lost, daemon->registry.lost)
TOTAL(too_big, daemon->registry.too_big)

OF_TENANT(events, HASH_CNT(by_event, tenant->grants))
OF_TENANT(max_events, limit_or_absent(tenant->level->own.maximum))
OF_TENANT(lingering, tenant->lingering)
OF_TENANT(connections, tenant->connections)
OF_TENANT(max_connections, limit_or_absent(tenant->rules.max_connections))
OF_TENANT(in_flight, tenant->in_flight)
OF_TENANT(files, tenant->streams)
OF_TENANT(max_files, limit_or_absent(tenant->level->own_files.maximum))
OF_TENANT(leases, tenant->level->own_leases.held)
OF_TENANT(max_leases, limit_or_absent(tenant->level->own_leases.maximum))
OF_TENANT(waiting, tenant->waiting)
OF_TENANT(lost, tenant->lost)
OF_TENANT(too_big, tenant->too_big)
OF_TENANT(throttled, tenant->throttled)

#define GAUGE(key, metric, get, help)                                                                                  \
	{                                                                                                              \
		key, metric, NUMBER_GAUGE, help, .of_daemon = total_##get                                              \
	}
#define COUNTER(key, metric, get, help)                                                                                \
	{                                                                                                              \
		key, metric, NUMBER_COUNTER, help, .of_daemon = total_##get                                            \
	}

/* userevctl(1) has the metrics, too. */
const struct number daemon_numbers[] = {
	GAUGE("uptime", "uptime_seconds", uptime, "Time since the daemon was started."),
	GAUGE("capacity", "capacity_events", capacity, "Events that the machine has room for."),
	GAUGE("charges", "charged_events", charges, "Events charged against the machine-wide limit."),
	GAUGE("reserved", "reserved_events", reserved, "Room for events that is reserved, filled or not."),
	GAUGE("foreign", NULL, foreign, NULL),
	GAUGE("events", "events", events, "Different registered events."),
	GAUGE("leases", NULL, leases, NULL),
	GAUGE("lingering", "lingering_events", lingering, "Released events whose data file is still open somewhere."),
	GAUGE("tenants", "tenants", tenants, "Tenants that have a connection or an event."),
	GAUGE("connections", "connections", connections, "Connections of clients."),
	GAUGE("in_flight", "fds_in_flight", in_flight, "File descriptors sent to clients and not received yet."),
	GAUGE("streams", "streams", streams, "Open data files."),
	GAUGE("files_capacity", "capacity_files", file_capacity, "Data files that there is room for."),
	GAUGE("files_reserved", "reserved_files", files_reserved,
	      "Room for data files that is reserved, filled or not."),
	COUNTER(NULL, "records", records, "Records received by the embedded backend."),
	COUNTER(NULL, "bad_records", bad, "Records received by the embedded backend that match no event."),
	COUNTER("lost", "lost_records", lost, "Records that clients lost because the queue was full."),
	COUNTER("too_big", "oversized_records", too_big,
		"Records that clients did not write because they were too big."),
};
const size_t n_daemon_numbers = ARRAY_SIZE(daemon_numbers);

#undef GAUGE
#undef COUNTER
#define GAUGE(key, metric, get, help)                                                                                  \
	{                                                                                                              \
		key, metric, NUMBER_GAUGE, help, .of_tenant = tenant_##get                                             \
	}
#define COUNTER(key, metric, get, help)                                                                                \
	{                                                                                                              \
		key, metric, NUMBER_COUNTER, help, .of_tenant = tenant_##get                                           \
	}

const struct number tenant_numbers[] = {
	GAUGE("events", "tenant_events", events, "Events of the tenant."),
	GAUGE("events_max", "tenant_events_max", max_events, "Maximum of events of the tenant."),
	GAUGE("reserved", "tenant_reserved_events", reserved,
	      "Events reserved for the tenant and others of its sections."),
	GAUGE("reserved_filled", NULL, reserved_filled, NULL),
	GAUGE("files_reserved", NULL, reserved_files, NULL),
	GAUGE("lingering", "tenant_lingering_events", lingering,
	      "Released events of the tenant whose data file is still open somewhere."),
	GAUGE("connections", "tenant_connections", connections, "Connections of the tenant."),
	GAUGE("connections_max", "tenant_connections_max", max_connections, "Maximum of connections of the tenant."),
	GAUGE("in_flight", "tenant_fds_in_flight", in_flight,
	      "File descriptors sent to clients of the tenant and not received yet."),
	GAUGE("files", "tenant_files", files, "Data files of the tenant, with those that linger."),
	GAUGE("files_max", "tenant_files_max", max_files, "Maximum of data files of the tenant."),
	GAUGE("leases", "tenant_leases", leases, "Leases of the tenant, and events on its data files without a lease."),
	GAUGE("leases_max", "tenant_leases_max", max_leases, "Maximum of leases of the tenant."),
	GAUGE("waiting_bytes", "tenant_waiting_bytes", waiting,
	      "Memory of the tenant's unfinished requests and unread replies."),
	COUNTER("lost", "tenant_lost_records", lost, "Records that the tenant lost because the queue was full."),
	COUNTER("too_big", "tenant_oversized_records", too_big,
		"Records that the tenant did not write because they were too big."),
	COUNTER("throttled", "tenant_throttled", throttled,
		"Times that the tenant's request rate limit delayed a client."),
};
const size_t n_tenant_numbers = ARRAY_SIZE(tenant_numbers);
