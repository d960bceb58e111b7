/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/base/text.h"

#include <stdarg.h>
#include <stdio.h>

/* The length of the UTF-8 sequence that this byte begins; 0 if it can't begin one. */
static size_t sequence_length(uint8_t byte)
{
	if (byte < 0x80)
		return 1;
	if (byte < 0xc2) /* a continuation, or the begin of an overlong form */
		return 0;
	if (byte < 0xe0)
		return 2;
	if (byte < 0xf0)
		return 3;
	return byte < 0xf5 ? 4 : 0;
}

/* The length of the character at `from`, or 0 if it is not UTF-8 (overlong forms and surrogates are not). */
static size_t utf8_decode(const char *from, size_t left, uint32_t *ret_point)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *byte = (const uint8_t *)from;
	size_t length = sequence_length(byte[0]);
	uint32_t point = length == 1 ? byte[0] : byte[0] & (0x7f >> length);

	if (length == 0 || length > left)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (byte[i] & 0x3f);
	}
	if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*ret_point = point;
	return length;
}

/*
 * Moves the cursor, breaks the line, changes the direction of text, or is invisible: the reader would see a different text, or take two
 * names for the same. The invisible ones are Unicode's Default_Ignorable_Code_Point, which contains joiners and variation selectors.
 */
static bool is_deceptive(uint32_t point)
{
	static const struct {
		uint32_t first, last;
	} range[] = {
		{ 0x00, 0x1f },	      { 0x7f, 0x9f },	    { 0xad, 0xad },	  { 0x034f, 0x034f },
		{ 0x061c, 0x061c },   { 0x115f, 0x1160 },   { 0x17b4, 0x17b5 },	  { 0x180b, 0x180f },
		{ 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f },	  { 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },	  { 0xfff0, 0xfffb },
		{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(range); i++)
		if (point >= range[i].first && point <= range[i].last)
			return true;
	return false;
}

/* Removes a character of which the buffer has only a part. */
static void drop_partial(struct text *text)
{
	for (size_t back = 1; back <= MIN((size_t)3, text->length); back++) {
		uint8_t byte = (uint8_t)text->buffer[text->length - back];

		if ((byte & 0xc0) == 0x80)
			continue;
		if (sequence_length(byte) > back)
			text->length -= back;
		break;
	}
	text->buffer[text->length] = '\0';
}

static size_t text_room(const struct text *text)
{
	return text->size - 1 - text->length;
}

void text_put(struct text *text, const char *from, size_t length)
{
	size_t fits = MIN(length, text_room(text));

	if (text->cut || length == 0)
		return;
	memcpy(text->buffer + text->length, from, fits);
	text->length += fits;
	text->buffer[text->length] = '\0';
	if (fits < length) {
		text->cut = true;
		drop_partial(text);
	}
}

/* Puts all of it or nothing: half an escape would mean something else. */
static void put_whole(struct text *text, const char *from, size_t length)
{
	if (length > text_room(text))
		text->cut = true;
	text_put(text, from, length);
}

void text_printf(struct text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	if (text->cut)
		return;
	va_start(arguments, format);
	length = vsnprintf(text->buffer + text->length, text_room(text) + 1, format, arguments);
	va_end(arguments);
	/* A failure, which no format of ours has, is a length that does not fit. */
	if ((size_t)length > text_room(text)) {
		text->length = text->size - 1;
		text->cut = true;
		drop_partial(text);
	} else {
		text->length += (size_t)length;
	}
}

void text_put_character(struct text *text, uint32_t point)
{
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	const uint32_t known = point > 0x10ffff || point >> 11 == 0xd800 >> 11 ? 0xfffd : point;
	const size_t length = 1 + (known >= 0x80) + (known >= 0x800) + (known >= 0x10000);
	char bytes[4];

	for (size_t i = length - 1, rest = known; i > 0; i--, rest >>= 6)
		bytes[i] = (char)(0x80 | (rest & 0x3f));
	bytes[0] = (char)(first[length] | known >> 6 * (length - 1));
	put_whole(text, bytes, length);
}

void text_put_float(struct text *text, uint64_t bits, size_t size, bool json)
{
	const uint32_t narrow_bits = (uint32_t)bits;
	char digits[32] = "";
	double value;
	float narrow;

	memcpy(&narrow, &narrow_bits, sizeof(narrow));
	memcpy(&value, &bits, sizeof(value));
	if (size == sizeof(narrow))
		value = (double)narrow;
	if (!__builtin_isfinite(value)) {
		const char *name = __builtin_isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";

		text_printf(text, json ? "\"%s\"" : "%s", name);
		return;
	}
	for (int n = 6; n <= 17; n++) {
		snprintf(digits, sizeof(digits), "%.*g", n, value);
		if (size == sizeof(narrow) ? strtof(digits, NULL) == (float)value : strtod(digits, NULL) == value)
			break;
	}
	text_printf(text, "%s", digits);
}

static void put_json_escape(struct text *text, uint32_t point)
{
	static const char letter[] = {
		['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
	};
	char escape[16];

	if (point < sizeof(letter) && letter[point])
		snprintf(escape, sizeof(escape), "\\%c", letter[point]);
	else if (point > 0xffff)
		snprintf(escape, sizeof(escape), "\\u%04x\\u%04x", 0xd7c0 + (unsigned)(point >> 10),
			 0xdc00 + (unsigned)(point & 0x3ff));
	else
		snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)point);
	put_whole(text, escape, strlen(escape));
}

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/*
 * A backslash before characters of `special`; `prefix` and two digits for each byte that can't be shown. Without a prefix JSON's
 * escapes, of more characters than JSON requires, since it is shown on terminals, too.
 */
static void put_escaped(struct text *text, const char *from, size_t length, const char *special, const char *prefix)
{
	for (size_t at = 0, step; at < length; at += step) {
		uint32_t point = 0;
		bool is_special;

		step = utf8_decode(from + at, length - at, &point);
		is_special = step == 1 && point != 0 && strchr(special, (int)point);
		if (is_special && prefix) {
			put_whole(text, (const char[]){ '\\', point == '\n' ? 'n' : (char)point }, 2);
		} else if (step > 0 && !is_special && !is_deceptive(point) &&
			   (point != 0xfffd || prefix != replacement)) {
			put_whole(text, from + at, step);
		} else if (step > 0 && !prefix) {
			put_json_escape(text, point);
		} else if (!prefix) {
			step = 1;
			put_whole(text, replacement, strlen(replacement));
		} else {
			step = MAX(step, (size_t)1);
			for (size_t i = at; i < at + step; i++) {
				char escape[8];

				snprintf(escape, sizeof(escape), "%s%02x", prefix, (uint8_t)from[i]);
				put_whole(text, escape, strlen(escape));
			}
		}
	}
}

void text_json_string(struct text *text, const char *from, size_t length)
{
	put_whole(text, "\"", 1);
	put_escaped(text, from, length, "\"\\", NULL);
	put_whole(text, "\"", 1);
}

void text_safe(struct text *text, const char *from, size_t length)
{
	put_escaped(text, from, length, "", "\\x");
}

void text_quoted(struct text *text, const char *from, size_t length)
{
	put_whole(text, "\"", 1);
	put_escaped(text, from, length, "\"\\", "\\x");
	put_whole(text, "\"", 1);
}

void text_label(struct text *text, const char *from, size_t length)
{
	put_escaped(text, from, length, "\"\\\n", replacement);
}

void text_excerpt(struct text *text, const char *from, size_t length)
{
	size_t shown = MIN(length, (size_t)TEXT_EXCERPT_MAX);

	/* Not in the middle of a character; text that is no UTF-8 may be cut anywhere. */
	for (size_t back = 0; shown < length && back < 3 && ((uint8_t)from[shown] & 0xc0) == 0x80; back++)
		shown--;
	text_safe(text, from, shown);
	if (shown < length)
		text_put(text, "...", 3);
}
