/* SPDX-License-Identifier: GPL-2.0-or-later */

/* userevd-keeper with a daemon that sends valid and invalid calls. Its work for the daemon is in test_kernel.c. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "kernel/keeper/native.h"
#include "tests/integration/fixture.h"
#include "tests/integration/keeper.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/raw_call.h"

/* Loading a guard takes time, and has nothing to do with these tests. */
static const char *const unguarded[] = { "--guard=off", NULL };

static const char event[] = "keeper_half u32 number; char[9] text_1";

static struct kernel_call call_of(enum kernel_op op, uint32_t number)
{
	return (struct kernel_call){ .op = op, .page = number, .stream = number, .fd = -1 };
}

static void expect_call(struct keeper *keeper, struct kernel_call call, int result)
{
	ck_assert_int_eq(keeper_do(keeper, call), result);
}

enum { SAMPLE_MAX = 256, LAST_CALL = sizeof(struct message_header) + 2 * sizeof(struct raw_call) + 8 };

/* Of every other kind: test_keeper_serve.c. */
TEST(invalid_packet_ends_keeper_and_does_nothing)
{
	static const struct {
		size_t at;
		uint8_t value;
		int fd;
	} changes[] = {
		{ offsetof(struct message_header, size), 0, -1 },
		{ offsetof(struct message_header, kind), MESSAGE_ANSWERS, -1 },
		{ offsetof(struct message_header, count), 4, -1 },
		{ LAST_CALL + offsetof(struct raw_call, op), KERNEL_OP_MAX_, -1 },
		{ LAST_CALL + offsetof(struct raw_call, text_length) + 3, 0x80, -1 },
		{ LAST_CALL + sizeof(struct raw_call) + 3, '\0', -1 },
		{ LAST_CALL + sizeof(struct raw_call) + sizeof(event) - 1, 'x', -1 }, /* padding */
		{ offsetof(struct message_header, count), 3, STDIN_FILENO },
	};
	const struct kernel_call calls[] = { page_new(1), stream_new(1, 1), register_on(1, event) };
	struct keeper keeper;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		uint8_t bytes[SAMPLE_MAX];
		struct packet packet = packet_make(bytes, sizeof(bytes));

		if (!need_keeper(&keeper, unguarded))
			return;
		ck_assert_uint_eq(message_put(&packet, MESSAGE_CALLS, calls, ARRAY_SIZE(calls)), ARRAY_SIZE(calls));
		bytes[changes[i].at] = changes[i].value;
		keeper_send(&keeper, bytes, packet.size, changes[i].fd);
		keeper_expect_the_end(&keeper);
		ck_assert_msg(strstr(keeper.sentence, "invalid packet"), "%s", keeper.sentence);
		ck_assert(!kernel_has("keeper_half"));
		ck_assert_int_eq(keeper_stop(&keeper), EXIT_FAILURE);
	}
}

TEST(failed_calls_do_not_stop_others)
{
	static const char *const not_canonical[] = {
		"",	 " keeper_half",   "keeper_half u32  a", "keeper_half u32 a;", "keeper_half:flag",
		"a u32", "keeper_half\nu", "keeper_half long a", "k\xc3\xa4",
	};
	static const enum kernel_op without_page[] = { KERNEL_STREAM_NEW, KERNEL_PAGE_FREE,   KERNEL_REGISTER,
						       KERNEL_CLEAN,	  KERNEL_STREAM_FREE, KERNEL_STILL_OPEN,
						       KERNEL_RELEASE };
	struct kernel_call stream = stream_new(1, 1), released = call_of(KERNEL_RELEASE, 1), call;
	struct keeper keeper;

	if (!need_keeper(&keeper, unguarded))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(without_page); i++)
		expect_call(&keeper, call_of(without_page[i], 1), KERNEL_E_NO_SUCH);

	expect_call(&keeper, page_new(1), KERNEL_OK);
	expect_call(&keeper, page_new(1), -EEXIST);
	ck_assert(keeper_ask(&keeper, &stream, 1));
	ck_assert_int_eq(stream.result, KERNEL_OK);
	expect_call(&keeper, stream_new(1, 1), -EEXIST);
	for (size_t i = 0; i < ARRAY_SIZE(not_canonical); i++)
		expect_call(&keeper, register_on(1, not_canonical[i]), KERNEL_E_BAD_DESCRIPTION);
	for (unsigned bit = 0; bit < 16; bit++) {
		call = register_on(1, event);
		call.flags = (uint16_t)(1u << bit);
		if (!(call.flags & (keeper.facts.flags | (keeper.facts.shared_page ? 0 : KERNEL_STATES))))
			expect_call(&keeper, call, KERNEL_E_UNSUPPORTED);
	}
	ck_assert(!kernel_has("keeper_half"));
	expect_call(&keeper, released, KERNEL_E_NO_SUCH);

	expect_call(&keeper, register_on(1, event), KERNEL_OK);
	ck_assert(kernel_has("keeper_half"));
	expect_call(&keeper, released, KERNEL_E_LINGERS);
	released.index = 1;
	expect_call(&keeper, released, KERNEL_E_NO_SUCH);
	/* From the first STILL_OPEN on the keeper has no fd of the stream: our copy is the last. */
	expect_call(&keeper, call_of(KERNEL_STILL_OPEN, 1), KERNEL_OK);
	ck_assert_int_lt(keeper_do(&keeper, register_on(1, event)), 0);
	expect_call(&keeper, call_of(KERNEL_CLEAN, 1), KERNEL_E_NO_SUCH);
	close(stream.fd);
	expect_call(&keeper, call_of(KERNEL_STILL_OPEN, 1), KERNEL_E_GONE);
	expect_call(&keeper, call_of(KERNEL_STREAM_FREE, 1), KERNEL_OK);
	expect_call(&keeper, call_of(KERNEL_PAGE_FREE, 1), KERNEL_OK);
	ck_assert(eventually(!kernel_has("keeper_half")));
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}

static void expect_capabilities(pid_t pid, uint64_t kept)
{
	ck_assert_uint_eq(proc_status(pid, "CapEff:", 16), kept);
	ck_assert_uint_eq(proc_status(pid, "CapPrm:", 16), kept);
	ck_assert_uint_eq(proc_status(pid, "CapBnd:", 16), kept);
	ck_assert_uint_eq(proc_status(pid, "CapInh:", 16), 0);
	ck_assert_uint_eq(proc_status(pid, "CapAmb:", 16), 0);
	ck_assert_uint_eq(proc_status(pid, "NoNewPrivs:", 10), 1);
}

static void expect_to_keep(const char *const *options, uint64_t capabilities)
{
	struct keeper keeper;
	pid_t enabler;

	if (!need_keeper(&keeper, options))
		return;
	expect_capabilities(keeper.pid, capabilities);
	/* Or the spawner. */
	if (children_of(keeper.pid, NULL, &enabler, 1) > 0)
		expect_capabilities(enabler, capabilities);
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}

TEST(keeper_may_send_always_and_persist_if_allowed)
{
	enum { SYS_RESOURCE = 24, PERFMON = 38 };
	const uint64_t to_send = UINT64_C(1) << SYS_RESOURCE;

	expect_to_keep(NULL, to_send);
	expect_to_keep((const char *const[]){ "--allow-persist", NULL }, to_send | UINT64_C(1) << PERFMON);
}

/* --- calls under way --- */

enum { PACKETS = 5, EACH = 60 };

/* Packets of registrations, sent one behind the other. */
struct packets {
	struct kernel_call calls[PACKETS][EACH];
	char names[PACKETS][EACH][32];
};

static struct packets *send_packets(struct keeper *keeper)
{
	struct packets *packets = calloc(1, sizeof(*packets));

	for (unsigned i = 0; i < PACKETS; i++) {
		for (unsigned j = 0; j < EACH; j++) {
			snprintf(packets->names[i][j], sizeof(packets->names[i][j]), "keeper_%u u32 a", i * EACH + j);
			packets->calls[i][j] = register_on(1, packets->names[i][j]);
		}
		keeper_say(keeper, packets->calls[i], EACH);
	}
	return packets;
}

/* All of them are granted, with the index that follows from their order. */
static void expect_packets(struct keeper *keeper, struct packets *packets)
{
	for (unsigned i = 0; i < PACKETS; i++) {
		ck_assert(keeper_hear(keeper, packets->calls[i], EACH));
		for (unsigned j = 0; j < EACH; j++) {
			ck_assert_int_eq(packets->calls[i][j].result, KERNEL_OK);
			ck_assert_uint_eq(packets->calls[i][j].index, i * EACH + j);
		}
	}
	free(packets);
}

static const char enabler_name[] = "userevd-enabler";

/* A keeper with a page and two streams, and its enabler processes. */
struct busy {
	struct keeper keeper;
	int fd[3];
	pid_t enabler[16];
	size_t n;
	int status; /* its exit status in the end */
};

static bool need_busy(struct busy *busy)
{
	struct kernel_call calls[] = { page_new(1), stream_new(1, 1), stream_new(2, 1) };

	busy->status = EXIT_SUCCESS;
	if (!need_keeper(&busy->keeper, unguarded))
		return false;
	ck_assert(keeper_ask(&busy->keeper, calls, ARRAY_SIZE(calls)));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		busy->fd[i] = calls[i].fd;
	busy->n = busy->keeper.facts.backend == BACKEND_ENABLE_ADDRESS;
	ck_assert(eventually(children_of(busy->keeper.pid, enabler_name, busy->enabler, ARRAY_SIZE(busy->enabler)) ==
			     busy->n));
	return true;
}

static void close_fds(struct busy *busy)
{
	for (size_t i = 0; i < ARRAY_SIZE(busy->fd); i++)
		busy->fd[i] = fd_close(busy->fd[i]);
}

static void run_busy(void (*test)(struct busy *))
{
	struct busy busy;

	if (!need_busy(&busy))
		return;
	test(&busy);
	close_fds(&busy);
	ck_assert_int_eq(keeper_stop(&busy.keeper), busy.status);
}

#define BUSY_TEST(name)                                                                                                \
	static void name##_with(struct busy *busy);                                                                    \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		run_busy(name##_with);                                                                                 \
	}                                                                                                              \
	static void name##_with(struct busy *busy)

static void signal_enablers(const struct busy *busy, int signal)
{
	for (size_t i = 0; i < busy->n; i++)
		ck_assert_int_eq(kill(busy->enabler[i], signal), 0);
}

BUSY_TEST(enabler_processes_have_limited_size)
{
	enum { ALL = 1100 };
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char names[MESSAGE_CALLS_MAX][32];

	for (unsigned from = 0; from < ALL; from += ARRAY_SIZE(calls)) {
		for (unsigned i = 0; i < ARRAY_SIZE(calls); i++) {
			snprintf(names[i], sizeof(names[i]), "keeper_%u u32 a", from + i);
			calls[i] = register_on(1, names[i]);
		}
		ck_assert(keeper_ask(&busy->keeper, calls, ARRAY_SIZE(calls)));
		for (unsigned i = 0; i < ARRAY_SIZE(calls); i++) {
			ck_assert_int_eq(calls[i].result, KERNEL_OK);
			ck_assert_uint_eq(calls[i].index, from + i);
		}
	}
	/* 512 each. */
	ck_assert(eventually(children_of(busy->keeper.pid, enabler_name, NULL, 0) == (busy->n > 0 ? 3 : 0)));
	close_fds(busy);
	expect_call(&busy->keeper, call_of(KERNEL_STREAM_FREE, 1), KERNEL_OK);
	ck_assert(eventually(children_of(busy->keeper.pid, enabler_name, NULL, 0) == busy->n));
}

BUSY_TEST(many_packets_are_answered_in_order)
{
	struct kernel_call other = page_new(2);
	struct packets *packets;

	packets = send_packets(&busy->keeper);
	keeper_say(&busy->keeper, &other, 1);
	expect_packets(&busy->keeper, packets);
	ck_assert(keeper_hear(&busy->keeper, &other, 1));
	ck_assert_int_eq(other.result, KERNEL_OK);
	close(other.fd);
}

/* The daemon restores the next keeper. */
static void expect_end(struct busy *busy, bool has_request)
{
	struct kernel_call call = register_on(1, event);

	if (busy->n == 0)
		return;
	if (has_request) {
		signal_enablers(busy, SIGSTOP);
		keeper_say(&busy->keeper, &call, 1);
	}
	signal_enablers(busy, SIGKILL);
	ck_assert(!keeper_hear(&busy->keeper, &call, 1));
	busy->status = EXIT_FAILURE;
}

BUSY_TEST(keeper_ends_if_its_idle_enabler_dies)
{
	expect_end(busy, false);
}

BUSY_TEST(keeper_ends_if_its_enabler_dies_at_work)
{
	expect_end(busy, true);
}

/* With other fields it is refused. */
BUSY_TEST(event_under_way_is_shared)
{
	struct kernel_call first = register_on(1, event), second = register_on(2, event), twice[2] = { first, first };
	struct kernel_call taken = register_on(2, "keeper_half u64 number");

	ck_assert_int_eq(keeper_do(&busy->keeper, register_on(1, "keeper_first u32 a")), KERNEL_OK);
	signal_enablers(busy, SIGSTOP);
	keeper_say(&busy->keeper, &first, 1);
	keeper_say(&busy->keeper, &second, 1);
	keeper_say(&busy->keeper, twice, 2);
	keeper_say(&busy->keeper, &taken, 1);
	/* A keeper that does not wait would give a wrong answer by now. */
	usleep(300000);
	signal_enablers(busy, SIGCONT);
	ck_assert(keeper_hear(&busy->keeper, &first, 1));
	ck_assert(keeper_hear(&busy->keeper, &second, 1));
	ck_assert(keeper_hear(&busy->keeper, twice, 2));
	ck_assert(keeper_hear(&busy->keeper, &taken, 1));
	ck_assert_int_eq(first.result, KERNEL_OK);
	ck_assert_int_eq(second.result, KERNEL_OK);
	ck_assert_uint_eq(first.index, 1);
	ck_assert_uint_eq(second.bit, first.bit);
	ck_assert_uint_eq(twice[1].bit, first.bit);
	ck_assert_uint_eq(twice[1].index, first.index);
	ck_assert_int_eq(taken.result, KERNEL_E_NAME_TAKEN);
}

BUSY_TEST(stream_is_freed_after_its_registrations)
{
	struct kernel_call free_stream = { .op = KERNEL_STREAM_FREE, .stream = 1 };
	struct packets *packets;

	packets = send_packets(&busy->keeper);
	keeper_say(&busy->keeper, &free_stream, 1);
	expect_packets(&busy->keeper, packets);
	ck_assert(keeper_hear(&busy->keeper, &free_stream, 1));
	ck_assert_int_eq(free_stream.result, KERNEL_OK);
	close_fds(busy);
	ck_assert(eventually(!kernel_has("keeper_0") && !kernel_has("keeper_299")));
}

BUSY_TEST(gone_daemon_leaves_nothing)
{
	free(send_packets(&busy->keeper));
}

BUSY_TEST(invalid_packet_behind_calls_ends_keeper)
{
	struct packets *packets;

	/* Before Linux 6.4 events of an open stream can't be deleted. */
	close_fds(busy);
	packets = send_packets(&busy->keeper);
	keeper_send(&busy->keeper, "nonsense", 8, -1);
	expect_packets(&busy->keeper, packets);
	keeper_expect_the_end(&busy->keeper);
	busy->status = EXIT_FAILURE;
}

TEST(keeper_checks_its_options)
{
	static const struct {
		const char *option;
		int status;
		const char *output;
	} rows[] = {
		{ NULL, 2, "is started by userevd" }, { "--guard=maybe", 2, "give require, prefer or off" },
		{ "--hold=long", 2, "number" },	      { "word", 2, "unexpected argument 'word'" },
		{ "--owner=me", 2, "number" },	      { "--help", 0, "Not to be run by hand" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *const command[] = { built("userevd-keeper"), rows[i].option, NULL };
		char output[4096];

		ck_assert_int_eq(run_command(NULL, output, sizeof(output), command), rows[i].status);
		ck_assert_msg(strstr(output, rows[i].output), "%s", output);
	}
}

/* As systemd does it: until the last descriptor has come. */
static _Noreturn void store_what_comes(int notified)
{
	char text[512];
	ssize_t n;

	while ((n = recv(notified, text, sizeof(text) - 1, MSG_CMSG_CLOEXEC)) > 0) {
		text[n] = '\0';
		if (strstr(text, "FDSTORE=1") && strstr(text, "FDNAME=outcome"))
			_exit(EXIT_SUCCESS);
	}
	_exit(EXIT_FAILURE);
}

/* Also where this machine has no user_events: what is missing is a part of the outcome. */
TEST(keeper_hands_over_what_it_prepared)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *const command[] = { built("userevd-keeper"), "--prepare", "--guard=off",
					"--pages=/dev/shm/userevd-prepared", NULL };
	int notified = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char output[4096];
	pid_t store;

	if (!need_root("a mount"))
		return;
	/* A name without a file, chosen by the kernel. */
	ck_assert_int_eq(bind(notified, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	ck_assert_int_eq(getsockname(notified, (struct sockaddr *)&address, &(socklen_t){ sizeof(address) }), 0);
	address.sun_path[0] = '@';
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	mkdir("/dev/shm/userevd-prepared", 0755);
	store = start_process();
	if (store == 0)
		store_what_comes(notified);
	ck_assert_msg(run_command(NULL, output, sizeof(output), command) == 0, "%s", output);
	ck_assert_str_eq(output, "");
	await_success(store);
	rmdir("/dev/shm/userevd-prepared");
	close(notified);
}

/* Of the unit that mounts it before the keeper starts. */
TEST(keeper_mounts_native_file)
{
	const char *const command[] = { built("userevd-keeper"), "--mount-native", "--native=insist", NULL };
	char output[4096];

	if (!is_guest()) {
		not_possible("a machine that may be changed");
		return;
	}
	ck_assert_int_eq(run_command(NULL, output, sizeof(output), command), 0);
	ck_assert_str_eq(output, "");
	ck_assert_int_eq(access(NATIVE_DIRECTORY "/user_events_data", F_OK), 0);
	ck_assert_int_eq(umount2(NATIVE_DIRECTORY "/user_events_data", MNT_DETACH), 0);
}
