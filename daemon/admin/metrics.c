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
#include "daemon/connection/inflight.h"
#include "daemon/daemon.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "protocol/row.h"

_Static_assert(METRICS_PIECE_MAX > 5 * PATH_MAX + 1024, "the longest path, each byte of it escaped");

/* One metric: "# HELP" and "# TYPE", and its samples. */
struct family {
	const char *name; /* NULL: it is no metric */
	enum number_type type;
	const char *help;
	const struct number *number; /* NULL: build_info or refusals, which have a further label */
	bool of_daemon;		     /* one sample; otherwise samples of each tenant */
};

/* False: there are no more. */
static bool metrics_family(size_t i, struct family *ret)
{
	static const struct family build = {
		"build_info", NUMBER_GAUGE, "The daemon's version and backend, and whether data files are guarded.",
		NULL,	      true,
	};
	static const struct family refusals = {
		"refusals", NUMBER_COUNTER, "Refused requests of the tenant, by reason.", NULL, false,
	};
	const struct number *number;

	if (i == 0 || i == 1 + n_daemon_numbers) {
		*ret = i == 0 ? build : refusals;
		return true;
	}
	if (i >= 2 + n_daemon_numbers + n_tenant_numbers)
		return false;
	number = i <= n_daemon_numbers ? &daemon_numbers[i - 1] : &tenant_numbers[i - 2 - n_daemon_numbers];
	*ret = (struct family){ number->metric, number->type, number->help, number, number->of_daemon };
	return true;
}

static void metrics_put_label(struct text *text, const char *before, const char *value)
{
	text_printf(text, "%s=\"", before);
	text_label(text, value, strlen(value));
	text_put(text, "\"", 1);
}

static bool metrics_next_of_daemon(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
				   struct text *text)
{
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;
	uint64_t value = family->number ? family->number->of_daemon(daemon) : 1;

	if (walk->position++ > 0 || value == NUMBER_ABSENT)
		return false;
	text_printf(text, "userevd_%s%s", family->name, family->type == NUMBER_COUNTER ? "_total" : "");
	if (!family->number) {
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
static uint64_t metrics_value(struct metrics_walk *walk, const struct family *family, struct tenant *tenant)
{
	if (family->number) {
		rules_update(tenant);
		return family->number->of_tenant(tenant);
	}
	while (walk->reason < REFUSAL_MAX_ && tenant->refusals[walk->reason] == 0)
		walk->reason++;
	return walk->reason < REFUSAL_MAX_ ? tenant->refusals[walk->reason++] : NUMBER_ABSENT;
}

static bool metrics_next_of_tenants(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
				    struct text *text)
{
	/* The tenant of the last sample may have more refusals. */
	struct tenant *tenant = family->number ? NULL : tenant_by_number(&daemon->registry, walk->position);
	uint64_t value = tenant ? metrics_value(walk, family, tenant) : NUMBER_ABSENT;

	while (value == NUMBER_ABSENT) {
		tenant = tenant_after(&daemon->registry, walk->position);
		if (!tenant || tenant->number > walk->youngest)
			return false;
		walk->position = tenant->number;
		walk->reason = 0;
		value = metrics_value(walk, family, tenant);
	}
	text_printf(text, "userevd_%s%s", family->name, family->type == NUMBER_COUNTER ? "_total" : "");
	metrics_put_label(text, "{tenant", tenant->path);
	text_printf(text, ",cgroup_id=\"%" PRIu64 "\"", tenant->cgroup_id);
	if (!family->number)
		metrics_put_label(text, ",reason", refusal_name(walk->reason - 1));
	text_printf(text, "} %" PRIu64 "\n", value);
	return true;
}

void metrics_begin(struct metrics_walk *walk, struct daemon *daemon)
{
	inflight_look(&daemon->connections);
	*walk = (struct metrics_walk){ .youngest = daemon->registry.last_tenant };
}

bool metrics_next(struct metrics_walk *walk, struct daemon *daemon, struct text *text)
{
	struct family family;

	while (metrics_family(walk->family, &family)) {
		if (family.name && !walk->described) {
			text_printf(text, "# HELP userevd_%s %s\n# TYPE userevd_%s %s\n", family.name, family.help,
				    family.name, family.type == NUMBER_COUNTER ? "counter" : "gauge");
			walk->described = true;
			return true;
		}
		if (family.name &&
		    (family.of_daemon ? metrics_next_of_daemon : metrics_next_of_tenants)(walk, &family, daemon, text))
			return true;
		walk->family++;
		walk->described = false;
		walk->position = 0;
		walk->reason = 0;
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
	struct metrics_listing *metrics;

	if (decode_empty(message->body) != 0)
		return REFUSAL_BAD_PACKET;
	metrics = listing_new(client, message->serial, &kind, false);
	if (!metrics)
		return 0;
	metrics_begin(&metrics->walk, daemon_of(client));
	listing_start(metrics);
	return 0;
}
