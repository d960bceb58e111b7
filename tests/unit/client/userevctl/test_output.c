/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "client/userevctl/ctl.h"
#include "tests/suite.h"

/* Output, as text. */
static char printed[1 << 19];

static FILE *open_printed(void)
{
	FILE *file = fmemopen(printed, sizeof(printed), "w");

	ck_assert_ptr_nonnull(file);
	setlocale(LC_CTYPE, "C.UTF-8");
	return file;
}

#define S(literal) (literal), (sizeof(literal) - 1)

static const struct column columns[] = {
	{ "EVENT", COLUMN_PATH, 0 },
	{ "RECORDS", COLUMN_NUMBER, 0 },
	{ "FIELDS", COLUMN_LONG, 0 },
};

static struct table two_events(void)
{
	struct table table = table_make(columns, ARRAY_SIZE(columns));

	table_put_safe(&table, STYLE_NAME, S("short"));
	table_put_number(&table, STYLE_PLAIN, 7);
	table_put(&table, STYLE_PLAIN, "u32 a");
	table_put_safe(&table, STYLE_NAME, S("a_much_longer_name"));
	table_put_number(&table, STYLE_BAD, 12345678);
	table_put(&table, STYLE_PLAIN, "u64 first; u64 second; __rel_loc char[] third");
	return table;
}

static void expect_table(const struct table *table, struct output output, const char *expected)
{
	output.file = open_printed();
	table_print(table, &output);
	fclose(output.file);
	ck_assert_str_eq(printed, expected);
}

TEST(a_table_is_printed_for_its_width)
{
	static const struct column ranked[] = { { "EVENT", COLUMN_PATH, 0 },
						{ "RECORDS", COLUMN_NUMBER, 2 },
						{ "FIELDS", COLUMN_LONG, 1 } };
	static const struct {
		struct output output;
		bool ranked;
		const char *expected;
	} cases[] = {
		/* A pipe gets tabs, and nothing is shortened. */
		{ { 0 },
		  false,
		  "short\t7\tu32 a\n"
		  "a_much_longer_name\t12345678\tu64 first; u64 second; __rel_loc char[] third\n" },
		{ { .terminal = true, .width = 80 },
		  false,
		  "EVENT                RECORDS  FIELDS\n"
		  "short                      7  u32 a\n"
		  "a_much_longer_name  12345678  u64 first; u64 second; __rel_loc char[] third\n" },
		/* Texts are shortened, not numbers. */
		{ { .terminal = true, .width = 40 },
		  false,
		  "EVENT            RECORDS  FIELDS\n"
		  "short                  7  u32 a\n"
		  "a_muc...r_name  12345678  u64 first; ...\n" },
		{ { .terminal = true, .width = 5 },
		  false,
		  "EVENT          RECORDS  FIELDS\n"
		  "short                7  u32 a\n"
		  "a_mu..._name  12345678  u64 first...\n" },
		{ { .terminal = true, .width = 20, .full = true },
		  false,
		  "EVENT                RECORDS  FIELDS\n"
		  "short                      7  u32 a\n"
		  "a_much_longer_name  12345678  u64 first; u64 second; __rel_loc char[] third\n" },
		/* The columns of the highest ranks are left out. */
		{ { .terminal = true, .width = 50 },
		  true,
		  "EVENT                RECORDS  FIELDS\n"
		  "short                      7  u32 a\n"
		  "a_much_longer_name  12345678  u64 first; u64 se...\n" },
		{ { .terminal = true, .width = 45 },
		  true,
		  "EVENT               FIELDS\n"
		  "short               u32 a\n"
		  "a_much_longer_name  u64 first; u64 second;...\n" },
		/* The column that the rows are sorted by is green. */
		{ { .terminal = true, .width = 15, .colour = true },
		  true,
		  "\033[32mEVENT\033[0m\n"
		  "\033[36mshort\033[0m\n"
		  "\033[36ma_much...r_name\033[0m\n" },
		/* Colours do not move columns. */
		{ { .terminal = true, .width = 80, .colour = true },
		  false,
		  "\033[1mEVENT\033[0m                \033[1mRECORDS\033[0m  \033[1mFIELDS\033[0m\n"
		  "\033[36mshort\033[0m                      7  u32 a\n"
		  "\033[36ma_much_longer_name\033[0m  \033[1;31m12345678\033[0m  "
		  "u64 first; u64 second; __rel_loc char[] third\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(table_deinit) struct table table = two_events();

		if (cases[i].ranked)
			table.columns = ranked;
		table.sorted_by = cases[i].ranked ? 0 : SIZE_MAX;
		expect_table(&table, cases[i].output, cases[i].expected);
	}
}

TEST(cells_are_safe_and_an_empty_one_is_a_dash)
{
	static const struct column two[] = { { "A", COLUMN_TEXT, 0 }, { "B", COLUMN_TEXT, 0 } };
	_cleanup_(table_deinit) struct table table = table_make(two, 2);

	table_put(&table, STYLE_PLAIN, "");
	table_put_safe(&table, STYLE_PLAIN, NULL, 0);
	table_put(&table, STYLE_PLAIN, "a");
	table_put_safe(&table, STYLE_PLAIN, S("\033[2Ja\tb\nc\xff"));
	expect_table(&table, (struct output){ 0 }, "-\t-\na\t\\x1b[2Ja\\x09b\\x0ac\\xff\n");
}

/* A terminal of 33 columns: its two ends. */
static void open_terminal(int *ret_master, FILE **ret_file)
{
	struct winsize size = { .ws_row = 10, .ws_col = 33 };
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;

	ck_assert_int_ge(master, 0);
	ck_assert_int_eq(grantpt(master), 0);
	ck_assert_int_eq(unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	ck_assert_int_ge(slave, 0);
	ck_assert_int_eq(ioctl(slave, TIOCSWINSZ, &size), 0);
	*ret_master = master;
	*ret_file = fdopen(slave, "w");
	ck_assert_ptr_nonnull(*ret_file);
}

TEST(a_terminal_has_colours_unless_disabled)
{
	static const struct {
		const char *no_color, *terminal;
		const char *when;
		bool expected;
	} cases[] = {
		{ NULL, "xterm", NULL, true },	 { "1", "xterm", "auto", false },   { "", "xterm", NULL, true },
		{ NULL, "dumb", "auto", false }, { NULL, NULL, "auto", false },	    { NULL, "", "auto", false },
		{ "1", "dumb", "always", true }, { NULL, "xterm", "never", false },
	};
	struct output output;
	FILE *terminal;
	int master;

	open_terminal(&master, &terminal);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		clearenv();
		if (cases[i].no_color)
			setenv("NO_COLOR", cases[i].no_color, 1);
		if (cases[i].terminal)
			setenv("TERM", cases[i].terminal, 1);
		output = (struct output){ .when = cases[i].when };
		output_open(&output, terminal);
		ck_assert_msg(output.colour == cases[i].expected, "case %zu", i);
		ck_assert(output.terminal);
		ck_assert_uint_eq(output.width, 33);
	}
	fclose(terminal);
	close(master);
}

TEST(a_full_disk_and_a_closed_pipe_are_distinguished)
{
	struct output output = { .file = fopen("/dev/full", "w") };

	signal(SIGPIPE, SIG_IGN);
	ck_assert_ptr_nonnull(output.file);
	fputs("x", output.file);
	ck_assert_int_eq(output_flush(&output), -ENOSPC);
	fclose(output.file);
	/* Written when the output is flushed, or, without a buffer, before. */
	for (int mode = _IOFBF; mode <= _IONBF; mode += _IONBF - _IOFBF) {
		int ends[2];

		ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
		close(ends[0]);
		output.file = fdopen(ends[1], "w");
		setvbuf(output.file, NULL, mode, BUFSIZ);
		ck_assert_int_eq(output_flush(&output), 0);
		fputs("a record", output.file);
		errno = 0;
		ck_assert_int_eq(output_flush(&output), -EPIPE);
		fclose(output.file);
	}
}

TEST(width_counts_columns_of_the_terminal)
{
	static const struct {
		const char *text;
		size_t width;
	} cases[] = { { "", 0 }, { "abc", 3 }, { "größe", 5 }, { "漢字", 4 }, { "e\xcc\x81", 1 } };

	setlocale(LC_CTYPE, "C.UTF-8");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_uint_eq(display_width(cases[i].text), cases[i].width);
}

TEST(texts_are_shortened_by_kind)
{
	static const struct {
		enum column_kind kind;
		const char *text;
		size_t width;
		const char *expected;
	} cases[] = {
		{ COLUMN_PATH, "0123456789", 10, "0123456789" },
		{ COLUMN_PATH, "0123456789", 9, "012...789" },
		{ COLUMN_PATH, "0123456789", 8, "01...789" },
		{ COLUMN_PATH, "ääääääääää", 9, "äää...äää" },
		{ COLUMN_PATH, "漢字漢字漢字", 8, "漢...字" },
		{ COLUMN_LONG, "0123456789", 10, "0123456789" },
		{ COLUMN_LONG, "0123456789", 9, "012345..." },
		{ COLUMN_LONG, "漢字漢字漢字", 8, "漢字..." },
		{ COLUMN_LIST, "/one, /two, /three", 18, "/one, /two, /three" },
		{ COLUMN_LIST, "/one, /two, /three", 17, "/one, ..." },
		{ COLUMN_LIST, "/one, /two and 7 more", 20, "/one, ..." },
		/* Never the beginning of one item with the end of another. */
		{ COLUMN_LIST, "/aaaaaaaaaaaa, /bbbbbbbbbbbb", 16, "/aaa...aaaa, ..." },
		{ COLUMN_LIST, "/aaaaaaaaaaaabbbbbbbbbbbb", 12, "/aaa...bbbbb" },
	};
	char shortened[64];

	setlocale(LC_CTYPE, "C.UTF-8");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		shorten(cases[i].kind, cases[i].text, cases[i].width, shortened, sizeof(shortened));
		ck_assert_str_eq(shortened, cases[i].expected);
		ck_assert_uint_le(display_width(shortened), cases[i].width);
	}
}

TEST(durations_have_two_units)
{
	static const struct {
		uint64_t seconds;
		const char *expected;
	} cases[] = {
		{ 0, "0 s" },	       { 59, "59 s" },		 { 60, "1 min 0 s" },  { 3599, "59 min 59 s" },
		{ 3600, "1 h 0 min" }, { 86399, "23 h 59 min" }, { 86400, "1 d 0 h" }, { 864000 + 7200, "10 d 2 h" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_str_eq(humane_duration(cases[i].seconds).text, cases[i].expected);
}

TEST(one_is_singular_and_large_numbers_are_grouped)
{
	ck_assert_str_eq(plural(0, "event", "events").text, "0 events");
	ck_assert_str_eq(plural(1, "event", "events").text, "1 event");
	ck_assert_str_eq(plural(999, "event", "events").text, "999 events");
	ck_assert_str_eq(plural(1000, "event", "events").text, "1,000 events");
	ck_assert_str_eq(plural(UINT64_MAX, "event", "events").text, "18,446,744,073,709,551,615 events");
}

static uint8_t row_buffer[131072];

static void print_json(const struct packet *row)
{
	struct json json = { .file = open_printed() };

	ck_assert(!row->failed);
	json_row(&json, cursor_make(row->data, row->size));
	fclose(json.file);
	ck_assert_ptr_eq(strchr(printed, '\n'), printed + strlen(printed) - 1);
	*strchr(printed, '\n') = '\0';
}

static void expect_json(const struct packet *row, const char *expected)
{
	print_json(row);
	ck_assert_str_eq(printed, expected);
}

TEST(a_row_is_an_object_with_its_fields_in_their_order)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));

	expect_json(&row, "{}");
	row_put_string(&row, "a\"b", "quote \" backslash \\ newline \n escape \033 bad \xff gr\xc3\xbc\xc3\x9f");
	row_put_u64(&row, "records", UINT64_MAX);
	row_put_bool(&row, "on", true);
	row_put_bool(&row, "off", false);
	row_put_bytes(&row, "payload", "\0\x7f\xff", 3);
	row_put_bytes(&row, "nothing", NULL, 0);
	expect_json(&row, "{\"a\\\"b\":\"quote \\\" backslash \\\\ newline \\n escape \\u001b bad \xef\xbf\xbd "
			  "gr\xc3\xbc\xc3\x9f\",\"records\":18446744073709551615,\"on\":true,\"off\":false,"
			  "\"payload\":\"007fff\",\"nothing\":\"\"}");
}

TEST(the_longest_string_is_complete)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));
	static char string[UINT16_MAX + 1];

	memset(string, '\001', UINT16_MAX);
	row_put_string(&row, "a", string);
	print_json(&row);
	ck_assert_uint_eq(strlen(printed), strlen("{\"a\":\"\"}") + UINT16_MAX * strlen("\\u0001"));
	ck_assert_ptr_nonnull(strstr(printed, "\\u0001\"}"));
}

TEST(rows_in_a_row_are_objects)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));
	size_t rows = row_begin_rows(&row, "holders"), item, inner;

	for (uint64_t pid = 1; pid <= 2; pid++) {
		item = row_begin_item(&row);
		row_put_u64(&row, "pid", pid);
		row_end_item(&row, item);
	}
	item = row_begin_item(&row);
	inner = row_begin_rows(&row, "b");
	row_end_item(&row, row_begin_item(&row));
	row_end_rows(&row, inner);
	row_end_item(&row, item);
	row_end_rows(&row, rows);
	row_end_rows(&row, row_begin_rows(&row, "none"));
	row_put_u64(&row, "total", 2);
	expect_json(&row, "{\"holders\":[{\"pid\":1},{\"pid\":2},{\"b\":[{}]}],\"none\":[],\"total\":2}");
	/* The last field is cut. */
	row.size--;
	expect_json(&row, "{\"holders\":[{\"pid\":1},{\"pid\":2},{\"b\":[{}]}],\"none\":[]}");
}

TEST(rows_that_are_very_deep_are_bytes)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));
	size_t rows[20], items[20];

	for (size_t i = 0; i < 20; i++) {
		rows[i] = row_begin_rows(&row, "r");
		items[i] = row_begin_item(&row);
	}
	for (size_t i = 20; i-- > 0;) {
		row_end_item(&row, items[i]);
		row_end_rows(&row, rows[i]);
	}
	print_json(&row);
	ck_assert(strncmp(printed, "{\"r\":[{\"r\":[{", 13) == 0);
	ck_assert_ptr_nonnull(strstr(printed, "[{\"r\":\""));
	ck_assert_ptr_nonnull(strstr(printed, "\"}]}]}"));
}
