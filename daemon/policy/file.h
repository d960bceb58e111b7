/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Files of a policy, and others of the same syntax: which files there are, their texts, and lines. */

#include "daemon/policy/problem.h"

struct policy_files {
	char **path; /* sorted by the names of the files */
	size_t n;
};
/*
 * Adds all *.conf of the directories, which colons separate; `root` (NULL: none) is put before each. What cannot be read becomes a
 * problem, here and below.
 */
void policy_list_files(const char *directories, const char *root, struct problems *, struct policy_files *ret);
void policy_files_deinit(struct policy_files *);
/* The path without its directories. */
const char *policy_file_name(const char *path);
/* The text of a file, which the caller frees; NULL for a mask, and after a problem. */
char *policy_read_file(const char *path, struct problems *);

struct policy_reader {
	char *at; /* NULL: at the end */
	unsigned lines;
	unsigned number; /* of the line that was read last: where it begins */
};
/* A line without blanks around it, with its continuations; comments and empty lines are left out. NULL: the end. Changes the text. */
char *policy_read_line(struct policy_reader *);
/* Cuts blanks off at both ends. */
char *policy_strip(char *text);
