/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/name/json_reader.h"

#include "protocol/base/text.h"

static void skip_space(struct json_value *value)
{
	while (value->at < value->end && strchr(" \t\r\n", *value->at) && *value->at)
		value->at++;
}

/* Over one character behind spaces, if it is there. */
static bool skip(struct json_value *value, char wanted)
{
	skip_space(value);
	if (value->at == value->end || *value->at != wanted)
		return false;
	value->at++;
	return true;
}

/* However deep it is, without recursion. */
static struct json_value skip_value(struct json_value *value)
{
	struct json_value ret;
	size_t depth = 0;

	skip_space(value);
	ret.at = value->at;
	while (value->at < value->end) {
		char c = *value->at;

		if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ':'))
			break;
		value->at++;
		while (c == '"' && value->at < value->end && *value->at != '"')
			value->at += *value->at == '\\' && value->end - value->at > 1 ? 2 : 1;
		value->at = MIN(value->at + (c == '"'), value->end);
		depth += c == '{' || c == '[';
		depth -= c == '}' || c == ']';
	}
	ret.end = value->at;
	return ret;
}

struct json_value json_value_make(const char *text, size_t length)
{
	return (struct json_value){ text, text + length };
}

struct json_value json_member(struct json_value object, const char *key)
{
	char name[64];

	if (!skip(&object, '{'))
		return (struct json_value){ 0 };
	do {
		bool is_it = json_string_of(skip_value(&object), name, sizeof(name)) && streq(name, key);
		struct json_value value;

		if (!skip(&object, ':'))
			break;
		value = skip_value(&object);
		if (is_it)
			return value;
	} while (skip(&object, ','));
	return (struct json_value){ 0 };
}

bool json_next(struct json_value *array, struct json_value *ret)
{
	if (!skip(array, '[') && !skip(array, ','))
		return false;
	*ret = skip_value(array);
	return ret->at < ret->end;
}

/* As UTF-8; half of a pair becomes bytes that are not UTF-8, which nothing shows as they are. */
static void put_code(struct text *text, unsigned code)
{
	static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	char bytes[4] = { (char)code };
	size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, code >>= 6)
		bytes[i] = (char)(0x80 | (code & 0x3f));
	bytes[0] = (char)(first[n] | code);
	text_put(text, bytes, n);
}

/* That of an escape \uXXXX here; 0: there is none. */
static unsigned read_code(struct json_value value)
{
	static const char known[] = "0123456789abcdef";
	unsigned code = 0;

	if (value.end - value.at < 6 || value.at[0] != '\\' || value.at[1] != 'u')
		return 0;
	for (int i = 2; i < 6; i++) {
		const char *digit = memchr(known, value.at[i] | (value.at[i] >= 'A' ? 0x20 : 0), sizeof(known) - 1);

		if (!digit)
			return 0;
		code = code << 4 | (unsigned)(digit - known);
	}
	return code;
}

/* The same, over one or the two escapes of a pair. */
static unsigned take_code(struct json_value *value)
{
	unsigned code = read_code(*value), second;

	value->at += code > 0 ? 6 : 0;
	second = code >> 10 == 0xd800 >> 10 ? read_code(*value) : 0;
	if (second >> 10 != 0xdc00 >> 10)
		return code;
	value->at += 6;
	return 0x10000 + ((code & 0x3ff) << 10 | (second & 0x3ff));
}

bool json_string_of(struct json_value value, char *ret, size_t size)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	struct text text = text_make(ret, size);

	if (!skip(&value, '"'))
		return false;
	while (value.at < value.end && *value.at != '"') {
		const char *letter = "";
		unsigned code;

		if (*value.at != '\\') {
			text_put(&text, value.at++, 1);
			continue;
		}
		if (value.end - value.at >= 2)
			letter = memchr(letters, value.at[1], sizeof(letters) - 1);
		if (letter && *letter) {
			text_put(&text, &meant[letter - letters], 1);
			value.at += 2;
		} else if ((code = take_code(&value)) > 0) {
			put_code(&text, code);
		} else {
			return false;
		}
	}
	return value.at < value.end && !text.cut && text.length == strlen(ret);
}

bool json_number_of(struct json_value value, uint64_t *ret)
{
	skip_space(&value);
	*ret = 0;
	if (value.at == value.end)
		return false;
	for (; value.at < value.end && *value.at >= '0' && *value.at <= '9' && *ret < UINT64_MAX / 10 - 1; value.at++)
		*ret = *ret * 10 + (uint64_t)(*value.at - '0');
	skip_space(&value);
	return value.at == value.end;
}
