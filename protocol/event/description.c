/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The grammar of the kernel's trace_events_user.c, with these differences. Words may be separated by any blanks (the kernel requires
 * exactly one space, and gets the canonical form). Names are identifiers, since they become directories and filters. Array sizes are
 * decimal (the kernel reads 010 as 8). A dynamic field is an array of a type that we know, so its elements can be shown. Flags are
 * dropped, as kernels with user_events ignore them.
 *
 * Most texts are in canonical form, and are read there in one pass. A text that is wrong as it stands is brought into canonical form and
 * read again. Only then are sentences written, and the bytes in them are printable ASCII.
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
	char name[8]; /* padded with zeros */
	uint8_t size;
	bool is_signed;
	bool is_text;
	bool is_word; /* "unsigned" may be in front of it */
};

/* The types of the kernel's user_field_size(), the usual ones first. */
static const struct type types[] = {
	{ "u64", 8, false, false, false }, { "u32", 4, false, false, false }, { "char", 1, true, true, true },
	{ "s64", 8, true, false, false },  { "s32", 4, true, false, false },  { "int", 4, true, false, true },
	{ "u16", 2, false, false, false }, { "u8", 1, false, false, false },  { "s16", 2, true, false, false },
	{ "s8", 1, true, false, false },   { "short", 2, true, false, true },
};

/* Types of C, separated by commas, for which a list of all types is not enough help. The first match counts, so longer ones come first. */
static const struct advice {
	const char *types;
	const char *say;
} advice[] = {
	{ "long double,union", "is not a type of the kernel's; use struct NAME field SIZE for its bytes" },
	{ "unsigned long,long,size_t,ssize_t,uintptr_t,intptr_t,ptrdiff_t,off_t,time_t",
	  "has no fixed size; use s64 or u64" },
	{ "float", "is not a type of the kernel's; use u32 for its bits" },
	{ "double", "is not a type of the kernel's; use u64 for its bits" },
	{ "struct", "is no element of an array; use u8[] for its bytes, or struct NAME field SIZE" },
};

/* Every event of every tracer has these already. */
static const char *const common_fields[] = { "common_type", "common_flags", "common_preempt_count", "common_pid" };

struct parser {
	struct description *to; /* with the text, which ends in zeros */
	const char *field;	/* the field that is being read, or NULL */
	const char *at;		/* the end of the last field */
	uint64_t names;		/* has a bit for each earlier field's name, which other names may share */
	struct text *why;	/* or NULL, to write no sentence */
};

static struct word word_until(const char *at, const char *ends)
{
	return (struct word){ at, strcspn(at, ends) };
}

/* Writes the sentence, and returns the refusal: `return refuse_word(…)`. */
static int refuse_word(struct parser *parser, const char *before, struct word word, const char *after)
{
	if (!parser->why)
		return REFUSAL_BAD_DESCRIPTION;
	if (parser->field) {
		const struct word field = word_until(parser->field, ";");

		text_printf(parser->why, "field %zu: ", parser->to->n_fields + 1);
		if (memchr(field.at, '*', field.length)) {
			before = "";
			word = field;
			after = "is a pointer, which means nothing to a tracer; use __rel_loc char[] for text, u64 for an address";
		}
	}
	text_printf(parser->why, "%s'", before);
	text_excerpt(parser->why, word.at, word.length);
	text_printf(parser->why, "' %s", after);
	return REFUSAL_BAD_DESCRIPTION;
}

static int refuse_field(struct parser *parser, const char *before, const char *after)
{
	return refuse_word(parser, before, word_until(parser->field, ";"), after);
}

static const bool in_identifier[256] = {
	['0' ... '9'] = true,
	['A' ... 'Z'] = true,
	['_'] = true,
	['a' ... 'z'] = true,
};

/* How many of the bytes at `at`, which end in a zero, can be in an identifier. */
static inline size_t identifier_length(const char *at)
{
	const char *end = at;

	while (in_identifier[(uint8_t)*end])
		end++;
	return (size_t)(end - at);
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_identifier(struct word word)
{
	for (size_t i = 0; i < word.length; i++)
		if (!in_identifier[(uint8_t)word.at[i]])
			return false;
	return word.length > 0 && !is_digit(*word.at);
}

bool description_is_name(const char *text, size_t length)
{
	return length <= DESCRIPTION_NAME_MAX && is_identifier((struct word){ text, length });
}

static bool word_is(struct word word, const char *text, size_t length)
{
	return word.length == length && memcmp(word.at, text, length) == 0;
}

static inline bool ends_word(char c)
{
	return c == ' ' || c == ';' || c == '\0';
}

/* Steps over this word, and the blank behind it. */
static inline bool step_over(const char **at, const char *word, size_t length)
{
	if (memcmp(*at, word, length) != 0 || !ends_word((*at)[length]))
		return false;
	*at += length;
	*at += **at == ' ';
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

/* The type at `at`, in front of any brackets. */
static inline const struct type *find_type(const char *at, bool is_unsigned, size_t *ret_length)
{
	const size_t length = identifier_length(at);
	uint64_t characters;

	if (length == 0 || length > sizeof(characters) || (!ends_word(at[length]) && at[length] != '['))
		return NULL;
	memcpy(&characters, at, sizeof(characters));
	characters &= htole64(UINT64_MAX >> 8 * (sizeof(characters) - length));
	*ret_length = length;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (memcmp(&characters, types[i].name, sizeof(characters)) == 0)
			return is_unsigned && !types[i].is_word ? NULL : &types[i];
	return NULL;
}

/* Whether the field begins with this type, which ends with the field, a space or a bracket. */
static bool begins_with(const char *field, const char *type, size_t length)
{
	return strncmp(field, type, length) == 0 && (ends_word(field[length]) || field[length] == '[');
}

static int refuse_type(struct parser *parser, const char *at)
{
	const struct word word = word_until(at, " ;");

	if (word.length == 0)
		return refuse_field(parser, "", "is not complete; it wants a type and a name: __rel_loc char[] NAME");
	for (size_t i = 0; i < ARRAY_SIZE(advice); i++) {
		struct word type = word_until(advice[i].types, ",");

		while (!begins_with(at, type.at, type.length) && type.at[type.length] == ',')
			type = word_until(type.at + type.length + 1, ",");
		if (begins_with(at, type.at, type.length))
			return refuse_word(parser, "", type, advice[i].say);
	}
	return refuse_word(parser, "", word,
			   "is not a type; use s8 to s64, u8 to u64, int, short, char, char[N], __rel_loc char[], "
			   "or struct NAME field SIZE");
}

static int refuse_array(struct parser *parser)
{
	return refuse_field(parser, "only char and unsigned char may be arrays of fixed size; instead of ",
			    "use __rel_loc TYPE[] NAME or a struct");
}

static int refuse_field_name(struct parser *parser, struct word name, bool is_text)
{
	const struct word element = word_until(name.at, "[ ;");

	if (element.length == name.length || !is_identifier(element))
		return refuse_word(
			parser, "", name,
			"is not a name; letters, digits and _ make one, no digit first, and ';' ends a field");
	if (!is_text)
		return refuse_array(parser);
	return refuse_word(parser, "", name, "has its size in the wrong place; it belongs to the type: char[16] name");
}

/* All fields have different names. */
static inline int check_name_is_new(struct parser *parser, struct word name)
{
	const struct description *to = parser->to;
	const unsigned first = (uint8_t)name.at[0], last = (uint8_t)name.at[name.length - 1];
	const uint64_t bit = UINT64_C(1) << ((first ^ last << 1 ^ name.length << 3) & 63);

	if (first == 'c')
		for (size_t i = 0; i < ARRAY_SIZE(common_fields); i++)
			if (word_is(name, common_fields[i], strlen(common_fields[i])))
				return refuse_word(parser, "", name,
						   "is a field that every event has already; choose another name");
	for (size_t i = 0; parser->names & bit && i < to->n_fields; i++)
		if (word_is(name, to->field[i].name, to->field[i].name_length))
			return refuse_word(parser, "", name, "is the name of an earlier field; choose another");
	parser->names |= bit;
	return 0;
}

/* NAME field SIZE, behind "struct " */
static int read_struct(struct parser *parser, const char *at, struct field *field, struct word *ret_name)
{
	const struct word tag = word_until(at, " ;");
	struct word name, size;

	at = tag.at + tag.length;
	name = word_until(at + (*at == ' '), " ;");
	at = name.at + name.length;
	size = word_until(at + (*at == ' '), " ;");
	parser->at = size.at + size.length;
	if (!is_identifier(tag) || size.length == 0 || *parser->at == ' ')
		return refuse_field(parser, "", "is no struct; a struct is written as struct NAME field SIZE");
	*field = (struct field){ .kind = FIELD_STRUCT };
	field->type_length = (size_t)(tag.at + tag.length - parser->field);
	field->size = read_size(size, WIRE_PAYLOAD_MAX);
	if (field->size == 0)
		return refuse_word(
			parser, "", size,
			"is no size for a struct; it has 1 to 4064 bytes, in digits: more no tracer can hold");
	*ret_name = name;
	return is_identifier(name) ? 0 : refuse_field_name(parser, name, false);
}

/* char[N]: the brackets are at `at`, which is moved behind them. */
static int read_array_size(struct parser *parser, const struct type *type, const char **at, uint32_t *ret)
{
	const struct word brackets = word_until(*at, " ;");

	*at += brackets.length;
	if (!type->is_text)
		return refuse_array(parser);
	*ret = 0;
	if ((*at)[-1] == ']')
		*ret = read_size((struct word){ brackets.at + 1, brackets.length - 2 }, DESCRIPTION_ARRAY_MAX);
	if (*ret == 0)
		return refuse_word(parser, "", brackets,
				   "is not the size of an array; write 1 to 1024, in plain digits: char[16] NAME");
	return 0;
}
_Static_assert(DESCRIPTION_ARRAY_MAX == 1024, "the number in the sentence above");

/* [__data_loc|__rel_loc] [unsigned] TYPE[N]: fills in kind and sizes, and moves `at` behind it. */
static inline int read_type(struct parser *parser, struct field *field, const char **at)
{
	const bool data = step_over(at, "__data_loc", 10), rel = !data && step_over(at, "__rel_loc", 9);
	const char *const start = *at;
	const bool is_unsigned = step_over(at, "unsigned", 8);
	size_t length;
	const struct type *type = find_type(*at, is_unsigned, &length);

	if (!type)
		return refuse_type(parser, start);
	*at += length;
	field->is_signed = type->is_signed && !is_unsigned;
	field->is_text = type->is_text;
	field->size = type->size;
	field->element = 0;
	field->kind = field->is_signed ? FIELD_SIGNED : FIELD_UNSIGNED;
	if (data || rel) {
		field->kind = data ? FIELD_DATA_LOC : FIELD_REL_LOC;
		field->size = sizeof(uint32_t); /* with the place of the elements in the payload */
		field->element = type->size;
		if (memcmp(*at, "[]", 2) != 0 || !ends_word((*at)[2]))
			return refuse_field(parser, "", "wants [] behind its type: __rel_loc char[] NAME");
		*at += 2;
		return 0;
	}
	if (**at == '[') {
		field->kind = FIELD_CHARS;
		return read_array_size(parser, type, at, &field->size);
	}
	return 0;
}

/* TYPE NAME */
static inline int read_plain(struct parser *parser, const char *at, struct field *field, struct word *ret_name)
{
	struct word rest;
	int r = read_type(parser, field, &at);

	if (r != 0)
		return r;
	field->type_length = (size_t)(at - parser->field);
	at += *at == ' ';
	*ret_name = (struct word){ at, identifier_length(at) };
	parser->at = at + ret_name->length;
	if (ret_name->length > 0 && !is_digit(*at) && (*parser->at == ';' || *parser->at == '\0'))
		return 0;
	rest = word_until(at, " ;");
	if (rest.length == 0)
		return refuse_field(parser, "", "is not complete; it wants a name: TYPE NAME");
	if (at[rest.length] != ' ')
		return refuse_field_name(parser, rest, field->is_text);
	return refuse_word(parser, "", word_until(at + rest.length + 1, " ;"),
			   "is one word too many; a field is TYPE NAME, and ';' ends it");
}

static inline int read_field(struct parser *parser, const char *at)
{
	struct description *to = parser->to;
	struct field *field = &to->field[to->n_fields];
	struct word name = { to->canonical, 0 };
	int r;

	parser->field = at;
	if (step_over(&at, "struct", 6))
		r = read_struct(parser, at, field, &name);
	else
		r = read_plain(parser, at, field, &name);
	if (r == 0)
		r = check_name_is_new(parser, name);
	if (r != 0)
		return r;
	if (field->size > WIRE_PAYLOAD_MAX - to->size)
		return refuse_word(parser, "", name,
				   "makes the record longer than the 4064 bytes that every tracer can hold");
	field->type = parser->field;
	field->name = name.at;
	field->name_length = name.length;
	field->offset = to->size;
	to->size += field->size;
	to->n_fields++;
	return 0;
}
_Static_assert(WIRE_PAYLOAD_MAX == 4064, "the number in the sentence above");

/* 0: the text is right and in canonical form. */
static int read_canonical(struct parser *parser)
{
	struct description *to = parser->to;
	const char *at = to->canonical;
	int r;

	to->name_length = identifier_length(at);
	to->n_fields = 0;
	to->size = 0;
	if (to->name_length == 0 || to->name_length > DESCRIPTION_NAME_MAX || is_digit(*at))
		return REFUSAL_BAD_DESCRIPTION;
	for (at += to->name_length; *at != '\0'; at = parser->at) {
		at += to->n_fields > 0;
		if (*at++ != ' ')
			return REFUSAL_BAD_DESCRIPTION;
		r = read_field(parser, at);
		if (r != 0)
			return r;
	}
	to->length = (size_t)(at - to->canonical);
	return 0;
}

/* NAME or NAME:FLAG,FLAG. */
static int read_name(struct parser *parser, const char **text, struct text *canonical)
{
	const struct word name = word_until(*text, " \t:");

	if (name.length > DESCRIPTION_NAME_MAX)
		return refuse_word(parser, "the name ", name, "is too long; 200 bytes are the most");
	if (!is_identifier(name))
		return refuse_word(
			parser, "", name,
			"is not the name of an event; letters, digits and _ make one, no digit first: NAME TYPE FIELD; TYPE FIELD");
	text_put(canonical, name.at, name.length);
	*text += name.length;
	while (**text == ':' || **text == ',') {
		const struct word flag = word_until(*text + 1, " \t,");

		if (!is_identifier(flag))
			return refuse_word(parser, "behind the name's ':', ", flag,
					   "is not a flag; write NAME:FLAG,FLAG, or leave flags out");
		*text = flag.at + flag.length;
	}
	return 0;
}
_Static_assert(DESCRIPTION_NAME_MAX == 200, "the number in the sentence above");

/* Writes the canonical form of text with a right name: one space between words and behind each ';', no flags, no empty fields. */
static int make_canonical(struct parser *parser, const char *text)
{
	struct text canonical = text_make(parser->to->canonical, WIRE_DESCRIPTION_MAX + 1);
	const char *separator = "";
	int r;

	text += strspn(text, " \t");
	r = read_name(parser, &text, &canonical);
	if (r != 0)
		return r;
	while (*(text += strspn(text, " \t;")) != '\0') {
		text_put(&canonical, separator, strlen(separator));
		separator = ";";
		while (*text != ';' && *text != '\0') {
			const struct word word = word_until(text, " \t;");

			text_put(&canonical, " ", 1);
			text_put(&canonical, word.at, word.length);
			text = word.at + word.length;
			text += strspn(text, " \t");
		}
	}
	memset(canonical.buffer + canonical.length, 0, DESCRIPTION_ZEROS);
	if (!canonical.cut)
		return 0;
	text_printf(
		parser->why,
		"description is too long with one space between words and behind each ';'; the kernel takes %d bytes",
		WIRE_DESCRIPTION_MAX);
	return REFUSAL_BAD_DESCRIPTION;
}

int description_parse_canonical(const char *text, size_t length, struct description *ret)
{
	struct parser parser = { .to = ret };

	if (length == 0 || length > WIRE_DESCRIPTION_MAX)
		return REFUSAL_BAD_DESCRIPTION;
	memcpy(ret->canonical, text, length);
	memset(ret->canonical + length, 0, DESCRIPTION_ZEROS);
	return read_canonical(&parser) == 0 && ret->length == length ? 0 : REFUSAL_BAD_DESCRIPTION;
}

int description_parse(const char *text, size_t length, struct description *ret, struct text *why)
{
	struct parser parser = { .to = ret, .why = why };
	char copy[WIRE_DESCRIPTION_MAX + 1];

	if (description_parse_canonical(text, length, ret) == 0)
		return 0;
	if (length > WIRE_DESCRIPTION_MAX) {
		text_printf(why, "description of %zu bytes is too long; the kernel takes %d", length,
			    WIRE_DESCRIPTION_MAX);
		return REFUSAL_BAD_DESCRIPTION;
	}
	for (size_t i = 0; i < length; i++) {
		copy[i] = text[i];
		if ((text[i] >= ' ' && text[i] <= '~') || text[i] == '\t')
			continue;
		text_printf(why,
			    "description has the byte 0x%02x at place %zu; only printable ASCII and tabs may be in it",
			    (uint8_t)text[i], i + 1);
		return REFUSAL_BAD_DESCRIPTION;
	}
	copy[length] = '\0';
	if (make_canonical(&parser, copy) != 0)
		return REFUSAL_BAD_DESCRIPTION;
	return read_canonical(&parser);
}
