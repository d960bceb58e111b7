/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * OpenMetrics 1.0, in a form that readers of the older text format of Prometheus accept, too: only gauges and counters, which both
 * formats have, and no timestamps. (The older format names a counter by its samples, with "_total", OpenMetrics without it. The text
 * has the name without it, and older readers take the samples as untyped.)
 *
 * All samples of a family stand together, so each family walks through all tenants. A tenant that goes and comes back meanwhile
 * would have two samples in a family, for which readers reject the whole text: so tenants that are made after the first family are
 * left out.
 *
 * A tenant is identified by path and cgroup: several tenants can have the same path while events of an older cgroup linger.
 */

#include "daemon/admin/metrics.h"

#include <inttypes.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/admin/numbers.h"
#include "daemon/daemon.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
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
	numbers_of_daemon(daemon, numbers);
	for (size_t i = 0; i < NUMBERS_OF_DAEMON; i++) {
		if (!numbers[i].metric || numbers[i].value == NUMBER_ABSENT)
			continue;
		metrics_describe(text, &numbers[i]);
		metrics_put_name(text, &numbers[i]);
		text_printf(text, " %" PRIu64 "\n", numbers[i].value);
	}
}

/* The tenant's next sample of this family. False: there is none. */
static bool metrics_next_number(struct metrics_walk *walk, const struct tenant *tenant, struct number *ret)
{
	struct number numbers[NUMBERS_OF_TENANT];

	if (walk->family < NUMBERS_OF_TENANT) {
		numbers_of_tenant(tenant, numbers);
		*ret = numbers[walk->family];
		return walk->reason++ == 0 && ret->metric && ret->value != NUMBER_ABSENT;
	}
	while (walk->reason < REFUSAL_MAX_ && tenant->refusals[walk->reason] == 0)
		walk->reason++;
	if (walk->reason == REFUSAL_MAX_)
		return false;
	*ret = (struct number){
		.metric = "refusals",
		.type = NUMBER_COUNTER,
		.help = "Refused requests of the tenant, by reason.",
		.value = tenant->refusals[walk->reason++],
	};
	return true;
}

/* The next sample of this family. False: there is none. */
static bool metrics_next_sample(struct metrics_walk *walk, struct registry *registry, struct text *text)
{
	/* The tenant of the last sample may have more refusals. */
	struct tenant *tenant = tenant_by_number(registry, walk->tenant);
	struct number number = { 0 };

	while (!tenant || !metrics_next_number(walk, tenant, &number)) {
		tenant = tenant_after(registry, walk->tenant);
		if (!tenant || tenant->number > walk->youngest)
			return false;
		walk->tenant = tenant->number;
		walk->reason = 0;
		rules_update(tenant);
	}
	if (!walk->described)
		metrics_describe(text, &number);
	walk->described = true;
	metrics_put_name(text, &number);
	metrics_put_label(text, "{tenant", tenant->path);
	text_printf(text, ",cgroup_id=\"%" PRIu64 "\"", tenant->cgroup_id);
	if (walk->family == NUMBERS_OF_TENANT)
		metrics_put_label(text, ",reason", refusal_name(walk->reason - 1));
	text_printf(text, "} %" PRIu64 "\n", number.value);
	return true;
}

bool metrics_next(struct metrics_walk *walk, struct daemon *daemon, struct text *text)
{
	if (walk->part == METRICS_OF_DAEMON) {
		walk->part = METRICS_OF_TENANTS;
		walk->youngest = daemon->registry.last_tenant;
		/* Fds that were read are not in flight. */
		clients_do_deferred(&daemon->connections);
		metrics_put_daemon(daemon, text);
		return true;
	}
	while (walk->family <= NUMBERS_OF_TENANT) {
		if (metrics_next_sample(walk, &daemon->registry, text))
			return true;
		*walk = (struct metrics_walk){ walk->part, walk->youngest, walk->family + 1, false, 0, 0 };
	}
	if (walk->part == METRICS_END)
		return false;
	text_printf(text, "# EOF\n");
	walk->part = METRICS_END;
	return true;
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
