/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Names of sessions, of their instances, and of their groups of probes. */

#include "client/userevctl/session/session.h"
#include "tests/suite.h"

#define FIFTY_SIX "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

TEST(a_session_has_a_name_that_is_no_path)
{
	static const char *const good[] = { "a", "0", "_", "Shop-1.slow", "a..", (FIFTY_SIX "bbbbbbbb") },
				 *const bad[] = { "",	  ".",	 "..",	".a",	    "-a",  "a/b",
						  "../a", "a b", "a:b", "\xc3\xa4", "a\n", (FIFTY_SIX "bbbbbbbbb") };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ck_assert_msg(session_name_is_good(good[i]), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!session_name_is_good(bad[i]), "%s", bad[i]);
}

TEST(an_instance_of_another_program_is_no_session)
{
	ck_assert_str_eq(session_of_instance("userevd-a.b"), "a.b");
	ck_assert_ptr_null(session_of_instance("userevd-"));
	ck_assert_ptr_null(session_of_instance("userevd-..x/y"));
	ck_assert_ptr_null(session_of_instance("userevctl-12"));
	ck_assert_ptr_null(session_of_instance(""));
}

TEST(a_group_tells_its_session)
{
	static const struct {
		const char *name, *group;
	} cases[] = {
		{ "a", "userevd_a" },
		{ "a_b-c.d", "userevd_a__b_dc_pd" },
		{ "_d", "userevd___d" },
	};
	char group[SESSION_GROUP_MAX], name[SESSION_GROUP_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ck_assert(session_group(cases[i].name, group));
		ck_assert_str_eq(group, cases[i].group);
		ck_assert(session_of_group(group, name));
		ck_assert_str_eq(name, cases[i].name);
	}
	/* 63 bytes are the kernel's most. */
	ck_assert(session_group(FIFTY_SIX + 1, group));
	ck_assert(session_of_group(group, name));
	ck_assert(!session_group(FIFTY_SIX, group));
}

TEST(a_group_of_another_program_is_no_sessions)
{
	static const char *const groups[] = { "",	    "userevd",	   "userevd_",
					      "userevd_a_", "userevd_a_x", "userevd__",
					      "userevd__d", "kprobes",	   ("userevd_" FIFTY_SIX) };
	char name[SESSION_GROUP_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		ck_assert_msg(!session_of_group(groups[i], name), "%s", groups[i]);
}
