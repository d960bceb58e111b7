/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Several sections may match a path. Key by key the one counts whose pattern says most of it: that has more components without
 * anything wild; of equals, that has more bytes that are not wild; of equals, that has no **; of equals, that said it last.
 *
 * Sections stand in an array that is sorted by their names. That finds the section that a file names once more, and at
 * a look-up the one whose pattern is the path. All that have something wild are tried one after the other: most of them are passed
 * over by their depth alone. Whoever connects has all levels around it looked up for Tenant=, which few sections say anything of:
 * so these are tried alone then.
 */

#include "daemon/policy/policy.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/policy/build.h"
#include "daemon/policy/glob.h"
#include "protocol/event/description.h"

enum { OWNED_MAX = 1000 }; /* globs of OwnNames=, of which half a million pairs are compared in a tenth of a second */

struct section {
	struct pattern pattern; /* of cgroups; else no text */
	char *name;
	struct policy_origin origin;		 /* where it began first */
	struct policy_value values[POLICY_KEYS]; /* an origin without a file: it says nothing of that */
};

struct pointers {
	void **at;
	size_t n;
};

struct policy {
	unsigned references;
	unsigned order; /* assignments so far */
	struct section daemon;
	struct pointers sections; /* sorted by the text of the pattern */
	struct pointers wild;	  /* those of them that are not literal */
	struct pointers borders;  /* those of the wild that say Tenant= */
	struct pointers owners;	  /* sections that say OwnNames= */
	struct pointers events;	  /* sections, sorted by name */
	struct pointers files;	  /* names */
};

static bool says(const struct section *section, enum policy_key key)
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

static void sections_free(struct pointers *sections)
{
	for (size_t i = 0; i < sections->n; i++) {
		section_deinit(sections->at[i]);
		free(sections->at[i]);
	}
	free(sections->at);
}

struct policy *policy_new(void)
{
	struct policy *policy = calloc(1, sizeof(*policy));

	if (!policy)
		return NULL;
	policy->references = 1;
	policy->daemon.name = strdup("Daemon");
	if (!policy->daemon.name) {
		free(policy);
		return NULL;
	}
	return policy;
}

struct policy *policy_ref(struct policy *policy)
{
	policy->references++;
	return policy;
}

bool policy_has_one_holder(const struct policy *policy)
{
	return policy->references == 1;
}

struct policy *policy_unref(struct policy *policy)
{
	if (!policy || --policy->references > 0)
		return NULL;
	sections_free(&policy->sections);
	sections_free(&policy->events);
	for (size_t i = 0; i < policy->files.n; i++)
		free(policy->files.at[i]);
	section_deinit(&policy->daemon);
	free(policy->wild.at);
	free(policy->borders.at);
	free(policy->owners.at);
	free(policy->files.at);
	free(policy);
	return NULL;
}

size_t policy_count_files(const struct policy *policy)
{
	return policy->files.n;
}

size_t policy_count_sections(const struct policy *policy)
{
	return policy->sections.n;
}

/* One more, at this place. 0 or -ENOMEM. */
static int insert(struct pointers *pointers, size_t at, void *pointer)
{
	void **room = pointers->at;

	/* A power of two, and full. */
	if ((pointers->n & (pointers->n - 1)) == 0)
		room = reallocarray(room, MAX(pointers->n * 2, (size_t)1), sizeof(*room));
	if (!room)
		return -ENOMEM;
	memmove(room + at + 1, room + at, (pointers->n - at) * sizeof(*room));
	room[at] = pointer;
	pointers->at = room;
	pointers->n++;
	return 0;
}

const char *policy_add_file(struct policy *policy, const char *path)
{
	char *copy = strdup(path);

	if (!copy || insert(&policy->files, policy->files.n, copy) < 0) {
		free(copy);
		return NULL;
	}
	return copy;
}

/* Where the section of this name is, or belongs. */
static size_t find(const struct pointers *sections, const char *name, struct section **ret)
{
	size_t first = 0, end = sections->n;

	*ret = NULL;
	while (first < end) {
		size_t middle = first + (end - first) / 2;
		struct section *section = sections->at[middle];
		int order = strcmp(section->name, name);

		if (order == 0) {
			*ret = section;
			return middle;
		}
		if (order < 0)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

static int link_section(struct policy *policy, size_t at, struct section *section)
{
	int r = 0;

	if (!section->pattern.text)
		return insert(&policy->events, at, section);
	if (!section->pattern.literal)
		r = insert(&policy->wild, policy->wild.n, section);
	if (r < 0)
		return r;
	r = insert(&policy->sections, at, section);
	if (r < 0 && !section->pattern.literal)
		policy->wild.n--;
	return r;
}

/* Takes over the pattern, which is empty for an event. */
static int add_section(struct policy *policy, size_t at, const char *name, struct pattern *pattern, struct place place,
		       struct section **ret)
{
	struct section *section = calloc(1, sizeof(*section));
	int r;

	if (!section) {
		pattern_deinit(pattern);
		return -ENOMEM;
	}
	section->pattern = *pattern;
	section->name = strdup(name);
	section->origin = (struct policy_origin){ .section = section->name, .file = place.file, .line = place.line };
	r = section->name ? link_section(policy, at, section) : -ENOMEM;
	if (r < 0) {
		section_deinit(section);
		free(section);
		return r;
	}
	*ret = section;
	return 0;
}

static int complain_of_section(const char *name, const char *why, struct place place, struct problems *problems)
{
	char buffer[256];
	struct text shown = text_make(buffer, sizeof(buffer));

	text_excerpt(&shown, name, strlen(name));
	problems_add(problems, PROBLEM_ERROR, place, "[%s]: %s", buffer, why);
	return POLICY_E_WRONG;
}

static int event_section(struct policy *policy, const char *name, struct place place, struct problems *problems,
			 struct section **ret)
{
	const char *event = policy_event_name(name);
	char plain[sizeof("Event ") + DESCRIPTION_NAME_MAX];
	struct pattern none = { 0 };
	size_t at;

	if (!description_is_name(event, strlen(event)))
		return complain_of_section(name, "no event has such a name; give letters, digits and _", place,
					   problems);
	snprintf(plain, sizeof(plain), "Event %s", event);
	at = find(&policy->events, plain, ret);
	return *ret ? 0 : add_section(policy, at, plain, &none, place, ret);
}

static int cgroup_section(struct policy *policy, const char *name, struct place place, struct problems *problems,
			  struct section **ret)
{
	char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));
	struct pattern pattern;
	size_t at = find(&policy->sections, name, ret);
	int r = *ret ? 0 : pattern_parse(name, &pattern, &why);

	if (*ret || r < 0)
		return r;
	if (r > 0)
		return complain_of_section(name, buffer, place, problems);
	return add_section(policy, at, name, &pattern, place, ret);
}

int policy_section(struct policy *policy, const char *name, struct place place, struct problems *problems,
		   struct section **ret)
{
	switch (policy_section_kind(name)) {
	case POLICY_SECTION_DAEMON:
		*ret = &policy->daemon;
		return 0;
	case POLICY_SECTION_EVENT:
		return event_section(policy, name, place, problems, ret);
	default:
		return cgroup_section(policy, name, place, problems, ret);
	}
}

static void warn_of_misspelt(const char *name, const char *shown, enum policy_section section, struct place place,
			     struct problems *problems)
{
	enum policy_key key = policy_key_suggest(name, section);

	if (key == POLICY_KEYS)
		problems_add(problems, PROBLEM_UNKNOWN, place, "%s=: there is no such key; see userevd.conf(5)", shown);
	else
		problems_add(problems, PROBLEM_UNKNOWN, place, "%s=: there is no such key; did you mean %s=?", shown,
			     policy_key_name(key));
}

static void warn_of_key(const char *name, enum policy_section section, struct place place, struct problems *problems)
{
	static const char *const right[] = {
		[POLICY_SECTION_DAEMON] = "[Daemon]",
		[POLICY_SECTION_CGROUPS] = "a section of cgroups such as [/system.slice/*]",
		[POLICY_SECTION_EVENT] = "a section of an event such as [Event request]",
	};
	enum policy_key key = policy_key_find(name);
	char buffer[256];
	struct text shown = text_make(buffer, sizeof(buffer));

	text_excerpt(&shown, name, strlen(name));
	if (key == POLICY_KEYS)
		warn_of_misspelt(name, buffer, section, place, problems);
	else
		problems_add(problems, PROBLEM_UNKNOWN, place, "%s=: belongs in %s; here it is ignored", buffer,
			     right[policy_key_section(key)]);
}

/* Each of the cgroups inside would get the limit, and the outermost one holds them all down to it. */
static void warn_of_nesting(const struct section *section, enum policy_key key, struct place place,
			    struct problems *problems)
{
	if (policy_key_reach(key) == POLICY_OF_CGROUP && key != POLICY_TENANT && key != POLICY_RESERVE_EVENTS &&
	    section->pattern.text && pattern_is_nested(&section->pattern))
		problems_add(problems, PROBLEM_WARNING, place,
			     "%s=: a pattern that ends with ** matches cgroups and those around them, and what is "
			     "around limits all inside; end it with the name of what is meant",
			     policy_key_name(key));
}

static void complain(enum policy_key key, const char *text, const char *why, struct place place,
		     struct problems *problems)
{
	char buffer[256];
	struct text shown = text_make(buffer, sizeof(buffer));

	text_excerpt(&shown, text, strlen(text));
	problems_add(problems, PROBLEM_ERROR, place, "%s=%s: %s", policy_key_name(key), buffer, why);
}

/* It is about to say something of that key. 0 or -ENOMEM. */
static int note_key(struct policy *policy, struct section *section, enum policy_key key)
{
	if (says(section, key))
		return 0;
	if (key == POLICY_OWN_NAMES)
		return insert(&policy->owners, policy->owners.n, section);
	if (key == POLICY_TENANT && !section->pattern.literal)
		return insert(&policy->borders, policy->borders.n, section);
	return 0;
}

int policy_assign(struct policy *policy, struct section *section, const char *name, const char *text,
		  struct place place, struct problems *problems)
{
	struct policy_origin origin = { .section = section->name, .file = place.file, .line = place.line };
	enum policy_section kind = policy_section_kind(section->name);
	enum policy_key key = policy_key_find(name);
	char buffer[256];
	struct text why = text_make(buffer, sizeof(buffer));
	int r;

	if (strncmp(name, "X-", 2) == 0)
		return 0;
	if (key == POLICY_KEYS || policy_key_section(key) != kind) {
		warn_of_key(name, kind, place, problems);
		return 0;
	}
	r = note_key(policy, section, key);
	if (r == 0)
		r = policy_value_parse(key, text, &origin, &section->values[key], &why);
	if (r < 0)
		return r;
	if (r == POLICY_E_WRONG) {
		complain(key, text, buffer, place, problems);
		return 0;
	}
	section->values[key].order = ++policy->order;
	if (!section->values[key].is_default)
		warn_of_nesting(section, key, place, problems);
	return 0;
}

const struct policy_value *policy_daemon(const struct policy *policy, enum policy_key key)
{
	return says(&policy->daemon, key) ? &policy->daemon.values[key] : policy_key_default(key);
}

struct lookup {
	const struct section *best[POLICY_CGROUP_KEYS];
	struct policy_rules *rules;
};

static void take(struct lookup *lookup, const struct section *section)
{
	for (size_t i = 0; i < POLICY_CGROUP_KEYS; i++) {
		const struct policy_value *value = &section->values[i];
		int order;

		if (!value->origin.file)
			continue;
		order = lookup->best[i] ? pattern_compare(&section->pattern, &lookup->best[i]->pattern) : 1;
		if (order < 0 || (order == 0 && value->order < lookup->rules->value[i]->order))
			continue;
		lookup->best[i] = section;
		lookup->rules->value[i] = value;
	}
}

/* Among those of the wild ones that may have something to say. */
static void look_up(const struct policy *policy, const struct pointers *wild, const char *path,
		    struct policy_rules *ret)
{
	struct lookup lookup = { .rules = ret };
	size_t depth = path_depth(path);
	struct section *literal;

	*ret = (struct policy_rules){ 0 };
	/* Where each program is a tenant, what it has is no path. */
	if (path[0] != '/')
		return;
	find(&policy->sections, path, &literal);
	if (literal && literal->pattern.literal)
		take(&lookup, literal);
	for (size_t i = 0; i < wild->n; i++) {
		const struct section *section = wild->at[i];

		if (pattern_matches(&section->pattern, path, depth))
			take(&lookup, section);
	}
}

void policy_lookup(const struct policy *policy, const char *path, struct policy_rules *ret)
{
	look_up(policy, &policy->wild, path, ret);
}

void policy_walk(const char *path, bool (*at_level)(void *data, const char *path), void *data)
{
	size_t length = 1;
	char level[4096];

	string_copy(level, sizeof(level), path);
	for (size_t i = 0; i <= POLICY_LEVELS_MAX; i++) {
		char rest = level[length];

		level[length] = '\0';
		if (at_level(data, level))
			return;
		level[length] = rest;
		if (rest == '\0')
			return;
		length += length > 1;
		length += strcspn(level + length, "/");
	}
}

struct resolution {
	const struct policy *policy;
	struct policy_rules *rules;
};

/*
 * What is said further in replaces what an ancestor says; limits are the level's own. Denials add up instead: otherwise a list
 * that an admin writes for one service would undo the one for the whole machine, and nobody would notice.
 */
static bool resolve_level(void *data, const char *path)
{
	const struct resolution *resolution = data;
	struct policy_rules *rules = resolution->rules, here;

	policy_lookup(resolution->policy, path, &here);
	for (size_t i = 0; i < POLICY_CGROUP_KEYS; i++)
		if (here.value[i] || policy_key_reach((enum policy_key)i) == POLICY_OF_CGROUP)
			rules->value[i] = here.value[i];
	if (here.value[POLICY_DENY_EVENTS])
		rules->denials[rules->n_denials++] = here.value[POLICY_DENY_EVENTS];
	return false;
}

void policy_resolve(const struct policy *policy, const char *path, struct policy_rules *ret)
{
	struct resolution resolution = { .policy = policy, .rules = ret };

	*ret = (struct policy_rules){ .policy = policy, .path = path };
	if (path[0] == '/')
		policy_walk(path, resolve_level, &resolution);
	for (size_t i = 0; i < POLICY_CGROUP_KEYS; i++)
		if (!ret->value[i])
			ret->value[i] = policy_key_default((enum policy_key)i);
}

enum policy_key policy_tenant_limit_key(const struct policy_rules *rules, enum policy_key key)
{
	static const enum policy_key defaults[] = {
		[POLICY_MAX_EVENTS] = POLICY_DEFAULT_MAX_EVENTS,
		[POLICY_MAX_CONNECTIONS] = POLICY_DEFAULT_MAX_CONNECTIONS,
		[POLICY_MAX_FILES] = POLICY_DEFAULT_MAX_FILES,
		[POLICY_MAX_LEASES] = POLICY_DEFAULT_MAX_LEASES,
		[POLICY_MAX_REQUESTS_PER_SECOND] = POLICY_DEFAULT_MAX_REQUESTS_PER_SECOND,
	};

	return rules->value[key]->is_default ? defaults[key] : key;
}

const struct policy_value *policy_tenant_limit(const struct policy *policy, const struct policy_rules *rules,
					       enum policy_key key)
{
	enum policy_key from = policy_tenant_limit_key(rules, key);

	return from == key ? rules->value[key] : policy_daemon(policy, from);
}

enum policy_tenant policy_rules_tenant(const struct policy_rules *rules)
{
	if (!rules->value[POLICY_TENANT])
		return POLICY_TENANT_UNSAID;
	return (enum policy_tenant)rules->value[POLICY_TENANT]->number;
}

enum policy_tenant policy_tenant(const struct policy *policy, const char *path)
{
	struct policy_rules rules;

	look_up(policy, &policy->borders, path, &rules);
	return policy_rules_tenant(&rules);
}

static const struct policy_value *value_of_event(const struct section *section, enum policy_key key)
{
	return says(section, key) ? &section->values[key] : policy_key_default(key);
}

bool policy_next_reserve(const struct policy *policy, size_t *at, struct policy_reserve *ret)
{
	while (*at < policy->sections.n) {
		const struct section *section = policy->sections.at[(*at)++];

		if (section->values[POLICY_RESERVE_EVENTS].number == 0)
			continue;
		*ret = (struct policy_reserve){ section->name, &section->values[POLICY_RESERVE_EVENTS] };
		return true;
	}
	return false;
}

bool policy_next_owner(const struct policy *policy, size_t *at, struct policy_owner *ret)
{
	const struct section *section;

	if (*at == policy->owners.n)
		return false;
	section = policy->owners.at[(*at)++];
	*ret = (struct policy_owner){ &section->pattern, &section->values[POLICY_OWN_NAMES] };
	return true;
}

bool policy_next_event(const struct policy *policy, size_t *at, struct policy_event *ret)
{
	const struct section *section;

	if (*at == policy->events.n)
		return false;
	section = policy->events.at[(*at)++];
	*ret = (struct policy_event){
		.name = policy_event_name(section->name),
		.fields = value_of_event(section, POLICY_FIELDS),
		.persist = value_of_event(section, POLICY_PERSIST),
		.tenants = value_of_event(section, POLICY_TENANTS),
		.origin = &section->origin,
	};
	return true;
}

bool policy_find_event(const struct policy *policy, const char *name, size_t length, struct policy_event *ret)
{
	char plain[sizeof("Event ") + DESCRIPTION_NAME_MAX];
	struct section *section;
	size_t at;

	if (policy->events.n == 0 || length > DESCRIPTION_NAME_MAX)
		return false;
	snprintf(plain, sizeof(plain), "Event %.*s", (int)length, name);
	at = find(&policy->events, plain, &section);
	return section && policy_next_event(policy, &at, ret);
}

size_t policy_count_events(const struct policy *policy)
{
	return policy->events.n;
}

uint64_t policy_sum_maxima(const struct policy *policy)
{
	uint64_t sum = policy->events.n;

	for (size_t i = 0; i < policy->sections.n; i++) {
		const struct section *section = policy->sections.at[i];
		const struct policy_value *maximum = &section->values[POLICY_MAX_EVENTS];
		uint32_t reserve = section->values[POLICY_RESERVE_EVENTS].number;
		bool limits = says(section, POLICY_MAX_EVENTS) && maximum->number != POLICY_INFINITY;

		sum += limits ? MAX(maximum->number, reserve) : reserve;
	}
	return sum;
}

static void warn_of_maximum(const struct section *section, struct problems *problems)
{
	const struct policy_value *maximum = &section->values[POLICY_MAX_EVENTS];
	uint32_t reserve = section->values[POLICY_RESERVE_EVENTS].number;
	struct place place = { maximum->origin.file, maximum->origin.line, "MaxEvents" };

	if (!says(section, POLICY_MAX_EVENTS) || maximum->is_default || maximum->number >= reserve)
		return;
	if (section->pattern.literal || maximum->number == 0)
		problems_add(problems, PROBLEM_WARNING, place,
			     "MaxEvents=%" PRIu32 ": ReserveEvents=%" PRIu32
			     " of the same section is more, and nobody can use the rest of it",
			     maximum->number, reserve);
	else
		problems_add(problems, PROBLEM_WARNING, place,
			     "MaxEvents=%" PRIu32 ": ReserveEvents=%" PRIu32
			     " of the same section is more: it takes %" PRIu32 " cgroups to use it",
			     maximum->number, reserve, (reserve - 1) / maximum->number + 1);
}

static const struct policy_glob *find_overlap(const struct policy_value *names, const struct policy_glob *with)
{
	for (size_t i = 0; i < names->n_globs; i++)
		if (globs_overlap(names->globs[i].text, strlen(names->globs[i].text), with->text, strlen(with->text)))
			return &names->globs[i];
	return NULL;
}

static void complain_of_owners(const struct policy_glob *glob, const struct policy_glob *other,
			       struct problems *problems)
{
	char buffers[3][256];
	struct text shown = text_make(buffers[0], sizeof(buffers[0])),
		    names = text_make(buffers[1], sizeof(buffers[1])),
		    section = text_make(buffers[2], sizeof(buffers[2]));

	text_excerpt(&shown, glob->text, strlen(glob->text));
	text_excerpt(&names, other->text, strlen(other->text));
	text_excerpt(&section, other->origin.section, strlen(other->origin.section));
	problems_add(problems, PROBLEM_ERROR, (struct place){ glob->origin.file, glob->origin.line, "OwnNames" },
		     "OwnNames=%s: some of these names are already owned by [%s], with OwnNames=%s in %s:%u",
		     buffers[0], buffers[2], buffers[1], other->origin.file, other->origin.line);
}

/* Of each glob the first one of another section that owns some of its names. */
static void check_owners(const struct policy *policy, struct problems *problems)
{
	struct policy_owner owner, other;

	for (size_t i = 0; policy_next_owner(policy, &i, &owner);) {
		for (size_t k = 0; k < owner.names->n_globs; k++) {
			const struct policy_glob *glob = &owner.names->globs[k], *overlap = NULL;

			for (size_t j = 0; !overlap && j + 1 < i && policy_next_owner(policy, &j, &other);)
				/* A line that was wrong may have listed the section twice. */
				overlap = other.names != owner.names ? find_overlap(other.names, glob) : NULL;
			if (overlap)
				complain_of_owners(glob, overlap, problems);
		}
	}
}

/* Each name is compared with all others. */
static bool are_few_names(const struct policy *policy, struct problems *problems)
{
	struct policy_owner owner;
	size_t n = 0;

	for (size_t i = 0; policy_next_owner(policy, &i, &owner);) {
		n += owner.names->n_globs;
		if (n <= OWNED_MAX)
			continue;
		problems_add(problems, PROBLEM_ERROR,
			     (struct place){ owner.names->origin.file, owner.names->origin.line, "OwnNames" },
			     "OwnNames=: all sections together own at most %d globs", OWNED_MAX);
		return false;
	}
	return true;
}

void policy_check_sections(const struct policy *policy, struct problems *problems)
{
	for (size_t i = 0; i < policy->sections.n; i++)
		warn_of_maximum(policy->sections.at[i], problems);
	if (are_few_names(policy, problems))
		check_owners(policy, problems);
}

void policy_match(const struct policy *policy, const char *path, bool *matched)
{
	size_t depth = path_depth(path);

	for (size_t i = 0; i < policy->sections.n; i++) {
		const struct section *section = policy->sections.at[i];

		matched[i] = matched[i] || pattern_matches(&section->pattern, path, depth);
	}
}

const struct policy_origin *policy_section_origin(const struct policy *policy, size_t i)
{
	const struct section *section = policy->sections.at[i];

	return &section->origin;
}

static int complain_of_events(const struct policy *policy, uint32_t capacity, struct problems *problems)
{
	const struct section *last = policy->events.at[policy->events.n - 1];

	problems_add(problems, PROBLEM_ERROR, (struct place){ last->origin.file, last->origin.line, NULL },
		     "[%s]: %zu events are declared, and there is room for %" PRIu32, last->name, policy->events.n,
		     capacity);
	return POLICY_E_WRONG;
}

int policy_check_capacity(const struct policy *policy, uint32_t capacity, struct problems *problems)
{
	struct policy_reserve reserve, last = { 0 };
	uint64_t sum = policy->events.n;

	if (sum > capacity)
		return complain_of_events(policy, capacity, problems);
	for (size_t at = 0; policy_next_reserve(policy, &at, &reserve);) {
		sum += reserve.value->number;
		if (!last.value || reserve.value->order > last.value->order)
			last = reserve;
	}
	if (sum <= capacity)
		return 0;
	problems_add(problems, PROBLEM_ERROR,
		     (struct place){ last.value->origin.file, last.value->origin.line, "ReserveEvents" },
		     "ReserveEvents=%" PRIu32 ": the reserves of all sections%s add up to %" PRIu64
		     " events, and there is room for %" PRIu32 "; take away %" PRIu64,
		     last.value->number, policy->events.n > 0 ? ", and the events that are declared," : "", sum,
		     capacity, sum - capacity);
	return POLICY_E_WRONG;
}
