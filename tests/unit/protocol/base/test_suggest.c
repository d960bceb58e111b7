/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/base/suggest.h"

#include "tests/suite.h"

TEST(distance_is_the_number_of_edits)
{
	ck_assert_uint_eq(edit_distance("status", "status"), 0);
	ck_assert_uint_eq(edit_distance("Status", "sTATUS"), 0);
	ck_assert_uint_eq(edit_distance("stauts", "status"), 1);
	ck_assert_uint_eq(edit_distance("statu", "status"), 1);
	ck_assert_uint_eq(edit_distance("sstatus", "status"), 1);
	ck_assert_uint_eq(edit_distance("stapus", "status"), 1);
	ck_assert_uint_eq(edit_distance("", "status"), 6);
	ck_assert_uint_eq(edit_distance("kitten", "sitting"), 3);
}

static void suggest_name(struct suggestions *suggestions, const char *name)
{
	suggest(suggestions, name, strlen(name));
}

TEST(similar_names_are_suggested_nearest_first)
{
	struct suggestions suggestions = { .wanted = "http_reqest" };

	suggest_name(&suggestions, "backup_done");
	ck_assert_ptr_null(suggestions_nearest(&suggestions));
	suggest_name(&suggestions, "my_http_reqest_too");
	suggest_name(&suggestions, "http_request2");
	suggest_name(&suggestions, "http_request");
	ck_assert_uint_eq(suggestions.count, 3);
	ck_assert_str_eq(suggestions.best[0].name, "http_request");
	ck_assert_str_eq(suggestions.best[1].name, "http_request2");
	ck_assert_str_eq(suggestions.best[2].name, "my_http_reqest_too");
}

TEST(five_nearest_names_are_kept)
{
	static const char *const names[] = { "aaaaaaaabb", "aaaaaaaaabb", "aaaaaaaaa", "aaaaaaaaab",
					     "aaaaaaabbb", "aaaaaaaaaa",  "aaaaaaaa" };
	struct suggestions suggestions = { .wanted = "aaaaaaaaaa" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		suggest_name(&suggestions, names[i]);
	ck_assert_uint_eq(suggestions.count, 5);
	ck_assert_str_eq(suggestions.best[0].name, "aaaaaaaaaa");
	for (size_t i = 1; i < suggestions.count; i++)
		ck_assert_uint_le(suggestions.best[i - 1].distance, suggestions.best[i].distance);
	ck_assert_uint_eq(suggestions.best[4].distance, 2);
}

TEST(a_suggested_name_is_safe_to_show)
{
	struct suggestions suggestions = { .wanted = "hello" };

	suggest(&suggestions, "hello\033[2J", strlen("hello\033[2J"));
	ck_assert_str_eq(suggestions_nearest(&suggestions), "hello\\x1b[2J");
}
