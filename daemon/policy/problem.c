/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/problem.h"

#include <stdarg.h>
#include <stdio.h>

#include "protocol/base/array.h"

void problems_deinit(struct problems *problems)
{
	for (size_t i = 0; i < problems->n; i++)
		free(problems->list[i].file);
	free(problems->list);
	*problems = (struct problems){ 0 };
}

void problems_add(struct problems *problems, enum severity severity, struct policy_origin place, const char *format,
		  ...)
{
	struct problem problem = { .severity = severity, .line = place.line }, *list;
	char sentence[8192];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	/* Counted in any case: files with an error are not used, even if the error cannot be shown. */
	problems->errors += severity == PROBLEM_ERROR;
	list = array_grow(problems->list, problems->n, sizeof(*list));
	problems->list = list ? list : problems->list;
	if (!list ||
	    asprintf(&problem.file, "%s%c%s%c%s", place.file, '\0', sentence, '\0', place.key ? place.key : "") < 0) {
		problems->failed = true;
		return;
	}
	problem.sentence = problem.file + strlen(problem.file) + 1;
	problem.key = place.key ? problem.sentence + strlen(problem.sentence) + 1 : NULL;
	list[problems->n++] = problem;
}

void problems_be_strict(struct problems *problems)
{
	for (size_t i = 0; i < problems->n; i++) {
		if (problems->list[i].severity != PROBLEM_UNKNOWN)
			continue;
		problems->list[i].severity = PROBLEM_ERROR;
		problems->errors++;
	}
}

void problem_text(const struct problem *problem, struct text *text)
{
	text_safe(text, problem->file, strlen(problem->file));
	if (problem->line > 0)
		text_printf(text, ":%u", problem->line);
	text_printf(text, ": %s%s", problem->severity == PROBLEM_ERROR ? "" : "warning: ", problem->sentence);
}

struct excerpt excerpt_of(const char *from)
{
	struct excerpt excerpt = { 0 };
	struct text text = text_make(excerpt.text, sizeof(excerpt.text));

	text_excerpt(&text, from, strlen(from));
	return excerpt;
}
