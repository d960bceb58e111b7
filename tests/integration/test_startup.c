/* SPDX-License-Identifier: GPL-2.0-or-later */

/* How the daemon begins and ends, and its options. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "tests/integration/actor.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"
#include "tests/integration/policy.h"

/* With clients, an admin, a lingering event and records. */
static void end_by(struct fixture *fixture, int number)
{
	static const char *const all = "*";
	struct holder holder;
	struct member member = member_new(fixture, "held u32 n");
	int silent = raw_connect(fixture->socket), admin = raw_connect(fixture->control), status;

	signal(SIGPIPE, SIG_IGN);
	leave_event(&holder, fixture_client(fixture), "left_behind u32 n");
	await_status(fixture, "lingering=1");
	raw_strings(KIND_TAIL, TAIL_PAST, &all, 1, 0);
	ck_assert_int_eq(raw_send(admin), 0);
	ck_assert_uint_eq(trace(fixture, "*", true), 2);
	ck_assert_int_eq(write_number(&member, 0), 8);
	encode_fixed(raw_packet(KIND_WATCH), KIND_WATCH, &(struct wire_watch){ .on = 1 });
	ck_assert_int_eq(raw_send(member.socket), 0);

	status = fixture_end(fixture, fixture->pid, number);
	ck_assert_msg(status == 0, "the daemon ended with status %#x", (unsigned)status);
	ck_assert_int_lt(access(fixture->socket, F_OK), 0);
	ck_assert_int_lt(access(fixture->control, F_OK), 0);
	expect_hang_up(fd_steal(&member.socket));
	expect_hang_up(silent);
	expect_hang_up(admin);
	/* The kernel goes on taking records. */
	ck_assert_int_eq(write_number(&member, 0), keeps_records_itself(fixture) ? -EPIPE : 8);
	member_free(&member);
	holder_end(&holder);
}

DAEMON_TEST(daemon_with_clients_ends_at_sigterm)
{
	end_by(fixture, SIGTERM);
}

DAEMON_TEST(daemon_with_clients_ends_at_sigint)
{
	end_by(fixture, SIGINT);
}

DAEMON_TEST(daemon_started_by_root_has_no_privileges)
{
	if (geteuid() == 0) {
		ck_assert_uint_ne(proc_status(fixture->pid, "Uid:", 10), 0);
		ck_assert_uint_ne(proc_status(fixture->pid, "Gid:", 10), 0);
		ck_assert_uint_eq(proc_status(fixture->pid, "NoNewPrivs:", 10), 1);
		ck_assert_uint_eq(proc_status(fixture->pid, "CapBnd:", 16), 0);
	}
	ck_assert_uint_eq(proc_status(fixture->pid, "CapEff:", 16), 0);
	ck_assert_uint_eq(proc_status(fixture->pid, "CapPrm:", 16), 0);
}

/* Starts another daemon on these sockets, with the policy of that directory; its exit status. */
static int start_another(const char *socket, const char *control, const char *policy, bool in_background, char *output,
			 size_t size)
{
	char socket_option[160], control_option[160], policy_option[160];
	const char *const argv[] = { built("userevd"),
				     "--log-level=warning",
				     "--capacity=10",
				     socket_option,
				     control_option,
				     policy_option,
				     in_background ? NULL : "--foreground",
				     NULL };

	/* No supervisor has started it. */
	unsetenv("NOTIFY_SOCKET");
	unsetenv("INVOCATION_ID");
	snprintf(socket_option, sizeof(socket_option), "--socket=%s", socket);
	snprintf(control_option, sizeof(control_option), "--control-socket=%s", control);
	snprintf(policy_option, sizeof(policy_option), "--policy=%s", policy);
	return run_command(NULL, output, size, argv);
}

/* Ends a daemon in the background. It is the test's child, since the test is a subreaper. */
static void end_background(const struct fixture *fixture)
{
	pid_t pid = (pid_t)status_number(fixture, "pid");
	int status = -1;

	ck_assert_int_gt(pid, 1);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "the daemon ended with status %#x", (unsigned)status);
}

/* With another user a process would remain that tidies up. */
DAEMON_TEST(stale_socket_is_taken_over_in_the_background, .options = { "--user=root" })
{
	char output[1024];

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fixture_end(fixture, fixture->pid, SIGKILL);
	ck_assert_int_eq(access(fixture->socket, F_OK), 0);
	ck_assert_int_eq(access(fixture->control, F_OK), 0);

	/* It listens when this returns. */
	ck_assert_int_eq(
		start_another(fixture->socket, fixture->control, fixture->directory, true, output, sizeof(output)), 0);
	ck_assert_str_eq(output, "");
	close(fixture_client(fixture));
	end_background(fixture);
	ck_assert_int_lt(access(fixture->socket, F_OK), 0);
	ck_assert_int_lt(access(fixture->control, F_OK), 0);
}

/* In the background a daemon leaves the current directory if it can. */
TEST(relative_paths_work_in_the_background)
{
	struct fixture fixture;
	struct answered answered;
	char output[1024];
	_cleanup_(fd_closep) int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), admin = -1;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fixture_prepare(&fixture, "");
	ck_assert_int_eq(chdir(fixture.directory), 0);
	ck_assert_int_eq(start_another("here.sock", "below/control.sock", ".", true, output, sizeof(output)), 0);
	close(raw_hello("here.sock", 0, NULL, NULL));
	fixture_write_policy(&fixture, "[/a]\nMaxEvents=1\n");
	string_copy(fixture.control, sizeof(fixture.control), "below/control.sock");
	admin = raw_connect(fixture.control);
	raw_request(admin, KIND_RELOAD);
	receive_reload(admin, &answered);
	ck_assert_uint_eq(answered.sections, 1);
	end_background(&fixture);
	/* The daemon has removed them, and not the directory that it had made. */
	ck_assert_int_lt(access("here.sock", F_OK), 0);
	ck_assert_int_lt(access("below/control.sock", F_OK), 0);
	ck_assert_int_eq(rmdir("below"), 0);
	ck_assert_int_eq(fchdir(before), 0);
	fixture_abandon(&fixture);
}

static void expect_no_start(const struct fixture *fixture, const char *socket, const char *control, int status,
			    const char *part)
{
	char output[1024];

	for (int in_background = 0; in_background < 2; in_background++) {
		ck_assert_int_eq(
			start_another(socket, control, fixture->directory, in_background, output, sizeof(output)),
			status);
		ck_assert_msg(strstr(output, part), "'%s' is not in '%s'", part, output);
	}
}

DAEMON_TEST(daemon_does_not_start_with_a_wrong_policy)
{
	static const char *const cases[][2] = {
		{ "[/a]\nMaxEvents=many\n",
		  "/policy.conf:2: MaxEvents=many: not a number; give 0 to 65535, or infinity" },
		{ "[/a]\nMaxEvents=many\n", "the daemon does not start with an error in the policy" },
		{ "[/a]\nReserveEvents=7\n[/b]\nReserveEvents=4\n",
		  "/policy.conf:4: [/b]: the reserves of all sections add up to 11 events, and there is room for" },
	};
	char socket[128], control[128];

	snprintf(socket, sizeof(socket), "%s/other.sock", fixture->directory);
	snprintf(control, sizeof(control), "%s/other-control.sock", fixture->directory);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fixture_write_policy(fixture, cases[i][0]);
		expect_no_start(fixture, socket, control, EX_CONFIG, cases[i][1]);
		ck_assert(access(socket, F_OK) < 0 && access(control, F_OK) < 0);
	}
}

DAEMON_TEST(socket_of_a_living_daemon_is_not_taken_over)
{
	char other[128];
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	snprintf(other, sizeof(other), "%s/other.sock", fixture->directory);
	expect_no_start(fixture, fixture->socket, other, EXIT_FAILURE, "another daemon listens on");
	ck_assert_int_lt(access(other, F_OK), 0);
	/* The second daemon has removed the socket that it had made. */
	expect_no_start(fixture, other, fixture->control, EXIT_FAILURE, "another daemon listens on");
	ck_assert_int_lt(access(other, F_OK), 0);
	expect_granted(socket, "still_there");
	close(fixture_client(fixture));
}

DAEMON_TEST(file_that_is_no_socket_is_not_removed)
{
	char path[128], control[128], longer[160];

	snprintf(control, sizeof(control), "%s/other.sock", fixture->directory);
	expect_no_start(fixture, fixture->log, control, EXIT_FAILURE, "can't listen on");
	ck_assert_int_eq(access(fixture->log, F_OK), 0);
	expect_no_start(fixture, fixture->directory, control, EXIT_FAILURE, "can't listen on");
	snprintf(path, sizeof(path), "%s/no/such/directory", fixture->directory);
	expect_no_start(fixture, path, control, EXIT_FAILURE, "can't listen on");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	longer[0] = '/';
	expect_no_start(fixture, longer, control, EXIT_FAILURE, "can't listen on");
}

TEST(daemon_ends_with_its_parent_if_asked)
{
	static const char script[] = "\"$0\" --exit-with-parent --socket=\"$1/s\" --control-socket=\"$1/c\" & "
				     "while ! [ -S \"$1/c\" ]; do sleep 0.01; done >/dev/null 2>&1";
	char directory[64], path[96], output[1024];
	const char *const argv[] = { "/bin/sh", "-c", script, built("userevd"), directory, NULL };

	make_temporary_directory(directory, sizeof(directory));
	/* Returns when the daemon, too, has closed its output. */
	ck_assert_int_eq(run_command(NULL, output, sizeof(output), argv), 0);
	snprintf(path, sizeof(path), "%s/s", directory);
	ck_assert(eventually(access(path, F_OK) < 0));
	ck_assert(eventually(rmdir(directory) == 0));
}

/* tests/unit/daemon/test_options.c has all options. */
TEST(daemon_logs_that_it_waits_for_a_keeper)
{
	static const char script[] =
		"\"$0\" --foreground --socket=\"$1/s\" --control-socket=\"$1/c\" --keeper-socket=\"$1/k\" 2>\"$1/log\" & "
		"while ! grep -q \"waiting for the keeper at $1/k: No such file\" \"$1/log\"; do sleep 0.01; done; "
		"kill -KILL $!; rm \"$1/log\"";
	char directory[64], output[1024];
	const char *const argv[] = { "/bin/sh", "-c", script, built("userevd"), directory, NULL };

	make_temporary_directory(directory, sizeof(directory));
	ck_assert_int_eq(run_command(NULL, output, sizeof(output), argv), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}

TEST(options_have_their_exit_status_and_output)
{
	static const struct {
		const char *option;
		int status;
		const char *words;
	} cases[] = {
		{ "--help", 0, "Usage: userevd" },
		{ "--help", 0, "--max-events=N" },
		{ "-h", 0, "Usage: userevd" },
		{ "--version", 0, "userevd " VERSION "\n" },
		{ "--max-events=many", 2, "give a number from 0 to" },
		{ "--max-events=many", 2, "userevd --help" },
		{ "--ring-size=18014398509481988K", 2, "give a number" }, /* 2^64 + 4096 */
		{ "--backend=magic", 2, "give auto, embedded, status-page or enable-address" },
		{ "--bogus", 2, "bogus" },
		{ "-x", 2, "x" },
		{ "--socket", 2, "needs a value" },
		{ "stray", 2, "unexpected argument 'stray'" },
	};
	char output[4096];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const argv[] = { built("userevd"), cases[i].option, NULL };
		int status = run_command(NULL, output, sizeof(output), argv);

		ck_assert_msg(status == cases[i].status && strstr(output, cases[i].words),
			      "%s: exit status %d, without '%s': %s", cases[i].option, status, cases[i].words, output);
	}
}
