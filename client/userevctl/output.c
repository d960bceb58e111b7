/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/output.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "protocol/base/text.h"

void output_open(struct output *output, FILE *file)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	int fd = fileno(file);
	bool terminal = fd >= 0 && isatty(fd),
	     wanted = (!no_color || !no_color[0]) && term && term[0] && !streq(term, "dumb");
	struct winsize size;

	output->file = file;
	output->terminal = terminal || output->columns > 0;
	output->colour = terminal && wanted;
	if (output->when && !streq(output->when, "auto"))
		output->colour = streq(output->when, "always");
	output->width = output->columns;
	if (terminal && output->columns == 0)
		output->width = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void output_styled(const struct output *output, enum style style, const char *format, ...)
{
	static const char *const sequences[] = {
		[STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",	  [STYLE_GOOD] = "\033[32m",
		[STYLE_BAD] = "\033[1;31m", [STYLE_WARNING] = "\033[33m", [STYLE_NAME] = "\033[36m",
	};
	bool coloured = output->colour && style != STYLE_PLAIN;
	va_list arguments;

	fputs(coloured ? sequences[style] : "", output->file);
	va_start(arguments, format);
	vfprintf(output->file, format, arguments);
	va_end(arguments);
	fputs(coloured ? "\033[0m" : "", output->file);
}

int output_flush(const struct output *output)
{
	struct pollfd end = { .fd = fileno(output->file) };

	errno = 0;
	if (fflush(output->file) == 0 && !ferror(output->file))
		return 0;
	if (errno)
		return -errno;
	/* The error came when stdio flushed a full buffer. */
	return poll(&end, 1, 0) > 0 && end.revents & POLLERR ? -EPIPE : -EIO;
}

struct phrase humane_duration(uint64_t seconds)
{
	static const struct {
		uint64_t seconds;
		const char *name;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
	struct phrase ret;
	size_t unit = 0;

	while (unit < 3 && seconds < units[unit].seconds)
		unit++;
	if (unit == 3)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 " s", seconds);
	else
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 " %s %" PRIu64 " %s", seconds / units[unit].seconds,
			 units[unit].name, seconds % units[unit].seconds / units[unit + 1].seconds,
			 units[unit + 1].name);
	return ret;
}

struct phrase plural(uint64_t count, const char *singular, const char *many)
{
	struct phrase ret;
	char digits[32];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	size_t at = 0;

	/* 1234567 as "1,234,567". */
	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			ret.text[at++] = ',';
		ret.text[at++] = digits[i];
	}
	snprintf(ret.text + at, sizeof(ret.text) - at, " %s", count == 1 ? singular : many);
	return ret;
}

struct safe_string safe_string(const char *string)
{
	struct safe_string ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));

	text_safe(&text, string, strlen(string));
	return ret;
}

struct safe_string row_string(struct cursor row, const char *key)
{
	char string[sizeof(struct safe_string)];

	row_get_string(row, key, string, sizeof(string));
	return safe_string(string);
}
