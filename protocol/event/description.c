/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The grammar of the kernel's trace_events_user.c, with these differences: any run of blanks separates words (the kernel
 * wants exactly one space, and gets it from the canonical form); names are identifiers, since they become directories
 * and filters; array sizes are decimal (the kernel reads 010 as 8); a dynamic field is an array of a type that we know,
 * so that its elements can be shown; flags are dropped, since the kernels that have user_events ignore them.
 *
 * A field is first split into words, then read. Only printable ASCII gets that far.
 */

#include "protocol/event/description.h"

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

/* What people write instead, and what to tell them. The first that a field begins with counts: longer ones come first. */
static const struct advice {
	const char *type;
	const char *say;
} advice[] = {
	{ "unsigned long long", "is not a type of the kernel's; use u64" },
	{ "unsigned long", "has no fixed size; use u64 or u32" },
	{ "unsigned __int128", "is too large for a number; use struct NAME field 16" },
	{ "unsigned short int", "is not a type of the kernel's; use unsigned short or u16" },
	{ "unsigned", "alone is not a type of the kernel's; use unsigned int or u32" },
	{ "signed char", "is not a type of the kernel's; use s8" },
	{ "signed", "is not known to the kernel; use s8, s16, s32 or s64" },
	{ "long long", "is not a type of the kernel's; use s64" },
	{ "long double", "is not known to the kernel; use struct NAME field 16 for its bytes" },
	{ "long", "has no fixed size; use s64 or u64" },
	{ "short int", "is not a type of the kernel's; use short or s16" },
	{ "const", "has no meaning here; leave it out" },
	{ "volatile", "has no meaning here; leave it out" },
	{ "static", "has no meaning here; leave it out" },
	{ "enum", "has no fixed size; use int or s32" },
	{ "union", "is not known to the kernel; use struct NAME field SIZE for its bytes" },
	{ "struct", "cannot be what an array is made of; use u8[] for its bytes" }, /* comes here as __rel_loc struct */
	{ "void", "is not a type of a field" },
	{ "float", "is not known to the kernel; use u32 for its bits" },
	{ "double", "is not known to the kernel; use u64 for its bits" },
	{ "f32", "is not known to the kernel; use u32 for its bits" },
	{ "f64", "is not known to the kernel; use u64 for its bits" },
	{ "bool", "is not known to the kernel; use u8" },
	{ "_Bool", "is not known to the kernel; use u8" },
	{ "byte", "is not known to the kernel; use u8" },
	{ "size_t", "has no fixed size; use u64" },
	{ "usize", "has no fixed size; use u64" },
	{ "uintptr_t", "has no fixed size; use u64" },
	{ "ssize_t", "has no fixed size; use s64" },
	{ "isize", "has no fixed size; use s64" },
	{ "intptr_t", "has no fixed size; use s64" },
	{ "ptrdiff_t", "has no fixed size; use s64" },
	{ "off_t", "has no fixed size; use s64" },
	{ "time_t", "has no fixed size; use s64" },
	{ "pid_t", "is not known to the kernel; use s32" },
	{ "uid_t", "is not known to the kernel; use u32" },
	{ "gid_t", "is not known to the kernel; use u32" },
	{ "wchar_t", "is not known to the kernel; use s32" },
	{ "int8_t", "is not known to the kernel; use s8" },
	{ "uint8_t", "is not known to the kernel; use u8" },
	{ "int16_t", "is not known to the kernel; use s16" },
	{ "uint16_t", "is not known to the kernel; use u16" },
	{ "int32_t", "is not known to the kernel; use s32" },
	{ "uint32_t", "is not known to the kernel; use u32" },
	{ "int64_t", "is not known to the kernel; use s64" },
	{ "uint64_t", "is not known to the kernel; use u64" },
	{ "__s8", "is not known to the kernel; use s8" },
	{ "__u8", "is not known to the kernel; use u8" },
	{ "__s16", "is not known to the kernel; use s16" },
	{ "__u16", "is not known to the kernel; use u16" },
	{ "__s32", "is not known to the kernel; use s32" },
	{ "__u32", "is not known to the kernel; use u32" },
	{ "__s64", "is not known to the kernel; use s64" },
	{ "__u64", "is not known to the kernel; use u64" },
	{ "i8", "is not known to the kernel; use s8" },
	{ "i16", "is not known to the kernel; use s16" },
	{ "i32", "is not known to the kernel; use s32" },
	{ "i64", "is not known to the kernel; use s64" },
	{ "u128", "is too large for a number; use struct NAME field 16" },
	{ "__int128", "is too large for a number; use struct NAME field 16" },
	{ "string", "is not known to the kernel; use __rel_loc char[]" },
	{ "str", "is not known to the kernel; use __rel_loc char[]" },
	{ "__string", "is not known to the kernel; use __rel_loc char[]" },
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

/* Refusing is the last thing that a function does: `return refuse(…)`. */
static int refuse(struct parser *parser, const char *before, struct word word, const char *after)
{
	if (parser->number > 0)
		text_printf(parser->why, "field %u: ", parser->number);
	text_printf(parser->why, "%s'", before);
	text_excerpt(parser->why, word.at, word.length);
	text_printf(parser->why, "' %s", after);
	return REFUSAL_BAD_DESCRIPTION;
}

/* Everything but these is a byte of a word, or refused before it comes here. */
static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static bool is_identifier(struct word word)
{
	if (word.length == 0 || is_digit(word.at[0]))
		return false;
	for (size_t i = 0; i < word.length; i++)
		if (!is_name_byte(word.at[i]))
			return false;
	return true;
}

bool description_is_name(const char *text, size_t length)
{
	return length <= DESCRIPTION_NAME_MAX && is_identifier((struct word){ text, length });
}

static bool word_is(struct word word, const char *text)
{
	return strlen(text) == word.length && memcmp(word.at, text, word.length) == 0;
}

static struct word trimmed(struct word word)
{
	for (; word.length > 0 && is_blank(word.at[0]); word.length--)
		word.at++;
	while (word.length > 0 && is_blank(word.at[word.length - 1]))
		word.length--;
	return word;
}

static struct word take(struct word *rest, size_t length)
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

	return take(rest, found ? (size_t)(found - rest->at) : rest->length);
}

static struct word take_word(struct word *rest)
{
	size_t length = 0;

	while (length < rest->length && !is_blank(rest->at[length]))
		length++;
	return take(rest, length);
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

/* 1 to `maximum`, in digits alone; 0 otherwise. */
static uint32_t read_size(struct word word, uint32_t maximum)
{
	uint32_t value = 0;

	for (size_t i = 0; i < word.length; i++) {
		if (!is_digit(word.at[i]))
			return 0;
		value = value * 10 + (uint32_t)(word.at[i] - '0');
		if (value > maximum)
			return 0;
	}
	return value;
}

static const struct type *find_type(struct word word)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (word_is(word, types[i].name))
			return &types[i];
	return NULL;
}

/* Whether the words from the `first` on, with one space between them, begin with `text`. */
static bool words_begin_with(const struct parser *parser, size_t first, const char *text)
{
	for (size_t i = first; i < parser->n_words; i++) {
		struct word expected = { text, strcspn(text, " ") };
		struct word found = parser->word[i];

		text += expected.length;
		if (*text == '\0') /* of the last one the array's brackets do not matter */
			found = take_until(&found, '[');
		if (found.length != expected.length || memcmp(found.at, expected.at, found.length) != 0)
			return false;
		if (*text == '\0')
			return true;
		text++;
	}
	return false;
}

static const struct advice *find_advice(const struct parser *parser, size_t first)
{
	for (size_t i = 0; i < ARRAY_SIZE(advice); i++)
		if (words_begin_with(parser, first, advice[i].type))
			return &advice[i];
	return NULL;
}

static int refuse_with(struct parser *parser, const struct advice *found)
{
	return refuse(parser, "", (struct word){ found->type, strlen(found->type) }, found->say);
}

/* A type that is none: what to use instead where we can guess what was meant. */
static int refuse_type(struct parser *parser, size_t first)
{
	const struct advice *found = find_advice(parser, first);

	if (found)
		return refuse_with(parser, found);
	return refuse(parser, "", parser->word[first],
		      "is not a type; use s8 to s64, u8 to u64, int, short, char, char[N], __rel_loc char[], "
		      "or struct NAME field SIZE");
}

static bool name_is_used(const struct description *description, struct word name)
{
	for (size_t i = 0; i < description->n_fields; i++)
		if (description->field[i].name_length == name.length &&
		    memcmp(description->field[i].name, name.at, name.length) == 0)
			return true;
	return false;
}

static int refuse_array(struct parser *parser)
{
	return refuse(parser, "only char and unsigned char may be arrays of fixed size; instead of ", parser->whole,
		      "use __rel_loc TYPE[] NAME or a struct");
}

static int check_field_name(struct parser *parser, struct word name, bool is_text)
{
	struct word element = name;

	element = take_until(&element, '[');
	if (element.length < name.length && is_identifier(element) && !is_text)
		return refuse_array(parser);
	if (element.length < name.length && is_identifier(element))
		return refuse(parser, "", name,
			      "has its size in the wrong place; it belongs to the type: char[16] name");
	if (!is_identifier(name))
		return refuse(parser, "", name,
			      "is not a name; letters, digits and _ make one, no digit first, and ';' ends a field");
	for (size_t i = 0; i < ARRAY_SIZE(common_fields); i++)
		if (word_is(name, common_fields[i]))
			return refuse(parser, "", name, "is a field that every event has already; choose another name");
	if (name_is_used(parser->to, name))
		return refuse(parser, "", name, "is the name of an earlier field; choose another");
	return 0;
}

/* Appends to the canonical text; the place of what was appended. */
static const char *put_canonical(struct parser *parser, const char *between, struct word word)
{
	const char *at;

	text_put(&parser->canonical, between, strlen(between));
	at = parser->canonical.buffer + parser->canonical.length;
	text_put(&parser->canonical, word.at, word.length);
	return at;
}

/* Not left for the end: names that do not lie in the text cannot be compared. */
static int check_room(struct parser *parser)
{
	if (!parser->canonical.cut)
		return 0;
	text_printf(
		parser->why,
		"description is too long with one space between words and behind each ';'; the kernel takes %d bytes",
		WIRE_DESCRIPTION_MAX);
	return REFUSAL_BAD_DESCRIPTION;
}

/* The type is the `n` words from the `first` on. `field` has its kind and sizes, and gets the rest here. */
static int add_field(struct parser *parser, struct field field, size_t first, size_t n, struct word name)
{
	struct description *to = parser->to;
	const char *between = to->n_fields == 0 ? " " : "; ";
	const char *type = NULL;
	int r = check_field_name(parser, name, field.is_text);

	if (r != 0)
		return r;
	if (field.size > WIRE_PAYLOAD_MAX - to->size)
		return refuse(parser, "", name,
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
	return check_room(parser);
}
_Static_assert(WIRE_PAYLOAD_MAX == 4064, "the sentence above says so");

/* struct NAME field SIZE */
static int read_struct(struct parser *parser)
{
	const struct word *word = parser->word;
	struct field field = { .kind = FIELD_STRUCT };

	if (parser->n_words >= 2 && !is_identifier(word[1]))
		return refuse(parser, "", word[1], "is not the name of a struct; letters, digits and _ make one");
	if (parser->n_words != 4)
		return refuse(parser, "", parser->whole,
			      "is not complete; a struct is written as struct NAME field SIZE");
	field.size = read_size(word[3], WIRE_PAYLOAD_MAX);
	if (field.size == 0)
		return refuse(parser, "", word[3],
			      "is no size for a struct; it has 1 to 4064 bytes, in digits: more no tracer can hold");
	return add_field(parser, field, 0, 2, word[2]);
}

/* How many words make the type that begins at the `first`. */
static size_t type_words(const struct parser *parser, size_t first)
{
	return first < parser->n_words && word_is(parser->word[first], "unsigned") ? 2 : 1;
}

/*
 * Reads the type in the words from the `first` on, with its brackets if it has some. NULL where it is none. The name of
 * a type of two words has one space, whatever the text had.
 */
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
	return text.cut ? NULL : find_type((struct word){ joined, text.length });
}

/* What comes behind the type, which has `n` words from the `first` on: one name, and nothing else. */
static int check_the_rest(struct parser *parser, size_t first, size_t n)
{
	const struct advice *found;

	if (parser->n_words == first + n)
		return refuse(parser, "", parser->whole, "is not complete; it wants a name: TYPE NAME");
	if (parser->n_words == first + n + 1)
		return 0;
	found = find_advice(parser, first); /* "short int x" */
	if (found)
		return refuse_with(parser, found);
	return refuse(parser, "", parser->word[first + n + 1],
		      "is one word too many; a field is TYPE NAME, and ';' ends it");
}

/* __data_loc TYPE[] field, __rel_loc TYPE[] field: four bytes that say where in the payload the elements are. */
static int read_dynamic(struct parser *parser, enum field_kind kind)
{
	struct word brackets = { 0 };
	size_t n = type_words(parser, 1);
	const struct type *type;
	int r;

	if (parser->n_words < 2)
		return refuse(parser, "", parser->whole,
			      "is not complete; it wants a type and a name: __rel_loc char[] NAME");
	type = read_type(parser, 1, &brackets);
	if (!type)
		return refuse_type(parser, 1);
	if (!word_is(brackets, "[]"))
		return refuse(parser, "", parser->whole, "wants [] behind its type: __rel_loc char[] NAME");
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
		return refuse(parser, "", parser->whole, "has no ] behind the array's size; write it as char[16] NAME");
	digits.length--;
	if (digits.length == 0)
		return refuse(parser, "", parser->whole,
			      "has an array without a size; write its size, or __rel_loc char[] NAME");
	*ret = digits.at[0] == '0' ? 0 : read_size(digits, DESCRIPTION_ARRAY_MAX);
	if (*ret == 0)
		return refuse(parser, "", digits,
			      "is not the size of an array; the kernel takes 1 to 1024, in plain digits");
	return 0;
}
_Static_assert(DESCRIPTION_ARRAY_MAX == 1024, "the sentence above says so");

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

static int split_words(struct parser *parser)
{
	struct word rest = parser->whole;

	for (parser->n_words = 0; rest.length > 0; rest = trimmed(rest)) {
		struct word word = take_word(&rest);

		if (parser->n_words == WORDS_MAX)
			return refuse(parser, "", parser->whole, "has too many words; ';' ends a field");
		parser->word[parser->n_words++] = word;
	}
	return 0;
}

static int read_field(struct parser *parser)
{
	int r = split_words(parser);

	if (r != 0)
		return r;
	if (memchr(parser->whole.at, '*', parser->whole.length))
		return refuse(
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

/* `rest` is everything behind the name. Empty fields are none, as for the kernel. */
static int read_fields(struct parser *parser, struct word rest)
{
	int r = 0;

	while (r == 0 && rest.length > 0) {
		parser->whole = trimmed(take_until(&rest, ';'));
		skip_one(&rest);
		if (parser->whole.length == 0)
			continue;
		parser->number++;
		r = read_field(parser);
	}
	return r;
}

static int check_flags(struct parser *parser, struct word flags)
{
	struct word flag;

	do {
		flag = take_until(&flags, ',');
		if (!is_identifier(flag))
			return refuse(parser, "the name has behind its ':' the flag ", flag,
				      "which is none; write NAME:FLAG,FLAG, or leave flags out");
	} while (skip_one(&flags));
	return 0;
}

/* NAME or NAME:FLAG,FLAG. */
static int read_name(struct parser *parser, struct word word)
{
	struct word name = take_until(&word, ':');

	if (name.length > DESCRIPTION_NAME_MAX)
		return refuse(parser, "the name ", name, "is too long; 200 bytes are the most");
	if (!is_identifier(name))
		return refuse(parser, "the name ", name,
			      "is none; letters, digits and _ make one, no digit first: NAME TYPE FIELD; TYPE FIELD");
	put_canonical(parser, "", name);
	parser->to->name_length = name.length;
	return skip_one(&word) ? check_flags(parser, word) : 0;
}
_Static_assert(DESCRIPTION_NAME_MAX == 200, "the sentence above says so");

/* After this every byte can be shown as it is. */
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
	return r == 0 ? read_fields(&parser, rest) : r;
}
