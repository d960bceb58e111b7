/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/output.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "protocol/base/text.h"

static bool environment_wants_colour(void)
{
	const char *no_color = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");

	return (!no_color || no_color[0] == '\0') && terminal && terminal[0] && !streq(terminal, "dumb");
}

static unsigned terminal_width(int fd)
{
	struct winsize size;

	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return 80;
}

void output_init(struct output *output, FILE *file, enum colour_when when, unsigned width)
{
	int fd = fileno(file);
	bool terminal = fd >= 0 && isatty(fd);

	*output = (struct output){ .file = file, .terminal = terminal || width > 0, .width = width };
	output->colour = when == COLOUR_ALWAYS || (when == COLOUR_AUTO && terminal && environment_wants_colour());
	if (terminal && width == 0)
		output->width = terminal_width(fd);
}

static const char *style_sequence(const struct output *output, enum style style)
{
	static const char *const sequence[] = {
		[STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",	  [STYLE_GOOD] = "\033[32m",
		[STYLE_BAD] = "\033[1;31m", [STYLE_WARNING] = "\033[33m", [STYLE_NAME] = "\033[36m",
	};

	return output->colour && style != STYLE_PLAIN ? sequence[style] : "";
}

void output_styled(const struct output *output, enum style style, const char *format, ...)
{
	const char *sequence = style_sequence(output, style);
	va_list arguments;

	fputs(sequence, output->file);
	va_start(arguments, format);
	vfprintf(output->file, format, arguments);
	va_end(arguments);
	fputs(sequence[0] ? "\033[0m" : "", output->file);
}

/* Written before we looked: by its own when its buffer was full. */
static int why_lost_earlier(FILE *file)
{
	struct pollfd end = { .fd = fileno(file) };

	return poll(&end, 1, 0) > 0 && end.revents & POLLERR ? -EPIPE : -EIO;
}

int output_flush(const struct output *output)
{
	errno = 0;
	if (fflush(output->file) == 0 && !ferror(output->file))
		return 0;
	return errno ? -errno : why_lost_earlier(output->file);
}

/* The bytes of the character at `text` and the columns that it takes; 0 at the end. */
static size_t next_character(const char *text, size_t *ret_columns)
{
	mbstate_t state = { 0 };
	wchar_t character;
	size_t length = mbrtowc(&character, text, MB_CUR_MAX, &state);
	int columns;

	*ret_columns = 1;
	if (length == 0)
		return 0;
	if (length == (size_t)-1 || length == (size_t)-2)
		return 1;
	columns = wcwidth(character);
	if (columns >= 0)
		*ret_columns = (size_t)columns;
	return length;
}

size_t display_width(const char *text)
{
	size_t width = 0, columns, length;

	for (; (length = next_character(text, &columns)) > 0; text += length)
		width += columns;
	return width;
}

/* How many bytes from the beginning of `text` fit into `width` columns. */
static size_t bytes_that_fit(const char *text, size_t width)
{
	size_t at = 0, columns, length;

	for (; (length = next_character(text + at, &columns)) > 0 && columns <= width; at += length)
		width -= columns;
	return at;
}

void shorten_end(const char *text, size_t width, char *ret, size_t size)
{
	if (display_width(text) <= width)
		snprintf(ret, size, "%s", text);
	else
		snprintf(ret, size, "%.*s...", (int)bytes_that_fit(text, width - 3), text);
}

void shorten_middle(const char *text, size_t width, char *ret, size_t size)
{
	size_t front = (width - 3) / 2, columns;
	const char *back = text;

	if (display_width(text) <= width) {
		snprintf(ret, size, "%s", text);
		return;
	}
	/* What is special about a path stands more often at its end. */
	for (size_t left = display_width(text); left > width - 3 - front; left -= columns)
		back += next_character(back, &columns);
	snprintf(ret, size, "%.*s...%s", (int)bytes_that_fit(text, front), text, back);
}

void shorten_list(const char *text, size_t width, char *ret, size_t size)
{
	static const char more[] = ", ...";
	const size_t fitting = bytes_that_fit(text, width - strlen(more));
	const char *first_end = strstr(text, ", ");
	size_t shown = 0;

	if (!first_end || display_width(text) <= width) {
		shorten_middle(text, width, ret, size);
		return;
	}
	for (const char *end = first_end; end && (size_t)(end - text) <= fitting; end = strstr(end + 1, ", "))
		shown = (size_t)(end - text);
	snprintf(ret, size, "%.*s", (int)(shown > 0 ? shown : (size_t)(first_end - text)), text);
	if (shown == 0) {
		_cleanup_(freep) char *first = strdup(ret);

		shorten_middle(first ? first : "", width - strlen(more), ret, size);
	}
	strncat(ret, more, size - strlen(ret) - 1);
}

void humane_duration(uint64_t seconds, char *ret, size_t size)
{
	uint64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;

	if (days > 0)
		snprintf(ret, size, "%" PRIu64 " d %" PRIu64 " h", days, hours % 24);
	else if (hours > 0)
		snprintf(ret, size, "%" PRIu64 " h %" PRIu64 " min", hours, minutes % 60);
	else if (minutes > 0)
		snprintf(ret, size, "%" PRIu64 " min %" PRIu64 " s", minutes, seconds % 60);
	else
		snprintf(ret, size, "%" PRIu64 " s", seconds);
}

/* 1234567 as "1,234,567". */
static void group_digits(uint64_t number, char ret[static 32])
{
	char digits[32];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, number);
	size_t at = 0;

	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			ret[at++] = ',';
		ret[at++] = digits[i];
	}
	ret[at] = '\0';
}

struct plural plural(uint64_t count, const char *singular, const char *many)
{
	struct plural ret;
	char number[32];

	group_digits(count, number);
	snprintf(ret.text, sizeof(ret.text), "%s %s", number, count == 1 ? singular : many);
	return ret;
}

struct safe_string make_safe(const char *string)
{
	struct safe_string ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));

	text_safe(&text, string, strlen(string));
	return ret;
}

struct safe_string row_string(struct cursor row, const char *key)
{
	struct safe_string ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));
	struct row_field field;

	if (row_find(row, key, &field) && field.type == ROW_STRING)
		text_safe(&text, (const char *)field.value, field.length);
	return ret;
}
