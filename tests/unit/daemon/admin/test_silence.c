/* SPDX-License-Identifier: GPL-2.0-or-later */

/* SILENCE and SILENCES: muted and blocked tenants, events for some tenants alone. The truth is what the kernel was told. */

#include <stdio.h>

#include "daemon/limits.h"
#include "daemon/registry/event.h"
#include "daemon/registry/silencing.h"
#include "protocol/row.h"
#include "tests/unit/daemon/admin/silence_requests.h"

static void expect_not_done(struct end *admin, uint32_t refusal, const char *words)
{
	struct string_item sentence = expect_error(admin, KIND_REFUSED, refusal);

	ck_assert_msg(memmem(sentence.text, sentence.length, words, strlen(words)), "'%.*s'", (int)sentence.length,
		      sentence.text);
}

TEST(muted_tenant_sees_all_events_as_off)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(noisy, world, 1);
	WELCOMED(other, world, 2);
	struct outcome outcome;

	get(&noisy, EVENT);
	get(&other, EVENT);
	SAY(&admin, ASK_MUTE, path_of(&noisy));
	outcome = expect_done(&admin, 1);
	ck_assert(outcome.changes && outcome.tenants == 1 && outcome.events == 1 && outcome.files == 1);
	ck_assert(is_silent(&noisy, EVENT) && !is_silent(&other, EVENT));
	expect_asked(KERNEL_SILENCE, 1);
	/* The kernel is asked for a new event as a silent one. */
	get(&noisy, "late u32 x");
	ck_assert(is_silent(&noisy, "late u32 x"));
	expect_asked(KERNEL_SILENCE, 1);
	SAY(&admin, ASK_MUTE, path_of(&noisy));
	ck_assert(!expect_done(&admin, 1).changes);
	SAY(&admin, ASK_UNMUTE, path_of(&noisy));
	ck_assert(expect_done(&admin, 1).changes);
	ck_assert(!is_silent(&noisy, EVENT) && !is_silent(&noisy, "late u32 x"));
	SAY(&admin, ASK_UNMUTE, path_of(&noisy));
	ck_assert(!expect_done(&admin, 1).changes);
	expect_asked(KERNEL_SILENCE, 3);
}

TEST(tenant_is_muted_until_its_last_rule_ends)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(noisy, world, 1);
	struct tenant *tenant = tenant_of(&noisy);
	const char *path = tenant->path;

	get(&noisy, EVENT);
	/* The world's tenants are no cgroups; this one becomes one for a while. */
	tenant->path = "/noisy";
	SAY(&admin, ASK_MUTE, "/noisy", "/*");
	expect_done(&admin, 2);
	ck_assert(is_silent(&noisy, EVENT));
	SAY(&admin, ASK_UNMUTE, "/*");
	expect_done(&admin, 1);
	ck_assert(is_silent(&noisy, EVENT));
	SAY(&admin, ASK_UNMUTE, "/noisy");
	expect_done(&admin, 1);
	ck_assert(!is_silent(&noisy, EVENT));
	tenant->path = path;
}

TEST(event_for_one_tenant_is_off_for_others)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(one, world, 1);
	WELCOMED(two, world, 2);
	WELCOMED(three, world, 3);
	struct outcome outcome;

	get(&one, EVENT);
	get(&two, EVENT);
	get(&two, "events u32 x");
	SAY(&admin, ASK_ONLY, "=event", path_of(&one));
	outcome = expect_done(&admin, 1);
	ck_assert(outcome.changes && outcome.on == 1 && outcome.off == 1 && outcome.tenants == 1);
	ck_assert(!is_silent(&one, EVENT) && is_silent(&two, EVENT) && !is_silent(&two, "events u32 x"));
	get(&three, EVENT);
	ck_assert(is_silent(&three, EVENT));
	/* A second tenant is added. */
	SAY(&admin, ASK_ONLY, "=event", path_of(&three));
	outcome = expect_done(&admin, 1);
	ck_assert(outcome.on == 2 && outcome.off == 1);
	ck_assert(!is_silent(&one, EVENT) && is_silent(&two, EVENT) && !is_silent(&three, EVENT));
	/* A mute counts beside that. */
	SAY(&admin, ASK_MUTE, path_of(&one));
	expect_done(&admin, 1);
	ck_assert(is_silent(&one, EVENT));
	SAY(&admin, ASK_ALL, "=event");
	expect_done(&admin, 0);
	ck_assert(is_silent(&one, EVENT) && !is_silent(&two, EVENT) && !is_silent(&three, EVENT));
	SAY(&admin, ASK_UNMUTE, path_of(&one));
	expect_done(&admin, 1);
	ck_assert(!is_silent(&one, EVENT));
}

TEST(temporary_rule_ends_with_its_connection)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(one, world, 1);
	WELCOMED(two, world, 2);
	struct outcome outcome;

	get(&one, EVENT);
	get(&two, EVENT);
	{
		ADMIN(tail, world);

		SAY(&tail, ASK_WHILE, "=event", path_of(&one));
		outcome = expect_done(&tail, 1);
		ck_assert(outcome.changes && outcome.on == 1 && outcome.off == 1);
		ck_assert(!is_silent(&one, EVENT) && is_silent(&two, EVENT));
		{
			ADMIN(other, world);

			/* The same for both; the first that ends takes nothing from the other. */
			SAY(&other, ASK_WHILE, "=event", path_of(&one));
			ck_assert(expect_done(&other, 1).changes);
		}
		turn(world);
		ck_assert(!is_silent(&one, EVENT) && is_silent(&two, EVENT));
		/* No one else ends it, but for an admin who wants the event on for all. */
		SAY(&admin, ASK_ONLY, "=event", path_of(&two));
		expect_done(&admin, 1);
		ck_assert(!is_silent(&one, EVENT) && !is_silent(&two, EVENT));
	}
	turn(world);
	ck_assert(is_silent(&one, EVENT) && !is_silent(&two, EVENT));
	{
		ADMIN(tail, world);

		SAY(&tail, ASK_WHILE, "=event", path_of(&one));
		expect_done(&tail, 1);
		SAY(&admin, ASK_ALL, "=event");
		expect_done(&admin, 0);
		ck_assert(!is_silent(&one, EVENT) && !is_silent(&two, EVENT));
	}
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.silence->n, 0);
}

TEST(rule_waits_for_tenants_and_events)
{
	char path[64];
	GUARDED(world);
	ADMIN(admin, world);
	struct outcome outcome;

	{
		WELCOMED(early, world, 1);

		string_copy(path, sizeof(path), path_of(&early));
	}
	turn(world);
	SAY(&admin, ASK_MUTE, path, "/system.slice/**");
	outcome = expect_done(&admin, 2);
	ck_assert(outcome.changes && outcome.tenants == 0);
	SAY(&admin, ASK_ONLY, "=event", "=other", "/system.slice/a.service");
	outcome = expect_done(&admin, 1);
	ck_assert(outcome.changes && outcome.on == 0 && outcome.off == 0);
	{
		WELCOMED(late, world, 1);
		WELCOMED(other, world, 2);

		get(&late, "third u32 x");
		ck_assert(is_silent(&late, "third u32 x"));
		get(&other, EVENT);
		ck_assert(is_silent(&other, EVENT));
		get(&other, "third u32 x");
		ck_assert(!is_silent(&other, "third u32 x"));
	}
	turn(world);
	SAY(&admin, ASK_UNMUTE, path, "/system.slice/**");
	expect_done(&admin, 2);
	SAY(&admin, ASK_ALL, "=event", "=other");
	expect_done(&admin, 0);
	ck_assert_uint_eq(world->daemon->registry.silence->n, 0);
}

/* The kernel is asked while there is no rule yet. */
TEST(registration_under_way_is_silenced_behind_it)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(end, world, 1);

	hold();
	REGISTER(&end, EVENT);
	SAY(&admin, ASK_MUTE, path_of(&end));
	hold_no_more();
	answer_all();
	turn(world);
	expect_granted(&end);
	expect_done(&admin, 1);
	turn(world);
	ck_assert(is_silent(&end, EVENT));
	hold();
	REGISTER(&end, "second u32 x");
	SAY(&admin, ASK_UNMUTE, path_of(&end));
	hold_no_more();
	answer_all();
	turn(world);
	expect_granted(&end);
	expect_done(&admin, 1);
	turn(world);
	ck_assert(!is_silent(&end, EVENT) && !is_silent(&end, "second u32 x"));
}

/* The answer comes when the kernel has answered, also of a change that came meanwhile. */
TEST(answer_waits_for_the_kernel)
{
	GUARDED(world);
	ADMIN(admin, world);
	ADMIN(second, world);
	WELCOMED(end, world, 1);

	get(&end, EVENT);
	hold();
	SAY(&admin, ASK_MUTE, path_of(&end));
	expect_silence(&admin);
	SAY(&second, ASK_UNMUTE, path_of(&end));
	expect_silence(&second);
	answer_one();
	turn(world);
	expect_silence(&admin);
	answer_one();
	turn(world);
	expect_done(&admin, 1);
	expect_done(&second, 1);
	ck_assert(!is_silent(&end, EVENT));
	/* One that has left gets none. */
	SAY(&second, ASK_MUTE, path_of(&end));
	end_hang_up(&second);
	hold_no_more();
	answer_all();
	turn(world);
	ck_assert(is_silent(&end, EVENT));
}

TEST(calls_that_the_kernel_refuses_are_repeated)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(end, world, 1);

	get(&end, EVENT);
	get(&end, "second u32 x");
	refuse(KERNEL_SILENCE, -ETOOMANYREFS, 1, 3);
	SAY(&admin, ASK_MUTE, path_of(&end));
	for (unsigned i = 0; i < 500 && !has_an_answer(&admin); i++) {
		usleep(10000);
		turn(world);
	}
	expect_done(&admin, 1);
	ck_assert(is_silent(&end, EVENT) && is_silent(&end, "second u32 x"));
}

/* --- what is shown --- */

TEST(rules_are_listed_and_shown)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(one, world, 1);
	WELCOMED(two, world, 2);
	struct row_field field;
	struct cursor rows, row;

	get(&one, EVENT);
	get(&two, EVENT);
	SAY(&admin, ASK_ONLY, "=event", path_of(&one), "/a/*");
	expect_done(&admin, 2);
	SAY(&admin, ASK_MUTE, path_of(&two));
	expect_done(&admin, 1);
	rows = ask_for_rows(&admin, KIND_SILENCES, 3);
	row = next_row(&rows);
	expect_string(row, "rule", "only");
	expect_string(row, "event", "event");
	expect_string(row, "tenant", path_of(&one));
	row = next_row(&rows);
	expect_string(row, "tenant", "/a/*");
	row = next_row(&rows);
	expect_string(row, "rule", "muted");
	expect_string(row, "tenant", path_of(&two));
	rows = ask_for_rows(&admin, KIND_EVENTS, 1);
	row = next_row(&rows);
	ck_assert_uint_eq(row_get_u64(row, "silent"), 1);
	ck_assert(row_find(row, "only", &field));
	ck_assert_uint_eq(count_items(cursor_make(field.value, field.length)), 2);
	rows = ask_for_rows(&admin, KIND_TENANTS, 2);
	row = next_row(&rows);
	ck_assert(!row_get_u64(row, "muted") && !row_get_u64(row, "blocked"));
	row = next_row(&rows);
	ck_assert(row_get_u64(row, "muted") && !row_get_u64(row, "blocked"));
	rows = ask_for_rows(&admin, KIND_STATUS, 1);
	ck_assert_uint_eq(row_get_u64(next_row(&rows), "silences"), 3);
	SAY(&admin, ASK_ALL, "=event");
	expect_done(&admin, 0);
	SAY(&admin, ASK_UNMUTE, path_of(&two));
	expect_done(&admin, 1);
	ask_for_rows(&admin, KIND_SILENCES, 0);
	rows = ask_for_rows(&admin, KIND_EVENTS, 1);
	row = next_row(&rows);
	ck_assert(!row_find(row, "silent", &field) && !row_find(row, "only", &field));
}

/* --- requests --- */

TEST(wrong_request_changes_nothing)
{
	static const struct {
		uint16_t asked;
		const char *items[4];
		const char *words; /* NULL: it breaks the protocol */
	} cases[] = {
		{ 0, { "/a" }, NULL },
		{ ASK_WHILE + 1, { "=event" }, NULL },
		{ ASK_WHILE, { "=event" }, NULL },
		{ ASK_MUTE, { NULL }, NULL },
		{ ASK_MUTE, { "=event", "/a" }, NULL },
		{ ASK_ONLY, { "/a" }, NULL },
		{ ASK_ONLY, { "=event" }, NULL },
		{ ASK_ALL, { "=event", "/a" }, NULL },
		{ ASK_MUTE, { "/a", "/b//c" }, "between two slashes" },
		{ ASK_MUTE, { "/a", "/b[" }, "no ']'" },
		{ ASK_MUTE, { "" }, "it is no name" },
		{ ASK_MUTE, { "/a\nblock /" }, "control character" },
		{ ASK_MUTE, { "<a" }, "begins with a slash" },
		{ ASK_ONLY, { "=event u32 x", "/a" }, "it is no name" },
	};
	GUARDED(world);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ADMIN(admin, world);

		say_silence(&admin, cases[i].asked, cases[i].items);
		if (cases[i].words)
			expect_not_done(&admin, REFUSAL_BAD_PACKET, cases[i].words);
		else
			expect_cut(&admin, REFUSAL_BAD_PACKET);
		ck_assert_ptr_null(world->daemon->registry.silence);
	}
}

TEST(rules_have_a_maximum)
{
	char pattern[32];
	GUARDED(world);
	ADMIN(admin, world);

	for (unsigned i = 0; i < SILENCE_RULES_MAX; i++) {
		snprintf(pattern, sizeof(pattern), "/%u", i);
		ck_assert_int_eq(silence_add(&world->daemon->registry, SILENCE_MUTE, "", pattern, NULL), 0);
	}
	SAY(&admin, ASK_MUTE, "/one-more");
	expect_not_done(&admin, REFUSAL_TROUBLE, "as many as there may be");
	SAY(&admin, ASK_UNMUTE, "/7");
	ck_assert(expect_done(&admin, 1).changes);
	SAY(&admin, ASK_MUTE, "/one-more");
	ck_assert(expect_done(&admin, 1).changes);
}

TEST(too_many_patterns_are_refused)
{
	const char *items[SILENCE_PATTERNS_MAX + 2] = { NULL };
	char patterns[SILENCE_PATTERNS_MAX + 1][8];
	GUARDED(world);
	ADMIN(admin, world);

	for (unsigned i = 0; i <= SILENCE_PATTERNS_MAX; i++) {
		snprintf(patterns[i], sizeof(patterns[i]), "/%u", i);
		items[i] = patterns[i];
	}
	say_silence(&admin, ASK_MUTE, items);
	expect_not_done(&admin, REFUSAL_BAD_PACKET, "too many");
	items[SILENCE_PATTERNS_MAX] = NULL;
	say_silence(&admin, ASK_MUTE, items);
	expect_done(&admin, SILENCE_PATTERNS_MAX);
}

/* Before Linux 6.4. */
TEST(shared_page_has_no_silent_events)
{
	GUARDED(world);
	ADMIN(admin, world);
	WELCOMED(end, world, 1);
	WELCOMED(other, world, 2);
	char path[64];

	world->daemon->registry.kernel->facts.shared_page = 1;
	string_copy(path, sizeof(path), path_of(&end));
	get(&end, EVENT);
	SAY(&admin, ASK_MUTE, path);
	expect_not_done(&admin, REFUSAL_KERNEL_TOO_OLD, "one page");
	SAY(&admin, ASK_ONLY, "=event", path);
	expect_not_done(&admin, REFUSAL_KERNEL_TOO_OLD, "one page");
	SAY(&admin, ASK_BLOCK, path);
	expect_done(&admin, 1);
	expect_cut(&end, REFUSAL_NOT_PERMITTED);
	get(&other, EVENT);
	expect_asked(KERNEL_SILENCE, 0);
	SAY(&admin, ASK_UNBLOCK, path);
	ck_assert(expect_done(&admin, 1).changes);
	world->daemon->registry.kernel->facts.shared_page = 0;
}

/* --- patterns --- */

TEST(pattern_matches_tenants_in_a_cgroup)
{
	static const struct {
		const char *pattern, *path;
		bool matches;
	} cases[] = {
		{ "/a/b", "/a/b", true },
		{ "/a/b", "/a/bc", false },
		{ "/a", "/a/b", true },
		{ "/", "/a/b", true },
		{ "/a/*", "/a/b", true },
		{ "/*", "/a/b", true },
		{ "/b", "/a/b", false },
		{ "/**/b", "/a/b", true },
		{ "/a/\\*", "/a/b", false },
		{ "/a/\\*", "/a/*", true },
		{ "/a/b/c", "/a/b", false },
		{ "process:1:x", "process:1:x", true },
		{ "process:1:x", "process:1:xy", false },
		{ "/**", "process:1:x", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tenant tenant = { .path = (char *)(uintptr_t)cases[i].path };
		struct silence_rule rule = { .tenant = cases[i].pattern };
		char room[64];

		if (*cases[i].pattern == '/')
			ck_assert_ptr_null(pattern_parse(cases[i].pattern, room, &rule.pattern));
		ck_assert_msg(silence_matches(&rule, &tenant) == cases[i].matches, "%s %s", cases[i].pattern,
			      cases[i].path);
	}
}

/* --- restarts --- */

TEST(rules_survive_a_restart)
{
	KEPT(world);
	WELCOMED(one, world, 1);
	WELCOMED(two, world, 2);
	const uint32_t page = tenant_of(&one)->number, other = tenant_of(&two)->number;
	char path[64];

	get(&one, EVENT);
	get(&two, EVENT);
	string_copy(path, sizeof(path), path_of(&one));
	{
		ADMIN(admin, world);

		SAY(&admin, ASK_MUTE, path);
		expect_done(&admin, 1);
		SAY(&admin, ASK_ONLY, "=late", path);
		expect_done(&admin, 1);
	}
	turn(world);
	world_restart(world);
	ck_assert_uint_eq(world->daemon->registry.silence->n, 2);
	ck_assert(!world->daemon->registry.silence->busy);
	ck_assert(is_silent_on(page, EVENT) && !is_silent_on(other, EVENT));
	get(&one, "second u32 x");
	ck_assert(is_silent_on(page, "second u32 x"));
	get(&two, "late u32 x");
	ck_assert(is_silent_on(other, "late u32 x"));
	{
		ADMIN(admin, world);

		SAY(&admin, ASK_UNMUTE, path);
		expect_done(&admin, 1);
		ck_assert(!is_silent_on(page, EVENT) && !is_silent_on(page, "second u32 x"));
	}
	turn(world);
	world_restart(world);
	ck_assert_uint_eq(world->daemon->registry.silence->n, 1);
	ck_assert(!is_silent_on(page, EVENT) && is_silent_on(other, "late u32 x"));
}

/* The keeper has not carried out, or answered, what the last daemon has asked. */
TEST(change_under_way_is_completed_by_the_next_daemon)
{
	KEPT(world);
	WELCOMED(one, world, 1);
	const uint32_t page = tenant_of(&one)->number;
	char path[64];

	get(&one, EVENT);
	string_copy(path, sizeof(path), path_of(&one));
	for (unsigned round = 0; round < 4; round++) {
		ADMIN(admin, world);

		hold();
		SAY(&admin, round % 2 == 0 ? ASK_MUTE : ASK_UNMUTE, path);
		expect_silence(&admin);
		if (round < 2)
			carry_out_batch(TAILQ_FIRST(&script.under_way));
		world_leave_daemon(world);
		hold_no_more();
		world_next_daemon(world);
		ck_assert(is_silent_on(page, EVENT) == (round % 2 == 0));
		ck_assert_uint_eq(world->daemon->registry.silence ? world->daemon->registry.silence->n : 0,
				  round % 2 == 0);
	}
}

/* The daemon starts all the same. */
TEST(kernel_may_refuse_what_is_restored)
{
	KEPT(world);
	WELCOMED(one, world, 1);

	get(&one, EVENT);
	ck_assert_int_eq(silence_add(&world->daemon->registry, SILENCE_MUTE, "", path_of(&one), NULL), 0);
	world_leave_daemon(world);
	fake.out_of_memory = UINT64_C(1) << KERNEL_SILENCE;
	world_next_daemon(world);
	ck_assert(!world->daemon->registry.silence->busy);
	fake.out_of_memory = 0;
	query(&one);
}
