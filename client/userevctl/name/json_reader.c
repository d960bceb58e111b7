/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/name/json_reader.h"

#include "client/userevctl/escape.h"
#include "protocol/base/text.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(struct json_value *value)
{
	while (value->at < value->end && is_space(*value->at))
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
	while (ret.end > ret.at && is_space(ret.end[-1]))
		ret.end--;
	return ret;
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
