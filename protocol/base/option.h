/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Options of a program as a table: their names, their help, and the members that they set. */

#include <stdio.h>

#include "protocol/base/text.h"

enum option_kind {
	OPTION_FLAG,
	OPTION_LAST, /* a flag behind which no option is read */
	OPTION_TEXT,
	OPTION_TEXTS,  /* repeatable: the member is a struct option_list */
	OPTION_WORD,   /* one of `words`; the member is that word */
	OPTION_NUMBER, /* 32 bits */
	OPTION_LONG,   /* 64 bits */
	OPTION_SIZE,   /* 64 bits, perhaps with k, K or M behind it */
};

enum { OPTION_TEXTS_MAX = 512 };
struct option_list {
	const char *text[OPTION_TEXTS_MAX];
	size_t n;
};

struct option_row {
	const char *name;
	const char *argument; /* NULL: it takes none */
	enum option_kind kind;
	size_t member;
	const char *help; /* NULL: a name that the help does not mention */
	const char *const *words;
	uint64_t least, most;
	char letter;
};

/* Puts the argument into the member. NULL, or a sentence about the right ones. */
const char *option_set(const struct option_row *, const char *argument, void *member);

struct option_table {
	const char *program;	       /* and perhaps its command */
	const char *usage;	       /* the lines above the options */
	const char *see;	       /* the line below */
	const struct option_row *rows; /* ends with a row without a name; or NULL */
	/* Options that the help does not show; or NULL. Their members are in `more_values`. */
	const struct option_row *more;
	void *more_values;
	bool takes_arguments; /* which begin at `optind` */
	bool stops;	      /* at the first argument */
};

/*
 * Sets members of `ret`, and carries out --help and --version, which no table has. -1 to go on, or an exit status: 0; or 2 after a
 * message. The position of getopt_long(3) is global.
 */
int option_table_read(const struct option_table *, int argc, char **argv, void *ret);
void option_table_help(FILE *, const struct option_table *);
