/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The grammar of the kernel's trace_events_user.c, with these differences. Words may be separated by any blanks (the kernel requires
 * exactly one space, and gets the canonical form). Names are identifiers, since they become directories and filters. Array sizes are
 * decimal (the kernel reads 010 as 8). A dynamic field is an array of a type that we know, so its elements can be shown. Flags are
 * dropped, as kernels with user_events ignore them.
 *
 * One pass, in place: the text is copied to where its canonical form will be, with a zero behind it that ends each loop. Then words move
 * forward where the text has more blanks than the canonical form; where a blank behind ';' is missing, the rest moves backward.
 */

#include "protocol/event/description.h"

#include "protocol/base/number.h"
#include "protocol/refusal.h"

/* A field takes five bytes at least ("u8 a;"), so that the array cannot overflow. */
_Static_assert(DESCRIPTION_FIELDS_MAX * 5 > WIRE_DESCRIPTION_MAX, "every field has a place");

/* The characters of a text. */
enum {
	IDENTIFIER = 1 << 0,
	BLANK = 1 << 1,
	SEMICOLON = 1 << 2,
	OTHER = 1 << 3, /* printable */
};

static const uint8_t characters[256] = {
	['\t'] = BLANK,	       [' '] = BLANK,	   ['!' ... '/'] = OTHER, ['0' ... '9'] = IDENTIFIER,
	[':'] = OTHER,	       [';'] = SEMICOLON,  ['<' ... '@'] = OTHER, ['A' ... 'Z'] = IDENTIFIER,
	['[' ... '^'] = OTHER, ['_'] = IDENTIFIER, ['`'] = OTHER,	  ['a' ... 'z'] = IDENTIFIER,
	['{' ... '~'] = OTHER,
};

struct word {
	const char *at;
	uint32_t length;
	uint32_t identifier; /* so many of its first bytes are letters, digits or _ */
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
	{ "u64", 8, .is_signed = false },
	{ "u32", 4, .is_signed = false },
	{ "char", 1, .is_signed = true, .is_text = true, .is_word = true },
	{ "s64", 8, .is_signed = true },
	{ "s32", 4, .is_signed = true },
	{ "int", 4, .is_signed = true, .is_word = true },
	{ "u16", 2, .is_signed = false },
	{ "u8", 1, .is_signed = false },
	{ "s16", 2, .is_signed = true },
	{ "s8", 1, .is_signed = true },
	{ "short", 2, .is_signed = true, .is_word = true },
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

enum { WORDS_MAX = 5 }; /* __rel_loc unsigned TYPE[] NAME, and one that is too many */

struct parser {
	struct description *to;
	size_t length; /* of the text */
	char *put;     /* the end of the canonical text */
	char *from;    /* the rest of the text, which ends in NUL */
	char *end;
	struct text *why;
	struct word words[WORDS_MAX + 1]; /* the first ones of the field that is being read, then an empty one */
	size_t n_words;			  /* of that field; or 0 */
	uint64_t names;			  /* has a bit for each earlier field's name, which other names may share */
};

static inline unsigned kind_of(char c)
{
	return characters[(uint8_t)c];
}

static struct word word_at(const char *at, size_t length)
{
	struct word word = { .at = at, .length = (uint32_t)length };

	while (word.identifier < length && kind_of(at[word.identifier]) == IDENTIFIER)
		word.identifier++;
	return word;
}

static bool is_identifier(struct word word)
{
	return word.length > 0 && word.identifier == word.length && (*word.at < '0' || *word.at > '9');
}

bool description_is_name(const char *text, size_t length)
{
	return length <= DESCRIPTION_NAME_MAX && is_identifier(word_at(text, length));
}

static bool word_is(struct word word, const char *text, size_t length)
{
	return word.length == length && memcmp(word.at, text, length) == 0;
}

/* Up to the first `end`. */
static struct word word_until(struct word word, char end)
{
	const char *found = word.length > 0 ? memchr(word.at, end, word.length) : NULL;

	return word_at(word.at, found ? (size_t)(found - word.at) : word.length);
}

static inline char *skip(char *at, unsigned kinds)
{
	while (kind_of(*at) & kinds)
		at++;
	return at;
}

/* Moves the word at `from`, of these kinds of characters, to its place in the canonical text. */
static inline struct word move_word(char *put, char *from, unsigned kinds)
{
	char *at = skip(from, IDENTIFIER);
	struct word word = { .at = put, .identifier = (uint32_t)(at - from) };

	at = skip(at, kinds);
	word.length = (uint32_t)(at - from);
	if (put != from)
		memmove(put, from, word.length);
	return word;
}

/* Appends ';' if this is not the first field, and its words, each behind a space. */
static void take_words(struct parser *parser)
{
	struct word *word = parser->words, *const last = word + WORDS_MAX;
	char *put = parser->put, *from;

	if (parser->to->n_fields > 0)
		*put++ = ';';
	if (put == parser->from) { /* no blank behind the semicolon */
		memmove(put + 1, put, (size_t)(parser->end - put) + 1);
		parser->from++;
		parser->end++;
	}
	from = parser->from;
	while (kind_of(*from) & (IDENTIFIER | OTHER)) {
		*put++ = ' ';
		*word = move_word(put, from, IDENTIFIER | OTHER);
		put += word->length;
		from = skip(from + word->length, BLANK);
		word += word < last;
	}
	*word = (struct word){ .at = put };
	parser->n_words = (size_t)(word - parser->words);
	parser->put = put;
	parser->from = from;
}

/* The bytes that were read, and the length of the canonical text so far. */
static int check_text(struct parser *parser)
{
	if (kind_of(*parser->from) == 0 && parser->from < parser->end)
		text_printf(parser->why,
			    "description has the byte 0x%02x at place %zu; only printable ASCII may be in it",
			    (uint8_t)*parser->from, parser->length - (size_t)(parser->end - parser->from) + 1);
	else if (parser->put - parser->to->canonical > WIRE_DESCRIPTION_MAX)
		text_printf(
			parser->why,
			"description is too long with one space between words and behind each ';'; the kernel takes %d bytes",
			WIRE_DESCRIPTION_MAX);
	else
		return 0;
	return REFUSAL_BAD_DESCRIPTION;
}

/* From this word on. */
static struct word rest_of_field(const struct parser *parser, const struct word *first)
{
	return word_at(first->at, (size_t)(parser->put - first->at));
}

/* Writes the sentence, and returns the refusal: `return refuse_word(…)`. */
static int refuse_word(struct parser *parser, const char *before, struct word word, const char *after)
{
	if (check_text(parser) != 0)
		return REFUSAL_BAD_DESCRIPTION;
	if (parser->n_words > 0) {
		const struct word field = rest_of_field(parser, parser->words);

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
	return refuse_word(parser, before, rest_of_field(parser, parser->words), after);
}

/* 1 to `maximum`, in decimal digits; otherwise 0. The kernel reads 010 as 8, so no 0 comes first. */
static uint32_t read_size(struct word word, uint32_t maximum)
{
	uint64_t size;

	if (number_parse(word.at, word.length, maximum, &size) != NUMBER_GOOD || word.at[0] == '0')
		return 0;
	return (uint32_t)size;
}

/* The first eight characters of an identifier as a number; unused bytes are 0. The canonical text has room for eight bytes behind each. */
static inline uint64_t first_characters(struct word word)
{
	const size_t n = MIN(word.identifier, sizeof(uint64_t));
	uint64_t number;

	memcpy(&number, word.at, sizeof(number));
	return number & htole64(UINT64_MAX >> 8 * (sizeof(number) - n));
}

/* The type that a word is, in front of any brackets. */
static const struct type *find_type(struct word word, bool is_unsigned)
{
	uint64_t first;

	if (word.identifier == 0 || word.identifier > sizeof(types->name) ||
	    (word.identifier < word.length && word.at[word.identifier] != '['))
		return NULL;
	first = first_characters(word);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (memcmp(&first, types[i].name, sizeof(first)) == 0)
			return is_unsigned && !types[i].is_word ? NULL : &types[i];
	return NULL;
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
		const char *type = advice[i].types, *end;

		do {
			end = strchrnul(type, ',');
			if (begins_with(at, type, (size_t)(end - type)))
				return refuse_word(parser, "", word_at(type, (size_t)(end - type)), advice[i].say);
			type = end + 1;
		} while (*end != '\0');
	}
	return 0;
}

static int refuse_type(struct parser *parser, const struct word *word)
{
	const struct word rest = rest_of_field(parser, word);

	if (rest.length == 0)
		return refuse_field(parser, "", "is not complete; it wants a type and a name: __rel_loc char[] NAME");
	if (refuse_with_advice(parser, rest) != 0)
		return REFUSAL_BAD_DESCRIPTION;
	return refuse_word(parser, "", word_until(rest, ' '),
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
	if (name.identifier == name.length || name.at[name.identifier] != '[' || !is_identifier(word_until(name, '[')))
		return refuse_word(
			parser, "", name,
			"is not a name; letters, digits and _ make one, no digit first, and ';' ends a field");
	if (!is_text)
		return refuse_array(parser);
	return refuse_word(parser, "", name, "has its size in the wrong place; it belongs to the type: char[16] name");
}

/* All fields have different names. */
static int check_name_is_new(struct parser *parser, struct word name)
{
	const struct description *to = parser->to;
	const uint64_t hash =
		(first_characters(name) ^ (uint8_t)name.at[name.length - 1]) * UINT64_C(0x9e3779b97f4a7c15);
	const uint64_t bit = UINT64_C(1) << (hash >> 58);

	if (*name.at == 'c')
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

/* struct NAME field SIZE */
static int read_struct(struct parser *parser, struct field *field, const struct word **ret_name)
{
	const struct word tag = parser->words[1], size = parser->words[3];

	if (tag.length > 0 && !is_identifier(tag))
		return refuse_word(parser, "", tag, "is not the name of a struct; letters, digits and _ make one");
	if (parser->n_words != 4)
		return refuse_field(parser, "", "is not complete; a struct is written as struct NAME field SIZE");
	*field = (struct field){ .kind = FIELD_STRUCT };
	field->type_length = (size_t)(tag.at + tag.length - parser->words[0].at);
	field->size = read_size(size, WIRE_PAYLOAD_MAX);
	if (field->size == 0)
		return refuse_word(
			parser, "", size,
			"is no size for a struct; it has 1 to 4064 bytes, in digits: more no tracer can hold");
	*ret_name = &parser->words[2];
	return 0;
}

/* char[N]: `brackets` is the "[N]". */
static int read_array_size(struct parser *parser, const struct type *type, struct word brackets, uint32_t *ret)
{
	struct word digits = { brackets.at + 1, brackets.length - 2, 0 };

	if (!type->is_text)
		return refuse_array(parser);
	if (brackets.at[brackets.length - 1] != ']')
		return refuse_field(parser, "", "has no ] behind the array's size; write it as char[16] NAME");
	if (digits.length == 0)
		return refuse_field(parser, "",
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
	field->is_text = type->is_text;
	field->element = is_dynamic ? type->size : 0;
	if (is_dynamic) {
		field->size = sizeof(uint32_t); /* with the place of the elements in the payload */
		return word_is(brackets, "[]", 2)
			       ? 0
			       : refuse_field(parser, "", "wants [] behind its type: __rel_loc char[] NAME");
	}
	if (brackets.length > 0) {
		field->kind = FIELD_CHARS;
		return read_array_size(parser, type, brackets, &field->size);
	}
	field->kind = field->is_signed ? FIELD_SIGNED : FIELD_UNSIGNED;
	field->size = type->size;
	return 0;
}

/* [__data_loc|__rel_loc] [unsigned] TYPE[N] NAME */
static int read_type(struct parser *parser, struct field *field, const struct word **ret_name)
{
	const struct word *word = parser->words;
	const bool data = word_is(*word, "__data_loc", 10), rel = word_is(*word, "__rel_loc", 9);
	const struct type *type;
	bool is_unsigned;
	int r;

	field->kind = data ? FIELD_DATA_LOC : FIELD_REL_LOC;
	word += data || rel;
	is_unsigned = word_is(*word, "unsigned", 8);
	type = find_type(word[is_unsigned], is_unsigned);
	if (!type)
		return refuse_type(parser, word);
	word += is_unsigned;
	field->type_length = (size_t)(word->at + word->length - parser->words[0].at);
	field->is_signed = type->is_signed && !is_unsigned;
	r = set_type(parser, field, data || rel, type,
		     (struct word){ word->at + word->identifier, word->length - word->identifier, 0 });
	if (r != 0)
		return r;
	*ret_name = ++word;
	if (word->length == 0)
		return refuse_field(parser, "", "is not complete; it wants a name: TYPE NAME");
	if (word[1].length == 0)
		return 0;
	if (refuse_with_advice(parser, rest_of_field(parser, parser->words)) != 0) /* "short int x" */
		return REFUSAL_BAD_DESCRIPTION;
	return refuse_word(parser, "", word[1], "is one word too many; a field is TYPE NAME, and ';' ends it");
}

static int read_field(struct parser *parser)
{
	struct description *to = parser->to;
	struct field *field = &to->field[to->n_fields];
	const struct word *name = parser->words;
	int r;

	take_words(parser);
	r = word_is(*name, "struct", 6) ? read_struct(parser, field, &name) : read_type(parser, field, &name);
	if (r == 0)
		r = is_identifier(*name) ? check_name_is_new(parser, *name)
					 : refuse_field_name(parser, *name, field->is_text);
	if (r != 0)
		return r;
	if (field->size > WIRE_PAYLOAD_MAX - to->size)
		return refuse_word(parser, "", *name,
				   "makes the record longer than the 4064 bytes that every tracer can hold");
	field->type = parser->words[0].at;
	field->name = name->at;
	field->name_length = name->length;
	field->offset = to->size;
	to->size += field->size;
	to->n_fields++;
	return 0;
}
_Static_assert(WIRE_PAYLOAD_MAX == 4064, "the number in the sentence above");

/* NAME or NAME:FLAG,FLAG. */
static int read_name(struct parser *parser)
{
	struct word word = move_word(parser->put, parser->from, IDENTIFIER | OTHER | SEMICOLON), name = word;

	parser->from += word.length;
	if (name.identifier < word.length)
		name = word_until(word, ':');
	if (name.length > DESCRIPTION_NAME_MAX)
		return refuse_word(parser, "the name ", name, "is too long; 200 bytes are the most");
	if (!is_identifier(name))
		return refuse_word(
			parser, "", name,
			"is not the name of an event; letters, digits and _ make one, no digit first: NAME TYPE FIELD; TYPE FIELD");
	parser->to->name_length = name.length;
	for (size_t at = name.length, length; at < word.length; at += 1 + length) {
		const struct word flag = word_until(word_at(word.at + at + 1, word.length - at - 1), ',');

		if (!is_identifier(flag))
			return refuse_word(parser, "behind the name's ':', ", flag,
					   "is not a flag; write NAME:FLAG,FLAG, or leave flags out");
		length = flag.length;
	}
	parser->put = parser->to->canonical + name.length;
	return 0;
}
_Static_assert(DESCRIPTION_NAME_MAX == 200, "the number in the sentence above");

int description_parse(const char *text, size_t length, struct description *ret, struct text *why)
{
	struct parser parser;
	int r;

	if (length > WIRE_DESCRIPTION_MAX) {
		text_printf(why, "description of %zu bytes is too long; the kernel takes %d", length,
			    WIRE_DESCRIPTION_MAX);
		return REFUSAL_BAD_DESCRIPTION;
	}
	if (length > 0)
		memcpy(ret->canonical, text, length);
	ret->canonical[length] = '\0';
	ret->n_fields = 0;
	ret->size = 0;
	parser.to = ret;
	parser.length = length;
	parser.put = ret->canonical;
	parser.from = skip(parser.put, BLANK);
	parser.end = parser.put + length;
	parser.why = why;
	parser.n_words = 0;
	parser.names = 0;

	r = read_name(&parser);
	/* Empty fields are none, as for the kernel. */
	while (r == 0 && kind_of(*(parser.from = skip(parser.from, BLANK | SEMICOLON))) != 0)
		r = read_field(&parser);
	if (r == 0)
		r = check_text(&parser);
	*parser.put = '\0';
	ret->length = (size_t)(parser.put - ret->canonical);
	return r;
}
