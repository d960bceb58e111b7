/* SPDX-License-Identifier: GPL-2.0-or-later */

/* "pattern NUL path": whether the pattern matches, compared with a matcher that tries all ways; or two globs of event names. */

#include "daemon/policy/glob.h"
#include "tests/fuzz/fuzz.h"

enum { SHORT = 24 }; /* the slow matcher takes exponential time */

static const char *component_end(const char *at)
{
	return at + strcspn(at, "/");
}

static bool pattern_matches_one(const char *component, const char *name)
{
	struct pattern pattern;
	char room[2 * SHORT + 2];

	require(!pattern_parse(component, room, &pattern));
	return pattern_matches(&pattern, name, 1);
}

/* From one slash to the next; both begin with one, or are at the end. */
static bool matches(const char *pattern, const char *path)
{
	const char *end = component_end(pattern + 1), *name_end;
	char component[SHORT + 1], name[SHORT + 1];

	if (!*pattern)
		return !*path;
	if (end - pattern == 3 && strncmp(pattern, "/**", 3) == 0) {
		if (matches(end, path))
			return true;
		return *path && matches(pattern, component_end(path + 1));
	}
	if (!*path)
		return false;
	name_end = component_end(path + 1);
	string_copy(component, (size_t)(end - pattern) + 1, pattern);
	string_copy(name, (size_t)(name_end - path) + 1, path);
	return pattern_matches_one(component, name) && matches(end, name_end);
}

/* As the kernel shows them: "/", or names with slashes between. */
static bool is_path(const char *path)
{
	return *path == '/' && !strstr(path, "//") && path[1] != '\0' && path[strlen(path) - 1] != '/';
}

static bool is_event_glob(const char *text)
{
	return strlen(text) <= GLOB_BYTES_MAX && !strchr(text, '\\') && !glob_check(text);
}

/* A glob without wildcards overlaps each glob that matches its text. */
static void compare(const char *one, const char *other)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
	bool overlap = globs_overlap(one, other);

	require(globs_overlap(other, one) == overlap);
	if (strspn(other, letters) == strlen(other))
		require(glob_match(one, other) == overlap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = as_text(data, size), *room = malloc(2 * strlen(text) + 2);
	struct pattern pattern;
	const char *path = text + strlen(text) + 1;

	require(room);
	if (path < text + size && is_event_glob(text) && is_event_glob(path))
		compare(text, path);
	if (pattern_parse(text, room, &pattern) || path >= text + size || !is_path(path))
		return 0;
	if (strlen(text) <= SHORT && strlen(path) <= SHORT && !streq(text, "/"))
		require(pattern_matches(&pattern, path, path_depth(path)) == matches(text, path));
	else
		pattern_matches(&pattern, path, path_depth(path));
	require(pattern_compare(&pattern, &pattern) == 0);
	return 0;
}
