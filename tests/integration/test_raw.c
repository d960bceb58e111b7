/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon against packets made by hand: good ones, and all the bad ones that we could think of. */

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/samples.h"

enum { NOBODY = 65534 };

static const char *const each_process_a_tenant[] = { "--tenants=process", NULL };
/* Where the test is of what only that backend does. */
static const char *const embedded[] = { "--backend=embedded", NULL };

static void expect_bytes_to_be_refused(const struct fixture *fixture, const struct sample *sample, const void *bytes,
				       size_t size, uint32_t refusal)
{
	int socket = open_for(fixture, sample);

	send_bytes(socket, bytes, size);
	expect_cut(socket, refusal);
	close(socket);
}

/* Somebody else who is connected: registers and releases as if nothing had happened. */
static void expect_to_work(int bystander)
{
	struct answer answer;

	ck_assert_uint_eq(raw_register(bystander, "bystander u32 a", &answer, NULL), 0);
	ck_assert_uint_eq(raw_release(bystander, &answer.bit, 1), 1);
}

static void expect_kind(int socket, uint16_t kind)
{
	struct raw_reply reply;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "nothing came: %zd", reply.size);
	ck_assert_uint_eq(reply.message.kind, kind);
	raw_reply_deinit(&reply);
}

static bool has_text(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

/* A number in a list of rows within a row. */
struct nested {
	const char *list, *key, *value; /* the row of the list in which key is value */
	const char *wanted;
	uint64_t number;
};

static void read_nested(void *data, struct cursor row)
{
	struct nested *nested = data;
	struct row_field list;
	struct cursor items, item;
	char value[64];

	if (!row_find(row, nested->list, &list))
		return;
	items = cursor_make(list.value, list.length);
	while (row_next_item(&items, &item) > 0) {
		row_get_string(item, nested->key, value, sizeof(value));
		if (streq(value, nested->value))
			nested->number = row_get_u64(item, nested->wanted);
	}
}

static uint64_t count_refusals(const struct fixture *fixture, const char *reason)
{
	struct nested nested = { .list = "refusals", .key = "reason", .value = reason, .wanted = "count" };
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, KIND_TENANTS, 0, NULL, read_nested, &nested), 0);
	close(control);
	return nested.number;
}

static uint64_t features(const struct fixture *fixture)
{
	return WIRE_FEATURE_WATCH | (offers_multi_format(fixture) ? WIRE_FEATURE_MULTI_FORMAT : 0);
}

TEST(welcome_says_what_there_is)
{
	static const char *const options[] = { "--page-bits=64", "--max-events=7", NULL };
	struct fixture fixture;
	struct wire_welcome welcome;
	struct string_item tenant;
	struct raw_reply reply;
	int socket;

	fixture_start(&fixture, options);
	socket = raw_connect(fixture.socket);
	encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ .understands = UINT64_MAX });
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.message.kind, KIND_WELCOME);
	ck_assert_uint_eq(reply.message.flags, 0);
	ck_assert_uint_eq(reply.message.streams, 0);
	ck_assert_int_eq(decode_welcome(reply.message.body, &welcome, &tenant), 0);

	ck_assert_uint_eq(welcome.features, features(&fixture));
	ck_assert_uint_eq(welcome.page_bytes, WIRE_PAGE_BYTES);
	ck_assert_uint_eq(welcome.page_bits, has_a_page_per_tenant(&fixture) ? 64 : WIRE_PAGE_BITS);
	ck_assert_uint_eq(welcome.payload_max, WIRE_PAYLOAD_MAX);
	ck_assert_uint_eq(welcome.packet_max, WIRE_PACKET_MAX);
	ck_assert_uint_eq(welcome.batch_max, WIRE_BATCH_MAX);
	ck_assert_uint_eq(welcome.events_max, 7);
	ck_assert_uint_eq(welcome.backend, fixture.backend);
	ck_assert_uint_gt(tenant.length, 0);
	ck_assert_int_eq(tenant.text[0], '/');
	raw_reply_deinit(&reply);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_feature_that_was_not_asked_for_is_not_offered)
{
	struct fixture fixture;
	struct wire_welcome welcome;

	fixture_start(&fixture, NULL);
	close(raw_hello(fixture.socket, ~WIRE_FEATURE_WATCH, &welcome, NULL));
	ck_assert_uint_eq(welcome.features, features(&fixture) & ~WIRE_FEATURE_WATCH);
	close(raw_hello(fixture.socket, 0, &welcome, NULL));
	ck_assert_uint_eq(welcome.features, 0);
	fixture_stop(&fixture);
}
END_TEST

/* Whatever is done to this fd, the page goes on saying what it said. */
static void attack_page(int fd)
{
	uint8_t byte = 0xff;
	void *page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ck_assert_ptr_eq(page, MAP_FAILED);
	page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_assert_int_lt(mprotect(page, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	ck_assert_int_lt(madvise(page, WIRE_PAGE_BYTES, MADV_REMOVE), 0);
	munmap(page, WIRE_PAGE_BYTES);

	ck_assert_int_lt(pwrite(fd, &byte, 1, 1), 0);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_lt(ftruncate(fd, 2 * WIRE_PAGE_BYTES), 0);
	ck_assert_int_lt(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, WIRE_PAGE_BYTES), 0);
	ck_assert_int_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
}

/* The page, opened anew: an fd, or a negative errno. */
static int reopen_page(int page)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", page);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void attack_page_as_nobody(int page)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int r;

		if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
			_exit(EXIT_FAILURE);
		/* So that what he is refused in /proc is not for another reason. */
		prctl(PR_SET_DUMPABLE, 1);
		r = reopen_page(page);
		_exit(r == -EACCES || r == -EROFS ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* Root may open what nobody may write. */
static void attack_page_as_root(int page)
{
	int reopened = reopen_page(page);

	if (reopened >= 0)
		attack_page(reopened);
	else
		ck_assert(reopened == -EACCES || reopened == -EROFS);
	fd_close(reopened);
}

TEST(the_page_can_be_read_and_not_written)
{
	struct fixture fixture;
	struct answer answer;
	int socket, page;
	const uint8_t *bytes;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, &page);
	ck_assert_uint_eq(raw_register(socket, "seen u32 a", &answer, NULL), 0);
	ck_assert_int_eq(fcntl(page, F_GETFL) & O_ACCMODE, O_RDONLY);
	attack_page(page);
	attack_page_as_nobody(page);
	attack_page_as_root(page);

	bytes = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	ck_assert_ptr_ne(bytes, MAP_FAILED);
	for (size_t i = 0; i < WIRE_PAGE_BYTES; i++)
		ck_assert_uint_eq(bytes[i], 0);
	ck_assert_uint_eq(trace(&fixture, "seen", true), 1);
	ck_assert_uint_eq(bytes[answer.bit / 8], 1u << answer.bit % 8);
	ck_assert_uint_eq(trace(&fixture, "seen", false), 1);
	ck_assert_uint_eq(bytes[answer.bit / 8], 0);
	munmap((void *)(uintptr_t)bytes, WIRE_PAGE_BYTES);
	close(page);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

static void cut_short_everywhere(const struct fixture *fixture, const struct sample *sample)
{
	uint8_t packet[SAMPLE_MAX];
	size_t size = build(sample, packet);

	for (size_t length = 0; length < size; length++) {
		set_size(packet, size);
		expect_bytes_to_be_refused(fixture, sample, packet, length, REFUSAL_BAD_PACKET);
		set_size(packet, length);
		if (length >= sizeof(struct wire_header))
			expect_bytes_to_be_refused(fixture, sample, packet, length, REFUSAL_BAD_PACKET);
	}
}

TEST(a_packet_cut_short_anywhere_is_refused_and_others_do_not_notice)
{
	struct fixture fixture;
	int bystander;

	fixture_start(&fixture, NULL);
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		cut_short_everywhere(&fixture, &samples[i]);
		expect_to_work(bystander);
	}
	close(bystander);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_packet_that_is_too_long_is_refused_whatever_it_says)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX + 4] = { 0 };
		size_t size = build(&samples[i], packet);

		expect_bytes_to_be_refused(&fixture, &samples[i], packet, size + 1, REFUSAL_BAD_PACKET);
		set_size(packet, size + 1);
		expect_bytes_to_be_refused(&fixture, &samples[i], packet, size, REFUSAL_BAD_PACKET);
		expect_bytes_to_be_refused(&fixture, &samples[i], packet, size + 1, REFUSAL_BAD_PACKET);
		set_size(packet, size + 4);
		expect_bytes_to_be_refused(&fixture, &samples[i], packet, size + 4, REFUSAL_BAD_PACKET);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(an_empty_packet_is_refused_by_name)
{
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	send_bytes(socket, "", 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
	close(socket);

	/* What comes behind it is not read, and must not turn our last words into a reset. */
	socket = raw_connect(fixture.control);
	send_bytes(socket, "", 0);
	/* It may have hung up already. */
	transport_send(socket, "", 0, NULL, 0, 0);
	transport_send(socket, "x", 1, NULL, 0, 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

static void expect_change_to_be_refused(const struct fixture *fixture, const struct sample *sample, size_t at,
					uint8_t value)
{
	uint8_t packet[SAMPLE_MAX];
	size_t size = build(sample, packet);

	ck_assert_uint_lt(at, size);
	packet[at] = value;
	expect_bytes_to_be_refused(fixture, sample, packet, size, REFUSAL_BAD_PACKET);
}

TEST(reserved_bytes_and_flags_of_a_header_must_be_zero)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		for (size_t at = 12; at < sizeof(struct wire_header); at++)
			expect_change_to_be_refused(&fixture, &samples[i], at, 1);
		expect_change_to_be_refused(&fixture, &samples[i], offsetof(struct wire_header, flags), WIRE_MORE);
		expect_change_to_be_refused(&fixture, &samples[i], offsetof(struct wire_header, flags), 0x80);
		expect_change_to_be_refused(&fixture, &samples[i], offsetof(struct wire_header, streams), 1);
		expect_change_to_be_refused(&fixture, &samples[i], offsetof(struct wire_header, streams), 255);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(no_request_has_streams)
{
	struct fixture fixture;
	const uint32_t number = 1;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		int socket = open_for(&fixture, &samples[i]);
		struct packet *packet = raw_packet(samples[i].kind);

		encode_begin(packet, samples[i].kind, 1, 0, &number, 1);
		if (samples[i].fill)
			samples[i].fill(packet);
		ck_assert_int_eq(raw_send(socket), 0);
		expect_cut(socket, REFUSAL_BAD_PACKET);
		close(socket);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(reserved_bytes_and_flags_of_a_body_must_be_zero)
{
	static const struct {
		uint16_t kind;
		uint8_t at;
		uint8_t value;
	} changes[] = {
		{ KIND_REGISTER, 18, 1 },   /* flags of the list */
		{ KIND_REGISTER, 19, 128 }, /* … */
		{ KIND_REGISTER, 37, 1 },   /* padding */
		{ KIND_REGISTER, 39, 1 },   /* … */
		{ KIND_REGISTER, 16, 2 },   /* one string more than there is */
		{ KIND_REGISTER, 16, 0 },   /* one less */
		{ KIND_RELEASE, 18, 1 },    /* zero */
		{ KIND_RELEASE, 16, 1 },    /* one bit less than there is */
		{ KIND_RELEASE, 17, 1 },    /* 256 more */
		{ KIND_WATCH, 16, 2 },	    /* neither on nor off */
		{ KIND_WATCH, 19, 1 },	    /* … */
		{ KIND_TRACE, 18, 2 },	    /* flags that TRACE does not have */
		{ KIND_TRACE, 19, 1 },	    /* … */
		{ KIND_TRACE, 20, 1 },	    /* flags of a pattern */
		{ KIND_TAIL, 18, 4 },	    /* flags that TAIL does not have */
		{ KIND_TAIL, 21, 1 },	    /* flags of a pattern */
	};
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		expect_change_to_be_refused(&fixture, sample_of(changes[i].kind), changes[i].at, changes[i].value);
	fixture_stop(&fixture);
}
END_TEST

TEST(unknown_flags_of_an_event_are_refused_for_that_event)
{
	static const uint16_t flags[] = { REGISTER_PERSIST, REGISTER_MULTI_FORMAT, 4, 0x8000 };
	struct fixture fixture;
	struct batch batch;
	struct packet *to;
	size_t mark;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
	to = raw_packet(KIND_REGISTER);
	mark = encode_strings(to, 0);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		encode_string(to, flags[i], "flagged", 7);
	encode_string(to, 0, "flagged", 7);
	encode_count(to, mark, ARRAY_SIZE(flags) + 1);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &batch.reply);
	batch_read(&batch);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		uint32_t expected = REFUSAL_KERNEL_TOO_OLD;

		if (flags[i] == REGISTER_PERSIST)
			expected = refusal_to_persist(&fixture);
		else if (flags[i] == REGISTER_MULTI_FORMAT && offers_multi_format(&fixture))
			expected = REFUSAL_NONE;
		ck_assert_uint_eq(batch.answer[i].refusal, expected);
	}
	ck_assert_uint_eq(batch.answer[ARRAY_SIZE(flags)].refusal, 0);
	raw_reply_deinit(&batch.reply);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

static void expect_kind_to_be_refused(const char *path, bool hello, uint16_t kind)
{
	int socket = hello ? raw_hello(path, 0, NULL, NULL) : raw_connect(path);

	raw_packet(kind);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_cut(socket, REFUSAL_UNKNOWN_KIND);
	close(socket);
}

TEST(unknown_kinds_and_answers_are_no_requests)
{
	static const uint16_t kinds[] = {
		0,
		KIND_WELCOME,
		KIND_REGISTERED,
		KIND_RELEASED,
		KIND_ACCOUNT,
		KIND_WATCHING,
		KIND_CHANGED,
		KIND_ERROR,
		14,
		127,
		KIND_SYNCED,
		KIND_ROWS,
		KIND_REFUSED,
		140,
		257 /* 1 */,
		0x7fff,
		0xffff,
	};
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		expect_kind_to_be_refused(fixture.socket, false, kinds[i]);
		expect_kind_to_be_refused(fixture.socket, true, kinds[i]);
		expect_kind_to_be_refused(fixture.control, false, kinds[i]);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(each_socket_takes_its_own_kinds_only)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(&samples[i], packet);
		int socket =
			samples[i].control ? raw_hello(fixture.socket, 0, NULL, NULL) : raw_connect(fixture.control);

		send_bytes(socket, packet, size);
		expect_cut(socket, REFUSAL_UNKNOWN_KIND);
		close(socket);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(nothing_comes_before_hello_and_hello_comes_once)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(&samples[i], packet);
		int socket;

		if (samples[i].control)
			continue;
		socket = samples[i].kind == KIND_HELLO ? raw_hello(fixture.socket, 0, NULL, NULL)
						       : raw_connect(fixture.socket);
		send_bytes(socket, packet, size);
		expect_cut(socket, REFUSAL_HELLO_FIRST);
		close(socket);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(a_client_that_needs_what_is_not_here_is_told)
{
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, NULL);
	for (int bit = 0; bit < 64; bit++) {
		const struct wire_hello hello = { .needs = UINT64_C(1) << bit };

		socket = raw_connect(fixture.socket);
		encode_hello(raw_packet(KIND_HELLO), &hello);
		ck_assert_int_eq(raw_send(socket), 0);
		if (hello.needs & features(&fixture))
			expect_kind(socket, KIND_WELCOME);
		else
			expect_cut(socket, REFUSAL_FEATURE_MISSING);
		close(socket);
	}
	fixture_stop(&fixture);
}
END_TEST

static void send_large(int socket, size_t size)
{
	static uint8_t packet[WIRE_PACKET_MAX * 2];
	const int room = 4 * WIRE_PACKET_MAX;

	setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	set_size(packet, size);
	packet[offsetof(struct wire_header, kind)] = KIND_QUERY;
	send_bytes(socket, packet, size);
}

TEST(a_packet_that_is_larger_than_the_maximum_is_refused)
{
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, NULL);
	for (size_t more = 1; more <= 4096; more *= 64) {
		socket = raw_hello(fixture.socket, 0, NULL, NULL);
		send_large(socket, WIRE_PACKET_MAX + more);
		expect_cut(socket, REFUSAL_BAD_PACKET);
		close(socket);
		socket = raw_connect(fixture.control);
		send_large(socket, WIRE_PACKET_MAX + more);
		expect_cut(socket, REFUSAL_BAD_PACKET);
		close(socket);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(a_packet_of_the_maximal_size_is_taken)
{
	const uint16_t count = (WIRE_PACKET_MAX - sizeof(struct wire_header) - sizeof(struct wire_release)) / 4;
	struct wire_released released;
	struct fixture fixture;
	struct raw_reply reply;
	struct packet *to;
	size_t mark;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	to = raw_packet(KIND_RELEASE);
	mark = encode_release(to);
	for (uint32_t i = 0; i < count; i++)
		encode_release_bit(to, i * 131071);
	encode_count(to, mark, count);
	ck_assert_uint_eq(to->size, WIRE_PACKET_MAX);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.message.kind, KIND_RELEASED);
	ck_assert_int_eq(decode_released(reply.message.body, &released), 0);
	ck_assert_uint_eq(released.released, 0);
	ck_assert_uint_eq(released.not_held, count);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

static void expect_fds_to_be_refused(const struct fixture *fixture, const struct sample *sample, size_t n)
{
	uint8_t packet[SAMPLE_MAX];
	size_t size = build(sample, packet);
	int socket = open_for(fixture, sample);

	/* The connection itself is the nastiest fd there is: it could keep itself alive. */
	if (send_with_fds(socket, packet, size, n == 1 ? socket : STDIN_FILENO, n)) {
		expect_cut(socket, REFUSAL_UNEXPECTED_FDS);
	} else {
		/* Then the daemon has seen nothing of it. */
		send_bytes(socket, packet, size - 1);
		expect_cut(socket, REFUSAL_BAD_PACKET);
	}
	close(socket);
}

TEST(fds_attached_to_a_request_are_refused_and_closed)
{
	struct fixture fixture;
	struct tally now;
	int bystander;

	fixture_start(&fixture, NULL);
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		expect_fds_to_be_refused(&fixture, &samples[i], 1);
		expect_fds_to_be_refused(&fixture, &samples[i], FDS_AT_ONCE_MAX);
		expect_to_work(bystander);
	}
	close(bystander);
	ck_assert(eventually((tally_take(&fixture, &now), now.fds == fixture.before.fds)));
	fixture_stop(&fixture);
}
END_TEST

TEST(fds_attached_to_a_record_go_nowhere)
{
	const uint32_t record[] = { 0, 42 };
	struct fixture fixture;
	struct tally before, after;
	uint64_t taken;
	int socket, stream = -1;

	fixture_start(&fixture, embedded);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "laden u32 a", NULL, &stream), 0);
	ck_assert_uint_eq(trace(&fixture, "laden", true), 1);
	tally_take_at_rest(&fixture, &before);
	taken = send_with_fds(stream, record, sizeof(record), stream, FDS_AT_ONCE_MAX);
	sync_records(&fixture);
	ck_assert_uint_eq(event_number(&fixture, "laden", "records"), 0);
	/* From Linux 6.16 on the sender is refused; before that its stream ends. */
	ck_assert(eventually((tally_take(&fixture, &after), after.fds == before.fds - (taken > 0))));
	close(stream);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_batch_of_none_is_answered_with_none)
{
	struct fixture fixture;
	struct batch batch;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	batch_register(socket, NULL, 0, &batch, NULL);
	ck_assert_uint_eq(batch.count, 0);
	ck_assert_uint_eq(batch.reply.message.streams, 0);
	ck_assert_uint_eq(raw_release(socket, NULL, 0), 0);
	close(socket);
	socket = raw_connect(fixture.control);
	ck_assert_uint_eq(raw_rows(socket, KIND_TRACE, TRACE_ON, (const char *const[]){ NULL }, NULL, NULL),
			  keeps_records_itself(&fixture) ? REFUSAL_NO_SUCH_EVENT : REFUSAL_NOT_THE_TRACER);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_batch_is_taken_up_to_its_maximum_and_no_further)
{
	const char *descriptions[WIRE_BATCH_MAX + 1];
	char names[WIRE_BATCH_MAX + 1][16];
	struct fixture fixture;
	struct batch batch;
	int socket;

	for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++) {
		snprintf(names[i], sizeof(names[i]), "batch_%zu", i);
		descriptions[i] = names[i];
	}
	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	batch_register(socket, descriptions, WIRE_BATCH_MAX, &batch, NULL);
	for (size_t i = 0; i < WIRE_BATCH_MAX; i++) {
		ck_assert_uint_eq(batch.answer[i].refusal, 0);
		ck_assert_uint_eq(batch.answer[i].index, i);
	}
	ck_assert_uint_eq(status_number(&fixture, "charges"), WIRE_BATCH_MAX);

	batch_put(descriptions, WIRE_BATCH_MAX + 1);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_string_with_a_nul_inside_is_malformed)
{
	struct fixture fixture;
	struct packet *to;
	size_t mark;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	to = raw_packet(KIND_REGISTER);
	mark = encode_strings(to, 0);
	encode_string(to, 0, "good", 4);
	encode_string(to, 0, "nul\0 u32 a", 10);
	encode_count(to, mark, 2);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
	close(socket);

	socket = raw_connect(fixture.control);
	to = raw_packet(KIND_TRACE);
	mark = encode_strings(to, TRACE_ON);
	encode_string(to, 0, "*\0", 2);
	encode_count(to, mark, 1);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
	close(socket);
	/* Nothing of the first packet was done. */
	ck_assert_uint_eq(status_number(&fixture, "charges"), 0);
	fixture_stop(&fixture);
}
END_TEST

/* A QUERY from a process with that uid, over a connection that it has inherited. 0, or why it could not be sent. */
static int query_from_child(int socket, uid_t uid)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (uid != getuid() && setresuid(uid, uid, uid) < 0)
			_exit(EXIT_FAILURE);
		raw_packet(KIND_QUERY);
		_exit(raw_send(socket) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

TEST(a_hello_that_comes_while_it_is_being_accepted_is_known_to_be_ours)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	for (unsigned i = 0; i < (is_emulated() ? 100 : 3000); i++) {
		int socket = raw_connect(fixture.socket);

		encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
		/* A little later each time, so that some of them hit the moment. */
		for (volatile unsigned spin = i % 64 * 200; spin > 0; spin--)
			;
		ck_assert_int_eq(raw_send(socket), 0);
		expect_kind(socket, KIND_WELCOME);
		close(socket);
	}
	fixture_stop(&fixture);
}
END_TEST

TEST(a_forked_child_may_go_on_with_the_connection)
{
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_int_eq(query_from_child(socket, getuid()), 0);
	expect_kind(socket, KIND_ACCOUNT);
	expect_to_work(socket);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_connection_is_of_no_use_to_another_user)
{
	struct fixture fixture;
	struct actor other;
	int bystander, socket;

	fixture_start(&fixture, NULL);
	if (geteuid() != 0) {
		printf("not possible here without root: a packet from another user over a connection handed on\n");
		socket = raw_hello(fixture.socket, 0, NULL, NULL);
		ck_assert_int_eq(query_from_child(socket, getuid()), 0);
		expect_kind(socket, KIND_ACCOUNT);
		close(socket);
		fixture_stop(&fixture);
		return;
	}
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_int_eq(query_from_child(socket, NOBODY), 0);
	expect_cut(socket, REFUSAL_WRONG_USER);
	close(socket);

	/* One of their own is, and is of none to us. */
	actor_start(&other, fixture.socket, &(struct actor_as){ .uid = NOBODY });
	ck_assert_int_eq(query_from_child(other.socket, NOBODY), 0);
	expect_kind(other.socket, KIND_ACCOUNT);
	raw_packet(KIND_QUERY);
	ck_assert_int_eq(raw_send(other.socket), 0);
	expect_cut(other.socket, REFUSAL_WRONG_USER);
	actor_end(&other);
	expect_to_work(bystander);
	close(bystander);
	fixture_stop(&fixture);
}
END_TEST

TEST(requests_may_be_sent_before_the_former_are_answered)
{
	enum { ROUNDS = 40 };
	static const uint16_t answers[] = { KIND_REGISTERED, KIND_WATCHING, KIND_RELEASED, KIND_ACCOUNT };
	uint32_t serials[1 + ROUNDS * ARRAY_SIZE(answers)];
	static const uint16_t requests[] = { KIND_REGISTER, KIND_WATCH, KIND_LOST, KIND_RELEASE, KIND_QUERY };
	struct fixture fixture;
	struct raw_reply reply;
	uint8_t packet[SAMPLE_MAX];
	size_t n = 0;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_connect(fixture.socket);
	send_bytes(socket, packet, build(sample_of(KIND_HELLO), packet));
	for (size_t i = 0; i < ROUNDS * ARRAY_SIZE(requests); i++) {
		size_t size = build(sample_of(requests[i % ARRAY_SIZE(requests)]), packet);
		uint32_t serial = htole32((uint32_t)i + 1000);

		memcpy(packet + offsetof(struct wire_header, serial), &serial, sizeof(serial));
		send_bytes(socket, packet, size);
		if (requests[i % ARRAY_SIZE(requests)] != KIND_LOST)
			serials[n++] = (uint32_t)i + 1000;
	}
	expect_kind(socket, KIND_WELCOME);
	for (size_t i = 0; i < n; i++) {
		raw_receive(socket, &reply);
		ck_assert_int_gt(reply.size, 0);
		ck_assert_uint_eq(reply.message.kind, answers[i % ARRAY_SIZE(answers)]);
		ck_assert_uint_eq(reply.message.serial, serials[i]);
		raw_reply_deinit(&reply);
	}
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

/* 512 events that are refused with the longest sentence, in one packet of requests. */
static void put_long_refusals(int socket, struct batch *ret)
{
	static char taken[WIRE_DESCRIPTION_MAX + 1], name[64];
	const char *same[WIRE_BATCH_MAX];

	memset(name, 'n', sizeof(name) - 1);
	snprintf(taken, sizeof(taken), "%s u64 ", name);
	memset(taken + strlen(taken), 'f', sizeof(taken) - 1 - strlen(taken));
	batch_register(socket, (const char *const[]){ taken }, 1, ret, NULL);
	ck_assert_uint_eq(ret->answer[0].refusal, 0);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		same[i] = name;
	batch_put(same, ARRAY_SIZE(same));
}

/* Else a late comer with other fields is not refused, where the kernel can do it. */
#define ONE_FORMAT "[/**]\nAllowMultiFormat=no\n"

TEST(a_full_batch_of_the_longest_refusals_fits_in_one_answer)
{
	struct fixture fixture;
	struct batch batch;
	int socket;

	fixture_start_with_policy(&fixture, ONE_FORMAT, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	put_long_refusals(socket, &batch);
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive(socket, &batch.reply);
	batch_read(&batch);
	ck_assert_uint_eq(batch.count, WIRE_BATCH_MAX);
	for (size_t i = 0; i < batch.count; i++) {
		ck_assert_uint_eq(batch.answer[i].refusal, REFUSAL_NAME_TAKEN);
		ck_assert_uint_eq(batch.answer[i].length, WIRE_SENTENCE_MAX);
		ck_assert_uint_eq(batch.answer[i].bit, 0);
	}
	ck_assert_uint_eq(count_refusals(&fixture, "name-taken"), WIRE_BATCH_MAX);
	expect_to_work(socket);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_never_reads_is_cut_off_and_meanwhile_others_work)
{
	static const char *const options[] = { "--client-timeout=1", NULL };
	struct fixture fixture;
	struct batch batch;
	int bystander, slow, r = 0;

	fixture_start(&fixture, options);
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	slow = raw_hello(fixture.socket, 0, NULL, NULL);
	put_long_refusals(slow, &batch);
	/* Our own queue fills when the daemon's has, since it does not read on. */
	for (int i = 0; r == 0 && i < 1000; i++) {
		struct packet *again = raw_packet(KIND_REGISTER);
		const char *same = "nnnn";
		size_t mark = encode_strings(again, 0);

		for (size_t n = 0; n < WIRE_BATCH_MAX; n++)
			encode_string(again, 4, same, strlen(same));
		encode_count(again, mark, WIRE_BATCH_MAX);
		encode_end(again);
		r = transport_send(slow, again->data, again->size, NULL, 0, MSG_DONTWAIT);
	}
	ck_assert_int_eq(r, -EAGAIN);
	expect_to_work(bystander);
	for (int i = 0; status_number(&fixture, "connections") == 2; i++) {
		ck_assert_msg(i < 6000, "the daemon has more patience than it was told to have");
		expect_to_work(bystander);
		usleep(10000);
	}
	ck_assert_uint_eq(count_refusals(&fixture, "too-slow"), 1);
	/* The bystander said nothing but what it had to, and that long ago. */
	expect_to_work(bystander);
	close(slow);
	close(bystander);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_says_nothing_is_told_and_cut_off_and_who_said_hello_is_not)
{
	static const char *const options[] = { "--client-timeout=1", NULL };
	struct fixture fixture;
	int greeted, silent, admin;

	fixture_start(&fixture, options);
	greeted = raw_hello(fixture.socket, 0, NULL, NULL);
	admin = raw_connect(fixture.control);
	silent = raw_connect(fixture.socket);
	expect_cut(silent, REFUSAL_TOO_SLOW);
	close(silent);
	expect_to_work(greeted);
	ck_assert_uint_eq(raw_rows(admin, KIND_EVENTS, 0, NULL, NULL, NULL), 0);
	close(admin);
	close(greeted);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_leaves_in_the_middle_leaves_nothing)
{
	struct fixture fixture;
	char difference[256];
	struct batch batch;
	int socket;

	fixture_start(&fixture, NULL);
	for (int i = 0; i < (is_emulated() ? 10 : 50); i++) {
		socket = raw_hello(fixture.socket, 0, NULL, NULL);
		put_long_refusals(socket, &batch);
		ck_assert_int_eq(raw_send(socket), 0);
		raw_packet(KIND_QUERY);
		raw_send(socket);
		close(socket);
		close(raw_connect(fixture.socket));
		close(raw_connect(fixture.control));
	}
	ck_assert_msg(tally_settles(&fixture, &fixture.before, difference, sizeof(difference)), "%s", difference);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_has_said_all_still_gets_the_answer)
{
	struct fixture fixture;
	struct raw_reply reply;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	raw_packet(KIND_QUERY);
	ck_assert_int_eq(raw_send(socket), 0);
	ck_assert_int_eq(shutdown(socket, SHUT_WR), 0);
	expect_kind(socket, KIND_ACCOUNT);
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.size, 0);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(register_again_gives_the_same_and_costs_nothing)
{
	static const char *const twice[] = { "again u32 a", "again  u32  a;" };
	struct fixture fixture;
	struct batch first, second;
	int socket, stream = -1, none = -1;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	batch_register(socket, twice, 2, &first, &stream);
	batch_register(socket, twice, 2, &second, &none);
	ck_assert_int_ge(stream, 0);
	ck_assert_int_eq(none, -1);
	for (size_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(first.answer[i].refusal, 0);
		ck_assert_uint_eq(second.answer[i].refusal, 0);
		ck_assert_uint_eq(first.answer[i].bit, first.answer[0].bit);
		ck_assert_uint_eq(second.answer[i].bit, first.answer[0].bit);
		ck_assert_uint_eq(second.answer[i].stream, first.answer[0].stream);
		ck_assert_uint_eq(second.answer[i].index, first.answer[0].index);
	}
	ck_assert_uint_eq(raw_query(socket).events, 1);
	ck_assert_uint_eq(raw_query(socket).leases, 1);
	ck_assert_uint_eq(status_number(&fixture, "charges"), 1);
	close(stream);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_release_frees_what_it_can_and_a_second_one_finds_nothing)
{
	struct fixture fixture;
	struct answer answer;
	int socket, stream = -1;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "released u32 a", &answer, &stream), 0);
	ck_assert_uint_eq(status_number(&fixture, "charges"), 1);
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 1);
	ck_assert_uint_eq(status_number(&fixture, "leases"), 0);
	ck_assert_uint_eq(status_number(&fixture, "charges"), still_charged(&fixture, 1, 1));
	ck_assert_uint_eq(status_number(&fixture, "events"), still_charged(&fixture, 1, 1));
	ck_assert_uint_eq(raw_query(socket).events, still_charged(&fixture, 1, 1));
	ck_assert_uint_eq(raw_query(socket).lingering, still_charged(&fixture, 1, 1));
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 0);
	/* Twice in one packet counts once. */
	ck_assert_uint_eq(raw_register(socket, "released u32 a", &answer, NULL), 0);
	ck_assert_uint_eq(raw_release(socket, (uint32_t[]){ answer.bit, answer.bit, 0, UINT32_MAX }, 4), 1);
	close(stream);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(what_one_releases_another_keeps)
{
	struct fixture fixture;
	struct answer ours, theirs;
	int one, another;

	fixture_start(&fixture, NULL);
	one = raw_hello(fixture.socket, 0, NULL, NULL);
	another = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(one, "both u32 a", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(another, "both u32 a", &theirs, NULL), 0);
	ck_assert_uint_eq(ours.bit, theirs.bit);
	ck_assert_uint_eq(status_number(&fixture, "charges"), 1);
	ck_assert_uint_eq(raw_release(one, &ours.bit, 1), 1);
	ck_assert_uint_eq(status_number(&fixture, "charges"), 1);
	ck_assert_uint_eq(raw_query(another).leases, 1);
	ck_assert_uint_eq(raw_release(another, &theirs.bit, 1), 1);
	/* Nobody has a copy of their streams. */
	ck_assert(eventually(status_number(&fixture, "charges") == 0));
	close(another);
	close(one);
	fixture_stop(&fixture);
}
END_TEST

static void send_watch(int socket, bool on)
{
	encode_watch(raw_packet(KIND_WATCH), &(struct wire_watch){ .on = on });
	ck_assert_int_eq(raw_send(socket), 0);
	expect_kind(socket, KIND_WATCHING);
}

/* The bits of the next packet, which is CHANGED; how many. */
static uint16_t receive_changed(int socket, uint16_t *ret_bits)
{
	struct wire_changed changed;
	struct raw_reply reply;
	struct cursor bits;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "no CHANGED came: %zd", reply.size);
	ck_assert_uint_eq(reply.message.kind, KIND_CHANGED);
	ck_assert_uint_eq(reply.message.serial, 0);
	ck_assert_int_eq(decode_changed(reply.message.body, &changed, &bits), 0);
	ck_assert_uint_eq(changed.payload_max, WIRE_PAYLOAD_MAX);
	for (uint16_t i = 0; i < changed.count; i++) {
		cursor_get(&bits, &ret_bits[i], sizeof(ret_bits[i]));
		ret_bits[i] = le16toh(ret_bits[i]);
	}
	return changed.count;
}

TEST(who_watches_is_told_of_its_own_events)
{
	struct fixture fixture;
	struct answer ours, others;
	uint16_t bits[WIRE_BATCH_MAX];
	int watcher, other;

	fixture_start(&fixture, NULL);
	watcher = raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
	other = raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
	ck_assert_uint_eq(raw_register(watcher, "watched u32 a", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(other, "unwatched u32 a", &others, NULL), 0);
	send_watch(watcher, true);

	/* It is said when the page says it. Nobody is told of what is another's, or does not watch. */
	ck_assert_uint_eq(trace(&fixture, "unwatched", true), 1);
	ck_assert_uint_eq(trace(&fixture, "watched", true), 1);
	ck_assert_uint_eq(receive_changed(watcher, bits), 1);
	ck_assert_uint_eq(bits[0], ours.bit);
	/* What is on already is not switched. */
	ck_assert_uint_eq(trace(&fixture, "watched", true), 1);
	ck_assert_uint_eq(trace(&fixture, "watched", false), 1);
	ck_assert_uint_eq(receive_changed(watcher, bits), 1);
	raw_query(watcher);

	send_watch(watcher, false);
	ck_assert_uint_eq(trace(&fixture, "watched", true), 1);
	raw_query(watcher);
	send_watch(watcher, true);
	ck_assert_uint_eq(raw_release(watcher, &ours.bit, 1), 1);
	ck_assert_uint_eq(trace(&fixture, "watched", false), 1);
	raw_query(watcher);
	raw_query(other);
	close(other);
	close(watcher);
	fixture_stop(&fixture);
}
END_TEST

/* Switches `n` events at once; how many of them the one CHANGED named. */
static uint16_t change_at_once(unsigned n, uint16_t *bits)
{
	const char *descriptions[128];
	char names[128][16];
	struct fixture fixture;
	struct batch batch;
	uint16_t count;
	int socket;

	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "many_%u", i);
		descriptions[i] = names[i];
	}
	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
	batch_register(socket, descriptions, n, &batch, NULL);
	send_watch(socket, true);
	ck_assert_uint_eq(trace(&fixture, "many_*", true), n);
	count = receive_changed(socket, bits);
	/* Nothing is left over for a second one. */
	raw_query(socket);
	close(socket);
	fixture_stop(&fixture);
	return count;
}

TEST(changes_are_named_up_to_a_number_and_beyond_that_it_says_look_at_all)
{
	enum { NAMED_MAX = 64 };
	uint16_t bits[WIRE_BATCH_MAX];
	uint64_t seen[WIRE_PAGE_BITS / 64] = { 0 };

	ck_assert_uint_eq(change_at_once(NAMED_MAX, bits), NAMED_MAX);
	for (size_t i = 0; i < NAMED_MAX; i++) {
		ck_assert_uint_eq(seen[bits[i] / 64] >> bits[i] % 64 & 1, 0);
		seen[bits[i] / 64] |= UINT64_C(1) << bits[i] % 64;
	}
	ck_assert_uint_eq(change_at_once(NAMED_MAX + 1, bits), 0);
}
END_TEST

static void report_lost(int socket, uint64_t queue_full, uint64_t too_big)
{
	encode_lost(raw_packet(KIND_LOST), &(struct wire_lost){ .queue_full = queue_full, .too_big = too_big });
	ck_assert_int_eq(raw_send(socket), 0);
}

TEST(lost_records_are_added_up_and_no_report_is_believed_beyond_reason)
{
	struct fixture fixture;
	int one, another;

	fixture_start(&fixture, NULL);
	one = raw_hello(fixture.socket, 0, NULL, NULL);
	another = raw_hello(fixture.socket, 0, NULL, NULL);
	report_lost(one, 3, 5);
	report_lost(one, 4, 0);
	ck_assert_uint_eq(raw_query(one).lost, 7);
	report_lost(another, 10, 1);
	ck_assert_uint_eq(raw_query(another).lost, 17);
	ck_assert_uint_eq(tenant_number(&fixture, "too_big"), 6);
	ck_assert_uint_eq(status_number(&fixture, "lost"), 17);
	ck_assert_uint_eq(status_number(&fixture, "too_big"), 6);

	/* One liar does not spoil the machine's sum for ever. */
	report_lost(one, UINT64_MAX, UINT64_C(1) << 33);
	ck_assert_uint_eq(raw_query(one).lost, 17 + (uint64_t)UINT32_MAX);
	ck_assert_uint_eq(tenant_number(&fixture, "too_big"), 6 + (uint64_t)UINT32_MAX);
	ck_assert_uint_eq(status_number(&fixture, "lost"), 17 + (uint64_t)UINT32_MAX);
	close(another);
	close(one);
	fixture_stop(&fixture);
}
END_TEST

TEST(an_account_has_the_numbers_of_the_tenant_and_of_the_connection)
{
	static const char *const options[] = { "--max-events=9", NULL };
	static const char *const three[] = { "counted_a", "counted_b", "counted_c" };
	struct wire_account account;
	struct fixture fixture;
	struct batch batch;
	int one, another;

	fixture_start(&fixture, options);
	one = raw_hello(fixture.socket, 0, NULL, NULL);
	another = raw_hello(fixture.socket, 0, NULL, NULL);
	batch_register(one, three, 3, &batch, NULL);
	batch_register(another, three, 1, &batch, NULL);
	account = raw_query(one);
	ck_assert_uint_eq(account.events, 3);
	ck_assert_uint_eq(account.events_max, 9);
	ck_assert_uint_eq(account.lingering, 0);
	ck_assert_uint_eq(account.leases, 3);
	ck_assert_uint_eq(account.connections, 2);
	ck_assert_uint_eq(account.lost, 0);
	ck_assert_uint_eq(account.records, 0);
	ck_assert_uint_eq(account.bad, 0);
	account = raw_query(another);
	ck_assert_uint_eq(account.events, 3);
	ck_assert_uint_eq(account.leases, 1);
	close(another);
	ck_assert(eventually(raw_query(one).connections == 1));
	close(one);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_name_is_taken_in_the_same_tenant_and_the_sentence_says_by_what)
{
	struct fixture fixture;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct answer answer;
	int socket;

	fixture_start_with_policy(&fixture, ONE_FORMAT, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "taken u32 secret", &answer, NULL), 0);
	ck_assert_uint_eq(register_one(socket, "taken u32 other", sentence, sizeof(sentence)), REFUSAL_NAME_TAKEN);
	ck_assert_msg(has_text(sentence, "taken u32 secret"), "%s", sentence);
	ck_assert_uint_eq(register_one(socket, "taken", sentence, sizeof(sentence)), REFUSAL_NAME_TAKEN);
	ck_assert_uint_eq(raw_query(socket).events, 1);
	ck_assert_uint_eq(count_refusals(&fixture, "name-taken"), 2);
	/* When nobody has it any more, it is free. */
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 1);
	ck_assert(eventually(status_number(&fixture, "events") == 0));
	ck_assert(eventually(!fixture.keeper || !kernel_has("taken")));
	ck_assert_uint_eq(register_one(socket, "taken u32 other", sentence, sizeof(sentence)), 0);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_name_is_taken_by_another_tenant_whose_fields_are_not_told)
{
	struct fixture fixture;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct actor one, another;
	uint32_t refusal;

	fixture_start(&fixture, each_process_a_tenant);
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	ck_assert_uint_eq(status_number(&fixture, "tenants"), 2);
	ck_assert_uint_eq(raw_register(one.socket, "taken u32 secret", NULL, NULL), 0);
	refusal = register_one(another.socket, "taken u32 other", sentence, sizeof(sentence));
	ck_assert_uint_eq(refusal, offers_multi_format(&fixture) ? 0 : REFUSAL_NAME_TAKEN);
	ck_assert_msg(!has_text(sentence, "secret"), "%s", sentence);
	ck_assert_uint_eq(raw_query(another.socket).events, refusal ? 0 : 1);
	if (!refusal) {
		actor_end(&another);
		actor_end(&one);
		fixture_stop(&fixture);
		return;
	}
	/* With the same fields it is the same event, and then there is nothing to hide. */
	ck_assert_uint_eq(register_one(another.socket, "taken u32 secret", sentence, sizeof(sentence)), 0);
	ck_assert_uint_eq(register_one(another.socket, "taken u32 other", sentence, sizeof(sentence)),
			  REFUSAL_NAME_TAKEN);
	ck_assert_msg(has_text(sentence, "secret"), "%s", sentence);
	ck_assert_uint_eq(status_number(&fixture, "charges"), 1);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

static void make_longest(char *description, unsigned number)
{
	snprintf(description, WIRE_DESCRIPTION_MAX + 1, "max_%03u_%0192d char[1024] ", number, 0);
	memset(description + strlen(description), 'f', WIRE_DESCRIPTION_MAX - strlen(description));
	description[WIRE_DESCRIPTION_MAX] = '\0';
}

TEST(as_many_of_the_longest_descriptions_as_make_a_batch_come_in_three_packets)
{
	enum { EVENTS = WIRE_BATCH_MAX, PER_PACKET = 250 };
	static char texts[EVENTS][WIRE_DESCRIPTION_MAX + 1];
	const char *descriptions[EVENTS];
	bool seen[WIRE_PAGE_BITS] = { false };
	uint32_t stream = 0, next = 0;
	struct fixture fixture;
	struct batch batch;
	int socket;

	for (unsigned i = 0; i < EVENTS; i++) {
		make_longest(texts[i], i);
		descriptions[i] = texts[i];
	}
	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	for (size_t from = 0; from < EVENTS; from += PER_PACKET) {
		batch_register(socket, descriptions + from, MIN((size_t)PER_PACKET, EVENTS - from), &batch, NULL);
		for (size_t i = 0; i < batch.count; i++) {
			ck_assert_msg(batch.answer[i].refusal == 0, "%.*s", (int)batch.answer[i].length,
				      batch.answer[i].text);
			ck_assert(!seen[batch.answer[i].bit]);
			next = batch.answer[i].stream == stream ? next + 1 : 0;
			stream = batch.answer[i].stream;
			ck_assert_uint_eq(batch.answer[i].index, next);
			seen[batch.answer[i].bit] = true;
		}
	}
	ck_assert_uint_eq(raw_query(socket).events, EVENTS);
	ck_assert(!seen[0]);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_description_one_byte_too_long_is_refused_with_a_sentence)
{
	char text[WIRE_DESCRIPTION_MAX + 2], sentence[WIRE_SENTENCE_MAX + 1];
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	make_longest(text, 0);
	ck_assert_uint_eq(register_one(socket, text, sentence, sizeof(sentence)), 0);
	memcpy(text + WIRE_DESCRIPTION_MAX, "f", 2);
	ck_assert_uint_eq(register_one(socket, text, sentence, sizeof(sentence)), REFUSAL_BAD_DESCRIPTION);
	ck_assert_msg(has_text(sentence, "511"), "%s", sentence);
	ck_assert_uint_eq(register_one(socket, "", sentence, sizeof(sentence)), REFUSAL_BAD_DESCRIPTION);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

/* Records. */

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

/* What is no record is taken and counted by the daemon; where the kernel is asked itself, it says what is wrong. */
static void expect_bad(const struct fixture *fixture, int stream, const void *record, size_t size, int error)
{
	ssize_t expected = keeps_records_itself(fixture) ? (ssize_t)size : -error;

	ck_assert_int_eq(write_record(stream, record, size), expected);
}

/* What only a daemon that keeps records itself can tell. */
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

TEST(records_by_hand_are_kept_or_refused_or_counted_as_bad)
{
	struct by_hand record = { .number = 42, .text = 4 << 16, .bytes = "you" };
	struct fixture fixture;
	struct answer answer;
	struct timespec now;
	struct seen seen;
	char comm[32] = "";
	int socket, stream = -1;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "by_hand u32 number; __rel_loc char[] text", &answer, &stream), 0);
	record.index = answer.index;
	expect_bad(&fixture, stream, &record, sizeof(record), EBADF); /* off: dropped */
	ck_assert_uint_eq(trace(&fixture, "by_hand", true), 1);
	ck_assert_int_eq(write_record(stream, &record, sizeof(record)), sizeof(record));
	expect_bad(&fixture, stream, &record, 11, EINVAL); /* shorter than its fields */
	expect_bad(&fixture, stream, &record, 4, EINVAL);
	expect_bad(&fixture, stream, &record, 3, EFAULT); /* shorter than an index */
	expect_bad(&fixture, stream, &record, 0, EFAULT);
	record.text = 5 << 16; /* one byte outside */
	expect_bad(&fixture, stream, &record, sizeof(record), EFAULT);
	record.text = 3 << 16; /* ends in no NUL */
	expect_bad(&fixture, stream, &record, sizeof(record), EFAULT);
	record.text = 4 << 16;
	record.index++; /* nobody's */
	expect_bad(&fixture, stream, &record, sizeof(record), ENOENT);

	see(&fixture, "by_hand", &seen);
	ck_assert_uint_eq(seen.records, 1);
	ck_assert_int_eq(seen.pid, getpid());
	ck_assert_str_eq(seen.description, "by_hand u32 number; __rel_loc char[] text");
	expect_by_hand(&seen, 42, "you");
	expect_to_be_counted(&fixture, socket, 1, 7);
	if (keeps_records_itself(&fixture)) {
		ck_assert_uint_eq(event_number(&fixture, "by_hand", "records"), 1);
		ck_assert_uint_eq(event_number(&fixture, "by_hand", "bad"), 4);
		ck_assert_uint_eq(seen.uid, getuid());
		prctl(PR_GET_NAME, comm);
		ck_assert_str_eq(seen.comm, comm);
		clock_gettime(CLOCK_REALTIME, &now);
		ck_assert_uint_le(seen.time / 1000000000, (uint64_t)now.tv_sec);
		ck_assert_uint_gt(seen.time / 1000000000, (uint64_t)now.tv_sec - 60);
	}
	close(stream);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_record_is_its_writers_whoever_registered_the_event)
{
	const uint32_t record[] = { 0, 1 };
	struct fixture fixture;
	struct seen seen;
	int socket, stream = -1, status;
	pid_t child;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "inherited u32 a", NULL, &stream), 0);
	ck_assert_uint_eq(trace(&fixture, "inherited", true), 1);
	child = fork();
	if (child == 0)
		_exit(write(stream, record, sizeof(record)) == sizeof(record) ? EXIT_SUCCESS : EXIT_FAILURE);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	see(&fixture, "inherited", &seen);
	ck_assert_uint_eq(seen.records, 1);
	ck_assert_int_eq(seen.pid, child);
	trace(&fixture, "inherited", false);
	close(stream);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(the_last_records_of_who_leaves_are_not_lost)
{
	const struct by_hand record = { .number = 7, .text = 4 << 16, .bytes = "bye" };
	struct fixture fixture;
	struct seen seen;
	int socket, stream = -1;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "last u32 number; __rel_loc char[] text", NULL, &stream), 0);
	ck_assert_uint_eq(trace(&fixture, "last", true), 1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(write_record(stream, &record, sizeof(record)), sizeof(record));
	close(socket);
	close(stream);
	ck_assert(eventually(status_number(&fixture, "streams") == 0));
	see(&fixture, "last", &seen);
	ck_assert_uint_eq(seen.records, 100);
	expect_by_hand(&seen, 7, "bye");
	ck_assert_uint_eq(trace(&fixture, "last", false), 1);
	fixture_stop(&fixture);
}
END_TEST

static void send_release(int socket, uint32_t bit)
{
	struct packet *to = raw_packet(KIND_RELEASE);
	size_t mark = encode_release(to);

	encode_release_bit(to, bit);
	encode_count(to, mark, 1);
	ck_assert_int_eq(raw_send(socket), 0);
}

/* Begins to tail, from now on and whatever it is called; the first packet says that it is in force. */
static int open_tail(const struct fixture *fixture)
{
	int control = raw_connect(fixture->control);
	struct packet *to = raw_packet(KIND_TAIL);
	size_t mark = encode_strings(to, 0);

	encode_string(to, 0, "*", 1);
	encode_count(to, mark, 1);
	ck_assert_int_eq(raw_send(control), 0);
	expect_kind(control, KIND_ROWS);
	return control;
}

/*
 * So many requests before it that the daemon may read them, and the release or the end behind them, in one go: then it
 * finds the record without having been woken by it.
 */
static void write_and_go(const struct fixture *fixture, unsigned requests, bool release)
{
	const uint32_t record[] = { 0, 7 };
	struct answer answer;
	int socket, stream = -1;

	socket = raw_hello(fixture->socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "gone u32 a", &answer, &stream), 0);
	for (unsigned i = 0; i < requests; i++) {
		encode_lost(raw_packet(KIND_LOST), &(struct wire_lost){ 0 });
		ck_assert_int_eq(raw_send(socket), 0);
	}
	ck_assert_int_eq(write(stream, record, sizeof(record)), sizeof(record));
	if (release)
		send_release(socket, answer.bit);
	close(stream);
	close(socket);
}

TEST(a_record_is_shown_at_once_though_its_event_is_released_or_its_writer_leaves)
{
	struct fixture fixture;
	int tail;

	fixture_start(&fixture, embedded);
	tail = open_tail(&fixture);
	for (unsigned i = 0; i < (is_emulated() ? 100 : 3000); i++) {
		write_and_go(&fixture, i % 8, i / 8 % 2);
		expect_kind(tail, KIND_ROWS);
	}
	close(tail);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_full_stream_never_makes_the_writer_wait)
{
	const uint32_t record = 0;
	struct fixture fixture;
	ssize_t r = 0;
	uint64_t written = 0;
	int socket, stream = -1;

	fixture_start(&fixture, embedded);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "flood", NULL, &stream), 0);
	ck_assert_uint_eq(trace(&fixture, "flood", true), 1);
	ck_assert_int_eq(kill(fixture.pid, SIGSTOP), 0);
	while ((r = write_record(stream, &record, sizeof(record))) == sizeof(record))
		written++;
	ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
	ck_assert_int_eq(r, -EAGAIN);
	ck_assert_uint_gt(written, 0);
	sync_records(&fixture);
	ck_assert_uint_eq(event_number(&fixture, "flood", "records"), written);
	/* And then there is room again. */
	ck_assert_int_eq(write_record(stream, &record, sizeof(record)), sizeof(record));
	close(stream);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

/* Nothing is expected of the answer, and if it is the end, that is not waited for. */
static void send_and_leave(const struct fixture *fixture, const struct sample *sample, const uint8_t *packet,
			   size_t size)
{
	int socket = open_for(fixture, sample);

	send_bytes(socket, packet, size);
	close(socket);
}

/* Of a packet that is cut short there, and says so if it is long enough to; how many were sent. */
static unsigned flip_each_bit(const struct fixture *fixture, const struct sample *sample, size_t length)
{
	uint8_t packet[SAMPLE_MAX];
	unsigned sent = 0;

	build(sample, packet);
	if (length >= sizeof(struct wire_header))
		set_size(packet, length);
	for (size_t bit = 0; bit < 8 * length; bit += is_emulated() ? 10 : 1, sent++) {
		packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
		send_and_leave(fixture, sample, packet, length);
		packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	return sent;
}

TEST(a_packet_with_any_bit_turned_over_leaves_no_trace)
{
	struct fixture fixture;
	char difference[256];
	unsigned sent = 0;
	int bystander;

	fixture_start(&fixture, NULL);
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(&samples[i], packet);

		/* However short it is cut, or whole. */
		for (size_t length = repetitions(0, 1) ? 1 : size; length <= size; length++)
			sent += flip_each_bit(&fixture, &samples[i], length);
		expect_to_work(bystander);
	}
	close(bystander);
	ck_assert_msg(tally_settles(&fixture, &fixture.before, difference, sizeof(difference)), "%s", difference);
	printf("| %u packets with a bit turned over, of each kind, whole and cut short | | | | | |\n", sent);
	fixture_stop(&fixture);
}
END_TEST

/* Nonsense by the thousand. */

struct fuzzer {
	const struct fixture *fixture;
	uint64_t state;
	int socket[8];
};

static uint32_t draw(struct fuzzer *fuzzer, uint32_t below)
{
	/* xorshift64*; the same each time. */
	fuzzer->state ^= fuzzer->state >> 12;
	fuzzer->state ^= fuzzer->state << 25;
	fuzzer->state ^= fuzzer->state >> 27;
	return (uint32_t)((fuzzer->state * UINT64_C(2685821657736338717)) >> 32) % below;
}

/* Two admins, two who have not said hello, four who have. */
static void reopen(struct fuzzer *fuzzer, size_t i)
{
	fd_close(fuzzer->socket[i]);
	if (i < 2)
		fuzzer->socket[i] = raw_connect(fuzzer->fixture->control);
	else if (i < 4)
		fuzzer->socket[i] = raw_connect(fuzzer->fixture->socket);
	else
		fuzzer->socket[i] = raw_hello(fuzzer->fixture->socket, 0, NULL, NULL);
}

static size_t make_noise(struct fuzzer *fuzzer, uint8_t *frame)
{
	size_t size = draw(fuzzer, SAMPLE_MAX);

	for (size_t i = 0; i < size; i++)
		frame[i] = (uint8_t)draw(fuzzer, 256);
	if (size >= 4 && draw(fuzzer, 2))
		set_size(frame, size);
	return size;
}

/* A good packet with a few bytes changed, mostly small ones where small numbers are. */
static size_t make_mutant(struct fuzzer *fuzzer, uint8_t *frame)
{
	size_t size = build(&samples[draw(fuzzer, ARRAY_SIZE(samples))], frame);

	for (uint32_t n = draw(fuzzer, 4); n > 0; n--)
		frame[4 + draw(fuzzer, (uint32_t)size - 4)] = (uint8_t)draw(fuzzer, draw(fuzzer, 2) ? 256 : 4);
	return size;
}

/* Reads what came, and whether there is more to come. */
static bool drain(int socket)
{
	static uint8_t answer[WIRE_PACKET_MAX];
	ssize_t n;

	while ((n = recv(socket, answer, sizeof(answer), MSG_DONTWAIT)) > 0)
		;
	return n < 0 && errno == EAGAIN;
}

static void send_frame(struct fuzzer *fuzzer)
{
	uint8_t frame[SAMPLE_MAX];
	size_t size = draw(fuzzer, 4) ? make_mutant(fuzzer, frame) : make_noise(fuzzer, frame);
	size_t i = draw(fuzzer, ARRAY_SIZE(fuzzer->socket));

	if (transport_send(fuzzer->socket[i], frame, size, NULL, 0, 0) < 0 || !drain(fuzzer->socket[i]))
		reopen(fuzzer, i);
}

TEST(thousands_of_frames_of_nonsense_leave_no_trace)
{
	const unsigned frames = repetitions(20000, 10000000);
	struct fixture fixture;
	struct fuzzer fuzzer = { .fixture = &fixture, .state = 0x5eed };
	char difference[256];
	int bystander;

	fixture_start(&fixture, NULL);
	bystander = raw_hello(fixture.socket, 0, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(fuzzer.socket); i++) {
		fuzzer.socket[i] = -1;
		reopen(&fuzzer, i);
	}
	for (unsigned i = 0; i < frames; i++) {
		send_frame(&fuzzer);
		if (i % 500 == 0)
			expect_to_work(bystander);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fuzzer.socket); i++)
		close(fuzzer.socket[i]);
	close(bystander);
	ck_assert_msg(tally_settles(&fixture, &fixture.before, difference, sizeof(difference)), "%s", difference);
	ck_assert_int_eq(kill(fixture.pid, 0), 0);
	printf("| %u packets of nonsense, most of them nearly right | | | | | |\n", frames);
	fixture_stop(&fixture);
}
END_TEST

SUITE("raw", welcome_says_what_there_is, a_feature_that_was_not_asked_for_is_not_offered,
      the_page_can_be_read_and_not_written, a_packet_cut_short_anywhere_is_refused_and_others_do_not_notice,
      a_packet_that_is_too_long_is_refused_whatever_it_says, an_empty_packet_is_refused_by_name,
      reserved_bytes_and_flags_of_a_header_must_be_zero, no_request_has_streams,
      reserved_bytes_and_flags_of_a_body_must_be_zero, unknown_flags_of_an_event_are_refused_for_that_event,
      unknown_kinds_and_answers_are_no_requests, each_socket_takes_its_own_kinds_only,
      nothing_comes_before_hello_and_hello_comes_once, a_client_that_needs_what_is_not_here_is_told,
      a_packet_that_is_larger_than_the_maximum_is_refused, a_packet_of_the_maximal_size_is_taken,
      fds_attached_to_a_request_are_refused_and_closed, fds_attached_to_a_record_go_nowhere,
      a_batch_of_none_is_answered_with_none, a_batch_is_taken_up_to_its_maximum_and_no_further,
      a_string_with_a_nul_inside_is_malformed, a_hello_that_comes_while_it_is_being_accepted_is_known_to_be_ours,
      a_forked_child_may_go_on_with_the_connection, a_connection_is_of_no_use_to_another_user,
      requests_may_be_sent_before_the_former_are_answered, a_full_batch_of_the_longest_refusals_fits_in_one_answer,
      who_never_reads_is_cut_off_and_meanwhile_others_work,
      who_says_nothing_is_told_and_cut_off_and_who_said_hello_is_not, who_leaves_in_the_middle_leaves_nothing,
      who_has_said_all_still_gets_the_answer, register_again_gives_the_same_and_costs_nothing,
      a_release_frees_what_it_can_and_a_second_one_finds_nothing, what_one_releases_another_keeps,
      who_watches_is_told_of_its_own_events, changes_are_named_up_to_a_number_and_beyond_that_it_says_look_at_all,
      lost_records_are_added_up_and_no_report_is_believed_beyond_reason,
      an_account_has_the_numbers_of_the_tenant_and_of_the_connection,
      a_name_is_taken_in_the_same_tenant_and_the_sentence_says_by_what,
      a_name_is_taken_by_another_tenant_whose_fields_are_not_told,
      as_many_of_the_longest_descriptions_as_make_a_batch_come_in_three_packets,
      a_description_one_byte_too_long_is_refused_with_a_sentence, records_by_hand_are_kept_or_refused_or_counted_as_bad,
      a_record_is_its_writers_whoever_registered_the_event, the_last_records_of_who_leaves_are_not_lost,
      a_record_is_shown_at_once_though_its_event_is_released_or_its_writer_leaves,
      a_full_stream_never_makes_the_writer_wait, a_packet_with_any_bit_turned_over_leaves_no_trace,
      thousands_of_frames_of_nonsense_leave_no_trace)
