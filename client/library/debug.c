/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <stdarg.h>
#include <stdio.h>

#include "client/library/library.h"

enum { ASKED_SHOWN = 200 }; /* of a description, so that the sentence behind it is whole */

enum explains explains_what(void)
{
	const char *debug = secure_getenv("USEREV_DEBUG");

	if (!debug || !*debug || streq(debug, "0"))
		return EXPLAINS_NOTHING;
	return streq(debug, "refused") ? EXPLAINS_REFUSALS : EXPLAINS_ALL;
}

/* Past stdio, which may be what has called us. */
void explain_to(const struct userev *userev, enum explains least, const char *format, ...)
{
	char line[512] = "userev: ";
	const size_t begin = strlen(line);
	va_list arguments;
	int length;

	if (userev->explains < least)
		return;
	va_start(arguments, format);
	length = vsnprintf(line + begin, sizeof(line) - begin - 1, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	length = MIN(length, (int)(sizeof(line) - begin - 2));
	line[begin + (size_t)length] = '\n';
	/* A failed write concerns the reader of stderr alone. */
	(void)!write(STDERR_FILENO, line, begin + (size_t)length + 1);
}

void explain_refusal(const struct userev *userev, const char *asked, const char *sentence, size_t length)
{
	const char *more = strlen(asked) > ASKED_SHOWN ? "..." : "";

	explain_to(userev, EXPLAINS_REFUSALS, "refused: %.*s%s: %.*s", ASKED_SHOWN, asked, more, (int)length, sentence);
}
