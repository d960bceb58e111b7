/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/event.h"

#include <assert.h>

#include "daemon/ledger/entries.h"
#include "daemon/limits.h"
#include "daemon/registry/admission.h"
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

/* What an event is found by: the beginning of its description. */
struct event_key {
	const char *text;
	size_t length;
	uint32_t hash;
};

static struct event_key event_key_make(const char *text, size_t length)
{
	return (struct event_key){ text, length, table_hash(text, length) };
}

/* The key of a multi-format event is its whole description with the NUL, so it is none of the names that are keys of other events. */
static struct event_key event_key(const struct description *description, uint16_t flags)
{
	return event_key_make(description->canonical, flags & REGISTER_MULTI_FORMAT ? strlen(description->canonical) + 1
										    : description->name_length);
}

static struct event *event_find(const struct registry *registry, struct event_key key)
{
	struct event *event;

	HASH_FIND_BYHASHVALUE(by_key, registry->events, key.text, key.length, key.hash, event);
	return event;
}

struct event *event_by_name(const struct registry *registry, const char *name, size_t length)
{
	return event_find(registry, event_key_make(name, length));
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

static int event_new(struct registry *registry, const struct description *description, struct event_key key,
		     uint16_t flags, struct event **ret)
{
	size_t length = strlen(description->canonical);
	struct event *event = malloc(sizeof(*event) + length + 1);

	if (!event)
		return -ENOMEM;
	*event = (struct event){
		.registry = registry,
		.number = registry->last_event + 1,
		.flags = flags & REGISTER_MULTI_FORMAT,
		.name_length = (uint16_t)description->name_length,
		.length = (uint16_t)length,
	};
	memcpy(event->description, description->canonical, length + 1);
	HASH_ADD_KEYPTR_BYHASHVALUE(by_key, registry->events, event->description, key.length, key.hash, event);
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
	const struct grant *own = grant_find(tenant, event);
	const struct tenant *related = own ? NULL : find_related(tenant, event);

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

static bool event_has_fields(const struct event *event, const struct description *description)
{
	return streq(event->description, description->canonical);
}

bool grant_may_be_one_of_many(const struct tenant *tenant)
{
	return tenant->registry->kernel->facts.flags & rules_flags(tenant) & REGISTER_MULTI_FORMAT;
}

/* Finds it, with the key that it has or would have. */
static struct event *event_look_up(const struct tenant *tenant, const struct description *description, uint16_t *flags,
				   struct event_key *ret_key)
{
	struct event *event;

	*ret_key = event_key(description, *flags);
	event = event_find(tenant->registry, *ret_key);
	if (!event || event_has_fields(event, description) || !grant_may_be_one_of_many(tenant))
		return event;
	*flags |= REGISTER_MULTI_FORMAT;
	*ret_key = event_key(description, *flags);
	return event_find(tenant->registry, *ret_key);
}

struct event *event_meant(const struct tenant *tenant, const struct description *description, uint16_t *flags)
{
	struct event_key key;

	return event_look_up(tenant, description, flags, &key);
}

struct grant *grant_find(const struct tenant *tenant, const struct event *event)
{
	return event ? id_table_find(&tenant->grants, event->number) : NULL;
}

/* The grant is in no list yet. NULL: no memory. */
static struct grant *grant_new(struct tenant *tenant, struct event *event, uint64_t number)
{
	struct grant *grant = malloc(sizeof(*grant));

	if (!grant)
		return NULL;
	*grant = (struct grant){
		.event_number = event->number,
		.tenant = tenant,
		.event = event,
		.number = number ? number : ++tenant->registry->last_number,
		.references = 1,
	};
	if (id_table_add(&tenant->grants, grant))
		return grant;
	free(grant);
	return NULL;
}

/* Finds or makes the tenant's grant. `number`: the one that it had before a restart; 0: a new one. */
static int grant_find_or_make(struct tenant *tenant, struct event *event, uint64_t number, struct grant **ret,
			      struct text *why)
{
	struct grant *grant = grant_find(tenant, event);
	int r = 0;

	if (grant) {
		*ret = grant_ref(grant);
		return 0;
	}
	grant = grant_new(tenant, event, number);
	if (!grant)
		return -ENOMEM;
	if (number)
		admission_charge_again(tenant, RESOURCE_EVENTS, &event->account, &grant->charge);
	else
		r = admission_charge(tenant, RESOURCE_EVENTS, &event->account, &grant->charge, why);
	if (r != 0) {
		id_table_remove(&tenant->grants, grant);
		free(grant);
		return r;
	}
	LIST_INSERT_HEAD(&event->grants, grant, in_event);
	tenant->lingering++; /* until a client leases it */
	grant_enter(grant);
	*ret = grant;
	return 0;
}

/* The event is one that was found, or NULL. `number`: see grant_find_or_make(). */
static int grant_make(struct tenant *tenant, const struct description *description, struct event *event,
		      struct event_key key, uint16_t flags, uint64_t number, struct grant **ret, struct text *why)
{
	int r = 0;

	if (!event)
		r = event_new(tenant->registry, description, key, flags, &event);
	else if (!event_has_fields(event, description))
		r = REFUSAL_NAME_TAKEN;
	if (r == REFUSAL_NAME_TAKEN)
		event_say_taken(tenant, event, why);
	if (r != 0)
		return r;
	r = grant_find_or_make(tenant, event, number, ret, why);
	if (r != 0)
		event_tidy(event);
	/* Not before: giving up kept streams may free the event. */
	if (r > 0 && streams_yield(tenant->level))
		text_printf(why, "; events kept after their programs ended are released now: try again");
	return r;
}

int grant_get(struct tenant *tenant, const struct description *description, uint16_t flags, struct grant **ret,
	      struct text *why)
{
	const struct event_key key = event_key(description, flags);

	return grant_make(tenant, description, event_find(tenant->registry, key), key, flags, 0, ret, why);
}

int grant_ask(struct tenant *tenant, const struct description *description, uint16_t *flags, struct grant **ret,
	      struct text *why)
{
	const bool is_plain = *flags == 0;
	struct event_key key;
	struct event *event = event_look_up(tenant, description, flags, &key);
	int r = grant_make(tenant, description, event, key, *flags, 0, ret, why);

	if (r == 0 && is_plain)
		(*ret)->admitted = tenant->registry->generation;
	return r;
}

int grant_restore(struct tenant *tenant, uint64_t number, const struct description *description, uint16_t flags,
		  struct grant **ret)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	const struct event_key key = event_key(description, flags);
	struct event *event = event_find(tenant->registry, key);
	int r = grant_make(tenant, description, event, key, flags, number, ret, &why);

	return r > 0 ? -EINVAL : r;
}

struct grant *grant_admitted(struct tenant *tenant, const char *text, size_t length)
{
	const char *blank = memchr(text, ' ', length);
	const struct event *event = event_by_name(tenant->registry, text, blank ? (size_t)(blank - text) : length);
	struct grant *grant;

	if (!event || event->length != length || memcmp(event->description, text, length) != 0)
		return NULL;
	grant = grant_find(tenant, event);
	return grant && grant->admitted == tenant->registry->generation ? grant_ref(grant) : NULL;
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
	id_table_remove(&tenant->grants, grant);
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
	grant_enter(grant);
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
