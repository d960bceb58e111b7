/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * All globs are followed at once: a state is the set of the places in them where a name can be after the characters so far. That set,
 * at the name's end, says which globs match, and policy_may_register() has the order in which that decides.
 */

#include "daemon/native/automaton.h"

#include <stdio.h>

#include "protocol/event/description.h"

/* The key in the policy that a glob is from. */
enum use { USE_DENY, USE_OWNED, USE_ALLOW, USE_PREFIX };

/* The class of all characters that no name has. It leads to state 0. */
enum { NO_CHARACTER = ADMISSION_CLASSES - 1 };

struct glob {
	enum use use;
	size_t first; /* of its places: one before each piece, and one behind the last */
	size_t n;
	uint64_t pieces[GLOB_BYTES_MAX];
};

struct builder {
	struct glob *globs;
	size_t n_globs;
	size_t places;
	size_t words;	/* of a set */
	uint64_t *sets; /* of each state */
	size_t n;
	bool has_allow, has_prefix;
	bool failed;
};

static bool set_has(const uint64_t *set, size_t place)
{
	return set[place / 64] >> place % 64 & 1;
}

/* Puts the place into the set, and those behind a star, which can be left without a character. */
static void set_put(const struct glob *glob, uint64_t *set, size_t at)
{
	for (; !set_has(set, glob->first + at); at++) {
		set[(glob->first + at) / 64] |= UINT64_C(1) << (glob->first + at) % 64;
		if (at == glob->n || glob->pieces[at] != GLOB_STAR)
			break;
	}
}

static void add(struct builder *builder, enum use use, const char *text)
{
	struct glob *globs = reallocarray(builder->globs, builder->n_globs + 1, sizeof(*globs)), *glob;

	if (!globs) {
		builder->failed = true;
		return;
	}
	builder->globs = globs;
	glob = &globs[builder->n_globs++];
	glob->use = use;
	glob->first = builder->places;
	glob->n = glob_compile(text, glob->pieces);
	builder->places += glob->n + 1;
}

static void add_list(struct builder *builder, enum use use, const struct policy_value *list)
{
	for (size_t i = 0; i < list->n_globs; i++)
		add(builder, use, list->globs[i].text);
}

static void add_rules(struct builder *builder, const struct policy_rules *rules)
{
	const struct policy_value *allow = rules->value[POLICY_ALLOW_EVENTS];
	const char *prefix = rules->value[POLICY_NAME_PREFIX]->text;
	const struct sections *owners = &rules->policy->owners, *events = &rules->policy->events;
	char glob[GLOB_BYTES_MAX + 1];

	for (size_t i = 0; i < rules->n_denials; i++)
		add_list(builder, USE_DENY, rules->denials[i]);
	for (size_t i = 0; i < owners->n; i++)
		if (!policy_section_has(owners->at[i], rules->path))
			add_list(builder, USE_OWNED, &owners->at[i]->values[POLICY_OWN_NAMES]);
	for (size_t i = 0; i < events->n; i++)
		if (policy_keeps_event(rules, events->at[i]))
			add(builder, USE_OWNED, policy_event_name(events->at[i]->name));
	builder->has_allow = !allow->is_default;
	if (builder->has_allow)
		add_list(builder, USE_ALLOW, allow);
	builder->has_prefix = prefix;
	if (prefix) {
		snprintf(glob, sizeof(glob), "%s*", prefix);
		add(builder, USE_PREFIX, glob);
	}
	builder->words = builder->places / 64 + 1;
}

static bool matches(const struct builder *builder, const uint64_t *set, enum use use)
{
	for (size_t i = 0; i < builder->n_globs; i++)
		if (builder->globs[i].use == use && set_has(set, builder->globs[i].first + builder->globs[i].n))
			return true;
	return false;
}

static enum admission_verdict judge(const struct builder *builder, const uint64_t *set)
{
	if (builder->has_prefix && !matches(builder, set, USE_PREFIX))
		return ADMISSION_NAME_PREFIX;
	if (matches(builder, set, USE_DENY))
		return ADMISSION_NAME_DENIED;
	if (matches(builder, set, USE_OWNED))
		return ADMISSION_NAME_OWNED;
	return builder->has_allow && !matches(builder, set, USE_ALLOW) ? ADMISSION_NAME_UNLISTED : ADMISSION_ALLOWED;
}

/* Where all globs are after one more character. */
static void step(const struct builder *builder, const uint64_t *from, size_t character, uint64_t *ret)
{
	memset(ret, 0, builder->words * sizeof(*ret));
	for (size_t i = 0; i < builder->n_globs; i++) {
		const struct glob *glob = &builder->globs[i];

		for (size_t at = 0; at < glob->n; at++) {
			if (!set_has(from, glob->first + at))
				continue;
			if (glob->pieces[at] == GLOB_STAR)
				set_put(glob, ret, at);
			else if (glob->pieces[at] >> character & 1)
				set_put(glob, ret, at + 1);
		}
	}
}

/* The state with this set, found or made; `most`: there is no room for it. */
static size_t find_state(struct builder *builder, const uint64_t *set, size_t most)
{
	const size_t bytes = builder->words * sizeof(*set);
	uint64_t *sets;
	size_t i = 1; /* the first one is for the empty name alone */

	while (i < builder->n && memcmp(builder->sets + i * builder->words, set, bytes) != 0)
		i++;
	if (i < builder->n || i >= most)
		return i;
	sets = reallocarray(builder->sets, builder->n + 1, bytes);
	if (!sets) {
		builder->failed = true;
		return most;
	}
	builder->sets = sets;
	memcpy(sets + builder->n++ * builder->words, set, bytes);
	return i;
}

static int build(struct builder *builder, uint16_t first, struct admission_state *ret, size_t most)
{
	uint64_t *next = calloc(builder->words, sizeof(*next));

	builder->sets = calloc(builder->words, sizeof(*next));
	builder->failed |= !next || !builder->sets || most == 0;
	builder->n = 1;
	for (size_t i = 0; !builder->failed && i < builder->n_globs; i++)
		set_put(&builder->globs[i], builder->sets, 0);
	for (size_t i = 0; !builder->failed && i < builder->n; i++) {
		ret[i] = (struct admission_state){
			.verdict = i == 0 ? ADMISSION_NAME_BAD : judge(builder, builder->sets + i * builder->words)
		};
		for (size_t character = 0; !builder->failed && glob_characters[character]; character++) {
			size_t state;

			/* No name begins with a digit. */
			if (i == 0 && glob_characters[character] >= '0' && glob_characters[character] <= '9')
				continue;
			step(builder, builder->sets + i * builder->words, character, next);
			state = find_state(builder, next, most);
			if (state == most) {
				free(next);
				return builder->failed ? -ENOMEM : -E2BIG;
			}
			ret[i].next[character] = (uint16_t)(first + state);
		}
	}
	free(next);
	return builder->failed ? -ENOMEM : (int)builder->n;
}

int automaton_make(const struct policy_rules *rules, uint16_t first, struct admission_state *ret, size_t most)
{
	struct builder builder = { 0 };
	int r;

	add_rules(&builder, rules);
	r = build(&builder, first, ret, most);
	free(builder.globs);
	free(builder.sets);
	return r;
}

void automaton_begin(unsigned char classes[256], struct admission_state *ret)
{
	*ret = (struct admission_state){ .verdict = ADMISSION_NAME_BAD };
	memset(classes, NO_CHARACTER, 256);
	classes['\0'] = classes[' '] = ADMISSION_END;
	for (size_t character = 0; glob_characters[character]; character++)
		classes[(unsigned char)glob_characters[character]] = (unsigned char)character;
}
