/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Records that a client writes without the library, and their way to the tracer. */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/samples.h"

struct by_hand {
	uint32_t index;
	uint32_t number;
	uint32_t text; /* __rel_loc: length << 16 | offset from the end of this field */
	char bytes[4];
};

static ssize_t write_record(int stream, const void *record, size_t size)
{
	return write(stream, record, size) < 0 ? -errno : (ssize_t)size;
}

static void expect_by_hand(const struct seen *seen, uint32_t number, const char *text)
{
	struct by_hand record;

	ck_assert_uint_eq(seen->length, sizeof(record) - sizeof(record.index));
	memcpy(&record.number, seen->payload, seen->length);
	ck_assert_uint_eq(record.number, number);
	ck_assert_str_eq(record.bytes, text);
}

/* A malformed record is accepted and counted by the embedded daemon; the kernel refuses it with an errno. */
static void expect_bad(const struct fixture *fixture, int stream, const void *record, size_t size, int error)
{
	ssize_t expected = keeps_records_itself(fixture) ? (ssize_t)size : -error;

	ck_assert_int_eq(write_record(stream, record, size), expected);
}

/* Counters of a daemon that is the tracer itself; 0 with the kernel's. */
static void expect_to_be_counted(const struct fixture *fixture, int socket, uint64_t records, uint64_t bad)
{
	struct wire_account account = raw_query(socket);
	bool counts = keeps_records_itself(fixture);

	ck_assert_uint_eq(account.records, counts ? records : 0);
	ck_assert_uint_eq(account.bad, counts ? bad : 0);
	ck_assert_uint_eq(tenant_number(fixture, "bad"), counts ? bad : 0);
	ck_assert_uint_eq(status_number(fixture, "records"), counts ? records : 0);
	ck_assert_uint_eq(status_number(fixture, "bad"), counts ? bad : 0);
}

DAEMON_TEST(malformed_records_are_refused_or_counted)
{
	struct by_hand record = { .number = 42, .text = 4 << 16, .bytes = "you" };
	struct answer answer;
	struct timespec now;
	struct seen seen;
	char comm[32] = "";
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int stream = -1;

	ck_assert_uint_eq(raw_register(socket, "by_hand u32 number; __rel_loc char[] text", &answer, &stream), 0);
	record.index = answer.index;
	expect_bad(fixture, stream, &record, sizeof(record), EBADF); /* off: dropped */
	ck_assert_uint_eq(trace(fixture, "by_hand", true), 1);
	ck_assert_int_eq(write_record(stream, &record, sizeof(record)), sizeof(record));
	expect_bad(fixture, stream, &record, 11, EINVAL); /* shorter than its fields */
	expect_bad(fixture, stream, &record, 4, EINVAL);
	expect_bad(fixture, stream, &record, 3, EFAULT); /* shorter than an index */
	expect_bad(fixture, stream, &record, 0, EFAULT);
	record.text = 5 << 16; /* one byte outside */
	expect_bad(fixture, stream, &record, sizeof(record), EFAULT);
	record.text = 3 << 16; /* ends in no NUL */
	expect_bad(fixture, stream, &record, sizeof(record), EFAULT);
	record.text = 4 << 16;
	record.index++; /* of no event */
	expect_bad(fixture, stream, &record, sizeof(record), ENOENT);

	see(fixture, "by_hand", &seen);
	ck_assert_uint_eq(seen.records, 1);
	ck_assert_int_eq(seen.pid, getpid());
	ck_assert_str_eq(seen.description, "by_hand u32 number; __rel_loc char[] text");
	expect_by_hand(&seen, 42, "you");
	expect_to_be_counted(fixture, socket, 1, 7);
	if (keeps_records_itself(fixture)) {
		ck_assert_uint_eq(event_number(fixture, "by_hand", "records"), 1);
		ck_assert_uint_eq(event_number(fixture, "by_hand", "bad"), 4);
		ck_assert_uint_eq(seen.uid, getuid());
		prctl(PR_GET_NAME, comm);
		ck_assert_str_eq(seen.comm, comm);
		clock_gettime(CLOCK_REALTIME, &now);
		ck_assert_uint_le(seen.time / 1000000000, (uint64_t)now.tv_sec);
		ck_assert_uint_gt(seen.time / 1000000000, (uint64_t)now.tv_sec - 60);
	}
}

DAEMON_TEST(record_has_the_pid_of_its_writer)
{
	const uint32_t record[] = { 0, 1 };
	struct seen seen;
	pid_t child;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int stream = -1;

	ck_assert_uint_eq(raw_register(socket, "inherited u32 a", NULL, &stream), 0);
	ck_assert_uint_eq(trace(fixture, "inherited", true), 1);
	child = start_process();
	if (child == 0)
		_exit(write(stream, record, sizeof(record)) == sizeof(record) ? EXIT_SUCCESS : EXIT_FAILURE);
	await_success(child);
	see(fixture, "inherited", &seen);
	ck_assert_uint_eq(seen.records, 1);
	ck_assert_int_eq(seen.pid, child);
	trace(fixture, "inherited", false);
}

DAEMON_TEST(fds_attached_to_a_record_are_closed, .options = { "--backend=embedded" })
{
	const uint32_t record[] = { 0, 42 };
	struct tally before, after;
	uint64_t taken;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int stream = -1;

	ck_assert_uint_eq(raw_register(socket, "laden u32 a", NULL, &stream), 0);
	ck_assert_uint_eq(trace(fixture, "laden", true), 1);
	tally_take_at_rest(fixture, &before);
	taken = send_with_fds(stream, record, sizeof(record), stream, FDS_AT_ONCE_MAX);
	sync_records(fixture);
	ck_assert_uint_eq(event_number(fixture, "laden", "records"), 0);
	/* From Linux 6.16 on the sender is refused; before that its stream ends. */
	ck_assert(eventually((tally_take(fixture, &after), after.fds == before.fds - (taken > 0))));
}

/* Begins a tail of all events; its first packet comes when the events are on. */
static int open_tail(const struct fixture *fixture)
{
	static const char *const all = "*";
	int control = raw_connect(fixture->control);

	raw_strings(KIND_TAIL, 0, &all, 1, 0);
	ck_assert_int_eq(raw_send(control), 0);
	expect_kind(control, KIND_ROWS);
	return control;
}

/*
 * With so many requests before the record the daemon may read them and the release, or the end of the connection, in one turn:
 * then it finds the record without having been woken by it.
 */
static void write_and_go(const struct fixture *fixture, unsigned requests, bool release)
{
	const uint32_t record[] = { 0, 7 };
	struct answer answer;
	_cleanup_(fd_closep) int stream = -1;
	_cleanup_(fd_closep) int socket = raw_hello(fixture->socket, 0, NULL, NULL);

	ck_assert_uint_eq(raw_register(socket, "gone u32 a", &answer, &stream), 0);
	for (unsigned i = 0; i < requests; i++) {
		encode_fixed(raw_packet(KIND_LOST), KIND_LOST, &(struct wire_lost){ 0 });
		ck_assert_int_eq(raw_send(socket), 0);
	}
	ck_assert_int_eq(write(stream, record, sizeof(record)), sizeof(record));
	if (!release)
		return;
	raw_put_release(&answer.bit, 1);
	ck_assert_int_eq(raw_send(socket), 0);
}

DAEMON_TEST(record_before_release_or_end_is_shown_at_once, .options = { "--backend=embedded" })
{
	_cleanup_(fd_closep) int tail = open_tail(fixture);

	for (unsigned i = 0; i < (is_emulated() ? 100 : 3000); i++) {
		write_and_go(fixture, i % 8, i / 8 % 2);
		expect_kind(tail, KIND_ROWS);
	}
}

DAEMON_TEST(full_stream_never_makes_the_writer_wait, .options = { "--backend=embedded" })
{
	const uint32_t record = 0;
	ssize_t r = 0;
	uint64_t written = 0;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	_cleanup_(fd_closep) int stream = -1;

	ck_assert_uint_eq(raw_register(socket, "flood", NULL, &stream), 0);
	ck_assert_uint_eq(trace(fixture, "flood", true), 1);
	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	while ((r = write_record(stream, &record, sizeof(record))) == sizeof(record))
		written++;
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	ck_assert_int_eq(r, -EAGAIN);
	ck_assert_uint_gt(written, 0);
	sync_records(fixture);
	ck_assert_uint_eq(event_number(fixture, "flood", "records"), written);
	/* And then there is room again. */
	ck_assert_int_eq(write_record(stream, &record, sizeof(record)), sizeof(record));
}
