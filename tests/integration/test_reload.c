/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A reload: no client is disconnected, nothing is revoked, and with an error in any file the old policy stays. */

#include "tests/integration/policy.h"

DAEMON_TEST(sighup_reads_the_policy_again, .policy = "[/**]\nMaxEvents=1\n")
{
	fixture_write_policy(fixture, "[/**]\nMaxEvents=2\n[/a]\nMaxEvents=3\n");
	ck_assert_int_eq(kill(fixture->pid, SIGHUP), 0);
	ck_assert(eventually(log_has(fixture, "the policy is loaded: 2 sections from 1 file")));
	close(fixture_client(fixture));
	/* Of many signals at once, at least the last one has an effect. */
	fixture_write_policy(fixture, "[/**]\nMaxEvents=7\n");
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(kill(fixture->pid, SIGHUP), 0);
	ck_assert(eventually(log_has(fixture, "the policy is loaded: 1 section from 1 file")));
}

DAEMON_TEST(changed_files_are_read_by_themselves_where_the_policy_says_so, .policy = "[/**]\nMaxEvents=1\n")
{
	fixture_write_policy(fixture, "[Daemon]\nAutoReload=yes\n[/**]\nMaxEvents=2\n");
	/* Longer than it waits for the last change. */
	usleep(1200000);
	ck_assert(!log_has(fixture, "the policy is loaded"));
	ck_assert_int_eq(kill(fixture->pid, SIGHUP), 0);
	ck_assert(eventually(log_has(fixture, "the policy is loaded: 1 section")));
	fixture_write_policy(fixture, "[Daemon]\nAutoReload=yes\n[/**]\nMaxEvents=many\n");
	ck_assert(eventually(log_has(fixture, "the policy has errors; the old one stays")));
	fixture_write_policy(fixture, "[Daemon]\nAutoReload=yes\n[/**]\nMaxEvents=2\n[/a]\nMaxEvents=1\n");
	ck_assert(eventually(log_has(fixture, "the policy is loaded: 2 sections")));
}

DAEMON_TEST(wrong_file_leaves_the_policy_in_force, .policy = "[/**]\nMaxEvents=2\n[/nowhere]\nReserveEvents=5\n")
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	fixture_write_policy(fixture, "[/nowhere]\nReserveEvents=9\n[/**]\nMaxEvents=1\nMaxConnections=many\n");
	expect_reload(fixture, 1,
		      "/policy.conf:5: MaxConnections=many: not a number; give 0 to 1048576, or infinity\n");
	expect_reload(fixture, 1, "not loaded; the policy stays as it was.\n");
	ck_assert(log_has(fixture, "/policy.conf:5: MaxConnections=many: not a number"));
	ck_assert(log_has(fixture, "the policy has errors; the old one stays"));
	expect_status(fixture, "reserved=5");
	expect_granted_many(socket, "event", 2);
	expect_refusal(socket, "third u32 a", REFUSAL_QUOTA_EXCEEDED, "2 of 2 events");

	/* The same with SIGHUP. */
	fixture_write_policy(fixture, "[/**]\nMaxEvents=0\nMaxEvents=0x\n");
	ck_assert_int_eq(kill(fixture->pid, SIGHUP), 0);
	ck_assert(eventually(log_has(fixture, "/policy.conf:3: MaxEvents=0x")));
	expect_account(socket, "events_max=2");

	/* Corrected files are loaded. */
	change_policy(fixture, "[/**]\nMaxEvents=3\n");
	expect_granted(socket, "third u32 a");
}

DAEMON_TEST(concurrent_reloads_are_all_answered, .policy = "[/a]\nMaxEvents=1\n")
{
	enum { ADMINS = 10, LEAVES = 3 };
	struct answered answered;
	int control[ADMINS];

	for (unsigned i = 0; i < ADMINS; i++)
		control[i] = raw_connect(fixture->control);
	/* All requests have arrived when the daemon continues. */
	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	for (unsigned i = 0; i < ADMINS; i++)
		raw_request(control[i], KIND_RELOAD);
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	close(control[LEAVES]);
	for (unsigned i = 0; i < ADMINS; i++) {
		if (i == LEAVES)
			continue;
		receive_reload(control[i], &answered);
		ck_assert(answered.rows == 1 && answered.loaded == 1 && answered.sections == 1);
		close(control[i]);
	}
}

enum { SLOW_FILES = 6, SLOW_BYTES = 200000 };

/* Many names of one long file, which are read after the file that the test changes. */
static void slow_files(const struct fixture *fixture, bool make)
{
	char path[160], link[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/slow", fixture->directory);
	file = make ? fopen(path, "we") : NULL;
	for (unsigned written = 0; make && written < SLOW_BYTES; written += 2)
		ck_assert_int_ge(fputs("#\n", file), 0);
	if (file)
		fclose(file);
	else
		unlink(path);
	for (unsigned i = 0; i < SLOW_FILES; i++) {
		snprintf(link, sizeof(link), "%s/slow-%u.conf", fixture->directory, i);
		ck_assert_int_eq(make ? symlink("slow", link) : unlink(link), 0);
	}
}

DAEMON_TEST(reload_during_a_reload_reads_later_changes)
{
	struct answered answered;
	_cleanup_(fd_closep) int one = raw_connect(fixture->control);
	_cleanup_(fd_closep) int another = raw_connect(fixture->control);

	slow_files(fixture, true);
	for (unsigned i = 0; i < 4; i++) {
		raw_request(one, KIND_RELOAD);
		/* Time to read the first file. */
		usleep(2000);
		fixture_write_policy(fixture, i % 2 ? "[/a]\nMaxEvents=1\n" : "[/a]\nMaxEvents=1\n[/b]\nMaxEvents=1\n");
		raw_request(another, KIND_RELOAD);
		receive_reload(another, &answered);
		ck_assert_uint_eq(answered.sections, i % 2 ? 1 : 2);
		receive_reload(one, &answered);
	}
	slow_files(fixture, false);
}

DAEMON_TEST(clients_are_served_during_a_reload)
{
	struct answered answered;
	struct raw_reply reply;
	unsigned served = 0;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int control = raw_connect(fixture->control);

	slow_files(fixture, true);
	raw_request(control, KIND_RELOAD);
	raw_receive(control, &reply);
	ck_assert_int_eq(reply.message.kind, KIND_ROWS);
	ck_assert_uint_eq(reply.message.flags, WIRE_MORE);
	do {
		raw_query(socket);
		served++;
	} while (!log_has(fixture, "the policy is loaded"));
	ck_assert_uint_gt(served, 3);
	receive_reload(control, &answered);
	ck_assert_uint_eq(answered.loaded, 1);
	slow_files(fixture, false);
}

/* --- clients --- */

DAEMON_TEST(reload_disconnects_and_revokes_nothing)
{
	enum { CLIENTS = 20 };
	uint32_t bits[CLIENTS];
	int sockets[CLIENTS], newcomer;

	for (unsigned i = 0; i < CLIENTS; i++) {
		sockets[i] = fixture_client(fixture);
		bits[i] = expect_granted(sockets[i], *numbered("event%u u32 a", i, 1));
	}
	change_policy(fixture,
		      "[/**]\nMaxEvents=5\nMaxConnections=1\nMaxRequestsPerSecond=1000000\nDenyEvents=event1*\n");
	expect_status(fixture, "connections=%u charges=%u", CLIENTS, CLIENTS);
	ck_assert_uint_eq(trace(fixture, "event*", true), CLIENTS);
	trace(fixture, "event*", false);
	expect_refusal(sockets[0], "new u32 a", REFUSAL_QUOTA_EXCEEDED, "this tenant holds 20 of 5 events");
	/* The tenant may have it in further programs. */
	expect_granted(sockets[0], "event2 u32 a");
	newcomer = raw_connect(fixture->socket);
	expect_cut(newcomer, REFUSAL_TOO_MANY_CONNECTIONS);
	close(newcomer);
	for (unsigned i = 0; i < CLIENTS; i++)
		ck_assert_uint_eq(raw_release(sockets[i], &bits[i], 1), 1);
	for (unsigned i = 0; i < CLIENTS; i++)
		close(sockets[i]);
	/* Released events linger on a shared file until its last client has left. */
	await_status(fixture, "charges=0 connections=0");
	sockets[0] = fixture_client(fixture);
	expect_granted_many(sockets[0], "new", 5);
	expect_refusal(sockets[0], "fifth u32 a", REFUSAL_QUOTA_EXCEEDED, "this tenant holds 5 of 5 events");
	close(sockets[0]);
}

/* An identical request of another client may be answered by precedent. Clients with different prefixes do not share events. */
DAEMON_TEST(changed_prefix_applies_to_later_registrations)
{
	enum { EVENTS = 8 };
	static const char *const policies[] = { "", "[/**]\nNamePrefix=x_\n", "" };
	static struct batch batch;
	int sockets[ARRAY_SIZE(policies)];

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		change_policy(fixture, policies[i]);
		sockets[i] = fixture_client(fixture);
		batch_register(sockets[i], numbered("a%u u32 n", 0, EVENTS), EVENTS, &batch, NULL);
		for (size_t k = 0; k < EVENTS; k++)
			ck_assert_uint_eq(batch.answer[k].length, *policies[i] ? strlen("x_a0") : 0);
	}
	ck_assert_uint_eq(event_number(fixture, "a0", "holders_total"), 2);
	ck_assert_uint_eq(event_number(fixture, "x_a0", "holders_total"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
		close(sockets[i]);
}

/* The tenth would wait for more than five seconds. */
DAEMON_TEST(delayed_client_continues_at_the_new_rate, .policy = "[/**]\nMaxRequestsPerSecond=1/3\n")
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	for (unsigned i = 0; i < 12; i++)
		raw_request(socket, KIND_QUERY);
	ck_assert(eventually(tenant_number(fixture, "throttled") > 0));
	change_policy(fixture, "");
	for (unsigned i = 0; i < 12; i++)
		expect_kind(socket, KIND_ACCOUNT);
}

/* --- reserves --- */

DAEMON_TEST(filled_part_of_a_shrunk_reserve_stays_reserved, .policy = "[/**]\nMaxEvents=100\nReserveEvents=6\n",
	    .options = { "--capacity=20" })
{
	int socket = fixture_client(fixture);

	expect_granted_many(socket, "event", 5);
	/* Other sections and another order change nothing. */
	change_policy(fixture, "[/a]\nReserveEvents=3\n[/**]\nMaxEvents=100\nReserveEvents=8\nDenyEvents=x\n");
	expect_status(fixture, "reserved=11");
	expect_tenant(fixture, "reserved=8 reserved_filled=5");
	change_policy(fixture, "[/**]\nMaxEvents=100\nReserveEvents=2\n");
	expect_status(fixture, "reserved=5");
	expect_tenant(fixture, "reserved=2 reserved_filled=5");
	/* Without a reserve. */
	change_policy(fixture, "[/**]\nMaxEvents=100\n");
	expect_tenant(fixture, "reserved=0");
	expect_granted(socket, "common u32 a");
	expect_status(fixture, "reserved=5");
	/* A new reserve is empty: the charges of the old one do not count in it. */
	change_policy(fixture, "[/**]\nMaxEvents=100\nReserveEvents=4\n");
	expect_status(fixture, "reserved=9");
	expect_tenant(fixture, "reserved=4 reserved_filled=0");
	expect_granted_many(socket, "again", 4);
	expect_tenant(fixture, "reserved_filled=4");
	close(socket);
	await_status(fixture, "charges=0");
	expect_status(fixture, "reserved=4");
}

DAEMON_TEST(reserves_beyond_the_capacity_are_an_error, .policy = "[/**]\nMaxEvents=100\nReserveEvents=6\n",
	    .options = { "--capacity=10" })
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_granted_many(socket, "event", 10);
	fixture_write_policy(fixture, "[/**]\nMaxEvents=100\nReserveEvents=6\n[/b]\nReserveEvents=5\n");
	expect_reload(fixture, 1, "policy.conf:5: [/b]: the reserves of all sections add up to 11 events");
	expect_status(fixture, "reserved=6");
	/* A new reserve takes no event away, but the pool has no room for another event. */
	change_policy(fixture, "[/**]\nMaxEvents=100\nReserveEvents=6\n[/b]\nReserveEvents=4\n");
	expect_status(fixture, "charges=10");
	expect_refusal(socket, "more u32 a", REFUSAL_MACHINE_FULL, "this machine holds 4 of 0 events");
}

DAEMON_TEST(guard_changes_at_start_only, .policy = "[Daemon]\nGuard=off\n")
{
	ck_assert(!fixture->guarded);
	change_policy(fixture, "[Daemon]\nGuard=require\n");
	close(fixture_client(fixture));
}
