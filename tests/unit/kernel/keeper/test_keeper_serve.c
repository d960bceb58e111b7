/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The keeper's side of its connection to one daemon. */

#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "protocol/transport.h"
#include "tests/raw_call.h"
#include "tests/unit/kernel/keeper/scene.h"

/* Of all programs of this user together. */
static _Atomic bool too_many_in_flight;
static _Atomic unsigned refused_sends;
/* So many of the keeper's answers find no memory. The test has the other end. */
static _Atomic unsigned without_memory;
static int daemons_end;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (without_memory > 0 && fd != daemons_end) {
		errno = without_memory-- % 2 ? ENOMEM : ENOBUFS;
		return -1;
	}
	/* The keeper tries again between the daemon's making of this packet and its sending. */
	if (too_many_in_flight && fd == daemons_end) {
		unsigned before = refused_sends;

		wait_until(refused_sends > before);
	}
	if (too_many_in_flight && message->msg_controllen > 0) {
		refused_sends++;
		errno = ETOOMANYREFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

TEST(keeper_sends_its_facts_first)
{
	READY_SCENE(scene);
	struct kernel_facts facts;

	ck_assert(message_get_facts(&last_message, &facts));
	ck_assert_mem_eq(&facts, &scene->fake.kernel.facts, sizeof(facts));
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, 0);
}

static void expect_noted(const struct note *note, const struct kernel_call *call)
{
	ck_assert_int_eq(note->call.op, call->op);
	ck_assert_uint_eq(note->call.page, call->page);
	ck_assert_uint_eq(note->call.stream, call->stream);
	ck_assert_uint_eq(note->call.flags, call->flags);
	ck_assert_uint_eq(note->call.index, call->index);
	ck_assert_int_eq(note->call.fd, -1);
	ck_assert_int_eq(note->call.result, 0);
	ck_assert_str_eq(note->text, call->text ? call->text : "");
}

TEST(calls_are_carried_out_and_answered)
{
	READY_SCENE(scene);
	struct kernel_call calls[ARRAY_SIZE(examples)];

	memcpy(calls, examples, sizeof(calls));
	scene->fake.result = KERNEL_E_LINGERS;
	send_calls(scene, examples, ARRAY_SIZE(examples));
	expect_answered(scene, calls, ARRAY_SIZE(examples), 2);
	close_fds(calls, ARRAY_SIZE(calls));
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.batches, 1);
	ck_assert_uint_eq(scene->fake.noted, ARRAY_SIZE(examples));
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		expect_noted(&scene->fake.note[i], &examples[i]);
		ck_assert_int_eq(calls[i].result, i < 2 ? KERNEL_OK : KERNEL_E_LINGERS);
		ck_assert_uint_eq(calls[i].bit, examples[i].index + 1);
		ck_assert_uint_eq(calls[i].index, examples[i].index + 2);
	}
}

TEST(largest_packets_are_taken)
{
	READY_SCENE(scene);
	static char description[WIRE_DESCRIPTION_MAX + 1], path[WIRE_TENANT_MAX + 1];
	struct kernel_call calls[MESSAGE_CALLS_MAX];

	memset(description, 'd', sizeof(description) - 1);
	memset(path, 'p', sizeof(path) - 1);
	for (size_t i = 0; i < MESSAGE_CALLS_MAX; i++)
		calls[i] = (struct kernel_call){ .op = KERNEL_REGISTER, .text = description };
	send_calls(scene, calls, MESSAGE_CALLS_MAX);
	expect_answered(scene, calls, MESSAGE_CALLS_MAX, 0);
	for (size_t i = 0; i < MESSAGE_FDS_MAX; i++)
		calls[i] = (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = 1, .text = path };
	send_calls(scene, calls, MESSAGE_FDS_MAX);
	expect_answered(scene, calls, MESSAGE_FDS_MAX, MESSAGE_FDS_MAX);
	close_fds(calls, MESSAGE_FDS_MAX);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, MESSAGE_CALLS_MAX + MESSAGE_FDS_MAX);
	for (size_t i = 0; i < scene->fake.noted; i++)
		ck_assert_str_eq(scene->fake.note[i].text, i < MESSAGE_CALLS_MAX ? description : path);
}

/* The daemon would take the next answer for this one. */
TEST(answer_without_memory_ends_connection)
{
	READY_SCENE(scene);
	const struct kernel_call call = { .op = KERNEL_CLEAN };
	char byte;

	daemons_end = scene->daemon;
	without_memory = UINT_MAX;
	send_calls(scene, &call, 1);
	ck_assert_int_eq(recv(scene->daemon, &byte, 1, 0), 0);
	ck_assert_int_eq(scene_join(scene), 0);
	without_memory = 0;
}

/* --- answers that wait --- */

TEST(answers_are_sent_later_after_too_many_references)
{
	READY_SCENE(scene);
	struct kernel_call calls[2] = { examples[0], examples[1] }, later = { .op = KERNEL_CLEAN };
	int fds = count_open_fds();

	too_many_in_flight = true;
	send_calls(scene, calls, 2);
	wait_until(refused_sends > 1);
	daemons_end = scene->daemon;
	send_calls(scene, &later, 1);
	too_many_in_flight = false;
	expect_answered(scene, calls, 2, 2);
	close_fds(calls, 2);
	expect_answered(scene, &later, 1, 0);
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_int_eq(count_open_fds(), fds - 1);
}

TEST(daemon_may_hang_up_with_answers_waiting)
{
	READY_SCENE(scene);
	int fds = count_open_fds();

	too_many_in_flight = true;
	for (uint32_t i = 0; i < GIVEN_MAX / 2; i++)
		send_calls(scene, examples, 2);
	wait_until(refused_sends > 0);
	ck_assert_int_eq(hang_up(scene), 0);
	too_many_in_flight = false;
	ck_assert_uint_eq(scene->fake.noted, GIVEN_MAX);
	ck_assert_int_eq(count_open_fds(), fds - 1);
}

/* --- the end --- */

TEST(daemon_that_had_gone_is_no_sigpipe)
{
	SCENE(scene);

	scene->daemon = fd_close(scene->daemon);
	scene_start(scene);
	ck_assert_int_eq(scene_join(scene), 0);
}

TEST(calls_of_gone_daemon_are_carried_out)
{
	SCENE(scene);
	struct kernel_call calls[2] = { examples[0], examples[1] };

	send_calls(scene, calls, 2);
	ck_assert_int_eq(shutdown(scene->daemon, SHUT_WR), 0);
	scene_start(scene);
	ck_assert_int_eq(scene_join(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, 2);
	receive(scene, MESSAGE_READY);
	expect_answered(scene, calls, 2, 2);
	close_fds(calls, 2);
}

TEST(kernel_is_dispatched_between_calls)
{
	READY_SCENE(scene);
	struct kernel_call call = { .op = KERNEL_CLEAN };

	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
		send_calls(scene, &call, 1);
		expect_answered(scene, &call, 1, 0);
	}
	ck_assert_int_eq(hang_up(scene), 0);
	ck_assert_uint_eq(scene->fake.dispatches, 3);
}

TEST(failure_of_kernel_ends_keeper)
{
	SCENE(scene);

	scene->fake.dispatch = -EIO;
	ck_assert_int_eq(eventfd_write(scene->fake.kernel.fd, 1), 0);
	scene_start(scene);
	ck_assert_int_eq(scene_join(scene), -EIO);
	receive(scene, MESSAGE_READY);
}

/* --- invalid packets --- */

/* Two good calls, which must not be carried out. */
struct invalid {
	const char *name;
	uint16_t count; /* in the header */
	size_t bytes;	/* behind the calls */
	enum message_kind kind;
};

static const struct invalid invalid_packets[] = {
	{ "no call", 0, 0, MESSAGE_CALLS },	   { "a call too many", 1, 0, MESSAGE_CALLS },
	{ "a call too few", 3, 0, MESSAGE_CALLS }, { "a long packet", 2, MESSAGE_MAX, MESSAGE_CALLS },
	{ "answers", 2, 0, MESSAGE_ANSWERS },
};

static uint8_t buffer[2 * MESSAGE_MAX];

static void send_raw(const struct scene *scene, size_t size, enum message_kind kind, size_t count)
{
	const struct message_header header = { (uint32_t)size, (uint16_t)kind, (uint16_t)count };

	memcpy(buffer, &header, MIN(size, sizeof(header)));
	ck_assert_int_eq(transport_send(scene->daemon, buffer, size, NULL, 0, 0), 0);
}

/* The connection ends with a sentence; no call was carried out. */
static void expect_refusal(struct scene *scene)
{
	struct kernel_facts facts;

	ck_assert_int_eq(scene_join(scene), -EPROTO);
	receive(scene, MESSAGE_FAILED);
	ck_assert_uint_eq(last_message.fds.count, 0);
	ck_assert(message_get_facts(&last_message, &facts));
	ck_assert_uint_gt(strlen(facts.note), 20);
	expect_ended(scene, scene->daemon);
	ck_assert_uint_eq(scene->fake.noted, 0);
}

TEST(invalid_packet_is_refused_as_a_whole)
{
	const struct raw_call good = { .op = KERNEL_STREAM_NEW, .page = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(invalid_packets); i++) {
		const struct invalid *invalid = &invalid_packets[i];
		struct packet packet = packet_make(buffer, sizeof(buffer));
		struct kernel_call call = { .op = KERNEL_CLEAN };
		READY_SCENE(scene);

		packet_room(&packet, sizeof(struct message_header));
		packet_put(&packet, &good, sizeof(good));
		packet_put(&packet, &good, sizeof(good));
		packet_room(&packet, invalid->bytes);
		send_raw(scene, packet.size, invalid->kind, invalid->count);
		/* Perhaps the keeper has ended already. */
		message_send(scene->daemon, last_message.packet, MESSAGE_CALLS, &call, 1);
		expect_refusal(scene);
	}
}

TEST(too_many_calls_are_refused)
{
	static const struct {
		uint16_t op;
		size_t n;
	} rows[] = { { KERNEL_CLEAN, MESSAGE_CALLS_MAX + 1 }, { KERNEL_PAGE_NEW, MESSAGE_FDS_MAX + 1 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct raw_call raw = { .op = rows[i].op, .page = 1 };
		struct packet packet = packet_make(buffer, sizeof(buffer));
		READY_SCENE(scene);

		packet_room(&packet, sizeof(struct message_header));
		for (size_t j = 0; j < rows[i].n; j++)
			packet_put(&packet, &raw, sizeof(raw));
		send_raw(scene, packet.size, MESSAGE_CALLS, rows[i].n);
		expect_refusal(scene);
	}
}

/* --- with the real daemon's side --- */

static void on_done(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	++*(unsigned *)data;
}

TEST(both_sides_understand_each_other)
{
	SCENE(scene);
	struct kernel_call calls[220];
	char why[WIRE_SENTENCE_MAX + 1];
	struct kernel *kernel;
	unsigned done = 0;

	scene_start(scene);
	ck_assert_int_eq(remote_new(scene->daemon, &kernel, why), 0);
	scene->daemon = -1;
	ck_assert_str_eq(kernel->facts.note, "one page for all");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = (struct kernel_call){
			.op = i % 10 ? KERNEL_REGISTER : KERNEL_STREAM_NEW,
			.page = 1,
			.text = i % 10 ? "event u32 x" : NULL,
			.index = (uint32_t)i,
		};
	kernel_submit(kernel, calls, ARRAY_SIZE(calls), on_done, &done);
	kernel_tell(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .page = 1 });
	kernel_submit(kernel, calls, 0, on_done, &done);
	while (done < 2 || scene->fake.noted < ARRAY_SIZE(calls) + 1) {
		struct pollfd ask = { .fd = kernel->fd, .events = POLLIN };

		ck_assert_int_eq(poll(&ask, 1, 30000), 1);
		ck_assert_int_eq(kernel_dispatch(kernel), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		ck_assert_int_eq(calls[i].result, KERNEL_OK);
		ck_assert_uint_eq(calls[i].index, i + 2);
		ck_assert_int_eq(calls[i].fd >= 0, i % 10 == 0);
	}
	close_fds(calls, ARRAY_SIZE(calls));
	kernel_free(kernel);
	ck_assert_int_eq(scene_join(scene), 0);
	ck_assert_uint_eq(scene->fake.noted, ARRAY_SIZE(calls) + 1);
}
