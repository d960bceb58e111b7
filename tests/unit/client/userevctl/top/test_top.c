/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/top/top.h"

#include <locale.h>

#include "tests/suite.h"

/* An answer of a daemon, and how its frame is printed. */
struct frame {
	struct top_frame frame;
	struct output output;
};

static char printed[65536];

struct tenant {
	const char *path;
	uint64_t events, events_max, reserved, connections, refused, lost, throttled;
};

static uint8_t row_buffer[8192];

static void add(struct tenant_views *views, struct tenant tenant)
{
	struct packet row = packet_make(row_buffer, sizeof(row_buffer));
	size_t rows, item;

	row_put_string(&row, "tenant", tenant.path);
	row_put_u64(&row, "connections", tenant.connections);
	row_put_u64(&row, "events", tenant.events);
	if (tenant.events_max > 0)
		row_put_u64(&row, "events_max", tenant.events_max);
	row_put_u64(&row, "reserved", tenant.reserved);
	row_put_u64(&row, "lingering", 0);
	row_put_u64(&row, "files", 0);
	/* Three kinds of losses. */
	row_put_u64(&row, "lost", tenant.lost - MIN(tenant.lost, 2U));
	row_put_u64(&row, "too_big", tenant.lost > 0);
	row_put_u64(&row, "bad", tenant.lost > 1);
	row_put_u64(&row, "throttled", tenant.throttled);
	rows = row_begin_rows(&row, "refusals");
	item = row_begin_item(&row);
	row_put_string(&row, "reason", "quota-exceeded");
	row_put_u64(&row, "count", tenant.refused);
	row_end_item(&row, item);
	row_end_rows(&row, rows);
	tenant_views_add(views, cursor_make(row.data, row.size));
}

static void set_status(struct tenant_views *views)
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
	views->status = row_copy(cursor_make(row.data, row.size));
}

static struct frame begin(unsigned columns)
{
	struct frame shown = {
		.frame = { .most = SIZE_MAX },
		.output = { .terminal = true, .width = columns },
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	set_status(&shown.frame.tenants);
	return shown;
}

static struct frame begin_with_three(unsigned columns)
{
	struct frame shown = begin(columns);

	add(&shown.frame.tenants, (struct tenant){ "/system.slice/cron.service", 5, 10, 0, 1, 0, 0, 0 });
	add(&shown.frame.tenants, (struct tenant){ "/lxc/web", 8, 10, 9, 2, 7, 3, 1 });
	add(&shown.frame.tenants, (struct tenant){ "/demo/\033[2Jbad", 0, 0, 0, 1, 0, 0, 20 });
	return shown;
}

static void frame_deinit(struct frame *shown)
{
	tenant_views_deinit(&shown->frame.tenants);
}

static const char *print(struct frame *shown)
{
	shown->output.file = fmemopen(printed, sizeof(printed), "w");
	ck_assert_ptr_nonnull(shown->output.file);
	top_frame_print(&shown->frame, &shown->output);
	fclose(shown->output.file);
	return printed;
}

static void expect_shown(struct frame *shown, const char *const *texts, size_t n)
{
	print(shown);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(strstr(printed, texts[i]), "no '%s' in: %s", texts[i], printed);
}
#define EXPECT_SHOWN(shown, ...)                                                                                       \
	expect_shown(shown, (const char *const[]){ __VA_ARGS__ }, ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

TEST(a_frame_has_the_columns_that_fit)
{
	_cleanup_(frame_deinit) struct frame shown = begin_with_three(80);

	ck_assert_str_eq(print(&shown),
			 "embedded  guard off  4 connections  3 tenants  up 1 min 5 s  userevd 0.1.0\n"
			 "events [||||||||||||||||||||||||            ::::::::::::] 50 of 100, 25 reserved\n"
			 "refused -/s  lost -/s  throttled -/s\n"
			 "NAME          USED          EVENTS  MAX  LINGER  CONN  REFUSED  REF/S  LOST/S\n"
			 "cron.service  [|||||     ]       5   10       0     1        0      -       -\n"
			 "web (lxc)     [||||||||: ]       8   10       0     2        7      -       -\n"
			 "\\x1b[2Jbad    [          ]       0    -       0     1        0      -       -\n");
	shown.output.width = 40;
	ck_assert_str_eq(print(&shown), "embedded  guard off  4 connections  3...\n"
					"events  50 of 100, 25 reserved\n"
					"refused -/s  lost -/s  throttled -/s\n"
					"NAME          USED          EVENTS\n"
					"cron.service  [|||||     ]       5\n"
					"web (lxc)     [||||||||: ]       8\n"
					"\\x1b[2Jbad    [          ]       0\n");
	shown.output.width = 200;
	EXPECT_SHOWN(&shown,
		     "EVENTS  MAX  +/-  RESERVE  LINGER  CONN  FILES  REFUSED  REF/S  LOST"
		     "  LOST/S  THROT  THR/S\n",
		     "  7      -     3       -      1      -\n", "  /system.slice/cron.service  [",
		     "  /demo/\\x1b[2Jbad            [");
}

TEST(help_trouble_and_no_tenant_have_sentences)
{
	_cleanup_(frame_deinit) struct frame shown = begin_with_three(80), empty = begin(80);

	shown.frame.help = true;
	EXPECT_SHOWN(&shown, "EVENTS   events that the tenant holds", "TENANT   the path of the cgroup", "? goes back");
	ck_assert_ptr_null(strstr(printed, "cron.service"));
	shown.frame.help = false;
	string_copy(shown.frame.trouble, sizeof(shown.frame.trouble), "The daemon has gone.");
	EXPECT_SHOWN(&shown, "reserved\nThe daemon has gone.\nNAME", "  7      -       -\n");
	EXPECT_SHOWN(&empty, "\nNo program is connected.\n");
}

TEST(the_sorted_column_is_shown_on_any_width)
{
	static const char *const titles[TENANT_ORDERS] = { "EVENTS", "CONN", "REFUSED", "LOST", "THROT", "NAME" };
	_cleanup_(frame_deinit) struct frame shown = begin_with_three(40);

	for (shown.frame.order = 0; shown.frame.order < TENANT_ORDERS; shown.frame.order++)
		EXPECT_SHOWN(&shown, titles[shown.frame.order]);
}

TEST(no_line_is_wider_than_the_terminal)
{
	_cleanup_(frame_deinit) struct frame shown = begin_with_three(0);

	for (int i = 0; i < 30; i++)
		add(&shown.frame.tenants,
		    (struct tenant){ "/some/\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", UINT64_MAX / 2,
				     UINT64_MAX - 1, 77, 123456789, 9876543210, 12345678, 1 });
	shown.frame.tenants.seconds = 0.001;
	string_copy(shown.frame.trouble, sizeof(shown.frame.trouble),
		    "The daemon has gone, and that is a sentence which is too long for many a terminal.");
	for (unsigned columns = 40; columns <= 200; columns++) {
		const char *line = NULL;
		char *rest;

		shown.output.width = columns;
		shown.frame.order = columns % TENANT_ORDERS;
		print(&shown);
		for (rest = printed; (line = strsep(&rest, "\n"));)
			ck_assert_msg(display_width(line) <= columns, "%u: %s", columns, line);
	}
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
		_cleanup_(frame_deinit) struct frame shown = begin(80);

		shown.output.colour = true;
		add(&shown.frame.tenants, (struct tenant){ "/demo/shop", cases[i].events, 100, 0, 1, 0, 0, 0 });
		ck_assert_msg(strstr(strstr(print(&shown), "NAME"), cases[i].expected), "%s", printed);
	}
}

TEST(a_reserve_is_marked_inside_the_bar)
{
	_cleanup_(frame_deinit) struct frame shown = begin(80);

	add(&shown.frame.tenants, (struct tenant){ "/demo/none", 0, 12, 3, 1, 0, 0, 0 });
	add(&shown.frame.tenants, (struct tenant){ "/demo/all", 0, 12, 40, 1, 0, 0, 0 });
	add(&shown.frame.tenants, (struct tenant){ "/demo/used", 4, 12, 3, 1, 0, 0, 0 });
	/* Without a maximum, of the machine. */
	add(&shown.frame.tenants, (struct tenant){ "/demo/shop", 50, 0, 0, 1, 0, 0, 0 });
	EXPECT_SHOWN(&shown, "[::        ]", "[::::::::::]", "[|||       ]", "[|||||     ]      50    - ");
}

TEST(changes_are_per_second_and_a_new_tenant_had_none)
{
	_cleanup_(frame_deinit) struct frame before = begin(130), now = begin(130);
	struct tenant_views *views = &now.frame.tenants;

	add(&before.frame.tenants, (struct tenant){ "/demo/shop", 9, 10, 0, 1, 100, 5, 0 });
	add(&before.frame.tenants, (struct tenant){ "/demo/gone", 9, 10, 0, 1, 100, 5, 0 });
	/* Its counters were restarted with the daemon. */
	add(&before.frame.tenants, (struct tenant){ "/demo/zero", 9, 10, 0, 1, 100, 5, 0 });
	add(views, (struct tenant){ "/demo/new", 3, 10, 0, 1, 40, 0, 0 });
	add(views, (struct tenant){ "/demo/shop", 7, 10, 0, 1, 103, 5, 0 });
	add(views, (struct tenant){ "/demo/zero", 9, 10, 0, 1, 2, 0, 0 });
	views->time = 2 * NS_PER_S;
	tenant_views_compare(views, &before.frame.tenants);
	ck_assert_int_eq(tenant_change(&views->view[0], "refusals"), 40);
	ck_assert_int_eq(tenant_change(&views->view[1], "lost"), 0);
	ck_assert_int_eq(tenant_change(&views->view[1], "events"), -2);
	ck_assert_int_eq(tenant_change(&views->view[2], "refusals"), 2);
	ck_assert_int_eq(tenant_change(&views->view[2], "lost"), 0);
	EXPECT_SHOWN(&now, "refused 22/s  lost 0/s", "+3", "40     20 ", "-2", "103    1.5 ");
}

static void expect_order(struct tenant_views *views, const char *order, const char *expected)
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

	add(&views, (struct tenant){ "/d", 1, 0, 0, 5, 0, 9, 1 });
	add(&views, (struct tenant){ "/a", 1, 0, 0, 6, 2, 1, 1 });
	add(&views, (struct tenant){ "/c", 3, 0, 0, 5, 0, 1, 1 });
	add(&views, (struct tenant){ "/b", 2, 0, 0, 1, 1, 1, 2 });
	expect_order(&views, "events", "cbad");
	expect_order(&views, "connections", "acdb");
	expect_order(&views, "refusals", "abcd");
	expect_order(&views, "lost", "dabc");
	expect_order(&views, "throttled", "bacd");
	expect_order(&views, "name", "abcd");
}

TEST(keys_are_letters_and_arrows)
{
	static const struct {
		const char *bytes;
		int keys[3];
	} cases[] = {
		{ "q", { 'q' } },
		{ "Q?", { 'q', '?' } },
		{ "\033[A\033OB", { KEY_UP, KEY_DOWN } },
		{ "\033[Cn\033[D", { KEY_RIGHT, 'n', KEY_LEFT } },
		{ "\033[5~\033[6~", { KEY_PAGE_UP, KEY_PAGE_DOWN } },
		/* Keys that are not known, whose last letters are not taken for keys. */
		{ "\033[1;5Cq", { 0, 'q' } },
		{ "\033[123456789123456789qq", { 0, 'q' } },
		/* The key Esc alone, and a sequence that is cut. */
		{ "\033q", { '\033', 'q' } },
		{ "\033\033[A", { '\033', KEY_UP } },
		{ "\033[", { '\033', '[' } },
		{ "\033[1;", { 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *at = cases[i].bytes, *end = at + strlen(at);

		for (size_t j = 0; at < end; j++) {
			int key = top_key_take(&at, end);

			ck_assert_msg(key == cases[i].keys[j], "%s: %d", cases[i].bytes, key);
		}
	}
}
