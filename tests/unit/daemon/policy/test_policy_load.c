/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which files are read, and which problems are found in them. */

#include "tests/unit/daemon/policy/files.h"
#include "tests/unit/shortage.h"

TEST(files_of_all_directories_are_read_by_name)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("lib/30-c.conf", "[Daemon]\nDefaultMaxEvents=3\n");
	put("etc/10-a.conf", "[Daemon]\nDefaultMaxEvents=1\nKernelMargin=1\n");
	put("run/20-b.conf", "[Daemon]\nDefaultMaxEvents=2\nKernelMargin=2\n");
	policy = load();
	ck_assert_uint_eq(policy->n_files, 3);
	ck_assert_str_eq(shown(POLICY_DEFAULT_MAX_EVENTS, policy_daemon(policy, POLICY_DEFAULT_MAX_EVENTS)),
			 "3@30-c.conf:2");
	ck_assert_str_eq(shown(POLICY_KERNEL_MARGIN, policy_daemon(policy, POLICY_KERNEL_MARGIN)), "2@20-b.conf:3");
}

TEST(file_of_the_first_directory_hides_the_others)
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
		ck_assert_str_eq(shown(POLICY_DEFAULT_MAX_EVENTS, policy_daemon(policy, POLICY_DEFAULT_MAX_EVENTS)),
				 text);
		/* The whole file is hidden, with its other keys. */
		ck_assert_str_eq(shown(POLICY_KERNEL_MARGIN, policy_daemon(policy, POLICY_KERNEL_MARGIN)),
				 i == 0 ? "5@a.conf:3" : "256");
	}
}

TEST(mask_hides_a_file)
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
		ck_assert_str_eq(shown(POLICY_DEFAULT_MAX_EVENTS, policy_daemon(policy, POLICY_DEFAULT_MAX_EVENTS)),
				 "1024");
		ck_assert_str_eq(shown(POLICY_KERNEL_MARGIN, policy_daemon(policy, POLICY_KERNEL_MARGIN)),
				 "1@b.conf:2");
		ck_assert_uint_eq(policy->n_files, 1);
		unlink(in_scratch("etc/a.conf"));
	}
}

TEST(only_visible_conf_files_are_read)
{
	FILES;
	static const char *const names[] = { "etc/a.conf~", "etc/.a.conf", "etc/conf", "etc/README", "etc/a.conf.bak" };
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put(names[i], "nonsense\n");
	policy = load();
	ck_assert_uint_eq(policy->n_files, 0);
}

TEST(symlink_to_a_file_is_read)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("shared", "[Daemon]\nDefaultMaxEvents=9\n");
	ck_assert_int_eq(symlink("../shared", in_scratch("etc/a.conf")), 0);
	policy = load();
	ck_assert_str_eq(shown(POLICY_DEFAULT_MAX_EVENTS, policy_daemon(policy, POLICY_DEFAULT_MAX_EVENTS)),
			 "9@a.conf:2");
}

TEST(unreadable_file_is_an_error)
{
	FILES;
	ck_assert_int_eq(symlink("nowhere", in_scratch("etc/a.conf")), 0);
	load_with(POLICY_E_WRONG, "etc/a.conf: cannot be read: No such file or directory\n");
	unlink(in_scratch("etc/a.conf"));
	ck_assert_int_eq(mkdir(in_scratch("etc/a.conf"), 0755), 0);
	load_with(POLICY_E_WRONG, "etc/a.conf: cannot be read: Is a directory\n");
	rmdir(in_scratch("etc/a.conf"));
	/* Without a writer, opening a FIFO would block for ever. */
	ck_assert_int_eq(mkfifo(in_scratch("etc/a.conf"), 0644), 0);
	load_with(POLICY_E_WRONG, "etc/a.conf: cannot be read: it is no file\n");
	unlink(in_scratch("etc/a.conf"));
	put("run", "a file instead of a directory");
	load_with(POLICY_E_WRONG, "run: cannot be read: Not a directory\n");
}

TEST(too_large_or_binary_file_is_refused)
{
	FILES;
	enum { MOST = 1 << 20 };
	char *text = malloc(MOST + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, '#', MOST + 1);
	put_bytes("etc/a.conf", text, MOST);
	policy_unref(load());
	put_bytes("etc/a.conf", text, MOST + 1);
	load_with(POLICY_E_WRONG, "etc/a.conf: cannot be read: File too large\n");
	free(text);
	put_bytes("etc/a.conf", "[Daemon]\0", 9);
	load_with(POLICY_E_WRONG, "etc/a.conf: is no text: byte 9 is zero\n");
}

TEST(root_is_put_before_each_directory)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("etc/a.conf", "[Daemon]\nDefaultMaxEvents=9\n");
	ck_assert_int_eq(policy_load("/etc:/run::/lib:", scratch, &problems, &policy), 0);
	ck_assert_str_eq(shown(POLICY_DEFAULT_MAX_EVENTS, policy_daemon(policy, POLICY_DEFAULT_MAX_EVENTS)),
			 "9@a.conf:2");
}

TEST(named_files_are_read_in_their_order)
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
	ck_assert_str_eq(shown(POLICY_DEFAULT_MAX_EVENTS, policy_daemon(policy, POLICY_DEFAULT_MAX_EVENTS)), "2@a:2");
	ck_assert_str_eq(shown(POLICY_KERNEL_MARGIN, policy_daemon(policy, POLICY_KERNEL_MARGIN)), "1@z.conf:3");
}

/* --- problems --- */

#define FORM "write [Section] or Key=value, or # and a comment, on a line of its own"

/* The text of a file, and the problems in it. */
TEST(problems_have_file_line_key_and_advice)
{
	FILES;
	static const struct {
		int answer;
		const char *text, *problems;
	} cases[] = {
		{ POLICY_E_WRONG, "[/a]\n\nMaxEvents=many\n",
		  "etc/a.conf:3: MaxEvents=many: not a number; give 0 to 65535, or infinity\n" },
		{ POLICY_E_WRONG, "MaxEvents=1\n[/a]\n",
		  "etc/a.conf:1: MaxEvents: stands in no section; begin one with [Daemon] or with a pattern of cgroups\n" },
		{ POLICY_E_WRONG, "[/a]\nMaxEvents 5\n", "etc/a.conf:2: MaxEvents 5: " FORM "\n" },
		{ POLICY_E_WRONG, "\xef\xbb\xbf[Daemon] # the daemon\n[\n[Daemon\n[/ x ] \r\n = 1\n MaxEvents = 5 \n",
		  "etc/a.conf:1: [Daemon] # the daemon: " FORM "\netc/a.conf:2: [: " FORM "\n"
		  "etc/a.conf:3: [Daemon: " FORM "\netc/a.conf:5: = 1: " FORM "\n" },
		{ POLICY_E_WRONG, "\xef\xbb", "etc/a.conf:1: \\xef\\xbb: " FORM "\n" },
		{ POLICY_E_WRONG, "[/a//b]\nMaxEvents=5\n",
		  "etc/a.conf:1: [/a//b]: between two slashes, and behind the last one, there has to be a name\n" },
		{ POLICY_E_WRONG, "[/a[b]\n",
		  "etc/a.conf:1: [/a[b]: a '[' has no ']' in the same name; write \\[ for the character itself\n" },
		{ POLICY_E_WRONG, "[/a]\nDenyEvents=a \\\n  b,c\n",
		  "etc/a.conf:2: DenyEvents=a    b,c: no name of an event has a ','; "
		  "write globs such as http_*, with blanks between them\n" },
		{ 0, "[/a]\nMaxEvent=5\n",
		  "etc/a.conf:2: warning: MaxEvent=: there is no such key; did you mean MaxEvents=?\n" },
		{ 0, "[/a]\nDescription=5\n",
		  "etc/a.conf:2: warning: Description=: there is no such key; see userevd.conf(5)\n" },
		{ 0, "[/a]\nGuard=off\n", "etc/a.conf:2: warning: Guard=: belongs in [Daemon]; here it is ignored\n" },
		{ 0, "[Daemon]\nMaxEvents=5\n",
		  "etc/a.conf:2: warning: MaxEvents=: belongs in a section of cgroups such as [/system.slice/*]; "
		  "here it is ignored\n" },
		/* Keys of an unknown section are not checked. */
		{ 0, "[daemon]\nGuard=perhaps\n",
		  "etc/a.conf:1: warning: [daemon]: there is no such section; did you mean [Daemon]?\n" },
		{ 0, "[/a]\n[system.slice/*]\nMaxEvents=many\n",
		  "etc/a.conf:2: warning: [system.slice/*]: there is no such section; "
		  "a pattern of cgroups begins with '/', such as [/system.slice/*], and an event is [Event NAME]\n" },
		{ 0, "[]\n",
		  "etc/a.conf:1: warning: []: there is no such section; "
		  "a pattern of cgroups begins with '/', such as [/system.slice/*], and an event is [Event NAME]\n" },
		{ 0,
		  "[/a]\nMaxEvents=60\nReserveEvents=60\n[/b]\nReserveEvents=60\n"
		  "[/c]\nMaxEvents=infinity\nReserveEvents=60\n[/d]\nMaxEvents=\nReserveEvents=60\n",
		  "" },
		{ 0, "[/a]\nReserveEvents=60\n[/b]\n[/a]\nMaxEvents=59\n",
		  "etc/a.conf:5: warning: MaxEvents=59: ReserveEvents=60 of the same section is more, and no cgroup "
		  "can use all of it\n" },
		/* The reserve is for all cgroups together, the maximum for each. */
		{ 0, "[/a/*]\nMaxEvents=25\nReserveEvents=60\n",
		  "etc/a.conf:2: warning: MaxEvents=25: ReserveEvents=60 of the same section is more, and no cgroup "
		  "can use all of it\n" },
		{ 0, "[/a/*]\nMaxEvents=0\nReserveEvents=60\n",
		  "etc/a.conf:2: warning: MaxEvents=0: ReserveEvents=60 of the same section is more, and no cgroup "
		  "can use all of it\n" },
		{ 0, "[X-Mine]\nA=1\n[/a]\nX-Mine=2\n", "" },
		{ 0, "[/a/**]\nMaxConnections=5\nStream=client\nReserveEvents=1\nTenant=no\n",
		  "etc/a.conf:2: warning: MaxConnections=: a pattern that ends with ** matches cgroups and those around "
		  "them, and the limit of a cgroup holds for all inside it; end the pattern with the name of the cgroup that "
		  "is meant\n" },
		{ 0, "[/a/**/x]\nMaxEvents=5\n[/a/**]\nMaxEvents=\n", "" },
		{ POLICY_E_WRONG, "[/a]\nMaxEvents=\033[2J\n",
		  "etc/a.conf:2: MaxEvents=\\x1b[2J: not a number; give 0 to 65535, or infinity\n" },
		{ 0, "[\033[2J]\n",
		  "etc/a.conf:1: warning: [\\x1b[2J]: there is no such section; "
		  "a pattern of cgroups begins with '/', such as [/system.slice/*], and an event is [Event NAME]\n" },
		{ POLICY_E_WRONG, "[/b]\nOwnNames=x *_metrics\n[/a]\nOwnNames=other\nOwnNames=otlp_*\n",
		  "etc/a.conf:5: OwnNames=otlp_*: some of these names are already owned by [/b], "
		  "with OwnNames=*_metrics in etc/a.conf:2\n" },
		/* A section inside another section is another owner. */
		{ POLICY_E_WRONG, "[/a]\nOwnNames=x\n[/a/b]\nOwnNames=x\n",
		  "etc/a.conf:4: OwnNames=x: some of these names are already owned by [/a], "
		  "with OwnNames=x in etc/a.conf:2\n" },
		/* After a wrong line the section is not compared with itself. */
		{ POLICY_E_WRONG, "[/a]\nOwnNames=x,\nOwnNames=x\n",
		  "etc/a.conf:2: OwnNames=x,: no name of an event has a ','; write globs such as http_*, with "
		  "blanks between them\n" },
		{ 0, "[/a]\nOwnNames=x x*\n[/b]\nOwnNames=y\n[/c]\nOwnNames=x\nOwnNames=\n", "" },
		{ POLICY_E_WRONG, "[Event 1st]\n",
		  "etc/a.conf:1: [Event 1st]: no event has such a name; give letters, digits and _\n" },
		{ POLICY_E_WRONG, "[Event a b]\n",
		  "etc/a.conf:1: [Event a b]: no event has such a name; give letters, digits and _\n" },
		{ POLICY_E_WRONG, "[Event a]\nFields=long x\n",
		  "etc/a.conf:2: Fields=long x: field 1: 'long' has no fixed size; use s64 or u64\n" },
		{ POLICY_E_WRONG, "[Event a]\nTenants=a\n",
		  "etc/a.conf:2: Tenants=a: a pattern of cgroups begins with '/'\n" },
		{ 0, "[Event a]\nMaxEvents=1\nGuard=off\nTenant=/a\n[Daemon]\nPersist=yes\n",
		  "etc/a.conf:2: warning: MaxEvents=: belongs in a section of cgroups such as [/system.slice/*]; "
		  "here it is ignored\n"
		  "etc/a.conf:3: warning: Guard=: belongs in [Daemon]; here it is ignored\n"
		  "etc/a.conf:4: warning: Tenant=: belongs in a section of cgroups such as [/system.slice/*]; "
		  "here it is ignored\n"
		  "etc/a.conf:6: warning: Persist=: belongs in a section of an event such as [Event request]; "
		  "here it is ignored\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put("etc/a.conf", cases[i].text);
		policy_unref(load_with(cases[i].answer, cases[i].problems));
	}
}

TEST(all_errors_are_collected)
{
	FILES;

	put("etc/a.conf", "[/a]\nMaxEvents=many\nStream=both\n");
	put("etc/b.conf", "[Daemon]\nGuard=no\n");
	load_with(POLICY_E_WRONG, "etc/a.conf:2: MaxEvents=many: not a number; give 0 to 65535, or infinity\n"
				  "etc/a.conf:3: Stream=both: give auto, shared or client\n"
				  "etc/b.conf:2: Guard=no: give require, prefer or off\n");
	ck_assert_uint_eq(problems.errors, 3);
	ck_assert_str_eq(problems.list[1].key, "Stream");
	ck_assert_uint_eq(problems.list[1].line, 3);
}

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

TEST(unknown_keys_are_errors_if_strict)
{
	FILES;
	expect_strict("[/a]\nMaxEvent=5\n", 1);
	expect_strict("[/a]\nDescription=5\n", 1);
	expect_strict("[/a]\nGuard=off\n", 1);
	expect_strict("[daemon]\nGuard=off\n", 1);
	/* Other warnings stay warnings. */
	expect_strict("[/a]\nMaxEvents=5\nReserveEvents=6\n", 0);
}

TEST(thousand_globs_can_be_owned)
{
	FILES;
	static char buffer[16384];
	struct text text = text_make(buffer, sizeof(buffer));

	text_printf(&text, "[/a]\nOwnNames=");
	for (unsigned i = 0; i < 1000; i++)
		text_printf(&text, "n%u ", i);
	policy_unref(load_text(buffer));
	text_printf(&text, "\n[/b]\nOwnNames=one_more\n");
	put("etc/a.conf", buffer);
	load_with(POLICY_E_WRONG, "etc/a.conf:4: OwnNames=: all sections together own at most 1000 globs\n");
}

/* What an open_memstream() leaves that had no memory. */
TEST(copy_without_bytes_is_a_lack_of_memory)
{
	struct policy_copy copy = { 0 };
	struct policy *policy = NULL;

	ck_assert_int_eq(policy_load_copy(&copy, &problems, &policy), -ENOMEM);
}

/* Each allocation fails in turn. */
TEST(failed_allocation_loses_nothing)
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
			} while (r != (good ? 0 : POLICY_E_WRONG) || problems.n != (good ? 0 : 2));
			ck_assert_int_gt(n, 10);
			ck_assert_int_eq(r, good ? 0 : POLICY_E_WRONG);
			ck_assert_uint_eq(problems.n, good ? 0 : 2);
			policy = policy_unref(policy);
		}
	}
	problems_deinit(&problems);
}
