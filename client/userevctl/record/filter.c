/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * report --filter: comparisons with the syntax of the kernel's filters, joined by &&, || and !. It has no other form than its
 * text, which is read whole for each record.
 */

#include <ctype.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/record/recording.h"
#include "protocol/event/record.h"

enum { DEPTH_MAX = 64 };

struct filter_parser {
	const char *at;
	const char *expected; /* NULL: no mistake so far */
	const struct taken_record *record;
	const struct description *description; /* NULL: the record has no fields that can be read */
	int depth;
	bool incomparable; /* the record lacks a field, or it has another type */
};

struct filter_value {
	bool is_text, is_negative;
	uint64_t number;
	const char *text;
	size_t length;
};

static bool read_any(struct filter_parser *parser);

static void skip_blanks(struct filter_parser *parser)
{
	parser->at += strspn(parser->at, " \t\n");
}

static bool take(struct filter_parser *parser, const char *token)
{
	const size_t length = strlen(token);

	skip_blanks(parser);
	if (parser->expected || strncmp(parser->at, token, length) != 0)
		return false;
	parser->at += length;
	return true;
}

static bool expect(struct filter_parser *parser, bool found, const char *what)
{
	if (!found && !parser->expected)
		parser->expected = what;
	return found;
}

static struct filter_value number_value(const void *at, size_t size, bool is_signed)
{
	const uint64_t number = record_number(at, size, is_signed);

	return (struct filter_value){ .number = number, .is_negative = is_signed && (int64_t)number < 0 };
}

static struct filter_value text_value(const char *text, size_t length)
{
	return (struct filter_value){ .is_text = true, .text = text, .length = strnlen(text, length) };
}

/* False: the record has no such field that is a number or a text. */
static bool value_of_field(const struct filter_parser *parser, const char *name, size_t length,
			   struct filter_value *ret)
{
	const struct taken_record *record = parser->record;
	const struct description *description = parser->description;

	for (size_t i = 0; description && i < description->n_fields; i++) {
		const struct field *field = &description->field[i];
		const void *at;
		size_t size;

		if (field->name_length != length || memcmp(field->name, name, length) != 0)
			continue;
		at = record_field(field, record->payload, record->size, &size);
		if (field->kind == FIELD_SIGNED || field->kind == FIELD_UNSIGNED)
			*ret = number_value(at, size, field->kind == FIELD_SIGNED);
		else
			*ret = text_value(at, size);
		return field->kind <= FIELD_CHARS || (field->kind != FIELD_STRUCT && field->is_text);
	}
	if (length == 10 && memcmp(name, "common_pid", 10) == 0)
		*ret = number_value(&record->pid, sizeof(record->pid), false);
	else if (length == 4 && (memcmp(name, "comm", 4) == 0 || memcmp(name, "COMM", 4) == 0))
		*ret = text_value(record->comm, strlen(record->comm));
	else
		return false;
	return true;
}

static bool read_value(struct filter_parser *parser, struct filter_value *ret)
{
	char *end;

	skip_blanks(parser);
	if (*parser->at == '"' || *parser->at == '\'') {
		const char *close = strchr(parser->at + 1, *parser->at);

		if (!expect(parser, close != NULL, "the quote at the end of this text"))
			return false;
		*ret = text_value(parser->at + 1, (size_t)(close - parser->at - 1));
		parser->at = close + 1;
		return true;
	}
	*ret = (struct filter_value){ .is_negative = *parser->at == '-' };
	errno = 0;
	ret->number = strtoull(parser->at, &end, 0);
	if (!expect(parser, end > parser->at && errno == 0 && !isalnum((unsigned char)*end) && *end != '.',
		    "an integer, or a text in quotes"))
		return false;
	parser->at = end;
	return true;
}

static bool compare_texts(const char *comparison, struct filter_value field, struct filter_value value)
{
	_cleanup_(freep) char *text = must(strndup(field.text, field.length));
	_cleanup_(freep) char *other = must(strndup(value.text, value.length));

	return *comparison == '~' ? name_matches(other, text) : streq(text, other) == (*comparison == '=');
}

static bool compare_numbers(const char *comparison, struct filter_value field, struct filter_value value)
{
	int sign = field.number < value.number ? -1 : field.number > value.number;

	if (field.is_negative != value.is_negative)
		sign = field.is_negative ? -1 : 1;
	switch (*comparison) {
	case '&':
		return (field.number & value.number) != 0;
	case '=':
		return sign == 0;
	case '!':
		return sign != 0;
	case '<':
		return sign < 0 || (comparison[1] == '=' && sign == 0);
	default:
		return sign > 0 || (comparison[1] == '=' && sign == 0);
	}
}

/* Takes one: NULL if there is none. */
static const char *take_comparison(struct filter_parser *parser)
{
	/* Longer ones first. */
	static const char *const comparisons[] = { "==", "!=", "<=", ">=", "<", ">", "~", "&" };

	skip_blanks(parser);
	for (size_t i = 0; i < ARRAY_SIZE(comparisons) && strncmp(parser->at, "&&", 2) != 0; i++)
		if (take(parser, comparisons[i]))
			return comparisons[i];
	return NULL;
}

static bool read_comparison(struct filter_parser *parser)
{
	struct filter_value field, value;
	const char *name, *comparison;
	size_t length;

	skip_blanks(parser);
	name = parser->at;
	while (isalnum((unsigned char)*parser->at) || *parser->at == '_')
		parser->at++;
	length = (size_t)(parser->at - name);
	if (!expect(parser, length > 0, "the name of a field"))
		return false;
	comparison = take_comparison(parser);
	expect(parser, comparison != NULL, "a comparison, as ==, !=, <, <=, >, >=, & or ~,");
	if (!comparison || !read_value(parser, &value))
		return false;
	if (!expect(parser, !value.is_text || strchr("=!~", *comparison), "==, != or ~ for a text, not this,") ||
	    !expect(parser, value.is_text || *comparison != '~', "a text in quotes after ~, not this,"))
		return false;
	if (!value_of_field(parser, name, length, &field) || field.is_text != value.is_text) {
		parser->incomparable = true;
		return false;
	}
	return value.is_text ? compare_texts(comparison, field, value) : compare_numbers(comparison, field, value);
}

static bool read_one(struct filter_parser *parser)
{
	bool result;

	if (!expect(parser, parser->depth < DEPTH_MAX, "less of '!' and '(' within each other"))
		return false;
	parser->depth++;
	if (take(parser, "!")) {
		result = !read_one(parser);
	} else if (take(parser, "(")) {
		result = read_any(parser);
		expect(parser, take(parser, ")"), "')'");
	} else {
		result = read_comparison(parser);
	}
	parser->depth--;
	return result;
}

static bool read_all(struct filter_parser *parser)
{
	bool result = read_one(parser);

	while (take(parser, "&&"))
		result = read_one(parser) && result;
	return result;
}

static bool read_any(struct filter_parser *parser)
{
	bool result = read_all(parser);

	while (take(parser, "||"))
		result = read_all(parser) || result;
	return result;
}

const char *record_filter_check(const char *filter, const char **ret_at)
{
	static const struct taken_record none = { .comm = "" };
	struct filter_parser parser = { .at = filter, .record = &none };

	read_any(&parser);
	skip_blanks(&parser);
	expect(&parser, *parser.at == '\0', "&&, || or the end");
	*ret_at = parser.at;
	return parser.expected;
}

bool record_filter_matches(const char *filter, const struct taken_record *record, bool *ret_comparable)
{
	bool result;
	struct filter_parser parser = {
		.at = filter,
		.record = record,
		.description = record_fitting_description(record),
	};

	result = read_any(&parser);
	*ret_comparable = !parser.incomparable;
	return result;
}
