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

/* Three directories, as the daemon has them, in a temporary one. */
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

/* To be the first line of a test: removes the files at its end. */
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
	/* Without the temporary directory. */
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

static const char *of_daemon(const struct policy *policy, const char *path _unused_, enum policy_key key)
{
	return show(key, policy_daemon(policy, key));
}

/* --- files --- */

TEST(without_files_all_values_are_defaults)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = load();

	ck_assert_uint_eq(problems.n, 0);
	ck_assert_uint_eq(policy_count_files(policy), 0);
	ck_assert_str_eq(looked_up(policy, "/a", POLICY_MAX_EVENTS), "nothing");
	ck_assert_str_eq(resolved(policy, "/a", POLICY_ALLOW_EVENTS), "*");
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), "1024");
}

TEST(files_of_all_directories_are_read_by_name)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("lib/30-c.conf", "[Daemon]\nDefaultMaxEvents=3\n");
	put("etc/10-a.conf", "[Daemon]\nDefaultMaxEvents=1\nKernelMargin=1\n");
	put("run/20-b.conf", "[Daemon]\nDefaultMaxEvents=2\nKernelMargin=2\n");
	policy = load();
	ck_assert_uint_eq(policy_count_files(policy), 3);
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), "3@30-c.conf:2");
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_KERNEL_MARGIN), "2@20-b.conf:3");
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
		ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), text);
		/* The whole file is hidden, with its other keys. */
		ck_assert_str_eq(of_daemon(policy, NULL, POLICY_KERNEL_MARGIN), i == 0 ? "5@a.conf:3" : "256");
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
		ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), "1024");
		ck_assert_str_eq(of_daemon(policy, NULL, POLICY_KERNEL_MARGIN), "1@b.conf:2");
		ck_assert_uint_eq(policy_count_files(policy), 1);
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
	ck_assert_uint_eq(policy_count_files(policy), 0);
}

TEST(symlink_to_a_file_is_read)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("shared", "[Daemon]\nDefaultMaxEvents=9\n");
	ck_assert_int_eq(symlink("../shared", in_scratch("etc/a.conf")), 0);
	policy = load();
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), "9@a.conf:2");
}

static void expect_unreadable(const char *expected)
{
	struct policy *policy = NULL;

	problems_deinit(&problems);
	ck_assert_int_eq(policy_load(directories, NULL, &problems, &policy), POLICY_E_WRONG);
	ck_assert_ptr_null(policy);
	ck_assert_str_eq(all_problems(), expected);
	problems_deinit(&problems);
}

TEST(unreadable_file_is_an_error)
{
	FILES;
	ck_assert_int_eq(symlink("nowhere", in_scratch("etc/a.conf")), 0);
	expect_unreadable("etc/a.conf: cannot be read: No such file or directory\n");
	unlink(in_scratch("etc/a.conf"));
	ck_assert_int_eq(mkdir(in_scratch("etc/a.conf"), 0755), 0);
	expect_unreadable("etc/a.conf: cannot be read: Is a directory\n");
	rmdir(in_scratch("etc/a.conf"));
	/* Without a writer, opening a FIFO would block for ever. */
	ck_assert_int_eq(mkfifo(in_scratch("etc/a.conf"), 0644), 0);
	expect_unreadable("etc/a.conf: cannot be read: it is no file\n");
	unlink(in_scratch("etc/a.conf"));
	put("run", "a file instead of a directory");
	expect_unreadable("run: cannot be read: Not a directory\n");
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
	expect_unreadable("etc/a.conf: cannot be read: File too large\n");
	free(text);
	put_bytes("etc/a.conf", "[Daemon]\0", 9);
	expect_unreadable("etc/a.conf: is no text: byte 9 is zero\n");
}

TEST(root_is_put_before_each_directory)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("etc/a.conf", "[Daemon]\nDefaultMaxEvents=9\n");
	ck_assert_int_eq(policy_load("/etc:/run::/lib:", scratch, &problems, &policy), 0);
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), "9@a.conf:2");
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
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), "2@a:2");
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_KERNEL_MARGIN), "1@z.conf:3");
}

/* --- problems --- */

/* The text of a file, and what is wrong with it. */
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
		{ POLICY_E_WRONG, "[/a]\nMaxEvents 5\n",
		  "etc/a.conf:2: MaxEvents 5: write [Section], Key=value, or # and a comment\n" },
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
		  "etc/a.conf:5: warning: MaxEvents=59: ReserveEvents=60 of the same section is more, and nobody can "
		  "use the rest of it\n" },
		/* The reserve is for all cgroups together, the maximum for each. */
		{ 0, "[/a/*]\nMaxEvents=25\nReserveEvents=60\n",
		  "etc/a.conf:2: warning: MaxEvents=25: ReserveEvents=60 of the same section is more: it takes 3 "
		  "cgroups to use it\n" },
		{ 0, "[/a/*]\nMaxEvents=0\nReserveEvents=60\n",
		  "etc/a.conf:2: warning: MaxEvents=0: ReserveEvents=60 of the same section is more, and nobody can "
		  "use the rest of it\n" },
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
		/* A section inside of another one is another owner. */
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

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_problems(cases[i].answer, cases[i].text, cases[i].problems);
}

TEST(all_errors_are_collected)
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

TEST(sections_that_match_a_cgroup_are_marked)
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

/* --- which section counts --- */

/* Which value a key has at a path, and from which line. */
TEST(value_comes_from_the_section_that_counts)
{
	FILES;
	static const struct {
		const char *name, *policy;
		struct {
			const char *(*ask)(const struct policy *, const char *path, enum policy_key);
			const char *path;
			enum policy_key key;
			const char *answer;
		} questions[11];
	} cases[] = {
		{ "the most specific pattern counts for each key",
		  "[/s/cron]\nMaxEvents=1\n[/s/*]\nMaxEvents=4\nMaxConnections=5\n[/s/c*]\nMaxEvents=7\nMaxConnections=8\n[/**]\nStream=client\nMaxEvents=\n",
		  {
			  { looked_up, "/s/cron", POLICY_MAX_EVENTS, "1@a.conf:2" },
			  { looked_up, "/s/cron", POLICY_MAX_CONNECTIONS, "8@a.conf:8" },
			  { looked_up, "/s/cron", POLICY_STREAM, "client@a.conf:10" },
			  { looked_up, "/s/crond", POLICY_MAX_EVENTS, "7@a.conf:7" },
			  { looked_up, "/s/x", POLICY_MAX_EVENTS, "4@a.conf:4" },
			  { looked_up, "/s", POLICY_MAX_CONNECTIONS, "nothing" },
		  } },
		{ "of equally specific patterns the later value counts",
		  "[/s/a*]\nMaxEvents=1\nMaxConnections=1\n[/s/*b]\nMaxEvents=2\nMaxConnections=2\n[/s/a*]\nMaxEvents=3\n",
		  {
			  { looked_up, "/s/ab", POLICY_MAX_EVENTS, "3@a.conf:8" },
			  { looked_up, "/s/ab", POLICY_MAX_CONNECTIONS, "2@a.conf:6" },
		  } },
		{ "a pattern that equals the path matches as a pattern",
		  "[/a/[b]]\nMaxEvents=1\n[/a/\\*]\nMaxEvents=2\n[/a\\x2db]\nMaxEvents=3\n",
		  {
			  { looked_up, "/a/[b]", POLICY_MAX_EVENTS, "nothing" },
			  { looked_up, "/a/b", POLICY_MAX_EVENTS, "1@a.conf:2" },
			  { looked_up, "/a/\\*", POLICY_MAX_EVENTS, "nothing" },
			  { looked_up, "/a/*", POLICY_MAX_EVENTS, "2@a.conf:4" },
			  { looked_up, "/a\\x2db", POLICY_MAX_EVENTS, "3@a.conf:6" },
			  { looked_up, "/a-b", POLICY_MAX_EVENTS, "nothing" },
		  } },
		{ "rules are inherited and limits are not",
		  "[/]\nStream=client\nAllowPersist=yes\nMaxEvents=9\n[/s]\nNamePrefix=s_\nStream=shared\nMaxEvents=8\n[/s/t]\nAllowPersist=no\nMaxConnections=7\n",
		  {
			  { resolved, "/s/t", POLICY_NAME_PREFIX, "s_@a.conf:6" },
			  { resolved, "/s/t", POLICY_STREAM, "shared@a.conf:7" },
			  { resolved, "/s/t", POLICY_ALLOW_PERSIST, "no@a.conf:10" },
			  { resolved, "/s/u", POLICY_ALLOW_PERSIST, "yes@a.conf:3" },
			  { resolved, "/x", POLICY_STREAM, "client@a.conf:2" },
			  { resolved, "/", POLICY_STREAM, "client@a.conf:2" },
			  { resolved, "/s/t", POLICY_MAX_CONNECTIONS, "7@a.conf:11" },
			  /* The limits of /s and / are for their own levels. */
			  { resolved, "/s/t", POLICY_MAX_EVENTS, "infinity" },
			  { resolved, "/s/t/u", POLICY_MAX_CONNECTIONS, "infinity" },
		  } },
		{ "a tenant without a path has the defaults",
		  "[/**]\nStream=client\n",
		  {
			  { resolved, "process:1:init", POLICY_STREAM, "auto" },
			  { looked_up, "", POLICY_STREAM, "nothing" },
		  } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		POLICY(policy, cases[i].policy);

		for (size_t j = 0; cases[i].questions[j].answer; j++) {
			const char *answer = cases[i].questions[j].ask(policy, cases[i].questions[j].path,
								       cases[i].questions[j].key);

			ck_assert_msg(streq(answer, cases[i].questions[j].answer), "%s, question %zu: %s",
				      cases[i].name, j, answer);
		}
	}
}

TEST(section_may_be_continued_anywhere)
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

TEST(empty_value_resets_to_the_default)
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
	ck_assert_str_eq(of_daemon(policy, NULL, POLICY_DEFAULT_MAX_EVENTS), "1024@a.conf:13");
	policy_resolve(policy, "/s/me", &rules);
	ck_assert_uint_eq(policy_tenant_limit(policy, &rules, POLICY_MAX_EVENTS)->number, 1024);
}

TEST(tenant_without_a_limit_has_that_of_daemon)
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

TEST(walk_visits_levels_until_told_to_stop)
{
	ck_assert_str_eq(levels("/"), "/ ");
	ck_assert_str_eq(levels("/a"), "/ /a ");
	ck_assert_str_eq(levels("/a/bc/d"), "/ /a /a/bc /a/bc/d ");
	ck_assert_str_eq(levels("/a234567890/a234567890/a234567890/x/y"),
			 "/ /a234567890 /a234567890/a234567890 /a234567890/a234567890/a234567890 ");
}

static bool count_level(void *data, const char *path _unused_)
{
	++*(unsigned *)data;
	return false;
}

TEST(walk_of_a_deep_path_is_bounded)
{
	char path[4096] = "";
	unsigned count = 0;

	for (size_t i = 0; i < 2000; i++)
		memcpy(path + 2 * i, "/a", 3);
	policy_walk(path, count_level, &count);
	ck_assert_uint_eq(count, POLICY_LEVELS_MAX + 1);
}

TEST(tenant_is_yes_no_or_unset)
{
	FILES;
	POLICY(policy, "[/s/*]\nTenant=yes\n[/s/x]\nTenant=no\n[/s/y]\nTenant=\n");

	ck_assert_int_eq(policy_tenant(policy, "/s/a"), POLICY_TENANT_YES);
	ck_assert_int_eq(policy_tenant(policy, "/s/x"), POLICY_TENANT_NO);
	ck_assert_int_eq(policy_tenant(policy, "/s/y"), POLICY_TENANT_UNSET);
	ck_assert_int_eq(policy_tenant(policy, "/s"), POLICY_TENANT_UNSET);
	/* Not inherited. */
	ck_assert_int_eq(policy_tenant(policy, "/s/a/b"), POLICY_TENANT_UNSET);
}

/* --- reserves --- */

TEST(reserves_are_listed_by_pattern)
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

TEST(reserves_beyond_the_capacity_are_an_error)
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

TEST(policy_without_reserves_always_fits)
{
	FILES;
	POLICY(policy, "[/b]\nMaxEvents=60\n");

	ck_assert_int_eq(policy_check_capacity(policy, 0, &problems), 0);
}

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

/* Whether the tenant /s/t may register an event: the glob that allows it, or the refusal. */
TEST(name_is_allowed_or_denied)
{
	FILES;
	static const struct {
		const char *name, *policy;
		struct {
			const char *event;
			unsigned flags;
			const char *answer;
		} questions[11];
	} cases[] = {
		{ "without a list all names are allowed",
		  "[/s/t]\nMaxEvents=5\n",
		  {
			  { "anything", 0, "yes" },
		  } },
		{ "a name has to be allowed and not denied",
		  "[/s]\nAllowEvents=a_* b_*\nAllowEvents=c\nDenyEvents=*_secret\n",
		  {
			  { "a_one", 0, "a_*" },
			  { "c", 0, "c" },
			  { "cc", 0, "nothing in AllowEvents= matches 'cc' (etc/a.conf:3)" },
			  { "a_secret", 0, "DenyEvents=*_secret denies 'a_secret' (etc/a.conf:4)" },
			  { "x_secret", 0, "DenyEvents=*_secret denies 'x_secret' (etc/a.conf:4)" },
		  } },
		{ "a list of one glob",
		  "[/s]\nAllowEvents=a_*\n",
		  {
			  { "a_", 0, "a_*" },
			  { "b_", 0, "nothing in AllowEvents= matches 'b_' (etc/a.conf:2)" },
		  } },
		{ "an inner list of allowed names replaces the outer",
		  "[/s]\nAllowEvents=a_*\n[/s/t/u]\nAllowEvents=no\n[/s/t]\nAllowEvents=\n",
		  {
			  { "z", 0, "yes" },
		  } },
		{ "denials add up along the path",
		  "[/]\nDenyEvents=root_*\n[/s]\nDenyEvents=a_x\n[/s/t/u]\nDenyEvents=*\n[/s/t]\nDenyEvents=b_x\nAllowEvents=*_x root_*\n",
		  {
			  { "a_x", 0, "DenyEvents=a_x denies 'a_x' (etc/a.conf:4)" },
			  { "b_x", 0, "DenyEvents=b_x denies 'b_x' (etc/a.conf:8)" },
			  { "root_x", 0, "DenyEvents=root_* denies 'root_x' (etc/a.conf:2)" },
			  { "c_x", 0, "*_x" },
		  } },
		{ "an empty denial resets its own section only",
		  "[/**]\nDenyEvents=all\n[/s]\nDenyEvents=a_x\n[/s/t]\nDenyEvents=b_x\nDenyEvents=\nDenyEvents=c_x\n",
		  {
			  { "all", 0, "DenyEvents=all denies 'all' (etc/a.conf:2)" },
			  { "a_x", 0, "DenyEvents=a_x denies 'a_x' (etc/a.conf:4)" },
			  { "b_x", 0, "yes" },
			  { "c_x", 0, "DenyEvents=c_x denies 'c_x' (etc/a.conf:8)" },
		  } },
		{ "of one cgroup the most specific section counts",
		  "[/s/*]\nDenyEvents=a_x\n[/s/t]\nDenyEvents=b_x\n",
		  {
			  { "a_x", 0, "yes" },
			  { "b_x", 0, "DenyEvents=b_x denies 'b_x' (etc/a.conf:4)" },
		  } },
		{ "the name of a declared event is for its tenants",
		  "[Event ours]\nTenants=/s/*\n[Event theirs]\nTenants=/t\nTenants=/u/**\n[Event all]\n[Event denied]\nTenants=/s/*\n[/s]\nDenyEvents=denied\n",
		  {
			  { "ours", 0, "yes" },
			  { "all", 0, "yes" },
			  { "theirs", 0, "the policy keeps the event 'theirs' for others (etc/a.conf:5)" },
			  { "theirs2", 0, "yes" },
			  { "denied", 0, "DenyEvents=denied denies 'denied' (etc/a.conf:10)" },
		  } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		POLICY(policy, cases[i].policy);

		for (size_t j = 0; cases[i].questions[j].answer; j++) {
			const char *answer = asked(policy, cases[i].questions[j].event, cases[i].questions[j].flags);

			ck_assert_msg(streq(answer, cases[i].questions[j].answer), "%s, question %zu: %s",
				      cases[i].name, j, answer);
		}
	}
}

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

/* Which key decides for a tenant. */
TEST(owned_name_is_for_its_owner)
{
	FILES;
	static const struct {
		const char *name, *policy;
		struct {
			const char *path, *event, *answer;
		} questions[11];
	} cases[] = {
		{ "an owned name is refused to others",
		  "[/s/owner*]\nOwnNames=own_* only\n[/other]\nOwnNames=theirs\n",
		  {
			  { "/s/owner", "own_a", "OwnNames" },
			  { "/s/owner2", "only", "OwnNames" },
			  { "/s/owner/below/it", "only", "OwnNames" },
			  { "/s", "only", "owned" },
			  { "/", "own_b", "owned" },
			  { "/x/s/owner", "own_b", "owned" },
			  { "/other", "own_b", "owned" },
			  { "pid:17", "own_b", "owned" },
			  { "/s", "owns", "AllowEvents" },
			  { "/s/owner", "theirs", "owned" },
		  } },
		{ "other rules apply to owners, too",
		  "[/]\nDenyEvents=own_denied\n[/s/owner]\nOwnNames=own_*\nAllowEvents=own_*d\n[Event own_declared]\nTenants=/s/other\n",
		  {
			  { "/s/owner", "own_denied", "refused" },
			  { "/s/owner", "own_a", "refused" },
			  { "/s/owner", "own_d", "AllowEvents" },
			  { "/s/owner", "own_declared", "refused" },
			  { "/s/other", "own_declared", "owned" },
			  { "/s/other", "own_denied", "refused" },
		  } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		POLICY(policy, cases[i].policy);

		for (size_t j = 0; cases[i].questions[j].answer; j++) {
			const char *answer =
				asked_from(policy, cases[i].questions[j].path, cases[i].questions[j].event);

			ck_assert_msg(streq(answer, cases[i].questions[j].answer), "%s, question %zu: %s",
				      cases[i].name, j, answer);
		}
	}
}

TEST(thousand_globs_can_be_owned)
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

TEST(flags_are_allowed_separately)
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

/* --- life --- */

TEST(policy_lives_until_its_last_reference)
{
	FILES;
	struct policy *policy = load_text("[/a]\nMaxEvents=1\n"), *other = policy_ref(policy);

	policy = policy_unref(policy);
	ck_assert_ptr_null(policy);
	ck_assert_str_eq(looked_up(other, "/a", POLICY_MAX_EVENTS), "1@a.conf:2");
	ck_assert_ptr_null(policy_unref(other));
	ck_assert_ptr_null(policy_unref(NULL));
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
			} while (r == -ENOMEM);
			ck_assert_int_gt(n, 10);
			ck_assert_int_eq(r, good ? 0 : POLICY_E_WRONG);
			ck_assert_uint_eq(problems.n, good ? 0 : 2);
			policy = policy_unref(policy);
		}
	}
	problems_deinit(&problems);
}

/* Ten thousand tenants, each at five levels, with 500 sections: in less than the time that a test may take under ASan. */
TEST(five_hundred_sections_for_ten_thousand_tenants)
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

/* --- events that are declared --- */

TEST(declared_events_are_listed_by_name)
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

TEST(declared_events_need_room_beside_reserves)
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
