/* SPDX-License-Identifier: GPL-2.0-or-later */

/* "pattern NUL path": whether one matches the other, beside a matcher that tries everything. */

#include "daemon/policy/glob.h"
#include "tests/fuzz/fuzz.h"

enum { SHORT = 24 }; /* it takes exponential time */

static const char *component_end(const char *at)
{
	return at + strcspn(at, "/");
}

/* From one slash to the next; both begin with one, or are at the end. */
static bool matches(const char *pattern, const char *path)
{
	const char *end = component_end(pattern + 1), *name_end;

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
	return glob_matches(pattern + 1, (size_t)(end - pattern - 1), path + 1, (size_t)(name_end - path - 1)) &&
	       matches(end, name_end);
}

/* As the kernel shows them: "/", or names with slashes between. */
static bool is_path(const char *path)
{
	return *path == '/' && !strstr(path, "//") && path[1] != '\0' && path[strlen(path) - 1] != '/';
}

static bool is_glob(const char *text)
{
	char sentence[256];
	struct text why = text_make(sentence, sizeof(sentence));

	return strlen(text) <= GLOB_COMPARED_MAX && glob_check(text, strlen(text), &why) == 0;
}

/* Of one that stands for itself alone it is known whether the other one takes it. */
static void compare(const char *one, const char *other)
{
	bool overlap = globs_overlap(one, strlen(one), other, strlen(other)), wild;

	require(globs_overlap(other, strlen(other), one, strlen(one)) == overlap);
	if (glob_literal_bytes(other, strlen(other), &wild) == strlen(other) && !wild)
		require(glob_matches(one, strlen(one), other, strlen(other)) == overlap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = as_text(data, size);
	_cleanup_(pattern_deinit) struct pattern pattern = { 0 };
	const char *path = text + strlen(text) + 1;
	char sentence[256];
	struct text why = text_make(sentence, sizeof(sentence));

	if (path < text + size && is_glob(text) && is_glob(path))
		compare(text, path);
	if (pattern_parse(text, &pattern, &why) != 0 || path >= text + size || !is_path(path))
		return 0;
	if (strlen(text) <= SHORT && strlen(path) <= SHORT && !streq(text, "/"))
		require(pattern_matches(&pattern, path, path_depth(path)) == matches(text, path));
	else
		pattern_matches(&pattern, path, path_depth(path));
	require(pattern_compare(&pattern, &pattern) == 0);
	return 0;
}
