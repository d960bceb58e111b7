/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A path is matched component by component. Only the last ** is ever tried again, since it can match whatever an earlier one
 * could: so a pattern takes no more steps than the product of both lengths.
 */

#include "daemon/policy/glob.h"

#include <limits.h>

struct pattern_component {
	const char *glob; /* in pattern->globs */
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
	free(pattern->globs);
	free(pattern->components);
	*pattern = (struct pattern){ 0 };
}

/*
 * One component, which has been checked: its glob is written to `to`, with \* as [*], since fnmatch(3) is to take backslashes as they
 * are. Returns the end of the component, and moves `to` on.
 */
static const char *pattern_add(struct pattern *pattern, const char *at, char **to)
{
	struct pattern_component *component = &pattern->components[pattern->n++];
	size_t length = strcspn(at, "/"), bytes = 0, n_wild = 0;
	const char *end = at + length;

	component->glob = *to;
	for (size_t piece; at < end; at += piece) {
		bool wild = strchr("*?[", *at);

		piece = glob_piece(at);
		if (*at == '\\' && piece == 2)
			*to = mempcpy(*to, (const char[]){ '[', at[1], ']' }, 3);
		else
			*to = mempcpy(*to, at, piece);
		n_wild += wild;
		bytes += !wild;
	}
	*(*to)++ = '\0';
	if (streq(component->glob, "**"))
		component->kind = COMPONENT_ANY_DEPTH;
	else
		component->kind = bytes == length ? COMPONENT_LITERAL : COMPONENT_GLOB;
	pattern->literal_bytes += bytes;
	pattern->literal_components += n_wild == 0;
	pattern->any_depth |= component->kind == COMPONENT_ANY_DEPTH;
	pattern->literal &= component->kind == COMPONENT_LITERAL;
	return end;
}

int pattern_parse(const char *text, struct pattern *ret, struct text *why)
{
	struct pattern pattern = { .literal = true };
	const char *wrong = text[0] != '/' ? "a pattern of cgroups begins with '/'"
			    : strstr(text, "//") || (text[1] && text[strlen(text) - 1] == '/')
				    ? "between two slashes, and behind the last one, there has to be a name"
				    : NULL;
	char *to;

	if (wrong) {
		text_printf(why, "%s", wrong);
		return GLOB_E_WRONG;
	}
	if (glob_check(text, why) != 0)
		return GLOB_E_WRONG;
	pattern.text = strdup(text);
	pattern.globs = to = malloc(2 * strlen(text) + 1);
	pattern.components = calloc(path_depth(text) + 1, sizeof(*pattern.components));
	if (!pattern.text || !pattern.globs || !pattern.components) {
		pattern_deinit(&pattern);
		return -ENOMEM;
	}
	/* "/" alone is the root, which has no component. */
	while (text[0] == '/' && text[1] != '\0')
		text = pattern_add(&pattern, text + 1, &to);
	*ret = pattern;
	return 0;
}

/* An error of fnmatch(3) is no match: then the section allows nothing. */
static bool component_matches(const struct pattern_component *component, const char *name, size_t length)
{
	char copy[NAME_MAX + 1];

	if (component->kind == COMPONENT_LITERAL)
		return strlen(component->glob) == length && memcmp(component->glob, name, length) == 0;
	if (length >= sizeof(copy))
		return false;
	string_copy(copy, length + 1, name);
	return glob_match(component->glob, copy) > 0;
}

static const char *path_next(const char *at)
{
	at += strcspn(at, "/");
	return at + (*at == '/');
}

bool pattern_matches(const struct pattern *pattern, const char *path, size_t depth)
{
	const struct pattern_component *component = pattern->components, *end = component + pattern->n;
	const struct pattern_component *after_star = NULL;
	const char *at = path + 1, *star_at = NULL;

	if (pattern->literal)
		return streq(pattern->text, path);
	if (!pattern->any_depth && pattern->n != depth)
		return false;
	while (*at) {
		if (component < end && component->kind == COMPONENT_ANY_DEPTH) {
			after_star = ++component;
			star_at = at;
		} else if (component < end && component_matches(component, at, strcspn(at, "/"))) {
			component++;
			at = path_next(at);
		} else if (after_star) {
			component = after_star;
			at = star_at = path_next(star_at);
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

int pattern_compare(const struct pattern *a, const struct pattern *b)
{
	const size_t order[][2] = {
		{ a->literal_components, b->literal_components },
		{ a->literal_bytes, b->literal_bytes },
		{ b->any_depth, a->any_depth },
	};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (order[i][0] != order[i][1])
			return order[i][0] > order[i][1] ? 1 : -1;
	return 0;
}
