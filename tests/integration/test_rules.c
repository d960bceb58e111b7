/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What each key of the policy does to those who use the socket. Where every program is a tenant (--tenants=process) it has no
 * cgroup, so sections do not name it, but it lies below "/": enough for what several tenants have together. Where one of them
 * has to be named, real cgroups are made, if this machine lets us.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/xattr.h>
#include <time.h>

#include "client/userev.h"
#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/policy.h"

static const char *const each_process_a_tenant[] = { "--tenants=process", NULL };
static const char *const room_for_ten[] = { "--capacity=10", NULL };

static struct fixture fixture;

static int connect_here(void)
{
	return raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
}

static struct wire_welcome welcome_here(void)
{
	struct wire_welcome welcome;

	close(raw_hello(fixture.socket, UINT64_MAX, &welcome, NULL));
	return welcome;
}

/* --- MaxEvents, DefaultMaxEvents --- */

static void actor_in(struct actor *actor, const char *socket, const char *cgroup)
{
	actor_start(actor, socket, &(struct actor_as){ .cgroup = cgroup });
}

/* The tests may be root, in what looks like a container, where nothing guards the files. */
#define ROOT_MAY "[/**]\nAllowHostRoot=yes\n"

TEST(maximum_is_for_all_programs_of_a_tenant)
{
	int one, another;

	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=2\n", NULL);
	ck_assert_uint_eq(welcome_here().events_max, 2);
	one = connect_here();
	another = connect_here();
	expect_granted(one, "first u32 a");
	expect_granted(another, "second u32 a");
	expect_refusal(one, "third u32 a", REFUSAL_QUOTA_EXCEEDED,
		       "this tenant holds 2 of 2 events (MaxEvents=2 of [/**]); release some");
	/* What it has already costs nothing. */
	expect_granted(one, "second u32 a");
	ck_assert_uint_eq(tenant_number(&fixture, "events_max"), 2);
	close(another);
	close(one);
	ck_assert(eventually(status_number(&fixture, "charges") == 0));
	one = connect_here();
	expect_granted(one, "third u32 a");
	close(one);
	fixture_stop(&fixture);
}
END_TEST

TEST(maximum_may_be_zero)
{
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=0\n", NULL);
	socket = connect_here();
	expect_refusal(socket, "first u32 a", REFUSAL_QUOTA_EXCEEDED, "this tenant holds 0 of 0 events");
	ck_assert_uint_eq(status_number(&fixture, "charges"), 0);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(maximum_of_a_cgroup_is_for_all_tenants_in_it)
{
	struct actor one, another;

	fixture_start_with_policy(&fixture, "[/]\nMaxEvents=8\n", each_process_a_tenant);
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	expect_granted_many(one.socket, "ours", 4);
	/* An event of two tenants counts twice: it could become each one's alone. */
	expect_granted_many(another.socket, "ours", 4);
	expect_refusal(another.socket, "more u32 a", REFUSAL_QUOTA_EXCEEDED, "all in the cgroup / hold 8 of 8 events");
	expect_refusal(one.socket, "more u32 a", REFUSAL_QUOTA_EXCEEDED, "all in the cgroup / hold 8 of 8 events");
	actor_end(&one);
	ck_assert(eventually(status_number(&fixture, "tenants") == 1));
	actor_end(&another);
	fixture_stop(&fixture);
}
END_TEST

/* The machine has room, but what is left in the cgroup is for others, too. */
TEST(refusal_beyond_a_fair_share_names_the_cgroup)
{
	struct actor one, another, third;

	fixture_start_with_policy(&fixture, "[/]\nMaxEvents=4\n", each_process_a_tenant);
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	actor_start(&third, fixture.socket, NULL);
	expect_granted_many(one.socket, "ours", 2);
	expect_refusal(one.socket, "more u32 a", REFUSAL_QUOTA_EXCEEDED, "a fair share among 1");
	expect_granted(another.socket, "theirs");
	expect_refusal(third.socket, "third u32 a", REFUSAL_QUOTA_EXCEEDED,
		       "all in the cgroup / hold 3 of 4 events (MaxEvents=4 of [/]), and the rest is for all of them");
	actor_end(&third);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(maximum_of_a_real_cgroup_includes_those_below)
{
	struct actor one, another, outside;

	if (!need_cgroups("a maximum of a cgroup with tenants in it"))
		return;
	make_cgroup("slice");
	fixture_start_with_policy(&fixture,
				  ROOT_MAY "[/userevd-test-*/slice]\nMaxEvents=2\n"
					   "[/userevd-test-*/slice/*]\nTenant=yes\nMaxEvents=100\n",
				  NULL);
	actor_in(&one, fixture.socket, make_cgroup("slice/one"));
	actor_in(&another, fixture.socket, make_cgroup("slice/another"));
	actor_in(&outside, fixture.socket, make_cgroup("outside"));
	ck_assert_uint_eq(status_number(&fixture, "tenants"), 3);
	expect_granted(one.socket, "first u32 a");
	expect_granted(another.socket, "second u32 a");
	expect_refusal(another.socket, "third u32 a", REFUSAL_QUOTA_EXCEEDED, "slice hold 2 of 2 events");
	expect_granted_many(outside.socket, "many", 3);
	actor_end(&outside);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(default_maximum_is_for_tenants_without_one)
{
	static const char *const option[] = { "--max-events=5", NULL };

	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxEvents=2\n", NULL);
	ck_assert_uint_eq(welcome_here().events_max, 2);
	change_policy(&fixture, "[Daemon]\nDefaultMaxEvents=2\n[/**]\nMaxEvents=3\n");
	ck_assert_uint_eq(welcome_here().events_max, 3);
	fixture_stop(&fixture);

	/* The option is a default, too, and comes first. */
	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxEvents=2\n", option);
	ck_assert_uint_eq(welcome_here().events_max, 5);
	change_policy(&fixture, "[/**]\nMaxEvents=3\n");
	ck_assert_uint_eq(welcome_here().events_max, 3);
	fixture_stop(&fixture);
}
END_TEST

/* --- ReserveEvents --- */

TEST(reserve_is_kept_from_other_tenants)
{
	int socket;

	fixture_start_with_policy(&fixture, "[/nowhere]\nReserveEvents=7\n[/**]\nMaxEvents=100\n", room_for_ten);
	socket = connect_here();
	expect_granted_many(socket, "event", 3);
	expect_refusal(socket, "fourth u32 a", REFUSAL_MACHINE_FULL,
		       "this machine holds 3 of 3 events besides 7 that are reserved");
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 7);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved"), 0);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(reserve_is_filled_by_matching_tenants)
{
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=100\nReserveEvents=4\n", room_for_ten);
	socket = connect_here();
	expect_granted_many(socket, "event", 3);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved"), 4);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved_filled"), 3);
	ck_assert_uint_eq(status_number(&fixture, "charges"), 3);
	/* It may have more, as anybody may. */
	expect_granted_many(socket, "more", 7);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved_filled"), 4);
	expect_refusal(socket, "eleventh u32 a", REFUSAL_MACHINE_FULL, "6 of 6 events besides 4 that are reserved");
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(reserve_can_be_filled_on_a_full_machine)
{
	struct actor greedy, named, brother;

	if (!need_cgroups("a reserve of one tenant of two"))
		return;
	fixture_start_with_policy(&fixture,
				  "[/userevd-test-*]\nMaxEvents=100\n[/userevd-test-*/*]\nMaxEvents=100\n"
				  "[/userevd-test-*/named*]\nReserveEvents=3\n",
				  room_for_ten);
	actor_in(&greedy, fixture.socket, make_cgroup("greedy"));
	actor_in(&named, fixture.socket, make_cgroup("named"));
	expect_granted_many(greedy.socket, "greedy", 7);
	expect_refusal(greedy.socket, "more u32 a", REFUSAL_MACHINE_FULL, "besides 3 that are reserved");
	expect_granted_many(named.socket, "named", 2);
	/* It is one sum for all that the section names. */
	actor_in(&brother, fixture.socket, make_cgroup("named_too"));
	expect_granted(brother.socket, "brother u32 a");
	expect_refusal(named.socket, "third u32 a", REFUSAL_MACHINE_FULL, "besides 3 that are reserved");
	actor_end(&brother);
	ck_assert(eventually(status_number(&fixture, "charges") == 9));
	expect_refusal(greedy.socket, "more u32 a", REFUSAL_MACHINE_FULL, "besides 3 that are reserved");
	expect_granted(named.socket, "third u32 a");
	actor_end(&named);
	actor_end(&greedy);
	fixture_stop(&fixture);
}
END_TEST

/* --- MaxConnections, DefaultMaxConnections --- */

/* Whether we get in; if not, the sentence has these words. */
static bool gets_in(int *ret, const char *words)
{
	struct string_item sentence;
	struct raw_reply reply;
	uint32_t refusal = 0;
	char text[512];
	int socket = raw_connect(fixture.socket);

	/* Who is turned away may be so before it has said anything. */
	encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
	raw_send(socket);
	raw_receive(socket, &reply);
	ck_assert_int_gt(reply.size, 0);
	if (reply.message.kind == KIND_WELCOME) {
		raw_reply_deinit(&reply);
		*ret = socket;
		return true;
	}
	ck_assert_int_eq(reply.message.kind, KIND_ERROR);
	ck_assert_int_eq(decode_error(reply.message.body, &refusal, &sentence), 0);
	ck_assert_uint_eq(refusal, REFUSAL_TOO_MANY_CONNECTIONS);
	snprintf(text, sizeof(text), "%.*s", (int)sentence.length, sentence.text);
	ck_assert_msg(strstr(text, words), "'%s' is not in '%s'", words, text);
	raw_receive(socket, &reply);
	ck_assert_int_le(reply.size, 0);
	close(socket);
	return false;
}

TEST(connection_beyond_the_maximum_is_refused)
{
	int one, another, third = -1;

	fixture_start_with_policy(&fixture, "[/**]\nMaxConnections=2\n", NULL);
	one = connect_here();
	another = connect_here();
	ck_assert(!gets_in(&third, "this tenant has 2 of 2 connections (MaxConnections=2 of ["));
	ck_assert_uint_eq(tenant_number(&fixture, "connections_max"), 2);
	ck_assert(log_has(&fixture, "too-many-connections"));
	expect_granted(one, "unharmed u32 a");
	close(another);
	ck_assert(eventually(gets_in(&third, "2 of 2")));
	close(third);
	close(one);
	fixture_stop(&fixture);
}
END_TEST

TEST(connections_in_a_cgroup_are_counted_together)
{
	struct actor one, another;
	int third;

	fixture_start_with_policy(&fixture, "[/]\nMaxConnections=2\n", each_process_a_tenant);
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	ck_assert(
		!gets_in(&third, "all in the cgroup / have 2 of 2 connections (MaxConnections=2 of [/]); close some"));
	/* Who was turned away has left nothing. */
	ck_assert_uint_eq(status_number(&fixture, "tenants"), 2);
	actor_end(&another);
	ck_assert(eventually(gets_in(&third, "2 of 2")));
	close(third);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(default_connections_are_for_tenants_without_limit)
{
	struct actor other;
	int one, another;

	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxConnections=1\n", each_process_a_tenant);
	one = connect_here();
	ck_assert(!gets_in(&another, "this tenant has 1 of 1 connections"));
	/* Each tenant has its own. */
	actor_start(&other, fixture.socket, NULL);
	actor_end(&other);
	close(one);
	fixture_stop(&fixture);

	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxConnections=1\n[/**]\nMaxConnections=2\n", NULL);
	one = connect_here();
	ck_assert(gets_in(&another, ""));
	close(another);
	close(one);
	fixture_stop(&fixture);
}
END_TEST

/* --- MaxRequestsPerSecond, DefaultMaxRequestsPerSecond --- */

static double seconds(clockid_t clock)
{
	struct timespec now;

	ck_assert_int_eq(clock_gettime(clock, &now), 0);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* That the daemon has worked for. */
static double seconds_of_daemon(void)
{
	clockid_t clock;

	ck_assert_int_eq(clock_getcpuclockid(fixture.pid, &clock), 0);
	return seconds(clock);
}

static void ask(int socket)
{
	raw_packet(KIND_QUERY);
	ck_assert_int_eq(raw_send(socket), 0);
}

/* Its serial. */
static uint32_t hear_answer(int socket)
{
	struct raw_reply reply;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "no answer: %zd", reply.size);
	ck_assert_int_eq(reply.message.kind, KIND_ACCOUNT);
	return reply.message.serial;
}

static bool has_something_to_read(int socket)
{
	struct pollfd wanted = { .fd = socket, .events = POLLIN };

	return poll(&wanted, 1, 0) > 0;
}

TEST(requests_above_the_rate_are_delayed_in_order)
{
	enum { REQUESTS = 15, RATE = 10, BURST = 5 };
	double begin, worked;
	uint32_t last = 0;
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nMaxRequestsPerSecond=10/5\n", NULL);
	begin = seconds(CLOCK_MONOTONIC);
	socket = connect_here();
	worked = seconds_of_daemon();
	for (unsigned i = 0; i < REQUESTS; i++)
		ask(socket);
	for (unsigned i = 0; i < REQUESTS; i++) {
		uint32_t serial = hear_answer(socket);

		ck_assert_uint_gt(serial, last);
		last = serial;
	}
	/* HELLO is a request, too. */
	ck_assert_double_ge(seconds(CLOCK_MONOTONIC) - begin, (double)(1 + REQUESTS - BURST) / RATE);
	/* It has slept for more than a second. */
	ck_assert_double_lt(seconds_of_daemon() - worked, 0.2);
	ck_assert_uint_gt(tenant_number(&fixture, "throttled"), 0);
	expect_granted(socket, "unharmed u32 a");
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(delayed_client_delays_no_other)
{
	enum { GREEDY = 20 };
	int greedy[GREEDY];
	struct actor other;

	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxRequestsPerSecond=1/22\n", each_process_a_tenant);
	for (unsigned i = 0; i < GREEDY; i++)
		greedy[i] = connect_here();
	for (unsigned i = 0; i < GREEDY; i++) {
		ask(greedy[i]);
		ask(greedy[i]);
	}
	ck_assert(eventually(tenant_number(&fixture, "throttled") >= GREEDY - 2));
	actor_start(&other, fixture.socket, NULL);
	for (unsigned i = 0; i < 20; i++) {
		ask(other.socket);
		hear_answer(other.socket);
	}
	/* Whoever ends is gone, however long he would have had to wait. */
	for (unsigned i = 0; i < GREEDY; i++)
		close(greedy[i]);
	ck_assert(eventually(status_number(&fixture, "connections") == 1));
	actor_end(&other);
	fixture_stop(&fixture);
}
END_TEST

TEST(rate_of_a_cgroup_is_for_all_tenants_in_it)
{
	enum { RATE = 10, BURST = 4 };
	struct actor one, another;
	double begin = seconds(CLOCK_MONOTONIC);

	fixture_start_with_policy(&fixture, "[/]\nMaxRequestsPerSecond=10/4\n", each_process_a_tenant);
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	for (unsigned i = 0; i < 5; i++) {
		ask(one.socket);
		ask(another.socket);
	}
	for (unsigned i = 0; i < 5; i++) {
		hear_answer(one.socket);
		hear_answer(another.socket);
	}
	ck_assert_double_ge(seconds(CLOCK_MONOTONIC) - begin, (12. - BURST) / RATE);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(many_delayed_clients_use_no_cpu)
{
	enum { CLIENTS = 200, RATE = 100 };
	double begin, worked;
	int sockets[CLIENTS];

	fixture_start_with_policy(&fixture, "[/**]\nMaxRequestsPerSecond=100/500\n", NULL);
	for (unsigned i = 0; i < CLIENTS; i++)
		sockets[i] = connect_here();
	for (unsigned i = 0; i < CLIENTS; i++) {
		ask(sockets[i]);
		ask(sockets[i]);
		ask(sockets[i]);
	}
	begin = seconds(CLOCK_MONOTONIC);
	worked = seconds_of_daemon();
	for (unsigned i = 0; i < 3 * CLIENTS; i++)
		hear_answer(sockets[i % CLIENTS]);
	ck_assert_double_lt(seconds_of_daemon() - worked, (seconds(CLOCK_MONOTONIC) - begin) / 4);
	for (unsigned i = 0; i < CLIENTS; i++)
		close(sockets[i]);
	fixture_stop(&fixture);
}
END_TEST

/* As what has been said is on its way it is not silent, however long it has to wait for its turn. */
TEST(delayed_hello_does_not_time_out)
{
	static const char *const impatient[] = { "--client-timeout=1", NULL };
	struct raw_reply reply;
	int sockets[4];

	fixture_start_with_policy(&fixture, "[/**]\nMaxRequestsPerSecond=1\n", impatient);
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		sockets[i] = raw_connect(fixture.socket);
		encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
		ck_assert_int_eq(raw_send(sockets[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		raw_receive(sockets[i], &reply);
		ck_assert_int_gt(reply.size, 0);
		ck_assert_int_eq(reply.message.kind, KIND_WELCOME);
		raw_reply_deinit(&reply);
		close(sockets[i]);
	}
	/* Who says nothing at all is. */
	sockets[0] = raw_connect(fixture.socket);
	expect_cut(sockets[0], REFUSAL_TOO_SLOW);
	close(sockets[0]);
	fixture_stop(&fixture);
}
END_TEST

/* Else a program could have its burst again and again. */
TEST(reconnecting_does_not_reset_the_rate)
{
	double begin;

	fixture_start_with_policy(&fixture, "[/**]\nMaxRequestsPerSecond=10/2\n", NULL);
	begin = seconds(CLOCK_MONOTONIC);
	for (unsigned i = 0; i < 8; i++) {
		close(connect_here());
		ck_assert(eventually(status_number(&fixture, "connections") == 0));
	}
	ck_assert_double_ge(seconds(CLOCK_MONOTONIC) - begin, (8. - 2.) / 10);
	fixture_stop(&fixture);
}
END_TEST

TEST(new_program_has_its_burst)
{
	int socket;

	/* The sixth would have to wait for a second. */
	fixture_start_with_policy(&fixture, "[/**]\nMaxRequestsPerSecond=1/5\n", NULL);
	socket = connect_here();
	for (unsigned i = 0; i < 4; i++) {
		ask(socket);
		hear_answer(socket);
	}
	ck_assert_uint_eq(tenant_number(&fixture, "throttled"), 0);
	ask(socket);
	ck_assert(eventually(tenant_number(&fixture, "throttled") > 0));
	ck_assert(!has_something_to_read(socket));
	hear_answer(socket);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

/* --- AllowEvents, DenyEvents, NamePrefix --- */

TEST(events_are_allowed_and_denied_by_name)
{
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nAllowEvents=app_* own_event\nDenyEvents=app_secret*\n", NULL);
	socket = connect_here();
	expect_granted(socket, "app_one u32 a");
	expect_granted(socket, "own_event u32 a");
	expect_refusal(socket, "other u32 a", REFUSAL_NOT_PERMITTED, "nothing in AllowEvents= matches 'other'");
	expect_refusal(socket, "other u32 a", REFUSAL_NOT_PERMITTED, "policy.conf:2");
	expect_refusal(socket, "app_secret_one u32 a", REFUSAL_NOT_PERMITTED,
		       "DenyEvents=app_secret* denies 'app_secret_one'");
	/* The fields are no part of the name. */
	expect_refusal(socket, "x u32 app_one", REFUSAL_NOT_PERMITTED, "AllowEvents=");
	ck_assert_uint_eq(status_number(&fixture, "charges"), 2);
	ck_assert(log_has(&fixture, "not-permitted"));
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(denial_of_the_root_applies_to_every_cgroup)
{
	struct actor actor;

	if (!need_cgroups("a denial of the root's and one of a cgroup's"))
		return;
	fixture_start_with_policy(&fixture,
				  ROOT_MAY "[/]\nDenyEvents=sched_*\n"
					   "[/userevd-test-*/picky]\nDenyEvents=app_secret\nAllowEvents=*\n",
				  NULL);
	actor_in(&actor, fixture.socket, make_cgroup("picky"));
	expect_refusal(actor.socket, "sched_switch u32 a", REFUSAL_NOT_PERMITTED, "DenyEvents=sched_* denies");
	expect_refusal(actor.socket, "sched_switch u32 a", REFUSAL_NOT_PERMITTED, "policy.conf:4");
	expect_refusal(actor.socket, "app_secret u32 a", REFUSAL_NOT_PERMITTED, "policy.conf:6");
	expect_granted(actor.socket, "app_one u32 a");
	actor_end(&actor);
	fixture_stop(&fixture);
}
END_TEST

TEST(owned_name_is_refused_to_other_tenants)
{
	struct actor owner, stranger;

	if (!need_cgroups("names that a cgroup owns"))
		return;
	fixture_start_with_policy(&fixture, ROOT_MAY "[/userevd-test-*/owner]\nOwnNames=own_*\n", NULL);
	actor_in(&stranger, fixture.socket, make_cgroup("stranger"));
	actor_in(&owner, fixture.socket, make_cgroup("owner"));
	expect_refusal(stranger.socket, "own_one u32 a", REFUSAL_NOT_PERMITTED,
		       "the policy keeps the name 'own_one' for others");
	expect_granted(owner.socket, "own_one u32 a");
	expect_refusal(stranger.socket, "own_one u32 a", REFUSAL_NOT_PERMITTED,
		       "the policy keeps the name 'own_one' for others");
	expect_granted(stranger.socket, "owned u32 a");
	/* What is held stays; what is new is the new owner's. */
	change_policy(&fixture, ROOT_MAY "[/userevd-test-*/stranger]\nOwnNames=own_*\n");
	expect_granted(stranger.socket, "own_one u32 a");
	expect_refusal(owner.socket, "own_two u32 a", REFUSAL_NOT_PERMITTED, "for others");
	ck_assert_uint_eq(event_number(&fixture, "own_one", "tenants"), 2);
	fixture_write_policy(&fixture, "[/a]\nOwnNames=x*\n[/b]\nOwnNames=*y\n");
	expect_reload(&fixture, 1, "OwnNames=*y: some of these names are already owned by [/a]");
	actor_end(&stranger);
	actor_end(&owner);
	fixture_stop(&fixture);
}
END_TEST

/* Whether the sentence of a taken name has these words. */
static bool is_taken_with(int socket, const char *description, const char *words)
{
	char sentence[256];

	ck_assert_uint_eq(register_one(socket, description, sentence, sizeof(sentence)), REFUSAL_NAME_TAKEN);
	ck_assert_msg(strstr(sentence, "is taken by "), "%s", sentence);
	return strstr(sentence, words);
}

static bool explains_with(const char *cgroup, const char *description, const char *words)
{
	char output[4096];

	run_command(&fixture, output, sizeof(output),
		    (const char *const[]){ built("userevctl"), "policy", "explain", cgroup, description, NULL });
	if (!strstr(output, words))
		printf("%s", output);
	return strstr(output, words);
}

TEST(taken_name_has_its_tenant_for_related_cgroups)
{
	struct actor outer, inner, stranger;

	if (!need_cgroups("names that are taken in another cgroup"))
		return;
	fixture_start(&fixture, NULL);
	change_policy(&fixture, "[/**]\nAllowHostRoot=yes\nAllowMultiFormat=no\n[Event declared]\nFields=u32 a\n"
				"[/userevd-test-*/outer]\nTenant=no\n[/userevd-test-*/outer/*]\nTenant=yes\n");
	ck_assert(eventually(event_number(&fixture, "declared", "tenants") == 1));
	make_cgroup("outer");
	actor_in(&inner, fixture.socket, make_cgroup("outer/inner"));
	actor_in(&outer, fixture.socket, make_cgroup("outer"));
	actor_in(&stranger, fixture.socket, make_cgroup("stranger"));
	expect_granted(inner.socket, "taken u32 secret");
	ck_assert(is_taken_with(inner.socket, "taken u64 a", "this tenant's event"));
	ck_assert(is_taken_with(inner.socket, "taken u64 a", "taken u32 secret"));
	ck_assert(is_taken_with(outer.socket, "taken u64 a", "an event of the tenant /"));
	ck_assert(!is_taken_with(outer.socket, "taken u64 a", "secret"));
	ck_assert(is_taken_with(stranger.socket, "taken u64 a", "by an event with other fields; choose"));
	ck_assert(is_taken_with(stranger.socket, "declared u64 a",
				"by the event that the policy declares with other fields; choose another name, or the "
				"same fields: declared u32 a"));
	/* An admin may know. */
	ck_assert(explains_with(cgroup_path(make_cgroup("stranger")), "taken u64 a",
				"refused: the name is taken by an event with other fields, of the tenant /"));
	ck_assert(explains_with(cgroup_path(make_cgroup("stranger")), "taken u64 a", "taken u32 secret"));
	change_policy(&fixture, ROOT_MAY);
	ck_assert(explains_with(cgroup_path(make_cgroup("stranger")), "taken u64 a",
				offers_multi_format(&fixture) ? "allowed: taken, as multi-format" : "refused"));
	actor_end(&outer);
	actor_end(&inner);
	actor_end(&stranger);
	fixture_stop(&fixture);
}
END_TEST

TEST(prefix_is_part_of_an_owned_name)
{
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nNamePrefix=box_\n[/nobody/is/here]\nOwnNames=box_secret other\n",
				  NULL);
	socket = connect_here();
	expect_refusal(socket, "secret u32 a", REFUSAL_NOT_PERMITTED,
		       "the policy keeps the name 'box_secret' for others");
	expect_granted(socket, "other u32 a");
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(prefix_is_added_and_sent_to_the_program)
{
	struct userev_event event = { 0 }, again = { 0 };
	struct userev *userev;

	fixture_start_with_policy(&fixture, "[/**]\nNamePrefix=box_\nDenyEvents=box_secret secret2\n", NULL);
	userev = userev_open(fixture.socket, 0);
	ck_assert_int_eq(userev_register(userev, &event, "\t hello u32 count", 0), 0);
	ck_assert_str_eq(userev_event_name(&event), "box_hello");
	ck_assert_uint_eq(event_number(&fixture, "box_hello", "holders_total"), 1);
	ck_assert_uint_eq(trace(&fixture, "hello", true), 0);
	ck_assert_uint_eq(trace(&fixture, "box_hello", true), 1);
	ck_assert(userev_enabled(&event));
	trace(&fixture, "box_hello", false);
	/* Who asks for the full name has it twice, or he would have others' names. */
	ck_assert_int_eq(userev_register(userev, &again, "box_hello u32 count", 0), 0);
	ck_assert_str_eq(userev_event_name(&again), "box_box_hello");
	/* What is denied is the full name. */
	userev_release(userev, &again);
	ck_assert_int_eq(userev_register(userev, &again, "secret u32 count", 0), -EACCES);
	ck_assert_ptr_nonnull(strstr(userev_refusal(), "box_secret"));
	ck_assert_int_eq(userev_register(userev, &again, "secret2 u32 count", 0), 0);
	userev_close(userev);
	fixture_stop(&fixture);
}
END_TEST

TEST(description_too_long_with_prefix_is_refused)
{
	char description[WIRE_DESCRIPTION_MAX + 1], name[256];
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nNamePrefix=box_\n", NULL);
	socket = connect_here();
	/* Both at their limits, and one byte beyond. */
	memset(name, 'n', sizeof(name));
	name[200 - strlen("box_")] = '\0';
	expect_granted(socket, name);
	name[200 - strlen("box_")] = 'n';
	name[201 - strlen("box_")] = '\0';
	expect_refusal(socket, name, REFUSAL_BAD_DESCRIPTION, "200");
	snprintf(description, sizeof(description), "long u32 ");
	memset(description + strlen(description), 'f', sizeof(description) - strlen(description));
	description[WIRE_DESCRIPTION_MAX - strlen("box_")] = '\0';
	expect_granted(socket, description);
	description[WIRE_DESCRIPTION_MAX - strlen("box_")] = 'f';
	description[WIRE_DESCRIPTION_MAX + 1 - strlen("box_")] = '\0';
	expect_refusal(socket, description, REFUSAL_BAD_DESCRIPTION, "511");
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(without_prefix_no_name_is_sent_to_the_program)
{
	static struct batch batch;
	int socket;

	fixture_start(&fixture, NULL);
	socket = connect_here();
	batch_register(socket, (const char *const[]){ "plain u32 a" }, 1, &batch, NULL);
	ck_assert_uint_eq(batch.answer[0].refusal, 0);
	ck_assert_uint_eq(batch.answer[0].length, 0);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

/* --- AllowPersist, AllowMultiFormat --- */

static uint32_t register_with(int socket, uint16_t flags, const char *description, char *ret_sentence, size_t size)
{
	static struct batch batch;
	struct packet *to = raw_packet(KIND_REGISTER);
	size_t mark = encode_strings(to, 0);

	encode_string(to, flags, description, strlen(description));
	encode_count(to, mark, 1);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &batch.reply);
	batch_read(&batch);
	snprintf(ret_sentence, size, "%.*s", (int)batch.answer[0].length,
		 batch.answer[0].text ? batch.answer[0].text : "");
	raw_reply_deinit(&batch.reply);
	return batch.answer[0].refusal;
}

/* What the kernel cannot do, no policy gives. */
static void expect_flag(uint64_t feature, uint16_t flag, bool allowed, bool possible)
{
	uint32_t wanted = !possible ? REFUSAL_KERNEL_TOO_OLD : allowed ? REFUSAL_NONE : REFUSAL_NOT_PERMITTED;
	struct wire_welcome welcome;
	char sentence[256];
	uint32_t refusal;
	int socket;

	socket = raw_hello(fixture.socket, UINT64_MAX, &welcome, NULL);
	ck_assert_msg(!(welcome.features & feature) == !(allowed && possible), "features %#llx",
		      (unsigned long long)welcome.features);
	/* Nothing that persists is left behind. */
	if (wanted != REFUSAL_NONE || flag != REGISTER_PERSIST) {
		refusal = register_with(socket, flag, "flagged u32 a", sentence, sizeof(sentence));
		ck_assert_msg(refusal == wanted, "%s: %s", refusal_name(refusal), sentence);
		ck_assert(wanted != REFUSAL_NOT_PERMITTED || strstr(sentence, "=no"));
	}
	close(socket);
}

static bool has_feature(uint64_t feature)
{
	return welcome_here().features & feature;
}

TEST(persistent_event_needs_the_policy)
{
	static const char *const option[] = { "--allow-persist", NULL };
	bool possible;

	fixture_start_with_policy(&fixture, "[/**]\nAllowPersist=yes\n", NULL);
	possible = has_feature(WIRE_FEATURE_PERSIST);
	ck_assert(possible || !has_enablers(&fixture));
	change_policy(&fixture, "[/**]\nAllowPersist=no\n");
	expect_flag(WIRE_FEATURE_PERSIST, REGISTER_PERSIST, false, possible);
	change_policy(&fixture, "");
	expect_flag(WIRE_FEATURE_PERSIST, REGISTER_PERSIST, false, possible);
	fixture_stop(&fixture);

	/* The option is for who is not named. */
	fixture_start_with_policy(&fixture, "", option);
	expect_flag(WIRE_FEATURE_PERSIST, REGISTER_PERSIST, true, possible);
	change_policy(&fixture, "[/**]\nAllowPersist=no\n");
	expect_flag(WIRE_FEATURE_PERSIST, REGISTER_PERSIST, false, possible);
	fixture_stop(&fixture);
}
END_TEST

TEST(multi_format_event_needs_the_policy)
{
	bool possible;

	fixture_start_with_policy(&fixture, "", NULL);
	possible = offers_multi_format(&fixture);
	expect_flag(WIRE_FEATURE_MULTI_FORMAT, REGISTER_MULTI_FORMAT, true, possible);
	change_policy(&fixture, "[/**]\nAllowMultiFormat=no\n");
	expect_flag(WIRE_FEATURE_MULTI_FORMAT, REGISTER_MULTI_FORMAT, false, possible);
	fixture_stop(&fixture);
}
END_TEST

/* --- Stream --- */

/* Whether two clients of one user have the same data file. */
static bool share_a_stream(void)
{
	struct answer ours, theirs;
	int one = connect_here(), another = connect_here();
	bool same;

	ck_assert_uint_eq(raw_register(one, "common u32 a", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(another, "common u32 a", &theirs, NULL), 0);
	same = ours.stream == theirs.stream;
	close(another);
	close(one);
	ck_assert(eventually(status_number(&fixture, "streams") == 0));
	return same;
}

TEST(data_files_are_shared_by_policy)
{
	fixture_start_with_policy(&fixture, "[/**]\nStream=client\n", NULL);
	ck_assert(!share_a_stream());
	change_policy(&fixture, "[/**]\nStream=auto\n");
	ck_assert(share_a_stream() == shares_streams(&fixture));
	/* An embedded daemon tells its clients apart by their files. */
	change_policy(&fixture, "[/**]\nStream=shared\n");
	ck_assert(share_a_stream() != keeps_records_itself(&fixture));
	fixture_stop(&fixture);
}
END_TEST

/* --- Tenant --- */

struct wanted_path {
	const char *path;
	bool found;
};

static void look_for_path(void *data, struct cursor row)
{
	struct wanted_path *wanted = data;
	char path[256];

	row_get_string(row, "tenant", path, sizeof(path));
	wanted->found |= streq(path, wanted->path);
}

static bool is_tenants_path(const char *path)
{
	struct wanted_path wanted = { .path = path };
	int control = raw_connect(fixture.control);

	ck_assert_uint_eq(raw_rows(control, KIND_TENANTS, 0, NULL, look_for_path, &wanted), 0);
	close(control);
	return wanted.found;
}

TEST(policy_moves_the_boundary_of_a_tenant)
{
	const char *inside;
	struct actor actor;

	if (!need_cgroups("the border of a tenant"))
		return;
	make_cgroup("outer");
	make_cgroup("outer/middle");
	inside = make_cgroup("outer/middle/inner");
	fixture_start_with_policy(&fixture, ROOT_MAY, NULL);
	actor_in(&actor, fixture.socket, inside);
	ck_assert(is_tenants_path(cgroup_path(make_cgroup("outer"))));
	actor_end(&actor);
	ck_assert(eventually(status_number(&fixture, "tenants") == 0));

	/* The outermost one that is named counts. */
	change_policy(&fixture,
		      ROOT_MAY "[/userevd-test-*/outer/**]\nTenant=yes\n[/userevd-test-*/outer]\nTenant=no\n");
	actor_in(&actor, fixture.socket, inside);
	ck_assert(is_tenants_path(cgroup_path(make_cgroup("outer/middle"))));
	actor_end(&actor);
	ck_assert(eventually(status_number(&fixture, "tenants") == 0));
	fixture_stop(&fixture);
}
END_TEST

TEST(tenant_no_makes_a_delegated_cgroup_no_tenant)
{
	const char *given, *inside;
	struct actor actor;

	if (!need_cgroups("a cgroup that was given away"))
		return;
	make_cgroup("slice");
	given = make_cgroup("slice/given");
	inside = make_cgroup("slice/given/container");
	if (setxattr(given, "user.delegate", "1", 1, 0) < 0) {
		printf("not possible here: a cgroup that is delegated: setxattr: %s\n", strerror(errno));
		return;
	}
	fixture_start_with_policy(&fixture, ROOT_MAY, NULL);
	actor_in(&actor, fixture.socket, inside);
	ck_assert(is_tenants_path(cgroup_path(given)));
	actor_end(&actor);
	ck_assert(eventually(status_number(&fixture, "tenants") == 0));
	change_policy(&fixture, ROOT_MAY
		      "[/userevd-test-*/slice/given]\nTenant=no\n[/userevd-test-*/slice/given/*]\nTenant=yes\n");
	actor_in(&actor, fixture.socket, inside);
	ck_assert(is_tenants_path(cgroup_path(inside)));
	actor_end(&actor);
	fixture_stop(&fixture);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		maximum_is_for_all_programs_of_a_tenant,
		maximum_may_be_zero,
		maximum_of_a_cgroup_is_for_all_tenants_in_it,
		refusal_beyond_a_fair_share_names_the_cgroup,
		maximum_of_a_real_cgroup_includes_those_below,
		default_maximum_is_for_tenants_without_one,
		reserve_is_kept_from_other_tenants,
		reserve_is_filled_by_matching_tenants,
		reserve_can_be_filled_on_a_full_machine,
		connection_beyond_the_maximum_is_refused,
		connections_in_a_cgroup_are_counted_together,
		default_connections_are_for_tenants_without_limit,
		requests_above_the_rate_are_delayed_in_order,
		delayed_client_delays_no_other,
		rate_of_a_cgroup_is_for_all_tenants_in_it,
		many_delayed_clients_use_no_cpu,
		delayed_hello_does_not_time_out,
		reconnecting_does_not_reset_the_rate,
		new_program_has_its_burst,
		events_are_allowed_and_denied_by_name,
		denial_of_the_root_applies_to_every_cgroup,
		owned_name_is_refused_to_other_tenants,
		taken_name_has_its_tenant_for_related_cgroups,
		prefix_is_part_of_an_owned_name,
		prefix_is_added_and_sent_to_the_program,
		description_too_long_with_prefix_is_refused,
		without_prefix_no_name_is_sent_to_the_program,
		persistent_event_needs_the_policy,
		multi_format_event_needs_the_policy,
		data_files_are_shared_by_policy,
		policy_moves_the_boundary_of_a_tenant,
		tenant_no_makes_a_delegated_cgroup_no_tenant,
	};
	int r;

	cgroups_find_room();
	r = run_suite("rules", tests, ARRAY_SIZE(tests));
	cgroups_remove_all();
	return r;
}
