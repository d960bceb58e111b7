/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/event.h"

#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/capacity.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "protocol/refusal.h"

static void grant_enter(struct grant *grant)
{
	const struct entry_grant entry = {
		.tenant = grant->tenant->number,
		.flags = grant->event->flags,
		.persistent = grant->persistent,
	};

	ledger_enter_text(grant->tenant->registry->ledger, &grant->entry, ENTRY_GRANT, grant->number, &entry,
			  sizeof(entry), grant->event->description);
}

/* The key of a multi-format event is its whole description, that of any other event its name. */
static size_t event_key_length(const struct description *description, uint16_t flags)
{
	return 1 + (flags & REGISTER_MULTI_FORMAT ? strlen(description->canonical) : description->name_length);
}

static void event_make_key(const struct description *description, uint16_t flags, char key[WIRE_DESCRIPTION_MAX + 2])
{
	key[0] = flags & REGISTER_MULTI_FORMAT ? 'm' : 's';
	string_copy(key + 1, WIRE_DESCRIPTION_MAX + 1, description->canonical);
}

struct event *event_by_name(const struct registry *registry, const char *name, size_t length)
{
	char key[DESCRIPTION_NAME_MAX + 2] = "s";
	struct event *event;

	if (length > DESCRIPTION_NAME_MAX)
		return NULL;
	memcpy(key + 1, name, length);
	HASH_FIND(by_key, registry->events, key, length + 1, event);
	return event;
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

/* Frees it unless some tenant holds it. */
static void event_tidy(struct event *event)
{
	if (!LIST_EMPTY(&event->grants))
		return;
	if (event->registry->event_cursor == event)
		event->registry->event_cursor = event->by_key.prev;
	HASH_DELETE(by_key, event->registry->events, event);
	event->registry->n_events--;
	quota_event_deinit(&event->account);
	free(event);
}

static int event_new(struct registry *registry, const struct description *description, uint16_t flags,
		     struct event **ret)
{
	struct event *event = calloc(1, sizeof(*event) + 1 + strlen(description->canonical) + 1);

	if (!event)
		return -ENOMEM;
	event->registry = registry;
	event->number = registry->last_event + 1;
	event->flags = flags & REGISTER_MULTI_FORMAT;
	event->name_length = description->name_length;
	event_make_key(description, flags, event->key);
	event->description = event->key + 1;
	HASH_ADD_KEYPTR(by_key, registry->events, event->key, event_key_length(description, flags), event);
	if (!table_added()) {
		free(event);
		return -ENOMEM;
	}
	quota_event_init(&event->account, &registry->machine);
	registry->last_event = event->number;
	registry->n_events++;
	*ret = event;
	return 0;
}

struct event *event_find(const struct registry *registry, const struct description *description, uint16_t flags)
{
	char key[WIRE_DESCRIPTION_MAX + 2];
	struct event *event;

	event_make_key(description, flags, key);
	HASH_FIND(by_key, registry->events, key, event_key_length(description, flags), event);
	return event;
}

static bool is_inside(const char *path, const char *cgroup)
{
	size_t length = streq(cgroup, "/") ? 0 : strlen(cgroup);

	return *path == '/' && *cgroup == '/' && strncmp(path, cgroup, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0');
}

/* A tenant whose cgroup contains the other one's, or lies inside of it: the two can know of each other anyway. */
static const struct tenant *find_related(const struct tenant *tenant, const struct event *event)
{
	const struct grant *grant = LIST_FIRST(&event->grants);

	for (unsigned n = 0; grant && n < HOLDERS_MAX; n++, grant = LIST_NEXT(grant, in_event))
		if (is_inside(tenant->path, grant->tenant->path) || is_inside(grant->tenant->path, tenant->path))
			return grant->tenant;
	return NULL;
}

static bool event_is_declared(const struct event *event)
{
	return policy_find_event(event->registry->policy, event->description, event->name_length);
}

/*
 * Names the tenant that holds the event if it is related. Fields are shown only to tenants that hold or may hold the event;
 * the existence of an unrelated tenant is not revealed.
 */
static void event_say_taken(const struct tenant *tenant, const struct event *event, struct text *why)
{
	const struct tenant *related;
	struct grant *own;

	NUMBER_FIND(by_event, tenant->grants, event, own);
	related = own ? NULL : find_related(tenant, event);
	text_printf(why, "the name '%.*s' is taken by ", (int)MIN(event->name_length, 60), event->description);
	if (own) {
		text_printf(why, "this tenant's event");
	} else if (related) {
		text_printf(why, "an event of the tenant ");
		text_excerpt(why, related->path, strlen(related->path));
	} else {
		text_printf(why, event_is_declared(event) ? "the event that the policy declares" : "an event");
	}
	text_printf(why, " with other fields; choose another name, or the same fields");
	if (own || event_is_declared(event))
		text_printf(why, ": %s", event->description);
}

/* Finds or makes it; the caller gives it a grant, or calls event_tidy(). */
static int event_get(struct tenant *tenant, const struct description *description, uint16_t flags, struct event **ret,
		     struct text *why)
{
	struct event *event = event_find(tenant->registry, description, flags);

	if (!event)
		return event_new(tenant->registry, description, flags, ret);
	if (streq(event->description, description->canonical)) {
		*ret = event;
		return 0;
	}
	event_say_taken(tenant, event, why);
	return REFUSAL_NAME_TAKEN;
}

bool grant_may_be_one_of_many(const struct tenant *tenant)
{
	return tenant->registry->kernel->facts.flags & rules_flags(tenant) & REGISTER_MULTI_FORMAT;
}

uint16_t grant_flags(const struct tenant *tenant, const struct description *description, uint16_t flags)
{
	const struct event *event = event_find(tenant->registry, description, flags);

	if (!event || streq(event->description, description->canonical) || !grant_may_be_one_of_many(tenant))
		return flags;
	return flags | REGISTER_MULTI_FORMAT;
}

/* Finds or makes the tenant's grant. `number`: the one that it had before a restart; 0: a new one. */
static int grant_find_or_make(struct tenant *tenant, struct event *event, uint64_t number, struct grant **ret,
			      struct text *why)
{
	struct grant *grant;
	int r = 0;

	NUMBER_FIND(by_event, tenant->grants, event, grant);
	if (grant) {
		*ret = grant_ref(grant);
		return 0;
	}
	grant = calloc(1, sizeof(*grant));
	if (!grant)
		return -ENOMEM;
	grant->tenant = tenant;
	grant->event = event;
	grant->number = number ? number : ++tenant->registry->last_number;
	grant->references = 1;
	NUMBER_ADD(by_event, tenant->grants, event, grant);
	if (!table_added()) {
		free(grant);
		return -ENOMEM;
	}
	if (number)
		admission_charge_again(tenant, RESOURCE_EVENTS, &event->account, &grant->charge);
	else
		r = admission_charge(tenant, RESOURCE_EVENTS, &event->account, &grant->charge, why);
	if (r != 0) {
		HASH_DELETE(by_event, tenant->grants, grant);
		free(grant);
		return r;
	}
	if (!number) {
		admission_warn(tenant, RESOURCE_EVENTS);
		capacity_note(tenant->registry, false);
	}
	LIST_INSERT_HEAD(&event->grants, grant, in_event);
	tenant->lingering++; /* until a client leases it */
	grant_enter(grant);
	*ret = grant;
	return 0;
}

int grant_get(struct tenant *tenant, const struct description *description, uint16_t flags, struct grant **ret,
	      struct text *why)
{
	struct event *event;
	int r = event_get(tenant, description, flags, &event, why);

	if (r != 0)
		return r;
	r = grant_find_or_make(tenant, event, 0, ret, why);
	if (r == 0)
		return 0;
	event_tidy(event);
	/* Not before: giving up kept streams may free the event. */
	if (r > 0 && streams_yield(tenant->level))
		text_printf(why, "; events kept after their programs ended are released now: try again");
	return r;
}

int grant_restore(struct tenant *tenant, uint64_t number, const struct description *description, uint16_t flags,
		  struct grant **ret)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	struct event *event;
	int r = event_get(tenant, description, flags, &event, &why);

	if (r != 0)
		return r < 0 ? r : -EINVAL;
	r = grant_find_or_make(tenant, event, number, ret, &why);
	if (r < 0)
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
	ledger_strike(tenant->registry->ledger, &grant->entry);
	HASH_DELETE(by_event, tenant->grants, grant);
	LIST_REMOVE(grant, in_event);
	quota_charge_deinit(&grant->charge);
	event_tidy(grant->event);
	free(grant);
	tenant_release(tenant);
	return NULL;
}

void grant_persists(struct grant *grant)
{
	if (grant->persistent)
		return;
	grant->persistent = true;
	grant_ref(grant);
	LIST_INSERT_HEAD(&grant->tenant->registry->persistent, grant, persists);
	grant_enter(grant);
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
