/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A reload changes reserves at once. Tenants and levels are updated at their next use, since updating ten thousand of them at
 * once would block all clients.
 *
 * A reserve is identified by its section's pattern: after a reload a section with the same pattern goes on with the reserve
 * as it is filled.
 */

#include "daemon/registry/rules.h"

#include "daemon/process/clock.h"
#include "daemon/process/fds.h"
#include "daemon/quota/reserve.h"
#include "daemon/registry/holder.h"
#include "daemon/registry/tenant.h"

struct section_reserve {
	struct reserve *reserve;
	uint32_t wanted; /* by the policy that is being adopted */
	UT_hash_handle by_pattern;
	char pattern[];
};

static struct section_reserve *section_find(const struct registry *registry, const char *pattern)
{
	struct section_reserve *found;

	HASH_FIND(by_pattern, registry->reserves, pattern, strlen(pattern), found);
	return found;
}

struct reserve *rules_reserve(const struct registry *registry, const char *pattern)
{
	const struct section_reserve *section = section_find(registry, pattern);

	return section ? section->reserve : NULL;
}

const char *rules_pattern(const struct registry *registry, const struct reserve *reserve)
{
	const struct section_reserve *section = registry->reserves;

	while (section && section->reserve != reserve)
		section = section->by_pattern.next;
	return section ? section->pattern : NULL;
}

static struct section_reserve *section_make(struct registry *registry, const char *pattern)
{
	size_t length = strlen(pattern);
	struct section_reserve *made = calloc(1, sizeof(*made) + length + 1);

	if (!made)
		return NULL;
	memcpy(made->pattern, pattern, length);
	made->reserve = reserve_new(&registry->machine, 0);
	if (made->reserve)
		made->reserve->files = reserve_new(&registry->files, 0);
	if (made->reserve && made->reserve->files)
		HASH_ADD(by_pattern, registry->reserves, pattern, length, made);
	if (made->reserve && made->reserve->files && table_added())
		return made;
	reserve_unref(made->reserve);
	free(made);
	return NULL;
}

/*
 * A section for which events are kept free has data files kept free, too: as many as events, since each may be of a program
 * of its own, and programs may have files of their own. All of them together are at most half of the room for files: where
 * they would be more, each is smaller in proportion. Reserves that are not in the policy any more claim their filled part, until
 * that is refunded.
 */
static void settle_reserves(struct registry *registry)
{
	uint64_t all = 0, most = registry->files.capacity / 2;

	for (struct section_reserve *section = registry->reserves; section; section = section->by_pattern.next)
		all += section->wanted;
	for (struct section_reserve *section = registry->reserves, *next; section; section = next) {
		uint64_t files = section->wanted;

		next = section->by_pattern.next;
		if (all > most && files > 0)
			files = MAX(files * most / all, (uint64_t)1);
		reserve_set_maximum(section->reserve, section->wanted);
		reserve_set_maximum(section->reserve->files, (uint32_t)files);
		if (section->wanted > 0)
			continue;
		HASH_DELETE(by_pattern, registry->reserves, section);
		reserve_unref(section->reserve);
		free(section);
	}
}

int rules_adopt(struct registry *registry, struct policy **policy)
{
	const struct sections *sections = &(*policy)->sections;
	struct policy *before = registry->policy;

	registry->files.capacity = fds_for_files();
	for (struct section_reserve *section = registry->reserves; section; section = section->by_pattern.next)
		section->wanted = 0;
	for (size_t i = 0; i < sections->n; i++) {
		const uint32_t reserve = sections->at[i]->values[POLICY_RESERVE_EVENTS].number;
		struct section_reserve *section;

		if (reserve == 0)
			continue;
		section = section_find(registry, sections->at[i]->name);
		if (!section)
			section = section_make(registry, sections->at[i]->name);
		/* Reserves that were just made have no maximum yet, and go when reserves are settled next. */
		if (!section)
			return -ENOMEM;
		section->wanted = reserve;
	}
	settle_reserves(registry);
	registry->policy = *policy;
	*policy = before;
	registry->generation++;
	return 0;
}

void rules_deinit(struct registry *registry)
{
	for (struct section_reserve *section = registry->reserves; section; section = section->by_pattern.next)
		section->wanted = 0;
	settle_reserves(registry);
	summaries_deinit(registry);
	registry->policy = policy_unref(registry->policy);
}

static void set_requests(struct bucket *bucket, const struct policy_value *value)
{
	bucket_set(bucket, value ? value->number : UINT32_MAX, value ? value->burst : UINT32_MAX, clock_now());
}

static const enum policy_key limits[RESOURCES] = {
	[RESOURCE_EVENTS] = POLICY_MAX_EVENTS,
	[RESOURCE_FILES] = POLICY_MAX_FILES,
	[RESOURCE_LEASES] = POLICY_MAX_LEASES,
	[RESOURCE_CONNECTIONS] = POLICY_MAX_CONNECTIONS,
};

enum policy_key rules_limit_key(enum resource resource, bool is_own)
{
	return is_own ? limits[resource] : policy_keys[limits[resource]].of_daemon;
}

static void set_maximum(const struct registry *registry, struct level *level, const struct policy_rules *rules,
			enum resource resource)
{
	const struct policy_value *by = rules->value[limits[resource]];
	bool is_own = by && !by->is_default;
	uint32_t maximum;

	if (!is_own)
		by = policy_daemon(registry->policy, rules_limit_key(resource, false));
	maximum = by->number;
	if (!is_own && resource == RESOURCE_EVENTS && registry->options->max_events != OPTIONS_UNSET) {
		by = NULL;
		maximum = registry->options->max_events;
	}
	level->maximum_by[resource] = by;
	if (streq(level->path, TENANT_OF_POLICY))
		level_set_maximum(level, resource, QUOTA_NO_MAXIMUM, true);
	else
		level_set_maximum(level, resource, maximum, is_own);
}

/*
 * Called for each level around a new connection. Most connections belong to an existing tenant, whose levels have the answer.
 */
enum policy_tenant rules_border(void *data, const char *path)
{
	const struct registry *registry = data;
	const struct level *level = level_find(&registry->levels, path, strlen(path));

	if (level && level->generation == registry->generation)
		return level->border;
	return policy_tenant(registry->policy, path);
}

static void forget_reserves(struct rules *rules)
{
	while (rules->n_reserves > 0)
		reserve_unref(rules->reserve[--rules->n_reserves]);
}

/* The nearest section's first. A pattern may match several cgroups around the tenant: it counts once. */
static void find_reserves(struct tenant *tenant)
{
	struct rules *rules = &tenant->rules;

	forget_reserves(rules);
	for (const struct level *level = tenant->level; *tenant->path == '/' && level; level = level->parent) {
		const struct section_reserve *section = NULL;
		struct policy_rules here;
		size_t i = 0;

		policy_lookup(&tenant->registry->policy->sections, level->path, &here);
		if (here.value[POLICY_RESERVE_EVENTS])
			section = section_find(tenant->registry, here.value[POLICY_RESERVE_EVENTS]->origin.section);
		while (section && i < rules->n_reserves && rules->reserve[i] != section->reserve)
			i++;
		if (section && i == rules->n_reserves && i < ARRAY_SIZE(rules->reserve))
			rules->reserve[rules->n_reserves++] = reserve_ref(section->reserve);
	}
}

void rules_update(struct tenant *tenant)
{
	static const struct policy_value yes = { .is_default = true, .number = true };
	struct registry *registry = tenant->registry;
	struct rules *rules = &tenant->rules;

	for (struct level *level = tenant->level; level && level->generation != registry->generation;
	     level = level->parent) {
		const struct policy_value *requests;
		struct policy_rules here;

		policy_lookup(&registry->policy->sections, level->path, &here);
		for (enum resource i = 0; i < RESOURCES; i++)
			set_maximum(registry, level, &here, i);
		requests = here.value[POLICY_MAX_REQUESTS_PER_SECOND];
		set_requests(&level->requests, requests);
		if (!requests || requests->is_default)
			requests = policy_daemon(registry->policy, POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND);
		set_requests(&level->own_requests, requests);
		level->border = policy_rules_tenant(&here);
		level->generation = registry->generation;
	}
	if (rules->policy == registry->policy)
		return;
	policy_unref(rules->policy);
	rules->policy = policy_ref(registry->policy);
	policy_resolve(rules->policy, tenant->path, &rules->values);
	if (registry->options->allow_persist && rules->values.value[POLICY_ALLOW_PERSIST]->is_default)
		rules->values.value[POLICY_ALLOW_PERSIST] = &yes;
	find_reserves(tenant);
	tenant->summary = summary_of_path(registry, tenant->path);
}

void rules_forget(struct tenant *tenant)
{
	forget_reserves(&tenant->rules);
	tenant->rules.policy = policy_unref(tenant->rules.policy);
}

static const struct policy_value *rules_value(const struct tenant *tenant, enum policy_key key)
{
	return tenant->rules.values.value[key];
}

bool rules_share_streams(const struct tenant *tenant)
{
	const struct registry *registry = tenant->registry;
	const uint32_t stream = rules_value(tenant, POLICY_STREAM)->number;

	if (stream == POLICY_STREAM_SHARED)
		return registry->kernel->facts.backend != BACKEND_EMBEDDED;
	return stream == POLICY_STREAM_AUTO && registry->guarded;
}

/* A client that connects while the guard holds counts as a possible root when the guard goes. */
bool rules_are_unguarded(const struct registry *registry)
{
	return !registry->guarded && registry->kernel->facts.backend != BACKEND_EMBEDDED;
}

/*
 * Root of this machine can open a data file that it was given once more, and register on that unnoticed; in a container it can't
 * open one otherwise.
 */
const char *rules_distrust(const struct holder *holder)
{
	const struct tenant *tenant = holder->tenant;

	if (!rules_are_unguarded(tenant->registry) || !tenant->is_contained ||
	    rules_value(tenant, POLICY_ALLOW_HOST_ROOT)->number)
		return NULL;
	/* A set-user-ID program of root's can become root again. */
	if (holder->known.uid == 0 || holder->known.real_uid == 0)
		return "root of the machine gets no data file in a container, where nothing guards it; run it in a user "
		       "namespace of its own, or ask the admin for AllowHostRoot=yes";
	/* It can hand the file to a parent or child that is root. */
	if (holder->known.may_be_root && !rules_value(tenant, POLICY_ALLOW_HOST_USERNS)->number)
		return "a container in the machine's user namespace gets no data file where nothing guards it; give it one "
		       "of its own, or ask the admin for AllowHostUserns=yes";
	return NULL;
}

const char *rules_prefix(const struct tenant *tenant)
{
	return rules_value(tenant, POLICY_NAME_PREFIX)->text;
}

uint32_t rules_trace_bytes(const struct tenant *tenant)
{
	return rules_value(tenant, POLICY_OWN_TRACING)->number ? rules_value(tenant, POLICY_MAX_TRACE_BYTES)->number
							       : 0;
}

uint32_t rules_keep_for(const struct tenant *tenant)
{
	return rules_value(tenant, POLICY_KEEP_FOR)->number;
}

uint16_t rules_flags(const struct tenant *tenant)
{
	uint16_t flags = 0;

	if (rules_value(tenant, POLICY_ALLOW_PERSIST)->number)
		flags |= REGISTER_PERSIST;
	if (rules_value(tenant, POLICY_ALLOW_MULTI_FORMAT)->number)
		flags |= REGISTER_MULTI_FORMAT;
	return flags;
}
