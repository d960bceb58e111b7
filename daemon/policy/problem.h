/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Errors and warnings about policy files: collected, so that the daemon can log them and userevctl print them. */

#include "protocol/base/text.h"

enum severity {
	PROBLEM_WARNING,
	PROBLEM_UNKNOWN, /* an unknown section or key is a warning, since a newer daemon may know it; an error with --strict */
	PROBLEM_ERROR,
};

/* A place in the files. That of a section or value lives as long as the policy. */
struct policy_origin {
	const char *section; /* the pattern, or "Daemon"; NULL: none, or it is the default */
	const char *file;
	unsigned line;	 /* from 1; 0: the file as a whole */
	const char *key; /* NULL: no key */
};

struct problem {
	enum severity severity;
	char *file; /* the others are behind it */
	unsigned line;
	const char *key;      /* NULL: none */
	const char *sentence; /* safe to show; with advice */
};

struct problems {
	struct problem *list;
	size_t n;
	size_t errors; /* among them */
	bool failed;   /* out of memory: some are missing */
};

void problems_deinit(struct problems *);
void problems_add(struct problems *, enum severity, struct policy_origin, const char *format, ...) _printf_(4, 5);
/* Turns PROBLEM_UNKNOWN into errors. */
void problems_be_strict(struct problems *);
/* "/etc/userevd/policy.d/10-a.conf:7: MaxEvents=many: …" */
void problem_text(const struct problem *, struct text *);

/* The beginning of a text from a file or a cgroup, safe to show. */
struct excerpt {
	char text[4 * TEXT_EXCERPT_MAX + 8];
};
struct excerpt excerpt_of(const char *);
