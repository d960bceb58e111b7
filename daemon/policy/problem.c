/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/problem.h"

#include <stdarg.h>
#include <stdio.h>

static void problem_deinit(struct problem *problem)
{
	free(problem->file);
	free(problem->key);
	free(problem->sentence);
}

void problems_deinit(struct problems *problems)
{
	for (size_t i = 0; i < problems->n; i++)
		problem_deinit(&problems->list[i]);
	free(problems->list);
	*problems = (struct problems){ 0 };
}

static bool make_room(struct problems *problems)
{
	struct problem *list;

	/* A power of two, and full. */
	if ((problems->n & (problems->n - 1)) != 0)
		return true;
	list = reallocarray(problems->list, MAX(problems->n * 2, (size_t)1), sizeof(*list));
	if (list)
		problems->list = list;
	return list;
}

void problems_add(struct problems *problems, enum severity severity, struct place place, const char *format, ...)
{
	struct problem problem = { .severity = severity, .line = place.line };
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&problem.sentence, format, arguments);
	va_end(arguments);
	/* What it points to is nothing to be freed, then. */
	if (length < 0)
		problem.sentence = NULL;
	problem.file = strdup(place.file);
	problem.key = place.key ? strdup(place.key) : NULL;
	/* Counted in any case: what has an error is not used, whether there is room to say so or not. */
	problems->errors += severity == PROBLEM_ERROR;
	if (!problem.sentence || !problem.file || (place.key && !problem.key) || !make_room(problems)) {
		problem_deinit(&problem);
		problems->failed = true;
		return;
	}
	problems->list[problems->n++] = problem;
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
