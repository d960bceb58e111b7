/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What is wrong with policy files: collected, so that the daemon can log it and userevctl print it. */

#include "protocol/base/text.h"

enum severity {
	PROBLEM_WARNING,
	PROBLEM_UNKNOWN, /* a warning: a newer daemon may know it; an error where files are to be strict */
	PROBLEM_ERROR,
};

/* Where something stands. */
struct place {
	const char *file;
	unsigned line;	 /* from 1; 0: the file as a whole */
	const char *key; /* NULL: it is about none */
};

struct problem {
	enum severity severity;
	char *file;
	unsigned line;
	char *key;
	char *sentence; /* safe to show; says what would be right */
};

struct problems {
	struct problem *list;
	size_t n;
	size_t errors; /* so many of them */
	bool failed;   /* memory was short: there are more */
};

void problems_deinit(struct problems *);
void problems_add(struct problems *, enum severity, struct place, const char *format, ...) _printf_(4, 5);
/* What is unknown is an error. */
void problems_be_strict(struct problems *);
/* "/etc/userevd/policy.d/10-a.conf:7: MaxEvents=many: …" */
void problem_text(const struct problem *, struct text *);
