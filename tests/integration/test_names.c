/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Keys of the policy that decide about names: AllowEvents, DenyEvents, OwnNames, NamePrefix, and names that are taken. */

#include "client/userev.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/policy.h"

/* The tests may be root, in what looks like a container, with files that no guard protects. */
#define ROOT_MAY "[/**]\nAllowHostRoot=yes\n"

DAEMON_TEST(events_are_allowed_and_denied_by_name,
	    .policy = "[/**]\nAllowEvents=app_* own_event\nDenyEvents=app_secret*\n")
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_granted(socket, "app_one u32 a");
	expect_granted(socket, "own_event u32 a");
	expect_refusal(socket, "other u32 a", REFUSAL_NOT_PERMITTED, "nothing in AllowEvents= matches 'other'");
	expect_refusal(socket, "other u32 a", REFUSAL_NOT_PERMITTED, "policy.conf:2");
	expect_refusal(socket, "app_secret_one u32 a", REFUSAL_NOT_PERMITTED,
		       "DenyEvents=app_secret* denies 'app_secret_one'");
	/* The fields are no part of the name. */
	expect_refusal(socket, "x u32 app_one", REFUSAL_NOT_PERMITTED, "AllowEvents=");
	expect_status(fixture, "charges=2");
	ck_assert(log_has(fixture, "not-permitted"));
}

DAEMON_TEST(denial_of_the_root_applies_to_every_cgroup, .needs_cgroups = "a denial of the root's and one of a cgroup's",
	    .policy = ROOT_MAY "[/]\nDenyEvents=sched_*\n"
			       "[/userevd-test-*/picky]\nDenyEvents=app_secret\nAllowEvents=*\n")
{
	_cleanup_(actor_end) struct actor actor = actor_in(fixture, make_cgroup("picky"), 0);

	expect_refusal(actor.socket, "sched_switch u32 a", REFUSAL_NOT_PERMITTED, "DenyEvents=sched_* denies");
	expect_refusal(actor.socket, "sched_switch u32 a", REFUSAL_NOT_PERMITTED, "policy.conf:4");
	expect_refusal(actor.socket, "app_secret u32 a", REFUSAL_NOT_PERMITTED, "policy.conf:6");
	expect_granted(actor.socket, "app_one u32 a");
}

DAEMON_TEST(owned_name_is_refused_to_other_tenants, .needs_cgroups = "names that a cgroup owns",
	    .policy = ROOT_MAY "[/userevd-test-*/owner]\nOwnNames=own_*\n")
{
	static const char words[] = "the policy keeps the name 'own_one' for others";
	_cleanup_(actor_end) struct actor other = actor_in(fixture, make_cgroup("other"), 0);
	_cleanup_(actor_end) struct actor owner = actor_in(fixture, make_cgroup("owner"), 0);

	expect_refusal(other.socket, "own_one u32 a", REFUSAL_NOT_PERMITTED, words);
	expect_granted(owner.socket, "own_one u32 a");
	expect_refusal(other.socket, "own_one u32 a", REFUSAL_NOT_PERMITTED, words);
	expect_granted(other.socket, "owned u32 a");
	/* The first owner keeps its event; a new one is the new owner's. */
	change_policy(fixture, ROOT_MAY "[/userevd-test-*/other]\nOwnNames=own_*\n");
	expect_granted(other.socket, "own_one u32 a");
	expect_refusal(owner.socket, "own_two u32 a", REFUSAL_NOT_PERMITTED, "for others");
	ck_assert_uint_eq(event_number(fixture, "own_one", "tenants"), 2);
	fixture_write_policy(fixture, "[/a]\nOwnNames=x*\n[/b]\nOwnNames=*y\n");
	expect_reload(fixture, 1, "OwnNames=*y: some of these names are already owned by [/a]");
}

static void expect_explanation(const struct fixture *fixture, const char *words)
{
	char output[4096];

	run_command(fixture, output, sizeof(output),
		    (const char *const[]){ built("userevctl"), "policy", "explain",
					   cgroup_path(make_cgroup("unrelated")), "taken u64 a", NULL });
	ck_assert_msg(strstr(output, words), "'%s' is not in '%s'", words, output);
}

DAEMON_TEST(taken_name_has_its_tenant_for_related_cgroups, .needs_cgroups = "names that are taken in another cgroup")
{
	enum { INNER, OUTER, UNRELATED, ACTORS };
	static const char *const cgroups[ACTORS] = { "outer/inner", "outer", "unrelated" };
	static const struct {
		unsigned actor;
		const char *description, *words;
	} taken[] = {
		{ INNER, "taken u64 a", "is taken by this tenant's event" },
		{ INNER, "taken u64 a", "taken u32 secret" },
		{ OUTER, "taken u64 a", "is taken by an event of the tenant /" },
		{ UNRELATED, "taken u64 a", "is taken by an event with other fields; choose" },
		{ UNRELATED, "declared u64 a",
		  "is taken by the event that the policy declares with other fields; choose another name, or the "
		  "same fields: declared u32 a" },
	};
	struct actor actors[ACTORS];
	char sentence[256];

	change_policy(fixture, "[/**]\nAllowHostRoot=yes\nAllowMultiFormat=no\n[Event declared]\nFields=u32 a\n"
			       "[/userevd-test-*/outer]\nTenant=no\n[/userevd-test-*/outer/*]\nTenant=yes\n");
	ck_assert(eventually(event_number(fixture, "declared", "tenants") == 1));
	for (unsigned i = 0; i < ACTORS; i++)
		actors[i] = actor_in(fixture, make_cgroup(cgroups[i]), 0);
	expect_granted(actors[INNER].socket, "taken u32 secret");
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		expect_refusal(actors[taken[i].actor].socket, taken[i].description, REFUSAL_NAME_TAKEN, taken[i].words);
	register_one(actors[OUTER].socket, "taken u64 a", sentence, sizeof(sentence));
	ck_assert_msg(!strstr(sentence, "secret"), "%s", sentence);
	/* An admin may know. */
	expect_explanation(fixture, "refused: the name is taken by an event with other fields, of the tenant /");
	expect_explanation(fixture, "taken u32 secret");
	change_policy(fixture, ROOT_MAY);
	expect_explanation(fixture, offers_multi_format(fixture) ? "allowed: taken, as multi-format" : "refused");
	for (unsigned i = 0; i < ACTORS; i++)
		actor_end(&actors[i]);
}

DAEMON_TEST(prefix_is_part_of_an_owned_name,
	    .policy = "[/**]\nNamePrefix=box_\n[/nobody/is/here]\nOwnNames=box_secret other\n")
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_refusal(socket, "secret u32 a", REFUSAL_NOT_PERMITTED,
		       "the policy keeps the name 'box_secret' for others");
	expect_granted(socket, "other u32 a");
}

DAEMON_TEST(prefix_is_added_and_sent_to_the_program,
	    .policy = "[/**]\nNamePrefix=box_\nDenyEvents=box_secret secret2\n")
{
	struct userev_event event = { 0 }, again = { 0 };
	struct userev *userev = userev_open(fixture->socket, 0);

	ck_assert_int_eq(userev_register(userev, &event, "\t hello u32 count", 0), 0);
	ck_assert_str_eq(userev_event_name(&event), "box_hello");
	ck_assert_uint_eq(event_number(fixture, "box_hello", "holders_total"), 1);
	ck_assert_uint_eq(trace(fixture, "hello", true), 0);
	ck_assert_uint_eq(trace(fixture, "box_hello", true), 1);
	ck_assert(userev_enabled(&event));
	trace(fixture, "box_hello", false);
	/* A full name gets the prefix, too; otherwise a program could have the names of others. */
	ck_assert_int_eq(userev_register(userev, &again, "box_hello u32 count", 0), 0);
	ck_assert_str_eq(userev_event_name(&again), "box_box_hello");
	/* DenyEvents= is compared with the full name. */
	userev_release(userev, &again);
	ck_assert_int_eq(userev_register(userev, &again, "secret u32 count", 0), -EACCES);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "box_secret"));
	ck_assert_int_eq(userev_register(userev, &again, "secret2 u32 count", 0), 0);
	userev_close(userev);
}

/* With the prefix of four bytes one is as long as it may be, and one byte longer it is refused. */
static void expect_longest(int socket, const char *begin, size_t longest, const char *words)
{
	char description[WIRE_DESCRIPTION_MAX + 2];

	memset(description, 'f', sizeof(description));
	memcpy(description, begin, strlen(begin));
	description[longest - strlen("box_")] = '\0';
	expect_granted(socket, description);
	description[longest - strlen("box_")] = 'f';
	description[longest + 1 - strlen("box_")] = '\0';
	expect_refusal(socket, description, REFUSAL_BAD_DESCRIPTION, words);
}

DAEMON_TEST(description_too_long_with_prefix_is_refused, .policy = "[/**]\nNamePrefix=box_\n")
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_longest(socket, "name", 200, "200");
	expect_longest(socket, "long u32 ", WIRE_DESCRIPTION_MAX, "511");
}

int main(void)
{
	return run_tests_in_cgroups();
}
