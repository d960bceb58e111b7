/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A path is matched component by component. Only the last ** is ever tried again, since it can match whatever an earlier one
 * could: so a pattern takes no more steps than the product of both lengths.
 */

#include "daemon/policy/glob.h"

#include <limits.h>

size_t path_depth(const char *path)
{
	size_t depth = 0;

	for (const char *at = path; *at; at++)
		depth += at[0] == '/' && at[1] != '\0';
	return depth;
}

/*
 * One component, which has been checked: its glob is written to `to`, with \* as [*], since fnmatch(3) is to take backslashes as they
 * are. Returns the end of the component, and moves `to` on.
 */
static const char *pattern_add(struct pattern *pattern, const char *at, char **to)
{
	size_t length = strcspn(at, "/"), n_wild = 0;
	const char *end = at + length, *glob = *to;

	for (size_t piece; at < end; at += piece) {
		bool wild = strchr("*?[", *at);

		piece = glob_piece(at);
		if (*at == '\\' && piece == 2)
			*to = mempcpy(*to, (const char[]){ '[', at[1], ']' }, 3);
		else
			*to = mempcpy(*to, at, piece);
		n_wild += wild;
		pattern->literal_bytes += !wild;
	}
	*(*to)++ = '\0';
	pattern->n++;
	pattern->any_depth |= streq(glob, "**");
	pattern->literal_components += n_wild == 0;
	/* A slash before each component is as long as the NUL behind it. */
	if (n_wild == 0 && strlen(glob) == length && pattern->prefix == (size_t)(glob - pattern->globs))
		pattern->prefix += 1 + length;
	return end;
}

const char *pattern_parse(const char *text, char *room, struct pattern *ret)
{
	struct pattern pattern = { .text = text, .globs = room };
	const char *wrong = glob_check(text), *at = text;

	if (text[0] != '/')
		return "a pattern of cgroups begins with '/'";
	if (strstr(text, "//") || (text[1] && text[strlen(text) - 1] == '/'))
		return "between two slashes, and behind the last one, there has to be a name";
	if (wrong)
		return wrong;
	while (at[0] == '/' && at[1])
		at = pattern_add(&pattern, at + 1, &room);
	*room = '\0';
	/* "/" alone is the root, which has no component. */
	if (pattern.n == 0)
		pattern.prefix = 1;
	*ret = pattern;
	return NULL;
}

/* An error of fnmatch(3) is no match: then the section allows nothing. */
static bool component_matches(const char *glob, const char *name, size_t length)
{
	char copy[NAME_MAX + 1];

	if (length >= sizeof(copy))
		return false;
	string_copy(copy, length + 1, name);
	return glob_match(glob, copy) > 0;
}

static const char *path_next(const char *at)
{
	at += strcspn(at, "/");
	return at + (*at == '/');
}

bool pattern_matches(const struct pattern *pattern, const char *path, size_t depth)
{
	const char *glob = pattern->globs + pattern->prefix, *after_star = NULL, *star_at = NULL, *at;

	if (strncmp(pattern->text, path, pattern->prefix) != 0)
		return false;
	at = path + pattern->prefix;
	if (pattern->text[pattern->prefix] == '\0')
		return *at == '\0';
	if ((*at && *at != '/') || (!pattern->any_depth && pattern->n != depth))
		return false;
	at += *at == '/';
	while (*at) {
		if (streq(glob, "**")) {
			glob += sizeof("**");
			after_star = glob;
			star_at = at;
		} else if (*glob && component_matches(glob, at, strcspn(at, "/"))) {
			glob += strlen(glob) + 1;
			at = path_next(at);
		} else if (after_star) {
			glob = after_star;
			at = star_at = path_next(star_at);
		} else {
			return false;
		}
	}
	while (streq(glob, "**"))
		glob += sizeof("**");
	return !*glob;
}

bool pattern_is_nested(const struct pattern *pattern)
{
	size_t length = strlen(pattern->text);

	return length >= strlen("/**") && streq(pattern->text + length - strlen("/**"), "/**");
}

int pattern_compare(const struct pattern *a, const struct pattern *b)
{
	if (a->literal_components != b->literal_components)
		return a->literal_components > b->literal_components ? 1 : -1;
	if (a->literal_bytes != b->literal_bytes)
		return a->literal_bytes > b->literal_bytes ? 1 : -1;
	return b->any_depth - a->any_depth;
}
