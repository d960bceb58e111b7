/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Several sections may match a path. For each key the value of the most specific pattern counts: the pattern with more components
 * without wildcards; of equals, with more literal bytes; of equals, without **; of equals, the value that was given last.
 *
 * A client that connects has the Tenant= of all cgroups around it looked up. Few sections have that key, so a list of their own
 * keeps this cheap.
 */

#include "daemon/policy/build.h"

#include <inttypes.h>
#include <stdio.h>

#include "protocol/event/description.h"

enum { OWNED_MAX = 1000 }; /* globs of OwnNames=, of which half a million pairs are compared in a tenth of a second */

static bool section_has(const struct section *section, enum policy_key key)
{
	return section->values[key].origin.file;
}

struct policy_block {
	struct policy_block *next;
	max_align_t data[];
};

struct policy *policy_new(void)
{
	struct policy *policy = calloc(1, sizeof(*policy));

	if (policy)
		*policy = (struct policy){ .references = 1, .daemon.name = "Daemon" };
	return policy;
}

void *policy_allocate(struct policy *policy, size_t size)
{
	struct policy_block *block = calloc(1, sizeof(*block) + size);

	if (!block) {
		policy->failed = true;
		return NULL;
	}
	block->next = policy->memory;
	policy->memory = block;
	return block->data;
}

void *policy_grow(struct policy *policy, void *array, size_t n, size_t element_size)
{
	void *grown;

	if (n & (n - 1))
		return array;
	grown = policy_allocate(policy, MAX(n * 2, (size_t)1) * element_size);
	return grown && n > 0 ? memcpy(grown, array, n * element_size) : grown;
}

struct policy *policy_ref(struct policy *policy)
{
	policy->references++;
	return policy;
}

struct policy *policy_unref(struct policy *policy)
{
	if (!policy || --policy->references > 0)
		return NULL;
	for (struct policy_block *block = policy->memory, *next; block; block = next) {
		next = block->next;
		free(block);
	}
	policy_copy_deinit(&policy->copy);
	free(policy);
	return NULL;
}

static void sections_insert(struct policy *policy, struct sections *sections, size_t at, struct section *section)
{
	struct section **grown = policy_grow(policy, sections->at, sections->n, sizeof(struct section *));

	if (!grown)
		return;
	memmove(grown + at + 1, grown + at, (sections->n - at) * sizeof(struct section *));
	grown[at] = section;
	sections->at = grown;
	sections->n++;
}

/* The index of the section of this name, or of the place where it belongs. */
static size_t sections_find(const struct sections *sections, const char *name, struct section **ret)
{
	size_t first = 0, end = sections->n;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (strcmp(sections->at[middle]->name, name) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	*ret = first < sections->n && streq(sections->at[first]->name, name) ? sections->at[first] : NULL;
	return first;
}

struct section *policy_section(struct policy *policy, char *name, struct policy_origin place, struct problems *problems)
{
	static const char before[] = "Event ";
	const char *event = policy_event_name(name), *wrong = NULL;
	struct sections *sections = event ? &policy->events : &policy->sections;
	struct section *section;
	char *room = NULL;
	size_t at;

	if (policy_section_kind(name) == POLICY_SECTION_DAEMON)
		return &policy->daemon;
	/* One blank, however many the line has. */
	if (event)
		name = memcpy(name + (event - name) - strlen(before), before, strlen(before));
	at = sections_find(sections, name, &section);
	if (section)
		return section;
	section = policy_allocate(policy, sizeof(*section));
	if (!section)
		return NULL;
	section->name = name;
	if (!event)
		room = policy_allocate(policy, 2 * strlen(name) + 2);
	else if (!description_is_name(event, strlen(event)))
		wrong = "no event has such a name; give letters, digits and _";
	if (room)
		wrong = pattern_parse(name, room, &section->pattern);
	if (wrong) {
		problems_add(problems, PROBLEM_ERROR, place, "[%s]: %s", excerpt_of(name).text, wrong);
		return NULL;
	}
	place.section = name;
	section->origin = place;
	sections_insert(policy, sections, at, section);
	return section;
}

/* A key that a section of this kind does not have is ignored, with a warning. */
static void warn_of_key(const char *name, enum policy_section section, struct policy_origin place,
			struct problems *problems)
{
	static const char *const right[] = {
		[POLICY_SECTION_DAEMON] = "[Daemon]",
		[POLICY_SECTION_CGROUPS] = "a section of cgroups such as [/system.slice/*]",
		[POLICY_SECTION_EVENT] = "a section of an event such as [Event request]",
	};
	enum policy_key key = policy_key_find(name), similar = policy_key_suggest(name, section);
	struct excerpt shown = excerpt_of(name);

	if (key != POLICY_KEYS)
		problems_add(problems, PROBLEM_UNKNOWN, place, "%s=: belongs in %s; here it is ignored", shown.text,
			     right[policy_key_section(key)]);
	else if (similar != POLICY_KEYS)
		problems_add(problems, PROBLEM_UNKNOWN, place, "%s=: there is no such key; did you mean %s=?",
			     shown.text, policy_keys[similar].name);
	else
		problems_add(problems, PROBLEM_UNKNOWN, place, "%s=: there is no such key; see userevd.conf(5)",
			     shown.text);
}

void policy_assign(struct policy *policy, struct section *section, const char *name, char *text,
		   struct policy_origin place, struct problems *problems)
{
	enum policy_section kind = policy_section_kind(section->name);
	enum policy_key key = policy_key_find(name);
	struct excerpt shown = excerpt_of(text);
	TEXT(why, 256);

	place.section = section->name;
	if (strncmp(name, "X-", 2) == 0)
		return;
	if (key == POLICY_KEYS || policy_key_section(key) != kind) {
		warn_of_key(name, kind, place, problems);
		return;
	}
	if (!section_has(section, key) && key == POLICY_TENANT)
		sections_insert(policy, &policy->borders, policy->borders.n, section);
	if (!section_has(section, key) && key == POLICY_OWN_NAMES)
		sections_insert(policy, &policy->owners, policy->owners.n, section);
	if (!policy_value_set(policy, key, text, &place, &section->values[key], &why))
		problems_add(problems, PROBLEM_ERROR, place, "%s=%s: %s", name, shown.text, why.buffer);
	/* Each of the cgroups inside would get the limit, and the outermost one would hold them all down to it. */
	else if (!section->values[key].is_default && policy_keys[key].reach == POLICY_OF_CGROUP &&
		 key != POLICY_TENANT && key != POLICY_RESERVE_EVENTS && pattern_is_nested(&section->pattern))
		problems_add(
			problems, PROBLEM_WARNING, place,
			"%s=: a pattern that ends with ** matches cgroups and those around them, and the limit of a "
			"cgroup holds for all inside it; end the pattern with the name of the cgroup that is meant",
			name);
}

const struct policy_value *policy_section_value(const struct section *section, enum policy_key key)
{
	return section_has(section, key) ? &section->values[key] : &policy_keys[key].value;
}

const struct policy_value *policy_daemon(const struct policy *policy, enum policy_key key)
{
	return policy_section_value(&policy->daemon, key);
}

/* Where each process is a tenant, its name is no path. */
void policy_lookup(const struct sections *sections, const char *path, struct policy_rules *ret)
{
	const struct section *best[POLICY_CGROUP_KEYS] = { 0 };
	size_t depth = path_depth(path);

	*ret = (struct policy_rules){ 0 };
	for (size_t i = 0; path[0] == '/' && i < sections->n; i++) {
		const struct section *section = sections->at[i];

		if (!pattern_matches(&section->pattern, path, depth))
			continue;
		for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++) {
			const struct policy_value *value = &section->values[key];
			int order = best[key] ? pattern_compare(&section->pattern, &best[key]->pattern) : 1;

			if (!section_has(section, key) || order < 0 ||
			    (order == 0 && value->order < ret->value[key]->order))
				continue;
			best[key] = section;
			ret->value[key] = value;
		}
	}
}

bool policy_next_level(struct policy_levels *levels)
{
	size_t length = levels->length;

	if (levels->from[0] != '/' || levels->n > POLICY_LEVELS_MAX || (length > 0 && levels->from[length] == '\0'))
		return false;
	/* The root ends with the slash, other levels in front of one. */
	length += length != 1;
	if (levels->n > 0)
		length += strcspn(levels->from + length, "/");
	string_copy(levels->path, MIN(length + 1, sizeof(levels->path)), levels->from);
	levels->length = length;
	levels->n++;
	return true;
}

/*
 * The value of an inner level replaces the value of its ancestors; limits are each level's own. Denials add up: otherwise a list
 * for one service would silently undo the list for the whole machine.
 */
void policy_resolve(const struct policy *policy, const char *path, struct policy_rules *ret)
{
	struct policy_levels levels = { .from = path };

	*ret = (struct policy_rules){ .policy = policy, .path = path };
	while (policy_next_level(&levels)) {
		struct policy_rules here;

		policy_lookup(&policy->sections, levels.path, &here);
		for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
			if (here.value[key] || policy_keys[key].reach == POLICY_OF_CGROUP)
				ret->value[key] = here.value[key];
		if (here.value[POLICY_DENY_EVENTS])
			ret->denials[ret->n_denials++] = here.value[POLICY_DENY_EVENTS];
	}
	for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
		if (!ret->value[key])
			ret->value[key] = &policy_keys[key].value;
}

const struct policy_value *policy_tenant_limit(const struct policy_rules *rules, enum policy_key key)
{
	const struct policy_value *own = rules->value[key];

	return own->is_default ? policy_daemon(rules->policy, policy_keys[key].of_daemon) : own;
}

enum policy_tenant policy_rules_tenant(const struct policy_rules *rules)
{
	const struct policy_value *value = rules->value[POLICY_TENANT];

	return value ? (enum policy_tenant)value->number : POLICY_TENANT_UNSET;
}

enum policy_tenant policy_tenant(const struct policy *policy, const char *path)
{
	struct policy_rules rules;

	policy_lookup(&policy->borders, path, &rules);
	return policy_rules_tenant(&rules);
}

const struct section *policy_nearest(const struct policy *policy, const char *path)
{
	struct policy_levels levels = { .from = path };
	const struct section *nearest = NULL;
	unsigned level = 0;

	while (policy_next_level(&levels)) {
		const size_t depth = path_depth(levels.path);

		for (size_t i = 0; i < policy->sections.n; i++) {
			const struct section *section = policy->sections.at[i];

			if (!pattern_matches(&section->pattern, levels.path, depth))
				continue;
			if (level == levels.n && pattern_compare(&section->pattern, &nearest->pattern) < 0)
				continue;
			nearest = section;
			level = levels.n;
		}
	}
	return nearest;
}

bool policy_section_has(const struct section *section, const char *path)
{
	struct policy_levels levels = { .from = path };

	while (policy_next_level(&levels))
		if (pattern_matches(&section->pattern, levels.path, path_depth(levels.path)))
			return true;
	return false;
}

const struct section *policy_find_event(const struct policy *policy, const char *name, size_t length)
{
	char plain[sizeof("Event ") + DESCRIPTION_NAME_MAX];
	struct section *section = NULL;

	if (length > DESCRIPTION_NAME_MAX)
		return NULL;
	snprintf(plain, sizeof(plain), "Event %.*s", (int)length, name);
	sections_find(&policy->events, plain, &section);
	return section;
}

uint64_t policy_sum_maxima(const struct policy *policy)
{
	uint64_t sum = policy->events.n;

	for (size_t i = 0; i < policy->sections.n; i++) {
		const struct section *section = policy->sections.at[i];
		const struct policy_value *maximum = &section->values[POLICY_MAX_EVENTS];
		uint32_t reserve = section->values[POLICY_RESERVE_EVENTS].number;
		bool limits = section_has(section, POLICY_MAX_EVENTS) && maximum->number != POLICY_INFINITY;

		sum += limits ? MAX(maximum->number, reserve) : reserve;
	}
	return sum;
}

/* Each glob of the section against the globs of the sections before it. */
static void check_owner(const struct sections *owners, size_t which, struct problems *problems)
{
	const struct policy_value *names = &owners->at[which]->values[POLICY_OWN_NAMES];

	for (size_t i = 0; i < names->n_globs; i++) {
		const struct policy_glob *glob = &names->globs[i], *overlap = NULL;

		for (size_t k = 0; k < which && !overlap; k++) {
			const struct policy_value *other = &owners->at[k]->values[POLICY_OWN_NAMES];

			for (size_t l = 0; l < other->n_globs && !overlap; l++)
				if (globs_overlap(other->globs[l].text, glob->text))
					overlap = &other->globs[l];
		}
		if (overlap)
			problems_add(
				problems, PROBLEM_ERROR, glob->origin,
				"OwnNames=%s: some of these names are already owned by [%s], with OwnNames=%s in %s:%u",
				excerpt_of(glob->text).text, excerpt_of(overlap->origin.section).text,
				excerpt_of(overlap->text).text, overlap->origin.file, overlap->origin.line);
	}
}

void policy_check_sections(const struct policy *policy, struct problems *problems)
{
	const struct sections *owners = &policy->owners;
	size_t n_globs = 0;

	for (size_t i = 0; i < policy->sections.n; i++) {
		const struct policy_value *maximum = &policy->sections.at[i]->values[POLICY_MAX_EVENTS];
		uint32_t reserve = policy->sections.at[i]->values[POLICY_RESERVE_EVENTS].number;

		if (maximum->origin.file && !maximum->is_default && maximum->number < reserve)
			problems_add(problems, PROBLEM_WARNING, maximum->origin,
				     "MaxEvents=%" PRIu32 ": ReserveEvents=%" PRIu32
				     " of the same section is more, and no cgroup can use all of it",
				     maximum->number, reserve);
	}
	for (size_t i = 0; i < owners->n; i++) {
		const struct policy_value *names = &owners->at[i]->values[POLICY_OWN_NAMES];

		n_globs += names->n_globs;
		if (n_globs <= OWNED_MAX) {
			check_owner(owners, i, problems);
			continue;
		}
		problems_add(problems, PROBLEM_ERROR, names->origin,
			     "OwnNames=: all sections together own at most %d globs", OWNED_MAX);
		return;
	}
}

int policy_check_capacity(const struct policy *policy, uint32_t capacity, struct problems *problems)
{
	const struct sections *events = &policy->events;
	const struct policy_origin *last = events->n > 0 ? &events->at[events->n - 1]->origin : NULL;
	uint64_t sum = events->n;
	unsigned order = 0;

	for (size_t i = 0; i < policy->sections.n; i++) {
		const struct policy_value *reserve = &policy->sections.at[i]->values[POLICY_RESERVE_EVENTS];

		sum += reserve->number;
		if (reserve->number == 0 || reserve->order < order)
			continue;
		last = &reserve->origin;
		order = reserve->order;
	}
	if (sum <= capacity || !last)
		return 0;
	problems_add(problems, PROBLEM_ERROR, *last,
		     "[%s]: the reserves of all sections%s add up to %" PRIu64 " events, and there is room for %" PRIu32
		     "; take away %" PRIu64,
		     last->section, events->n > 0 ? " and the declared events" : "", sum, capacity, sum - capacity);
	return POLICY_E_WRONG;
}

enum policy_native policy_native(const struct policy *policy)
{
	uint32_t most = POLICY_NATIVE_NO;

	for (size_t i = 0; i < policy->sections.n; i++)
		most = MAX(most, policy->sections.at[i]->values[POLICY_NATIVE].number);
	return (enum policy_native)most;
}
