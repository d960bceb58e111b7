/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Policy files in a temporary directory, for tests. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/policy/policy.h"
#include "tests/suite.h"

/* Three directories, as the daemon has them, in a temporary one. */
static char scratch[64];
static char directories[256];

static struct problems problems;

static inline bool begin(void)
{
	make_temporary_directory(scratch, sizeof(scratch));
	snprintf(directories, sizeof(directories), "%s/etc:%s/run:%s/lib", scratch, scratch, scratch);
	return true;
}

static inline void end(const bool *has_directory _unused_)
{
	problems_deinit(&problems);
	remove_directory(scratch);
}

/* To be the first line of a test: removes the files at its end. */
#define FILES _cleanup_(end) bool has_directory _unused_ = begin()

static inline const char *in_scratch(const char *name)
{
	static char path[256];
	char *slash;

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	slash = strrchr(path, '/');
	*slash = '\0';
	mkdir(path, 0755);
	*slash = '/';
	return path;
}

static inline void put_bytes(const char *name, const char *bytes, size_t length)
{
	int fd = open(in_scratch(name), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
	close(fd);
}

static inline void put(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static inline const char *all_problems(void)
{
	static char buffer[8192];
	struct text text = text_make(buffer, sizeof(buffer));

	for (size_t i = 0; i < problems.n; i++) {
		char line[1024];
		struct text one = text_make(line, sizeof(line));

		problem_text(&problems.list[i], &one);
		text_printf(&text, "%s\n", line);
	}
	/* Without the temporary directory. */
	for (char *at = buffer; (at = strstr(at, scratch));)
		memmove(at, at + strlen(scratch) + 1, strlen(at + strlen(scratch) + 1) + 1);
	return buffer;
}

/* Its problems are these; the policy of files with errors is NULL. */
static inline struct policy *load_with(int answer, const char *expected)
{
	struct policy *policy = NULL;

	problems_deinit(&problems);
	ck_assert_int_eq(policy_load(directories, NULL, &problems, &policy), answer);
	ck_assert_str_eq(all_problems(), expected);
	ck_assert((policy == NULL) == (answer != 0));
	ck_assert((problems.errors > 0) == (answer != 0));
	return policy;
}

static inline struct policy *load(void)
{
	return load_with(0, "");
}

static inline struct policy *load_text(const char *text)
{
	put("etc/a.conf", text);
	return load();
}

/* "value@file:line", or "nothing". */
static inline const char *shown(enum policy_key key, const struct policy_value *value)
{
	static char buffer[512];
	struct text text = text_make(buffer, sizeof(buffer));

	if (!value)
		return "nothing";
	policy_value_text(key, value, &text);
	if (value->origin.file)
		text_printf(&text, "@%s:%u", strrchr(value->origin.file, '/') + 1, value->origin.line);
	return buffer;
}

#define POLICY(name, text) _cleanup_(policy_unrefp) struct policy *name = load_text(text)
