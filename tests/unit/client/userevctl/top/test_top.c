/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/top/top.h"

#include <locale.h>

#include "tests/suite.h"

/* An answer of a daemon, and the frame that is printed of it. */
struct frame {
	struct top_frame frame;
	struct output output;
	char *text;
	size_t size;
};

struct said {
	const char *tenant;
	uint64_t events, events_max, reserved, connections, refused, lost, throttled;
};

static uint8_t row_buffer[8192];

static void put_refusals(struct packet *row, uint64_t count)
{
	size_t rows = row_begin_rows(row, "refusals"), item = row_begin_item(row);

	row_put_string(row, "reason", "quota-exceeded");
	row_put_u64(row, "count", count);
	row_end_item(row, item);
	row_end_rows(row, rows);
}

static void add(struct tenant_views *views, struct said said)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));

	row_put_string(&row, "tenant", said.tenant);
	row_put_u64(&row, "connections", said.connections);
	row_put_u64(&row, "events", said.events);
	if (said.events_max > 0)
		row_put_u64(&row, "events_max", said.events_max);
	row_put_u64(&row, "reserved", said.reserved);
	row_put_u64(&row, "lost", said.lost);
	row_put_u64(&row, "throttled", said.throttled);
	put_refusals(&row, said.refused);
	tenant_views_add(views, cursor_make(row.data, row.size));
}

static void set_status(struct top_look *look)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));

	row_put_string(&row, "backend", "embedded");
	row_put_string(&row, "guard", "off: a long story");
	row_put_string(&row, "version", "0.1.0");
	row_put_u64(&row, "connections", 4);
	row_put_u64(&row, "tenants", 3);
	row_put_u64(&row, "uptime", 65);
	row_put_u64(&row, "charges", 50);
	row_put_u64(&row, "capacity", 100);
	row_put_u64(&row, "reserved", 25);
	look->status = row_copy(cursor_make(row.data, row.size));
}

static struct frame *begin(unsigned columns)
{
	struct frame *shown = calloc(1, sizeof(*shown));

	ck_assert_ptr_nonnull(shown);
	setlocale(LC_CTYPE, "C.UTF-8");
	set_status(&shown->frame.look);
	shown->frame.look.tenants.machine = 100;
	shown->frame.most = SIZE_MAX;
	shown->output = (struct output){ .terminal = true, .width = columns };
	return shown;
}

static struct frame *begin_with_three(unsigned columns)
{
	struct frame *shown = begin(columns);

	add(&shown->frame.look.tenants, (struct said){ "/system.slice/cron.service", 5, 10, 0, 1, 0, 0, 0 });
	add(&shown->frame.look.tenants, (struct said){ "/lxc/web", 8, 10, 9, 2, 7, 3, 1 });
	add(&shown->frame.look.tenants, (struct said){ "/demo/\033[2Jbad", 0, 0, 0, 1, 0, 0, 20 });
	return shown;
}

static void frame_free(struct frame **shown)
{
	top_look_deinit(&(*shown)->frame.look);
	free((*shown)->text);
	free(*shown);
}

static const char *print(struct frame *shown)
{
	free(shown->text);
	shown->output.file = open_memstream(&shown->text, &shown->size);
	ck_assert_ptr_nonnull(shown->output.file);
	top_frame_print(&shown->frame, &shown->output);
	fclose(shown->output.file);
	return shown->text;
}

static const char *print_keys(struct frame *shown)
{
	free(shown->text);
	shown->output.file = open_memstream(&shown->text, &shown->size);
	ck_assert_ptr_nonnull(shown->output.file);
	top_frame_print_keys(&shown->frame, &shown->output);
	fclose(shown->output.file);
	return shown->text;
}

TEST(a_frame_has_the_machine_and_its_tenants)
{
	_cleanup_(frame_free) struct frame *shown = begin_with_three(80);

	ck_assert_str_eq(print(shown),
			 "embedded  guard off  4 connections  3 tenants  up 1 min 5 s  userevd 0.1.0\n"
			 "events [||||||||||||||||||||||||            ::::::::::::] 50 of 100, 25 reserved\n"
			 "refused -/s  lost -/s  throttled -/s\n"
			 "NAME          USED          EVENTS  MAX  LINGER  CONN  REFUSED  REF/S  LOST/S\n"
			 "cron.service  [|||||     ]       5   10       0     1        0      -       -\n"
			 "lxc-web       [||||||||: ]       8   10       0     2        7      -       -\n"
			 "\\x1b[2Jbad    [          ]       0    -       0     1        0      -       -\n");
}

TEST(a_narrow_frame_has_the_important_columns)
{
	_cleanup_(frame_free) struct frame *shown = begin_with_three(40);

	ck_assert_str_eq(print(shown), "embedded  guard off  4 connections  3...\n"
				       "events  50 of 100, 25 reserved\n"
				       "refused -/s  lost -/s  throttled -/s\n"
				       "NAME          USED          EVENTS\n"
				       "cron.service  [|||||     ]       5\n"
				       "lxc-web       [||||||||: ]       8\n"
				       "\\x1b[2Jbad    [          ]       0\n");
}

TEST(a_wide_frame_has_all_columns)
{
	_cleanup_(frame_free) struct frame *shown = begin_with_three(200);

	ck_assert_ptr_nonnull(strstr(print(shown),
				     "EVENTS  MAX  +/-  RESERVE  LINGER  CONN  FILES  REFUSED  REF/S  LOST"
				     "  LOST/S  THROT  THR/S  TENANT\n"));
	ck_assert_ptr_nonnull(strstr(shown->text, "  /system.slice/cron.service\n"));
	ck_assert_ptr_nonnull(strstr(shown->text, "  /demo/\\x1b[2Jbad\n"));
}

TEST(help_explains_each_column)
{
	_cleanup_(frame_free) struct frame *shown = begin_with_three(80);

	shown->frame.help = true;
	print(shown);
	ck_assert_ptr_nonnull(strstr(shown->text, "EVENTS    events that the tenant holds"));
	ck_assert_ptr_nonnull(strstr(shown->text, "TENANT    the path of the cgroup"));
	ck_assert_ptr_nonnull(strstr(shown->text, "? goes back"));
	ck_assert_ptr_null(strstr(shown->text, "cron.service"));
}

TEST(the_sorted_column_is_shown_on_any_width)
{
	static const char *const titles[TENANT_ORDERS] = {
		[TENANTS_BY_EVENTS] = "EVENTS", [TENANTS_BY_CONNECTIONS] = "CONN", [TENANTS_BY_REFUSALS] = "REFUSED",
		[TENANTS_BY_LOST] = "LOST",	[TENANTS_BY_THROTTLED] = "THROT",  [TENANTS_BY_NAME] = "NAME",
	};
	_cleanup_(frame_free) struct frame *shown = begin_with_three(40);

	for (size_t i = 0; i < TENANT_ORDERS; i++) {
		shown->frame.order = i;
		ck_assert_msg(strstr(print(shown), titles[i]), "%s", titles[i]);
	}
}

TEST(no_line_is_wider_than_the_terminal)
{
	_cleanup_(frame_free) struct frame *shown = begin_with_three(0);

	for (int i = 0; i < 30; i++)
		add(&shown->frame.look.tenants,
		    (struct said){ "/some/\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", UINT64_MAX / 2,
				   UINT64_MAX - 1, 77, 123456789, 9876543210, 12345678, 1 });
	shown->frame.look.tenants.seconds = 0.001;
	string_copy(shown->frame.trouble, sizeof(shown->frame.trouble),
		    "The daemon has gone, and that is a sentence which is too long for many a terminal.");
	for (unsigned columns = 40; columns <= 200; columns++) {
		const char *line = NULL;
		char *rest;

		shown->output.width = columns;
		shown->frame.order = columns % TENANT_ORDERS;
		print(shown);
		for (rest = shown->text; (line = strsep(&rest, "\n"));)
			ck_assert_msg(display_width(line) <= columns, "%u: %s", columns, line);
	}
}

TEST(keys_and_position_are_on_the_last_line)
{
	_cleanup_(frame_free) struct frame *shown = begin_with_three(80);

	shown->frame.order = TENANTS_BY_LOST;
	ck_assert_str_eq(print_keys(shown),
			 "q quit  ? help  sort by: events connections refusals [lost] throttled name");
	shown->frame.most = 2;
	ck_assert_str_eq(print_keys(shown), "1-2 of 3  q quit  ? help  sort by: lost");
	shown->frame.first = 1;
	ck_assert_str_eq(print_keys(shown), "2-3 of 3  q quit  ? help  sort by: lost");
	print(shown);
	ck_assert_ptr_null(strstr(shown->text, "cron"));
	ck_assert_ptr_nonnull(strstr(shown->text, "bad"));
}

TEST(trouble_is_shown_above_the_last_numbers)
{
	_cleanup_(frame_free) struct frame *shown = begin_with_three(80);

	string_copy(shown->frame.trouble, sizeof(shown->frame.trouble), "The daemon has gone.");
	print(shown);
	ck_assert_ptr_nonnull(strstr(shown->text, "reserved\nThe daemon has gone.\nNAME"));
	ck_assert_ptr_nonnull(strstr(shown->text, "  7      -       -\n"));
}

TEST(a_frame_without_tenants_has_a_sentence)
{
	_cleanup_(frame_free) struct frame *shown = begin(80);

	ck_assert_ptr_nonnull(strstr(print(shown), "\nNo program is connected.\n"));
}

TEST(a_bar_is_coloured_by_its_share)
{
	static const struct {
		uint64_t events;
		const char *expected;
	} cases[] = {
		{ 1, "\033[32m[|         ]\033[0m" },	  { 79, "\033[32m[|||||||   ]\033[0m" },
		{ 80, "\033[33m[||||||||  ]\033[0m" },	  { 99, "\033[33m[||||||||| ]\033[0m" },
		{ 100, "\033[1;31m[||||||||||]\033[0m" }, { 250, "\033[1;31m[||||||||||]\033[0m" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(frame_free) struct frame *shown = begin(80);

		shown->output.colour = true;
		add(&shown->frame.look.tenants, (struct said){ "/demo/shop", cases[i].events, 100, 0, 1, 0, 0, 0 });
		ck_assert_msg(strstr(strstr(print(shown), "NAME"), cases[i].expected), "%s", shown->text);
	}
}

TEST(a_reserve_is_marked_inside_the_bar)
{
	_cleanup_(frame_free) struct frame *shown = begin(80);

	add(&shown->frame.look.tenants, (struct said){ "/demo/none", 0, 12, 3, 1, 0, 0, 0 });
	add(&shown->frame.look.tenants, (struct said){ "/demo/all", 0, 12, 40, 1, 0, 0, 0 });
	add(&shown->frame.look.tenants, (struct said){ "/demo/used", 4, 12, 3, 1, 0, 0, 0 });
	print(shown);
	ck_assert_ptr_nonnull(strstr(shown->text, "[::        ]"));
	ck_assert_ptr_nonnull(strstr(shown->text, "[::::::::::]"));
	ck_assert_ptr_nonnull(strstr(shown->text, "[|||       ]"));
}

TEST(a_bar_without_a_maximum_is_of_the_machine)
{
	_cleanup_(frame_free) struct frame *shown = begin(80);

	add(&shown->frame.look.tenants, (struct said){ "/demo/shop", 50, 0, 0, 1, 0, 0, 0 });
	ck_assert_ptr_nonnull(strstr(print(shown), "[|||||     ]      50    - "));
}

TEST(changes_are_per_second_and_a_new_tenant_had_none)
{
	_cleanup_(frame_free) struct frame *before = begin(130), *now = begin(130);

	add(&before->frame.look.tenants, (struct said){ "/demo/shop", 9, 10, 0, 1, 100, 5, 0 });
	add(&before->frame.look.tenants, (struct said){ "/demo/gone", 9, 10, 0, 1, 100, 5, 0 });
	add(&now->frame.look.tenants, (struct said){ "/demo/new", 3, 10, 0, 1, 40, 0, 0 });
	add(&now->frame.look.tenants, (struct said){ "/demo/shop", 7, 10, 0, 1, 103, 5, 0 });
	tenant_views_compare(&now->frame.look.tenants, &before->frame.look.tenants, 2);
	ck_assert_int_eq(now->frame.look.tenants.view[0].change[TENANT_EVENTS], 3);
	ck_assert_uint_eq(now->frame.look.tenants.view[0].change[TENANT_REFUSED], 40);
	ck_assert_int_eq(now->frame.look.tenants.view[1].change[TENANT_EVENTS], -2);
	ck_assert_uint_eq(now->frame.look.tenants.view[1].change[TENANT_REFUSED], 3);
	ck_assert_uint_eq(now->frame.look.tenants.view[1].change[TENANT_LOST], 0);
	print(now);
	ck_assert_ptr_nonnull(strstr(now->text, "refused 22/s  lost 0/s"));
	ck_assert_ptr_nonnull(strstr(now->text, "+3"));
	ck_assert_ptr_nonnull(strstr(now->text, "40     20 "));
	ck_assert_ptr_nonnull(strstr(now->text, "-2"));
	ck_assert_ptr_nonnull(strstr(now->text, "103    1.5 "));
}

TEST(counters_of_a_new_daemon_do_not_become_negative)
{
	_cleanup_(frame_free) struct frame *before = begin(80), *now = begin(80);

	add(&before->frame.look.tenants, (struct said){ "/demo/shop", 9, 10, 0, 1, 100, 5, 0 });
	add(&now->frame.look.tenants, (struct said){ "/demo/shop", 9, 10, 0, 1, 2, 0, 0 });
	tenant_views_compare(&now->frame.look.tenants, &before->frame.look.tenants, 1);
	ck_assert_uint_eq(now->frame.look.tenants.view[0].change[TENANT_REFUSED], 2);
	ck_assert_uint_eq(now->frame.look.tenants.view[0].change[TENANT_LOST], 0);
}

static void expect_order(struct tenant_views *views, enum tenant_order order, const char *expected)
{
	char names[64] = "";

	tenant_views_sort(views, order);
	for (size_t i = 0; i < views->n; i++)
		names[i] = views->view[i].name.text[0];
	ck_assert_str_eq(names, expected);
}

TEST(tenants_are_sorted_by_number_then_path)
{
	_cleanup_(tenant_views_deinit) struct tenant_views views = { 0 };

	add(&views, (struct said){ "/d", 1, 0, 0, 5, 0, 9, 1 });
	add(&views, (struct said){ "/a", 1, 0, 0, 6, 2, 1, 1 });
	add(&views, (struct said){ "/c", 3, 0, 0, 5, 0, 1, 1 });
	add(&views, (struct said){ "/b", 2, 0, 0, 1, 1, 1, 2 });
	expect_order(&views, TENANTS_BY_EVENTS, "cbad");
	expect_order(&views, TENANTS_BY_CONNECTIONS, "acdb");
	expect_order(&views, TENANTS_BY_REFUSALS, "abcd");
	expect_order(&views, TENANTS_BY_LOST, "dabc");
	expect_order(&views, TENANTS_BY_THROTTLED, "bacd");
	expect_order(&views, TENANTS_BY_NAME, "abcd");
}

TEST(refusals_are_listed_and_losses_are_summed)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));
	struct tenant_view view;
	char refusals[64];

	row_put_string(&row, "tenant", "/demo/shop");
	row_put_u64(&row, "lost", 1);
	row_put_u64(&row, "too_big", 20);
	row_put_u64(&row, "bad", 300);
	put_refusals(&row, 7);
	view = tenant_view_of(cursor_make(row.data, row.size));
	tenant_view_refusals(&view, refusals, sizeof(refusals));
	ck_assert_str_eq(refusals, "quota-exceeded 7");
	ck_assert_uint_eq(view.number[TENANT_REFUSED], 7);
	ck_assert_uint_eq(view.number[TENANT_LOST], 321);
	ck_assert(view.number[TENANT_EVENTS_MAX] == TENANT_NO_LIMIT);
}

TEST(keys_are_letters_and_arrows_also_in_pieces)
{
	static const struct {
		const char *bytes;
		int key; /* that the last byte completes */
	} cases[] = {
		{ "q", 'q' },
		{ "Q", 'q' },
		{ "?", '?' },
		{ "\033[A", KEY_UP },
		{ "\033OB", KEY_DOWN },
		{ "\033[", 0 },
		{ "C", KEY_RIGHT },
		{ "\033[D", KEY_LEFT },
		{ "\033[5~", KEY_PAGE_UP },
		{ "\033[6~", KEY_PAGE_DOWN },
		/* Keys that are not known, whose last letters are not taken for keys. */
		{ "\033[1;5C", 0 },
		{ "\033[123456789123456789q", 0 },
		{ "q", 'q' },
		/* The key Esc alone. */
		{ "\033q", 'q' },
		{ "\033\033[A", KEY_UP },
	};
	struct top_keys keys = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int key = 0;

		for (const char *byte = cases[i].bytes; *byte; byte++)
			key = top_keys_take(&keys, *byte);
		ck_assert_msg(key == cases[i].key, "%s: %d", cases[i].bytes, key);
	}
}
