/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Globs: *, ?, [a-z] and [!a-z] stand for bytes of one name. \*, \? and \[ are those bytes themselves; before anything else a
 * backslash is a backslash, since systemd writes "\x2d" into the names of cgroups.
 */

#include "protocol/base/text.h"

enum { GLOB_E_WRONG = 1 };

/* 0, or GLOB_E_WRONG with what is wrong about it. */
int glob_check(const char *glob, size_t length, struct text *why);
/* Of a good one. Takes no more steps than the product of both lengths. */
bool glob_matches(const char *glob, size_t glob_length, const char *name, size_t length);
enum { GLOB_COMPARED_MAX = 255 }; /* bytes of a glob that can be compared with another: more than a name has */
/* Of two good ones, whether some name matches both. Takes no more steps than the product of both lengths. */
bool globs_overlap(const char *a, size_t a_length, const char *b, size_t b_length);
/* How many bytes of a name it fixes, and whether it has anything that stands for others. */
size_t glob_literal_bytes(const char *glob, size_t length, bool *ret_wild);

/* A pattern of cgroups: globs between slashes; ** stands for any number of components, also for none. */
struct pattern {
	char *text;
	size_t n;
	struct pattern_component *components;
	bool literal;		   /* matches the path that is its text, and no other */
	bool any_depth;		   /* has a ** */
	size_t literal_components; /* without anything wild */
	size_t literal_bytes;
};

/* 0, GLOB_E_WRONG with what is wrong about it, or -ENOMEM. */
int pattern_parse(const char *text, struct pattern *ret, struct text *why);
void pattern_deinit(struct pattern *);
/* `path` begins with a slash, and has as many components as path_depth() says. */
bool pattern_matches(const struct pattern *, const char *path, size_t depth);
size_t path_depth(const char *path);
/* Whether the last component is a **: then it matches cgroups inside of others that it matches. */
bool pattern_is_nested(const struct pattern *);
/* Which one says more of the paths that it matches: above 0 if `a`. */
int pattern_compare(const struct pattern *a, const struct pattern *b);
