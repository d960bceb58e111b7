/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The syntax of a policy file, which is that of systemd: sections, assignments, comments, and continuation after a backslash. */

#include "protocol/base/base.h"

struct policy_line {
	enum { LINE_SECTION, LINE_ASSIGNMENT, LINE_WRONG } kind;
	unsigned number;   /* where it begins */
	const char *name;  /* of the section or the key; of a wrong line, the whole line */
	const char *value; /* of the assignment; may be "" */
	const char *wrong; /* why */
};

struct policy_reader {
	char *at; /* NULL: at the end */
	unsigned number;
};

/* The reader changes the text. */
struct policy_reader policy_reader_make(char *text);
/* False: the end. The line's strings live as long as the text. */
bool policy_reader_next(struct policy_reader *, struct policy_line *ret);
