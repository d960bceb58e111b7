/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/event/record.h"

#include <stdio.h>

#include "protocol/refusal.h"
#include "tests/suite.h"

static struct description description;
static char sentence[WIRE_SENTENCE_MAX + 1];
static char shown[16384];

static uint8_t payload[WIRE_PAYLOAD_MAX];
static size_t payload_size;

static void describe(const char *text)
{
	struct text why = text_make(sentence, sizeof(sentence));

	ck_assert_msg(description_parse(text, strlen(text), &description, &why) == 0, "%s", sentence);
	payload_size = 0;
}

static void add(const void *bytes, size_t size)
{
	memcpy(payload + payload_size, bytes, size);
	payload_size += size;
}

#define ADD(type, ...) add(&(const type){ __VA_ARGS__ }, sizeof(type))

static void add_location(uint32_t length, uint32_t offset)
{
	ADD(uint32_t, length << 16 | offset);
}

/* The payload in memory of exactly its size, so that a sanitizer sees every step over its end. */
static void *exact_payload(void)
{
	return memcpy(malloc(payload_size), payload, payload_size);
}

static int check(void)
{
	_cleanup_(freep) uint8_t *exact = exact_payload();

	return record_check(&description, exact, payload_size);
}

static const char *show(void (*print)(const struct description *, const void *, size_t, struct text *))
{
	_cleanup_(freep) uint8_t *exact = exact_payload();
	struct text out = text_make(shown, sizeof(shown));

	print(&description, exact, payload_size, &out);
	ck_assert(!out.cut);
	return shown;
}

static void expect_shown(const char *as_text, const char *as_json)
{
	ck_assert_int_eq(check(), RECORD_OK);
	ck_assert_str_eq(show(record_to_text), as_text);
	if (as_json)
		ck_assert_str_eq(show(record_to_json), as_json);
}

static int build_in(size_t capacity, size_t n, const char *const *assignments)
{
	_cleanup_(freep) uint8_t *exact = malloc(capacity);
	struct text why = text_make(sentence, sizeof(sentence));
	size_t size = 12345;
	int r;

	memset(exact, 0xee, capacity);
	r = record_build(&description, assignments, n, exact, capacity, &size, &why);
	ck_assert_uint_le(why.length, WIRE_SENTENCE_MAX);
	ck_assert_int_eq(r == REFUSAL_BAD_DESCRIPTION, why.length > 0);
	if (r != 0) {
		ck_assert_uint_eq(size, 12345);
		return r;
	}
	ck_assert_uint_le(size, capacity);
	memcpy(payload, exact, size);
	payload_size = size;
	return 0;
}

#define BUILD(...)                                                                                                     \
	build_in(WIRE_PAYLOAD_MAX, ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })),                                 \
		 (const char *const[]){ __VA_ARGS__ })

#define EXPECT_BUILT(as_text, ...)                                                                                     \
	do {                                                                                                           \
		ck_assert_msg(BUILD(__VA_ARGS__) == 0, "%s", sentence);                                                \
		expect_shown(as_text, NULL);                                                                           \
	} while (0)

static void expect_refused(const char *assignment, const char *why)
{
	ck_assert_int_eq(BUILD(assignment), REFUSAL_BAD_DESCRIPTION);
	ck_assert_str_eq(sentence, why);
}

/* Rows: an assignment, and the sentence that refuses it. */
#define EXPECT_ALL_REFUSED(...)                                                                                        \
	do {                                                                                                           \
		static const char *const rows_[][2] = { __VA_ARGS__ };                                                 \
		for (size_t i_ = 0; i_ < ARRAY_SIZE(rows_); i_++)                                                      \
			expect_refused(rows_[i_][0], rows_[i_][1]);                                                    \
	} while (0)

TEST(payload_has_at_least_the_fixed_fields)
{
	describe("e u32 a; char[3] b");
	ADD(uint64_t, 0);
	for (payload_size = 0; payload_size < 7; payload_size++)
		ck_assert_int_eq(check(), RECORD_SHORT);
	ck_assert_int_eq(check(), RECORD_OK);
	payload_size = 8; /* more is fine, as for the kernel */
	ck_assert_int_eq(check(), RECORD_OK);
}

TEST(an_event_without_fields_takes_an_empty_payload)
{
	describe("e");
	expect_shown("", "{}");
}

TEST(a_rel_loc_counts_from_the_end_of_its_number)
{
	describe("e u8 a; __rel_loc char[] b; u16 c");
	ADD(uint8_t, 7);
	add_location(3, 2); /* behind c */
	ADD(uint16_t, 9);
	add("xy", 3);
	expect_shown("a=7 b=\"xy\" c=9", "{\"a\":7,\"b\":\"xy\",\"c\":9}");
}

TEST(data_loc_counts_from_start_of_entry)
{
	describe("e u8 a; __data_loc char[] b; u16 c");
	ADD(uint8_t, 7);
	add_location(3, 8 + 1 + 4 + 2);
	ADD(uint16_t, 9);
	add("xy", 3);
	expect_shown("a=7 b=\"xy\" c=9", NULL);
}

static int check_number_at(const char *kind, uint32_t length, uint32_t offset)
{
	char text[64];

	snprintf(text, sizeof(text), "e %s u8[] a", kind);
	describe(text);
	add_location(length, offset);
	add("1234", 4);
	return check();
}

TEST(dynamic_data_ends_within_payload)
{
	static const struct {
		uint32_t length, offset;
		int fault;
	} rows[] = {
		{ 4, 0, RECORD_OK }, { 5, 0, RECORD_OUTSIDE }, { 4, 1, RECORD_OUTSIDE },
		{ 0, 4, RECORD_OK }, { 0, 5, RECORD_OUTSIDE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ck_assert_int_eq(check_number_at("__rel_loc", rows[i].length, rows[i].offset), rows[i].fault);
		/* Behind the entry's header and the u32. */
		ck_assert_int_eq(check_number_at("__data_loc", rows[i].length, rows[i].offset + 12), rows[i].fault);
	}
	ck_assert_int_eq(check_number_at("__rel_loc", 0xffff, 0xffff), RECORD_OUTSIDE);
	ck_assert_int_eq(check_number_at("__data_loc", 0xffff, 0xffff), RECORD_OUTSIDE);
}

TEST(dynamic_data_may_lie_in_the_fixed_part)
{
	ck_assert_int_eq(check_number_at("__data_loc", 8, 8), RECORD_OK);
	add_location(4, 0); /* bytes behind the end do no harm */
	ck_assert_int_eq(check(), RECORD_OK);
}

TEST(dynamic_data_cannot_be_the_kernels_own_fields)
{
	ck_assert_int_eq(check_number_at("__data_loc", 1, 7), RECORD_OUTSIDE);
	ck_assert_int_eq(check_number_at("__data_loc", 16, 0), RECORD_OUTSIDE);
	ck_assert_int_eq(check_number_at("__data_loc", 0, 0), RECORD_OK);
	expect_shown("a=[]", NULL);
}

/* The kernel looks at the byte before the end, even of no chars at all. */
TEST(dynamic_chars_end_in_nul)
{
	static const struct {
		const char *kind;
		uint32_t length, offset;
		const char *bytes; /* and their NUL */
		int fault;
	} rows[] = {
		{ "__rel_loc", 3, 0, "ab", RECORD_OK },
		{ "__rel_loc", 2, 0, "ab", RECORD_NOT_TERMINATED },
		{ "__rel_loc", 4, 0, "ab", RECORD_OUTSIDE },
		{ "__data_loc", 3, 12, "ab", RECORD_OK },
		{ "__data_loc", 2, 12, "ab", RECORD_NOT_TERMINATED },
		{ "__rel_loc", 0, 0, NULL, RECORD_OK },
		{ "__rel_loc", 0, 1, "a", RECORD_NOT_TERMINATED },
		{ "__rel_loc", 0, 2, "a", RECORD_OK },
		{ "__data_loc", 0, 12, NULL, RECORD_OK },
		{ "__data_loc", 0, 0, NULL, RECORD_NOT_TERMINATED },
		{ "__data_loc", 0, 8, NULL, RECORD_NOT_TERMINATED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[64];

		snprintf(text, sizeof(text), "e %s %s[] a", rows[i].kind, i % 2 ? "unsigned char" : "char");
		describe(text);
		add_location(rows[i].length, rows[i].offset);
		add(rows[i].bytes, rows[i].bytes ? strlen(rows[i].bytes) + 1 : 0);
		ck_assert_msg(check() == rows[i].fault, "row %zu", i);
	}
	describe("e __rel_loc char[] a");
	add_location(0, 0);
	expect_shown("a=\"\"", NULL);
}

TEST(second_dynamic_field_is_checked)
{
	describe("e __rel_loc u8[] a; __rel_loc char[] b");
	add_location(0, 0);
	add_location(1, 0);
	add("x", 1);
	ck_assert_int_eq(check(), RECORD_NOT_TERMINATED);
	payload[8] = '\0';
	ck_assert_int_eq(check(), RECORD_OK);
}

TEST(numbers_are_shown_with_their_size_and_sign)
{
	describe("e s64 a; u64 b; int c; unsigned int d; short f; unsigned short g; s8 h; u8 i");
	for (int i = 0; i < 30; i++)
		ADD(uint8_t, 0xff);
	expect_shown("a=-1 b=18446744073709551615 c=-1 d=4294967295 f=-1 g=65535 h=-1 i=255",
		     "{\"a\":-1,\"b\":18446744073709551615,\"c\":-1,\"d\":4294967295,\"f\":-1,"
		     "\"g\":65535,\"h\":-1,\"i\":255}");

	describe("e s64 a; s8 b; s16 c; s32 d");
	ADD(int64_t, INT64_MIN);
	ADD(int8_t, INT8_MIN);
	ADD(int16_t, INT16_MIN);
	ADD(int32_t, INT32_MIN);
	expect_shown("a=-9223372036854775808 b=-128 c=-32768 d=-2147483648", NULL);
}

TEST(floats_are_shown_and_read)
{
	describe("e u32 a_f32; u64 b_f64; u64 c_f32; s64 d_f64; u32 _f32");
	ADD(float, 0.1F);
	ADD(double, 9.95);
	ADD(uint64_t, 1);
	ADD(int64_t, -1);
	ADD(uint32_t, 7);
	expect_shown("a_f32=0.1 b_f64=9.95 c_f32=1 d_f64=-1 _f32=7",
		     "{\"a_f32\":0.1,\"b_f64\":9.95,\"c_f32\":1,\"d_f64\":-1,\"_f32\":7}");

	describe("e u64 x_f64; u64 y_f64; u32 z_f32");
	ADD(double, 1.0 / 3.0);
	ADD(double, -__builtin_inf());
	ADD(float, __builtin_nanf(""));
	expect_shown("x_f64=0.3333333333333333 y_f64=-inf z_f32=nan",
		     "{\"x_f64\":0.3333333333333333,\"y_f64\":\"-inf\",\"z_f32\":\"nan\"}");

	ck_assert_int_eq(BUILD("x_f64=0.3333333333333333", "y_f64=1e300", "z_f32=-2.5"), 0);
	expect_shown("x_f64=0.3333333333333333 y_f64=1e+300 z_f32=-2.5", NULL);
	ck_assert_int_eq(BUILD("x_f64=1.5x"), REFUSAL_BAD_DESCRIPTION);
	ck_assert_ptr_nonnull(strstr(sentence, "a number such as 0.5 or 1e9"));
	ck_assert_int_eq(BUILD("x_f64="), REFUSAL_BAD_DESCRIPTION);
	ck_assert_int_eq(BUILD("x_f64= 1"), REFUSAL_BAD_DESCRIPTION);
}

TEST(printable_char_is_shown_as_character)
{
	describe("e char a; char b; char c; char d; unsigned char f; s8 g");
	add("x\n'\xff"
	    "xx",
	    6);
	expect_shown("a='x' b=10 c=''' d=-1 f=120 g=120", "{\"a\":120,\"b\":10,\"c\":39,\"d\":-1,\"f\":120,\"g\":120}");
}

TEST(fixed_chars_end_at_first_nul_or_size)
{
	describe("e char[4] a; unsigned char[4] b; u8 c");
	add("ab\0dwxyz\1", 9);
	expect_shown("a=\"ab\" b=\"wxyz\" c=1", "{\"a\":\"ab\",\"b\":\"wxyz\",\"c\":1}");
}

TEST(text_has_no_control_bytes_and_stays_quoted)
{
	describe("e char[16] a");
	add("\"\\\x1b[2J\xff\xc3\xa4\n\\\"\0\0\0", 16);
	expect_shown("a=\"\\\"\\\\\\x1b[2J\\xff\xc3\xa4\\x0a\\\\\\\"\"",
		     "{\"a\":\"\\\"\\\\\\u001b[2J\xef\xbf\xbd\xc3\xa4\\n\\\\\\\"\"}");
}

TEST(structs_are_shown_as_bytes)
{
	describe("e struct point p 4; u8 a");
	add("\x00\x7f\x80\xff\x01", 5);
	expect_shown("p=007f80ff a=1", "{\"p\":\"007f80ff\",\"a\":1}");
}

TEST(dynamic_numbers_are_shown_as_a_list)
{
	describe("e __rel_loc u16[] a; __data_loc s32[] b");
	add_location(4, 4);
	add_location(8, 8 + 8 + 4);
	ADD(uint16_t, 1);
	ADD(uint16_t, 65535);
	ADD(int32_t, -2);
	ADD(int32_t, 3);
	expect_shown("a=[1,65535] b=[-2,3]", "{\"a\":[1,65535],\"b\":[-2,3]}");
}

TEST(bytes_behind_the_last_whole_element_are_not_shown)
{
	describe("e __rel_loc u32[] a");
	add_location(7, 0);
	add("\0\0\0\0abc", 7);
	expect_shown("a=[0]", NULL);
}

TEST(unchecked_payload_is_read_within_its_size)
{
	describe("e u64 a; __rel_loc char[] b; __data_loc u64[] c");
	for (payload_size = 0; payload_size < 20; payload_size++) {
		memset(payload, 0xff, sizeof(payload));
		ck_assert_str_eq(show(record_to_text), payload_size < 16 ? "" : "a=18446744073709551615 b=\"\" c=[]");
	}
}

TEST(a_record_is_built_from_words)
{
	describe("http_request u16 status; u64 ns; __rel_loc char[] path");
	EXPECT_BUILT("status=200 ns=81 path=\"/x\"", "path=/x", "status=200", "ns=81");
	ck_assert_uint_eq(payload_size, 14 + 3);
	EXPECT_BUILT("status=200 ns=81 path=\"/a=b c\"", "path=/a=b c", "status=0310", "ns=0x51");
}

TEST(unassigned_fields_are_zero)
{
	describe("e u32 a; char[3] b; struct s c 2; __rel_loc char[] d; __data_loc char[] f; __rel_loc u64[] g; "
		 "__data_loc u64[] h");
	ck_assert_int_eq(build_in(WIRE_PAYLOAD_MAX, 0, NULL), 0);
	expect_shown("a=0 b=\"\" c=0000 d=\"\" f=\"\" g=[] h=[]", NULL);
}

TEST(several_dynamic_fields_find_their_data)
{
	describe("e __rel_loc char[] a; __data_loc char[] b; u8 n; __data_loc u16[] c; __rel_loc unsigned char[] d");
	EXPECT_BUILT("a=\"one\" b=\"two\" n=5 c=[257,514] d=\"four\"", "d=four", "c=01010202", "b=two", "a=one", "n=5");
}

TEST(numbers_have_limits)
{
	describe("e u8 a; s8 b; u16 c; short d; u32 f; int g; u64 h; s64 i");
	EXPECT_BUILT("a=255 b=127 c=65535 d=32767 f=4294967295 g=2147483647 h=18446744073709551615 "
		     "i=9223372036854775807",
		     "a=255", "b=127", "c=65535", "d=32767", "f=4294967295", "g=2147483647", "h=18446744073709551615",
		     "i=9223372036854775807");
	EXPECT_BUILT("a=0 b=-128 c=0 d=-32768 f=0 g=-2147483648 h=0 i=-9223372036854775808", "a=-0", "b=-128",
		     "d=-32768", "g=-2147483648", "i=-9223372036854775808");
	EXPECT_ALL_REFUSED({ "a=256", "a=256: u8 takes 0 to 255, or a character in single quotes" },
			   { "b=128", "b=128: s8 takes -128 to 127, or a character in single quotes" },
			   { "b=-129", "b=-129: s8 takes -128 to 127, or a character in single quotes" },
			   { "c=65536", "c=65536: u16 takes 0 to 65535" }, { "c=-1", "c=-1: u16 takes 0 to 65535" },
			   { "d=32768", "d=32768: short takes -32768 to 32767" },
			   { "d=-32769", "d=-32769: short takes -32768 to 32767" },
			   { "f=4294967296", "f=4294967296: u32 takes 0 to 4294967295" },
			   { "g=2147483648", "g=2147483648: int takes -2147483648 to 2147483647" },
			   { "h=18446744073709551616", "h=18446744073709551616: u64 takes 0 to 18446744073709551615" },
			   { "i=9223372036854775808",
			     "i=9223372036854775808: s64 takes -9223372036854775808 to 9223372036854775807" },
			   { "i=-9223372036854775809",
			     "i=-9223372036854775809: s64 takes -9223372036854775808 to 9223372036854775807" });
}

TEST(invalid_number_is_refused)
{
	static const char *const values[] = {
		"", "x", "-", "--1", "+1", " 1", "1 ", "08", "0x", "0xg", "1.5", "1e3", "99999999999999999999999x"
	};

	describe("e unsigned short a");
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		char assignment[64], why[200];

		snprintf(assignment, sizeof(assignment), "a=%s", values[i]);
		snprintf(why, sizeof(why),
			 "a=%s: unsigned short takes a number (0x: hexadecimal, 0: octal) from 0 to 65535", values[i]);
		errno = ERANGE; /* of an earlier call */
		expect_refused(assignment, why);
	}
}

TEST(a_char_may_be_assigned_in_quotes)
{
	describe("e char a; unsigned char b; u8 c; char d");
	EXPECT_BUILT("a='x' b=121 c=122 d='''", "a='x'", "b='y'", "c='z'", "d='''");
	EXPECT_BUILT("a='A' b=0 c=0 d=-1", "a=65", "d=-1");
	EXPECT_ALL_REFUSED({ "a=x", "a=x: char takes a number (0x: hexadecimal, 0: octal) from -128 to 127, or a "
				    "character in single quotes" });
	describe("e u16 a");
	EXPECT_ALL_REFUSED({ "a='x'", "a='x': u16 takes a number (0x: hexadecimal, 0: octal) from 0 to 65535" });
}

TEST(fixed_chars_may_be_full)
{
	describe("e char[4] a; u8 b");
	EXPECT_BUILT("a=\"wxyz\" b=1", "a=wxyz", "b=1");
	EXPECT_ALL_REFUSED({ "a=wxyz!", "a=wxyz!: char[4] takes 4 bytes, not 5" });
}

TEST(structs_and_lists_are_hexadecimal)
{
	describe("e struct point p 3; __rel_loc u16[] q");
	EXPECT_BUILT("p=00afaf q=[43690]", "p=00afAF", "q=aaaa");
	EXPECT_BUILT("p=000000 q=[]", "q=");
#define TAKES_LIST "__rel_loc u16[] takes a list as [1,2,3], or hexadecimal digits, 4 for each element"
	EXPECT_ALL_REFUSED({ "p=00af", "p=00af: struct point takes 6 hexadecimal digits" },
			   { "p=00af0", "p=00af0: struct point takes 6 hexadecimal digits" },
			   { "p=00af001", "p=00af001: struct point takes 6 hexadecimal digits" },
			   { "p=00af0g", "p=00af0g: struct point takes 6 hexadecimal digits" },
			   { "q=aaa", "q=aaa: " TAKES_LIST }, { "q=zzzz", "q=zzzz: " TAKES_LIST },
			   { "q=[", "q=[: " TAKES_LIST }, { "q=[1", "q=[1: " TAKES_LIST },
			   { "q=[1]2", "q=[1]2: " TAKES_LIST }, { "q=[[1]]", "q=[[1]]: " TAKES_LIST },
			   { "q=1]", "q=1]: " TAKES_LIST }, { "q=[]]", "q=[]]: " TAKES_LIST });
}

TEST(arrays_of_numbers_may_be_written_as_lists)
{
	describe("e __rel_loc u16[] a; __data_loc s64[] b; u8 c");
	EXPECT_BUILT("a=[1,65535] b=[-1] c=3", "a=[1,0xffff]", "b=[-1]", "c=3");
	EXPECT_BUILT("a=[] b=[0] c=0", "a=[]", "b=[0]");
	EXPECT_BUILT("a=[] b=[-9223372036854775808,9223372036854775807] c=0",
		     "b=[-9223372036854775808,9223372036854775807]");
#define TAKES_NUMBER "__rel_loc u16[] takes a number (0x: hexadecimal, 0: octal) from 0 to 65535"
	EXPECT_ALL_REFUSED(
		{ "a=[1,65536]", "a=65536: __rel_loc u16[] takes 0 to 65535" }, { "a=[1,]", "a=: " TAKES_NUMBER },
		{ "a=[000000000000000000000000000000001]", "a=?0000000000000000000000000000000: " TAKES_NUMBER });
	for (size_t capacity = 9; capacity < 13; capacity++)
		ck_assert_int_eq(build_in(capacity, 1, (const char *const[]){ "a=[1,2]" }), -ENOSPC);
}

TEST(wrong_assignment_is_refused)
{
	describe("e u8 a; u8 bc; u8 d");
	EXPECT_ALL_REFUSED({ "b=1", "'b' is not a field; this event has a, bc, d" },
			   { "bcd=1", "'bcd' is not a field; this event has a, bc, d" },
			   { "=1", "'' is not a field; this event has a, bc, d" },
			   { "\x1b[2J=1", "'\\x1b[2J' is not a field; this event has a, bc, d" },
			   { "a", "'a' has no value; write FIELD=VALUE" },
			   { "", "'' has no value; write FIELD=VALUE" });
	ck_assert_int_eq(BUILD("a=1", "bc=1", "a=2"), REFUSAL_BAD_DESCRIPTION);
	ck_assert_str_eq(sentence, "'a=2' is the second value of this field");
	describe("e");
	EXPECT_ALL_REFUSED({ "x=1", "'x' is not a field; this event has none" });
}

TEST(a_buffer_may_be_just_large_enough)
{
	const char *const assignments[] = { "s=abc" };

	describe("e u32 a; __rel_loc char[] s");
	ck_assert_int_eq(build_in(12, 1, assignments), 0);
	ck_assert_uint_eq(payload_size, 12);
	for (size_t capacity = 0; capacity < 12; capacity++)
		ck_assert_int_eq(build_in(capacity, 1, assignments), -ENOSPC);
}

TEST(dynamic_data_beyond_u16_is_refused)
{
	static char assignment[70000];
	static uint8_t large[sizeof(assignment)];
	const char *assignments[] = { assignment };
	struct text why = text_make(sentence, sizeof(sentence));
	size_t size;

	describe("e __rel_loc char[] s");
	memset(assignment, 'x', sizeof(assignment) - 1);
	memcpy(assignment, "s=", 2);
	assignment[2 + 65534] = '\0';
	ck_assert_int_eq(record_build(&description, assignments, 1, large, sizeof(large), &size, &why), 0);
	ck_assert_uint_eq(size, 4 + 65535);
	ck_assert_int_eq(record_check(&description, large, size), RECORD_OK);

	assignment[2 + 65534] = 'x';
	assignment[2 + 65535] = '\0';
	expect_refused(assignment, "s=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...: __rel_loc char[] takes at most "
				   "65535 bytes, and not further behind than that");
}

/* A sanitizer sees each access outside the payload. */
TEST(no_payload_is_read_beyond_its_end)
{
	uint64_t random = 0x5eed;
	unsigned good = 0;

	describe("e u8 a; __rel_loc char[] b; char[3] c; __data_loc u32[] d; __data_loc char[] f");
	for (int round = 0; round < 20000; round++) {
		payload_size = (size_t)round % 40;
		for (size_t i = 0; i < payload_size; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			payload[i] = (random >> 60) < 12 ? 0 : (uint8_t)(random >> 33) % 28;
		}
		if (check() == RECORD_OK)
			good++;
		show(record_to_text);
		show(record_to_json);
	}
	ck_assert_uint_gt(good, 100);
}
