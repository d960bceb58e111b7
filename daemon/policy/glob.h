/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Globs as fnmatch(3) has them: *, ?, [a-z] and [!a-z] stand for bytes of one name. \*, \? and \[ are those bytes themselves; before
 * any other byte a backslash is a backslash, since systemd writes "\x2d" into the names of cgroups.
 */

#include "protocol/base/base.h"

enum { GLOB_BYTES_MAX = 255 }; /* of a glob of OwnNames=: the longest name has fewer */

/* The length of the piece at `at`: a set with its brackets, an escaped byte with its backslash, or one byte. 0: a set without an end. */
size_t glob_piece(const char *at);
/* NULL, or a sentence that says the fault. */
const char *glob_check(const char *glob);
/* 1: the name matches; 0: it does not; negative: fnmatch(3) has failed, and the caller has to refuse its request. */
int glob_match(const char *glob, const char *name);

/*
 * Each piece of such a glob as the set of the characters of event names that it matches, by their place in `glob_characters`; a star is
 * GLOB_STAR. Returns the number of pieces.
 */
size_t glob_compile(const char *glob, uint64_t ret[GLOB_BYTES_MAX]);
extern const char glob_characters[];
#define GLOB_STAR UINT64_MAX
/* Whether some event name matches both globs, which are of at most GLOB_BYTES_MAX bytes and without backslashes. */
bool globs_overlap(const char *a, const char *b);

/* A pattern of cgroups: globs between slashes; ** stands for any number of components, also for none. */
struct pattern {
	const char *text;
	const char *globs; /* of all components, for fnmatch(3); each ends with a NUL, and the last one is empty */
	size_t n;
	size_t prefix; /* bytes of the text up to the first component with a wildcard or a \*; all: it matches its text alone */
	bool any_depth;		   /* has a ** */
	size_t literal_components; /* without wildcards */
	size_t literal_bytes;
};

/* NULL, or a sentence that says the fault. The pattern refers to the text and to `room`, which has twice the bytes of the text and two. */
const char *pattern_parse(const char *text, char *room, struct pattern *ret);
/* `path` begins with a slash, and has as many components as path_depth() returns. */
bool pattern_matches(const struct pattern *, const char *path, size_t depth);
size_t path_depth(const char *path);
/* Whether the last component is **, so that the pattern matches both a cgroup and the cgroups inside it. */
bool pattern_is_nested(const struct pattern *);
/* Above 0 if `a` is the more specific pattern. */
int pattern_compare(const struct pattern *a, const struct pattern *b);
