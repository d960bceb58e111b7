/* SPDX-License-Identifier: GPL-2.0-or-later */

/* userevd-keeper, asked sense and nonsense by somebody who is not the daemon. What it does for the daemon is in test_kernel.c. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/integration/fixture.h"
#include "tests/integration/keeper.h"
#include "tests/integration/machine.h"

/* Loading a guard each time takes its time, and has nothing to do with what is asked. */
static const char *const unguarded[] = { "--guard=off", NULL };

static const char event[] = "keeper_half u32 number; char[9] text_1";

/* One good packet, of everything that it takes to register an event; its size. */
static size_t build(uint8_t *bytes, size_t size)
{
	const struct kernel_call calls[] = { page_new(1), stream_new(1, 1), register_on(1, event) };
	struct packet packet = packet_make(bytes, size);

	ck_assert_uint_eq(message_put(&packet, MESSAGE_CALLS, calls, ARRAY_SIZE(calls)), ARRAY_SIZE(calls));
	return packet.size;
}

enum { SAMPLE_MAX = 256, LAST_CALL = sizeof(struct message_header) + 2 * sizeof(struct message_call) + 8 };

static void set_size(uint8_t *packet, size_t size)
{
	const uint32_t number = (uint32_t)size;

	memcpy(packet + offsetof(struct message_header, size), &number, sizeof(number));
}

/* A keeper is told this, and must end with a sentence, an exit status, and nothing done. */
static void expect_refusal(const void *packet, size_t size, int fd)
{
	struct keeper keeper;

	ck_assert(keeper_start(&keeper, unguarded));
	keeper_send(&keeper, packet, size, fd);
	keeper_expect_the_end(&keeper);
	ck_assert_msg(strstr(keeper.sentence, "invalid packet"), "%s", keeper.sentence);
	ck_assert(!kernel_has("keeper_half"));
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_FAILURE);
}

/* Whether there is anything to test. */
static bool need_user_events(void)
{
	struct keeper keeper;

	if (!need_keeper(&keeper, unguarded))
		return false;
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
	return true;
}

TEST(the_sample_is_a_good_one)
{
	struct kernel_call calls[] = { page_new(1), stream_new(1, 1), register_on(1, event) };
	struct keeper keeper;

	if (!need_keeper(&keeper, unguarded))
		return;
	ck_assert(keeper_ask(&keeper, calls, ARRAY_SIZE(calls)));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		ck_assert_int_eq(calls[i].result, KERNEL_OK);
	ck_assert(kernel_has("keeper_half"));
	close(calls[0].fd);
	close(calls[1].fd);
	/* It hangs up as it likes. */
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}
END_TEST

/* At every other length, too: test_keeper_serve.c. */
TEST(a_message_cut_short_is_refused_in_words)
{
	static const size_t lengths[] = {
		1,
		sizeof(struct message_header) - 1,
		sizeof(struct message_header),
		sizeof(struct message_header) + sizeof(struct message_call) - 1,
		LAST_CALL,
		LAST_CALL + sizeof(struct message_call),
		LAST_CALL + sizeof(struct message_call) + sizeof(event) / 2,
	};
	uint8_t packet[SAMPLE_MAX];
	size_t size = build(packet, sizeof(packet));

	if (!need_user_events())
		return;
	expect_refusal(packet, size - 1, -1);
	/* Where nothing but its size is wrong. */
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		set_size(packet, lengths[i]);
		expect_refusal(packet, lengths[i], -1);
	}
	set_size(packet, size - 1);
	expect_refusal(packet, size - 1, -1);
}
END_TEST

TEST(message_header_has_to_be_right)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {
		{ offsetof(struct message_header, size), 0 },
		{ offsetof(struct message_header, size) + 2, 1 },
		{ offsetof(struct message_header, kind), 0 },
		{ offsetof(struct message_header, kind), MESSAGE_READY },
		{ offsetof(struct message_header, kind), MESSAGE_ANSWERS },
		{ offsetof(struct message_header, kind), 5 },
		{ offsetof(struct message_header, kind) + 1, 0xff },
		{ offsetof(struct message_header, count), 0 },
		{ offsetof(struct message_header, count), 2 },
		{ offsetof(struct message_header, count), 4 },
		{ offsetof(struct message_header, count), MESSAGE_CALLS_MAX + 1 },
		{ offsetof(struct message_header, count) + 1, 1 },
		{ LAST_CALL + offsetof(struct message_call, op), KERNEL_OP_MAX_ },
		{ LAST_CALL + offsetof(struct message_call, op) + 1, 0x80 },
		{ LAST_CALL + offsetof(struct message_call, text_length), 0 },
		{ LAST_CALL + offsetof(struct message_call, text_length), sizeof(event) + 4 },
		{ LAST_CALL + offsetof(struct message_call, text_length) + 1, 16 },
		{ LAST_CALL + offsetof(struct message_call, text_length) + 3, 0x80 },
		{ LAST_CALL + sizeof(struct message_call) + 3, '\0' },
		{ LAST_CALL + sizeof(struct message_call) + sizeof(event) - 1, 'x' }, /* padding */
	};

	if (!need_user_events())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(packet, sizeof(packet));

		packet[changes[i].at] = changes[i].value;
		expect_refusal(packet, size, -1);
	}
}
END_TEST

/* As many calls of one kind. */
static size_t put_many(uint8_t *bytes, size_t size, enum kernel_op op, uint16_t n)
{
	struct packet packet = packet_make(bytes, size);
	struct message_header header = { .kind = MESSAGE_CALLS, .count = n };
	const struct message_call call = { .op = (uint16_t)op, .page = 1, .stream = 1 };

	packet_put(&packet, &header, sizeof(header));
	for (uint16_t i = 0; i < n; i++)
		packet_put(&packet, &call, sizeof(call));
	ck_assert(!packet.failed);
	set_size(bytes, packet.size);
	return packet.size;
}

TEST(too_many_fds_refuse_whole_packet)
{
	static uint8_t packet[MESSAGE_MAX + 4];
	size_t size = build(packet, sizeof(packet));

	if (!need_user_events())
		return;
	expect_refusal(packet, size, STDIN_FILENO);
	set_size(packet, size + 4);
	expect_refusal(packet, size + 4, -1);
	set_size(packet, MESSAGE_MAX + 4);
	expect_refusal(packet, MESSAGE_MAX + 4, -1);
	expect_refusal(packet, put_many(packet, sizeof(packet), KERNEL_STREAM_NEW, MESSAGE_FDS_MAX + 1), -1);
	expect_refusal(packet, put_many(packet, sizeof(packet), KERNEL_CLEAN, MESSAGE_CALLS_MAX + 1), -1);
	expect_refusal(packet, put_many(packet, sizeof(packet), KERNEL_CLEAN, 0), -1);
}
END_TEST

TEST(as_many_calls_as_fit_are_answered)
{
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	struct keeper keeper;

	if (!need_keeper(&keeper, unguarded))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = (struct kernel_call){ .op = KERNEL_CLEAN, .stream = (uint32_t)i };
	ck_assert(keeper_ask(&keeper, calls, ARRAY_SIZE(calls)));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		ck_assert_int_eq(calls[i].result, KERNEL_E_NO_SUCH);
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}
END_TEST

TEST(failed_calls_do_not_stop_others)
{
	static const char *const not_canonical[] = {
		"",	 " keeper_half",   "keeper_half u32  a", "keeper_half u32 a;", "keeper_half:flag",
		"a u32", "keeper_half\nu", "keeper_half long a", "k\xc3\xa4",
	};
	struct kernel_call stream, released = { .op = KERNEL_RELEASE, .stream = 1 };
	struct keeper keeper;
	int page;

	if (!need_keeper(&keeper, unguarded))
		return;
	ck_assert_int_eq(keeper_do(&keeper, stream_new(1, 1)), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = 1 }),
			 KERNEL_E_NO_SUCH);
	ck_assert_int_eq(keeper_do(&keeper, register_on(1, event)), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = 1 }),
			 KERNEL_E_NO_SUCH);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = 1 }),
			 KERNEL_E_NO_SUCH);
	ck_assert_int_eq(keeper_do(&keeper, released), KERNEL_E_NO_SUCH);

	page = keeper_do(&keeper, page_new(1));
	ck_assert_int_eq(page, KERNEL_OK);
	ck_assert_int_eq(keeper_do(&keeper, page_new(1)), -EEXIST);
	stream = stream_new(1, 1);
	ck_assert(keeper_ask(&keeper, &stream, 1));
	ck_assert_int_eq(stream.result, KERNEL_OK);
	ck_assert_int_eq(keeper_do(&keeper, stream_new(1, 1)), -EEXIST);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = 1 }), -EBUSY);
	for (size_t i = 0; i < ARRAY_SIZE(not_canonical); i++)
		ck_assert_int_eq(keeper_do(&keeper, register_on(1, not_canonical[i])), KERNEL_E_BAD_DESCRIPTION);
	for (unsigned bit = 0; bit < 16; bit++) {
		struct kernel_call call = register_on(1, event);

		call.flags = (uint16_t)(1u << bit);
		if (!(call.flags & keeper.facts.flags))
			ck_assert_int_eq(keeper_do(&keeper, call), KERNEL_E_UNSUPPORTED);
	}
	ck_assert(!kernel_has("keeper_half"));
	ck_assert_int_eq(keeper_do(&keeper, released), KERNEL_E_NO_SUCH);

	ck_assert_int_eq(keeper_do(&keeper, register_on(1, event)), KERNEL_OK);
	ck_assert_int_eq(keeper_do(&keeper, released), KERNEL_E_LINGERS);
	released.index = 1;
	ck_assert_int_eq(keeper_do(&keeper, released), KERNEL_E_NO_SUCH);
	/* Nothing more, once it has been asked after: our copy is the last. */
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = 1 }), KERNEL_OK);
	ck_assert_int_lt(keeper_do(&keeper, register_on(1, event)), 0);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_CLEAN, .stream = 1 }), KERNEL_E_NO_SUCH);
	close(stream.fd);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = 1 }),
			 KERNEL_E_GONE);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = 1 }), KERNEL_OK);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = 1 }), KERNEL_OK);
	ck_assert(eventually(!kernel_has("keeper_half")));
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}
END_TEST

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
	struct kernel_call calls[] = { page_new(1), stream_new(1, 1), register_on(1, event) };
	struct keeper keeper;
	pid_t enabler;

	if (!need_keeper(&keeper, options))
		return;
	ck_assert(keeper_ask(&keeper, calls, ARRAY_SIZE(calls)));
	expect_capabilities(keeper.pid, capabilities);
	if (children_of(keeper.pid, NULL, &enabler, 1) > 0)
		expect_capabilities(enabler, capabilities);
	close(calls[0].fd);
	close(calls[1].fd);
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}

TEST(keeper_may_send_always_and_persist_if_allowed)
{
	enum { SYS_RESOURCE = 24, PERFMON = 38 };
	const uint64_t to_send = UINT64_C(1) << SYS_RESOURCE;

	expect_to_keep(NULL, to_send);
	expect_to_keep((const char *const[]){ "--allow-persist", NULL }, to_send | UINT64_C(1) << PERFMON);
}
END_TEST

/* Registers that many, a packet at a time. */
static void register_many(struct keeper *keeper, unsigned n)
{
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char names[MESSAGE_CALLS_MAX][32];

	for (unsigned from = 0; from < n; from += ARRAY_SIZE(calls)) {
		bool seen[MESSAGE_CALLS_MAX] = { 0 };
		unsigned count = MIN(n - from, (unsigned)ARRAY_SIZE(calls));

		for (unsigned i = 0; i < count; i++) {
			snprintf(names[i], sizeof(names[i]), "keeper_%u u32 a", from + i);
			calls[i] = register_on(1, names[i]);
		}
		ck_assert(keeper_ask(keeper, calls, count));
		for (unsigned i = 0; i < count; i++) {
			ck_assert_int_eq(calls[i].result, KERNEL_OK);
			/* Two processes share a packet, and may be at it at the same time. */
			ck_assert_uint_ge(calls[i].index, from);
			ck_assert_uint_lt(calls[i].index, from + count);
			ck_assert(!seen[calls[i].index - from]);
			seen[calls[i].index - from] = true;
		}
	}
}

TEST(enabler_processes_have_limited_size)
{
	enum { ALL = 1100 };
	struct kernel_call calls[] = { page_new(1), stream_new(1, 1) };
	size_t processes, spare;
	struct keeper keeper;

	if (!need_keeper(&keeper, unguarded))
		return;
	spare = keeper.facts.backend == BACKEND_ENABLE_ADDRESS ? 3 : 0;
	ck_assert_uint_eq(children_of(keeper.pid, NULL, NULL, 0), spare);
	ck_assert(keeper_ask(&keeper, calls, ARRAY_SIZE(calls)));
	register_many(&keeper, ALL);
	processes = children_of(keeper.pid, NULL, NULL, 0);
	if (keeper.facts.backend == BACKEND_ENABLE_ADDRESS)
		ck_assert(processes >= 2 && processes <= 6);
	else
		ck_assert_uint_eq(processes, 0);
	close(calls[0].fd);
	close(calls[1].fd);
	ck_assert_int_eq(keeper_do(&keeper, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = 1 }), KERNEL_OK);
	ck_assert(eventually(children_of(keeper.pid, NULL, NULL, 0) == spare));
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}
END_TEST

/* --- what is under way --- */

enum { PACKETS = 5, EACH = 60 };

/* Packets of registrations, one behind the other. */
struct packets {
	struct kernel_call calls[PACKETS][EACH];
	char names[PACKETS][EACH][32];
};

static struct packets *say_packets(struct keeper *keeper)
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

/* All of it is there, as if nothing had happened. */
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

/* A keeper with a page and two streams, and its enablers' processes. */
struct busy {
	struct keeper keeper;
	int fd[3];
	pid_t enabler[16];
	size_t n;
};

static bool need_busy(struct busy *busy)
{
	struct kernel_call calls[] = { page_new(1), stream_new(1, 1), stream_new(2, 1) };

	if (!need_keeper(&busy->keeper, unguarded))
		return false;
	ck_assert(keeper_ask(&busy->keeper, calls, ARRAY_SIZE(calls)));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		busy->fd[i] = calls[i].fd;
	busy->n = children_of(busy->keeper.pid, NULL, busy->enabler, ARRAY_SIZE(busy->enabler));
	ck_assert_uint_le(busy->n, ARRAY_SIZE(busy->enabler));
	return true;
}

static void signal_enablers(const struct busy *busy, int signal)
{
	for (size_t i = 0; i < busy->n; i++)
		ck_assert_int_eq(kill(busy->enabler[i], signal), 0);
}

static void stop_busy(struct busy *busy)
{
	for (size_t i = 0; i < ARRAY_SIZE(busy->fd); i++)
		close(busy->fd[i]);
	ck_assert_int_eq(keeper_stop(&busy->keeper), EXIT_SUCCESS);
}

TEST(many_packets_are_answered_in_order)
{
	struct kernel_call other = page_new(2);
	struct packets *packets;
	struct busy busy;

	if (!need_busy(&busy))
		return;
	packets = say_packets(&busy.keeper);
	keeper_say(&busy.keeper, &other, 1);
	expect_packets(&busy.keeper, packets);
	/* Was done long before the rest. */
	ck_assert(keeper_hear(&busy.keeper, &other, 1));
	ck_assert_int_eq(other.result, KERNEL_OK);
	close(other.fd);
	stop_busy(&busy);
}
END_TEST

TEST(requests_of_dead_enablers_are_sent_again)
{
	struct packets *packets;
	struct busy busy;

	if (!need_busy(&busy))
		return;
	/* So that a process has the page, and none can answer before it dies. */
	ck_assert_int_eq(keeper_do(&busy.keeper, register_on(2, "keeper_first u32 a")), KERNEL_OK);
	signal_enablers(&busy, SIGSTOP);
	packets = say_packets(&busy.keeper);
	signal_enablers(&busy, SIGKILL);
	expect_packets(&busy.keeper, packets);
	ck_assert(kernel_has("keeper_0"));
	ck_assert(kernel_has("keeper_299"));
	ck_assert_int_eq(keeper_do(&busy.keeper, (struct kernel_call){ .op = KERNEL_CLEAN, .stream = 1 }), KERNEL_OK);
	stop_busy(&busy);
}
END_TEST

TEST(half_done_requests_are_finished)
{
	struct packets *packets;
	struct busy busy;

	if (!need_busy(&busy))
		return;
	packets = say_packets(&busy.keeper);
	ck_assert(eventually(kernel_has("keeper_5")));
	signal_enablers(&busy, SIGKILL);
	expect_packets(&busy.keeper, packets);
	ck_assert(kernel_has("keeper_0"));
	ck_assert(kernel_has("keeper_299"));
	ck_assert_int_eq(keeper_do(&busy.keeper, (struct kernel_call){ .op = KERNEL_CLEAN, .stream = 1 }), KERNEL_OK);
	stop_busy(&busy);
}
END_TEST

static void kill_enablers(const struct busy *busy)
{
	signal_enablers(busy, SIGKILL);
	for (size_t i = 0; i < busy->n; i++)
		ck_assert(eventually(!is_running(busy->enabler[i])));
}

TEST(dead_spare_enablers_do_no_harm)
{
	struct shortage shortage;
	struct busy busy;

	if (!is_guest()) {
		printf("not possible here: a machine that has no file left, for it is not ours alone\n");
		return;
	}
	if (!need_busy(&busy))
		return;
	shortage_begin(&shortage);
	kill_enablers(&busy);
	ck_assert_int_eq(keeper_do(&busy.keeper, register_on(1, event)), -ENFILE);
	shortage_end(&shortage);
	ck_assert_int_eq(keeper_do(&busy.keeper, register_on(1, event)), KERNEL_OK);
	ck_assert(eventually(children_of(busy.keeper.pid, NULL, NULL, 0) >= busy.n));
	stop_busy(&busy);
}
END_TEST

TEST(page_goes_to_next_spare_enabler)
{
	struct kernel_call call = register_on(1, event);
	struct busy busy;

	if (!need_busy(&busy))
		return;
	signal_enablers(&busy, SIGSTOP);
	keeper_say(&busy.keeper, &call, 1);
	/* Time for the keeper to ask, and to wait for the answer. */
	usleep(300000);
	signal_enablers(&busy, SIGKILL);
	ck_assert(keeper_hear(&busy.keeper, &call, 1));
	ck_assert_int_eq(call.result, KERNEL_OK);
	stop_busy(&busy);
}
END_TEST

/* And whoever asks for it with other fields is refused as ever. */
TEST(event_under_way_is_shared)
{
	struct kernel_call first = register_on(1, event), second = register_on(2, event), twice[2] = { first, first };
	struct kernel_call taken = register_on(2, "keeper_half u64 number");
	struct busy busy;

	if (!need_busy(&busy))
		return;
	/* So that an index that is not known yet is not taken for one. */
	ck_assert_int_eq(keeper_do(&busy.keeper, register_on(1, "keeper_first u32 a")), KERNEL_OK);
	signal_enablers(&busy, SIGSTOP);
	keeper_say(&busy.keeper, &first, 1);
	keeper_say(&busy.keeper, &second, 1);
	keeper_say(&busy.keeper, twice, 2);
	keeper_say(&busy.keeper, &taken, 1);
	/* Time to be wrong for a keeper that does not wait. */
	usleep(300000);
	signal_enablers(&busy, SIGCONT);
	ck_assert(keeper_hear(&busy.keeper, &first, 1));
	ck_assert(keeper_hear(&busy.keeper, &second, 1));
	ck_assert(keeper_hear(&busy.keeper, twice, 2));
	ck_assert(keeper_hear(&busy.keeper, &taken, 1));
	ck_assert_int_eq(first.result, KERNEL_OK);
	ck_assert_int_eq(second.result, KERNEL_OK);
	ck_assert_uint_eq(first.index, 1);
	ck_assert_uint_eq(second.bit, first.bit);
	ck_assert_uint_eq(twice[1].bit, first.bit);
	ck_assert_uint_eq(twice[1].index, first.index);
	ck_assert_int_eq(taken.result, KERNEL_E_NAME_TAKEN);
	stop_busy(&busy);
}
END_TEST

TEST(stream_is_freed_after_its_registrations)
{
	struct kernel_call free_stream = { .op = KERNEL_STREAM_FREE, .stream = 1 };
	struct packets *packets;
	struct busy busy;

	if (!need_busy(&busy))
		return;
	packets = say_packets(&busy.keeper);
	keeper_say(&busy.keeper, &free_stream, 1);
	for (unsigned i = 0; i < PACKETS; i++) {
		ck_assert(keeper_hear(&busy.keeper, packets->calls[i], EACH));
		for (unsigned j = 0; j < EACH; j++)
			ck_assert_int_eq(packets->calls[i][j].result, KERNEL_OK);
	}
	ck_assert(keeper_hear(&busy.keeper, &free_stream, 1));
	ck_assert_int_eq(free_stream.result, KERNEL_OK);
	free(packets);
	for (size_t i = 0; i < ARRAY_SIZE(busy.fd); i++)
		close(busy.fd[i]);
	ck_assert(eventually(!kernel_has("keeper_0") && !kernel_has("keeper_299")));
	ck_assert_int_eq(keeper_stop(&busy.keeper), EXIT_SUCCESS);
}
END_TEST

TEST(gone_daemon_leaves_nothing)
{
	struct busy busy;

	if (!need_busy(&busy))
		return;
	free(say_packets(&busy.keeper));
	stop_busy(&busy);
}
END_TEST

/* What was asked before it made no sense is answered. */
TEST(invalid_packet_behind_calls_ends_keeper)
{
	struct packets *packets;
	struct busy busy;

	if (!need_busy(&busy))
		return;
	/* Before it ends: what somebody holds can't be deleted. */
	for (size_t i = 0; i < ARRAY_SIZE(busy.fd); i++)
		close(busy.fd[i]);
	packets = say_packets(&busy.keeper);
	keeper_send(&busy.keeper, "nonsense", 8, -1);
	expect_packets(&busy.keeper, packets);
	keeper_expect_the_end(&busy.keeper);
	ck_assert_int_eq(keeper_stop(&busy.keeper), EXIT_FAILURE);
}
END_TEST

TEST(it_takes_options_and_is_of_no_use_without_a_socket)
{
	char output[4096];

	ck_assert_int_eq(
		run_command(NULL, output, sizeof(output), (const char *const[]){ built("userevd-keeper"), NULL }), 2);
	ck_assert_msg(strstr(output, "is started by userevd"), "%s", output);
	ck_assert_int_eq(run_command(NULL, output, sizeof(output),
				     (const char *const[]){ built("userevd-keeper"), "--guard=maybe", NULL }),
			 2);
	ck_assert_msg(strstr(output, "require, prefer or off"), "%s", output);
	ck_assert_int_eq(run_command(NULL, output, sizeof(output),
				     (const char *const[]){ built("userevd-keeper"), "--help", NULL }),
			 0);
	ck_assert_msg(strstr(output, "Not to be run by hand"), "%s", output);
}
END_TEST

SUITE("keeper", the_sample_is_a_good_one, a_message_cut_short_is_refused_in_words, message_header_has_to_be_right,
      too_many_fds_refuse_whole_packet, as_many_calls_as_fit_are_answered, failed_calls_do_not_stop_others,
      keeper_may_send_always_and_persist_if_allowed, enabler_processes_have_limited_size,
      many_packets_are_answered_in_order, requests_of_dead_enablers_are_sent_again, half_done_requests_are_finished,
      dead_spare_enablers_do_no_harm, page_goes_to_next_spare_enabler, event_under_way_is_shared,
      stream_is_freed_after_its_registrations, gone_daemon_leaves_nothing, invalid_packet_behind_calls_ends_keeper,
      it_takes_options_and_is_of_no_use_without_a_socket)
