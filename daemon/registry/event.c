/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/event.h"

#include <assert.h>

#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/process/memory.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/kept.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "protocol/refusal.h"

static void grant_enter(struct grant *grant)
{
	const struct entry_grant entry = {
		.tenant = grant->tenant->number,
		.flags = grant->event->flags,
		.persistent = grant->persistent,
	};

	ledger_enter(grant->tenant->registry->ledger, &grant->entry, ENTRY_GRANT, grant->number, 0, &entry,
		     sizeof(entry), grant->event->description);
}

static struct event_key event_find(const struct registry *registry, const char *text, size_t length)
{
	struct event_key key = { text, length, table_hash(text, length), NULL };

	HASH_FIND_BYHASHVALUE(by_key, registry->events, key.text, key.length, key.hash, key.found);
	return key;
}

/* The key of a multi-format event is its whole description with the NUL, so it is none of the names that are keys of other events. */
static struct event_key event_find_described(const struct registry *registry, const struct description *description,
					     uint16_t flags)
{
	return event_find(registry, description->canonical,
			  flags & REGISTER_MULTI_FORMAT ? description->length + 1 : description->name_length);
}

struct event_key event_look_up(const struct registry *registry, const char *text, size_t length)
{
	const char *blank = memchr(text, ' ', length);

	return event_find(registry, text, blank ? (size_t)(blank - text) : length);
}

struct event *event_by_name(const struct registry *registry, const char *name, size_t length)
{
	return event_find(registry, name, length).found;
}

struct event *event_after(struct registry *registry, uint64_t number)
{
	struct event *event = registry->events;

	if (registry->event_cursor && registry->event_cursor->number <= number)
		event = registry->event_cursor;
	while (event && event->number <= number)
		event = event->by_key.next;
	if (event)
		registry->event_cursor = event;
	return event;
}

int event_set_enabled_by(struct registry *registry, struct event *event, const struct entry_enabled *admin)
{
	if (admin && !event->enabled_by) {
		event->enabled_by = calloc(1, sizeof(*event->enabled_by));
		if (!event->enabled_by)
			return -ENOMEM;
		memory_taken(&registry->memory, sizeof(*event->enabled_by));
	}
	if (admin) {
		event->enabled_by->admin = *admin;
		/* Under the number of one of its grants: the next daemon forgets the admin if that one ends before the others. */
		ledger_enter(registry->ledger, &event->enabled_by->entry, ENTRY_ENABLED,
			     LIST_FIRST(&event->grants)->number, 0, admin, sizeof(*admin), "");
	} else if (event->enabled_by) {
		ledger_strike(registry->ledger, &event->enabled_by->entry);
		memory_freed(&registry->memory, sizeof(*event->enabled_by));
		free(steal_pointer(event->enabled_by));
	}
	return 0;
}

/* Frees it unless some tenant holds it. */
static void event_tidy(struct registry *registry, struct event *event)
{
	if (!LIST_EMPTY(&event->grants))
		return;
	if (registry->event_cursor == event)
		registry->event_cursor = event->by_key.prev;
	HASH_DELETE(by_key, registry->events, event);
	registry->n_events--;
	quota_event_deinit(&event->account);
	event_set_enabled_by(registry, event, NULL);
	memory_freed(&registry->memory, sizeof(*event));
	free(event);
}

static int event_new(struct registry *registry, const struct description *description, struct event_key key,
		     uint16_t flags, struct event **ret)
{
	struct event *event = malloc(sizeof(*event) + description->length + 1);

	if (!event)
		return -ENOMEM;
	event->number = registry->last_event + 1;
	event->flags = flags & REGISTER_MULTI_FORMAT;
	event->name_length = (uint16_t)description->name_length;
	event->length = (uint16_t)description->length;
	event->first.tenant = NULL;
	event->enabled_by = NULL;
	LIST_INIT(&event->grants);
	memcpy(event->description, description->canonical, description->length + 1);
	HASH_ADD_KEYPTR_BYHASHVALUE(by_key, registry->events, event->description, key.length, key.hash, event);
	if (!table_added()) {
		free(event);
		return -ENOMEM;
	}
	memory_taken(&registry->memory, sizeof(*event));
	event->account = (struct quota_event){ .machine = &registry->machine };
	registry->last_event = event->number;
	registry->n_events++;
	*ret = event;
	return 0;
}

/*
 * Names the tenant that holds the event if it is related. Fields are shown only to tenants that hold or may hold the event;
 * the existence of an unrelated tenant is not revealed.
 */
static void event_say_taken(const struct tenant *tenant, struct event *event, struct text *why)
{
	const struct grant *own = grant_find(tenant, event), *related = LIST_FIRST(&event->grants);
	const bool is_declared = policy_find_event(tenant->registry->policy, event->description, event->name_length);

	/* A tenant whose cgroup contains this one's, or lies inside of it: the two can know of each other anyway. */
	for (unsigned n = 1; related && !cgroup_is_inside(tenant->path, related->tenant->path) &&
			     !cgroup_is_inside(related->tenant->path, tenant->path);
	     n++)
		related = n < HOLDERS_MAX ? LIST_NEXT(related, in_event) : NULL;
	text_printf(why, "the name '%.*s' is taken by ", (int)MIN(event->name_length, 60), event->description);
	if (own) {
		text_printf(why, "this tenant's event");
	} else if (related) {
		text_printf(why, "an event of the tenant ");
		text_excerpt(why, related->tenant->path, strlen(related->tenant->path));
	} else {
		text_printf(why, is_declared ? "the event that the policy declares" : "an event");
	}
	text_printf(why, " with other fields; choose another name, or the same fields");
	if (own || is_declared)
		text_printf(why, ": %s", event->description);
}

static bool event_has_fields(const struct event *event, const struct description *description)
{
	return streq(event->description, description->canonical);
}

bool grant_may_be_one_of_many(const struct tenant *tenant)
{
	return tenant->registry->kernel->facts.flags & rules_flags(tenant) & REGISTER_MULTI_FORMAT;
}

struct event_key event_meant(const struct tenant *tenant, const struct description *description, struct event_key key,
			     uint16_t *flags)
{
	if (*flags & REGISTER_MULTI_FORMAT || key.length != description->name_length ||
	    memcmp(key.text, description->canonical, key.length) != 0)
		key = event_find_described(tenant->registry, description, *flags);
	if (!key.found || event_has_fields(key.found, description) || !grant_may_be_one_of_many(tenant))
		return key;
	*flags |= REGISTER_MULTI_FORMAT;
	return event_find_described(tenant->registry, description, *flags);
}

struct grant *grant_find(const struct tenant *tenant, struct event *event)
{
	if (!event)
		return NULL;
	return event->first.tenant == tenant ? &event->first : id_table_find(&tenant->grants, event->number);
}

static void grant_free(struct grant *grant)
{
	if (grant == &grant->event->first) {
		grant->tenant = NULL;
		return;
	}
	id_table_remove(&grant->tenant->grants, grant);
	free(grant);
}

/* The grant is in no list yet. NULL: no memory. */
static struct grant *grant_new(struct tenant *tenant, struct event *event, uint64_t number)
{
	struct grant *grant = event->first.tenant ? malloc(sizeof(*grant)) : &event->first;

	if (!grant)
		return NULL;
	*grant = (struct grant){
		.event_number = event->number,
		.tenant = tenant,
		.event = event,
		.number = number ? number : ++tenant->registry->last_number,
		.references = 1,
	};
	if (grant == &event->first || id_table_add(&tenant->grants, grant))
		return grant;
	free(grant);
	return NULL;
}

/* Finds or makes the tenant's grant. */
static int grant_find_or_make(struct tenant *tenant, struct event *event, uint64_t number, struct grant **ret,
			      struct text *why)
{
	struct grant *grant = grant_find(tenant, event);
	int r;

	if (grant) {
		*ret = grant_ref(grant);
		return 0;
	}
	grant = grant_new(tenant, event, number);
	if (!grant)
		return -ENOMEM;
	r = admission_charge(tenant, RESOURCE_EVENTS, &event->account, &grant->charge, number ? NULL : why);
	if (r != 0) {
		grant_free(grant);
		return r;
	}
	LIST_INSERT_HEAD(&event->grants, grant, in_event);
	LIST_INSERT_HEAD(&tenant->all_grants, grant, in_tenant);
	tenant->n_grants++;
	tenant->lingering++; /* until a client leases it */
	grant_enter(grant);
	*ret = grant;
	return 0;
}

static int grant_make(struct tenant *tenant, const struct description *description, struct event_key key,
		      uint16_t flags, uint64_t number, struct grant **ret, struct text *why)
{
	struct event *event = key.found;
	int r = 0;

	if (event && !event_has_fields(event, description)) {
		event_say_taken(tenant, event, why);
		return REFUSAL_NAME_TAKEN;
	}
	if (!event)
		r = event_new(tenant->registry, description, key, flags, &event);
	if (r == 0)
		r = grant_find_or_make(tenant, event, number, ret, why);
	if (r != 0 && event)
		event_tidy(tenant->registry, event);
	/* Not before: giving up kept streams may free the event. */
	if (r > 0 && kept_yield(tenant->level))
		text_printf(why, "; events kept after their programs ended are released now: try again");
	return r;
}

int grant_get(struct tenant *tenant, const struct description *description, uint16_t flags, uint64_t number,
	      struct grant **ret, struct text *why)
{
	const struct event_key key = event_find_described(tenant->registry, description, flags);

	return grant_make(tenant, description, key, flags, number, ret, why);
}

int grant_ask(struct tenant *tenant, const struct description *description, struct event_key key, uint16_t *flags,
	      struct grant **ret, struct text *why)
{
	const bool is_plain = *flags == 0;
	int r;

	key = event_meant(tenant, description, key, flags);
	r = grant_make(tenant, description, key, *flags, 0, ret, why);
	if (r == 0 && is_plain)
		(*ret)->admitted = tenant->registry->generation;
	return r;
}

struct grant *grant_admitted(const struct tenant *tenant, struct event_key key, const char *text, size_t length)
{
	struct grant *grant = grant_find(tenant, key.found);

	if (!grant || grant->admitted != tenant->registry->generation || key.found->length != length ||
	    memcmp(key.found->description, text, length) != 0)
		return NULL;
	return grant_ref(grant);
}

struct grant *grant_ref(struct grant *grant)
{
	grant->references++;
	return grant;
}

struct grant *grant_unref(struct grant *grant)
{
	struct tenant *tenant;
	struct event *event;

	if (!grant || --grant->references > 0)
		return NULL;
	tenant = grant->tenant;
	event = grant->event;
	assert(tenant);
	tenant->n_grants--;
	tenant->lingering--;
	ledger_strike(tenant->registry->ledger, &grant->entry);
	if (tenant->traces.walk == grant)
		tenant->traces.walk = LIST_NEXT(grant, in_tenant);
	LIST_REMOVE(grant, in_event);
	LIST_REMOVE(grant, in_tenant);
	quota_charge_deinit(&grant->charge);
	grant_free(grant);
	event_tidy(tenant->registry, event);
	tenant_release(tenant);
	return NULL;
}

void grant_persists(struct grant *grant)
{
	if (grant->persistent)
		return;
	grant->persistent = true;
	grant_ref(grant);
	grant_enter(grant);
}

void grant_persists_no_more(struct grant *grant)
{
	grant->persistent = false;
	grant_enter(grant);
	grant_unref(grant);
}

void grants_end(struct registry *registry)
{
	while (registry->events) {
		struct grant *grant = LIST_FIRST(&registry->events->grants);

		assert(grant->persistent && grant->references == 1);
		grant_unref(grant);
	}
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
