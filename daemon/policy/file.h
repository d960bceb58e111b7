/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The syntax of a policy file, as systemd has it: sections, assignments, comments, and lines that go on after a backslash. */

#include "protocol/base/base.h"

struct policy_line {
	enum { LINE_SECTION, LINE_ASSIGNMENT, LINE_WRONG } kind;
	unsigned number;   /* where it begins */
	const char *name;  /* of the section or the key; of what is wrong, the line */
	const char *value; /* of the assignment; "" where there is none */
	const char *wrong; /* what is wrong about it */
};

struct policy_reader {
	char *at;
	char *end;
	unsigned number;
};

/* Reads from `text`, which is changed on the way; text[length] has to be a NUL, and no other byte. */
struct policy_reader policy_reader_make(char *text, size_t length);
/* False: that was all. The line's strings live as long as the text. */
bool policy_reader_next(struct policy_reader *, struct policy_line *ret);
