/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/event/record.h"

#include "protocol/refusal.h"
#include "tests/suite.h"

static struct description description;
static char sentence[WIRE_SENTENCE_MAX + 1];
static char shown[16384];
static uint8_t built[70000];
static size_t built_size;

/* NULL: the description of the row before. */
static void describe(const char *text)
{
	struct text why = text_make(sentence, sizeof(sentence));

	if (text)
		ck_assert_msg(description_parse(text, strlen(text), &description, &why) == 0, "%s", sentence);
}

/* The payload is in memory of exactly its size, so that a sanitizer sees each access behind it. */
static bool check(const void *payload, size_t size)
{
	_cleanup_(freep) void *exact = memcpy(malloc(size), payload, size);

	return record_is_valid(&description, exact, size);
}

static const char *show(bool json, const void *payload, size_t size)
{
	_cleanup_(freep) void *exact = memcpy(malloc(size), payload, size);
	struct text out = text_make(shown, sizeof(shown));

	(json ? record_to_json : record_to_text)(&description, exact, size, &out);
	ck_assert(!out.cut);
	return shown;
}

static int build(size_t capacity, const char *const *assignments)
{
	_cleanup_(freep) uint8_t *exact = malloc(capacity);
	struct text why = text_make(sentence, sizeof(sentence));
	size_t size = 12345, n = 0;
	int r;

	while (assignments[n])
		n++;
	memset(exact, 0xee, capacity);
	r = record_build(&description, assignments, n, exact, capacity, &size, &why);
	ck_assert_uint_le(why.length, WIRE_SENTENCE_MAX);
	ck_assert_int_eq(r == REFUSAL_BAD_DESCRIPTION, why.length > 0);
	if (r != 0) {
		ck_assert_uint_eq(size, 12345);
		return r;
	}
	ck_assert_uint_le(size, capacity);
	memcpy(built, exact, size);
	built_size = size;
	return 0;
}

#define CHECKED(description, bytes, valid)                                                                             \
	{                                                                                                              \
		description, bytes, sizeof(bytes) - 1, valid, NULL, NULL                                               \
	}
#define SHOWN(description, bytes, text, json)                                                                          \
	{                                                                                                              \
		description, bytes, sizeof(bytes) - 1, true, text, json                                                \
	}

static void turn(uint8_t *payload, size_t size, size_t at, size_t width)
{
	for (size_t i = 0; i < width / 2 && at + width <= size; i++) {
		const uint8_t byte = payload[at + i];

		payload[at + i] = payload[at + width - 1 - i];
		payload[at + width - 1 - i] = byte;
	}
}

/* A copy with numbers of this machine in the place of little-endian ones. */
static uint8_t *in_machine_order(const void *little, size_t size)
{
	uint8_t *payload = memcpy(malloc(size), little, size);

	for (size_t i = 0; i < description.n_fields && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__; i++) {
		const struct field *field = &description.field[i];
		const uint8_t *place = payload + field->offset;

		if ((field->kind == FIELD_DATA_LOC || field->kind == FIELD_REL_LOC) && field->offset + 4 <= size) {
			const size_t begin = field->kind == FIELD_REL_LOC ? field->offset + 4 : -8U;
			const size_t offset = place[0] | place[1] << 8, length = place[2] | place[3] << 8;

			for (size_t at = 0; at + field->element <= length; at += field->element)
				turn(payload, size, (uint32_t)(begin + offset + at), field->element);
		}
		if (field->kind != FIELD_CHARS && field->kind != FIELD_STRUCT)
			turn(payload, size, field->offset, field->size);
	}
	return payload;
}

/* Numbers are little-endian. A dynamic field is its offset and its length, of two bytes each. */
TEST(payload_is_checked_and_shown)
{
	static const struct {
		const char *description;
		const char *payload;
		size_t size;
		bool valid;
		const char *text, *json; /* NULL: not compared */
	} rows[] = {
		/* The fixed part; more bytes than that are allowed. */
		SHOWN("e", "", "", "{}"),
		CHECKED("e u32 a; char[3] b", "", false),
		CHECKED(NULL, "uvwxyz", false),
		CHECKED(NULL, "tuvwxyz", true),
		CHECKED(NULL, "stuvwxyz", true),

		/* __rel_loc counts from the end of its number, __data_loc from the start of the entry, eight bytes before the payload. */
		SHOWN("e u8 a; __rel_loc char[] b; u16 c", "\7\2\0\3\0\x9\0xy\0", "a=7 b=\"xy\" c=9",
		      "{\"a\":7,\"b\":\"xy\",\"c\":9}"),
		SHOWN("e u8 a; __data_loc char[] b; u16 c", "\7\xf\0\3\0\x9\0xy\0", "a=7 b=\"xy\" c=9", NULL),

		/* Dynamic data ends within the payload. */
		SHOWN("e __rel_loc u8[] a", "\0\0\4\0wxyz", "a=[119,120,121,122]", NULL),
		CHECKED(NULL, "\0\0\5\0wxyz", false),
		CHECKED(NULL, "\1\0\4\0wxyz", false),
		SHOWN(NULL, "\4\0\0\0wxyz", "a=[]", NULL),
		CHECKED(NULL, "\5\0\0\0wxyz", false),
		CHECKED(NULL, "\xff\xff\xff\xffwxyz", false),
		SHOWN("e __data_loc u8[] a", "\xc\0\4\0wxyz", "a=[119,120,121,122]", NULL),
		CHECKED(NULL, "\xc\0\5\0wxyz", false),
		CHECKED(NULL, "\xd\0\4\0wxyz", false),
		SHOWN(NULL, "\x10\0\0\0wxyz", "a=[]", NULL),
		CHECKED(NULL, "\x11\0\0\0wxyz", false),
		CHECKED(NULL, "\xff\xff\xff\xffwxyz", false),
		/* It may lie in the fixed part, and not in the kernel's own fields before the payload. */
		CHECKED(NULL, "\x8\0\x8\0vwxyz", true),
		CHECKED(NULL, "\7\0\1\0wxyz", false),
		CHECKED(NULL, "\0\0\x10\0wxyz", false),
		SHOWN(NULL, "\0\0\0\0wxyz", "a=[]", NULL),

		/* The kernel looks at the byte before the end of dynamic chars, even of none. */
		SHOWN("e __rel_loc char[] a", "\0\0\3\0ab\0", "a=\"ab\"", NULL),
		CHECKED(NULL, "\0\0\2\0ab\0", false),
		CHECKED(NULL, "\0\0\4\0ab\0", false),
		SHOWN(NULL, "\0\0\0\0", "a=\"\"", NULL),
		CHECKED(NULL, "\1\0\0\0a\0", false),
		CHECKED(NULL, "\2\0\0\0a\0", true),
		SHOWN("e __data_loc char[] a", "\xc\0\3\0ab\0", "a=\"ab\"", NULL),
		CHECKED(NULL, "\xc\0\2\0ab\0", false),
		/* That byte is the last one of its number. */
		CHECKED(NULL, "\xc\0\0\0", __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__),
		CHECKED(NULL, "\0\0\0\0", false),
		CHECKED(NULL, "\x8\0\0\0", false),
		CHECKED("e __rel_loc unsigned char[] a", "\0\0\2\0ab", false),
		CHECKED("e __rel_loc u8[] a; __rel_loc char[] b", "\4\0\0\0\0\0\1\0x", false),
		CHECKED(NULL, "\4\0\0\0\0\0\1\0\0", true),

		/* Numbers. */
		SHOWN("e s64 a; u64 b; int c; unsigned int d; short f; unsigned short g; s8 h; u8 i",
		      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		      "a=-1 b=18446744073709551615 c=-1 d=4294967295 f=-1 g=65535 h=-1 i=255",
		      "{\"a\":-1,\"b\":18446744073709551615,\"c\":-1,\"d\":4294967295,\"f\":-1,\"g\":65535,\"h\":-1,\"i\":255}"),
		SHOWN("e s64 a; s8 b; s16 c; s32 d", "\0\0\0\0\0\0\0\x80\x80\0\x80\0\0\0\x80",
		      "a=-9223372036854775808 b=-128 c=-32768 d=-2147483648", NULL),
		/* Floats are unsigned numbers of the right size and name. */
		SHOWN("e u32 a_f32; u64 b_f64; u64 c_f32; s64 d_f64; u32 _f32",
		      "\xcd\xcc\xcc\x3d\x66\x66\x66\x66\x66\xe6\x23\x40\1\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\7\0\0\0",
		      "a_f32=0.1 b_f64=9.95 c_f32=1 d_f64=-1 _f32=7",
		      "{\"a_f32\":0.1,\"b_f64\":9.95,\"c_f32\":1,\"d_f64\":-1,\"_f32\":7}"),
		SHOWN("e u64 x_f64; u64 y_f64; u32 z_f32", "UUUUUU\xd5\x3f\0\0\0\0\0\0\xf0\xff\0\0\xc0\x7f",
		      "x_f64=0.3333333333333333 y_f64=-inf z_f32=nan",
		      "{\"x_f64\":0.3333333333333333,\"y_f64\":\"-inf\",\"z_f32\":\"nan\"}"),

		/* Chars, structs and lists. */
		SHOWN("e char a; char b; char c; char d; unsigned char f; s8 g", "x\n'\xffxx",
		      "a='x' b=10 c=''' d=-1 f=120 g=120",
		      "{\"a\":120,\"b\":10,\"c\":39,\"d\":-1,\"f\":120,\"g\":120}"),
		SHOWN("e char[4] a; unsigned char[4] b; u8 c", "ab\0dwxyz\1", "a=\"ab\" b=\"wxyz\" c=1",
		      "{\"a\":\"ab\",\"b\":\"wxyz\",\"c\":1}"),
		SHOWN("e char[16] a", "\"\\\x1b[2J\xff\xc3\xa4\n\\\"\0\0\0\0",
		      "a=\"\\\"\\\\\\x1b[2J\\xff\xc3\xa4\\x0a\\\\\\\"\"",
		      "{\"a\":\"\\\"\\\\\\u001b[2J\xef\xbf\xbd\xc3\xa4\\n\\\\\\\"\"}"),
		SHOWN("e struct point p 4; u8 a", "\x00\x7f\x80\xff\x01", "p=007f80ff a=1",
		      "{\"p\":\"007f80ff\",\"a\":1}"),
		SHOWN("e __rel_loc u16[] a; __data_loc s32[] b",
		      "\4\0\4\0\x14\0\x8\0\1\0\xff\xff\xfe\xff\xff\xff\3\0\0\0", "a=[1,65535] b=[-2,3]",
		      "{\"a\":[1,65535],\"b\":[-2,3]}"),
		/* Without the bytes behind the last whole element. */
		SHOWN("e __rel_loc u32[] a", "\0\0\7\0\0\0\0\0abc", "a=[0]", NULL),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(freep) uint8_t *payload = NULL;

		describe(rows[i].description);
		payload = in_machine_order(rows[i].payload, rows[i].size);
		ck_assert_msg(check(payload, rows[i].size) == rows[i].valid, "row %zu", i);
		if (rows[i].text)
			ck_assert_str_eq(show(false, payload, rows[i].size), rows[i].text);
		if (rows[i].json)
			ck_assert_str_eq(show(true, payload, rows[i].size), rows[i].json);
	}
}

TEST(unchecked_payload_is_read_within_its_size)
{
	uint8_t payload[20];

	describe("e u64 a; __rel_loc char[] b; __data_loc u64[] c");
	memset(payload, 0xff, sizeof(payload));
	for (size_t size = 0; size < sizeof(payload); size++)
		ck_assert_str_eq(show(false, payload, size), size < 16 ? "" : "a=18446744073709551615 b=\"\" c=[]");
}

TEST(record_is_built_from_assignments)
{
	static const struct {
		const char *description;
		const char *assignments[9];
		const char *text;
	} rows[] = {
		{ "http_request u16 status; u64 ns; __rel_loc char[] path",
		  { "path=/x", "status=200", "ns=81" },
		  "status=200 ns=81 path=\"/x\"" },
		{ NULL, { "path=/a=b c", "status=0310", "ns=0x51" }, "status=200 ns=81 path=\"/a=b c\"" },
		{ "e u32 a; char[3] b; struct s c 2; __rel_loc char[] d; __data_loc char[] f; __rel_loc u64[] g; __data_loc u64[] h",
		  { NULL },
		  "a=0 b=\"\" c=0000 d=\"\" f=\"\" g=[] h=[]" },
		{ "e __rel_loc char[] a; __data_loc char[] b; u8 n; __data_loc u16[] c; __rel_loc unsigned char[] d",
		  { "d=four", "c=01010202", "b=two", "a=one", "n=5" },
		  "a=\"one\" b=\"two\" n=5 c=[257,514] d=\"four\"" },
		{ "e u8 a; s8 b; u16 c; short d; u32 f; int g; u64 h; s64 i",
		  { "a=255", "b=127", "c=65535", "d=32767", "f=4294967295", "g=2147483647", "h=18446744073709551615",
		    "i=9223372036854775807" },
		  "a=255 b=127 c=65535 d=32767 f=4294967295 g=2147483647 h=18446744073709551615 i=9223372036854775807" },
		{ NULL,
		  { "a=-0", "b=-128", "d=-32768", "g=-2147483648", "i=-9223372036854775808" },
		  "a=0 b=-128 c=0 d=-32768 f=0 g=-2147483648 h=0 i=-9223372036854775808" },
		{ "e char a; unsigned char b; u8 c; char d",
		  { "a='x'", "b='y'", "c='z'", "d='''" },
		  "a='x' b=121 c=122 d='''" },
		{ NULL, { "a=65", "d=-1" }, "a='A' b=0 c=0 d=-1" },
		{ "e char[4] a; u8 b", { "a=wxyz", "b=1" }, "a=\"wxyz\" b=1" },
		{ "e struct point p 3; __rel_loc u16[] q", { "p=00afAF", "q=aaaa" }, "p=00afaf q=[43690]" },
		{ NULL, { "q=" }, "p=000000 q=[]" },
		{ "e __rel_loc u16[] a; __data_loc s64[] b; u8 c",
		  { "a=[1,0xffff]", "b=[-1]", "c=3" },
		  "a=[1,65535] b=[-1] c=3" },
		{ NULL, { "a=[]", "b=[0]" }, "a=[] b=[0] c=0" },
		{ NULL,
		  { "b=[-9223372036854775808,9223372036854775807]" },
		  "a=[] b=[-9223372036854775808,9223372036854775807] c=0" },
		{ "e u64 x_f64; u64 y_f64; u32 z_f32",
		  { "x_f64=0.3333333333333333", "y_f64=1e300", "z_f32=-2.5" },
		  "x_f64=0.3333333333333333 y_f64=1e+300 z_f32=-2.5" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		describe(rows[i].description);
		ck_assert_msg(build(WIRE_PAYLOAD_MAX, rows[i].assignments) == 0, "row %zu: %s", i, sentence);
		ck_assert(check(built, built_size));
		ck_assert_str_eq(show(false, built, built_size), rows[i].text);
	}
}

TEST(wrong_assignment_is_refused)
{
#define A_NUMBER "a number (0x: hexadecimal, 0: octal) from "
#define A_LIST	 "__rel_loc u16[] takes a list as [1,2,3], or hexadecimal digits, 4 for each element"
	static const struct {
		const char *description;
		const char *assignment;
		const char *sentence; /* or its end, after "..." */
	} rows[] = {
		{ "e u8 a; s8 b; u16 c; short d; u32 f; int g; u64 h; s64 i", "a=256",
		  "...u8 takes 0 to 255, or a character in single quotes" },
		{ NULL, "b=128", "...s8 takes -128 to 127, or a character in single quotes" },
		{ NULL, "b=-129", "...s8 takes -128 to 127, or a character in single quotes" },
		{ NULL, "c=65536", "c=65536: u16 takes 0 to 65535" },
		{ NULL, "c=-1", "c=-1: u16 takes 0 to 65535" },
		{ NULL, "d=32768", "...short takes -32768 to 32767" },
		{ NULL, "d=-32769", "...short takes -32768 to 32767" },
		{ NULL, "f=4294967296", "...u32 takes 0 to 4294967295" },
		{ NULL, "g=2147483648", "...int takes -2147483648 to 2147483647" },
		{ NULL, "h=18446744073709551616", "...u64 takes 0 to 18446744073709551615" },
		{ NULL, "i=9223372036854775808", "...s64 takes -9223372036854775808 to 9223372036854775807" },
		{ NULL, "i=-9223372036854775809", "...s64 takes -9223372036854775808 to 9223372036854775807" },
		{ NULL, "c='x'", "c='x': u16 takes " A_NUMBER "0 to 65535" },
		{ "e unsigned short a", "a=", "a=: unsigned short takes " A_NUMBER "0 to 65535" },
		{ NULL, "a=--1", "..." A_NUMBER "0 to 65535" },
		{ NULL, "a=+1", "..." A_NUMBER "0 to 65535" },
		{ NULL, "a=1 ", "..." A_NUMBER "0 to 65535" },
		{ NULL, "a=08", "..." A_NUMBER "0 to 65535" },
		{ NULL, "a=99999999999999999999999x", "..." A_NUMBER "0 to 65535" },
		{ "e char a", "a=x", "a=x: char takes " A_NUMBER "-128 to 127, or a character in single quotes" },
		{ "e char[4] a", "a=wxyz!", "a=wxyz!: char[4] takes 4 bytes, not 5" },
		{ "e struct point p 3; __rel_loc u16[] q", "p=00af",
		  "p=00af: struct point takes 6 hexadecimal digits" },
		{ NULL, "p=00af0", "...takes 6 hexadecimal digits" },
		{ NULL, "p=00af0g", "...takes 6 hexadecimal digits" },
		{ NULL, "q=aaa", "q=aaa: " A_LIST },
		{ NULL, "q=zzzz", "..." A_LIST },
		{ NULL, "q=[1", "..." A_LIST },
		{ NULL, "q=[1]2", "..." A_LIST },
		{ NULL, "q=[[1]]", "..." A_LIST },
		{ NULL, "q=[1,65536]", "q=65536: __rel_loc u16[] takes 0 to 65535" },
		{ NULL, "q=[1,]", "q=: __rel_loc u16[] takes " A_NUMBER "0 to 65535" },
		{ NULL, "q=[000000000000000000000000000000001]",
		  "q=?0000000000000000000000000000000: __rel_loc u16[] takes " A_NUMBER "0 to 65535" },
		{ "e u64 x_f64", "x_f64=1.5x", "...takes a number such as 0.5 or 1e9" },
		{ NULL, "x_f64=", "...takes a number such as 0.5 or 1e9" },
		{ NULL, "x_f64= 1", "...takes a number such as 0.5 or 1e9" },
		{ "e u8 a; u8 bc; u8 d", "b=1", "'b' is not a field; this event has a, bc, d" },
		{ NULL, "bcd=1", "'bcd' is not a field; this event has a, bc, d" },
		{ NULL, "=1", "'' is not a field; this event has a, bc, d" },
		{ NULL, "\x1b[2J=1", "'\\x1b[2J' is not a field; this event has a, bc, d" },
		{ NULL, "a", "'a' has no value; write FIELD=VALUE" },
		{ NULL, "", "'' has no value; write FIELD=VALUE" },
		{ "e", "x=1", "'x' is not a field; this event has none" },
	};
	const char *const twice[] = { "a=1", "bc=1", "a=2", NULL };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *expected = rows[i].sentence, *end = sentence;

		describe(rows[i].description);
		errno = ERANGE; /* of an earlier call */
		ck_assert_msg(build(WIRE_PAYLOAD_MAX, (const char *const[]){ rows[i].assignment, NULL }) ==
				      REFUSAL_BAD_DESCRIPTION,
			      "row %zu", i);
		if (strncmp(expected, "...", 3) == 0) {
			expected += 3;
			end += MAX(strlen(sentence), strlen(expected)) - strlen(expected);
		}
		ck_assert_str_eq(end, expected);
	}
	describe("e u8 a; u8 bc; u8 d");
	ck_assert_int_eq(build(WIRE_PAYLOAD_MAX, twice), REFUSAL_BAD_DESCRIPTION);
	ck_assert_str_eq(sentence, "'a=2' is the second value of this field");
}

TEST(a_buffer_may_be_just_large_enough)
{
	const char *const text[] = { "s=abc", NULL }, *const list[] = { "a=[1,2]", NULL };

	describe("e u32 a; __rel_loc char[] s");
	for (size_t capacity = 0; capacity <= 12; capacity++)
		ck_assert_int_eq(build(capacity, text), capacity < 12 ? -ENOSPC : 0);
	ck_assert_uint_eq(built_size, 12);
	describe("e __rel_loc u16[] a; u64 b");
	for (size_t capacity = 0; capacity <= 16; capacity++)
		ck_assert_int_eq(build(capacity, list), capacity < 16 ? -ENOSPC : 0);
}

TEST(dynamic_data_beyond_u16_is_refused)
{
	static char assignment[sizeof(built)];
	const char *assignments[] = { assignment, NULL };

	describe("e __rel_loc char[] s");
	memset(assignment, 'x', sizeof(assignment) - 1);
	memcpy(assignment, "s=", 2);
	assignment[2 + 65534] = '\0';
	ck_assert_int_eq(build(sizeof(built), assignments), 0);
	ck_assert_uint_eq(built_size, 4 + 65535);
	ck_assert(check(built, built_size));

	assignment[2 + 65534] = 'x';
	assignment[2 + 65535] = '\0';
	ck_assert_int_eq(build(sizeof(built), assignments), REFUSAL_BAD_DESCRIPTION);
	ck_assert_str_eq(
		sentence,
		"s=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...: __rel_loc char[] takes at most 65535 bytes, and not "
		"further behind than that");
}
