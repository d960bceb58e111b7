/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>

#include "client/userevctl/tracing/tracefs.h"
#include "tests/suite.h"

static void add_row(struct catalogue *catalogue, const char *description, bool multi)
{
	uint8_t buffer[4096];
	struct packet row = packet_make(buffer, sizeof(buffer));
	char name[256];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(description, " "), description);
	row_put_string(&row, "event", name);
	row_put_string(&row, "description", description);
	row_put_bool(&row, "multi_format", multi);
	ck_assert_int_eq(catalogue_add_row(catalogue, cursor_make(row.data, row.size)), 0);
}

/* What this kernel has in user_events_multi. */
static bool look(void *data, const char *shown, char *ret_fields, size_t size)
{
	static const char *const multi[][2] = {
		{ "mu.0", "u32 a" },
		{ "mu.1", "u64 b" },
		{ "mu.a", "" },
		{ "mu.1f", "u8 c" },
	};
	unsigned *looks = data;

	++*looks;
	for (size_t i = 0; i < ARRAY_SIZE(multi); i++) {
		if (!streq(multi[i][0], shown))
			continue;
		string_copy(ret_fields, size, multi[i][1]);
		return true;
	}
	return false;
}

static unsigned looks;

static void merge(struct catalogue *catalogue, const char *status)
{
	looks = 0;
	ck_assert_int_eq(catalogue_add_status(catalogue, status, strlen(status)), 0);
	ck_assert_int_eq(catalogue_merge(catalogue, look, &looks), 0);
}

/* "SHOWN SYSTEM USERS": a line for each; foreign ones with "!" in front. */
static const char *said(const struct catalogue *catalogue)
{
	static char result[4096];
	struct text out = text_make(result, sizeof(result));

	for (size_t i = 0; i < catalogue->n; i++) {
		struct event_view view;

		catalogue_view(&catalogue->events[i], &view);
		text_printf(&out, "%s%s %s %u\n", view.foreign ? "!" : "", view.shown, view.system ? view.system : "-",
			    view.used_by);
	}
	return result;
}

TEST(an_event_of_the_daemon_has_its_tracers)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	add_row(&catalogue, "shop u32 a", false);
	add_row(&catalogue, "bank", false);
	merge(&catalogue, "shop # Used by ftrace perf\nother # Used by perf\nbank\n\nActive: 3\n");
	ck_assert_str_eq(said(&catalogue), "bank user_events 0\n"
					   "!other user_events 2\n"
					   "shop user_events 3\n");
	ck_assert_uint_eq(catalogue.foreign, 1);
	ck_assert_uint_eq(looks, 0);
}

TEST(a_row_of_the_daemon_is_kept_whole)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	struct event_view view;
	char description[64];

	add_row(&catalogue, "shop u32 a; u64 b", false);
	merge(&catalogue, "1:shop\n");
	catalogue_view(&catalogue.events[0], &view);
	ck_assert_str_eq(view.name, "shop");
	ck_assert_str_eq(view.fields, "u32 a; u64 b");
	row_get_string(view.row, "description", description, sizeof(description));
	ck_assert_str_eq(description, "shop u32 a; u64 b");
	ck_assert(!view.on);
}

TEST(a_foreign_event_has_no_row_and_no_fields_yet)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	struct event_view view;

	merge(&catalogue, "alien # Used by other\n");
	catalogue_view(&catalogue.events[0], &view);
	ck_assert(view.foreign);
	ck_assert(view.on);
	ck_assert_ptr_null(view.fields);
	ck_assert_uint_eq(view.row.left, 0);
}

TEST(an_event_missing_in_tracefs_has_no_system)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	add_row(&catalogue, "gone u32 a", false);
	add_row(&catalogue, "mu u64 b", true);
	merge(&catalogue, "");
	ck_assert_str_eq(said(&catalogue), "gone - 0\nmu - 0\n");
}

TEST(formats_of_one_name_differ_by_their_fields)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	add_row(&catalogue, "mu u64 b", true);
	add_row(&catalogue, "mu u32 a", true);
	add_row(&catalogue, "mu", true);
	merge(&catalogue, "mu.1f # Used by perf\nmu.1 # Used by ftrace\nmu.0\nmu.a # Used by other\n");
	ck_assert_str_eq(said(&catalogue), "mu.0 user_events_multi 0\n"
					   "mu.1 user_events_multi 1\n"
					   "!mu.1f user_events_multi 2\n"
					   "mu.a user_events_multi 4\n");
	for (size_t i = 0; i < catalogue.n; i++)
		ck_assert_str_eq(catalogue.events[i].name, "mu");
}

TEST(a_plain_event_is_not_multi_format)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	add_row(&catalogue, "mu u32 a", false);
	merge(&catalogue, "mu # Used by perf\nmu.0\nmu.9\n");
	ck_assert_str_eq(said(&catalogue), "mu user_events 2\n"
					   "!mu.0 user_events_multi 0\n"
					   "!mu.9 user_events 0\n");
	ck_assert_str_eq(catalogue.events[1].name, "mu");
	ck_assert_str_eq(catalogue.events[2].name, "mu.9");
}

TEST(a_name_that_looks_like_two_is_listed_once)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	add_row(&catalogue, "shop u32 a", false);
	merge(&catalogue, "x\nshop\nx # Used by perf\nshop # Used by ftrace\nx\n");
	ck_assert_str_eq(said(&catalogue), "shop user_events 1\n!x user_events 2\n");
}

TEST(two_rows_of_one_name_are_both_kept)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	add_row(&catalogue, "shop u32 a", false);
	add_row(&catalogue, "shop u32 a", false);
	merge(&catalogue, "shop # Used by ftrace\n");
	ck_assert_str_eq(said(&catalogue), "shop user_events 1\nshop user_events 1\n");
	ck_assert_uint_eq(catalogue.foreign, 0);
}

TEST(an_empty_catalogue_stays_empty)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	merge(&catalogue, "\nActive: 0\n");
	ck_assert_uint_eq(catalogue.n, 0);
}

TEST(an_empty_row_does_no_harm)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };

	ck_assert_int_eq(catalogue_add_row(&catalogue, cursor_make(NULL, 0)), 0);
	merge(&catalogue, "shop\n");
	ck_assert_uint_eq(catalogue.n, 2);
}

TEST(thirty_thousand_events_are_merged)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	_cleanup_(freep) char *status = malloc(1 << 20);
	struct text out;

	ck_assert_ptr_nonnull(status);
	out = text_make(status, 1 << 20);
	for (unsigned i = 0; i < 30000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "event_%u", i * 7919 % 30000);
		if (i % 2 == 0)
			add_row(&catalogue, name, false);
		text_printf(&out, "%s # Used by ftrace\n", name);
	}
	ck_assert(!out.cut);
	merge(&catalogue, status);
	ck_assert_uint_eq(catalogue.n, 30000);
	ck_assert_uint_eq(catalogue.foreign, 15000);
}

TEST(a_name_with_a_slash_is_no_file_name)
{
	ck_assert(catalogue_is_file_name("foo"));
	ck_assert(catalogue_is_file_name("mu.0"));
	ck_assert(catalogue_is_file_name("..."));
	ck_assert(!catalogue_is_file_name(""));
	ck_assert(!catalogue_is_file_name("."));
	ck_assert(!catalogue_is_file_name(".."));
	ck_assert(!catalogue_is_file_name("../../sched/sched_switch"));
	ck_assert(!catalogue_is_file_name("a/b"));
}
