/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>

#include "client/userevctl/tracing/tracefs.h"
#include "tests/suite.h"

/* "name type field; …", with a '*' before it for a multi-format event. */
static void add_row(struct catalogue *catalogue, const char *description)
{
	uint8_t buffer[4096];
	struct packet row = packet_make(buffer, sizeof(buffer));
	bool multi = *description == '*';
	char name[256];

	description += multi;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(description, " "), description);
	row_put_string(&row, "event", name);
	row_put_string(&row, "description", description);
	row_put_bool(&row, "multi_format", multi);
	catalogue_add_row(catalogue, cursor_make(row.data, row.size));
}

static unsigned looks;

/* The events of user_events_multi, and their fields. */
static int read_format(const char *system, const char *name, struct event_format *ret)
{
	static const char *const multi[][2] = {
		{ "mu.0", "u32 a" }, { "mu.1", "u64 b" }, { "mu.a", "" }, { "mu.1f", "u8 c" }
	};

	ck_assert_str_eq(system, "user_events_multi");
	looks++;
	for (size_t i = 0; i < ARRAY_SIZE(multi); i++) {
		if (!streq(multi[i][0], name))
			continue;
		string_copy(ret->fields, sizeof(ret->fields), multi[i][1]);
		return 0;
	}
	return -ENOENT;
}

static void merge(struct catalogue *catalogue, const char *status)
{
	_cleanup_(freep) char *text = strdup(status);

	looks = 0;
	catalogue_merge(catalogue, text, read_format);
}

TEST(rows_and_status_are_merged_by_name)
{
	static const struct {
		const char *rows[4], *status;
		const char *merged; /* "SHOWN NAME SYSTEM USERS", with a '!' before foreign events */
		size_t foreign;
	} cases[] = {
		{ { "shop u32 a", "bank" },
		  "shop # Used by ftrace perf\nother # Used by perf\nbank\n\nActive: 3\n",
		  "bank bank user_events 0\n!other other user_events 2\nshop shop user_events 3\n",
		  1 },
		/* Missing in tracefs. */
		{ { "gone u32 a", "*mu u64 b" }, "", "gone gone - 0\nmu mu - 0\n", 0 },
		/* Formats of one name differ by their fields. */
		{ { "*mu u64 b", "*mu u32 a", "*mu" },
		  "mu.1f # Used by perf\nmu.1 # Used by ftrace\nmu.0\nmu.a # Used by other\n",
		  "mu.0 mu user_events_multi 0\nmu.1 mu user_events_multi 1\n!mu.1f mu user_events_multi 2\n"
		  "mu.a mu user_events_multi 4\n",
		  1 },
		/* A plain event beside formats of its name, and beside a plain event with a dot. */
		{ { "mu u32 a" },
		  "mu # Used by perf\nmu.0\nmu.9\n",
		  "mu mu user_events 2\n!mu.0 mu user_events_multi 0\n!mu.9 mu.9 user_events 0\n",
		  2 },
		{ { "shop u32 a", "shop u32 a" },
		  "shop # Used by ftrace\n",
		  "shop shop user_events 1\nshop shop user_events 1\n",
		  0 },
		{ { "" }, "shop\n", "  - 0\n!shop shop user_events 0\n", 1 },
		{ { NULL }, "\nActive: 0\n", "", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
		char result[4096];
		struct text out = text_make(result, sizeof(result));

		for (const char *const *row = cases[i].rows; *row; row++)
			add_row(&catalogue, *row);
		merge(&catalogue, cases[i].status);
		for (const struct event *event = catalogue.events; event < catalogue.events + catalogue.n; event++)
			text_printf(&out, "%s%s %s %s %u\n", event->foreign ? "!" : "", event->shown, event->name,
				    event->system ? event->system : "-", event->used_by);
		ck_assert_str_eq(result, cases[i].merged);
		ck_assert_uint_eq(catalogue.foreign, cases[i].foreign);
		ck_assert(looks == 0 || strchr(cases[i].status, '.'));
	}
}

TEST(daemons_row_is_kept_and_foreign_event_has_none)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	const struct event *alien, *shop;
	char description[64],
		string[] =
			"p:kprobes/alien do_exit\nu:alien char[8] text; struct point p 16\nu:gone u32 n\nu:shop u8 x\n";

	add_row(&catalogue, "shop u32 a; u64 b");
	catalogue_add_row(&catalogue, cursor_make(NULL, 0)); /* does no harm */
	merge(&catalogue, "1:shop\n2:alien # Used by other\n");
	ck_assert_uint_eq(catalogue.n, 3);
	alien = &catalogue.events[1];
	shop = &catalogue.events[2];
	ck_assert_str_eq(shop->fields, "u32 a; u64 b");
	row_get_string(shop->row, "description", description, sizeof(description));
	ck_assert_str_eq(description, "shop u32 a; u64 b");
	ck_assert(!shop->on);
	ck_assert(alien->on);
	ck_assert_ptr_null(alien->fields);
	catalogue_learn_fields(&catalogue, string);
	ck_assert_str_eq(alien->fields, "char[8] text; struct point p 16");
	ck_assert_str_eq(shop->fields, "u32 a; u64 b");
	ck_assert_uint_eq(alien->row.left, 0);
}
