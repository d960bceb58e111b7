/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <stdarg.h>
#include <stdio.h>

#include "client/library.h"

/* Past stdio, which may be what has called us. */
void explain(const struct userev *userev, const char *format, ...)
{
	char line[512] = "userev: ";
	const size_t begin = strlen(line);
	va_list arguments;
	int length;

	if (!userev->explains)
		return;
	va_start(arguments, format);
	length = vsnprintf(line + begin, sizeof(line) - begin - 1, format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	length = MIN(length, (int)(sizeof(line) - begin - 2));
	line[begin + (size_t)length] = '\n';
	/* Whether anybody reads it is his affair. */
	(void)!write(STDERR_FILENO, line, begin + (size_t)length + 1);
}
