/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/event/description.h"

#include <stdio.h>

#include "protocol/refusal.h"
#include "tests/suite.h"

static struct description description;
static char sentence[WIRE_SENTENCE_MAX + 1];

/* Text is accepted by description_parse_canonical() exactly if it is its own canonical form. */
static int parse_bytes(const char *text, size_t length)
{
	const bool canonical = description_parse_canonical(text, length, &description) == 0;
	struct text why = text_make(sentence, sizeof(sentence));
	int r = description_parse(text, length, &description, &why);

	ck_assert_msg(!why.cut, "a sentence does not fit in a refusal: %s", sentence);
	ck_assert_msg(canonical == (r == 0 && description.length == length &&
				    memcmp(description.canonical, text, length) == 0),
		      "\"%s\"", text);
	return r;
}

static int parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static void expect(const char *text, const char *canonical)
{
	int r = parse(text);

	ck_assert_msg(r == 0, "\"%s\" was refused: %s", text, sentence);
	ck_assert_str_eq(sentence, "");
	ck_assert_str_eq(description.canonical, canonical);
	ck_assert_uint_eq(description.name_length, strcspn(canonical, " "));
}

static void expect_field(size_t position, enum field_kind kind, const char *type, const char *name, uint32_t offset,
			 uint32_t size)
{
	const struct field *field = &description.field[position];

	ck_assert_uint_lt(position, description.n_fields);
	ck_assert_int_eq(field->kind, kind);
	ck_assert_uint_eq(field->type_length, strlen(type));
	ck_assert_mem_eq(field->type, type, strlen(type));
	ck_assert_uint_eq(field->name_length, strlen(name));
	ck_assert_mem_eq(field->name, name, strlen(name));
	ck_assert_uint_eq(field->offset, offset);
	ck_assert_uint_eq(field->size, size);
	ck_assert(field->type >= description.canonical);
	ck_assert(field->name + field->name_length <= description.canonical + strlen(description.canonical));
}

static const struct {
	const char *type;
	uint32_t size;
	bool is_signed;
} numbers[] = {
	{ "s64", 8, true },   { "u64", 8, false },
	{ "s32", 4, true },   { "u32", 4, false },
	{ "int", 4, true },   { "unsigned int", 4, false },
	{ "s16", 2, true },   { "u16", 2, false },
	{ "short", 2, true }, { "unsigned short", 2, false },
	{ "s8", 1, true },    { "u8", 1, false },
	{ "char", 1, true },  { "unsigned char", 1, false },
};

TEST(every_number_is_a_field_and_an_element)
{
	static const char *const forms[] = { "%s", "__data_loc %s[]", "__rel_loc %s[]" };
	char type[40], text[80];

	for (size_t i = 0; i < ARRAY_SIZE(numbers) * ARRAY_SIZE(forms); i++) {
		const size_t n = i / ARRAY_SIZE(forms), form = i % ARRAY_SIZE(forms);
		const uint32_t size = form ? 4 : numbers[n].size;
		const enum field_kind kinds[] = { numbers[n].is_signed ? FIELD_SIGNED : FIELD_UNSIGNED, FIELD_DATA_LOC,
						  FIELD_REL_LOC };

		snprintf(type, sizeof(type), forms[form], numbers[n].type);
		snprintf(text, sizeof(text), "event u8 before; %s n; u8 after", type);
		expect(text, text);
		expect_field(1, kinds[form], type, "n", 1, size);
		ck_assert_uint_eq(description.field[1].element, form ? numbers[n].size : 0);
		ck_assert_int_eq(description.field[1].is_signed, numbers[n].is_signed);
		ck_assert_int_eq(description.field[1].is_text, strstr(type, "char") != NULL);
		ck_assert_uint_eq(description.size, 1 + size + 1);
	}
}

TEST(fields_have_sizes_and_no_gaps)
{
	parse("http_request u8 a; u64 b; unsigned char[1024] c; struct point where 12; __rel_loc char[] path");
	ck_assert_uint_eq(description.n_fields, 5);
	expect_field(0, FIELD_UNSIGNED, "u8", "a", 0, 1);
	expect_field(1, FIELD_UNSIGNED, "u64", "b", 1, 8);
	expect_field(2, FIELD_CHARS, "unsigned char[1024]", "c", 9, 1024);
	expect_field(3, FIELD_STRUCT, "struct point", "where", 1033, 12);
	expect_field(4, FIELD_REL_LOC, "__rel_loc char[]", "path", 1045, 4);
	ck_assert_uint_eq(description.size, 1049);
	parse("alone");
	ck_assert_uint_eq(description.n_fields, 0);
	ck_assert_uint_eq(description.size, 0);
	parse("e struct s a 4063; u8 b");
	ck_assert_uint_eq(description.size, WIRE_PAYLOAD_MAX);
}

TEST(name_has_maximum_length)
{
	char text[DESCRIPTION_NAME_MAX + 2];

	memset(text, 'n', sizeof(text));
	ck_assert(description_is_name(text, DESCRIPTION_NAME_MAX));
	ck_assert_int_eq(parse_bytes(text, DESCRIPTION_NAME_MAX), 0);
	ck_assert_uint_eq(description.name_length, DESCRIPTION_NAME_MAX);

	ck_assert(!description_is_name(text, DESCRIPTION_NAME_MAX + 1));
	ck_assert_int_eq(parse_bytes(text, DESCRIPTION_NAME_MAX + 1), REFUSAL_BAD_DESCRIPTION);
	ck_assert_str_eq(sentence, "the name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' is too long; "
				   "200 bytes are the most");
}

TEST(description_is_name_checks_names)
{
	ck_assert(description_is_name("http_request", 12));
	ck_assert(description_is_name("_", 1));
	ck_assert(!description_is_name("", 0));
	ck_assert(!description_is_name("9", 1));
	ck_assert(!description_is_name("a\0b", 3));
	ck_assert(!description_is_name("a b", 3));
	ck_assert(!description_is_name("a:b", 3));
	ck_assert(!description_is_name("\xc3\xa4", 2));
}

TEST(description_has_maximum_length)
{
	char text[WIRE_DESCRIPTION_MAX + 2];

	memset(text, ' ', sizeof(text));
	memcpy(text, "event u8 a", 10);
	ck_assert_int_eq(parse_bytes(text, WIRE_DESCRIPTION_MAX), 0);
	ck_assert_str_eq(description.canonical, "event u8 a");

	ck_assert_int_eq(parse_bytes(text, WIRE_DESCRIPTION_MAX + 1), REFUSAL_BAD_DESCRIPTION);
	ck_assert_str_eq(sentence, "description of 512 bytes is too long; the kernel takes 511");
}

/* "e u8 a;u8 bbbb…": the canonical form is one byte longer. */
TEST(the_canonical_form_must_fit_too)
{
	char text[WIRE_DESCRIPTION_MAX];

	memset(text, 'b', sizeof(text));
	memcpy(text, "e u8 a;u8 ", 10);
	ck_assert_int_eq(parse_bytes(text, WIRE_DESCRIPTION_MAX - 1), 0);
	ck_assert_uint_eq(strlen(description.canonical), WIRE_DESCRIPTION_MAX);
	ck_assert_uint_eq(description.field[1].name_length, WIRE_DESCRIPTION_MAX - 11);

	ck_assert_int_eq(parse_bytes(text, WIRE_DESCRIPTION_MAX), REFUSAL_BAD_DESCRIPTION);
	ck_assert_str_eq(sentence, "description is too long with one space between words and behind each ';'; "
				   "the kernel takes 511 bytes");
}

TEST(maximum_number_of_fields_fits)
{
	static const char letter[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	const size_t letters = sizeof(letter) - 1;
	char text[WIRE_DESCRIPTION_MAX + 1] = "e u8 a";
	size_t length = strlen(text);
	size_t n = 1;

	for (; length + strlen("; u8 ab") <= WIRE_DESCRIPTION_MAX; n++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "; u8 %c%s", letter[n % letters],
					   n < letters ? "" : "1");
	expect(text, text);
	ck_assert_uint_gt(n, 75);
	ck_assert_uint_eq(description.n_fields, n);
	ck_assert_uint_eq(description.size, description.n_fields);
	ck_assert_uint_lt(description.n_fields, DESCRIPTION_FIELDS_MAX);
}

/* Descriptions and their canonical forms. */
TEST(description_gets_its_canonical_form)
{
#define CANONICAL "event unsigned int a; struct s b 8; __data_loc unsigned char[] c; u8 d"
	static const char *const rows[][2] = {
		{ CANONICAL, CANONICAL },
		{ "event unsigned int a;struct s b 8;__data_loc unsigned char[] c;u8 d", CANONICAL },
		{ "\tevent\t\tunsigned \t int  a ; struct   s b\t8 ;\t__data_loc  unsigned\tchar[]  c;u8 d  ",
		  CANONICAL },
		{ "event ;unsigned int a;;;struct s b 8; ; __data_loc unsigned char[] c;u8 d; ;;", CANONICAL },
		/* Each difference alone. */
		{ "e  u8 a", "e u8 a" },
		{ "e u8  a", "e u8 a" },
		{ "e u8 a ", "e u8 a" },
		{ "e u8 a;", "e u8 a" },
		{ "e u8 a;u8 b", "e u8 a; u8 b" },
		{ "e __rel_loc char[]  a", "e __rel_loc char[] a" },
		{ "event:BPF_ITER u8 a", "event u8 a" },
		{ "event:A,B_2,c u8 a", "event u8 a" },
		{ " \talone ", "alone" },
		{ "_a9Z", "_a9Z" },
		{ "e struct s a 1", "e struct s a 1" },
		{ "e struct s a 4064", "e struct s a 4064" },
		{ "e char[1024] a; char[1024] b; char[1024] c; char[992] d",
		  "e char[1024] a; char[1024] b; char[1024] c; char[992] d" },
		{ "e struct s a 4063; u8 b", "e struct s a 4063; u8 b" },
		{ "e u8 a; u8 aa; u8 A; u8 e", "e u8 a; u8 aa; u8 A; u8 e" },
		{ "e u8 common_pids; u8 common", "e u8 common_pids; u8 common" },
		{ "e short int; u8 u8; u16 long", "e short int; u8 u8; u16 long" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(rows[i][0], rows[i][1]);
}

/* Descriptions, and sentences or their beginnings. */
TEST(wrong_description_is_refused)
{
	static const char *const rows[][2] = {
		/* Names. */
		{ "9a",
		  "'9a' is not the name of an event; letters, digits and _ make one, no digit first: NAME TYPE FIELD; TYPE FIELD" },
		{ "a/../b", "'a/../b' is not the name of an event" },
		{ "", "'' is not the name of an event" },
		{ "event u8 1a",
		  "field 1: '1a' is not a name; letters, digits and _ make one, no digit first, and ';' ends a field" },
		{ "event u8 a, u8 b", "field 1: 'u8' is one word too many" },
		{ "event u8 a,u8", "field 1: 'a,u8' is not a name" },
		{ "event struct a-b c 8", "field 1: 'struct a-b c 8' is no struct" },
		{ "e;", "'e;' is not the name of an event" },
		{ "event char 1a[4]", "field 1: '1a[4]' is not a name" },
		/* Flags. */
		{ "event: u8 a", "behind the name's ':', '' is not a flag; write NAME:FLAG,FLAG, or leave flags out" },
		{ "event:A:B", "behind the name's ':', 'A:B' is not a flag" },
		{ "event :A", "field 1: ':A' is not a type" },
		/* Arrays of fixed size. */
		{ "e u8 a; char[1025] b",
		  "field 2: '[1025]' is not the size of an array; write 1 to 1024, in plain digits: char[16] NAME" },
		{ "e char[4294967297] a", "field 1: '[4294967297]' is not the size of an array" },
		{ "e char[010] a", "field 1: '[010]' is not the size of an array" },
		{ "e char[1][2] a", "field 1: '[1][2]' is not the size of an array" },
		{ "e char[] a", "field 1: '[]' is not the size of an array" },
		{ "e char[ a", "field 1: '[' is not the size of an array" },
		{ "e char a[4]", "field 1: 'a[4]' has its size in the wrong place" },
		{ "e char[4]", "field 1: 'char[4]' is not complete" },
		/* The same advice for each place of the size. */
		{ "e u32 a[4]",
		  "field 1: only char and unsigned char may be arrays of fixed size; instead of 'u32 a[4]' use __rel_loc TYPE[] NAME or a struct" },
		{ "e u32[4] a",
		  "field 1: only char and unsigned char may be arrays of fixed size; instead of 'u32[4] a' use __rel_loc TYPE[] NAME or a struct" },
		{ "e u8 x; unsigned int[4] a", "field 2: only char and unsigned char may be arrays" },
		/* Structs. */
		{ "e struct s a 4065",
		  "field 1: '4065' is no size for a struct; it has 1 to 4064 bytes, in digits: more no tracer can hold" },
		{ "e struct s a 012", "field 1: '012' is no size" },
		{ "e struct s a 4294967304", "field 1: '4294967304' is no size" },
		{ "e struct s a", "field 1: 'struct s a' is no struct; a struct is written as struct NAME field SIZE" },
		{ "e struct s a 8 9", "field 1: 'struct s a 8 9' is no struct" },
		{ "e struct s 8a 8", "field 1: '8a' is not a name" },
		{ "e struct s * 8", "field 1: 'struct s * 8' is a pointer" },
		/* Dynamic fields. */
		{ "e __rel_loc char a", "field 1: '__rel_loc char a' wants [] behind its type: __rel_loc char[] NAME" },
		{ "e __data_loc char[4] a", "field 1: '__data_loc char[4] a' wants []" },
		{ "e __rel_loc char[]x a", "field 1: '__rel_loc char[]x a' wants []" },
		{ "e __data_loc", "field 1: '__data_loc' is not complete" },
		{ "e __rel_loc unsigned", "field 1: 'unsigned' is not a type" },
		{ "e __rel_loc char[] a b", "field 1: 'b' is one word too many" },
		{ "e __rel_loc long[] a", "field 1: 'long' has no fixed size" },
		{ "e __rel_loc struct s[] a", "field 1: 'struct' is no element of an array" },
		{ "e __rel_loc __rel_loc char[] a", "field 1: '__rel_loc' is not a type" },
		/* The fixed part. */
		{ "e struct s a 4063; u16 b",
		  "field 2: 'b' makes the record longer than the 4064 bytes that every tracer can hold" },
		{ "e char[1024] a; char[1024] b; char[1024] c; char[993] d", "field 4: 'd' makes the record" },
		/* Names of fields. */
		{ "e u8 a; u8 b; u16 a", "field 3: 'a' is the name of an earlier field; choose another" },
		{ "e u8 common_pid", "field 1: 'common_pid' is a field that every event has already; choose another" },
		{ "e u8 common_preempt_count", "field 1: 'common_preempt_count' is a field that" },
		/* Advice for types. */
		{ "e u8 a; long b", "field 2: 'long' has no fixed size; use s64 or u64" },
		{ "e unsigned  long\tb", "field 1: 'unsigned long' has no fixed size; use s64 or u64" },
		{ "e long double b",
		  "field 1: 'long double' is not a type of the kernel's; use struct NAME field SIZE for its bytes" },
		{ "e unsigned u8 b", "field 1: 'unsigned' is not a type" },
		{ "e unsignedx b", "field 1: 'unsignedx' is not a type" },
		{ "e size_t b", "field 1: 'size_t' has no fixed size" },
		{ "e float b", "field 1: 'float' is not a type of the kernel's; use u32 for its bits" },
		{ "e double b", "field 1: 'double' is not a type of the kernel's; use u64 for its bits" },
		{ "e char* b",
		  "field 1: 'char* b' is a pointer, which means nothing to a tracer; use __rel_loc char[] for text, u64 for an address" },
		{ "e const char *b", "field 1: 'const char *b' is a pointer" },
		{ "e foo b",
		  "field 1: 'foo' is not a type; use s8 to s64, u8 to u64, int, short, char, char[N], __rel_loc char[], or struct NAME field SIZE" },
		{ "e longer b", "field 1: 'longer' is not a type" },
		/* Words; empty fields are not numbered. */
		{ "e u8", "field 1: 'u8' is not complete; it wants a name: TYPE NAME" },
		{ "e u8 a b", "field 1: 'b' is one word too many; a field is TYPE NAME, and ';' ends it" },
		{ "e ;; u8 a;; foo b", "field 2: 'foo'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ck_assert_msg(parse(rows[i][0]) == REFUSAL_BAD_DESCRIPTION, "\"%s\" was accepted", rows[i][0]);
		ck_assert_msg(strncmp(sentence, rows[i][1], strlen(rows[i][1])) == 0, "\"%s\" gave \"%s\"", rows[i][0],
			      sentence);
	}
	ck_assert_int_eq(parse_bytes(NULL, 0), REFUSAL_BAD_DESCRIPTION);
}

TEST(unprintable_bytes_are_refused)
{
	for (unsigned byte = 0; byte < 256; byte++) {
		char text[] = "event u8 a; u8 b?";
		char why[100];

		if ((byte >= ' ' && byte <= '~') || byte == '\t')
			continue;
		text[16] = (char)byte;
		snprintf(why, sizeof(why),
			 "description has the byte 0x%02x at place 17; only printable ASCII and tabs may be in it",
			 byte);
		ck_assert_int_eq(parse_bytes(text, 17), REFUSAL_BAD_DESCRIPTION);
		ck_assert_str_eq(sentence, why);
	}
}
