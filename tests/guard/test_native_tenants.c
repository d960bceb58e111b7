/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon has the kernel admit native events by its policy, with one account for them and for those of its socket. As root, in a guest. */

#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "client/userev.h"
#include "tests/guard/loader.h"
#include "tests/guard/native_program.h"
#include "tests/guard/stand_in.h"
#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/machine.h"
#include "tests/integration/pair.h"
#include "tests/integration/policy.h"
#include "tests/integration/raw.h"

#define POLICY                                                                                                         \
	"[/native-*]\nTenant=yes\nNative=yes\nMaxEvents=4\nNativeViolations=log\nDenyEvents=secret_*\n"                \
	"[/native-b]\nReserveEvents=2\n"

#define NATIVE_TEST(name, ...)                                                                                         \
	DAEMON_TEST(name, .policy = POLICY, .needs_guest = "native events", .needs_kernel = "user_events", __VA_ARGS__)

/* A cgroup is known to the kernel a moment after it is made. */
static void start(const struct fixture *fixture, struct native_program *program, const char *cgroup)
{
	const uint64_t before = status_number(fixture, "native_events");

	native_start(program, cgroup);
	for (unsigned i = 0; i < 500 && native_open(program, 0) != 0; i++)
		usleep(10000);
	for (unsigned i = 0; i < 500 && native_register(program, 0, 0, "known u32 x", 0) == EPERM; i++)
		usleep(10000);
	native_unregister(program, 0);
	native_close(program, 0);
	ck_assert(eventually(status_number(fixture, "native_events") == before));
	ck_assert_int_eq(native_open(program, 0), 0);
}

static void end(struct native_program *program, const char *cgroup)
{
	char path[128];

	native_end(program);
	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", cgroup);
	rmdir(path);
}

NATIVE_TEST(program_gets_what_the_policy_allows)
{
	struct native_program program;
	char text[32];

	ck_assert(eventually(log_has(fixture, "can register by themselves")));
	ck_assert(eventually(access("/sys/kernel/tracing/events/user_events/userevd_proof_allowed", F_OK) < 0));
	start(fixture, &program, "native-a");
	ck_assert_int_eq(native_register(&program, 0, 1, "secret_name u32 x", 0), EPERM);
	ck_assert(eventually(log_has(fixture, "DenyEvents= has its name")));
	for (unsigned i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "native_%u u32 x", i);
		ck_assert_msg(native_register(&program, 0, i + 1, text, 0) == 0, "%s", text);
	}
	ck_assert_int_eq(native_register(&program, 0, 9, "native_4 u32 x", 0), EDQUOT);
	ck_assert(eventually(log_has(fixture, "no room for another event")));
	end(&program, "native-a");
}

/* --- with other parts of the daemon --- */

static void register_many(struct native_program *program, unsigned n)
{
	char text[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "native_%u u32 x", i);
		ck_assert_msg(native_register(program, 0, i + 1, text, 0) == 0, "%s", text);
	}
}

static bool prints(const struct fixture *fixture, const char *words, const char *const *command)
{
	static char output[32768];

	ck_assert_int_eq(run_command(fixture, output, sizeof(output), command), 0);
	if (strstr(output, words))
		return true;
	printf("%s\n", output);
	return false;
}

static const char *const json_events[] = { "userevctl", "events", "--json", NULL };

NATIVE_TEST(socket_and_file_have_one_quota)
{
	struct native_program program;
	struct actor actor;

	start(fixture, &program, "native-a");
	actor = actor_in(fixture, "/sys/fs/cgroup/native-a", 0);
	expect_granted(actor.socket, "by_socket u32 x");
	ck_assert(eventually(status_number(fixture, "native_events") == 0));
	register_many(&program, 3);
	ck_assert_int_eq(native_register(&program, 0, 9, "native_3 u32 x", 0), EDQUOT);
	expect_refusal(actor.socket, "by_socket_too u32 x", REFUSAL_QUOTA_EXCEEDED, "MaxEvents=4");
	ck_assert_uint_eq(status_number(fixture, "native_events"), 3);
	/* An event of both takes a place in each. */
	end(&program, "native-a");
	ck_assert(eventually(status_number(fixture, "native_events") == 0));
	expect_granted(actor.socket, "by_socket_too u32 x");
	expect_granted(actor.socket, "native_0 u32 x");
	close(actor.socket);
	fd_close(actor.page);
	actor_leave(&actor);
	rmdir("/sys/fs/cgroup/native-a");
}

NATIVE_TEST(events_are_listed_with_tenant_and_process)
{
	struct native_program program;
	char expected[256];

	start(fixture, &program, "native-a");
	register_many(&program, 1);
	snprintf(
		expected, sizeof(expected),
		"{\"event\":\"native_0\",\"description\":\"native_0 u32 x\",\"holders\":[{\"tenant\":\"/native-a\",\"pid\":%d,"
		"\"uid\":1000,\"comm\":\"test_native_ten\"}],\"holders_total\":1,\"tenants\":1,\"lingering\":0,\"persistent\":false,\"native\":1",
		(int)program.pid);
	ck_assert(prints(fixture, expected,
			 (const char *const[]){ built("userevctl"), json_events[1], json_events[2], NULL }));
	ck_assert(prints(fixture, "/native-a", (const char *const[]){ built("userevctl"), "tenants", NULL }));
	end(&program, "native-a");
}

NATIVE_TEST(daemon_opens_the_file_for_those_who_pass_it_on)
{
	struct native_program program;
	struct raw_reply reply;
	struct actor actor;
	int stranger, file;

	start(fixture, &program, "native-a");
	cgroup_make("native-b");
	actor = actor_in(fixture, "/sys/fs/cgroup/native-b", 0);
	raw_packet(KIND_NATIVE);
	raw_ask(actor.socket, KIND_NATIVE_FILE, &reply);
	ck_assert_uint_eq(reply.fds.count, 1);
	native_take(&program, 1, reply.fds.fd[0]);
	raw_reply_deinit(&reply);
	/* The tenant that registers on it is charged, not the one that has asked for it. */
	ck_assert_int_eq(native_register(&program, 1, 1, "passed u32 x", 0), 0);
	ck_assert(prints(fixture, "\"tenant\":\"/native-a\"",
			 (const char *const[]){ built("userevctl"), json_events[1], json_events[2], NULL }));
	stranger = fixture_client(fixture);
	raw_packet(KIND_NATIVE);
	raw_send(stranger);
	raw_receive(stranger, &reply);
	ck_assert_uint_eq(reply.message.kind, KIND_ERROR);
	raw_reply_deinit(&reply);
	close(stranger);
	ck_assert_int_eq(userev_native_file(fixture->socket), -EPERM);
	ck_assert_msg(strstr(userev_refusal(), "Native=yes"), "%s", userev_refusal());
	cgroup_enter("native-b");
	file = userev_native_file(fixture->socket);
	cgroup_enter("");
	ck_assert_int_ge(file, 0);
	close(file);
	close(actor.socket);
	fd_close(actor.page);
	actor_leave(&actor);
	end(&program, "native-a");
	rmdir("/sys/fs/cgroup/native-b");
}

NATIVE_TEST(reserve_is_kept_for_its_section, .options = { "--capacity=4" })
{
	struct native_program program, other;

	start(fixture, &program, "native-a");
	start(fixture, &other, "native-b");
	/* Two of four places are reserved, and of the others one is a fair share. */
	for (unsigned i = 0; i < 3; i++)
		(void)native_register(&program, 0, i + 1,
				      i == 0   ? "one u32 x"
				      : i == 1 ? "two u32 x"
					       : "three u32 x",
				      0);
	ck_assert_int_eq(native_register(&program, 0, 9, "four u32 x", 0), EDQUOT);
	ck_assert_int_eq(native_register(&other, 0, 1, "five u32 x", 0), 0);
	ck_assert_int_eq(native_register(&other, 0, 2, "six u32 x", 0), 0);
	end(&program, "native-a");
	end(&other, "native-b");
}

NATIVE_TEST(reload_takes_effect_at_once)
{
	struct native_program program;

	start(fixture, &program, "native-a");
	register_many(&program, 2);
	change_policy(fixture, "[/native-*]\nTenant=yes\nNative=yes\nMaxEvents=3\nNamePrefix=a_\n");
	ck_assert_int_eq(native_register(&program, 0, 9, "native_2 u32 x", 0), EPERM);
	ck_assert_int_eq(native_register(&program, 0, 9, "a_2 u32 x", 0), 0);
	ck_assert_int_eq(native_register(&program, 0, 10, "a_3 u32 x", 0), EDQUOT);
	change_policy(fixture, "[/native-*]\nTenant=yes\n");
	ck_assert_int_eq(native_register(&program, 0, 10, "a_3 u32 x", 0), EPERM);
	/* What it has stays charged until it lets go. */
	ck_assert_uint_eq(status_number(fixture, "native_events"), 3);
	end(&program, "native-a");
	ck_assert(eventually(status_number(fixture, "native_events") == 0));
}

NATIVE_TEST(removed_guard_ends_native_events)
{
	struct native_program program;
	char sums[32768];

	start(fixture, &program, "native-a");
	ck_assert_int_eq(loader("--remove"), 0);
	ck_assert(eventually(log_has(fixture, "was the guard removed?")));
	native_close(&program, 0);
	ck_assert(eventually(native_open(&program, 0) == EACCES));
	ck_assert_int_eq(
		run_command(fixture, sums, sizeof(sums), (const char *const[]){ built("userevctl"), "status", NULL }),
		0);
	ck_assert_msg(strstr(sums, "Native: off: the kernel does not refuse"), "%s", sums);
	end(&program, "native-a");
	/* It needs no fds for them any more. */
	tally_take_at_rest(fixture, &fixture->before);
}

/* A container that crashes in a loop, and leaves events behind each time, gains nothing. */
NATIVE_TEST(cgroup_that_is_made_again_pays_for_the_last_one)
{
	struct native_program program, keeper;

	start(fixture, &keeper, "native-b");
	start(fixture, &program, "native-a");
	register_many(&program, 3);
	native_pass(&program, 0, &keeper, 1);
	end(&program, "native-a");
	ck_assert_int_lt(access("/sys/fs/cgroup/native-a", F_OK), 0);
	start(fixture, &program, "native-a");
	ck_assert_int_eq(native_register(&program, 0, 1, "first u32 x", 0), 0);
	ck_assert_int_eq(native_register(&program, 0, 2, "second u32 x", 0), EDQUOT);
	native_close(&keeper, 1);
	ck_assert(eventually(status_number(fixture, "native_events") == 1));
	ck_assert_int_eq(native_register(&program, 0, 2, "second u32 x", 0), 0);
	end(&program, "native-a");
	end(&keeper, "native-b");
}

static void restart_natively(struct fixture *fixture, struct pair *pair)
{
	fixture_write_policy(fixture, POLICY);
	pair->native = "--native=yes";
	pair_end_daemon(pair, SIGTERM);
	pair_end_keeper(pair, SIGTERM);
	pair_start_keeper(pair);
	pair_start_daemon(pair);
	pair_wait(pair);
}

struct wanted {
	const char *tenant;
	uint64_t native_events;
};

static void take_row(void *data, struct cursor row)
{
	struct wanted *wanted = data;
	char tenant[256];

	row_get_string(row, "tenant", tenant, sizeof(tenant));
	if (streq(tenant, wanted->tenant))
		wanted->native_events = row_get_u64(row, "native_events");
}

static uint64_t natives_of(const struct fixture *fixture, const char *tenant)
{
	struct wanted wanted = { .tenant = tenant };

	ask_rows(fixture, KIND_TENANTS, take_row, &wanted);
	return wanted.native_events;
}

/* The next keeper loads them as if it were of another build. */
static void rename_programs(void)
{
	char name[512], path[640], other[640];

	find_pinned("admitting1-", name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s", loader_directory, name);
	snprintf(other, sizeof(other), "%s/admitting1-0000000000000000", loader_directory);
	ck_assert_int_eq(rename(path, other), 0);
}

/* While programs come and go, both are killed in turn and at once, and the guard is loaded anew. */
PAIR_TEST(charges_survive_each_restart, "--guard=prefer")
{
	const char *kills = getenv("NATIVE_KILLS");
	const unsigned rounds = kills ? (unsigned)atoi(kills) : 6;
	struct native_program program, busy;

	restart_natively(fixture, pair);
	start(fixture, &program, "native-a");
	register_many(&program, 3);
	start(fixture, &busy, "native-b");
	ck_assert_int_eq(native_churn(&busy, "busy_%u u32 x"), 0);
	for (unsigned i = 0; i < rounds; i++) {
		if (i % 3 != 1)
			pair_end_daemon(pair, SIGKILL);
		if (i % 3 != 0)
			pair_end_keeper(pair, SIGKILL);
		/* Nobody is needed for what the tenant may have anyway. */
		if (i == 0)
			ck_assert_int_eq(native_register(&program, 0, 4, "fourth u32 x", 0), 0);
		ck_assert_int_eq(native_register(&program, 0, 10, "fifth u32 x", 0), EDQUOT);
		ck_assert_int_eq(native_register(&program, 0, 10, "secret_name u32 x", 0), EPERM);
		if (i % 4 == 3 && !pair->keeper)
			rename_programs();
		if (!pair->keeper)
			pair_start_keeper(pair);
		if (!pair->daemon)
			pair_start_daemon(pair);
		pair_wait(pair);
		ck_assert_uint_eq(natives_of(fixture, "/native-a"), 4);
		ck_assert_uint_le(natives_of(fixture, "/native-b"), 4);
		ck_assert_int_eq(native_register(&program, 0, 10, "fifth u32 x", 0), EDQUOT);
	}
	end(&busy, "native-b");
	end(&program, "native-a");
	ck_assert(eventually(status_number(fixture, "native_events") == 0));
}

PAIR_TEST(lost_map_is_said, "--guard=prefer")
{
	char path[512], sums[32768];

	restart_natively(fixture, pair);
	snprintf(path, sizeof(path), "%s/native1-shared", loader_directory);
	ck_assert_int_eq(unlink(path), 0);
	restart_natively(fixture, pair);
	ck_assert_int_eq(
		run_command(fixture, sums, sizeof(sums), (const char *const[]){ built("userevctl"), "status", NULL }),
		0);
	ck_assert_msg(strstr(sums, "Native: off: the map of native events was removed"), "%s", sums);
	ck_assert_int_eq(loader("--remove"), 0);
}

/*
 * The keeper has the guard's files, too, so that they stay open when the daemon closes its own: and an event of theirs, which comes after
 * that, concerns none of the connections that have their numbers now.
 */
PAIR_TEST(removed_part_of_the_guard_is_noticed, "--guard=prefer")
{
	struct native_program program;
	char name[512], path[640];
	struct tally tally;
	int control[32], before;

	restart_natively(fixture, pair);
	before = raw_connect(fixture->control);
	start(fixture, &program, "native-a");
	find_pinned("admitting1-", name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s/refuse_new", loader_directory, name);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert(eventually(log_has(fixture, "was a part of the guard removed?")));
	for (size_t i = 0; i < ARRAY_SIZE(control); i++)
		control[i] = raw_connect(fixture->control);
	for (unsigned i = 0; i < 4; i++)
		native_register(&program, 0, i, "secret_name u32 x", 0);
	for (size_t i = 0; i < ARRAY_SIZE(control); i++) {
		ck_assert_uint_eq(
			raw_rows(control[i], KIND_STATUS, 0, NULL, take_row, &(struct wanted){ .tenant = "" }), 0);
		close(control[i]);
	}
	ck_assert_uint_eq(raw_rows(before, KIND_STATUS, 0, NULL, take_row, &(struct wanted){ .tenant = "" }), 0);
	close(before);
	end(&program, "native-a");
	ck_assert(eventually(access("/sys/kernel/tracing/events/user_events/unproved_by_userevd", F_OK) < 0));
	tally_take_at_rest(fixture, &tally);
	ck_assert_int_eq(loader("--remove"), 0);
}

/* The guard needs types that some kernels are built without. */
PAIR_TEST(without_btf_nothing_is_offered, "--guard=prefer")
{
	char sums[32768];
	bool is_off;

	ck_assert_int_eq(loader("--remove"), 0);
	ck_assert_int_eq(mount("none", "/sys/kernel/btf", "tmpfs", 0, NULL), 0);
	restart_natively(fixture, pair);
	ck_assert_int_eq(
		run_command(fixture, sums, sizeof(sums), (const char *const[]){ built("userevctl"), "status", NULL }),
		0);
	is_off = strstr(sums, "Native: off: there is no guard");
	ck_assert_int_eq(umount("/sys/kernel/btf"), 0);
	ck_assert_msg(is_off, "%s", sums);
}

int main(void)
{
	if (!is_a_place_for_tests())
		return EXIT_SUCCESS;
	if (access("/proc/sys/kernel/user_events_max", F_OK) < 0) {
		printf("0 passed, 0 failed, 1 skipped: programs register by themselves on Linux 6.4 and later\n");
		return EXIT_SUCCESS;
	}
	native_file = "/run/userevd/native/user_events_data";
	/* Left behind by a failed test of another program. */
	rmdir("/sys/fs/cgroup/native-a");
	rmdir("/sys/fs/cgroup/native-b");
	loader_directory = "/sys/fs/bpf/userevd";
	return run_tests_in_cgroups();
}
