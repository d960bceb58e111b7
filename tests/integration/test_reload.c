/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A reload: no client is disconnected, nothing is revoked, and with an error in any file the old policy stays. */

#include <fcntl.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "tests/integration/policy.h"

static struct fixture fixture;

static int connect_here(void)
{
	return raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
}

TEST(sighup_reads_the_policy_again)
{
	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=1\n", NULL);
	fixture_write_policy(&fixture, "[/**]\nMaxEvents=2\n[/a]\nMaxEvents=3\n");
	ck_assert_int_eq(kill(fixture.pid, SIGHUP), 0);
	ck_assert(eventually(log_has(&fixture, "the policy is loaded: 2 sections from 1 file")));
	close(connect_here());
	/* Of many signals at once, at least the last one has an effect. */
	fixture_write_policy(&fixture, "[/**]\nMaxEvents=7\n");
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(kill(fixture.pid, SIGHUP), 0);
	ck_assert(eventually(log_has(&fixture, "the policy is loaded: 1 section from 1 file")));
	fixture_stop(&fixture);
}

TEST(reload_returns_files_and_sections)
{
	fixture_start(&fixture, NULL);
	expect_reload(&fixture, 0, "loaded: 0 sections from 0 files\n");
	fixture_write_policy(&fixture, "[/a]\nMaxEvents=1\n[/b]\nMaxEvents=1\nMaxEvent=1\n");
	expect_reload(&fixture, 0, "loaded: 2 sections from 1 file\n");
	expect_reload(&fixture, 0,
		      "policy.conf:5: warning: MaxEvent=: there is no such key; did you mean MaxEvents=?\n");
	fixture_stop(&fixture);
}

TEST(wrong_file_leaves_the_policy_in_force)
{
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=2\n[/nowhere]\nReserveEvents=5\n", NULL);
	socket = connect_here();
	fixture_write_policy(&fixture, "[/nowhere]\nReserveEvents=9\n[/**]\nMaxEvents=1\nMaxConnections=many\n");
	expect_reload(&fixture, 1,
		      "/policy.conf:5: MaxConnections=many: not a number; give 0 to 1048576, or infinity\n");
	expect_reload(&fixture, 1, "not loaded; the policy stays as it was.\n");
	ck_assert(log_has(&fixture, "/policy.conf:5: MaxConnections=many: not a number"));
	ck_assert(log_has(&fixture, "the policy has errors; the old one stays"));
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 5);
	expect_granted_many(socket, "event", 2);
	expect_refusal(socket, "third u32 a", REFUSAL_QUOTA_EXCEEDED, "2 of 2 events");

	/* The same with SIGHUP. */
	fixture_write_policy(&fixture, "[/**]\nMaxEvents=0\nMaxEvents=0x\n");
	ck_assert_int_eq(kill(fixture.pid, SIGHUP), 0);
	ck_assert(eventually(log_has(&fixture, "/policy.conf:3: MaxEvents=0x")));
	ck_assert_uint_eq(raw_query(socket).events_max, 2);

	/* Corrected files are loaded. */
	change_policy(&fixture, "[/**]\nMaxEvents=3\n");
	expect_granted(socket, "third u32 a");
	close(socket);
	fixture_stop(&fixture);
}

TEST(unreadable_file_is_an_error)
{
	char path[160];

	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=2\n", NULL);
	/* A link to itself, which root can't read either. */
	snprintf(path, sizeof(path), "%s/20-loop.conf", fixture.directory);
	ck_assert_int_eq(symlink("20-loop.conf", path), 0);
	expect_reload(&fixture, 1, "20-loop.conf: cannot be read: ");
	unlink(path);
	expect_reload(&fixture, 0, "loaded: 1 section from 1 file\n");
	fixture_stop(&fixture);
}

TEST(concurrent_reloads_are_all_answered)
{
	enum { ADMINS = 10 };
	struct answered answered;
	int control[ADMINS];

	fixture_start_with_policy(&fixture, "[/a]\nMaxEvents=1\n", NULL);
	for (unsigned i = 0; i < ADMINS; i++)
		control[i] = raw_connect(fixture.control);
	/* All requests have arrived when the daemon continues. */
	ck_assert_int_eq(kill(fixture.pid, SIGSTOP), 0);
	for (unsigned i = 0; i < ADMINS; i++) {
		raw_packet(KIND_RELOAD);
		ck_assert_int_eq(raw_send(control[i]), 0);
	}
	ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
	/* One admin leaves. */
	close(control[3]);
	for (unsigned i = 0; i < ADMINS; i++) {
		if (i == 3)
			continue;
		receive_reload(control[i], &answered);
		ck_assert_uint_eq(answered.rows, 1);
		ck_assert_uint_eq(answered.loaded, 1);
		ck_assert_uint_eq(answered.sections, 1);
		close(control[i]);
	}
	fixture_stop(&fixture);
}

enum { SLOW_FILES = 6, SLOW_BYTES = 1000000 };

/* Many names of one long file, which are read after the file that the test changes. */
static void slow_files(bool make)
{
	char path[160], link[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/slow", fixture.directory);
	file = make ? fopen(path, "we") : NULL;
	for (unsigned written = 0; make && written < SLOW_BYTES; written += 2)
		ck_assert_int_ge(fputs("#\n", file), 0);
	if (file)
		fclose(file);
	else
		unlink(path);
	for (unsigned i = 0; i < SLOW_FILES; i++) {
		snprintf(link, sizeof(link), "%s/slow-%u.conf", fixture.directory, i);
		ck_assert_int_eq(make ? symlink("slow", link) : unlink(link), 0);
	}
}

TEST(reload_during_a_reload_reads_later_changes)
{
	struct answered answered;
	int one, another;

	fixture_start(&fixture, NULL);
	slow_files(true);
	one = raw_connect(fixture.control);
	another = raw_connect(fixture.control);
	for (unsigned i = 0; i < 4; i++) {
		raw_packet(KIND_RELOAD);
		ck_assert_int_eq(raw_send(one), 0);
		/* Time to read the first file. */
		usleep(2000);
		fixture_write_policy(&fixture,
				     i % 2 ? "[/a]\nMaxEvents=1\n" : "[/a]\nMaxEvents=1\n[/b]\nMaxEvents=1\n");
		raw_packet(KIND_RELOAD);
		ck_assert_int_eq(raw_send(another), 0);
		receive_reload(another, &answered);
		ck_assert_uint_eq(answered.sections, i % 2 ? 1 : 2);
		receive_reload(one, &answered);
	}
	close(another);
	close(one);
	slow_files(false);
	fixture_stop(&fixture);
}

TEST(clients_are_served_during_a_reload)
{
	struct answered answered;
	struct raw_reply reply;
	int control, socket;
	unsigned served = 0;

	fixture_start(&fixture, NULL);
	slow_files(true);
	socket = connect_here();
	control = raw_connect(fixture.control);
	raw_packet(KIND_RELOAD);
	ck_assert_int_eq(raw_send(control), 0);
	raw_receive(control, &reply);
	ck_assert_int_eq(reply.message.kind, KIND_ROWS);
	ck_assert_uint_eq(reply.message.flags, WIRE_MORE);
	do {
		raw_query(socket);
		served++;
	} while (!log_has(&fixture, "the policy is loaded"));
	ck_assert_uint_gt(served, 3);
	receive_reload(control, &answered);
	ck_assert_uint_eq(answered.loaded, 1);
	close(control);
	close(socket);
	slow_files(false);
	fixture_stop(&fixture);
}

/* --- clients --- */

TEST(reload_disconnects_and_revokes_nothing)
{
	enum { CLIENTS = 20 };
	uint32_t bits[CLIENTS];
	int sockets[CLIENTS], newcomer;

	fixture_start_with_policy(&fixture, "", NULL);
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct answer answer;
		char event[32];

		snprintf(event, sizeof(event), "event%u u32 a", i);
		sockets[i] = connect_here();
		ck_assert_uint_eq(raw_register(sockets[i], event, &answer, NULL), 0);
		bits[i] = answer.bit;
	}
	change_policy(&fixture,
		      "[/**]\nMaxEvents=5\nMaxConnections=1\nMaxRequestsPerSecond=1000000\nDenyEvents=event1*\n");
	ck_assert_uint_eq(status_number(&fixture, "connections"), CLIENTS);
	ck_assert_uint_eq(status_number(&fixture, "charges"), CLIENTS);
	ck_assert_uint_eq(trace(&fixture, "event*", true), CLIENTS);
	trace(&fixture, "event*", false);
	expect_refusal(sockets[0], "new u32 a", REFUSAL_QUOTA_EXCEEDED, "this tenant holds 20 of 5 events");
	/* The tenant may have it in further programs. */
	expect_granted(sockets[0], "event2 u32 a");
	newcomer = raw_connect(fixture.socket);
	expect_cut(newcomer, REFUSAL_TOO_MANY_CONNECTIONS);
	close(newcomer);
	for (unsigned i = 0; i < CLIENTS; i++)
		ck_assert_uint_eq(raw_release(sockets[i], &bits[i], 1), 1);
	for (unsigned i = 0; i < CLIENTS; i++)
		close(sockets[i]);
	/* Released events linger on a shared file until its last client has left. */
	ck_assert(eventually(status_number(&fixture, "charges") == 0));
	/* Charges end before connections. */
	ck_assert(eventually(status_number(&fixture, "connections") == 0));
	sockets[0] = connect_here();
	expect_granted_many(sockets[0], "new", 5);
	expect_refusal(sockets[0], "fifth u32 a", REFUSAL_QUOTA_EXCEEDED, "this tenant holds 5 of 5 events");
	close(sockets[0]);
	fixture_stop(&fixture);
}

/* An identical request of another client may be answered by precedent, without a new decision. */
TEST(identical_request_is_denied_after_a_reload)
{
	static const char *const events[] = { "a0 u32 n", "a1 u32 n", "a2 u32 n", "a3 u32 n", "a4 u32 n",
					      "a5 u32 n", "a6 u32 n", "a7 u32 n", "a8 u32 n", "a9 u32 n" };
	static struct batch batch;
	int sockets[3];

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		sockets[i] = connect_here();
		if (i == 2)
			change_policy(&fixture, "[/**]\nDenyEvents=a7\n");
		batch_register(sockets[i], events, ARRAY_SIZE(events), &batch, NULL);
		for (size_t k = 0; k < ARRAY_SIZE(events); k++)
			ck_assert_uint_eq(batch.answer[k].refusal,
					  i == 2 && k == 7 ? REFUSAL_NOT_PERMITTED : REFUSAL_NONE);
	}
	/* The first two keep it. */
	ck_assert_uint_eq(event_number(&fixture, "a7", "holders_total"), 2);
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++)
		close(sockets[i]);
	fixture_stop(&fixture);
}

/* Clients with different prefixes do not share events. */
TEST(changed_prefix_applies_to_later_registrations)
{
	static const char *const events[] = { "a0 u32 n", "a1 u32 n", "a2 u32 n", "a3 u32 n",
					      "a4 u32 n", "a5 u32 n", "a6 u32 n", "a7 u32 n" };
	static const char *const policies[] = { "", "[/**]\nNamePrefix=x_\n", "" };
	static struct batch batch;
	int sockets[ARRAY_SIZE(policies)];

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		change_policy(&fixture, policies[i]);
		sockets[i] = connect_here();
		batch_register(sockets[i], events, ARRAY_SIZE(events), &batch, NULL);
		for (size_t k = 0; k < ARRAY_SIZE(events); k++)
			ck_assert_uint_eq(batch.answer[k].length, *policies[i] ? strlen("x_a0") : 0);
	}
	ck_assert_uint_eq(event_number(&fixture, "a0", "holders_total"), 2);
	ck_assert_uint_eq(event_number(&fixture, "x_a0", "holders_total"), 1);
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
		close(sockets[i]);
	fixture_stop(&fixture);
}

TEST(delayed_client_continues_at_the_new_rate)
{
	struct raw_reply reply;
	int socket;

	/* The tenth would wait for more than five seconds. */
	fixture_start_with_policy(&fixture, "[/**]\nMaxRequestsPerSecond=1/3\n", NULL);
	socket = connect_here();
	for (unsigned i = 0; i < 12; i++) {
		raw_packet(KIND_QUERY);
		ck_assert_int_eq(raw_send(socket), 0);
	}
	ck_assert(eventually(tenant_number(&fixture, "throttled") > 0));
	change_policy(&fixture, "");
	for (unsigned i = 0; i < 12; i++) {
		raw_receive(socket, &reply);
		ck_assert_int_gt(reply.size, 0);
		ck_assert_int_eq(reply.message.kind, KIND_ACCOUNT);
	}
	close(socket);
	fixture_stop(&fixture);
}

/* --- reserves --- */

static void expect_reserve(uint64_t reserved, uint64_t of_tenant, uint64_t filled)
{
	ck_assert_uint_eq(status_number(&fixture, "reserved"), reserved);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved"), of_tenant);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved_filled"), filled);
}

TEST(filled_part_of_a_shrunk_reserve_stays_reserved)
{
	static const char *const options[] = { "--capacity=20", NULL };
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=100\nReserveEvents=6\n", options);
	socket = connect_here();
	expect_granted_many(socket, "event", 5);
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 6);
	change_policy(&fixture, "[/**]\nMaxEvents=100\nReserveEvents=2\n");
	expect_reserve(5, 2, 5);
	/* Without a reserve. */
	change_policy(&fixture, "[/**]\nMaxEvents=100\n");
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 5);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved"), 0);
	expect_granted(socket, "common u32 a");
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 5);
	/* A new reserve is empty: the charges of the old one do not count in it. */
	change_policy(&fixture, "[/**]\nMaxEvents=100\nReserveEvents=4\n");
	expect_reserve(9, 4, 0);
	expect_granted_many(socket, "again", 4);
	ck_assert_uint_eq(tenant_number(&fixture, "reserved_filled"), 4);
	close(socket);
	ck_assert(eventually(status_number(&fixture, "charges") == 0));
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 4);
	fixture_stop(&fixture);
}

TEST(unchanged_reserve_keeps_its_fill)
{
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nReserveEvents=6\n", NULL);
	socket = connect_here();
	expect_granted_many(socket, "event", 5);
	/* Other sections and another order change nothing. */
	change_policy(&fixture, "[/a]\nReserveEvents=3\n[/**]\nReserveEvents=8\nDenyEvents=x\n");
	expect_reserve(11, 8, 5);
	close(socket);
	fixture_stop(&fixture);
}

TEST(reserves_beyond_the_capacity_are_an_error)
{
	static const char *const options[] = { "--capacity=10", NULL };
	int socket;

	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=100\nReserveEvents=6\n", options);
	socket = connect_here();
	expect_granted_many(socket, "event", 10);
	fixture_write_policy(&fixture, "[/**]\nMaxEvents=100\nReserveEvents=6\n[/b]\nReserveEvents=5\n");
	expect_reload(&fixture, 1, "policy.conf:5: [/b]: the reserves of all sections add up to 11 events");
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 6);
	/* A new reserve takes no event away, but the pool has no room for another event. */
	change_policy(&fixture, "[/**]\nMaxEvents=100\nReserveEvents=6\n[/b]\nReserveEvents=4\n");
	ck_assert_uint_eq(status_number(&fixture, "charges"), 10);
	expect_refusal(socket, "more u32 a", REFUSAL_MACHINE_FULL, "this machine holds 4 of 0 events");
	close(socket);
	fixture_stop(&fixture);
}

/* --- at the start --- */

/* A daemon of its own, in its own directory, with one policy file. */
struct own {
	char directory[64], control[96];
	char socket_option[128], control_option[128], policy_option[128];
};

static void own_init(struct own *own)
{
	make_temporary_directory(own->directory, sizeof(own->directory));
	ck_assert_int_eq(chmod(own->directory, 0755), 0);
	ck_assert_int_eq(chdir(own->directory), 0);
	snprintf(own->control, sizeof(own->control), "%s/c", own->directory);
	snprintf(own->control_option, sizeof(own->control_option), "--control-socket=%s", own->control);
	snprintf(own->socket_option, sizeof(own->socket_option), "--socket=%s/s", own->directory);
	snprintf(own->policy_option, sizeof(own->policy_option), "--policy=%s", own->directory);
}

static void own_write(const char *policy)
{
	FILE *to = fopen("10.conf", "we");

	ck_assert_ptr_nonnull(to);
	ck_assert_int_ge(fputs(policy, to), 0);
	ck_assert_int_eq(fclose(to), 0);
}

/* The daemon does not start with this policy, and logs these words. */
static void expect_no_start(const char *policy, const char *words)
{
	char output[4096];
	struct own own;

	own_init(&own);
	own_write(policy);
	/* Also in the background, where the command ends with the exit status of the daemon. */
	for (unsigned background = 0; background < 2; background++) {
		const char *const command[] = { built("userevd"),
						own.policy_option,
						own.socket_option,
						own.control_option,
						"--capacity=10",
						background ? NULL : "--foreground",
						NULL };
		int status = run_command(NULL, output, sizeof(output), command);

		ck_assert_msg(status == EX_CONFIG, "exit status %d: %s", status, output);
		ck_assert_msg(strstr(output, words), "'%s' is not in '%s'", words, output);
	}
	unlink("10.conf");
	ck_assert_msg(rmdir(own.directory) == 0, "the directory is not empty");
}

TEST(daemon_does_not_start_with_wrong_files)
{
	expect_no_start("[/a]\nMaxEvents=many\n",
			"/10.conf:2: MaxEvents=many: not a number; give 0 to 65535, or infinity");
	expect_no_start("[/a]\nMaxEvents=many\n", "the daemon does not start with an error in the policy");
	expect_no_start("[/a]\nReserveEvents=7\n[/b]\nReserveEvents=4\n",
			"/10.conf:4: [/b]: the reserves of all sections add up to 11 events, and there is room for");
}

static void read_pid(void *data, struct cursor row)
{
	*(pid_t *)data = (pid_t)row_get_u64(row, "pid");
}

TEST(relative_policy_path_is_found_after_a_reload)
{
	struct answered answered;
	char output[4096];
	struct own own;
	pid_t pid = 0;
	int control;

	own_init(&own);
	/* In the background a daemon leaves the current directory if it can. */
	ck_assert_int_eq(run_command(NULL, output, sizeof(output),
				     (const char *const[]){ built("userevd"), own.socket_option, own.control_option,
							    "--policy=.", NULL }),
			 0);
	own_write("[/a]\nMaxEvents=1\n");
	control = raw_connect(own.control);
	ck_assert_uint_eq(raw_rows(control, KIND_STATUS, 0, NULL, read_pid, &pid), 0);
	raw_packet(KIND_RELOAD);
	ck_assert_int_eq(raw_send(control), 0);
	receive_reload(control, &answered);
	close(control);
	ck_assert_int_gt(pid, 1);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_uint_eq(answered.sections, 1);
	unlink("10.conf");
	ck_assert(eventually(rmdir(own.directory) == 0));
}

TEST(guard_and_metrics_socket_change_at_start_only)
{
	fixture_start_with_policy(&fixture, "[Daemon]\nGuard=off\n", NULL);
	ck_assert(!fixture.guarded);
	change_policy(&fixture, "[Daemon]\nGuard=require\n");
	close(connect_here());
	ck_assert(eventually(status_number(&fixture, "tenants") == 0));
	fixture_stop(&fixture);
}
