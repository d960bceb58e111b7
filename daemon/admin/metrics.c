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

/* One metric: "# HELP" and "# TYPE", and its samples. */
struct family {
	const char *name;
	enum number_type type;
	const char *help;
	/* Writes the next sample; false: no more. */
	bool (*next)(struct metrics_walk *, const struct family *, struct daemon *, struct text *);
	const struct number *number;
};

static void metrics_put_name(struct text *text, const struct family *family)
{
	text_printf(text, "userevd_%s%s", family->name, family->type == NUMBER_COUNTER ? "_total" : "");
}

static void metrics_put_label(struct text *text, const char *before, const char *value)
{
	text_printf(text, "%s=\"", before);
	text_label(text, value, strlen(value));
	text_put(text, "\"", 1);
}

static void metrics_put_tenant(struct text *text, const struct family *family, const struct tenant *tenant)
{
	metrics_put_name(text, family);
	metrics_put_label(text, "{tenant", tenant->path);
	text_printf(text, ",cgroup_id=\"%" PRIu64 "\"", tenant->cgroup_id);
}

static bool metrics_next_build(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
			       struct text *text)
{
	const struct kernel_facts *facts = &daemon->registry.kernel->facts;

	if (walk->position++ > 0)
		return false;
	metrics_put_name(text, family);
	metrics_put_label(text, "{version", VERSION);
	metrics_put_label(text, ",backend", backend_name(facts->backend));
	metrics_put_label(text, ",guard",
			  daemon->registry.guarded		     ? "on"
			  : facts->backend == BACKEND_ENABLE_ADDRESS ? "off"
								     : "none");
	text_printf(text, "} 1\n");
	return true;
}

static bool metrics_next_total(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
			       struct text *text)
{
	uint64_t value = family->number->of_daemon(daemon);

	if (walk->position++ > 0 || value == NUMBER_ABSENT)
		return false;
	metrics_put_name(text, family);
	text_printf(text, " %" PRIu64 "\n", value);
	return true;
}

static struct tenant *metrics_next_tenant(struct metrics_walk *walk, struct daemon *daemon)
{
	struct tenant *tenant = tenant_after(&daemon->registry, walk->position);

	if (!tenant || tenant->number > walk->youngest)
		return NULL;
	walk->position = tenant->number;
	walk->reason = 0;
	return tenant;
}

static bool metrics_next_of_tenants(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
				    struct text *text)
{
	struct tenant *tenant;

	while ((tenant = metrics_next_tenant(walk, daemon))) {
		uint64_t value;

		rules_update(tenant);
		value = family->number->of_tenant(tenant);
		if (value == NUMBER_ABSENT)
			continue;
		metrics_put_tenant(text, family, tenant);
		text_printf(text, "} %" PRIu64 "\n", value);
		return true;
	}
	return false;
}

static bool metrics_next_refusals(struct metrics_walk *walk, const struct family *family, struct daemon *daemon,
				  struct text *text)
{
	struct tenant *tenant = tenant_by_number(&daemon->registry, walk->position);

	if (!tenant)
		tenant = metrics_next_tenant(walk, daemon);
	for (; tenant; tenant = metrics_next_tenant(walk, daemon)) {
		while (walk->reason < REFUSAL_MAX_ && tenant->refusals[walk->reason] == 0)
			walk->reason++;
		if (walk->reason == REFUSAL_MAX_)
			continue;
		metrics_put_tenant(text, family, tenant);
		metrics_put_label(text, ",reason", refusal_name(walk->reason));
		text_printf(text, "} %" PRIu64 "\n", tenant->refusals[walk->reason++]);
		return true;
	}
	return false;
}

static bool metrics_family(size_t i, struct family *ret)
{
	static const struct family build = { "build_info", NUMBER_GAUGE,
					     "The daemon's version and backend, and whether data files are guarded.",
					     metrics_next_build, NULL };
	static const struct family refusals = { "refusals", NUMBER_COUNTER,
						"Refused requests of the tenant, by reason.", metrics_next_refusals,
						NULL };
	const struct number *number;

	if (i == 0 || i == 1 + n_daemon_numbers) {
		*ret = i == 0 ? build : refusals;
		return true;
	}
	if (i >= 2 + n_daemon_numbers + n_tenant_numbers)
		return false;
	number = i <= n_daemon_numbers ? &daemon_numbers[i - 1] : &tenant_numbers[i - 2 - n_daemon_numbers];
	*ret = (struct family){ number->metric, number->type, number->help,
				number->of_daemon ? metrics_next_total : metrics_next_of_tenants, number };
	return true;
}

void metrics_begin(struct metrics_walk *walk, const struct daemon *daemon)
{
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
		if (family.name && family.next(walk, &family, daemon, text))
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
