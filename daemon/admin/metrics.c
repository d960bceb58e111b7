/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * OpenMetrics 1.0, in a form that readers of the older text format of Prometheus accept, too: only gauges, counters and histograms, which
 * both formats have, and no timestamps. (The older format names a counter by its samples, with "_total", OpenMetrics without it. The text
 * has the name without it, and older readers take the samples as untyped.)
 *
 * All samples of a family stand together, so each family walks through all sections, events or tenants. A tenant or event that goes and comes
 * back meanwhile would have two samples in a family, for which readers reject the whole text: so those that are made after the first
 * family are left out.
 *
 * How many series there are does not depend on clients: there is one for each section of the policy, and for the first few hundred names of
 * events in each. Tenants have series only with MetricsTenants=yes. Such a tenant is identified by path and cgroup: several tenants can
 * have the same path while events of an older cgroup linger.
 */

#include "daemon/admin/metrics.h"

#include <inttypes.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/admin/numbers.h"
#include "daemon/daemon.h"
#include "daemon/policy/policy.h"
#include "daemon/registry/event.h"
#include "daemon/registry/pages.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "kernel/embedded/tracer.h"
#include "protocol/row.h"

_Static_assert(METRICS_PIECE_MAX > 5 * PATH_MAX + 1024, "the longest path, each byte of it escaped");

static void metrics_put_label(struct text *text, const char *before, const char *value)
{
	text_printf(text, "%s=\"", before);
	text_label(text, value, strlen(value));
	text_put(text, "\"", 1);
}

static void metrics_describe(struct text *text, const struct number *number)
{
	text_printf(text, "# HELP userevd_%s %s\n# TYPE userevd_%s %s\n", number->metric, number->help, number->metric,
		    number->type == NUMBER_COUNTER ? "counter" : "gauge");
}

static void metrics_put_name(struct text *text, const struct number *number)
{
	text_printf(text, "userevd_%s%s", number->metric, number->type == NUMBER_COUNTER ? "_total" : "");
}

static void metrics_put_daemon(const struct daemon *daemon, struct text *text)
{
	static const struct number build = {
		.metric = "build_info",
		.help = "The daemon's version and backend, and whether data files are guarded.",
	};
	static const struct number policy = {
		.metric = "policy_info",
		.help = "The policy in force: a digest of its files, and their number.",
	};
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;
	struct number numbers[NUMBERS_OF_DAEMON];

	metrics_describe(text, &build);
	metrics_put_name(text, &build);
	metrics_put_label(text, "{version", VERSION);
	metrics_put_label(text, ",backend", backend_name(facts->backend));
	metrics_put_label(text, ",guard",
			  daemon->registry.guarded		     ? "on"
			  : facts->backend == BACKEND_ENABLE_ADDRESS ? "off"
								     : "none");
	text_printf(text, "} 1\n");
	metrics_describe(text, &policy);
	metrics_put_name(text, &policy);
	text_printf(text, "{digest=\"%016" PRIx64 "\",files=\"%zu\"} 1\n", daemon->reload.digest,
		    daemon->registry.policy->n_files);
	numbers_of_daemon(daemon, numbers);
	for (size_t i = 0; i < NUMBERS_OF_DAEMON; i++) {
		if (!numbers[i].metric || numbers[i].value == NUMBER_ABSENT)
			continue;
		metrics_describe(text, &numbers[i]);
		metrics_put_name(text, &numbers[i]);
		text_printf(text, " %" PRIu64 "\n", numbers[i].value);
	}
}

/* One more row of the histogram. False: there is none. */
static bool metrics_next_request(struct metrics_walk *walk, const struct connections *connections, struct text *text)
{
	const struct durations *durations = &connections->durations[walk->request];
	uint64_t n = 0;

	if (walk->request == DURATION_KINDS)
		return false;
	if (!walk->described)
		text_printf(text, "# HELP userevd_request_seconds Time from reading a request to its answer.\n"
				  "# TYPE userevd_request_seconds histogram\n");
	walk->described = true;
	walk->request++;
	if (!durations->request)
		return true;
	for (size_t i = 0; i <= DURATION_BUCKETS; i++) {
		n += durations->within[i];
		text_printf(text, "userevd_request_seconds_bucket{request=\"%s\",le=\"", durations->request);
		if (i < DURATION_BUCKETS)
			text_printf(text, "%g\"} %" PRIu64 "\n", duration_bounds[i], n);
		else
			text_printf(text, "+Inf\"} %" PRIu64 "\n", n);
	}
	text_printf(text,
		    "userevd_request_seconds_sum{request=\"%s\"} %.6f\n"
		    "userevd_request_seconds_count{request=\"%s\"} %" PRIu64 "\n",
		    durations->request, durations->seconds, durations->request, n);
	return true;
}

/* A line of a section or tenant. */
struct sample {
	struct number number;
	const char *reason; /* of a refusal; NULL: it is another number */
};

static bool sample_of_numbers(struct metrics_walk *walk, const struct number *numbers, struct sample *ret)
{
	*ret = (struct sample){ .number = numbers[walk->family] };
	return walk->reason++ == 0 && ret->number.metric && ret->number.value != NUMBER_ABSENT;
}

static bool sample_of_refusals(struct metrics_walk *walk, const uint64_t *refusals, const char *metric,
			       struct sample *ret)
{
	while (walk->reason < REFUSAL_MAX_ && refusals[walk->reason] == 0)
		walk->reason++;
	if (walk->reason == REFUSAL_MAX_)
		return false;
	*ret = (struct sample){
		.number = { .metric = metric,
			    .type = NUMBER_COUNTER,
			    .help = "Refused requests, by reason.",
			    .value = refusals[walk->reason] },
		.reason = refusal_name(walk->reason),
	};
	walk->reason++;
	return true;
}

/* The section's next sample of this family. False: there is none. */
static bool sample_of_section(struct metrics_walk *walk, const struct summary *section, struct sample *ret)
{
	struct number numbers[NUMBERS_OF_SECTION];

	if (walk->family == NUMBERS_OF_SECTION)
		return sample_of_refusals(walk, section->refusals, "refusals", ret);
	numbers_of_section(section, numbers);
	return sample_of_numbers(walk, numbers, ret);
}

static bool sample_of_tenant(struct metrics_walk *walk, const struct tenant *tenant, struct sample *ret)
{
	struct number numbers[NUMBERS_OF_TENANT];

	if (walk->family == NUMBERS_OF_TENANT)
		return sample_of_refusals(walk, tenant->refusals, "tenant_refusals", ret);
	numbers_of_tenant(tenant, numbers);
	return sample_of_numbers(walk, numbers, ret);
}

static void metrics_begin_sample(struct metrics_walk *walk, const struct number *number, struct text *text)
{
	if (!walk->described)
		metrics_describe(text, number);
	walk->described = true;
	metrics_put_name(text, number);
}

static void metrics_end_sample(const struct sample *sample, struct text *text)
{
	if (sample->reason)
		metrics_put_label(text, ",reason", sample->reason);
	text_printf(text, "} %" PRIu64 "\n", sample->number.value);
}

/* The next sample of this family. False: there is none. */
static bool metrics_next_of_sections(struct metrics_walk *walk, const struct registry *registry, struct text *text)
{
	struct sample sample;

	while (!walk->section || !sample_of_section(walk, walk->section, &sample)) {
		walk->section = walk->section ? walk->section->by_section.next : registry->summaries;
		if (!walk->section)
			return false;
		walk->reason = 0;
	}
	metrics_begin_sample(walk, &sample.number, text);
	metrics_put_label(text, "{section", walk->section->section);
	metrics_end_sample(&sample, text);
	return true;
}

/* The same for tenants. */
static bool metrics_next_of_tenants(struct metrics_walk *walk, struct registry *registry, struct text *text)
{
	/* The tenant of the last sample may have more refusals. */
	struct tenant *tenant = tenant_by_number(registry, walk->tenant);
	struct sample sample;

	while (!tenant || !sample_of_tenant(walk, tenant, &sample)) {
		tenant = tenant_after(registry, walk->tenant);
		if (!tenant || tenant->number > walk->youngest)
			return false;
		walk->tenant = tenant->number;
		walk->reason = 0;
		rules_update(tenant);
	}
	metrics_begin_sample(walk, &sample.number, text);
	metrics_put_label(text, "{tenant", tenant->path);
	text_printf(text, ",cgroup_id=\"%" PRIu64 "\"", tenant->cgroup_id);
	metrics_end_sample(&sample, text);
	return true;
}

enum { EVENT_ON, EVENT_RECORDS, NUMBERS_OF_EVENT };

static struct number number_of_event(const struct registry *registry, const struct event *event, size_t family)
{
	const struct tracer *tracer = registry->kernel->tracer;

	if (family == EVENT_ON)
		return (struct number){ .metric = "event_on",
					.help = "1 if somebody traces the event, otherwise 0.",
					.value = pages_event_is_on(event) };
	return (struct number){ .metric = "event_records",
				.type = NUMBER_COUNTER,
				.help = "Records of the event received by the embedded backend.",
				.value = tracer ? tracer_records(tracer, event->description, event->name_length)
						: NUMBER_ABSENT };
}

/* The same for events. */
static bool metrics_next_of_events(struct metrics_walk *walk, struct registry *registry, struct text *text)
{
	const struct summary_name *name = NULL;
	struct summary *section = NULL;
	const struct event *event;
	struct number number;

	do {
		event = event_after(registry, walk->event);
		if (!event || event->number > walk->youngest_event)
			return false;
		walk->event = event->number;
		number = number_of_event(registry, event, walk->family);
		section = LIST_FIRST(&event->grants)->tenant->summary;
		/* Others of the same name have other fields. */
		if (section && number.value != NUMBER_ABSENT)
			name = summary_name(section, event->description,
					    event->flags & REGISTER_MULTI_FORMAT ? event->length : event->name_length);
	} while (!name);
	metrics_begin_sample(walk, &number, text);
	metrics_put_label(text, "{event", name->text);
	metrics_put_label(text, ",section", section->section);
	text_printf(text, "} %" PRIu64 "\n", number.value);
	return true;
}

/* The number of the part's families, and the next line of the present one. False: it has no more. */
static bool metrics_next_line(struct metrics_walk *walk, struct daemon *daemon, struct text *text, size_t *ret_families)
{
	struct registry *registry = &daemon->registry;

	switch (walk->part) {
	case METRICS_OF_REQUESTS:
		*ret_families = 1;
		return metrics_next_request(walk, &daemon->connections, text);
	case METRICS_OF_SECTIONS:
		*ret_families = NUMBERS_OF_SECTION + 1;
		return metrics_next_of_sections(walk, registry, text);
	case METRICS_OF_EVENTS:
		*ret_families = NUMBERS_OF_EVENT;
		return metrics_next_of_events(walk, registry, text);
	default:
		*ret_families = NUMBERS_OF_TENANT + 1;
		return policy_daemon(registry->policy, POLICY_METRICS_TENANTS)->number &&
		       metrics_next_of_tenants(walk, registry, text);
	}
}

static void metrics_begin(struct metrics_walk *walk, struct daemon *daemon, struct text *text)
{
	walk->youngest = daemon->registry.last_tenant;
	walk->youngest_event = daemon->registry.last_event;
	/* Fds that were read are not in flight. */
	clients_do_deferred(&daemon->connections);
	numbers_sum(&daemon->registry);
	metrics_put_daemon(daemon, text);
	walk->part = METRICS_OF_REQUESTS;
}

bool metrics_next(struct metrics_walk *walk, struct daemon *daemon, struct text *text)
{
	if (walk->part == METRICS_OF_DAEMON) {
		metrics_begin(walk, daemon, text);
		return true;
	}
	while (walk->part < METRICS_END) {
		const size_t before = text->length;
		size_t families;

		while (metrics_next_line(walk, daemon, text, &families))
			if (text->length > before)
				return true;
		*walk = (struct metrics_walk){ .part = walk->part,
					       .youngest = walk->youngest,
					       .youngest_event = walk->youngest_event,
					       .family = walk->family + 1 };
		if (walk->family < families)
			continue;
		walk->part++;
		walk->family = 0;
	}
	if (walk->part == METRICS_END)
		text_printf(text, "# EOF\n");
	return walk->part++ == METRICS_END;
}

struct metrics_listing {
	struct listing listing;
	struct metrics_walk walk;
};

static int metrics_next_row(struct listing *listing, struct packet *packet)
{
	struct metrics_listing *metrics = container_of(listing, struct metrics_listing, listing);
	char buffer[METRICS_PIECE_MAX + 1];
	struct text text = text_make(buffer, sizeof(buffer));

	if (!metrics_next(&metrics->walk, daemon_of(listing->client), &text))
		return LISTING_END;
	row_put_string(packet, "text", buffer);
	return LISTING_ROW;
}

const struct listing_kind metrics_listing = { .size = sizeof(struct metrics_listing), .next = metrics_next_row };
