/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Keys of the policy: maxima, reserves, connections, requests for each second, tenants. With --tenants=process a tenant
 * has no cgroup that a section could name, but it lies below "/": limits that several tenants share apply, rules of a section do not.
 * Other tests make cgroups, if this machine allows that.
 */

#include "tests/integration/cgroups.h"
#include "tests/integration/policy.h"

#define EACH_PROCESS_A_TENANT .options = { "--tenants=process" }
#define ROOM_FOR_TEN	      .options = { "--capacity=10" }
/* The tests may be root, in what looks like a container, with files that no guard protects. */
#define ROOT_MAY "[/**]\nAllowHostRoot=yes\n"

static struct wire_welcome welcome_of(const struct fixture *fixture)
{
	struct wire_welcome welcome;

	close(raw_hello(fixture->socket, UINT64_MAX, &welcome, NULL));
	return welcome;
}

/* --- MaxEvents, DefaultMaxEvents --- */

DAEMON_TEST(maximum_is_for_all_programs_of_a_tenant, .policy = "[/**]\nMaxEvents=2\n")
{
	int one = fixture_client(fixture), another = fixture_client(fixture);

	ck_assert_uint_eq(welcome_of(fixture).events_max, 2);
	expect_granted(one, "first u32 a");
	expect_granted(another, "second u32 a");
	expect_refusal(one, "third u32 a", REFUSAL_QUOTA_EXCEEDED,
		       "this tenant holds 2 of 2 events (MaxEvents=2 of [/**]); release some");
	/* An event that the tenant already has costs nothing. */
	expect_granted(one, "second u32 a");
	expect_tenant(fixture, "events_max=2");
	close(another);
	close(one);
	await_status(fixture, "charges=0");
	one = fixture_client(fixture);
	expect_granted(one, "third u32 a");
	close(one);
}

DAEMON_TEST(maximum_of_a_cgroup_is_for_all_tenants_in_it, EACH_PROCESS_A_TENANT, .policy = "[/]\nMaxEvents=8\n")
{
	static const char words[] = "all in the cgroup / hold 8 of 8 events";
	struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);

	expect_granted_many(one.socket, "ours", 4);
	/* An event of two tenants counts twice: each of them could be left with it alone. */
	expect_granted_many(another.socket, "ours", 4);
	expect_refusal(another.socket, "more u32 a", REFUSAL_QUOTA_EXCEEDED, words);
	expect_refusal(one.socket, "more u32 a", REFUSAL_QUOTA_EXCEEDED, words);
	actor_end(&one);
	await_status(fixture, "tenants=1");
}

/* The machine has room, but the rest of the cgroup's room is for its other tenants, too. */
DAEMON_TEST(refusal_beyond_a_fair_share_names_the_cgroup, EACH_PROCESS_A_TENANT, .policy = "[/]\nMaxEvents=4\n")
{
	_cleanup_(actor_end) struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor third = actor_new(fixture->socket, NULL);

	expect_granted_many(one.socket, "ours", 2);
	expect_refusal(one.socket, "more u32 a", REFUSAL_QUOTA_EXCEEDED, "a fair share among 1");
	expect_granted(another.socket, "theirs");
	expect_refusal(third.socket, "third u32 a", REFUSAL_QUOTA_EXCEEDED,
		       "all in the cgroup / hold 3 of 4 events (MaxEvents=4 of [/]), and the rest is for all of them");
}

DAEMON_TEST(maximum_of_a_real_cgroup_includes_those_below, .needs_cgroups = "a maximum of a cgroup with tenants in it",
	    .policy = ROOT_MAY "[/userevd-test-*/slice]\nMaxEvents=2\n"
			       "[/userevd-test-*/slice/*]\nTenant=yes\nMaxEvents=100\n")
{
	_cleanup_(actor_end) struct actor one = actor_in(fixture, make_cgroup("slice/one"), 0);
	_cleanup_(actor_end) struct actor another = actor_in(fixture, make_cgroup("slice/another"), 0);
	_cleanup_(actor_end) struct actor outside = actor_in(fixture, make_cgroup("outside"), 0);

	expect_status(fixture, "tenants=3");
	expect_granted(one.socket, "first u32 a");
	expect_granted(another.socket, "second u32 a");
	expect_refusal(another.socket, "third u32 a", REFUSAL_QUOTA_EXCEEDED, "slice hold 2 of 2 events");
	expect_granted_many(outside.socket, "many", 3);
}

DAEMON_TEST(default_maximum_is_for_tenants_without_one, .policy = "[Daemon]\nDefaultMaxEvents=2\n")
{
	ck_assert_uint_eq(welcome_of(fixture).events_max, 2);
	change_policy(fixture, "[Daemon]\nDefaultMaxEvents=2\n[/**]\nMaxEvents=3\n");
	ck_assert_uint_eq(welcome_of(fixture).events_max, 3);
}

DAEMON_TEST(option_comes_before_the_default_maximum, .policy = "[Daemon]\nDefaultMaxEvents=2\n",
	    .options = { "--max-events=5" })
{
	ck_assert_uint_eq(welcome_of(fixture).events_max, 5);
	change_policy(fixture, "[/**]\nMaxEvents=3\n");
	ck_assert_uint_eq(welcome_of(fixture).events_max, 3);
}

/* --- ReserveEvents --- */

DAEMON_TEST(reserve_is_kept_from_other_tenants, ROOM_FOR_TEN,
	    .policy = "[/nowhere]\nReserveEvents=7\n[/**]\nMaxEvents=100\n")
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_granted_many(socket, "event", 3);
	expect_refusal(socket, "fourth u32 a", REFUSAL_MACHINE_FULL,
		       "this machine holds 3 of 3 events besides 7 that are reserved");
	expect_status(fixture, "reserved=7");
	expect_tenant(fixture, "reserved=0");
}

DAEMON_TEST(reserve_is_filled_by_matching_tenants, ROOM_FOR_TEN, .policy = "[/**]\nMaxEvents=100\nReserveEvents=4\n")
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_granted_many(socket, "event", 3);
	expect_tenant(fixture, "reserved=4 reserved_filled=3");
	expect_status(fixture, "charges=3");
	/* It may have more, as any tenant may. */
	expect_granted_many(socket, "more", 7);
	expect_tenant(fixture, "reserved_filled=4");
	expect_refusal(socket, "eleventh u32 a", REFUSAL_MACHINE_FULL, "6 of 6 events besides 4 that are reserved");
}

DAEMON_TEST(reserve_can_be_filled_on_a_full_machine, ROOM_FOR_TEN, .needs_cgroups = "a reserve of one tenant of two",
	    .policy = "[/userevd-test-*]\nMaxEvents=100\n[/userevd-test-*/*]\nMaxEvents=100\n"
		      "[/userevd-test-*/named*]\nReserveEvents=3\n")
{
	static const char words[] = "besides 3 that are reserved";
	_cleanup_(actor_end) struct actor greedy = actor_in(fixture, make_cgroup("greedy"), 0);
	_cleanup_(actor_end) struct actor named = actor_in(fixture, make_cgroup("named"), 0);
	struct actor brother;

	expect_granted_many(greedy.socket, "greedy", 7);
	expect_refusal(greedy.socket, "more u32 a", REFUSAL_MACHINE_FULL, words);
	expect_granted_many(named.socket, "named", 2);
	/* All tenants that the section names have one reserve together. */
	brother = actor_in(fixture, make_cgroup("named_too"), 0);
	expect_granted(brother.socket, "brother u32 a");
	expect_refusal(named.socket, "third u32 a", REFUSAL_MACHINE_FULL, words);
	actor_end(&brother);
	await_status(fixture, "charges=9");
	expect_refusal(greedy.socket, "more u32 a", REFUSAL_MACHINE_FULL, words);
	expect_granted(named.socket, "third u32 a");
}

/* --- MaxConnections, DefaultMaxConnections --- */

static void expect_too_many(const struct fixture *fixture, const char *words)
{
	_cleanup_(fd_closep) int socket = raw_connect(fixture->socket);

	expect_cut_with(socket, REFUSAL_TOO_MANY_CONNECTIONS, words);
}

DAEMON_TEST(connection_beyond_the_maximum_is_refused, .policy = "[/**]\nMaxConnections=2\n")
{
	_cleanup_(fd_closep) int one = fixture_client(fixture);
	int another = fixture_client(fixture);

	expect_too_many(fixture, "this tenant holds 2 of 2 connections (MaxConnections=2 of [");
	expect_tenant(fixture, "connections_max=2");
	ck_assert(log_has(fixture, "too-many-connections"));
	expect_granted(one, "unharmed u32 a");
	close(another);
	await_status(fixture, "connections=1");
	close(fixture_client(fixture));
}

DAEMON_TEST(connections_in_a_cgroup_are_counted_together, EACH_PROCESS_A_TENANT, .policy = "[/]\nMaxConnections=2\n")
{
	_cleanup_(actor_end) struct actor one = actor_new(fixture->socket, NULL);
	struct actor another = actor_new(fixture->socket, NULL);

	expect_too_many(fixture, "all in the cgroup / hold 2 of 2 connections (MaxConnections=2 of [/]); close some");
	/* The refused one was the only one of its tenant. */
	expect_status(fixture, "tenants=2");
	actor_end(&another);
	await_status(fixture, "connections=1");
	close(fixture_client(fixture));
}

DAEMON_TEST(default_connections_are_for_tenants_without_limit, EACH_PROCESS_A_TENANT,
	    .policy = "[Daemon]\nDefaultMaxConnections=1\n")
{
	struct actor other;
	_cleanup_(fd_closep) int one = fixture_client(fixture);

	expect_too_many(fixture, "this tenant holds 1 of 1 connections");
	other = actor_new(fixture->socket, NULL);
	actor_end(&other);
}

DAEMON_TEST(maximum_of_a_section_replaces_the_default,
	    .policy = "[Daemon]\nDefaultMaxConnections=1\n[/**]\nMaxConnections=2\n")
{
	_cleanup_(fd_closep) int one = fixture_client(fixture);

	close(fixture_client(fixture));
}

/* --- MaxRequestsPerSecond, DefaultMaxRequestsPerSecond --- */

static void ask_all(const int *sockets, unsigned n, unsigned times)
{
	for (unsigned i = 0; i < n * times; i++)
		raw_request(sockets[i / times], KIND_QUERY);
}

/* Returns the answer's serial. */
static uint32_t receive_account(int socket)
{
	struct raw_reply reply;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "no answer: %zd", reply.size);
	ck_assert_int_eq(reply.message.kind, KIND_ACCOUNT);
	return reply.message.serial;
}

DAEMON_TEST(requests_above_the_rate_are_delayed_in_order, .policy = "[/**]\nMaxRequestsPerSecond=10/5\n")
{
	enum { REQUESTS = 15, RATE = 10, BURST = 5 };
	uint64_t begun = clock_us();
	double worked;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	uint32_t last = 0;

	worked = cpu_seconds(fixture->pid);
	ask_all(&socket, 1, REQUESTS);
	for (unsigned i = 0; i < REQUESTS; i++) {
		uint32_t serial = receive_account(socket);

		ck_assert_uint_gt(serial, last);
		last = serial;
	}
	/* HELLO is a request, too. */
	ck_assert_uint_ge(clock_us() - begun, 1000000 * (1 + REQUESTS - BURST) / RATE);
	/* The daemon has slept for more than a second. */
	ck_assert_double_lt(cpu_seconds(fixture->pid) - worked, 0.2);
	ck_assert_uint_gt(tenant_number(fixture, "throttled"), 0);
	expect_granted(socket, "unharmed u32 a");
}

DAEMON_TEST(delayed_client_delays_no_other, EACH_PROCESS_A_TENANT,
	    .policy = "[Daemon]\nDefaultMaxRequestsPerSecond=1/22\n")
{
	enum { GREEDY = 20 };
	int greedy[GREEDY];
	struct actor other;

	for (unsigned i = 0; i < GREEDY; i++)
		greedy[i] = fixture_client(fixture);
	ask_all(greedy, GREEDY, 2);
	ck_assert(eventually(tenant_number(fixture, "throttled") >= GREEDY - 2));
	other = actor_new(fixture->socket, NULL);
	for (unsigned i = 0; i < 20; i++)
		raw_query(other.socket);
	/* A client that disconnects is gone, although it would have had to wait. */
	for (unsigned i = 0; i < GREEDY; i++)
		close(greedy[i]);
	await_status(fixture, "connections=1");
	actor_end(&other);
}

DAEMON_TEST(many_delayed_clients_use_no_cpu, .policy = "[/**]\nMaxRequestsPerSecond=100/500\n")
{
	enum { CLIENTS = 200, EACH = 3 };
	uint64_t begun;
	double worked;
	int sockets[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++)
		sockets[i] = fixture_client(fixture);
	ask_all(sockets, CLIENTS, EACH);
	begun = clock_us();
	worked = cpu_seconds(fixture->pid);
	for (unsigned i = 0; i < EACH * CLIENTS; i++)
		receive_account(sockets[i % CLIENTS]);
	ck_assert_double_lt(cpu_seconds(fixture->pid) - worked, (double)(clock_us() - begun) / 4e6);
	for (unsigned i = 0; i < CLIENTS; i++)
		close(sockets[i]);
}

/* A client that has sent its request is not silent, however long the request waits. */
DAEMON_TEST(delayed_hello_does_not_time_out, .policy = "[/**]\nMaxRequestsPerSecond=1\n",
	    .options = { "--client-timeout=1" })
{
	int sockets[3];

	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		sockets[i] = raw_connect(fixture->socket);
		raw_say_hello(sockets[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		expect_kind(sockets[i], KIND_WELCOME);
		close(sockets[i]);
	}
	sockets[0] = raw_connect(fixture->socket);
	expect_cut(sockets[0], REFUSAL_TOO_SLOW);
	close(sockets[0]);
}

/* --- Tenant --- */

DAEMON_TEST(policy_moves_the_boundary_of_a_tenant, .needs_cgroups = "the border of a tenant")
{
	static const struct {
		const char *delegated, *client, *policy, *tenant;
	} cases[] = {
		{ NULL, "outer/middle/inner", ROOT_MAY, "outer" },
		/* Of the cgroups that the policy names the outermost one counts. */
		{ NULL, "outer/middle/inner",
		  ROOT_MAY "[/userevd-test-*/outer/**]\nTenant=yes\n[/userevd-test-*/outer]\nTenant=no\n",
		  "outer/middle" },
		{ "slice/given", "slice/given/container", ROOT_MAY, "slice/given" },
		{ "slice/given", "slice/given/container",
		  ROOT_MAY "[/userevd-test-*/slice/given]\nTenant=no\n[/userevd-test-*/slice/given/*]\nTenant=yes\n",
		  "slice/given/container" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct actor actor;

		if (cases[i].delegated && !delegate(make_cgroup(cases[i].delegated)))
			return;
		change_policy(fixture, cases[i].policy);
		actor = actor_in(fixture, make_cgroup(cases[i].client), 0);
		expect_tenants(fixture, make_cgroup(cases[i].tenant));
		actor_end(&actor);
		await_status(fixture, "tenants=0");
	}
}

int main(void)
{
	return run_tests_in_cgroups();
}
