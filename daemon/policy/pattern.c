/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A path is matched component by component, as a name is matched byte by byte: a ** is to the one what * is to the other. So
 * here, too, only the last one is ever looked at again, and a pattern takes no more steps than the product of both lengths.
 */

#include "daemon/policy/glob.h"

struct pattern_component {
	const char *at; /* in the text */
	size_t length;
	enum { COMPONENT_LITERAL, COMPONENT_GLOB, COMPONENT_ANY_DEPTH } kind;
};

size_t path_depth(const char *path)
{
	size_t depth = 0;

	for (const char *at = path; *at; at++)
		depth += at[0] == '/' && at[1] != '\0';
	return depth;
}

void pattern_deinit(struct pattern *pattern)
{
	free(pattern->text);
	free(pattern->components);
	*pattern = (struct pattern){ 0 };
}

static int parse_component(struct pattern *pattern, const char *at, size_t length, struct text *why)
{
	struct pattern_component component = { .at = at, .length = length, .kind = COMPONENT_GLOB };
	size_t bytes;
	bool wild;
	int r;

	if (length == 0) {
		text_printf(why, "between two slashes, and behind the last one, there has to be a name");
		return GLOB_E_WRONG;
	}
	r = glob_check(at, length, why);
	if (r != 0)
		return r;
	bytes = glob_literal_bytes(at, length, &wild);
	pattern->literal_bytes += bytes;
	pattern->literal_components += !wild;
	if (length == 2 && memcmp(at, "**", 2) == 0) {
		component.kind = COMPONENT_ANY_DEPTH;
		pattern->any_depth = true;
	} else if (!wild && bytes == length) {
		component.kind = COMPONENT_LITERAL;
	}
	pattern->literal = pattern->literal && component.kind == COMPONENT_LITERAL;
	pattern->components[pattern->n++] = component;
	return 0;
}

static int parse_components(struct pattern *pattern, struct text *why)
{
	const char *at = pattern->text;
	int r = 0;

	/* "/" alone is the root, which has no component. */
	while (r == 0 && *at && !streq(pattern->text, "/")) {
		size_t length = strcspn(at + 1, "/");

		r = parse_component(pattern, at + 1, length, why);
		at += 1 + length;
	}
	return r;
}

int pattern_parse(const char *text, struct pattern *ret, struct text *why)
{
	struct pattern pattern = { .literal = true };
	int r;

	if (text[0] != '/') {
		text_printf(why, "a pattern of cgroups begins with '/'");
		return GLOB_E_WRONG;
	}
	pattern.text = strdup(text);
	pattern.components = calloc(path_depth(text) + 1, sizeof(*pattern.components));
	r = pattern.text && pattern.components ? parse_components(&pattern, why) : -ENOMEM;
	if (r == 0)
		*ret = pattern;
	else
		pattern_deinit(&pattern);
	return r;
}

static bool component_matches(const struct pattern_component *component, const char *name, size_t length)
{
	if (component->kind == COMPONENT_LITERAL)
		return component->length == length && memcmp(component->at, name, length) == 0;
	return glob_matches(component->at, component->length, name, length);
}

/* Past the name at `at`, and past the slash behind it. */
static const char *next_name(const char *at)
{
	at += strcspn(at, "/");
	return at + (*at == '/');
}

bool pattern_matches(const struct pattern *pattern, const char *path, size_t depth)
{
	const struct pattern_component *component = pattern->components, *end = component + pattern->n;
	const struct pattern_component *after_star = NULL;
	const char *at = path + 1, *star_at = NULL;

	if (!pattern->any_depth && pattern->n != depth)
		return false;
	while (*at) {
		if (component < end && component->kind == COMPONENT_ANY_DEPTH) {
			after_star = ++component;
			star_at = at;
		} else if (component < end && component_matches(component, at, strcspn(at, "/"))) {
			component++;
			at = next_name(at);
		} else if (after_star) {
			component = after_star;
			at = star_at = next_name(star_at);
		} else {
			return false;
		}
	}
	while (component < end && component->kind == COMPONENT_ANY_DEPTH)
		component++;
	return component == end;
}

bool pattern_is_nested(const struct pattern *pattern)
{
	return pattern->n > 0 && pattern->components[pattern->n - 1].kind == COMPONENT_ANY_DEPTH;
}

static int compare(size_t a, size_t b)
{
	return (a > b) - (a < b);
}

int pattern_compare(const struct pattern *a, const struct pattern *b)
{
	int r = compare(a->literal_components, b->literal_components);

	if (r == 0)
		r = compare(a->literal_bytes, b->literal_bytes);
	return r != 0 ? r : compare(b->any_depth, a->any_depth);
}
