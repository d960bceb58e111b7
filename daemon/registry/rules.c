/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A reload changes nothing at once but what is set aside. Tenants and levels find out about it when they are looked at next,
 * since to go through ten thousand of them would keep everybody waiting; who asks for nothing can do without.
 *
 * A section's reserve goes by its pattern: a reload that names the same one goes on with what is filled.
 */

#include "daemon/registry/rules.h"

#include "daemon/connection/throttle.h"
#include "daemon/daemon.h"
#include "daemon/quota/reserve.h"
#include "daemon/registry/tenant.h"
#include "daemon/requests/bundle.h"

struct section_reserve {
	struct reserve *reserve;
	uint32_t wanted; /* by the policy that is being adopted */
	UT_hash_handle by_pattern;
	char pattern[];
};

static struct section_reserve *find_reserve(const struct daemon *daemon, const char *pattern)
{
	struct section_reserve *found;

	HASH_FIND(by_pattern, daemon->reserves, pattern, strlen(pattern), found);
	return found;
}

static struct section_reserve *reserve_make(struct daemon *daemon, const char *pattern)
{
	size_t length = strlen(pattern);
	struct section_reserve *made = calloc(1, sizeof(*made) + length + 1);

	if (!made)
		return NULL;
	memcpy(made->pattern, pattern, length);
	made->reserve = reserve_new(&daemon->machine, 0);
	if (made->reserve)
		made->reserve->files = reserve_new(&daemon->files, 0);
	if (made->reserve && made->reserve->files)
		HASH_ADD(by_pattern, daemon->reserves, pattern, length, made);
	if (made->reserve && made->reserve->files && table_added())
		return made;
	reserve_unref(made->reserve);
	free(made);
	return NULL;
}

/*
 * A section for which events are kept free has data files kept free, too: as many as events, since each may be of a program
 * of its own, and programs may have files of their own. All of them together are at most half of the room for files: where
 * they would be more, each is smaller in proportion.
 */
static uint32_t files_for(const struct daemon *daemon, uint32_t events, uint64_t all_events)
{
	uint64_t most = daemon->files.capacity / 2;

	return (uint32_t)(all_events <= most || events == 0 ? events : MAX(events * most / all_events, (uint64_t)1));
}

/* Those that nobody wants any more claim what is filled, until that is given back. */
static void settle_reserves(struct daemon *daemon)
{
	uint64_t all = 0;

	for (struct section_reserve *section = daemon->reserves; section; section = section->by_pattern.next)
		all += section->wanted;
	for (struct section_reserve *section = daemon->reserves, *next; section; section = next) {
		next = section->by_pattern.next;
		reserve_set_maximum(section->reserve, section->wanted);
		reserve_set_maximum(section->reserve->files, files_for(daemon, section->wanted, all));
		if (section->wanted > 0)
			continue;
		HASH_DELETE(by_pattern, daemon->reserves, section);
		reserve_unref(section->reserve);
		free(section);
	}
}

static int want_reserves(struct daemon *daemon, const struct policy *policy)
{
	struct policy_reserve reserve;

	for (struct section_reserve *section = daemon->reserves; section; section = section->by_pattern.next)
		section->wanted = 0;
	for (size_t at = 0; policy_next_reserve(policy, &at, &reserve);) {
		struct section_reserve *section = find_reserve(daemon, reserve.pattern);

		if (!section)
			section = reserve_make(daemon, reserve.pattern);
		if (!section)
			return -ENOMEM;
		section->wanted = reserve.value->number;
	}
	return 0;
}

/* As they were: what was just made has no maximum yet. */
static void want_as_before(struct daemon *daemon)
{
	for (struct section_reserve *section = daemon->reserves; section; section = section->by_pattern.next)
		section->wanted = section->reserve->maximum;
}

int rules_adopt(struct daemon *daemon, struct policy **policy)
{
	struct policy *before = daemon->policy;
	int r;

	daemon->files.capacity = daemon_file_capacity();
	r = want_reserves(daemon, *policy);
	if (r < 0)
		want_as_before(daemon);
	settle_reserves(daemon);
	if (r < 0)
		return r;
	daemon->policy = *policy;
	*policy = before;
	daemon->generation++;
	return 0;
}

void rules_deinit(struct daemon *daemon)
{
	for (struct section_reserve *section = daemon->reserves; section; section = section->by_pattern.next)
		section->wanted = 0;
	settle_reserves(daemon);
	daemon->policy = policy_unref(daemon->policy);
}

static uint32_t default_max_events(const struct daemon *daemon)
{
	if (daemon->options.max_events != OPTIONS_UNSET)
		return daemon->options.max_events;
	return policy_daemon(daemon->policy, POLICY_DEFAULT_MAX_EVENTS)->number;
}

static void set_requests(struct bucket *bucket, const struct policy_value *value)
{
	bucket_set(bucket, value ? value->number : UINT32_MAX, value ? value->burst : UINT32_MAX, daemon_now());
}

static const struct {
	enum policy_key own, of_daemon;
} limits[RESOURCES] = {
	[RESOURCE_EVENTS] = { POLICY_MAX_EVENTS, POLICY_DEFAULT_MAX_EVENTS },
	[RESOURCE_FILES] = { POLICY_MAX_FILES, POLICY_DEFAULT_MAX_FILES },
	[RESOURCE_LEASES] = { POLICY_MAX_LEASES, POLICY_DEFAULT_MAX_LEASES },
};

static uint32_t default_maximum(const struct daemon *daemon, enum resource resource)
{
	return resource == RESOURCE_EVENTS ? default_max_events(daemon)
					   : policy_daemon(daemon->policy, limits[resource].of_daemon)->number;
}

static const struct policy_value *default_is_by(const struct daemon *daemon, enum resource resource)
{
	if (resource == RESOURCE_EVENTS && daemon->options.max_events != OPTIONS_UNSET)
		return NULL;
	return policy_daemon(daemon->policy, limits[resource].of_daemon);
}

static void set_maximum(const struct daemon *daemon, struct level *level, const struct policy_rules *rules,
			enum resource resource)
{
	const struct policy_value *own = rules->value[limits[resource].own];
	bool is_own = own && !own->is_default;

	level->maximum_by[resource] = is_own ? own : default_is_by(daemon, resource);
	if (streq(level->path, TENANT_OF_POLICY))
		level_set_maximum(level, resource, QUOTA_NO_MAXIMUM, true);
	else
		level_set_maximum(level, resource, is_own ? own->number : default_maximum(daemon, resource), is_own);
}

enum policy_key rules_limit_key(enum resource resource, bool is_own)
{
	return is_own ? limits[resource].own : limits[resource].of_daemon;
}

static void set_limits(struct daemon *daemon, struct level *level, const struct policy_rules *rules)
{
	const struct policy_value *connections = rules->value[POLICY_MAX_CONNECTIONS];
	const struct policy_value *requests = rules->value[POLICY_MAX_REQUESTS_PER_SECOND];

	for (enum resource i = 0; i < RESOURCES; i++)
		set_maximum(daemon, level, rules, i);
	level->connections_by = connections;
	level->max_connections = connections ? connections->number : LEVEL_NO_LIMIT;
	set_requests(&level->requests, requests);
	if (!requests || requests->is_default)
		requests = policy_daemon(daemon->policy, POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND);
	set_requests(&level->own_requests, requests);
}

static void update_levels(struct daemon *daemon, struct level *level)
{
	for (; level && level->generation != daemon->generation; level = level->parent) {
		struct policy_rules here;

		policy_lookup(daemon->policy, level->path, &here);
		set_limits(daemon, level, &here);
		level->border = policy_rules_tenant(&here);
		level->generation = daemon->generation;
	}
}

/* Each new connection asks of all that is around it, and most are of a tenant that is there: what its levels know will do. */
enum policy_tenant rules_border(const struct daemon *daemon, const char *path)
{
	const struct level *level = level_find(&daemon->levels, path);

	if (level && level->generation == daemon->generation)
		return level->border;
	return policy_tenant(daemon->policy, path);
}

static void forget_reserves(struct rules *rules)
{
	while (rules->n_reserves > 0)
		reserve_unref(rules->reserve[--rules->n_reserves]);
}

struct search {
	const struct daemon *daemon;
	struct rules *rules;
};

/* A pattern may match several cgroups around the tenant: the nearest one counts. */
static void take_out(struct rules *rules, const struct reserve *reserve)
{
	for (size_t i = 0; i < rules->n_reserves; i++) {
		if (rules->reserve[i] != reserve)
			continue;
		reserve_unref(rules->reserve[i]);
		rules->n_reserves--;
		for (; i < rules->n_reserves; i++)
			rules->reserve[i] = rules->reserve[i + 1];
		return;
	}
}

static bool add_reserve(void *data, const char *path)
{
	const struct search *search = data;
	const struct section_reserve *section;
	struct policy_rules here;

	policy_lookup(search->daemon->policy, path, &here);
	section = here.value[POLICY_RESERVE_EVENTS]
			  ? find_reserve(search->daemon, here.value[POLICY_RESERVE_EVENTS]->origin.section)
			  : NULL;
	if (!section)
		return false;
	take_out(search->rules, section->reserve);
	search->rules->reserve[search->rules->n_reserves++] = reserve_ref(section->reserve);
	return false;
}

/* Found from the root on; filled from the nearest one on. */
static void find_reserves(struct tenant *tenant)
{
	struct rules *rules = &tenant->rules;
	struct search search = { tenant->daemon, rules };

	forget_reserves(rules);
	if (*tenant->path == '/')
		policy_walk(tenant->path, add_reserve, &search);
	for (size_t i = 0; i < rules->n_reserves / 2; i++) {
		struct reserve *swapped = rules->reserve[i];

		rules->reserve[i] = rules->reserve[rules->n_reserves - 1 - i];
		rules->reserve[rules->n_reserves - 1 - i] = swapped;
	}
}

void rules_update(struct tenant *tenant)
{
	static const struct policy_value yes = { .is_default = true, .number = true };
	struct daemon *daemon = tenant->daemon;
	struct rules *rules = &tenant->rules;

	update_levels(daemon, tenant->level);
	if (rules->policy == daemon->policy)
		return;
	policy_unref(rules->policy);
	rules->policy = policy_ref(daemon->policy);
	policy_resolve(rules->policy, tenant->path, &rules->values);
	if (daemon->options.allow_persist && rules->values.value[POLICY_ALLOW_PERSIST]->is_default)
		rules->values.value[POLICY_ALLOW_PERSIST] = &yes;
	rules->max_connections = policy_tenant_limit(rules->policy, &rules->values, POLICY_MAX_CONNECTIONS)->number;
	find_reserves(tenant);
	/* What was granted in those words might be refused now. */
	bundles_unlist(tenant);
}

/* As it was at the start: who has been given a file keeps it. */
const char *rules_guard(const struct daemon *daemon)
{
	static const char *const words[] = {
		[POLICY_GUARD_REQUIRE] = "require",
		[POLICY_GUARD_PREFER] = "prefer",
		[POLICY_GUARD_OFF] = "off",
	};

	return words[policy_daemon(daemon->policy, POLICY_GUARD)->number];
}

void rules_forget(struct tenant *tenant)
{
	forget_reserves(&tenant->rules);
	tenant->rules.policy = policy_unref(tenant->rules.policy);
}

static const struct policy_value *value_of(const struct tenant *tenant, enum policy_key key)
{
	return tenant->rules.values.value[key];
}

bool rules_share_streams(const struct tenant *tenant)
{
	const struct daemon *daemon = tenant->daemon;

	switch (value_of(tenant, POLICY_STREAM)->number) {
	case POLICY_STREAM_CLIENT:
		return false;
	case POLICY_STREAM_SHARED:
		return daemon->kernel->facts.backend != BACKEND_EMBEDDED;
	default:
		return daemon->guarded;
	}
}

/*
 * Root of this machine can open a data file that it was given once more, and register on that unnoticed; in a container it can't
 * open one otherwise.
 */
static bool trusts_root(const struct tenant *tenant)
{
	const struct daemon *daemon = tenant->daemon;

	return daemon->guarded || daemon->kernel->facts.backend == BACKEND_EMBEDDED || !tenant->is_contained ||
	       value_of(tenant, POLICY_ALLOW_HOST_ROOT)->number;
}

/* Who has connected as another user, but is root all the same, can be it again whenever it likes. */
static bool is_root(const struct client *client)
{
	return client->uid == 0 || client->real_uid == 0;
}

/* Should the guard go while it is connected, it counts as one that may. */
bool rules_ask_for_root(const struct daemon *daemon)
{
	return !daemon->guarded && daemon->kernel->facts.backend != BACKEND_EMBEDDED;
}

const char *rules_distrust(const struct client *client)
{
	if (trusts_root(client->tenant))
		return NULL;
	if (is_root(client))
		return "root of the machine gets no data file in a container, where nothing guards it; run it in a user "
		       "namespace of its own, or ask the admin for AllowHostRoot=yes";
	/* It can hand the file to a parent or child that is root. */
	if (client->may_be_root && !value_of(client->tenant, POLICY_ALLOW_HOST_USERNS)->number)
		return "a container in the machine's user namespace gets no data file where nothing guards it; give it one "
		       "of its own, or ask the admin for AllowHostUserns=yes";
	return NULL;
}

uint32_t rules_keep_for(const struct tenant *tenant)
{
	return value_of(tenant, POLICY_KEEP_FOR)->number;
}

uint16_t rules_flags(const struct tenant *tenant)
{
	uint16_t flags = 0;

	if (value_of(tenant, POLICY_ALLOW_PERSIST)->number)
		flags |= REGISTER_PERSIST;
	if (value_of(tenant, POLICY_ALLOW_MULTI_FORMAT)->number)
		flags |= REGISTER_MULTI_FORMAT;
	return flags;
}
