/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The grammar of the kernel's trace_events_user.c, with these differences. Words may be separated by any blanks (the kernel requires
 * exactly one space, and gets the canonical form). Names are identifiers, since they become directories and filters. Array sizes are
 * decimal (the kernel reads 010 as 8). A dynamic field is an array of a type that we know, so its elements can be shown. Flags are
 * dropped, as kernels with user_events ignore them.
 *
 * A field is first split into words, then read. Only printable ASCII gets that far.
 */

#include "protocol/event/description.h"

#include "protocol/base/number.h"
#include "protocol/refusal.h"

/* A field takes five bytes at least ("u8 a;"), so that the array cannot overflow. */
_Static_assert(DESCRIPTION_FIELDS_MAX * 5 > WIRE_DESCRIPTION_MAX, "every field has a place");

enum { WORDS_MAX = 6 }; /* four in "__rel_loc unsigned char[] name"; the rest serves better sentences */

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

/* What the kernel's user_field_size() knows. */
static const struct type types[] = {
	{ "s64", 8, true, false },   { "u64", 8, false, false },
	{ "s32", 4, true, false },   { "u32", 4, false, false },
	{ "int", 4, true, false },   { "unsigned int", 4, false, false },
	{ "s16", 2, true, false },   { "u16", 2, false, false },
	{ "short", 2, true, false }, { "unsigned short", 2, false, false },
	{ "s8", 1, true, false },    { "u8", 1, false, false },
	{ "char", 1, true, true },   { "unsigned char", 1, false, true },
};

/* Types that programs use elsewhere, separated by commas, and what to use instead. The first match counts, so longer ones come first. */
static const struct advice {
	const char *types;
	const char *say;
} advice[] = {
	{ "unsigned long long", "is not a type of the kernel's; use u64" },
	{ "unsigned long", "has no fixed size; use u64 or u32" },
	{ "unsigned __int128,u128,__int128", "is too large for a number; use struct NAME field 16" },
	{ "unsigned short int", "is not a type of the kernel's; use unsigned short or u16" },
	{ "unsigned", "alone is not a type of the kernel's; use unsigned int or u32" },
	{ "signed char", "is not a type of the kernel's; use s8" },
	{ "signed", "is not known to the kernel; use s8, s16, s32 or s64" },
	{ "long long", "is not a type of the kernel's; use s64" },
	{ "long double", "is not known to the kernel; use struct NAME field 16 for its bytes" },
	{ "long", "has no fixed size; use s64 or u64" },
	{ "short int", "is not a type of the kernel's; use short or s16" },
	{ "const,volatile,static", "has no meaning here; leave it out" },
	{ "enum", "has no fixed size; use int or s32" },
	{ "union", "is not known to the kernel; use struct NAME field SIZE for its bytes" },
	{ "struct", "cannot be what an array is made of; use u8[] for its bytes" }, /* in __rel_loc struct */
	{ "void", "is not a type of a field" },
	{ "float,f32", "is not known to the kernel; use u32 for its bits" },
	{ "double,f64", "is not known to the kernel; use u64 for its bits" },
	{ "size_t,usize,uintptr_t", "has no fixed size; use u64" },
	{ "ssize_t,isize,intptr_t,ptrdiff_t,off_t,time_t", "has no fixed size; use s64" },
	{ "int8_t,__s8,i8", "is not known to the kernel; use s8" },
	{ "uint8_t,__u8,bool,_Bool,byte", "is not known to the kernel; use u8" },
	{ "int16_t,__s16,i16", "is not known to the kernel; use s16" },
	{ "uint16_t,__u16", "is not known to the kernel; use u16" },
	{ "int32_t,__s32,i32,pid_t,wchar_t", "is not known to the kernel; use s32" },
	{ "uint32_t,__u32,uid_t,gid_t", "is not known to the kernel; use u32" },
	{ "int64_t,__s64,i64", "is not known to the kernel; use s64" },
	{ "uint64_t,__u64", "is not known to the kernel; use u64" },
	{ "string,str,__string", "is not known to the kernel; use __rel_loc char[]" },
};

/* Every event of every tracer has these already. */
static const char *const common_fields[] = { "common_type", "common_flags", "common_preempt_count", "common_pid" };

struct parser {
	struct description *to;
	struct text canonical;
	struct text *why;
	unsigned number; /* of the field that is being read: 1 and up */
	struct word word[WORDS_MAX];
	size_t n_words;
	struct word whole; /* the field, for sentences */
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

/* Other bytes belong to words, or have been refused. */
static bool is_word_end(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_identifier(struct word word)
{
	static const char digits[] = "0123456789",
			  rest[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

	if (word.length == 0 || memchr(digits, word.at[0], sizeof(digits) - 1))
		return false;
	for (size_t i = 0; i < word.length; i++)
		if (!memchr(rest, word.at[i], sizeof(rest) - 1))
			return false;
	return true;
}

bool description_is_name(const char *text, size_t length)
{
	return length <= DESCRIPTION_NAME_MAX && is_identifier((struct word){ text, length });
}

static bool words_equal(struct word one, struct word other)
{
	return one.length == other.length && memcmp(one.at, other.at, one.length) == 0;
}

static bool word_is(struct word word, const char *text)
{
	return words_equal(word, (struct word){ text, strlen(text) });
}

static struct word trimmed(struct word word)
{
	for (; word.length > 0 && is_word_end(word.at[0]); word.length--)
		word.at++;
	while (word.length > 0 && is_word_end(word.at[word.length - 1]))
		word.length--;
	return word;
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

static struct word take_word(struct word *rest)
{
	size_t length = 0;

	while (length < rest->length && !is_word_end(rest->at[length]))
		length++;
	return word_take(rest, length);
}

/* Steps over the separator that take_until() found: whether there was one. */
static bool skip_one(struct word *rest)
{
	if (rest->length == 0)
		return false;
	rest->at++;
	rest->length--;
	return true;
}

/* 1 to `maximum`, in decimal digits; otherwise 0. */
static uint32_t read_size(struct word word, uint32_t maximum)
{
	char digits[8];
	uint64_t size;

	/* number_parse() wants terminated text. */
	if (word.length >= sizeof(digits))
		return 0;
	memcpy(digits, word.at, word.length);
	digits[word.length] = '\0';
	return number_parse(digits, word.length, maximum, &size) == NUMBER_GOOD ? (uint32_t)size : 0;
}

/* Whether the words from `first` on, with one space between them, begin with this type. The last one may have brackets. */
static bool words_begin_with(const struct parser *parser, size_t first, struct word type)
{
	for (size_t i = first; i < parser->n_words; i++) {
		struct word expected = take_until(&type, ' '), found = parser->word[i];

		if (type.length == 0)
			found = take_until(&found, '[');
		if (!words_equal(found, expected))
			return false;
		if (!skip_one(&type))
			return true;
	}
	return false;
}

/* Refuses the type that begins at `first`, if there is advice for it; otherwise 0. */
static int refuse_with_advice(struct parser *parser, size_t first)
{
	for (size_t i = 0; i < ARRAY_SIZE(advice); i++) {
		struct word list = { advice[i].types, strlen(advice[i].types) };

		do {
			const struct word type = take_until(&list, ',');

			if (words_begin_with(parser, first, type))
				return refuse_word(parser, "", type, advice[i].say);
		} while (skip_one(&list));
	}
	return 0;
}

static int refuse_type(struct parser *parser, size_t first)
{
	if (refuse_with_advice(parser, first) != 0)
		return REFUSAL_BAD_DESCRIPTION;
	return refuse_word(parser, "", parser->word[first],
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

	if (element.length < name.length && is_identifier(element) && !is_text)
		return refuse_array(parser);
	if (element.length < name.length && is_identifier(element))
		return refuse_word(parser, "", name,
				   "has its size in the wrong place; it belongs to the type: char[16] name");
	if (!is_identifier(name))
		return refuse_word(
			parser, "", name,
			"is not a name; letters, digits and _ make one, no digit first, and ';' ends a field");
	for (size_t i = 0; i < ARRAY_SIZE(common_fields); i++)
		if (word_is(name, common_fields[i]))
			return refuse_word(parser, "", name,
					   "is a field that every event has already; choose another name");
	for (size_t i = 0; i < to->n_fields; i++)
		if (words_equal(name, (struct word){ to->field[i].name, to->field[i].name_length }))
			return refuse_word(parser, "", name, "is the name of an earlier field; choose another");
	return 0;
}

/* Appends to the canonical text, and returns where. */
static const char *put_canonical(struct parser *parser, const char *between, struct word word)
{
	const char *at;

	text_put(&parser->canonical, between, strlen(between));
	at = parser->canonical.buffer + parser->canonical.length;
	text_put(&parser->canonical, word.at, word.length);
	return at;
}

/* The type is the `n` words from `first` on. `field` has its kind and sizes already. */
static int add_field(struct parser *parser, struct field field, size_t first, size_t n, struct word name)
{
	struct description *to = parser->to;
	const char *between = to->n_fields == 0 ? " " : "; ";
	const char *type = NULL;
	int r = check_field_name(parser, name, field.is_text);

	if (r != 0)
		return r;
	if (field.size > WIRE_PAYLOAD_MAX - to->size)
		return refuse_word(parser, "", name,
				   "makes the record longer than the 4064 bytes that every tracer can hold");
	for (size_t i = 0; i < n; i++, between = " ") {
		const char *at = put_canonical(parser, between, parser->word[first + i]);

		type = type ? type : at;
	}
	field.type = type;
	field.type_length = (size_t)(parser->canonical.buffer + parser->canonical.length - type);
	field.name = put_canonical(parser, " ", name);
	field.name_length = name.length;
	field.offset = to->size;
	to->size += field.size;
	to->field[to->n_fields++] = field;
	if (field.kind == FIELD_STRUCT)
		text_printf(&parser->canonical, " %u", field.size);
	if (!parser->canonical.cut)
		return 0;
	/* Now, since the names of later fields are compared with this one's in the text. */
	text_printf(
		parser->why,
		"description is too long with one space between words and behind each ';'; the kernel takes %d bytes",
		WIRE_DESCRIPTION_MAX);
	return REFUSAL_BAD_DESCRIPTION;
}
_Static_assert(WIRE_PAYLOAD_MAX == 4064, "the number in the sentence above");

/* struct NAME field SIZE */
static int read_struct(struct parser *parser)
{
	const struct word *word = parser->word;
	struct field field = { .kind = FIELD_STRUCT };

	if (parser->n_words >= 2 && !is_identifier(word[1]))
		return refuse_word(parser, "", word[1], "is not the name of a struct; letters, digits and _ make one");
	if (parser->n_words != 4)
		return refuse_word(parser, "", parser->whole,
				   "is not complete; a struct is written as struct NAME field SIZE");
	field.size = read_size(word[3], WIRE_PAYLOAD_MAX);
	if (field.size == 0)
		return refuse_word(
			parser, "", word[3],
			"is no size for a struct; it has 1 to 4064 bytes, in digits: more no tracer can hold");
	return add_field(parser, field, 0, 2, word[2]);
}

/* How many words the type has that begins at `first`. */
static size_t type_words(const struct parser *parser, size_t first)
{
	return first < parser->n_words && word_is(parser->word[first], "unsigned") ? 2 : 1;
}

/* Reads the type in the words from `first` on, and its brackets. NULL: there is none. */
static const struct type *read_type(const struct parser *parser, size_t first, struct word *ret_brackets)
{
	char joined[sizeof("unsigned short")] = "";
	struct text text = text_make(joined, sizeof(joined));
	size_t n = type_words(parser, first);
	struct word last;

	if (first + n > parser->n_words)
		return NULL;
	*ret_brackets = parser->word[first + n - 1];
	last = take_until(ret_brackets, '[');
	if (n == 2)
		text_put(&text, "unsigned ", strlen("unsigned "));
	text_put(&text, last.at, last.length);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (!text.cut && streq(joined, types[i].name))
			return &types[i];
	return NULL;
}

/* Behind the type, which is `n` words from `first` on, there has to be one name and nothing else. */
static int check_the_rest(struct parser *parser, size_t first, size_t n)
{
	if (parser->n_words == first + n)
		return refuse_word(parser, "", parser->whole, "is not complete; it wants a name: TYPE NAME");
	if (parser->n_words == first + n + 1)
		return 0;
	if (refuse_with_advice(parser, first) != 0) /* "short int x" */
		return REFUSAL_BAD_DESCRIPTION;
	return refuse_word(parser, "", parser->word[first + n + 1],
			   "is one word too many; a field is TYPE NAME, and ';' ends it");
}

/* __data_loc TYPE[] field, __rel_loc TYPE[] field: four bytes with the place of the elements in the payload. */
static int read_dynamic(struct parser *parser, enum field_kind kind)
{
	struct word brackets = { 0 };
	size_t n = type_words(parser, 1);
	const struct type *type;
	int r;

	if (parser->n_words < 2)
		return refuse_word(parser, "", parser->whole,
				   "is not complete; it wants a type and a name: __rel_loc char[] NAME");
	type = read_type(parser, 1, &brackets);
	if (!type)
		return refuse_type(parser, 1);
	if (!word_is(brackets, "[]"))
		return refuse_word(parser, "", parser->whole, "wants [] behind its type: __rel_loc char[] NAME");
	r = check_the_rest(parser, 1, n);
	if (r != 0)
		return r;
	return add_field(parser,
			 (struct field){ .kind = kind,
					 .size = sizeof(uint32_t),
					 .element = type->size,
					 .is_signed = type->is_signed,
					 .is_text = type->is_text },
			 0, 1 + n, parser->word[1 + n]);
}

/* char[N]: `brackets` is the "[N]". */
static int read_array_size(struct parser *parser, const struct type *type, struct word brackets, uint32_t *ret)
{
	struct word digits = { brackets.at + 1, brackets.length - 1 };

	if (!type->is_text)
		return refuse_array(parser);
	if (digits.length == 0 || digits.at[digits.length - 1] != ']')
		return refuse_word(parser, "", parser->whole,
				   "has no ] behind the array's size; write it as char[16] NAME");
	digits.length--;
	if (digits.length == 0)
		return refuse_word(parser, "", parser->whole,
				   "has an array without a size; write its size, or __rel_loc char[] NAME");
	*ret = digits.at[0] == '0' ? 0 : read_size(digits, DESCRIPTION_ARRAY_MAX);
	if (*ret == 0)
		return refuse_word(parser, "", digits,
				   "is not the size of an array; the kernel takes 1 to 1024, in plain digits");
	return 0;
}
_Static_assert(DESCRIPTION_ARRAY_MAX == 1024, "the number in the sentence above");

/* A number, a char or an array of chars. */
static int read_basic(struct parser *parser)
{
	struct word brackets = { 0 };
	struct field field = { 0 };
	size_t n = type_words(parser, 0);
	const struct type *type = read_type(parser, 0, &brackets);
	int r;

	if (!type)
		return refuse_type(parser, 0);
	field.kind = type->is_signed ? FIELD_SIGNED : FIELD_UNSIGNED;
	field.size = type->size;
	field.is_signed = type->is_signed;
	field.is_text = type->is_text;
	if (brackets.length > 0) {
		field.kind = FIELD_CHARS;
		r = read_array_size(parser, type, brackets, &field.size);
		if (r != 0)
			return r;
	}
	r = check_the_rest(parser, 0, n);
	if (r != 0)
		return r;
	return add_field(parser, field, 0, n, parser->word[n]);
}

static int read_description_field(struct parser *parser)
{
	struct word rest = parser->whole;

	for (parser->n_words = 0; rest.length > 0; rest = trimmed(rest)) {
		if (parser->n_words == WORDS_MAX)
			return refuse_word(parser, "", parser->whole, "has too many words; ';' ends a field");
		parser->word[parser->n_words++] = take_word(&rest);
	}
	if (memchr(parser->whole.at, '*', parser->whole.length))
		return refuse_word(
			parser, "", parser->whole,
			"is a pointer, which means nothing to a tracer; use __rel_loc char[] for text, u64 for an address");
	if (word_is(parser->word[0], "struct"))
		return read_struct(parser);
	if (word_is(parser->word[0], "__data_loc"))
		return read_dynamic(parser, FIELD_DATA_LOC);
	if (word_is(parser->word[0], "__rel_loc"))
		return read_dynamic(parser, FIELD_REL_LOC);
	return read_basic(parser);
}

/* NAME or NAME:FLAG,FLAG. */
static int read_name(struct parser *parser, struct word word)
{
	struct word name = take_until(&word, ':');

	if (name.length > DESCRIPTION_NAME_MAX)
		return refuse_word(parser, "the name ", name, "is too long; 200 bytes are the most");
	if (!is_identifier(name))
		return refuse_word(
			parser, "the name ", name,
			"is none; letters, digits and _ make one, no digit first: NAME TYPE FIELD; TYPE FIELD");
	put_canonical(parser, "", name);
	parser->to->name_length = name.length;
	while (skip_one(&word)) {
		const struct word flag = take_until(&word, ',');

		if (!is_identifier(flag))
			return refuse_word(parser, "the name has behind its ':' the flag ", flag,
					   "which is none; write NAME:FLAG,FLAG, or leave flags out");
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
	if (trimmed(text).length == 0) {
		text_printf(why, "description is empty; it is NAME TYPE FIELD; TYPE FIELD");
		return REFUSAL_BAD_DESCRIPTION;
	}
	return 0;
}

int description_parse(const char *text, size_t length, struct description *ret, struct text *why)
{
	struct word rest = { text, length };
	struct parser parser = { .to = ret, .why = why };
	int r = check_bytes(rest, why);

	if (r != 0)
		return r;
	ret->n_fields = 0;
	ret->size = 0;
	parser.canonical = text_make(ret->canonical, sizeof(ret->canonical));
	rest = trimmed(rest);
	r = read_name(&parser, take_word(&rest));
	/* Empty fields are none, as for the kernel. */
	while (r == 0 && rest.length > 0) {
		parser.whole = trimmed(take_until(&rest, ';'));
		skip_one(&rest);
		if (parser.whole.length == 0)
			continue;
		parser.number++;
		r = read_description_field(&parser);
	}
	return r;
}
