/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The grammar of the kernel's trace_events_user.c, with these differences. Words may be separated by any blanks (the kernel requires
 * exactly one space, and gets the canonical form). Names are identifiers, since they become directories and filters. Array sizes are
 * decimal (the kernel reads 010 as 8). A dynamic field is an array of a type that we know, so its elements can be shown. Flags are
 * dropped, as kernels with user_events ignore them.
 *
 * A field is first copied into the canonical text, then read there. Only printable ASCII gets that far.
 */

#include "protocol/event/description.h"

#include "protocol/base/number.h"
#include "protocol/refusal.h"

/* A field takes five bytes at least ("u8 a;"), so that the array cannot overflow. */
_Static_assert(DESCRIPTION_FIELDS_MAX * 5 > WIRE_DESCRIPTION_MAX, "every field has a place");

struct word {
	const char *at;
	size_t length;
};

struct type {
	const char *name;
	uint8_t size;
	bool is_signed;
	bool is_text;
};

/* The types of the kernel's user_field_size(). */
static const struct type types[] = {
	{ "s64", 8, true, false },   { "u64", 8, false, false },
	{ "s32", 4, true, false },   { "u32", 4, false, false },
	{ "int", 4, true, false },   { "unsigned int", 4, false, false },
	{ "s16", 2, true, false },   { "u16", 2, false, false },
	{ "short", 2, true, false }, { "unsigned short", 2, false, false },
	{ "s8", 1, true, false },    { "u8", 1, false, false },
	{ "char", 1, true, true },   { "unsigned char", 1, false, true },
};

/* Types that programs use elsewhere, separated by commas, and their replacement. The first match counts, so longer ones come first. */
static const struct advice {
	const char *types;
	const char *say;
} advice[] = {
	{ "unsigned long long,uint64_t,__u64", "is not a type of the kernel's; use u64" },
	{ "unsigned long", "has no fixed size; use u64 or u32" },
	{ "unsigned __int128,u128,__int128", "is too large for a number; use struct NAME field 16" },
	{ "unsigned short int,uint16_t,__u16", "is not a type of the kernel's; use u16" },
	{ "unsigned", "alone is not a type of the kernel's; use unsigned int or u32" },
	{ "signed char,int8_t,__s8,i8", "is not a type of the kernel's; use s8" },
	{ "signed", "is not a type of the kernel's; use s8, s16, s32 or s64" },
	{ "long long,int64_t,__s64,i64", "is not a type of the kernel's; use s64" },
	{ "long double", "is not a type of the kernel's; use struct NAME field 16 for its bytes" },
	{ "long", "has no fixed size; use s64 or u64" },
	{ "short int,int16_t,__s16,i16", "is not a type of the kernel's; use s16" },
	{ "const,volatile,static", "has no meaning here; leave it out" },
	{ "enum", "has no fixed size; use int or s32" },
	{ "union", "is not a type of the kernel's; use struct NAME field SIZE for its bytes" },
	{ "struct", "is no element of an array; use u8[] for its bytes, or struct NAME field SIZE" },
	{ "void", "is not a type of a field" },
	{ "float,f32", "is not a type of the kernel's; use u32 for its bits" },
	{ "double,f64", "is not a type of the kernel's; use u64 for its bits" },
	{ "size_t,usize,uintptr_t", "has no fixed size; use u64" },
	{ "ssize_t,isize,intptr_t,ptrdiff_t,off_t,time_t", "has no fixed size; use s64" },
	{ "uint8_t,__u8,bool,_Bool,byte", "is not a type of the kernel's; use u8" },
	{ "int32_t,__s32,i32,pid_t,wchar_t", "is not a type of the kernel's; use s32" },
	{ "uint32_t,__u32,uid_t,gid_t", "is not a type of the kernel's; use u32" },
	{ "string,str,__string", "is not a type of the kernel's; use __rel_loc char[]" },
};

/* Every event of every tracer has these already. */
static const char *const common_fields[] = { "common_type", "common_flags", "common_preempt_count", "common_pid" };

struct parser {
	struct description *to;
	struct text canonical;
	struct text *why;
	unsigned number;   /* of the field that is being read: 1 and up */
	struct word whole; /* that field, in the canonical text */
};

/* Writes the sentence, and returns the refusal: `return refuse_word(…)`. */
static int refuse_word(struct parser *parser, const char *before, struct word word, const char *after)
{
	if (parser->number > 0)
		text_printf(parser->why, "field %u: ", parser->number);
	text_printf(parser->why, "%s'", before);
	text_excerpt(parser->why, word.at, word.length);
	text_printf(parser->why, "' %s", after);
	return REFUSAL_BAD_DESCRIPTION;
}

static bool is_identifier(struct word word)
{
	static const char characters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

	for (size_t i = 0; i < word.length; i++)
		if (!memchr(characters, word.at[i], sizeof(characters) - 1))
			return false;
	return word.length > 0 && (word.at[0] < '0' || word.at[0] > '9');
}

bool description_is_name(const char *text, size_t length)
{
	return length <= DESCRIPTION_NAME_MAX && is_identifier((struct word){ text, length });
}

static bool word_is(struct word word, const char *text, size_t length)
{
	return word.length == length && memcmp(word.at, text, length) == 0;
}

static struct word word_take(struct word *rest, size_t length)
{
	struct word taken = { rest->at, length };

	rest->at += length;
	rest->length -= length;
	return taken;
}

/* Takes everything up to the first `end`, and leaves the rest from that byte on. */
static struct word take_until(struct word *rest, char end)
{
	const char *found = rest->length > 0 ? memchr(rest->at, end, rest->length) : NULL;

	return word_take(rest, found ? (size_t)(found - rest->at) : rest->length);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void skip_blanks(struct word *rest)
{
	while (rest->length > 0 && is_blank(*rest->at))
		word_take(rest, 1);
}

/* Takes the first word, and steps over the blanks behind it. Empty: there is none. */
static struct word take_word(struct word *rest)
{
	size_t length = 0;
	struct word word;

	while (length < rest->length && !is_blank(rest->at[length]))
		length++;
	word = word_take(rest, length);
	skip_blanks(rest);
	return word;
}

/* Steps over the separator that take_until() found: whether there was one. */
static bool skip_one(struct word *rest)
{
	if (rest->length == 0)
		return false;
	word_take(rest, 1);
	return true;
}

/* 1 to `maximum`, in decimal digits; otherwise 0. The kernel reads 010 as 8, so no 0 comes first. */
static uint32_t read_size(struct word word, uint32_t maximum)
{
	uint64_t size;

	if (number_parse(word.at, word.length, maximum, &size) != NUMBER_GOOD || word.at[0] == '0')
		return 0;
	return (uint32_t)size;
}

/* Whether the field begins with this type, which ends with the field, a space or a bracket. */
static bool begins_with(struct word field, const char *type, size_t length)
{
	return field.length >= length && memcmp(field.at, type, length) == 0 &&
	       (field.length == length || field.at[length] == ' ' || field.at[length] == '[');
}

/* Refuses the type that begins at `at`, if there is advice for it; otherwise 0. */
static int refuse_with_advice(struct parser *parser, struct word at)
{
	for (size_t i = 0; i < ARRAY_SIZE(advice); i++) {
		struct word list = { advice[i].types, strlen(advice[i].types) };

		do {
			const struct word type = take_until(&list, ',');

			if (begins_with(at, type.at, type.length))
				return refuse_word(parser, "", type, advice[i].say);
		} while (skip_one(&list));
	}
	return 0;
}

static int refuse_type(struct parser *parser, struct word at)
{
	if (at.length == 0)
		return refuse_word(parser, "", parser->whole,
				   "is not complete; it wants a type and a name: __rel_loc char[] NAME");
	if (refuse_with_advice(parser, at) != 0)
		return REFUSAL_BAD_DESCRIPTION;
	return refuse_word(parser, "", take_until(&at, ' '),
			   "is not a type; use s8 to s64, u8 to u64, int, short, char, char[N], __rel_loc char[], "
			   "or struct NAME field SIZE");
}

static int refuse_array(struct parser *parser)
{
	return refuse_word(parser, "only char and unsigned char may be arrays of fixed size; instead of ",
			   parser->whole, "use __rel_loc TYPE[] NAME or a struct");
}

static int check_field_name(struct parser *parser, struct word name, bool is_text)
{
	const struct description *to = parser->to;
	struct word rest = name, element = take_until(&rest, '[');

	if (rest.length > 0 && is_identifier(element))
		return !is_text ? refuse_array(parser)
				: refuse_word(parser, "", name,
					      "has its size in the wrong place; it belongs to the type: char[16] name");
	if (!is_identifier(name))
		return refuse_word(
			parser, "", name,
			"is not a name; letters, digits and _ make one, no digit first, and ';' ends a field");
	for (size_t i = 0; i < ARRAY_SIZE(common_fields); i++)
		if (word_is(name, common_fields[i], strlen(common_fields[i])))
			return refuse_word(parser, "", name,
					   "is a field that every event has already; choose another name");
	for (size_t i = 0; i < to->n_fields; i++)
		if (word_is(name, to->field[i].name, to->field[i].name_length))
			return refuse_word(parser, "", name, "is the name of an earlier field; choose another");
	return 0;
}

/* `field` has its type, kind and sizes already. */
static int add_field(struct parser *parser, struct field field, struct word name)
{
	struct description *to = parser->to;
	int r = check_field_name(parser, name, field.is_text);

	if (r != 0)
		return r;
	if (field.size > WIRE_PAYLOAD_MAX - to->size)
		return refuse_word(parser, "", name,
				   "makes the record longer than the 4064 bytes that every tracer can hold");
	field.name = name.at;
	field.name_length = name.length;
	field.offset = to->size;
	to->size += field.size;
	to->field[to->n_fields++] = field;
	return 0;
}
_Static_assert(WIRE_PAYLOAD_MAX == 4064, "the number in the sentence above");

/* NAME field SIZE, behind "struct ". */
static int read_struct(struct parser *parser, struct word rest)
{
	struct field field = { .kind = FIELD_STRUCT, .type = parser->whole.at };
	struct word tag = take_word(&rest), name = take_word(&rest), size = take_word(&rest);

	if (tag.length > 0 && !is_identifier(tag))
		return refuse_word(parser, "", tag, "is not the name of a struct; letters, digits and _ make one");
	if (size.length == 0 || rest.length > 0)
		return refuse_word(parser, "", parser->whole,
				   "is not complete; a struct is written as struct NAME field SIZE");
	field.type_length = (size_t)(tag.at + tag.length - field.type);
	field.size = read_size(size, WIRE_PAYLOAD_MAX);
	if (field.size == 0)
		return refuse_word(
			parser, "", size,
			"is no size for a struct; it has 1 to 4064 bytes, in digits: more no tracer can hold");
	return add_field(parser, field, name);
}

/* char[N]: `brackets` is the "[N]". */
static int read_array_size(struct parser *parser, const struct type *type, struct word brackets, uint32_t *ret)
{
	struct word digits = { brackets.at + 1, brackets.length - 2 };

	if (!type->is_text)
		return refuse_array(parser);
	if (brackets.at[brackets.length - 1] != ']')
		return refuse_word(parser, "", parser->whole,
				   "has no ] behind the array's size; write it as char[16] NAME");
	if (digits.length == 0)
		return refuse_word(parser, "", parser->whole,
				   "has an array without a size; write its size, or __rel_loc char[] NAME");
	*ret = read_size(digits, DESCRIPTION_ARRAY_MAX);
	if (*ret == 0)
		return refuse_word(parser, "", digits,
				   "is not the size of an array; the kernel takes 1 to 1024, in plain digits");
	return 0;
}
_Static_assert(DESCRIPTION_ARRAY_MAX == 1024, "the number in the sentence above");

/* Fills in kind and sizes. `brackets`: behind the type, or empty. */
static int set_type(struct parser *parser, struct field *field, bool is_dynamic, const struct type *type,
		    struct word brackets)
{
	field->is_signed = type->is_signed;
	field->is_text = type->is_text;
	if (is_dynamic) {
		field->size = sizeof(uint32_t); /* with the place of the elements in the payload */
		field->element = type->size;
		return word_is(brackets, "[]", 2) ? 0
						  : refuse_word(parser, "", parser->whole,
								"wants [] behind its type: __rel_loc char[] NAME");
	}
	if (brackets.length > 0) {
		field->kind = FIELD_CHARS;
		return read_array_size(parser, type, brackets, &field->size);
	}
	field->kind = type->is_signed ? FIELD_SIGNED : FIELD_UNSIGNED;
	field->size = type->size;
	return 0;
}

/* [__data_loc|__rel_loc] TYPE[N] NAME */
static int read_field(struct parser *parser)
{
	struct word rest = parser->whole, first = take_word(&rest), name, brackets;
	const bool data = word_is(first, "__data_loc", 10), rel = word_is(first, "__rel_loc", 9);
	struct field field = { .kind = data ? FIELD_DATA_LOC : FIELD_REL_LOC, .type = first.at };
	const struct type *type = NULL;
	int r;

	if (memchr(parser->whole.at, '*', parser->whole.length))
		return refuse_word(
			parser, "", parser->whole,
			"is a pointer, which means nothing to a tracer; use __rel_loc char[] for text, u64 for an address");
	if (word_is(first, "struct", 6))
		return read_struct(parser, rest);
	if (!data && !rel)
		rest = parser->whole;
	for (size_t i = 0; i < ARRAY_SIZE(types) && !type; i++)
		if (begins_with(rest, types[i].name, strlen(types[i].name)))
			type = &types[i];
	if (!type)
		return refuse_type(parser, rest);

	word_take(&rest, strlen(type->name));
	brackets = take_word(&rest);
	field.type_length = (size_t)(brackets.at + brackets.length - field.type);
	r = set_type(parser, &field, data || rel, type, brackets);
	name = take_word(&rest);
	if (r != 0)
		return r;
	if (name.length == 0)
		return refuse_word(parser, "", parser->whole, "is not complete; it wants a name: TYPE NAME");
	if (rest.length == 0)
		return add_field(parser, field, name);
	if (refuse_with_advice(parser, parser->whole) != 0) /* "short int x" */
		return REFUSAL_BAD_DESCRIPTION;
	return refuse_word(parser, "", take_word(&rest), "is one word too many; a field is TYPE NAME, and ';' ends it");
}

/* Appends the words to the canonical text, with one space between them. */
static int put_field(struct parser *parser, struct word words)
{
	const char *between = parser->number == 1 ? " " : "; ";

	text_put(&parser->canonical, between, strlen(between));
	parser->whole.at = parser->canonical.buffer + parser->canonical.length;
	while (words.length > 0) {
		struct word word = take_word(&words);

		text_put(&parser->canonical, word.at, word.length);
		text_put(&parser->canonical, " ", words.length > 0);
	}
	parser->whole.length = (size_t)(parser->canonical.buffer + parser->canonical.length - parser->whole.at);
	if (!parser->canonical.cut)
		return 0;
	text_printf(
		parser->why,
		"description is too long with one space between words and behind each ';'; the kernel takes %d bytes",
		WIRE_DESCRIPTION_MAX);
	return REFUSAL_BAD_DESCRIPTION;
}

/* NAME or NAME:FLAG,FLAG. */
static int read_name(struct parser *parser, struct word word)
{
	struct word name = take_until(&word, ':');

	if (name.length > DESCRIPTION_NAME_MAX)
		return refuse_word(parser, "the name ", name, "is too long; 200 bytes are the most");
	if (!is_identifier(name))
		return refuse_word(
			parser, "", name,
			"is not the name of an event; letters, digits and _ make one, no digit first: NAME TYPE FIELD; TYPE FIELD");
	text_put(&parser->canonical, name.at, name.length);
	parser->to->name_length = name.length;
	while (skip_one(&word)) {
		const struct word flag = take_until(&word, ',');

		if (!is_identifier(flag))
			return refuse_word(parser, "behind the name's ':', ", flag,
					   "is not a flag; write NAME:FLAG,FLAG, or leave flags out");
	}
	return 0;
}
_Static_assert(DESCRIPTION_NAME_MAX == 200, "the number in the sentence above");

/* Then every byte can be shown as it is. */
static int check_bytes(struct word text, struct text *why)
{
	if (text.length > WIRE_DESCRIPTION_MAX) {
		text_printf(why, "description of %zu bytes is too long; the kernel takes %d", text.length,
			    WIRE_DESCRIPTION_MAX);
		return REFUSAL_BAD_DESCRIPTION;
	}
	for (size_t i = 0; i < text.length; i++) {
		uint8_t byte = (uint8_t)text.at[i];

		if ((byte >= ' ' && byte <= '~') || byte == '\t')
			continue;
		text_printf(why, "description has the byte 0x%02x at place %zu; only printable ASCII may be in it",
			    byte, i + 1);
		return REFUSAL_BAD_DESCRIPTION;
	}
	return 0;
}

int description_parse(const char *text, size_t length, struct description *ret, struct text *why)
{
	struct word rest = { text, length }, field;
	struct parser parser = { .to = ret, .why = why };
	int r = check_bytes(rest, why);

	if (r != 0)
		return r;
	ret->n_fields = 0;
	ret->size = 0;
	parser.canonical = text_make(ret->canonical, sizeof(ret->canonical));
	skip_blanks(&rest);
	r = read_name(&parser, take_word(&rest));
	/* Empty fields are none, as for the kernel. */
	while (r == 0 && rest.length > 0) {
		field = take_until(&rest, ';');
		skip_one(&rest);
		skip_blanks(&field);
		if (field.length == 0)
			continue;
		parser.number++;
		r = put_field(&parser, field);
		if (r == 0)
			r = read_field(&parser);
	}
	return r;
}
