/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Several sections may match a path. For each key the value of the most specific pattern counts: the pattern with more components
 * without wildcards; of equals, with more literal bytes; of equals, without **; of equals, the value that was given last.
 *
 * A client that connects has the Tenant= of all cgroups around it looked up. Few sections have that key, so a list of their own
 * keeps this cheap.
 */

#include "daemon/policy/policy.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/policy/build.h"
#include "daemon/policy/glob.h"
#include "protocol/base/array.h"
#include "protocol/event/description.h"

enum { OWNED_MAX = 1000 }; /* globs of OwnNames=, of which half a million pairs are compared in a tenth of a second */

static bool section_has(const struct section *section, enum policy_key key)
{
	return section->values[key].origin.file;
}

static void section_deinit(struct section *section)
{
	for (size_t i = 0; i < POLICY_KEYS; i++)
		policy_value_deinit(&section->values[i]);
	pattern_deinit(&section->pattern);
	free(section->name);
}

static struct section *section_free(struct section *section)
{
	section_deinit(section);
	free(section);
	return NULL;
}

static void sections_free(struct sections *sections)
{
	for (size_t i = 0; i < sections->n; i++)
		section_free(sections->at[i]);
	free(sections->at);
}

struct policy *policy_new(void)
{
	struct policy *policy = calloc(1, sizeof(*policy));

	if (!policy)
		return NULL;
	policy->references = 1;
	policy->daemon.name = strdup("Daemon");
	return policy->daemon.name ? policy : policy_unref(policy);
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
	sections_free(&policy->sections);
	sections_free(&policy->events);
	for (size_t i = 0; i < policy->n_files; i++)
		free(policy->files[i]);
	section_deinit(&policy->daemon);
	free(policy->borders.at);
	free(policy->owners.at);
	free(policy->files);
	free(policy);
	return NULL;
}

static int sections_insert(struct sections *sections, size_t at, struct section *section)
{
	struct section **grown = array_grow(sections->at, sections->n, sizeof(struct section *));

	if (!grown)
		return -ENOMEM;
	memmove(grown + at + 1, grown + at, (sections->n - at) * sizeof(struct section *));
	grown[at] = section;
	sections->at = grown;
	sections->n++;
	return 0;
}

const char *policy_add_file(struct policy *policy, const char *path)
{
	char **files = array_grow(policy->files, policy->n_files, sizeof(*files));

	if (!files)
		return NULL;
	policy->files = files;
	files[policy->n_files] = strdup(path);
	return files[policy->n_files] ? files[policy->n_files++] : NULL;
}

/* The index of the section of this name, or of the place where it belongs. */
static size_t sections_find(const struct sections *sections, const char *name, struct section **ret)
{
	size_t first = 0, end = sections->n;

	*ret = NULL;
	while (first < end && !*ret) {
		size_t middle = first + (end - first) / 2;
		struct section *section = sections->at[middle];
		int order = strcmp(section->name, name);

		if (order == 0)
			*ret = section;
		if (order < 0)
			first = middle + 1;
		else
			end = middle;
	}
	return *ret ? end : first;
}

/* A new section of cgroups, or of an event. 0, POLICY_E_WRONG with a sentence, or -ENOMEM. */
static int section_new(const char *name, struct place place, struct section **ret, struct text *why)
{
	const char *event = policy_event_name(name);
	struct section *section;
	int r = 0;

	if (event && !description_is_name(event, strlen(event))) {
		text_printf(why, "no event has such a name; give letters, digits and _");
		return POLICY_E_WRONG;
	}
	section = calloc(1, sizeof(*section));
	if (!section)
		return -ENOMEM;
	if (!event)
		r = pattern_parse(name, &section->pattern, why);
	section->name = strdup(name);
	section->origin = (struct policy_origin){ .section = section->name, .file = place.file, .line = place.line };
	if (r == 0 && !section->name)
		r = -ENOMEM;
	if (r == 0)
		*ret = section;
	else
		section_free(section);
	return r;
}

int policy_section(struct policy *policy, const char *name, struct place place, struct problems *problems,
		   struct section **ret)
{
	const char *event = policy_event_name(name);
	struct sections *sections = event ? &policy->events : &policy->sections;
	char plain[sizeof("Event ") + DESCRIPTION_NAME_MAX], buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));
	size_t at;
	int r;

	*ret = &policy->daemon;
	if (policy_section_kind(name) == POLICY_SECTION_DAEMON)
		return 0;
	/* One blank, however many the line has. A longer name is no name of an event. */
	if (event && snprintf(plain, sizeof(plain), "Event %s", event) < (int)sizeof(plain))
		name = plain;
	at = sections_find(sections, name, ret);
	if (*ret)
		return 0;
	r = section_new(name, place, ret, &why);
	if (r > 0)
		problems_add(problems, PROBLEM_ERROR, place, "[%s]: %s", excerpt_of(name).text, buffer);
	if (r == 0)
		r = sections_insert(sections, at, *ret);
	if (r < 0 && *ret)
		*ret = section_free(*ret);
	return r;
}

/* A key that a section of this kind does not have is ignored, with a warning. */
static void warn_of_key(const char *name, enum policy_section section, struct place place, struct problems *problems)
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
			     shown.text, policy_key_name(similar));
	else
		problems_add(problems, PROBLEM_UNKNOWN, place, "%s=: there is no such key; see userevd.conf(5)",
			     shown.text);
}

int policy_assign(struct policy *policy, struct section *section, const char *name, const char *text,
		  struct place place, struct problems *problems)
{
	struct policy_origin origin = { .section = section->name, .file = place.file, .line = place.line };
	enum policy_section kind = policy_section_kind(section->name);
	enum policy_key key = policy_key_find(name);
	char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));
	int r = 0;

	if (strncmp(name, "X-", 2) == 0)
		return 0;
	if (key == POLICY_KEYS || policy_key_section(key) != kind) {
		warn_of_key(name, kind, place, problems);
		return 0;
	}
	if (!section_has(section, key) && (key == POLICY_OWN_NAMES || key == POLICY_TENANT)) {
		struct sections *list = key == POLICY_TENANT ? &policy->borders : &policy->owners;

		r = sections_insert(list, list->n, section);
	}
	if (r == 0)
		r = policy_value_parse(key, text, &origin, &section->values[key], &why);
	if (r < 0)
		return r;
	if (r == POLICY_E_WRONG) {
		problems_add(problems, PROBLEM_ERROR, place, "%s=%s: %s", policy_key_name(key), excerpt_of(text).text,
			     buffer);
		return 0;
	}
	section->values[key].order = ++policy->order;
	/* Each of the cgroups inside would get the limit, and the outermost one would hold them all down to it. */
	if (!section->values[key].is_default && section->pattern.text && pattern_is_nested(&section->pattern) &&
	    policy_key_reach(key) == POLICY_OF_CGROUP && key != POLICY_TENANT && key != POLICY_RESERVE_EVENTS)
		problems_add(
			problems, PROBLEM_WARNING, place,
			"%s=: a pattern that ends with ** matches cgroups and those around them, and the limit of a "
			"cgroup holds for all inside it; end the pattern with the name of the cgroup that is meant",
			policy_key_name(key));
	return 0;
}

const struct policy_value *policy_section_value(const struct section *section, enum policy_key key)
{
	return section_has(section, key) ? &section->values[key] : policy_key_default(key);
}

const struct policy_value *policy_daemon(const struct policy *policy, enum policy_key key)
{
	return policy_section_value(&policy->daemon, key);
}

/* Of those of the sections that match exactly this path. Where each process is a tenant, its name is no path. */
static void sections_look_up(const struct sections *sections, const char *path, struct policy_rules *ret)
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

void policy_lookup(const struct policy *policy, const char *path, struct policy_rules *ret)
{
	sections_look_up(&policy->sections, path, ret);
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

		policy_lookup(policy, levels.path, &here);
		for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
			if (here.value[key] || policy_key_reach(key) == POLICY_OF_CGROUP)
				ret->value[key] = here.value[key];
		if (here.value[POLICY_DENY_EVENTS])
			ret->denials[ret->n_denials++] = here.value[POLICY_DENY_EVENTS];
	}
	for (enum policy_key key = 0; key < POLICY_CGROUP_KEYS; key++)
		if (!ret->value[key])
			ret->value[key] = policy_key_default(key);
}

enum policy_key policy_tenant_limit_key(const struct policy_rules *rules, enum policy_key key)
{
	return rules->value[key]->is_default ? policy_key_of_daemon(key) : key;
}

const struct policy_value *policy_tenant_limit(const struct policy_rules *rules, enum policy_key key)
{
	enum policy_key from = policy_tenant_limit_key(rules, key);

	return from == key ? rules->value[key] : policy_daemon(rules->policy, from);
}

enum policy_tenant policy_rules_tenant(const struct policy_rules *rules)
{
	if (!rules->value[POLICY_TENANT])
		return POLICY_TENANT_UNSET;
	return (enum policy_tenant)rules->value[POLICY_TENANT]->number;
}

enum policy_tenant policy_tenant(const struct policy *policy, const char *path)
{
	struct policy_rules rules;

	sections_look_up(&policy->borders, path, &rules);
	return policy_rules_tenant(&rules);
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

static void warn_of_maximum(const struct section *section, struct problems *problems)
{
	const struct policy_value *maximum = &section->values[POLICY_MAX_EVENTS];
	uint32_t reserve = section->values[POLICY_RESERVE_EVENTS].number;
	struct place place = { maximum->origin.file, maximum->origin.line, "MaxEvents" };
	char effect[64] = ", and nobody can use the rest of it";

	if (!section_has(section, POLICY_MAX_EVENTS) || maximum->is_default || maximum->number >= reserve)
		return;
	if (!section->pattern.literal && maximum->number > 0)
		snprintf(effect, sizeof(effect), ": it takes %" PRIu32 " cgroups to use it",
			 (reserve - 1) / maximum->number + 1);
	problems_add(problems, PROBLEM_WARNING, place,
		     "MaxEvents=%" PRIu32 ": ReserveEvents=%" PRIu32 " of the same section is more%s", maximum->number,
		     reserve, effect);
}

/* Each glob of the section against the globs of the sections before it. */
static void check_owner(const struct sections *owners, size_t which, struct problems *problems)
{
	const struct policy_value *names = &owners->at[which]->values[POLICY_OWN_NAMES];

	for (size_t i = 0; i < names->n_globs; i++) {
		const struct policy_glob *glob = &names->globs[i], *overlap = NULL;

		for (size_t k = 0; k < which && !overlap; k++) {
			const struct policy_value *other = &owners->at[k]->values[POLICY_OWN_NAMES];

			/* After a wrong line a section may be in the list twice. */
			for (size_t l = 0; other != names && l < other->n_globs && !overlap; l++)
				if (globs_overlap(other->globs[l].text, glob->text))
					overlap = &other->globs[l];
		}
		if (overlap)
			problems_add(
				problems, PROBLEM_ERROR,
				(struct place){ glob->origin.file, glob->origin.line, "OwnNames" },
				"OwnNames=%s: some of these names are already owned by [%s], with OwnNames=%s in %s:%u",
				excerpt_of(glob->text).text, excerpt_of(overlap->origin.section).text,
				excerpt_of(overlap->text).text, overlap->origin.file, overlap->origin.line);
	}
}

void policy_check_sections(const struct policy *policy, struct problems *problems)
{
	const struct sections *owners = &policy->owners;
	size_t n_globs = 0;

	for (size_t i = 0; i < policy->sections.n; i++)
		warn_of_maximum(policy->sections.at[i], problems);
	for (size_t i = 0; i < owners->n; i++) {
		const struct policy_value *names = &owners->at[i]->values[POLICY_OWN_NAMES];

		n_globs += names->n_globs;
		if (n_globs <= OWNED_MAX)
			continue;
		problems_add(problems, PROBLEM_ERROR,
			     (struct place){ names->origin.file, names->origin.line, "OwnNames" },
			     "OwnNames=: all sections together own at most %d globs", OWNED_MAX);
		return;
	}
	for (size_t i = 0; i < owners->n; i++)
		check_owner(owners, i, problems);
}

int policy_check_capacity(const struct policy *policy, uint32_t capacity, struct problems *problems)
{
	const struct policy_value *last = NULL;
	uint64_t sum = policy->events.n;

	if (sum > capacity) {
		const struct section *event = policy->events.at[policy->events.n - 1];

		problems_add(problems, PROBLEM_ERROR, (struct place){ event->origin.file, event->origin.line, NULL },
			     "[%s]: %zu events are declared, and there is room for %" PRIu32, event->name,
			     policy->events.n, capacity);
		return POLICY_E_WRONG;
	}
	for (size_t i = 0; i < policy->sections.n; i++) {
		const struct policy_value *reserve = &policy->sections.at[i]->values[POLICY_RESERVE_EVENTS];

		sum += reserve->number;
		if (reserve->number > 0 && (!last || reserve->order > last->order))
			last = reserve;
	}
	if (sum <= capacity || !last)
		return 0;
	problems_add(problems, PROBLEM_ERROR, (struct place){ last->origin.file, last->origin.line, "ReserveEvents" },
		     "ReserveEvents=%" PRIu32 ": the reserves of all sections%s add up to %" PRIu64
		     " events, and there is room for %" PRIu32 "; take away %" PRIu64,
		     last->number, policy->events.n > 0 ? ", and the declared events," : "", sum, capacity,
		     sum - capacity);
	return POLICY_E_WRONG;
}
