/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "protocol/event/event_header_value.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <time.h>

#include "protocol/protocol.h"

enum format {
	FORMAT_UNSIGNED = 1,
	FORMAT_SIGNED,
	FORMAT_HEX,
	FORMAT_ERRNO,
	FORMAT_PID,
	FORMAT_TIME,
	FORMAT_BOOLEAN,
	FORMAT_FLOAT,
	FORMAT_HEX_BYTES,
	FORMAT_LATIN1,
	FORMAT_UTF,
	FORMAT_UTF_WITH_MARK,
	FORMAT_XML,
	FORMAT_JSON,
	FORMAT_UUID,
	FORMAT_PORT,
	FORMAT_IP_ADDRESS,
	FORMAT_IP_ADDRESS_OLD,
	FORMATS,
};

/* One value, of `unit` bytes, or a string of such units. */
struct value {
	const uint8_t *at;
	size_t size;
	size_t unit;
};

uint64_t value_number(const struct value_stream *stream, const uint8_t *at, size_t size)
{
	uint64_t number = 0;

	for (size_t i = 0; i < size; i++)
		number = number << 8 | at[stream->little_endian ? size - 1 - i : i];
	return number;
}

uint16_t value_take_u16(const struct value_stream *stream, struct cursor *from)
{
	const uint8_t *at = cursor_take(from, sizeof(uint16_t));

	return at ? (uint16_t)value_number(stream, at, sizeof(uint16_t)) : 0;
}

static bool take_value(struct value_stream *stream, uint8_t encoding, struct value *ret)
{
	static const uint8_t units[ENCODINGS] = { 0, 0, 1, 2, 4, 8, 16, 1, 2, 4, 1, 2, 4, 1 };
	static const uint8_t zeros[sizeof(uint32_t)];
	struct cursor *values = &stream->left;
	const size_t unit = units[encoding];
	size_t size = unit;

	if (encoding >= ENCODING_COUNTED_8)
		size = unit * value_take_u16(stream, values);
	if (encoding >= ENCODING_ZERO_TERMINATED_8 && encoding < ENCODING_COUNTED_8)
		for (size = 0; size + unit <= values->left && memcmp(values->at + size, zeros, unit) != 0;)
			size += unit;
	*ret = (struct value){ cursor_take(values, size), size, unit };
	if (encoding >= ENCODING_ZERO_TERMINATED_8 && encoding < ENCODING_COUNTED_8)
		cursor_take(values, unit);
	return !values->failed;
}

/* --- text --- */

static void put_string(struct value_stream *stream, const char *text, size_t length)
{
	(stream->json ? text_json_string : text_quoted)(stream->out, text, length);
}

/* A word of ours: in quotes in JSON alone. */
static void put_word(struct value_stream *stream, const char *word)
{
	text_printf(stream->out, stream->json ? "\"%s\"" : "%s", word);
}

/* Removes a byte order mark, which also says the size of the units and their order. */
static void take_mark(struct value_stream *order, struct value *value)
{
	static const struct {
		uint8_t size, unit;
		bool little_endian;
		char mark[4];
	} marks[] = {
		{ 3, 1, true, "\xef\xbb\xbf" }, { 4, 4, true, "\xff\xfe" },  { 4, 4, false, { 0, 0, '\xfe', '\xff' } },
		{ 2, 2, true, "\xff\xfe" },	{ 2, 2, false, "\xfe\xff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		if (value->size < marks[i].size || memcmp(value->at, marks[i].mark, marks[i].size) != 0 ||
		    value->unit > marks[i].unit)
			continue;
		*value = (struct value){ value->at + marks[i].size, value->size - marks[i].size, marks[i].unit };
		order->little_endian = marks[i].little_endian;
		return;
	}
}

/* Units that are no character become U+FFFD. An incomplete unit at the end is left out. */
static void put_text(struct value_stream *stream, struct value value, uint8_t format)
{
	static char utf8[2 * WIRE_PAYLOAD_MAX + 1];
	struct text text = text_make(utf8, sizeof(utf8));
	struct value_stream order = *stream;

	if (format != FORMAT_UTF && format != FORMAT_LATIN1)
		take_mark(&order, &value);
	if (value.unit <= 1 && format != FORMAT_LATIN1) {
		put_string(stream, (const char *)value.at, value.size);
		return;
	}
	for (size_t at = 0; at + value.unit <= value.size; at += value.unit) {
		uint64_t point = value_number(&order, value.at + at, value.unit), low = 0;

		if (value.unit == 2 && point >> 10 == 0xd800 >> 10 && at + 4 <= value.size)
			low = value_number(&order, value.at + at + 2, 2);
		if (low >> 10 == 0xdc00 >> 10) {
			point = 0x10000 + ((point & 0x3ff) << 10 | (low & 0x3ff));
			at += 2;
		}
		text_put_character(&text, (uint32_t)MIN(point, (uint64_t)UINT32_MAX));
	}
	put_string(stream, utf8, text.length);
}

/* --- other values --- */

void value_put_uuid(struct value_stream *stream, const uint8_t *at)
{
	char word[40];
	int length = 0;

	for (size_t i = 0; i < UUID_BYTES; i++)
		length += snprintf(word + length, sizeof(word) - (size_t)length, "%s%02x",
				   i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", at[i]);
	put_word(stream, word);
}

static void put_number(struct value_stream *stream, struct value value, uint8_t format)
{
	const unsigned unused_bits = (64 - 8 * (unsigned)value.size) & 63;
	const uint64_t number = value_number(stream, value.at, value.size);
	const int64_t with_sign = (int64_t)(number << unused_bits) >> unused_bits;
	const time_t time = (time_t)with_sign;
	const char *name = NULL;
	struct tm tm;
	char word[64];

#ifdef __GLIBC__ /* musl has no such names */
	if (format == FORMAT_ERRNO && !stream->json)
		name = strerrorname_np((int)with_sign);
#endif
	if (format == FORMAT_TIME && gmtime_r(&time, &tm) && strftime(word, sizeof(word), "%FT%TZ", &tm) > 0) {
		put_word(stream, word);
	} else if (format == FORMAT_FLOAT) {
		text_put_float(stream->out, number, value.size, stream->json);
	} else if (format == FORMAT_BOOLEAN && number <= 1) {
		text_printf(stream->out, "%s", number ? "true" : "false");
	} else if (format == FORMAT_SIGNED || format == FORMAT_PID || format == FORMAT_ERRNO || format == FORMAT_TIME) {
		text_printf(stream->out, "%lld", (long long)with_sign);
	} else {
		text_printf(stream->out, format == FORMAT_HEX && !stream->json ? "0x%llx" : "%llu",
			    (unsigned long long)number);
	}
	if (name)
		text_printf(stream->out, "(%s)", name);
}

/* The sizes of values that each format fits, as a set of bits. */
#define SIZES(a, b, c, d) (1U << (a) | 1U << (b) | 1U << (c) | 1U << (d))
static const uint32_t fitting[FORMATS] = {
	[FORMAT_UNSIGNED] = SIZES(1, 2, 4, 8),
	[FORMAT_SIGNED] = SIZES(1, 2, 4, 8),
	[FORMAT_HEX] = SIZES(1, 2, 4, 8),
	[FORMAT_ERRNO] = SIZES(4, 4, 4, 4),
	[FORMAT_PID] = SIZES(4, 4, 4, 4),
	[FORMAT_TIME] = SIZES(4, 4, 8, 8),
	[FORMAT_BOOLEAN] = SIZES(1, 1, 2, 4),
	[FORMAT_FLOAT] = SIZES(4, 4, 8, 8),
	[FORMAT_UUID] = SIZES(UUID_BYTES, UUID_BYTES, UUID_BYTES, UUID_BYTES),
	[FORMAT_PORT] = SIZES(2, 2, 2, 2),
	[FORMAT_IP_ADDRESS] = SIZES(4, 4, 16, 16),
	[FORMAT_IP_ADDRESS_OLD] = SIZES(4, 4, 16, 16),
};

/* Strings of bytes with a length may hold a value of any format. */
static bool takes_any_format(uint8_t encoding)
{
	return encoding == ENCODING_COUNTED_8 || encoding == ENCODING_BYTES;
}

/* The format in which the value is shown: its own if it fits, otherwise that of its encoding. */
static uint8_t format_of(uint8_t encoding, uint8_t format, struct value value)
{
	const bool is_text = encoding >= ENCODING_ZERO_TERMINATED_8 && encoding < ENCODING_BYTES;
	const bool wants_text = format >= FORMAT_LATIN1 && format <= FORMAT_JSON;
	const bool takes_any = takes_any_format(encoding);

	if (format == FORMAT_HEX_BYTES && (takes_any || !is_text))
		return format;
	if (wants_text && (is_text || takes_any || value.unit <= sizeof(uint32_t)) &&
	    (format != FORMAT_LATIN1 || value.unit == 1))
		return format;
	if (format < FORMATS && (takes_any || !is_text) && value.size <= UUID_BYTES &&
	    fitting[format] & 1U << value.size)
		return format;
	if (is_text)
		return FORMAT_UTF;
	return encoding < ENCODING_128 ? FORMAT_UNSIGNED : FORMAT_HEX_BYTES;
}

bool value_put(struct value_stream *stream, uint8_t encoding, uint8_t format)
{
	char address[INET6_ADDRSTRLEN];
	struct value value;
	uint8_t shown;

	if (!take_value(stream, encoding, &value))
		return false;
	shown = format_of(encoding, format, value);
	if (value.size == 0 && takes_any_format(encoding) && format < FORMATS && fitting[format] != 0) {
		text_printf(stream->out, "null");
	} else if (shown >= FORMAT_LATIN1 && shown <= FORMAT_JSON) {
		put_text(stream, value, shown);
	} else if (shown == FORMAT_HEX_BYTES) {
		text_put(stream->out, "\"", stream->json);
		for (size_t i = 0; i < value.size; i++)
			text_printf(stream->out, "%02x", value.at[i]);
		text_put(stream->out, "\"", stream->json);
	} else if (shown == FORMAT_UUID) {
		value_put_uuid(stream, value.at);
	} else if (shown == FORMAT_PORT) {
		text_printf(stream->out, "%u", value.at[0] << 8 | value.at[1]);
	} else if (shown == FORMAT_IP_ADDRESS || shown == FORMAT_IP_ADDRESS_OLD) {
		inet_ntop(value.size == sizeof(struct in_addr) ? AF_INET : AF_INET6, value.at, address,
			  sizeof(address));
		put_word(stream, address);
	} else {
		put_number(stream, value, shown);
	}
	return true;
}
