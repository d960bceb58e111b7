/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/admin/numbers.h"

#include "daemon/daemon.h"
#include "daemon/native/native.h"
#include "daemon/process/clock.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/event.h"
#include "daemon/registry/own_trace.h"
#include "daemon/registry/silence.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"

static uint64_t limit_or_absent(uint32_t limit)
{
	return limit == LEVEL_NO_LIMIT ? NUMBER_ABSENT : limit;
}

/* userevctl(1) has the metrics, too. */
void numbers_of_daemon(const struct daemon *daemon, struct number ret[NUMBERS_OF_DAEMON])
{
	const struct registry *registry = &daemon->registry;
	bool is_tracer = registry->kernel->tracer;
	uint64_t lingering = 0, own_traces = 0;
	const struct own_trace *trace;

	LIST_FOREACH(trace, &registry->own_traces, in_all)
		own_traces += !trace->begun;
	for (const struct tenant *tenant = registry->tenants; tenant; tenant = tenant->by_number.next)
		lingering += tenant->lingering;
	const struct number numbers[NUMBERS_OF_DAEMON] = {
		{ "uptime", "uptime_seconds", NUMBER_GAUGE, "Time since the daemon was started.",
		  (uint64_t)(clock_now() - daemon->started) },
		{ "capacity", "capacity_events", NUMBER_GAUGE, "Events that the machine has room for.",
		  registry->machine.capacity },
		{ "charges", "charged_events", NUMBER_GAUGE, "Events charged against the machine-wide limit.",
		  (uint64_t)registry->machine.common + registry->machine.filled },
		{ "reserved", "reserved_events", NUMBER_GAUGE, "Room for events that is reserved, filled or not.",
		  registry->machine.claimed },
		{ "foreign", NULL, NUMBER_GAUGE, NULL, registry->foreign },
		{ "events", "events", NUMBER_GAUGE, "Different registered events.",
		  HASH_CNT(by_key, registry->events) },
		{ "leases", NULL, NUMBER_GAUGE, NULL, registry->leases },
		{ "lingering", "lingering_events", NUMBER_GAUGE,
		  "Released events whose data file is still open somewhere.", lingering },
		{ "tenants", "tenants", NUMBER_GAUGE, "Tenants that have a connection or an event.",
		  HASH_CNT(by_number, registry->tenants) },
		{ "connections", "connections", NUMBER_GAUGE, "Connections of clients.", registry->n_holders },
		{ "in_flight", "fds_in_flight", NUMBER_GAUGE, "File descriptors sent to clients and not received yet.",
		  daemon->connections.in_flight },
		{ "streams", "streams", NUMBER_GAUGE, "Open data files.", HASH_CNT(by_number, registry->streams) },
		{ "files_capacity", "capacity_files", NUMBER_GAUGE, "Data files that there is room for.",
		  registry->files.capacity },
		{ "files_reserved", "reserved_files", NUMBER_GAUGE,
		  "Room for data files that is reserved, filled or not.", registry->files.claimed },
		{ "own_traces", "own_traces", NUMBER_GAUGE, "Traces that tenants make of themselves.", own_traces },
		{ "native_events", "native_events", NUMBER_GAUGE,
		  "Events that programs have registered by themselves, for each tenant that has them.",
		  capacity_count_native(registry) },
		{ "native_violations", "native_violations", NUMBER_COUNTER,
		  "Events that such programs have joined against the policy.", native_violations(registry) },
		{ NULL, "policy_loaded_timestamp_seconds", NUMBER_GAUGE, "When the policy in force was loaded.",
		  (uint64_t)daemon->reload.loaded },
		{ NULL, "policy_sections", NUMBER_GAUGE, "Sections of the policy in force.",
		  registry->policy->sections.n },
		{ NULL, "policy_current", NUMBER_GAUGE,
		  "1 if the policy in force is that of the files, 0 after they were refused.",
		  !daemon->reload.note[0] },
		{ NULL, "policy_reloads", NUMBER_COUNTER, "Times that the policy files were read again.",
		  daemon->reload.n },
		{ NULL, "records", NUMBER_COUNTER, "Records received by the embedded backend.",
		  is_tracer ? registry->kernel->totals.records : NUMBER_ABSENT },
		{ NULL, "bad_records", NUMBER_COUNTER, "Records received by the embedded backend that match no event.",
		  is_tracer ? registry->kernel->totals.bad : NUMBER_ABSENT },
		{ "lost", "lost_records", NUMBER_COUNTER, "Records that clients lost because the queue was full.",
		  registry->lost },
		{ "too_big", "oversized_records", NUMBER_COUNTER,
		  "Records that clients did not write because they were too big.", registry->too_big },
	};
	memcpy(ret, numbers, sizeof(numbers));
}

static void add_tenant(const struct tenant *tenant, struct summary_sums *sums)
{
	const struct level *level = tenant->level;

	sums->tenants++;
	sums->events += tenant->n_grants;
	sums->native_events += quota_shared_used(level->own[RESOURCE_EVENTS].shared);
	sums->lingering += tenant->lingering;
	sums->connections += tenant->connections;
	sums->in_flight += tenant->in_flight;
	sums->files += tenant->streams;
	sums->leases += level->own[RESOURCE_LEASES].held;
	sums->waiting += tenant->waiting;
	sums->own_traces += tenant->traces.n;
	sums->muted += tenant->muted && silence_is_possible(tenant->registry);
	sums->blocked += tenant->blocked;
}

void numbers_sum(struct registry *registry)
{
	for (struct summary *summary = registry->summaries; summary; summary = summary->by_section.next)
		summary->sums = (struct summary_sums){ 0 };
	for (const struct tenant *tenant = registry->tenants; tenant; tenant = tenant->by_number.next)
		if (tenant->summary)
			add_tenant(tenant, &tenant->summary->sums);
}

void numbers_of_section(const struct summary *summary, struct number ret[NUMBERS_OF_SECTION])
{
	const struct summary_sums *sums = &summary->sums;
	const struct number numbers[NUMBERS_OF_SECTION] = {
		{ NULL, "section_tenants", NUMBER_GAUGE, "Tenants of the section.", sums->tenants },
		{ NULL, "section_events", NUMBER_GAUGE, "Events of these tenants.", sums->events },
		{ NULL, "section_native_events", NUMBER_GAUGE,
		  "Events that their programs have registered by themselves.", sums->native_events },
		{ NULL, "section_lingering_events", NUMBER_GAUGE,
		  "Their released events whose data file is still open somewhere.", sums->lingering },
		{ NULL, "section_connections", NUMBER_GAUGE, "Their connections.", sums->connections },
		{ NULL, "section_fds_in_flight", NUMBER_GAUGE, "File descriptors sent to them and not received yet.",
		  sums->in_flight },
		{ NULL, "section_files", NUMBER_GAUGE, "Their data files, with those that linger.", sums->files },
		{ NULL, "section_leases", NUMBER_GAUGE, "Their leases, and events on their data files without a lease.",
		  sums->leases },
		{ NULL, "section_waiting_bytes", NUMBER_GAUGE,
		  "Memory of their unfinished requests and unread replies.", sums->waiting },
		{ NULL, "section_own_traces", NUMBER_GAUGE, "Traces that they make of themselves.", sums->own_traces },
		{ NULL, "section_muted", NUMBER_GAUGE, "Those that an admin has muted.", sums->muted },
		{ NULL, "section_blocked", NUMBER_GAUGE, "Those that an admin has blocked.", sums->blocked },
		{ NULL, "section_lost_records", NUMBER_COUNTER, "Records lost because the queue was full.",
		  summary->lost },
		{ NULL, "section_oversized_records", NUMBER_COUNTER, "Records that were too big to be written.",
		  summary->too_big },
		{ NULL, "section_throttled", NUMBER_COUNTER, "Times that a request rate limit delayed a client.",
		  summary->throttled },
	};
	memcpy(ret, numbers, sizeof(numbers));
}

void numbers_of_tenant(const struct tenant *tenant, struct number ret[NUMBERS_OF_TENANT])
{
	struct reserve reserves = { 0 }, files = { 0 }; /* of all that the tenant may fill */

	for (size_t i = 0; i < tenant->rules.n_reserves; i++) {
		reserves.maximum += tenant->rules.reserve[i]->maximum;
		reserves.filled += tenant->rules.reserve[i]->filled;
		files.maximum += tenant->rules.reserve[i]->files->maximum;
	}
	const struct number numbers[NUMBERS_OF_TENANT] = {
		{ "events", "tenant_events", NUMBER_GAUGE, "Events of the tenant.", tenant->n_grants },
		{ "events_max", "tenant_events_max", NUMBER_GAUGE, "Maximum of events of the tenant.",
		  limit_or_absent(tenant->level->own[RESOURCE_EVENTS].maximum) },
		{ "reserved", "tenant_reserved_events", NUMBER_GAUGE,
		  "Events reserved for the tenant and others of its sections.", reserves.maximum },
		{ "reserved_filled", NULL, NUMBER_GAUGE, NULL, reserves.filled },
		{ "files_reserved", NULL, NUMBER_GAUGE, NULL, files.maximum },
		{ "lingering", "tenant_lingering_events", NUMBER_GAUGE,
		  "Released events of the tenant whose data file is still open somewhere.", tenant->lingering },
		{ "connections", "tenant_connections", NUMBER_GAUGE, "Connections of the tenant.",
		  tenant->connections },
		{ "connections_max", "tenant_connections_max", NUMBER_GAUGE, "Maximum of connections of the tenant.",
		  limit_or_absent(tenant->level->own[RESOURCE_CONNECTIONS].maximum) },
		{ "in_flight", "tenant_fds_in_flight", NUMBER_GAUGE,
		  "File descriptors sent to clients of the tenant and not received yet.", tenant->in_flight },
		{ "files", "tenant_files", NUMBER_GAUGE, "Data files of the tenant, with those that linger.",
		  tenant->streams },
		{ "files_max", "tenant_files_max", NUMBER_GAUGE, "Maximum of data files of the tenant.",
		  limit_or_absent(tenant->level->own[RESOURCE_FILES].maximum) },
		{ "leases", "tenant_leases", NUMBER_GAUGE,
		  "Leases of the tenant, and events on its data files without a lease.",
		  tenant->level->own[RESOURCE_LEASES].held },
		{ "leases_max", "tenant_leases_max", NUMBER_GAUGE, "Maximum of leases of the tenant.",
		  limit_or_absent(tenant->level->own[RESOURCE_LEASES].maximum) },
		{ "waiting_bytes", "tenant_waiting_bytes", NUMBER_GAUGE,
		  "Memory of the tenant's unfinished requests and unread replies.", tenant->waiting },
		{ "lost", "tenant_lost_records", NUMBER_COUNTER,
		  "Records that the tenant lost because the queue was full.", tenant->lost },
		{ "too_big", "tenant_oversized_records", NUMBER_COUNTER,
		  "Records that the tenant did not write because they were too big.", tenant->too_big },
		{ "throttled", "tenant_throttled", NUMBER_COUNTER,
		  "Times that the tenant's request rate limit delayed a client.", tenant->throttled },
		{ "own_traces", "tenant_own_traces", NUMBER_GAUGE, "Traces that the tenant makes of itself.",
		  tenant->traces.n },
		{ "native_events", "tenant_native_events", NUMBER_GAUGE,
		  "Events that programs of the tenant have registered by themselves.",
		  quota_shared_used(tenant->level->own[RESOURCE_EVENTS].shared) },
		{ NULL, "tenant_muted", NUMBER_GAUGE, "1 if an admin has muted the tenant, otherwise 0.",
		  tenant->muted && silence_is_possible(tenant->registry) },
		{ NULL, "tenant_blocked", NUMBER_GAUGE, "1 if an admin has blocked the tenant, otherwise 0.",
		  tenant->blocked },
	};
	memcpy(ret, numbers, sizeof(numbers));
}
