/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which value of which section counts, and which events a tenant may register. */

#include "daemon/policy/policy.h"

#include "protocol/protocol.h"
#include "protocol/refusal.h"
#include "tests/unit/daemon/policy/files.h"

/* "KEY", or "KEY=glob": the key that allows the event; otherwise the refusal, without the temporary directory. */
static void may_register(const struct policy_rules *rules, const char *event, unsigned flags, struct text *text)
{
	char buffer[WIRE_SENTENCE_MAX], *directory;
	struct text why = text_make(buffer, sizeof(buffer));
	struct policy_verdict verdict;
	int r = policy_may_register(rules, event, strlen(event), flags, &verdict, &why);

	ck_assert_ptr_nonnull(verdict.value);
	ck_assert(r == 0 || r == REFUSAL_NOT_PERMITTED);
	ck_assert((r == 0) == (why.length == 0));
	if (r == 0) {
		text_printf(text, "%s%s%s", policy_keys[verdict.key].name, verdict.glob ? "=" : "",
			    verdict.glob ? verdict.glob->text : "");
		return;
	}
	/* The cgroups of other tenants are not shown. */
	ck_assert_ptr_null(strstr(buffer, "owner"));
	directory = strstr(buffer, scratch);
	if (directory)
		text_printf(text, "%.*s%s", (int)(directory - buffer), buffer, directory + strlen(scratch) + 1);
	else
		text_printf(text, "%s", buffer);
}

/*
 * Answers a question:
 *
 *	lookup PATH KEY		the value of exactly this path
 *	resolve PATH KEY	the value that a tenant there has
 *	limit PATH KEY		the limit of a tenant there
 *	daemon - KEY		the value of [Daemon]
 *	tenant PATH -		Tenant=
 *	register PATH EVENT	whether a tenant there may; also `persist` and `multi` with that flag, `both` with both
 */
static const char *answer(const struct policy *policy, const char *verb, const char *path, const char *object)
{
	static const char *const tenants[] = { [POLICY_TENANT_NO] = "no", [POLICY_TENANT_YES] = "yes", "unset" };
	static const struct {
		const char *verb;
		unsigned flags;
	} registers[] = { { "register", 0 },
			  { "persist", REGISTER_PERSIST },
			  { "multi", REGISTER_MULTI_FORMAT },
			  { "both", REGISTER_PERSIST | REGISTER_MULTI_FORMAT } };
	static char buffer[512];
	struct text text = text_make(buffer, sizeof(buffer));
	enum policy_key key = policy_key_find(object);
	struct policy_rules rules;

	policy_resolve(policy, path, &rules);
	for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
		if (streq(verb, registers[i].verb))
			may_register(&rules, object, registers[i].flags, &text);
	if (streq(verb, "resolve"))
		text_printf(&text, "%s", shown(key, rules.value[key]));
	else if (streq(verb, "limit"))
		text_printf(&text, "%s", shown(key, policy_tenant_limit(&rules, key)));
	else if (streq(verb, "daemon"))
		text_printf(&text, "%s", shown(key, policy_daemon(policy, key)));
	else if (streq(verb, "tenant"))
		text_printf(&text, "%s", tenants[policy_tenant(policy, path)]);
	else if (streq(verb, "nearest"))
		text_printf(&text, "%s", policy_nearest(policy, path) ? policy_nearest(policy, path)->name : "nothing");
	policy_lookup(&policy->sections, path, &rules);
	if (streq(verb, "lookup"))
		text_printf(&text, "%s", shown(key, rules.value[key]));
	return buffer;
}

/* Each line of the questions is "VERB PATH OBJECT: ANSWER". */
static void expect_answers(const char *name, const struct policy *policy, const char *questions)
{
	while (*questions) {
		char verb[16], path[64], object[64], expected[256];
		int length = 0;

		ck_assert_int_eq(
			sscanf(questions, "%15s %63s %63[^:]: %255[^\n]\n%n", verb, path, object, expected, &length),
			4);
		ck_assert_msg(streq(answer(policy, verb, path, object), expected), "%s: %s %s %s: %s", name, verb, path,
			      object, answer(policy, verb, path, object));
		questions += length;
	}
}

TEST(value_and_verdict_come_from_the_right_section)
{
	FILES;
	static const struct {
		const char *name, *policy, *questions;
	} cases[] = {
		{ "the most specific pattern counts for each key",
		  "[/s/cron]\nMaxEvents=1\n[/s/*]\nMaxEvents=4\nMaxConnections=5\n[/s/c*]\nMaxEvents=7\nMaxConnections=8\n[/**]\nStream=client\nMaxEvents=\n",
		  "lookup /s/cron MaxEvents: 1@a.conf:2\n"
		  "lookup /s/cron MaxConnections: 8@a.conf:8\n"
		  "lookup /s/cron Stream: client@a.conf:10\n"
		  "lookup /s/crond MaxEvents: 7@a.conf:7\n"
		  "lookup /s/x MaxEvents: 4@a.conf:4\n"
		  "lookup /s MaxConnections: nothing\n" },
		{ "of equally specific patterns the later value counts",
		  "[/s/a*]\nMaxEvents=1\nMaxConnections=1\n[/s/*b]\nMaxEvents=2\nMaxConnections=2\n[/s/a*]\nMaxEvents=3\n",
		  "lookup /s/ab MaxEvents: 3@a.conf:8\n"
		  "lookup /s/ab MaxConnections: 2@a.conf:6\n" },
		{ "the nearest section is that of the innermost cgroup, and there the most specific one",
		  "[/s]\nMaxEvents=1\n[/s/*]\nMaxEvents=4\n[/s/c*]\nMaxEvents=7\n[/t/*]\nMaxEvents=3\n",
		  "nearest /s -: /s\n"
		  "nearest /s/x/y/z -: /s/*\n"
		  "nearest /s/cron/x -: /s/c*\n"
		  "nearest /t -: nothing\n"
		  "nearest process:1:init -: nothing\n" },
		{ "a pattern that equals the path matches as a pattern",
		  "[/a/[b]]\nMaxEvents=1\n[/a/\\*]\nMaxEvents=2\n[/a\\x2db]\nMaxEvents=3\n",
		  "lookup /a/[b] MaxEvents: nothing\n"
		  "lookup /a/b MaxEvents: 1@a.conf:2\n"
		  "lookup /a/\\* MaxEvents: nothing\n"
		  "lookup /a/* MaxEvents: 2@a.conf:4\n"
		  "lookup /a\\x2db MaxEvents: 3@a.conf:6\n"
		  "lookup /a-b MaxEvents: nothing\n" },
		{ "rules are inherited and limits are not",
		  "[/]\nStream=client\nAllowPersist=yes\nMaxEvents=9\n[/s]\nNamePrefix=s_\nStream=shared\nMaxEvents=8\n[/s/t]\nAllowPersist=no\nMaxConnections=7\n",
		  "resolve /s/t NamePrefix: s_@a.conf:6\n"
		  "resolve /s/t Stream: shared@a.conf:7\n"
		  "resolve /s/t AllowPersist: no@a.conf:10\n"
		  "resolve /s/u AllowPersist: yes@a.conf:3\n"
		  "resolve /x Stream: client@a.conf:2\n"
		  "resolve / Stream: client@a.conf:2\n"
		  "resolve /s/t MaxConnections: 7@a.conf:11\n"
		  "resolve /s/t MaxEvents: infinity\n"
		  "resolve /s/t/u MaxConnections: infinity\n" },
		{ "a tenant without a path has the defaults", "[/**]\nStream=client\n",
		  "resolve process:1:init Stream: auto\n"
		  "lookup process:1:init Stream: nothing\n" },
		{ "without a list all names are allowed", "[/s/t]\nMaxEvents=5\n",
		  "register /s/t anything: AllowEvents\n" },
		{ "a name has to be allowed and not denied",
		  "[/s]\nAllowEvents=a_* b_*\nAllowEvents=c\nDenyEvents=*_secret\n",
		  "register /s/t a_one: AllowEvents=a_*\n"
		  "register /s/t c: AllowEvents=c\n"
		  "register /s/t cc: nothing in AllowEvents= matches 'cc' (etc/a.conf:3)\n"
		  "register /s/t a_secret: DenyEvents=*_secret denies 'a_secret' (etc/a.conf:4)\n"
		  "register /s/t x_secret: DenyEvents=*_secret denies 'x_secret' (etc/a.conf:4)\n" },
		{ "a list of one glob", "[/s]\nAllowEvents=a_*\n",
		  "register /s/t a_: AllowEvents=a_*\n"
		  "register /s/t b_: nothing in AllowEvents= matches 'b_' (etc/a.conf:2)\n" },
		{ "an inner list of allowed names replaces the outer",
		  "[/s]\nAllowEvents=a_*\n[/s/t/u]\nAllowEvents=no\n[/s/t]\nAllowEvents=\n",
		  "register /s/t z: AllowEvents\n" },
		{ "denials add up along the path",
		  "[/]\nDenyEvents=root_*\n[/s]\nDenyEvents=a_x\n[/s/t/u]\nDenyEvents=*\n[/s/t]\nDenyEvents=b_x\nAllowEvents=*_x root_*\n",
		  "register /s/t a_x: DenyEvents=a_x denies 'a_x' (etc/a.conf:4)\n"
		  "register /s/t b_x: DenyEvents=b_x denies 'b_x' (etc/a.conf:8)\n"
		  "register /s/t root_x: DenyEvents=root_* denies 'root_x' (etc/a.conf:2)\n"
		  "register /s/t c_x: AllowEvents=*_x\n" },
		{ "an empty denial resets its own section only",
		  "[/**]\nDenyEvents=all\n[/s]\nDenyEvents=a_x\n[/s/t]\nDenyEvents=b_x\nDenyEvents=\nDenyEvents=c_x\n",
		  "register /s/t all: DenyEvents=all denies 'all' (etc/a.conf:2)\n"
		  "register /s/t a_x: DenyEvents=a_x denies 'a_x' (etc/a.conf:4)\n"
		  "register /s/t b_x: AllowEvents\n"
		  "register /s/t c_x: DenyEvents=c_x denies 'c_x' (etc/a.conf:8)\n" },
		{ "of one cgroup the most specific section counts", "[/s/*]\nDenyEvents=a_x\n[/s/t]\nDenyEvents=b_x\n",
		  "register /s/t a_x: AllowEvents\n"
		  "register /s/t b_x: DenyEvents=b_x denies 'b_x' (etc/a.conf:4)\n" },
		{ "the name of a declared event is for its tenants",
		  "[Event ours]\nTenants=/s/*\n[Event theirs]\nTenants=/t\nTenants=/u/**\n[Event all]\n[Event denied]\nTenants=/s/*\n[/s]\nDenyEvents=denied\n",
		  "register /s/t ours: AllowEvents\n"
		  "register /s/t all: AllowEvents\n"
		  "register /s/t theirs: the policy keeps the event 'theirs' for others (etc/a.conf:5)\n"
		  "register /s/t theirs2: AllowEvents\n"
		  "register /s/t denied: DenyEvents=denied denies 'denied' (etc/a.conf:10)\n" },
		{ "an owned name is refused to others", "[/s/owner*]\nOwnNames=own_* only\n[/other]\nOwnNames=theirs\n",
		  "register /s/owner own_a: OwnNames=own_*\n"
		  "register /s/owner2 only: OwnNames=only\n"
		  "register /s/owner/below/it only: OwnNames=only\n"
		  "register /s only: the policy keeps the name 'only' for others (etc/a.conf:2)\n"
		  "register / own_b: the policy keeps the name 'own_b' for others (etc/a.conf:2)\n"
		  "register /x/s/owner own_b: the policy keeps the name 'own_b' for others (etc/a.conf:2)\n"
		  "register /other own_b: the policy keeps the name 'own_b' for others (etc/a.conf:2)\n"
		  "register pid:17 own_b: the policy keeps the name 'own_b' for others (etc/a.conf:2)\n"
		  "register /s owns: AllowEvents\n"
		  "register /s/owner theirs: the policy keeps the name 'theirs' for others (etc/a.conf:4)\n" },
		{ "other rules apply to owners, too",
		  "[/]\nDenyEvents=own_denied\n[/s/owner]\nOwnNames=own_*\nAllowEvents=own_*d\n[Event own_declared]\nTenants=/s/other\n",
		  "register /s/owner own_denied: DenyEvents=own_denied denies 'own_denied' (etc/a.conf:2)\n"
		  "register /s/owner own_a: nothing in AllowEvents= matches 'own_a' (etc/a.conf:5)\n"
		  "register /s/owner own_d: AllowEvents=own_*d\n"
		  "register /s/owner own_declared: the policy keeps the event 'own_declared' for others (etc/a.conf:7)\n"
		  "register /s/other own_declared: the policy keeps the name 'own_declared' for others (etc/a.conf:4)\n"
		  "register /s/other own_denied: DenyEvents=own_denied denies 'own_denied' (etc/a.conf:2)\n" },
		{ "an empty value resets to the default",
		  "[/s/*]\nMaxEvents=5\nNamePrefix=x_\nDenyEvents=a\nAllowPersist=yes\n[/s/me]\nMaxEvents=\nNamePrefix=\nDenyEvents=\nAllowPersist=\n[Daemon]\nDefaultMaxEvents=7\nDefaultMaxEvents=\n",
		  "resolve /s/you NamePrefix: x_@a.conf:3\n"
		  "resolve /s/me NamePrefix: -@a.conf:8\n"
		  "resolve /s/me DenyEvents: -@a.conf:9\n"
		  "resolve /s/me AllowPersist: no@a.conf:10\n"
		  "daemon - DefaultMaxEvents: 1024@a.conf:13\n"
		  "limit /s/me MaxEvents: 1024@a.conf:13\n" },
		{ "a tenant without a limit has that of [Daemon]",
		  "[Daemon]\nDefaultMaxEvents=5\nDefaultMaxRequestsPerSecond=1/2\n[/a]\nMaxEvents=infinity\nMaxConnections=0\n",
		  "limit /a MaxEvents: infinity@a.conf:5\n"
		  "limit /a MaxConnections: 0@a.conf:6\n"
		  "limit /a MaxRequestsPerSecond: 1/2@a.conf:3\n"
		  "limit /b MaxEvents: 5@a.conf:2\n"
		  "limit /b MaxConnections: 1024\n" },
		{ "Tenant= is not inherited", "[/s/*]\nTenant=yes\n[/s/x]\nTenant=no\n[/s/y]\nTenant=\n",
		  "tenant /s/a -: yes\n"
		  "tenant /s/x -: no\n"
		  "tenant /s/y -: unset\n"
		  "tenant /s -: unset\n"
		  "tenant /s/a/b -: unset\n" },
		{ "flags are allowed separately", "[/s/*]\nAllowPersist=yes\nAllowMultiFormat=no\n",
		  "multi / a: AllowEvents\n"
		  "persist / a: AllowPersist=no; register it without that flag (default)\n"
		  "persist /s/t a: AllowEvents\n"
		  "both /s/t a: AllowMultiFormat=no; register it without that flag (etc/a.conf:3)\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		POLICY(policy, cases[i].policy);

		expect_answers(cases[i].name, policy, cases[i].questions);
	}
}

TEST(without_files_all_values_are_defaults)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = load();

	ck_assert_uint_eq(problems.n, 0);
	ck_assert_uint_eq(policy->n_files, 0);
	expect_answers("no files", policy,
		       "lookup /a MaxEvents: nothing\n"
		       "resolve /a AllowEvents: *\n"
		       "daemon - DefaultMaxEvents: 1024\n");
}

TEST(section_may_be_continued_anywhere)
{
	FILES;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;

	put("etc/a.conf", "[/a]\nMaxEvents=1\nDenyEvents=a\n[/b]\nMaxEvents=5\n[/a]\nMaxConnections=2\n");
	put("etc/b.conf", "[/a]\nMaxEvents=3\nDenyEvents=b\n");
	policy = load();
	ck_assert_uint_eq(policy->sections.n, 2);
	expect_answers("continued", policy,
		       "lookup /a MaxEvents: 3@b.conf:2\n"
		       "lookup /a MaxConnections: 2@a.conf:7\n"
		       "lookup /a DenyEvents: a b@b.conf:3\n");
}

static const char *levels(const char *path)
{
	static char buffer[256];
	struct text text = text_make(buffer, sizeof(buffer));
	struct policy_levels levels = { .from = path };

	while (policy_next_level(&levels))
		text_printf(&text, "%s ", levels.path);
	return buffer;
}

TEST(levels_are_the_root_each_ancestor_and_the_path)
{
	ck_assert_str_eq(levels("/"), "/ ");
	ck_assert_str_eq(levels("/a"), "/ /a ");
	ck_assert_str_eq(levels("/a/bc/d"), "/ /a /a/bc /a/bc/d ");
	ck_assert_str_eq(levels("pid 12"), "");
	ck_assert_str_eq(levels(""), "");
}

TEST(levels_of_a_deep_path_are_bounded)
{
	struct policy_levels levels = { 0 };
	char path[4096] = "";
	unsigned count = 0;

	for (size_t i = 0; i < 2000; i++)
		memcpy(path + 2 * i, "/a", 3);
	for (levels.from = path; policy_next_level(&levels);)
		count++;
	ck_assert_uint_eq(count, POLICY_LEVELS_MAX + 1);
}

TEST(reserves_beyond_the_capacity_are_an_error)
{
	FILES;
	POLICY(policy, "[/b]\nReserveEvents=60\n[/a]\nReserveEvents=40\n");

	ck_assert_int_eq(policy_check_capacity(policy, 100, &problems), 0);
	ck_assert_uint_eq(problems.n, 0);
	ck_assert_int_eq(policy_check_capacity(policy, 99, &problems), POLICY_E_WRONG);
	ck_assert_str_eq(all_problems(), "etc/a.conf:4: [/a]: the reserves of all sections add up to 100 events, and "
					 "there is room for 99; take away 1\n");
	ck_assert_str_eq(problems.list[0].key, "ReserveEvents");
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
	ck_assert_uint_eq(policy->sections.n, 500);
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
	const struct section *event;
	POLICY(policy, "[Event two]\n[Event  one]\nFields=u32 x\nPersist=yes\nTenants=/a /b/*\n"
		       "[/c]\nMaxEvents=1\n[Event two]\nFields=char[8] y\n");

	ck_assert_uint_eq(problems.n, 0);
	ck_assert_uint_eq(policy->events.n, 2);
	ck_assert_uint_eq(policy->sections.n, 1);
	event = policy->events.at[0];
	ck_assert_str_eq(event->name, "Event one");
	ck_assert_str_eq(shown(POLICY_FIELDS, &event->values[POLICY_FIELDS]), "u32 x@a.conf:3");
	ck_assert_str_eq(shown(POLICY_PERSIST, &event->values[POLICY_PERSIST]), "yes@a.conf:4");
	ck_assert_str_eq(shown(POLICY_TENANTS, &event->values[POLICY_TENANTS]), "/a /b/*@a.conf:5");
	event = policy->events.at[1];
	ck_assert_str_eq(event->name, "Event two");
	ck_assert_str_eq(shown(POLICY_FIELDS, &event->values[POLICY_FIELDS]), "char[8] y@a.conf:9");
	ck_assert_str_eq(shown(POLICY_TENANTS, policy_section_value(event, POLICY_TENANTS)), "/**");
	ck_assert_uint_eq(event->origin.line, 1);
	ck_assert_ptr_eq(policy_find_event(policy, "two and more", 3), event);
	ck_assert_ptr_null(policy_find_event(policy, "three", 5));
}

TEST(declared_events_need_room_beside_reserves)
{
	FILES;
	POLICY(policy, "[/a]\nReserveEvents=8\n[Event a]\n[Event b]\n");

	ck_assert_uint_eq(policy_sum_maxima(policy), 10);
	ck_assert_int_eq(policy_check_capacity(policy, 10, &problems), 0);
	ck_assert_int_eq(policy_check_capacity(policy, 9, &problems), POLICY_E_WRONG);
	ck_assert_str_eq(
		all_problems(),
		"etc/a.conf:2: [/a]: the reserves of all sections and the declared events add up to 10 events, and there is room for 9; take away 1\n");
	problems_deinit(&problems);
}
