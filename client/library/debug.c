/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <stdarg.h>
#include <stdio.h>

#include "client/library/debug.h"

enum { DESCRIPTION_SHOWN = 200 }; /* leaves room for the whole refusal */

enum debug_level debug_level;

void debug_init(void)
{
	const char *debug = secure_getenv("USEREV_DEBUG");

	if (!debug || !*debug || streq(debug, "0"))
		debug_level = DEBUG_OFF;
	else
		debug_level = streq(debug, "refused") ? DEBUG_REFUSALS : DEBUG_ALL;
}

/* Does not use stdio, which may have called the library. */
void debug_write(const char *format, ...)
{
	char line[512] = "userev: ";
	const size_t begin = strlen(line);
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line + begin, sizeof(line) - begin - 1, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	length = MIN(length, (int)(sizeof(line) - begin - 2));
	line[begin + (size_t)length] = '\n';
	/* A failed write is not reported. */
	(void)!write(STDERR_FILENO, line, begin + (size_t)length + 1);
}

void debug_refusal(const char *description, const char *refusal, size_t length)
{
	const char *more = strlen(description) > DESCRIPTION_SHOWN ? "..." : "";

	if (debug_level < DEBUG_REFUSALS)
		return;
	debug_write("refused: %.*s%s: %.*s", DESCRIPTION_SHOWN, description, more, (int)length, refusal);
}
