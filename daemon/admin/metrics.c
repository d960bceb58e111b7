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

static void metrics_put_name(struct text *text, const struct number *number)
{
	text_printf(text, "userevd_%s%s", number->metric, number->type == NUMBER_COUNTER ? "_total" : "");
}

static bool metrics_next_of_daemon(struct metrics_walk *walk, const struct number *number, struct daemon *daemon,
				   struct text *text)
{
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;
	uint64_t value = number->of_daemon(daemon);

	if (walk->position++ > 0 || value == NUMBER_ABSENT)
		return false;
	metrics_put_name(text, number);
	if (number->has_labels) {
		metrics_put_label(text, "{version", VERSION);
		metrics_put_label(text, ",backend", backend_name(facts->backend));
		metrics_put_label(text, ",guard",
				  daemon->registry.guarded		     ? "on"
				  : facts->backend == BACKEND_ENABLE_ADDRESS ? "off"
									     : "none");
		text_put(text, "}", 1);
	}
	text_printf(text, " %" PRIu64 "\n", value);
	return true;
}

/* The value of the tenant's next sample in this family. */
static uint64_t metrics_value(struct metrics_walk *walk, const struct number *number, struct tenant *tenant)
{
	if (number->of_tenant) {
		rules_update(tenant);
		return number->of_tenant(tenant);
	}
	while (walk->reason < REFUSAL_MAX_ && tenant->refusals[walk->reason] == 0)
		walk->reason++;
	return walk->reason < REFUSAL_MAX_ ? tenant->refusals[walk->reason++] : NUMBER_ABSENT;
}

static bool metrics_next_of_tenants(struct metrics_walk *walk, const struct number *number, struct daemon *daemon,
				    struct text *text)
{
	/* The tenant of the last sample may have more refusals. */
	struct tenant *tenant = number->has_labels ? tenant_by_number(&daemon->registry, walk->position) : NULL;
	uint64_t value = tenant ? metrics_value(walk, number, tenant) : NUMBER_ABSENT;

	while (value == NUMBER_ABSENT) {
		tenant = tenant_after(&daemon->registry, walk->position);
		if (!tenant || tenant->number > walk->youngest)
			return false;
		walk->position = tenant->number;
		walk->reason = 0;
		value = metrics_value(walk, number, tenant);
	}
	metrics_put_name(text, number);
	metrics_put_label(text, "{tenant", tenant->path);
	text_printf(text, ",cgroup_id=\"%" PRIu64 "\"", tenant->cgroup_id);
	if (number->has_labels)
		metrics_put_label(text, ",reason", refusal_name(walk->reason - 1));
	text_printf(text, "} %" PRIu64 "\n", value);
	return true;
}

bool metrics_next(struct metrics_walk *walk, struct daemon *daemon, struct text *text)
{
	if (!walk->youngest)
		walk->youngest = daemon->registry.last_tenant;
	while (walk->family < n_numbers) {
		const struct number *number = &numbers[walk->family];

		if (number->metric && !walk->described) {
			text_printf(text, "# HELP userevd_%s %s\n# TYPE userevd_%s %s\n", number->metric, number->help,
				    number->metric, number->type == NUMBER_COUNTER ? "counter" : "gauge");
			walk->described = true;
			return true;
		}
		if (number->metric &&
		    (number->of_daemon ? metrics_next_of_daemon : metrics_next_of_tenants)(walk, number, daemon, text))
			return true;
		*walk = (struct metrics_walk){ .youngest = walk->youngest, .family = walk->family + 1 };
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

int handle_metrics(struct client *client, const struct message *message)
{
	static const struct listing_kind kind = { .size = sizeof(struct metrics_listing), .next = metrics_next_row };

	return listing_handle(client, message, &kind);
}
