/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/name/json_reader.h"

#include "client/userevctl/escape.h"
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

bool json_string_of(struct json_value value, char *ret, size_t size)
{
	struct text text = text_make(ret, size);
	char bytes[4];
	size_t n;

	if (!skip(&value, '"'))
		return false;
	while (value.at < value.end && *value.at != '"') {
		bytes[0] = *value.at++;
		n = bytes[0] == '\\' ? escape_take(&value.at, value.end, bytes) : 1;
		if (n == 0)
			return false;
		text_put(&text, bytes, n);
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
