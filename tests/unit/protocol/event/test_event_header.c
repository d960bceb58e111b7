/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/event/event_header.h"

#include <stdio.h>

#include "protocol/event/record.h"
#include "tests/suite.h"

static struct description description;
static char shown[16384];

static const char *show(bool json, const void *payload, size_t size)
{
	static const char fields[] = "p_L5K1 u8 eventheader_flags; u8 version; u16 id; u16 tag; u8 opcode; u8 level";
	_cleanup_(freep) void *exact = memcpy(malloc(size), payload, size);
	struct text out = text_make(shown, sizeof(shown));

	ck_assert_int_eq(description_parse(fields, sizeof(fields) - 1, &description, &out), 0);
	ck_assert(event_header_is(&description));
	out = text_make(shown, sizeof(shown));
	(json ? record_to_json : record_to_text)(&description, exact, size, &out);
	ck_assert(!out.cut);
	return shown;
}

#define BYTES(literal) literal, sizeof(literal) - 1
/* An event "E", level 5, little-endian: its fields' definitions, and the values behind them. */
struct row {
	const char *definitions;
	size_t definitions_size;
	const char *values;
	size_t values_size;
	const char *text, *json;
};

/* The number of its bytes. */
static size_t assemble(const struct row *row, char ret[512])
{
	static const char header[] = "\7\0\0\0\0\0\0\5";
	const size_t metadata = 2 + row->definitions_size;
	char *to = mempcpy(ret, header, 8);

	to = mempcpy(to, (const char[]){ (char)metadata, (char)(metadata >> 8), 1, 0, 'E', '\0' }, 6);
	to = mempcpy(to, row->definitions, row->definitions_size);
	to = mempcpy(to, row->values, row->values_size);
	return (size_t)(to - ret);
}

static const struct row rows[] = {
	{ BYTES(""), BYTES(""), "", "" },
	/* numbers */
	{ BYTES("a\0\2b\0\3c\0\4d\0\5"), BYTES("\xff\xfe\xff\3\0\0\0\4\0\0\0\0\0\0\x80"),
	  "a=255 b=65534 c=3 d=9223372036854775812", "\"a\":255,\"b\":65534,\"c\":3,\"d\":9223372036854775812" },
	{ BYTES("a\0\x82\2b\0\x83\2c\0\x84\2d\0\x85\2"), BYTES("\xff\xfe\xff\3\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
	  "a=-1 b=-2 c=3 d=-1", "\"a\":-1,\"b\":-2,\"c\":3,\"d\":-1" },
	{ BYTES("a\0\x83\3b\0\x84\4c\0\x84\4p\0\x84\5"), BYTES("\xff\x00\2\0\0\0\xff\xff\xff\xff\7\0\0\0"),
	  "a=0xff b=2(ENOENT) c=-1 p=7", "\"a\":255,\"b\":2,\"c\":-1,\"p\":7" },
	{ BYTES("a\0\x82\7b\0\x83\7c\0\x84\7d\0\x85\7"), BYTES("\0\1\0\2\0\0\0\1\0\0\0\0\0\0\0"),
	  "a=false b=true c=2 d=1", "\"a\":false,\"b\":true,\"c\":2,\"d\":1" },
	{ BYTES("a\0\x84\10b\0\x85\10c\0\x84\10"), BYTES("\0\0\0\x3f\0\0\0\0\0\0\xf8\xbf\0\0\x80\x7f"),
	  "a=0.5 b=-1.5 c=inf", "\"a\":0.5,\"b\":-1.5,\"c\":\"inf\"" },
	{ BYTES("a\0\x84\6b\0\x85\6c\0\x85\6"), BYTES("\1\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\x80"),
	  "a=1970-01-01T00:00:01Z b=1969-12-31T23:59:59Z c=-9223372036854775808",
	  "\"a\":\"1970-01-01T00:00:01Z\",\"b\":\"1969-12-31T23:59:59Z\",\"c\":-9223372036854775808" },
	/* in network order, whatever the header says */
	{ BYTES("a\0\x83\20b\0\x84\21c\0\x86\22d\0\x86\17"),
	  BYTES("\0\x50\x7f\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17"),
	  "a=80 b=127.0.0.1 c=::1 d=00010203-0405-0607-0809-0a0b0c0d0e0f",
	  "\"a\":80,\"b\":\"127.0.0.1\",\"c\":\"::1\",\"d\":\"00010203-0405-0607-0809-0a0b0c0d0e0f\"" },
	/* a format that does not fit, and one that nobody knows: that of the encoding */
	{ BYTES("a\0\x82\4b\0\x84\17c\0\x83\x1f"
		"d\0\6"),
	  BYTES("\1\2\0\0\0\3\0\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17"),
	  "a=1 b=2 c=3 d=000102030405060708090a0b0c0d0e0f",
	  "\"a\":1,\"b\":2,\"c\":3,\"d\":\"000102030405060708090a0b0c0d0e0f\"" },
	/* text */
	{ BYTES("a\0\7b\0\12c\0\x87\12d\0\7"), BYTES("x\"\0\3\0\xc3\xbc\n\xfc\0\0"),
	  "a=\"x\\\"\" b=\"\xc3\xbc\\x0a\" c=\"\xc3\xbc\" d=\"\"",
	  "\"a\":\"x\\\"\",\"b\":\"\xc3\xbc\\n\",\"c\":\"\xc3\xbc\",\"d\":\"\"" },
	{ BYTES("a\0\10b\0\13c\0\11d\0\14"),
	  BYTES("A\0\x3d\xd8\0\xde\0\0\2\0\x3d\xd8"
		"B\0A\0\0\0\xff\xff\xff\xff\0\0\0\0\1\0\0\xf6\1\0"),
	  "a=\"A\xf0\x9f\x98\x80\" b=\"\xef\xbf\xbd"
	  "B\" c=\"A\xef\xbf\xbd\" d=\"\xf0\x9f\x98\x80\"",
	  "\"a\":\"A\xf0\x9f\x98\x80\",\"b\":\"\xef\xbf\xbd"
	  "B\",\"c\":\"A\xef\xbf\xbd\",\"d\":\"\xf0\x9f\x98\x80\"" },
	{ BYTES("a\0\x82\12b\0\x83\13c\0\x84\13"),
	  BYTES("x\xac\x20"
		"A\0\0\0"),
	  "a=\"x\" b=\"\xe2\x82\xac\" c=\"A\"", "\"a\":\"x\",\"b\":\"\xe2\x82\xac\",\"c\":\"A\"" },
	/* with a byte order mark */
	{ BYTES("a\0\x8a\14b\0\x8d\15c\0\x8d\14d\0\x8d\16e\0\x88\14"),
	  BYTES("\4\0\xef\xbb\xbf"
		"A\4\0\xfe\xff\0B\10\0\xff\xfe\0\0C\0\0\0\2\0{}\xff\xfe\x44\0\0\0"),
	  "a=\"A\" b=\"B\" c=\"C\" d=\"{}\" e=\"D\"", "\"a\":\"A\",\"b\":\"B\",\"c\":\"C\",\"d\":\"{}\",\"e\":\"D\"" },
	/* bytes with a length: null, a format that fits, and one that does not */
	{ BYTES("a\0\15b\0\x8d\1c\0\x8a\2d\0\x8d\1e\0\x8a\1f\0\x8d\13"),
	  BYTES("\2\0\xab\1\0\0\1\0\xff\3\0\1\2\3\3\0xyz\1\0A"), "a=ab01 b=null c=-1 d=010203 e=\"xyz\" f=\"A\"",
	  "\"a\":\"ab01\",\"b\":null,\"c\":-1,\"d\":\"010203\",\"e\":\"xyz\",\"f\":\"A\"" },
	/* a number cannot be text up to a zero */
	{ BYTES("a\0\x87\1b\0\x87\1"), BYTES("\0xyzw\0"), "a=\"\" b=\"xyzw\"", "\"a\":\"\",\"b\":\"xyzw\"" },
	/* arrays and lists */
	{ BYTES("a\0\x22\2\0b\0\x43"
		"c\0\xc3\2d\0\x47"),
	  BYTES("\1\2\2\0\3\0\4\0\0\0\1\0x\0"), "a=[1,2] b=[3,4] c=[] d=[\"x\"]",
	  "\"a\":[1,2],\"b\":[3,4],\"c\":[],\"d\":[\"x\"]" },
	/* structs, in one another and in lists; a tag; attributes */
	{ BYTES("s;k=v;;w\0\x81\2a\0\2t\0\x81\x81\7\0b\0\3c\0\2"), BYTES("\1\2\0\3"), "s={a=1 t={b=2}} c=3",
	  "\"s\":{\"a\":1,\"t\":{\"b\":2}},\"c\":3" },
	{ BYTES("s\0\xc1\2a\0\2t\0\x81\1b\0\2e\0\xc1\1f\0\x81\1g\0\2h\0\2"), BYTES("\2\0\1\2\3\4\0\0\5"),
	  "s=[{a=1 t={b=2}},{a=3 t={b=4}}] e=[] h=5",
	  "\"s\":[{\"a\":1,\"t\":{\"b\":2}},{\"a\":3,\"t\":{\"b\":4}}],\"e\":[],\"h\":5" },
	/* names are the program's */
	{ BYTES("\x1b[\"\0\2"), BYTES("\1"), "\\x1b[\"=1", "\"\\u001b[\\\"\":1" },
};

TEST(each_encoding_and_format_is_shown)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		char bytes[512], wanted[1024];
		const size_t size = assemble(row, bytes);

		snprintf(wanted, sizeof(wanted), "E(level=verbose)%s%s", *row->text ? " " : "", row->text);
		ck_assert_str_eq(show(false, bytes, size), wanted);
		snprintf(wanted, sizeof(wanted), "{%s%s\"event_header\":{\"name\":\"E\",\"level\":5,\"opcode\":0}}",
			 row->json, *row->json ? "," : "");
		ck_assert_str_eq(show(true, bytes, size), wanted);
	}
}

/* The example of the format's description. */
TEST(published_example_is_decoded)
{
	static const char bytes[] = "\x07\0\0\0\0\0\0\x05\x09\0\x01\0Ev\0Arg\0\x84\x02\x2a\0\0";

	ck_assert_str_eq(show(false, bytes, sizeof(bytes)), "Ev(level=verbose) Arg=42");
}

TEST(header_and_activity_are_shown)
{
	/* Big-endian: id 258, version 3, tag 4, opcode start, level error; first the activity, with its parent. */
	static const char bytes[] = "\4\3\1\2\0\4\1\2"
				    "\0\x20\x80\2"
				    "abcdefghijklmnop"
				    "ABCDEFGHIJKLMNOP"
				    "\0\5\0\1"
				    "N\0f\0\3"
				    "\1\2";

	ck_assert_str_eq(
		show(false, bytes, sizeof(bytes) - 1),
		"N(level=error opcode=start id=258 version=3 tag=4 activity=61626364-6566-6768-696a-6b6c6d6e6f70 "
		"parent=41424344-4546-4748-494a-4b4c4d4e4f50) f=258");
	ck_assert_str_eq(
		show(true, bytes, sizeof(bytes) - 1),
		"{\"f\":258,\"event_header\":{\"name\":\"N\",\"level\":2,\"opcode\":1,\"id\":258,\"version\":3,\"tag\":4,"
		"\"activity_id\":\"61626364-6566-6768-696a-6b6c6d6e6f70\","
		"\"parent_id\":\"41424344-4546-4748-494a-4b4c4d4e4f50\"}}");
}

TEST(damage_ends_the_decoding)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *text, *json;
	} cases[] = {
		/* no metadata; an incomplete extension; a name without an end */
		{ BYTES("\3\0\0\0\0\0\0\6xyz"), "(level=6) (damaged)", "\"name\":\"\",\"level\":6" },
		{ BYTES("\7\0\0\0\0\0\x0b\1\5\0\1\0E\0"), "(level=critical opcode=11) (damaged)", "\"name\":\"\"" },
		{ BYTES("\7\0\0\0\0\0\xf0\1\1\0\1\0E"), "(level=critical opcode=receive) (damaged)", "\"name\":\"\"" },
		/* an incomplete value; an unknown encoding; both kinds of array; an array of none; a struct of none */
		{ BYTES("\7\0\0\0\0\0\0\1\10\0\1\0E\0a\0\2b\0\3\1\2"), "E(level=critical) a=1 b= (damaged)",
		  "{\"a\":1,\"b\":null," },
		{ BYTES("\7\0\0\0\0\0\0\1\10\0\1\0E\0a\0\2b\0\16\1\2"), "E(level=critical) a=1 (damaged)",
		  "{\"a\":1,\"event" },
		{ BYTES("\7\0\0\0\0\0\0\1\7\0\1\0E\0b\0\x62\1\0\1\2"), "E(level=critical) (damaged)", "{\"event" },
		{ BYTES("\7\0\0\0\0\0\0\1\7\0\1\0E\0b\0\x22\0\0\1\2"), "E(level=critical) (damaged)", "{\"event" },
		{ BYTES("\7\0\0\0\0\0\0\1\6\0\1\0E\0b\0\x81\0\1\2"), "E(level=critical) (damaged)", "{\"event" },
		/* text without its end */
		{ BYTES("\7\0\0\0\0\0\0\1\5\0\1\0E\0b\0\7xy"), "E(level=critical) b= (damaged)", "{\"b\":null," },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ck_assert_str_eq(show(false, cases[i].bytes, cases[i].size), cases[i].text);
		ck_assert_msg(strstr(show(true, cases[i].bytes, cases[i].size), cases[i].json), "%s", shown);
		ck_assert(strstr(shown, ",\"damaged\":true}}"));
	}
}

TEST(structs_nest_up_to_the_maximum)
{
	char bytes[512] = "\7\0\0\0\0\0\0\5\0\0\1\0E";

	for (unsigned depth = 8; depth <= 9; depth++) {
		char *to = bytes + 14;

		for (unsigned i = 0; i < depth; i++)
			to = mempcpy(to, "s\0\x81\1", 4);
		to = mempcpy(to, "a\0\2\1", 4);
		bytes[8] = (char)(to - bytes - 13);
		show(false, bytes, (size_t)(to - bytes));
		ck_assert_int_eq(!strstr(shown, "a=1"), depth == 9);
		ck_assert_int_eq(!strstr(shown, "(damaged)"), depth == 8);
	}
}

/* Whether brackets close each other, and no byte of it moves a terminal's cursor. */
static bool is_balanced(const char *json)
{
	char open[64];
	size_t depth = 0;
	bool inside = false;

	for (; *json; json++) {
		if ((unsigned char)*json < ' ')
			return false;
		if (*json == '\\' && inside)
			json++;
		else if (*json == '"')
			inside = !inside;
		else if (!inside && strchr("{[", *json))
			open[depth++] = *json == '{' ? '}' : ']';
		else if (!inside && strchr("}]", *json) && (depth == 0 || open[--depth] != *json))
			return false;
		if (depth == sizeof(open))
			return false;
	}
	return depth == 0 && !inside;
}

TEST(bent_and_cut_payloads_are_shown_as_far_as_they_go)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char bytes[512];
		const size_t size = assemble(&rows[i], bytes);

		for (size_t cut = 8; cut < size; cut++)
			ck_assert_msg(is_balanced(show(true, bytes, cut)), "%s", shown);
		for (size_t bit = 0; bit < 8 * size; bit++) {
			bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
			ck_assert_msg(is_balanced(show(true, bytes, size)), "%s", shown);
			show(false, bytes, size);
			bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
		}
	}
}
