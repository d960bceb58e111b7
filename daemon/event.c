/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/event.h"

#include "daemon/daemon.h"
#include "daemon/tenant.h"
#include "protocol/refusal.h"

struct event *event_by_name(struct daemon *daemon, const char *name, size_t length)
{
	struct event *event;

	HASH_FIND(by_name, daemon->events, name, length, event);
	return event;
}

/* Frees it unless some tenant holds it. */
static void event_tidy(struct event *event)
{
	if (!LIST_EMPTY(&event->grants))
		return;
	HASH_DELETE(by_name, event->daemon->events, event);
	quota_charge_deinit(&event->charge);
	free(event);
}

static int event_new(struct daemon *daemon, const struct description *description, struct event **ret, struct text *why)
{
	size_t length = strlen(description->canonical);
	struct event *event;

	event = calloc(1, sizeof(*event) + length + 1);
	if (!event)
		return -ENOMEM;
	event->daemon = daemon;
	event->name_length = description->name_length;
	LIST_INIT(&event->grants);
	memcpy(event->description, description->canonical, length + 1);

	if (quota_charge(&daemon->machine, 1, &event->charge, NULL) != 0) {
		text_printf(why, "this machine holds %u of %u events; release some, or ask its admin for more room",
			    daemon->machine.used, daemon->machine.maximum);
		free(event);
		return REFUSAL_MACHINE_FULL;
	}
	HASH_ADD(by_name, daemon->events, description[0], event->name_length, event);
	if (!table_added()) {
		quota_charge_deinit(&event->charge);
		free(event);
		return -ENOMEM;
	}
	*ret = event;
	return 0;
}

/* Finds or makes it; the caller gives it a grant, or calls event_tidy(). */
static int event_get(struct tenant *tenant, const struct description *description, struct event **ret, struct text *why)
{
	struct event *event = event_by_name(tenant->daemon, description->canonical, description->name_length);
	struct grant *own = NULL;

	if (!event)
		return event_new(tenant->daemon, description, ret, why);
	if (streq(event->description, description->canonical)) {
		*ret = event;
		return 0;
	}
	/* Its fields are shown to those only who have them anyway. */
	HASH_FIND(by_event, tenant->grants, &event, sizeof(struct event *), own);
	text_printf(why, "the name '%.*s' is taken by %s; choose another name, or the same fields",
		    (int)MIN(event->name_length, 60), event->description,
		    own ? event->description : "an event with other fields");
	return REFUSAL_NAME_TAKEN;
}

static int grant_new(struct tenant *tenant, struct event *event, struct grant **ret, struct text *why)
{
	struct grant *grant = calloc(1, sizeof(*grant));

	if (!grant)
		return -ENOMEM;
	grant->tenant = tenant;
	grant->event = event;
	grant->references = 1;
	LIST_INIT(&grant->registered);
	if (quota_charge(&tenant->quota, 1, &grant->charge, NULL) != 0) {
		text_printf(why,
			    "this tenant holds %u of %u events; release some, or ask the admin for a larger maximum",
			    tenant->quota.used, tenant->quota.maximum);
		free(grant);
		return REFUSAL_QUOTA_EXCEEDED;
	}
	HASH_ADD(by_event, tenant->grants, event, sizeof(struct event *), grant);
	if (!table_added()) {
		quota_charge_deinit(&grant->charge);
		free(grant);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&event->grants, grant, in_event);
	tenant->lingering++; /* until somebody leases it */
	*ret = grant;
	return 0;
}

int grant_get(struct tenant *tenant, const struct description *description, struct grant **ret, struct text *why)
{
	struct event *event;
	struct grant *grant;
	int r;

	r = event_get(tenant, description, &event, why);
	if (r != 0)
		return r;
	HASH_FIND(by_event, tenant->grants, &event, sizeof(struct event *), grant);
	if (grant) {
		*ret = grant_ref(grant);
		return 0;
	}
	r = grant_new(tenant, event, ret, why);
	if (r != 0)
		event_tidy(event);
	return r;
}

struct grant *grant_ref(struct grant *grant)
{
	grant->references++;
	return grant;
}

struct grant *grant_unref(struct grant *grant)
{
	struct tenant *tenant;

	if (!grant || --grant->references > 0)
		return NULL;
	tenant = grant->tenant;
	tenant->lingering--;
	HASH_DELETE(by_event, tenant->grants, grant);
	LIST_REMOVE(grant, in_event);
	quota_charge_deinit(&grant->charge);
	event_tidy(grant->event);
	free(grant);
	tenant_release(tenant);
	return NULL;
}

void grant_lease_begins(struct grant *grant)
{
	if (grant->leases++ == 0)
		grant->tenant->lingering--;
}

void grant_lease_ends(struct grant *grant)
{
	if (--grant->leases == 0)
		grant->tenant->lingering++;
}
