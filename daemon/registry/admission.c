/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A refusal has the numbers, the key and the section that they are from, and a remedy. It has the number of events that other
 * tenants hold, but never their names: it names only cgroups that the tenant lies in.
 */

#include "daemon/registry/admission.h"

#include "daemon/process/clock.h"
#include "daemon/process/log.h"
#include "daemon/quota/charge.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "protocol/base/text.h"

static const struct {
	const char *plural;
	const char *remedy;
} words[] = {
	[RESOURCE_EVENTS] = { "events", "release some" },
	[RESOURCE_FILES] = { "data files", "close some" },
	[RESOURCE_LEASES] = { "leases", "release some events, or close files that were kept open" },
	[RESOURCE_CONNECTIONS] = { "connections", "close some" },
};

/* The tenant, or the cgroup, that holds too many. */
static void admission_put_holder(const struct tenant *tenant, const struct quota *at, struct text *why)
{
	bool is_own;
	const struct level *level = level_of(tenant->level, at, &is_own);

	if (is_own) {
		text_printf(why, "this tenant holds");
		return;
	}
	text_printf(why, "all in the cgroup ");
	text_excerpt(why, level->path, strlen(level->path));
	text_printf(why, " hold");
}

/* The key and section that the maximum is from. The file is not for programs. */
static void admission_put_limit(const struct tenant *tenant, enum resource resource, const struct quota *at,
				struct text *why)
{
	bool is_own;
	const struct level *level = level_of(tenant->level, at, &is_own);

	if (level->generation != tenant->registry->generation)
		return;
	if (level->maximum_by[resource]) {
		text_printf(why, " (");
		policy_limit_text(rules_limit_key(resource, at->has_own_maximum), level->maximum_by[resource], why);
		text_printf(why, ")");
	} else if (resource == RESOURCE_EVENTS && tenant->registry->options->max_events != OPTIONS_UNSET) {
		text_printf(why, " (--max-events)");
	}
}

/* `has_room`: the maximum has room, which is for all in this cgroup. */
static int refuse_maximum(const struct tenant *tenant, enum resource resource, const struct quota *at, bool has_room,
			  struct text *why)
{
	admission_put_holder(tenant, at, why);
	text_printf(why, " %u of %u %s", quota_held(at), at->maximum, words[resource].plural);
	admission_put_limit(tenant, resource, at, why);
	if (resource == RESOURCE_FILES)
		text_printf(why, ", also those still open after their connection");
	text_printf(why,
		    has_room ? ", and the rest is for all of them; %s, or ask the admin for a reserve"
			     : "; %s, or ask the admin for a larger maximum",
		    words[resource].remedy);
	return REFUSAL_QUOTA_EXCEEDED;
}

static int refuse_machine(const struct machine *machine, enum resource resource, struct text *why)
{
	text_printf(why, "this machine holds %u of %u %s", machine->common, machine_pool(machine),
		    words[resource].plural);
	if (machine->claimed > 0)
		text_printf(why, " besides %llu that are reserved", (unsigned long long)machine->claimed);
	text_printf(why, "; %s, or ask its admin for more room", words[resource].remedy);
	return REFUSAL_MACHINE_FULL;
}

static int refuse_share(const struct tenant *tenant, enum resource resource, const struct machine *machine,
			const struct quota_refusal *refusal, struct text *why)
{
	/* A node that pays for nothing has no share that could be too large: too little is left for any tenant. */
	if (refusal->at->paid == 0 && !refusal->within)
		return refuse_machine(machine, resource, why);
	if (refusal->at->paid == 0)
		return refuse_maximum(tenant, resource, refusal->within, true, why);
	admission_put_holder(tenant, refusal->at, why);
	text_printf(why, " %u %s, a fair share among %u: for one more %llu would have to be left, not %u",
		    quota_held(refusal->at), words[resource].plural, refusal->sharing,
		    (unsigned long long)refusal->needed, refusal->remaining);
	if (refusal->within)
		admission_put_limit(tenant, resource, refusal->within, why);
	text_printf(why, "; %s, or ask the admin for a reserve", words[resource].remedy);
	return REFUSAL_QUOTA_EXCEEDED;
}

static int admission_answer(const struct tenant *tenant, enum resource resource, const struct quota_event *event,
			    const struct quota_refusal *refusal, int r, struct text *why)
{
	switch (r) {
	case QUOTA_E_MAXIMUM:
		r = refuse_maximum(tenant, resource, refusal->at, false, why);
		/* A registration can't be removed from a file. For streams that are kept see kept_yield(). */
		if (resource == RESOURCE_EVENTS && tenant->lingering > 0 && tenant->level->n_kept == 0)
			text_printf(why, "; %u linger%s until all events of %s data file are released",
				    tenant->lingering, tenant->lingering == 1 ? "s" : "",
				    tenant->lingering == 1 ? "its" : "their");
		return r;
	case QUOTA_E_SHARE:
		return refuse_share(tenant, resource, event->machine, refusal, why);
	case QUOTA_E_MACHINE:
		return refuse_machine(event->machine, resource, why);
	default:
		return 0;
	}
}

static struct quota_reserves reserves_of(const struct tenant *tenant, enum resource resource)
{
	return (struct quota_reserves){
		.reserve = tenant->rules.reserve,
		.n = tenant->rules.n_reserves,
		.are_of_files = resource == RESOURCE_FILES,
	};
}

int admission_charge(struct tenant *tenant, enum resource resource, struct quota_event *thing, struct quota_charge *ret,
		     struct text *why)
{
	const struct quota_reserves reserves = reserves_of(tenant, resource);
	struct quota_refusal refusal;
	int r = quota_charge(&tenant->level->own[resource], thing, &reserves, ret, why ? &refusal : NULL);

	return r == 0 || !why ? r : admission_answer(tenant, resource, thing, &refusal, r, why);
}

int admission_ask(const struct tenant *tenant, const struct quota_event *event, struct reserve **ret, struct text *why)
{
	const struct quota_reserves reserves = reserves_of(tenant, RESOURCE_EVENTS);
	struct quota_refusal refusal;
	int r = quota_ask(&tenant->level->own[RESOURCE_EVENTS], event, &reserves, ret, &refusal);

	return admission_answer(tenant, RESOURCE_EVENTS, event, &refusal, r, why);
}

int admission_ask_maximum(const struct tenant *tenant, enum resource resource, struct text *why)
{
	const struct quota *full = quota_find_full(&tenant->level->own[resource]);

	return full ? refuse_maximum(tenant, resource, full, false, why) : 0;
}

void admission_warn(struct tenant *tenant, enum resource resource)
{
	const struct quota *at;

	while ((at = quota_warn(&tenant->level->own[resource]))) {
		bool is_own;
		struct level *level = level_of(tenant->level, at, &is_own);

		if (level_may_warn(level, clock_now()))
			log_line(LOG_OF_CLIENTS, LOG_WARNING, "%s %s comes near to its maximum: it holds %u of %u %s",
				 is_own ? "tenant" : "cgroup", level->path, quota_held(at), at->maximum,
				 words[resource].plural);
	}
}
