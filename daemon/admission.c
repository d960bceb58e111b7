/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A refusal has the numbers, the key and the section that they are from, and what can be done. Of others it tells how many they hold, but never who they are: of cgroups it
 * names only those that the tenant lies in.
 */

#include "daemon/admission.h"

#include "daemon/charge.h"
#include "daemon/daemon.h"
#include "daemon/tenant.h"
#include "protocol/text.h"

/* Who holds too many: the tenant, or all in a cgroup. */
static void put_holder(const struct tenant *tenant, const struct quota *at, struct text *why)
{
	const char *path;

	if (at == &tenant->level->own) {
		text_printf(why, "this tenant holds");
		return;
	}
	path = level_of(at)->path;
	text_printf(why, "all in the cgroup ");
	text_excerpt(why, path, strlen(path));
	text_printf(why, " hold");
}

/* Which key and section the maximum is from: not which file, which is nothing to programs. */
static void put_limit(const struct tenant *tenant, const struct quota *at, struct text *why)
{
	const struct level *level = at == &tenant->level->own ? tenant->level : level_of(at);

	if (level->generation != tenant->daemon->generation)
		return;
	if (level->events_by) {
		text_printf(why, " (");
		policy_limit_text(at->has_own_maximum ? POLICY_MAX_EVENTS : POLICY_DEFAULT_MAX_EVENTS, level->events_by,
				  why);
		text_printf(why, ")");
	} else if (tenant->daemon->options.max_events != OPTIONS_UNSAID) {
		text_printf(why, " (--max-events)");
	}
}

static int refuse_maximum(const struct tenant *tenant, const struct quota *at, struct text *why)
{
	put_holder(tenant, at, why);
	text_printf(why, " %u of %u events", at->held, at->maximum);
	put_limit(tenant, at, why);
	text_printf(why, "; release some, or ask the admin for a larger maximum");
	return REFUSAL_QUOTA_EXCEEDED;
}

static int refuse_machine(const struct machine *machine, struct text *why)
{
	text_printf(why, "this machine holds %u of %u events", machine->common, machine_pool(machine));
	if (machine->claimed > 0)
		text_printf(why, " besides %llu that are reserved", (unsigned long long)machine->claimed);
	text_printf(why, "; release some, or ask its admin for more room");
	return REFUSAL_MACHINE_FULL;
}

/* Nobody could have one more without taking it from the next one's share. */
static int refuse_rest(const struct tenant *tenant, const struct quota *within, struct text *why)
{
	put_holder(tenant, within, why);
	text_printf(why, " %u of %u events", within->held, within->maximum);
	put_limit(tenant, within, why);
	text_printf(why, ", and the rest is for all of them; release some, or ask the admin for a reserve");
	return REFUSAL_QUOTA_EXCEEDED;
}

static int refuse_share(const struct tenant *tenant, const struct machine *machine, const struct quota_refusal *refusal,
			struct text *why)
{
	/* Who pays for nothing has no share that would be too large: there is too little left for anybody. */
	if (refusal->at->paid == 0)
		return refusal->within ? refuse_rest(tenant, refusal->within, why) : refuse_machine(machine, why);
	put_holder(tenant, refusal->at, why);
	text_printf(why, " %u events, a fair share among %u: for one more %llu would have to be left, not %u",
		    refusal->at->held, refusal->sharing, (unsigned long long)refusal->needed, refusal->remaining);
	if (refusal->within)
		put_limit(tenant, refusal->within, why);
	text_printf(why, "; release some, or ask the admin for a reserve");
	return REFUSAL_QUOTA_EXCEEDED;
}

static int answer(const struct tenant *tenant, const struct quota_event *event, const struct quota_refusal *refusal,
		  int r, struct text *why)
{
	switch (r) {
	case QUOTA_E_MAXIMUM:
		return refuse_maximum(tenant, refusal->at, why);
	case QUOTA_E_SHARE:
		return refuse_share(tenant, event->machine, refusal, why);
	case QUOTA_E_MACHINE:
		return refuse_machine(event->machine, why);
	default:
		return 0;
	}
}

static struct quota_reserves reserves_of(const struct tenant *tenant)
{
	return (struct quota_reserves){ .reserve = tenant->rules.reserve, .n = tenant->rules.n_reserves };
}

int admission_charge(struct tenant *tenant, struct quota_event *event, struct quota_charge *ret, struct text *why)
{
	const struct quota_reserves reserves = reserves_of(tenant);
	struct quota_refusal refusal;
	int r = quota_charge(&tenant->level->own, event, &reserves, ret, &refusal);

	return answer(tenant, event, &refusal, r, why);
}

void admission_charge_again(struct tenant *tenant, struct quota_event *event, struct quota_charge *ret)
{
	const struct quota_reserves reserves = reserves_of(tenant);

	quota_charge_again(&tenant->level->own, event, &reserves, ret);
}

int admission_ask(const struct tenant *tenant, const struct quota_event *event, struct reserve **ret, struct text *why)
{
	const struct quota_reserves reserves = reserves_of(tenant);
	struct quota_refusal refusal;
	int r = quota_ask(&tenant->level->own, event, &reserves, ret, &refusal);

	return answer(tenant, event, &refusal, r, why);
}
