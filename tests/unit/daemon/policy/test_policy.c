/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/policy/policy.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "protocol/protocol.h"
#include "protocol/refusal.h"
#include "tests/suite.h"
#include "tests/unit/shortage.h"

/* Three directories, as the daemon has them, in one of the test's own. */
static char scratch[64];
static char directories[256];

static struct problems problems;

static bool begin(void)
{
	make_temporary_directory(scratch, sizeof(scratch));
	snprintf(directories, sizeof(directories), "%s/etc:%s/run:%s/lib", scratch, scratch, scratch);
	return true;
}

static int remove_one(const char *path, const struct stat *status _unused_, int type _unused_, struct FTW *at _unused_)
{
	return remove(path);
}

static void end(const bool *has_directory _unused_)
{
	problems_deinit(&problems);
	ck_assert_int_eq(nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* First in a test: they are gone at its end. */
#define FILES _cleanup_(end) bool has_directory _unused_ = begin()

static const char *in_scratch(const char *name)
{
	static char path[256];
	char *slash;

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	slash = strrchr(path, '/');
	*slash = '\0';
	mkdir(path, 0755);
	*slash = '/';
	return path;
}

static void put_bytes(const char *name, const char *bytes, size_t length)
{
	int fd = open(in_scratch(name), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
	close(fd);
}

static void put(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static const char *all_problems(void)
{
	static char buffer[8192];
	struct text text = text_make(buffer, sizeof(buffer));

	for (size_t i = 0; i < problems.n; i++) {
		char line[1024];
		struct text one = text_make(line, sizeof(line));

		problem_text(&problems.list[i], &one);
		text_printf(&text, "%s\n", line);
	}
	/* Without the directory, which is another one each time. */
	for (char *at = buffer; (at = strstr(at, scratch));)
		memmove(at, at + strlen(scratch) + 1, strlen(at + strlen(scratch) + 1) + 1);
	return buffer;
}

static struct policy *load(void)
{
	struct policy *policy = NULL;

	problems_deinit(&problems);
	ck_assert_msg(policy_load(directories, NULL, &problems, &policy) == 0, "%s", all_problems());
	return policy;
}

static struct policy *load_text(const char *text)
{
	put("etc/a.conf", text);
	return load();
}

static void expect_problems(int answer, const char *text, const char *expected)
{
	struct policy *policy = NULL;

	put("etc/a.conf", text);
	problems_deinit(&problems);
	ck_assert_int_eq(policy_load(directories, NULL, &problems, &policy), answer);
	ck_assert_str_eq(all_problems(), expected);
	ck_assert((policy == NULL) == (answer != 0));
	ck_assert((problems.errors > 0) == (answer != 0));
	policy_unref(policy);
	problems_deinit(&problems);
}

#define POLICY(name, text) _cleanup_(policy_unrefp) struct policy *name = load_text(text)

/* "value@file:line", or "nothing". */
static const char *show(enum policy_key key, const struct policy_value *value)
{
	static char buffer[512];
	struct text text = text_make(buffer, sizeof(buffer));

	if (!value)
		return "nothing";
	policy_value_text(key, value, &text);
	if (value->origin.file)
		text_printf(&text, "@%s:%u", strrchr(value->origin.file, '/') + 1, value->origin.line);
	return buffer;
}

static const char *looked_up(const struct policy *policy, const char *path, enum policy_key key)
{
	struct policy_rules rules;

	policy_lookup(policy, path, &rules);
	return show(key, rules.value[key]);
}

static const char *resolved(const struct policy *policy, const char *path, enum policy_key key)
{
	struct policy_rules rules;

	policy_resolve(policy, path, &rules);
	return show(key, rules.value[key]);
}

static const char *of_daemon(const struct policy *policy, enum policy_key key)
{
	return show(key, policy_daemon(policy, key));
}

/* --- files --- */

TEST(without_any_file_all_is_as_it_is_by_default)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = load();

	ck_assert_uint_eq(problems.n, 0);
	ck_assert_uint_eq(policy_count_files(policy), 0);
	ck_assert_str_eq(looked_up(policy, "/a", POLICY_MAX_EVENTS), "nothing");
	ck_assert_str_eq(resolved(policy, "/a", POLICY_ALLOW_EVENTS), "*");
	ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), "1024");
}
END_TEST

TEST(files_are_read_in_the_order_of_their_names_whichever_directory_they_are_in)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("lib/30-c.conf", "[Daemon]\nDefaultMaxEvents=3\n");
	put("etc/10-a.conf", "[Daemon]\nDefaultMaxEvents=1\nKernelMargin=1\n");
	put("run/20-b.conf", "[Daemon]\nDefaultMaxEvents=2\nKernelMargin=2\n");
	policy = load();
	ck_assert_uint_eq(policy_count_files(policy), 3);
	ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), "3@30-c.conf:2");
	ck_assert_str_eq(of_daemon(policy, POLICY_KERNEL_MARGIN), "2@20-b.conf:3");
}
END_TEST

TEST(of_the_same_name_the_first_directory_has_the_file)
{
	FILES;
	static const char *const files[] = { "lib/a.conf", "run/a.conf", "etc/a.conf" };
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_(policy_unrefp) struct policy *policy = NULL;

		snprintf(text, sizeof(text), "[Daemon]\nDefaultMaxEvents=%zu\n%s", i, i == 0 ? "KernelMargin=5\n" : "");
		put(files[i], text);
		policy = load();
		snprintf(text, sizeof(text), "%zu@a.conf:2", i);
		ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), text);
		/* All of it is hidden, not only what is said again. */
		ck_assert_str_eq(of_daemon(policy, POLICY_KERNEL_MARGIN), i == 0 ? "5@a.conf:3" : "256");
	}
}
END_TEST

TEST(a_link_to_dev_null_and_an_empty_file_hide_a_file_and_say_nothing)
{
	FILES;
	put("lib/a.conf", "[Daemon]\nDefaultMaxEvents=1\n");
	put("lib/b.conf", "[Daemon]\nKernelMargin=1\n");
	for (unsigned i = 0; i < 2; i++) {
		_cleanup_(policy_unrefp) struct policy *policy = NULL;

		if (i == 0)
			ck_assert_int_eq(symlink("/dev/null", in_scratch("etc/a.conf")), 0);
		else
			put("etc/a.conf", "");
		policy = load();
		ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), "1024");
		ck_assert_str_eq(of_daemon(policy, POLICY_KERNEL_MARGIN), "1@b.conf:2");
		ck_assert_uint_eq(policy_count_files(policy), 1);
		unlink(in_scratch("etc/a.conf"));
	}
}
END_TEST

TEST(only_names_that_end_with_conf_are_read_and_hidden_ones_are_not)
{
	FILES;
	static const char *const names[] = { "etc/a.conf~", "etc/.a.conf", "etc/conf", "etc/README", "etc/a.conf.bak" };
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put(names[i], "nonsense\n");
	policy = load();
	ck_assert_uint_eq(policy_count_files(policy), 0);
}
END_TEST

TEST(a_link_to_a_file_is_that_file)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("shared", "[Daemon]\nDefaultMaxEvents=9\n");
	ck_assert_int_eq(symlink("../shared", in_scratch("etc/a.conf")), 0);
	policy = load();
	ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), "9@a.conf:2");
}
END_TEST

static void expect_unreadable(const char *expected)
{
	struct policy *policy = NULL;

	problems_deinit(&problems);
	ck_assert_int_eq(policy_load(directories, NULL, &problems, &policy), POLICY_E_WRONG);
	ck_assert_ptr_null(policy);
	ck_assert_str_eq(all_problems(), expected);
	problems_deinit(&problems);
}

TEST(what_cannot_be_read_is_an_error_for_it_might_have_said_no)
{
	FILES;
	ck_assert_int_eq(symlink("nowhere", in_scratch("etc/a.conf")), 0);
	expect_unreadable("etc/a.conf: cannot be read: No such file or directory\n");
	unlink(in_scratch("etc/a.conf"));
	ck_assert_int_eq(mkdir(in_scratch("etc/a.conf"), 0755), 0);
	expect_unreadable("etc/a.conf: cannot be read: Is a directory\n");
	rmdir(in_scratch("etc/a.conf"));
	/* Nobody writes to it: to open it would be to wait for ever. */
	ck_assert_int_eq(mkfifo(in_scratch("etc/a.conf"), 0644), 0);
	expect_unreadable("etc/a.conf: cannot be read: it is no file\n");
	unlink(in_scratch("etc/a.conf"));
	put("run", "a file instead of a directory");
	expect_unreadable("run: cannot be read: Not a directory\n");
}
END_TEST

TEST(a_file_that_is_too_large_or_no_text_is_refused)
{
	FILES;
	enum { MOST = 1 << 20 };
	char *text = malloc(MOST + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, '#', MOST + 1);
	put_bytes("etc/a.conf", text, MOST);
	policy_unref(load());
	put_bytes("etc/a.conf", text, MOST + 1);
	expect_unreadable("etc/a.conf: cannot be read: File too large\n");
	free(text);
	put_bytes("etc/a.conf", "[Daemon]\0", 9);
	expect_unreadable("etc/a.conf: is no text: byte 9 is zero\n");
}
END_TEST

TEST(a_root_stands_in_front_of_each_directory)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("etc/a.conf", "[Daemon]\nDefaultMaxEvents=9\n");
	ck_assert_int_eq(policy_load("/etc:/run::/lib:", scratch, &problems, &policy), 0);
	ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), "9@a.conf:2");
}
END_TEST

TEST(files_that_are_named_are_read_alone_and_in_that_order)
{
	FILES;
	char first[256], second[256];
	char *const files[] = { first, second };
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("etc/z.conf", "[Daemon]\nDefaultMaxEvents=1\nKernelMargin=1\n");
	put("etc/a", "[Daemon]\nDefaultMaxEvents=2\n");
	put("etc/b.conf", "nonsense\n");
	string_copy(first, sizeof(first), in_scratch("etc/z.conf"));
	string_copy(second, sizeof(second), in_scratch("etc/a"));
	ck_assert_int_eq(policy_load_files(files, 2, &problems, &policy), 0);
	ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), "2@a:2");
	ck_assert_str_eq(of_daemon(policy, POLICY_KERNEL_MARGIN), "1@z.conf:3");
}
END_TEST

/* --- what is wrong --- */

TEST(an_error_names_file_line_key_and_what_would_be_right)
{
	FILES;
	expect_problems(POLICY_E_WRONG, "[/a]\n\nMaxEvents=many\n",
			"etc/a.conf:3: MaxEvents=many: not a number; give 0 to 65535, or infinity\n");
	expect_problems(
		POLICY_E_WRONG, "MaxEvents=1\n[/a]\n",
		"etc/a.conf:1: MaxEvents: stands in no section; begin one with [Daemon] or with a pattern of cgroups\n");
	expect_problems(POLICY_E_WRONG, "[/a]\nMaxEvents 5\n",
			"etc/a.conf:2: MaxEvents 5: write [Section], Key=value, or # and a comment\n");
	expect_problems(
		POLICY_E_WRONG, "[/a//b]\nMaxEvents=5\n",
		"etc/a.conf:1: [/a//b]: between two slashes, and behind the last one, there has to be a name\n");
	expect_problems(
		POLICY_E_WRONG, "[/a[b]\n",
		"etc/a.conf:1: [/a[b]: a '[' has no ']' in the same name; write \\[ for the character itself\n");
	expect_problems(POLICY_E_WRONG, "[/a]\nDenyEvents=a \\\n  b,c\n",
			"etc/a.conf:2: DenyEvents=a    b,c: no name of an event has a ','; "
			"write globs such as http_*, with blanks between them\n");
}
END_TEST

TEST(all_that_is_wrong_is_said_at_once)
{
	FILES;
	struct policy *policy = NULL;

	put("etc/a.conf", "[/a]\nMaxEvents=many\nStream=both\n");
	put("etc/b.conf", "[Daemon]\nGuard=no\n");
	problems_deinit(&problems);
	ck_assert_int_eq(policy_load(directories, NULL, &problems, &policy), POLICY_E_WRONG);
	ck_assert_str_eq(all_problems(), "etc/a.conf:2: MaxEvents=many: not a number; give 0 to 65535, or infinity\n"
					 "etc/a.conf:3: Stream=both: give auto, shared or client\n"
					 "etc/b.conf:2: Guard=no: give require, prefer or off\n");
	ck_assert_uint_eq(problems.errors, 3);
	ck_assert_str_eq(problems.list[1].key, "Stream");
	ck_assert_uint_eq(problems.list[1].line, 3);
	problems_deinit(&problems);
}
END_TEST

TEST(what_nobody_knows_is_a_warning_with_what_may_have_been_meant)
{
	FILES;
	expect_problems(0, "[/a]\nMaxEvent=5\n",
			"etc/a.conf:2: warning: MaxEvent=: there is no such key; did you mean MaxEvents=?\n");
	expect_problems(0, "[/a]\nDescription=5\n",
			"etc/a.conf:2: warning: Description=: there is no such key; see userevd.conf(5)\n");
	expect_problems(0, "[/a]\nGuard=off\n",
			"etc/a.conf:2: warning: Guard=: belongs in [Daemon]; here it is ignored\n");
	expect_problems(0, "[Daemon]\nMaxEvents=5\n",
			"etc/a.conf:2: warning: MaxEvents=: belongs in a section of cgroups such as [/system.slice/*]; "
			"here it is ignored\n");
	/* What stands in such a section is said nothing of: it is all of no effect. */
	expect_problems(0, "[daemon]\nGuard=perhaps\n",
			"etc/a.conf:1: warning: [daemon]: there is no such section; did you mean [Daemon]?\n");
	expect_problems(
		0, "[/a]\n[system.slice/*]\nMaxEvents=many\n",
		"etc/a.conf:2: warning: [system.slice/*]: there is no such section; "
		"a pattern of cgroups begins with '/', such as [/system.slice/*], and an event is [Event NAME]\n");
	expect_problems(
		0, "[]\n",
		"etc/a.conf:1: warning: []: there is no such section; "
		"a pattern of cgroups begins with '/', such as [/system.slice/*], and an event is [Event NAME]\n");
}
END_TEST

static void expect_strict(const char *text, size_t errors)
{
	struct policy *policy = NULL;

	put("etc/a.conf", text);
	problems_deinit(&problems);
	ck_assert_int_eq(policy_load(directories, NULL, &problems, &policy), 0);
	policy_unref(policy);
	problems_be_strict(&problems);
	ck_assert_uint_eq(problems.errors, errors);
	ck_assert_uint_eq(problems.n, 1);
	ck_assert((problems.list[0].severity == PROBLEM_ERROR) == (errors == 1));
	problems_deinit(&problems);
}

TEST(unknown_keys_are_errors_where_files_are_strict)
{
	FILES;
	expect_strict("[/a]\nMaxEvent=5\n", 1);
	expect_strict("[/a]\nDescription=5\n", 1);
	expect_strict("[/a]\nGuard=off\n", 1);
	expect_strict("[daemon]\nGuard=off\n", 1);
	/* It does what it says, and is good for every daemon. */
	expect_strict("[/a]\nMaxEvents=5\nReserveEvents=6\n", 0);
}
END_TEST

TEST(a_maximum_below_its_sections_reserve_is_warned_of)
{
	FILES;
	expect_problems(0,
			"[/a]\nMaxEvents=60\nReserveEvents=60\n[/b]\nReserveEvents=60\n"
			"[/c]\nMaxEvents=infinity\nReserveEvents=60\n[/d]\nMaxEvents=\nReserveEvents=60\n",
			"");
	expect_problems(
		0, "[/a]\nReserveEvents=60\n[/b]\n[/a]\nMaxEvents=59\n",
		"etc/a.conf:5: warning: MaxEvents=59: ReserveEvents=60 of the same section is more, and nobody can "
		"use the rest of it\n");
	/* One sum for all of them, and a maximum for each. */
	expect_problems(0, "[/a/*]\nMaxEvents=25\nReserveEvents=60\n",
			"etc/a.conf:2: warning: MaxEvents=25: ReserveEvents=60 of the same section is more: it takes 3 "
			"cgroups to use it\n");
	expect_problems(
		0, "[/a/*]\nMaxEvents=0\nReserveEvents=60\n",
		"etc/a.conf:2: warning: MaxEvents=0: ReserveEvents=60 of the same section is more, and nobody can "
		"use the rest of it\n");
}
END_TEST

TEST(sections_that_match_a_cgroup_are_told_apart)
{
	FILES;
	POLICY(policy, "[/a/*]\n[/b]\n[/c/**]\n");
	bool matched[3] = { false };

	ck_assert_uint_eq(policy_count_sections(policy), ARRAY_SIZE(matched));
	policy_match(policy, "/", matched);
	policy_match(policy, "/a", matched);
	policy_match(policy, "/c/d/e", matched);
	ck_assert(!matched[0] && !matched[1] && matched[2]);
	policy_match(policy, "/a/b", matched);
	ck_assert(matched[0] && !matched[1]);
	ck_assert_str_eq(policy_section_origin(policy, 1)->section, "/b");
	ck_assert_uint_eq(policy_section_origin(policy, 1)->line, 2);
}
END_TEST

TEST(what_begins_with_x_is_somebody_elses)
{
	FILES;
	expect_problems(0, "[X-Mine]\nA=1\n[/a]\nX-Mine=2\n", "");
}
END_TEST

TEST(a_limit_for_everything_below_is_warned_of_since_it_holds_at_each_level)
{
	FILES;
	expect_problems(
		0, "[/a/**]\nMaxConnections=5\nStream=client\nReserveEvents=1\nTenant=no\n",
		"etc/a.conf:2: warning: MaxConnections=: a pattern that ends with ** matches cgroups and those around "
		"them, and the limit of a cgroup holds for all inside it; end the pattern with the name of the cgroup that "
		"is meant\n");
	expect_problems(0, "[/a/**/x]\nMaxEvents=5\n[/a/**]\nMaxEvents=\n", "");
}
END_TEST

TEST(what_a_file_says_cannot_drive_the_screen)
{
	FILES;
	expect_problems(POLICY_E_WRONG, "[/a]\nMaxEvents=\033[2J\n",
			"etc/a.conf:2: MaxEvents=\\x1b[2J: not a number; give 0 to 65535, or infinity\n");
	expect_problems(
		0, "[\033[2J]\n",
		"etc/a.conf:1: warning: [\\x1b[2J]: there is no such section; "
		"a pattern of cgroups begins with '/', such as [/system.slice/*], and an event is [Event NAME]\n");
}
END_TEST

/* --- which section counts --- */

TEST(a_section_is_the_same_wherever_it_is_continued)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("etc/a.conf", "[/a]\nMaxEvents=1\nDenyEvents=a\n[/b]\nMaxEvents=5\n[/a]\nMaxConnections=2\n");
	put("etc/b.conf", "[/a]\nMaxEvents=3\nDenyEvents=b\n");
	policy = load();
	ck_assert_uint_eq(policy_count_sections(policy), 2);
	ck_assert_str_eq(looked_up(policy, "/a", POLICY_MAX_EVENTS), "3@b.conf:2");
	ck_assert_str_eq(looked_up(policy, "/a", POLICY_MAX_CONNECTIONS), "2@a.conf:7");
	ck_assert_str_eq(looked_up(policy, "/a", POLICY_DENY_EVENTS), "a b@b.conf:3");
}
END_TEST

TEST(key_by_key_the_pattern_that_says_most_counts)
{
	FILES;
	POLICY(policy, "[/s/cron]\n"
		       "MaxEvents=1\n"
		       "[/s/*]\n"
		       "MaxEvents=4\n"
		       "MaxConnections=5\n"
		       "[/s/c*]\n"
		       "MaxEvents=7\n"
		       "MaxConnections=8\n"
		       "[/**]\n"
		       "Stream=client\n"
		       "MaxEvents=\n");

	ck_assert_str_eq(looked_up(policy, "/s/cron", POLICY_MAX_EVENTS), "1@a.conf:2");
	ck_assert_str_eq(looked_up(policy, "/s/cron", POLICY_MAX_CONNECTIONS), "8@a.conf:8");
	ck_assert_str_eq(looked_up(policy, "/s/cron", POLICY_STREAM), "client@a.conf:10");
	ck_assert_str_eq(looked_up(policy, "/s/crond", POLICY_MAX_EVENTS), "7@a.conf:7");
	ck_assert_str_eq(looked_up(policy, "/s/x", POLICY_MAX_EVENTS), "4@a.conf:4");
	ck_assert_str_eq(looked_up(policy, "/s", POLICY_MAX_CONNECTIONS), "nothing");
}
END_TEST

TEST(of_patterns_that_say_as_much_the_later_assignment_counts)
{
	FILES;
	POLICY(policy, "[/s/a*]\nMaxEvents=1\nMaxConnections=1\n[/s/*b]\nMaxEvents=2\nMaxConnections=2\n"
		       "[/s/a*]\nMaxEvents=3\n");

	ck_assert_str_eq(looked_up(policy, "/s/ab", POLICY_MAX_EVENTS), "3@a.conf:8");
	ck_assert_str_eq(looked_up(policy, "/s/ab", POLICY_MAX_CONNECTIONS), "2@a.conf:6");
}
END_TEST

TEST(a_pattern_whose_text_is_the_path_matches_only_as_a_pattern)
{
	FILES;
	POLICY(policy, "[/a/[b]]\nMaxEvents=1\n[/a/\\*]\nMaxEvents=2\n[/a\\x2db]\nMaxEvents=3\n");

	ck_assert_str_eq(looked_up(policy, "/a/[b]", POLICY_MAX_EVENTS), "nothing");
	ck_assert_str_eq(looked_up(policy, "/a/b", POLICY_MAX_EVENTS), "1@a.conf:2");
	ck_assert_str_eq(looked_up(policy, "/a/\\*", POLICY_MAX_EVENTS), "nothing");
	ck_assert_str_eq(looked_up(policy, "/a/*", POLICY_MAX_EVENTS), "2@a.conf:4");
	ck_assert_str_eq(looked_up(policy, "/a\\x2db", POLICY_MAX_EVENTS), "3@a.conf:6");
	ck_assert_str_eq(looked_up(policy, "/a-b", POLICY_MAX_EVENTS), "nothing");
}
END_TEST

TEST(an_empty_value_is_the_default_also_where_another_section_says_otherwise)
{
	FILES;
	POLICY(policy, "[/s/*]\nMaxEvents=5\nNamePrefix=x_\nDenyEvents=a\nAllowPersist=yes\n"
		       "[/s/me]\nMaxEvents=\nNamePrefix=\nDenyEvents=\nAllowPersist=\n"
		       "[Daemon]\nDefaultMaxEvents=7\nDefaultMaxEvents=\n");
	struct policy_rules rules;

	ck_assert_str_eq(resolved(policy, "/s/you", POLICY_NAME_PREFIX), "x_@a.conf:3");
	ck_assert_str_eq(resolved(policy, "/s/me", POLICY_NAME_PREFIX), "-@a.conf:8");
	ck_assert_str_eq(resolved(policy, "/s/me", POLICY_DENY_EVENTS), "-@a.conf:9");
	ck_assert_str_eq(resolved(policy, "/s/me", POLICY_ALLOW_PERSIST), "no@a.conf:10");
	ck_assert_str_eq(of_daemon(policy, POLICY_DEFAULT_MAX_EVENTS), "1024@a.conf:13");
	policy_resolve(policy, "/s/me", &rules);
	ck_assert_uint_eq(policy_tenant_limit(policy, &rules, POLICY_MAX_EVENTS)->number, 1024);
}
END_TEST

TEST(what_is_said_of_a_tenant_comes_from_the_nearest_that_says_any_and_limits_do_not)
{
	FILES;
	POLICY(policy, "[/]\nStream=client\nAllowPersist=yes\nMaxEvents=9\n"
		       "[/s]\nNamePrefix=s_\nStream=shared\nMaxEvents=8\n"
		       "[/s/t]\nAllowPersist=no\nMaxConnections=7\n");

	ck_assert_str_eq(resolved(policy, "/s/t", POLICY_NAME_PREFIX), "s_@a.conf:6");
	ck_assert_str_eq(resolved(policy, "/s/t", POLICY_STREAM), "shared@a.conf:7");
	ck_assert_str_eq(resolved(policy, "/s/t", POLICY_ALLOW_PERSIST), "no@a.conf:10");
	ck_assert_str_eq(resolved(policy, "/s/u", POLICY_ALLOW_PERSIST), "yes@a.conf:3");
	ck_assert_str_eq(resolved(policy, "/x", POLICY_STREAM), "client@a.conf:2");
	ck_assert_str_eq(resolved(policy, "/", POLICY_STREAM), "client@a.conf:2");
	ck_assert_str_eq(resolved(policy, "/s/t", POLICY_MAX_CONNECTIONS), "7@a.conf:11");
	/* Those of /s and / are for their own levels. */
	ck_assert_str_eq(resolved(policy, "/s/t", POLICY_MAX_EVENTS), "infinity");
	ck_assert_str_eq(resolved(policy, "/s/t/u", POLICY_MAX_CONNECTIONS), "infinity");
}
END_TEST

TEST(a_tenant_without_a_limit_has_that_of_the_daemon)
{
	FILES;
	POLICY(policy, "[Daemon]\nDefaultMaxEvents=5\nDefaultMaxRequestsPerSecond=1/2\n"
		       "[/a]\nMaxEvents=infinity\nMaxConnections=0\n");
	struct policy_rules rules;

	policy_resolve(policy, "/a", &rules);
	ck_assert_uint_eq(policy_tenant_limit(policy, &rules, POLICY_MAX_EVENTS)->number, POLICY_INFINITY);
	ck_assert_uint_eq(policy_tenant_limit(policy, &rules, POLICY_MAX_CONNECTIONS)->number, 0);
	ck_assert_uint_eq(policy_tenant_limit(policy, &rules, POLICY_MAX_REQUESTS_PER_SECOND)->burst, 2);
	policy_resolve(policy, "/b", &rules);
	ck_assert_uint_eq(policy_tenant_limit(policy, &rules, POLICY_MAX_EVENTS)->number, 5);
	ck_assert_uint_eq(policy_tenant_limit(policy, &rules, POLICY_MAX_CONNECTIONS)->number, 1024);
}
END_TEST

TEST(a_path_that_is_none_has_what_nobody_speaks_of)
{
	FILES;
	POLICY(policy, "[/**]\nStream=client\n");

	ck_assert_str_eq(resolved(policy, "process:1:init", POLICY_STREAM), "auto");
	ck_assert_str_eq(looked_up(policy, "", POLICY_STREAM), "nothing");
}
END_TEST

static bool note_level(void *data, const char *path)
{
	struct text *text = data;

	text_printf(text, "%s ", path);
	return text->length > 60;
}

static const char *levels(const char *path)
{
	static char buffer[256];
	struct text text = text_make(buffer, sizeof(buffer));

	policy_walk(path, note_level, &text);
	return buffer;
}

TEST(levels_are_walked_from_the_root_until_it_is_enough)
{
	ck_assert_str_eq(levels("/"), "/ ");
	ck_assert_str_eq(levels("/a"), "/ /a ");
	ck_assert_str_eq(levels("/a/bc/d"), "/ /a /a/bc /a/bc/d ");
	ck_assert_str_eq(levels("/a234567890/a234567890/a234567890/x/y"),
			 "/ /a234567890 /a234567890/a234567890 /a234567890/a234567890/a234567890 ");
}
END_TEST

static bool count_level(void *data, const char *path _unused_)
{
	++*(unsigned *)data;
	return false;
}

TEST(a_path_that_is_too_deep_is_walked_no_further_than_anybodys)
{
	char path[4096] = "";
	unsigned count = 0;

	for (size_t i = 0; i < 2000; i++)
		memcpy(path + 2 * i, "/a", 3);
	policy_walk(path, count_level, &count);
	ck_assert_uint_eq(count, POLICY_LEVELS_MAX + 1);
}
END_TEST

TEST(a_cgroup_can_be_a_tenant_or_none_or_left_to_delegation)
{
	FILES;
	POLICY(policy, "[/s/*]\nTenant=yes\n[/s/x]\nTenant=no\n[/s/y]\nTenant=\n");

	ck_assert_int_eq(policy_tenant(policy, "/s/a"), POLICY_TENANT_YES);
	ck_assert_int_eq(policy_tenant(policy, "/s/x"), POLICY_TENANT_NO);
	ck_assert_int_eq(policy_tenant(policy, "/s/y"), POLICY_TENANT_UNSET);
	ck_assert_int_eq(policy_tenant(policy, "/s"), POLICY_TENANT_UNSET);
	/* Of what is inside nothing is said. */
	ck_assert_int_eq(policy_tenant(policy, "/s/a/b"), POLICY_TENANT_UNSET);
}
END_TEST

/* --- reserves --- */

TEST(reserves_are_known_by_their_patterns)
{
	FILES;
	POLICY(policy, "[/s/*]\nReserveEvents=5\n[/a]\nReserveEvents=7\n[/b]\nReserveEvents=0\n[/c]\nMaxEvents=3\n");
	struct policy_reserve reserve;
	size_t at = 0;

	ck_assert(policy_next_reserve(policy, &at, &reserve));
	ck_assert_str_eq(reserve.pattern, "/a");
	ck_assert_uint_eq(reserve.value->number, 7);
	ck_assert(policy_next_reserve(policy, &at, &reserve));
	ck_assert_str_eq(reserve.pattern, "/s/*");
	ck_assert_str_eq(show(POLICY_RESERVE_EVENTS, reserve.value), "5@a.conf:2");
	ck_assert(!policy_next_reserve(policy, &at, &reserve));
	ck_assert_str_eq(reserve.pattern, "/s/*");
}
END_TEST

TEST(reserves_that_add_up_to_more_than_there_is_are_an_error)
{
	FILES;
	POLICY(policy, "[/b]\nReserveEvents=60\n[/a]\nReserveEvents=40\n");

	ck_assert_int_eq(policy_check_capacity(policy, 100, &problems), 0);
	ck_assert_uint_eq(problems.n, 0);
	ck_assert_int_eq(policy_check_capacity(policy, 99, &problems), POLICY_E_WRONG);
	ck_assert_str_eq(all_problems(),
			 "etc/a.conf:4: ReserveEvents=40: the reserves of all sections add up to 100 events, and "
			 "there is room for 99; take away 1\n");
	ck_assert_str_eq(problems.list[0].key, "ReserveEvents");
	problems_deinit(&problems);
}
END_TEST

TEST(a_policy_without_reserves_fits_everywhere)
{
	FILES;
	POLICY(policy, "[/b]\nMaxEvents=60\n");

	ck_assert_int_eq(policy_check_capacity(policy, 0, &problems), 0);
}
END_TEST

/* --- events --- */

static const char *asked(const struct policy *policy, const char *name, unsigned flags)
{
	static char buffer[WIRE_SENTENCE_MAX];
	struct text why = text_make(buffer, sizeof(buffer));
	struct policy_verdict verdict;
	struct policy_rules rules;
	const char *at;
	int r;

	policy_resolve(policy, "/s/t", &rules);
	r = policy_may_register(&rules, name, strlen(name), flags, &verdict, &why);
	ck_assert_ptr_nonnull(verdict.value);
	if (r == 0) {
		ck_assert_str_eq(buffer, "");
		return verdict.glob ? verdict.glob->text : "yes";
	}
	ck_assert_int_eq(r, REFUSAL_NOT_PERMITTED);
	at = strstr(buffer, scratch);
	if (at)
		memmove(buffer + (at - buffer), at + strlen(scratch) + 1, strlen(at + strlen(scratch) + 1) + 1);
	return buffer;
}

TEST(where_nothing_is_said_of_names_all_are_allowed)
{
	FILES;
	POLICY(policy, "[/s/t]\nMaxEvents=5\n");

	ck_assert_str_eq(asked(policy, "anything", 0), "yes");
}
END_TEST

TEST(a_name_has_to_be_allowed_and_a_denied_one_cannot_be)
{
	FILES;
	POLICY(policy, "[/s]\nAllowEvents=a_* b_*\nAllowEvents=c\nDenyEvents=*_secret\n");

	ck_assert_str_eq(asked(policy, "a_one", 0), "a_*");
	ck_assert_str_eq(asked(policy, "c", 0), "c");
	ck_assert_str_eq(asked(policy, "cc", 0), "nothing in AllowEvents= matches 'cc' (etc/a.conf:3)");
	ck_assert_str_eq(asked(policy, "a_secret", 0), "DenyEvents=*_secret denies 'a_secret' (etc/a.conf:4)");
	ck_assert_str_eq(asked(policy, "x_secret", 0), "DenyEvents=*_secret denies 'x_secret' (etc/a.conf:4)");
}
END_TEST

TEST(one_glob_is_a_list_too)
{
	FILES;
	POLICY(policy, "[/s]\nAllowEvents=a_*\n");

	ck_assert_str_eq(asked(policy, "a_", 0), "a_*");
	ck_assert_str_eq(asked(policy, "b_", 0), "nothing in AllowEvents= matches 'b_' (etc/a.conf:2)");
}
END_TEST

TEST(a_nearer_list_of_allowed_names_replaces_outer)
{
	FILES;
	POLICY(policy, "[/s]\nAllowEvents=a_*\n[/s/t/u]\nAllowEvents=no\n[/s/t]\nAllowEvents=\n");

	ck_assert_str_eq(asked(policy, "z", 0), "yes");
}
END_TEST

TEST(denials_add_up_along_the_path)
{
	FILES;
	POLICY(policy, "[/]\nDenyEvents=root_*\n[/s]\nDenyEvents=a_x\n[/s/t/u]\nDenyEvents=*\n"
		       "[/s/t]\nDenyEvents=b_x\nAllowEvents=*_x root_*\n");

	ck_assert_str_eq(asked(policy, "a_x", 0), "DenyEvents=a_x denies 'a_x' (etc/a.conf:4)");
	ck_assert_str_eq(asked(policy, "b_x", 0), "DenyEvents=b_x denies 'b_x' (etc/a.conf:8)");
	ck_assert_str_eq(asked(policy, "root_x", 0), "DenyEvents=root_* denies 'root_x' (etc/a.conf:2)");
	ck_assert_str_eq(asked(policy, "c_x", 0), "*_x");
}
END_TEST

TEST(an_empty_denial_resets_its_own_section_alone)
{
	FILES;
	POLICY(policy,
	       "[/**]\nDenyEvents=all\n[/s]\nDenyEvents=a_x\n[/s/t]\nDenyEvents=b_x\nDenyEvents=\nDenyEvents=c_x\n");

	ck_assert_str_eq(asked(policy, "all", 0), "DenyEvents=all denies 'all' (etc/a.conf:2)");
	ck_assert_str_eq(asked(policy, "a_x", 0), "DenyEvents=a_x denies 'a_x' (etc/a.conf:4)");
	ck_assert_str_eq(asked(policy, "b_x", 0), "yes");
	ck_assert_str_eq(asked(policy, "c_x", 0), "DenyEvents=c_x denies 'c_x' (etc/a.conf:8)");
}
END_TEST

TEST(of_one_cgroup_the_nearest_sections_denials_count)
{
	FILES;
	POLICY(policy, "[/s/*]\nDenyEvents=a_x\n[/s/t]\nDenyEvents=b_x\n");

	ck_assert_str_eq(asked(policy, "a_x", 0), "yes");
	ck_assert_str_eq(asked(policy, "b_x", 0), "DenyEvents=b_x denies 'b_x' (etc/a.conf:4)");
}
END_TEST

/* --- OwnNames --- */

static const char *asked_from(const struct policy *policy, const char *path, const char *name)
{
	static char buffer[WIRE_SENTENCE_MAX];
	struct text why = text_make(buffer, sizeof(buffer));
	struct policy_verdict verdict;
	struct policy_rules rules;
	int r;

	policy_resolve(policy, path, &rules);
	r = policy_may_register(&rules, name, strlen(name), 0, &verdict, &why);
	ck_assert_ptr_nonnull(verdict.value);
	if (r == 0)
		return policy_key_name(verdict.key);
	ck_assert_int_eq(r, REFUSAL_NOT_PERMITTED);
	ck_assert_ptr_null(strstr(buffer, "/s/owner"));
	return strncmp(buffer, "the policy keeps the name", 25) == 0 ? "owned" : "refused";
}

TEST(a_name_that_is_owned_is_refused_to_others)
{
	FILES;
	POLICY(policy, "[/s/owner*]\nOwnNames=own_* only\n[/other]\nOwnNames=theirs\n");

	ck_assert_str_eq(asked_from(policy, "/s/owner", "own_a"), "OwnNames");
	ck_assert_str_eq(asked_from(policy, "/s/owner2", "only"), "OwnNames");
	ck_assert_str_eq(asked_from(policy, "/s/owner/below/it", "only"), "OwnNames");
	ck_assert_str_eq(asked_from(policy, "/s", "only"), "owned");
	ck_assert_str_eq(asked_from(policy, "/", "own_b"), "owned");
	ck_assert_str_eq(asked_from(policy, "/x/s/owner", "own_b"), "owned");
	ck_assert_str_eq(asked_from(policy, "/other", "own_b"), "owned");
	ck_assert_str_eq(asked_from(policy, "pid:17", "own_b"), "owned");
	ck_assert_str_eq(asked_from(policy, "/s", "owns"), "AllowEvents");
	ck_assert_str_eq(asked_from(policy, "/s/owner", "theirs"), "owned");
}
END_TEST

TEST(an_owner_is_held_to_all_other_rules)
{
	FILES;
	POLICY(policy, "[/]\nDenyEvents=own_denied\n[/s/owner]\nOwnNames=own_*\nAllowEvents=own_*d\n"
		       "[Event own_declared]\nTenants=/s/other\n");

	ck_assert_str_eq(asked_from(policy, "/s/owner", "own_denied"), "refused");
	ck_assert_str_eq(asked_from(policy, "/s/owner", "own_a"), "refused");
	ck_assert_str_eq(asked_from(policy, "/s/owner", "own_d"), "AllowEvents");
	ck_assert_str_eq(asked_from(policy, "/s/owner", "own_declared"), "refused");
	ck_assert_str_eq(asked_from(policy, "/s/other", "own_declared"), "owned");
	ck_assert_str_eq(asked_from(policy, "/s/other", "own_denied"), "refused");
}
END_TEST

TEST(a_name_with_two_owners_is_an_error)
{
	FILES;
	expect_problems(POLICY_E_WRONG, "[/b]\nOwnNames=x *_metrics\n[/a]\nOwnNames=other\nOwnNames=otlp_*\n",
			"etc/a.conf:5: OwnNames=otlp_*: some of these names are already owned by [/b], "
			"with OwnNames=*_metrics in etc/a.conf:2\n");
	/* One inside of another is another one, too. */
	expect_problems(POLICY_E_WRONG, "[/a]\nOwnNames=x\n[/a/b]\nOwnNames=x\n",
			"etc/a.conf:4: OwnNames=x: some of these names are already owned by [/a], "
			"with OwnNames=x in etc/a.conf:2\n");
	/* What is wrong with a section of its own is said, and nothing else. */
	expect_problems(POLICY_E_WRONG, "[/a]\nOwnNames=x,\nOwnNames=x\n",
			"etc/a.conf:2: OwnNames=x,: no name of an event has a ','; write globs such as http_*, with "
			"blanks between them\n");
	expect_problems(0, "[/a]\nOwnNames=x x*\n[/b]\nOwnNames=y\n[/c]\nOwnNames=x\nOwnNames=\n", "");
}
END_TEST

TEST(so_many_names_can_be_owned_and_no_more)
{
	FILES;
	static char buffer[16384];
	struct text text = text_make(buffer, sizeof(buffer));

	text_printf(&text, "[/a]\nOwnNames=");
	for (unsigned i = 0; i < 1000; i++)
		text_printf(&text, "n%u ", i);
	expect_problems(0, buffer, "");
	text_printf(&text, "\n[/b]\nOwnNames=one_more\n");
	expect_problems(POLICY_E_WRONG, buffer,
			"etc/a.conf:4: OwnNames=: all sections together own at most 1000 globs\n");
}
END_TEST

TEST(flags_are_allowed_one_by_one)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = load_text("");

	ck_assert_str_eq(asked(policy, "a", REGISTER_MULTI_FORMAT), "yes");
	ck_assert_str_eq(asked(policy, "a", REGISTER_PERSIST),
			 "AllowPersist=no; register it without that flag (default)");
	policy_unref(policy);
	policy = load_text("[/s/*]\nAllowPersist=yes\nAllowMultiFormat=no\n");
	ck_assert_str_eq(asked(policy, "a", REGISTER_PERSIST), "yes");
	ck_assert_str_eq(asked(policy, "a", REGISTER_PERSIST | REGISTER_MULTI_FORMAT),
			 "AllowMultiFormat=no; register it without that flag (etc/a.conf:3)");
}
END_TEST

/* --- life --- */

TEST(a_policy_lives_as_long_as_somebody_holds_it)
{
	FILES;
	struct policy *policy = load_text("[/a]\nMaxEvents=1\n"), *other = policy_ref(policy);

	policy = policy_unref(policy);
	ck_assert_ptr_null(policy);
	ck_assert_str_eq(looked_up(other, "/a", POLICY_MAX_EVENTS), "1@a.conf:2");
	ck_assert_ptr_null(policy_unref(other));
	ck_assert_ptr_null(policy_unref(NULL));
}
END_TEST

/* Short at each allocation in turn, until there are enough. */
TEST(where_memory_is_short_there_is_no_policy_and_nothing_is_lost)
{
	FILES;
	static const char text[] =
		"[/a/*]\nDenyEvents=a b\nDenyEvents=c\nNamePrefix=p_\n[/b]\nMaxEvents=many\nNoSuch=1\n"
		"[/c/**/x]\nReserveEvents=1\nOwnNames=o\n[Daemon]\nMetricsSocket=/m\n";
	struct policy *policy = NULL;
	int r = -ENOMEM;

	for (unsigned good = 0; good < 2; good++) {
		put("etc/b.conf", good ? "[/d]\n" : text);
		put("etc/a.conf", "[/a/*]\nDenyEvents=x\n");
		for (unsigned again = 0; again < 2; again++) {
			long n = 0;

			memory_comes_back = again;
			do {
				problems_deinit(&problems);
				allocations_left = n++;
				r = policy_load(directories, NULL, &problems, &policy);
				allocations_left = -1;
				ck_assert(r == 0 || r == POLICY_E_WRONG || r == -ENOMEM);
				ck_assert((policy != NULL) == (r == 0));
				ck_assert_int_lt(n, 1000);
			} while (r == -ENOMEM);
			ck_assert_int_gt(n, 10);
			ck_assert_int_eq(r, good ? 0 : POLICY_E_WRONG);
			ck_assert_uint_eq(problems.n, good ? 0 : 2);
			policy = policy_unref(policy);
		}
	}
	problems_deinit(&problems);
}
END_TEST

/* Ten thousand tenants, each at five levels, with 500 sections: in less than the time that a test may take under ASan. */
TEST(five_hundred_sections_are_looked_through_for_ten_thousand_tenants)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	struct policy_rules rules;
	char *text = malloc(1 << 16), path[128];
	struct text out = text_make(text, 1 << 16);

	for (unsigned i = 0; i < 500; i++)
		text_printf(&out, "[/kubepods.slice/%s/kubepods-*pod%u*.slice/cri-*]\nMaxEvents=%u\n",
			    i % 2 ? "**" : "*", i, i);
	ck_assert(!out.cut);
	policy = load_text(text);
	free(text);
	ck_assert_uint_eq(policy_count_sections(policy), 500);
	for (unsigned i = 0; i < 10000; i++) {
		snprintf(path, sizeof(path),
			 "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%u.slice/cri-%u",
			 i % 100 + 100, i);
		policy_resolve(policy, path, &rules);
		ck_assert_uint_eq(rules.value[POLICY_MAX_EVENTS]->number, i % 100 + 100);
	}
}
END_TEST

/* --- events that are declared --- */

TEST(an_event_is_declared_in_a_section_of_its_own)
{
	FILES;
	struct policy_event event;
	size_t at = 0;
	POLICY(policy, "[Event two]\n[Event  one]\nFields=u32 x\nPersist=yes\nTenants=/a /b/*\n"
		       "[/c]\nMaxEvents=1\n[Event two]\nFields=char[8] y\n");

	ck_assert_uint_eq(problems.n, 0);
	ck_assert_uint_eq(policy_count_events(policy), 2);
	ck_assert_uint_eq(policy_count_sections(policy), 1);
	ck_assert(policy_next_event(policy, &at, &event));
	ck_assert_str_eq(event.name, "one");
	ck_assert_str_eq(show(POLICY_FIELDS, event.fields), "u32 x@a.conf:3");
	ck_assert_str_eq(show(POLICY_PERSIST, event.persist), "yes@a.conf:4");
	ck_assert_str_eq(show(POLICY_TENANTS, event.tenants), "/a /b/*@a.conf:5");
	ck_assert(policy_next_event(policy, &at, &event));
	ck_assert_str_eq(event.name, "two");
	ck_assert_str_eq(show(POLICY_FIELDS, event.fields), "char[8] y@a.conf:9");
	ck_assert_str_eq(show(POLICY_TENANTS, event.tenants), "/**");
	ck_assert_uint_eq(event.origin->line, 1);
	ck_assert(!policy_next_event(policy, &at, &event));
	ck_assert(policy_find_event(policy, "two and more", 3, &event));
	ck_assert(!policy_find_event(policy, "three", 5, &event));
}
END_TEST

TEST(what_is_wrong_with_a_declared_event_is_said)
{
	FILES;
	expect_problems(POLICY_E_WRONG, "[Event 1st]\n",
			"etc/a.conf:1: [Event 1st]: no event has such a name; give letters, digits and _\n");
	expect_problems(POLICY_E_WRONG, "[Event a b]\n",
			"etc/a.conf:1: [Event a b]: no event has such a name; give letters, digits and _\n");
	expect_problems(POLICY_E_WRONG, "[Event a]\nFields=long x\n",
			"etc/a.conf:2: Fields=long x: field 1: 'long' has no fixed size; use s64 or u64\n");
	expect_problems(POLICY_E_WRONG, "[Event a]\nTenants=a\n",
			"etc/a.conf:2: Tenants=a: a pattern of cgroups begins with '/'\n");
	expect_problems(0, "[Event a]\nMaxEvents=1\nGuard=off\nTenant=/a\n[Daemon]\nPersist=yes\n",
			"etc/a.conf:2: warning: MaxEvents=: belongs in a section of cgroups such as [/system.slice/*]; "
			"here it is ignored\n"
			"etc/a.conf:3: warning: Guard=: belongs in [Daemon]; here it is ignored\n"
			"etc/a.conf:4: warning: Tenant=: belongs in a section of cgroups such as [/system.slice/*]; "
			"here it is ignored\n"
			"etc/a.conf:6: warning: Persist=: belongs in a section of an event such as [Event request]; "
			"here it is ignored\n");
}
END_TEST

TEST(the_name_of_a_declared_event_is_for_its_tenants)
{
	FILES;
	POLICY(policy, "[Event ours]\nTenants=/s/*\n[Event theirs]\nTenants=/t\nTenants=/u/**\n[Event all]\n"
		       "[Event denied]\nTenants=/s/*\n[/s]\nDenyEvents=denied\n");

	ck_assert_str_eq(asked(policy, "ours", 0), "yes");
	ck_assert_str_eq(asked(policy, "all", 0), "yes");
	ck_assert_str_eq(asked(policy, "theirs", 0), "the policy keeps the event 'theirs' for others (etc/a.conf:5)");
	ck_assert_str_eq(asked(policy, "theirs2", 0), "yes");
	ck_assert_str_eq(asked(policy, "denied", 0), "DenyEvents=denied denies 'denied' (etc/a.conf:10)");
}
END_TEST

TEST(what_is_declared_takes_room_beside_the_reserves)
{
	FILES;
	POLICY(policy, "[/a]\nReserveEvents=8\n[Event a]\n[Event b]\n");

	ck_assert_uint_eq(policy_sum_maxima(policy), 10);
	ck_assert_int_eq(policy_check_capacity(policy, 10, &problems), 0);
	ck_assert_int_eq(policy_check_capacity(policy, 9, &problems), POLICY_E_WRONG);
	ck_assert_str_eq(all_problems(),
			 "etc/a.conf:2: ReserveEvents=8: the reserves of all sections, and the declared "
			 "events, add up to 10 events, and there is room for 9; take away 1\n");
	problems_deinit(&problems);
	ck_assert_int_eq(policy_check_capacity(policy, 1, &problems), POLICY_E_WRONG);
	ck_assert_str_eq(all_problems(), "etc/a.conf:4: [Event b]: 2 events are declared, and there is room for 1\n");
	problems_deinit(&problems);
}
END_TEST

SUITE("policy", an_event_is_declared_in_a_section_of_its_own, what_is_wrong_with_a_declared_event_is_said,
      the_name_of_a_declared_event_is_for_its_tenants, what_is_declared_takes_room_beside_the_reserves,
      without_any_file_all_is_as_it_is_by_default,
      files_are_read_in_the_order_of_their_names_whichever_directory_they_are_in,
      of_the_same_name_the_first_directory_has_the_file,
      a_link_to_dev_null_and_an_empty_file_hide_a_file_and_say_nothing,
      only_names_that_end_with_conf_are_read_and_hidden_ones_are_not, a_link_to_a_file_is_that_file,
      what_cannot_be_read_is_an_error_for_it_might_have_said_no, a_file_that_is_too_large_or_no_text_is_refused,
      a_root_stands_in_front_of_each_directory, files_that_are_named_are_read_alone_and_in_that_order,
      an_error_names_file_line_key_and_what_would_be_right, all_that_is_wrong_is_said_at_once,
      what_nobody_knows_is_a_warning_with_what_may_have_been_meant, unknown_keys_are_errors_where_files_are_strict,
      a_maximum_below_its_sections_reserve_is_warned_of, sections_that_match_a_cgroup_are_told_apart,
      what_begins_with_x_is_somebody_elses, a_limit_for_everything_below_is_warned_of_since_it_holds_at_each_level,
      what_a_file_says_cannot_drive_the_screen, a_section_is_the_same_wherever_it_is_continued,
      key_by_key_the_pattern_that_says_most_counts, of_patterns_that_say_as_much_the_later_assignment_counts,
      a_pattern_whose_text_is_the_path_matches_only_as_a_pattern,
      an_empty_value_is_the_default_also_where_another_section_says_otherwise,
      what_is_said_of_a_tenant_comes_from_the_nearest_that_says_any_and_limits_do_not,
      a_tenant_without_a_limit_has_that_of_the_daemon, a_path_that_is_none_has_what_nobody_speaks_of,
      levels_are_walked_from_the_root_until_it_is_enough, a_path_that_is_too_deep_is_walked_no_further_than_anybodys,
      a_cgroup_can_be_a_tenant_or_none_or_left_to_delegation, reserves_are_known_by_their_patterns,
      reserves_that_add_up_to_more_than_there_is_are_an_error, a_policy_without_reserves_fits_everywhere,
      where_nothing_is_said_of_names_all_are_allowed, a_name_has_to_be_allowed_and_a_denied_one_cannot_be,
      one_glob_is_a_list_too, a_nearer_list_of_allowed_names_replaces_outer, denials_add_up_along_the_path,
      an_empty_denial_resets_its_own_section_alone, of_one_cgroup_the_nearest_sections_denials_count,
      a_name_that_is_owned_is_refused_to_others, an_owner_is_held_to_all_other_rules,
      a_name_with_two_owners_is_an_error, so_many_names_can_be_owned_and_no_more, flags_are_allowed_one_by_one,
      a_policy_lives_as_long_as_somebody_holds_it, where_memory_is_short_there_is_no_policy_and_nothing_is_lost,
      five_hundred_sections_are_looked_through_for_ten_thousand_tenants)
