/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Packets that no client should send: cut short, too long, malformed, out of order, and nonsense by the thousand. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/samples.h"

/* Closes the connection, too. */
static void expect_refused(int socket, const void *bytes, size_t size, uint32_t refusal)
{
	send_bytes(socket, bytes, size);
	expect_cut(socket, refusal);
	close(socket);
}

static void expect_bad_packet(const struct fixture *fixture, const struct sample *sample, const void *bytes,
			      size_t size)
{
	expect_refused(open_for(fixture, sample), bytes, size, REFUSAL_BAD_PACKET);
}

DAEMON_TEST(packet_cut_short_anywhere_is_refused)
{
	_cleanup_(fd_closep) int bystander = fixture_client(fixture);

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(&samples[i], packet);

		for (size_t length = 0; length < size; length++) {
			set_size(packet, size);
			expect_bad_packet(fixture, &samples[i], packet, length);
			set_size(packet, length);
			if (length >= sizeof(struct wire_header))
				expect_bad_packet(fixture, &samples[i], packet, length);
		}
		expect_served(bystander);
	}
}

DAEMON_TEST(packet_longer_than_its_kind_is_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX + 4] = { 0 };
		size_t size = build(&samples[i], packet);

		expect_bad_packet(fixture, &samples[i], packet, size + 1);
		set_size(packet, size + 1);
		expect_bad_packet(fixture, &samples[i], packet, size);
		expect_bad_packet(fixture, &samples[i], packet, size + 1);
		set_size(packet, size + 4);
		expect_bad_packet(fixture, &samples[i], packet, size + 4);
	}
}

DAEMON_TEST(empty_packet_is_refused_by_name)
{
	_cleanup_(fd_closep) int admin = raw_connect(fixture->control);

	expect_refused(fixture_client(fixture), "", 0, REFUSAL_BAD_PACKET);
	/* Packets behind it are not read, and must not turn the refusal into a reset. The daemon may have hung up already. */
	send_bytes(admin, "", 0);
	transport_send(admin, "", 0, NULL, 0, 0);
	transport_send(admin, "x", 1, NULL, 0, 0);
	expect_cut(admin, REFUSAL_BAD_PACKET);
}

static void expect_change_refused(const struct fixture *fixture, const struct sample *sample, size_t at, uint8_t value)
{
	uint8_t packet[SAMPLE_MAX];
	size_t size = build(sample, packet);

	ck_assert_uint_lt(at, size);
	packet[at] = value;
	expect_bad_packet(fixture, sample, packet, size);
}

DAEMON_TEST(reserved_parts_of_a_header_must_be_zero)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		for (size_t at = 12; at < sizeof(struct wire_header); at++)
			expect_change_refused(fixture, &samples[i], at, 1);
		expect_change_refused(fixture, &samples[i], offsetof(struct wire_header, flags), WIRE_MORE);
		expect_change_refused(fixture, &samples[i], offsetof(struct wire_header, flags), 0x80);
		expect_change_refused(fixture, &samples[i], offsetof(struct wire_header, streams), 1);
		expect_change_refused(fixture, &samples[i], offsetof(struct wire_header, streams), 255);
	}
}

DAEMON_TEST(request_with_streams_is_refused)
{
	const uint32_t number = 1;

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		_cleanup_(fd_closep) int socket = open_for(fixture, &samples[i]);
		struct packet *packet = raw_packet(samples[i].kind);

		encode_begin(packet, samples[i].kind, 1, 0, &number, 1);
		if (samples[i].fill)
			samples[i].fill(packet);
		ck_assert_int_eq(raw_send(socket), 0);
		expect_cut(socket, REFUSAL_BAD_PACKET);
	}
}

DAEMON_TEST(unknown_kinds_and_answers_are_refused)
{
	/* 257 is 1 in a byte. */
	static const uint16_t kinds[] = { 0,
					  19,
					  127,
					  143,
					  257,
					  0x7fff,
					  0xffff,
					  KIND_WELCOME,
					  KIND_REGISTERED,
					  KIND_RELEASED,
					  KIND_ACCOUNT,
					  KIND_WATCHING,
					  KIND_CHANGED,
					  KIND_TRACING_OWN,
					  KIND_TRACED,
					  KIND_NATIVE_FILE,
					  KIND_ERROR,
					  KIND_SYNCED,
					  KIND_ROWS,
					  KIND_REFUSED };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const int sockets[] = { raw_connect(fixture->socket), fixture_client(fixture),
					raw_connect(fixture->control) };

		for (size_t n = 0; n < ARRAY_SIZE(sockets); n++) {
			raw_name_case("kind %u on socket %zu", kinds[i], n);
			raw_request(sockets[n], kinds[i]);
			expect_cut(sockets[n], REFUSAL_UNKNOWN_KIND);
			close(sockets[n]);
		}
	}
}

DAEMON_TEST(kind_of_the_other_socket_is_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(&samples[i], packet);

		raw_name_case("%s", samples[i].name);
		expect_refused(samples[i].control ? fixture_client(fixture) : raw_connect(fixture->control), packet,
			       size, REFUSAL_UNKNOWN_KIND);
	}
}

DAEMON_TEST(request_before_hello_or_second_hello_is_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples) && !samples[i].control; i++) {
		bool greeted = samples[i].kind == KIND_HELLO;
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(&samples[i], packet);

		raw_name_case("%s", samples[i].name);
		expect_refused(greeted ? fixture_client(fixture) : raw_connect(fixture->socket), packet, size,
			       REFUSAL_HELLO_FIRST);
	}
}

static uint8_t *large_packet(int socket, size_t size)
{
	static uint8_t packet[WIRE_PACKET_MAX * 2];
	const int room = 4 * WIRE_PACKET_MAX;

	setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	set_size(packet, size);
	packet[offsetof(struct wire_header, kind)] = KIND_QUERY;
	return packet;
}

DAEMON_TEST(packet_above_the_maximum_is_refused)
{
	for (size_t size = WIRE_PACKET_MAX + 1; size <= WIRE_PACKET_MAX + 4096;
	     size = WIRE_PACKET_MAX + (size - WIRE_PACKET_MAX) * 64) {
		int client = fixture_client(fixture), admin = raw_connect(fixture->control);

		expect_refused(client, large_packet(client, size), size, REFUSAL_BAD_PACKET);
		expect_refused(admin, large_packet(admin, size), size, REFUSAL_BAD_PACKET);
	}
}

DAEMON_TEST(packet_of_the_maximal_size_is_taken)
{
	const uint16_t count = (WIRE_PACKET_MAX - sizeof(struct wire_header) - sizeof(struct wire_strings)) / 4;
	struct wire_released released;
	struct raw_reply reply;
	struct packet *to;
	size_t mark;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	to = raw_packet(KIND_RELEASE);
	mark = encode_list(to, 0);
	for (uint32_t i = 0; i < count; i++)
		encode_release_bit(to, i * 131071);
	encode_count(to, mark, count);
	ck_assert_uint_eq(to->size, WIRE_PACKET_MAX);
	raw_ask(socket, KIND_RELEASED, &reply);
	ck_assert_int_eq(decode_fixed(reply.message.body, KIND_RELEASED, &released), 0);
	ck_assert_uint_eq(released.released, 0);
	ck_assert_uint_eq(released.not_held, count);
}

static void expect_fds_to_be_refused(const struct fixture *fixture, const struct sample *sample, size_t n)
{
	uint8_t packet[SAMPLE_MAX];
	size_t size = build(sample, packet);
	_cleanup_(fd_closep) int socket = open_for(fixture, sample);

	/* The connection itself is the worst fd to send: it could keep itself open. */
	if (send_with_fds(socket, packet, size, n == 1 ? socket : STDIN_FILENO, n)) {
		expect_cut(socket, REFUSAL_UNEXPECTED_FDS);
	} else {
		/* The kernel has refused it, so the daemon has seen nothing. */
		send_bytes(socket, packet, size - 1);
		expect_cut(socket, REFUSAL_BAD_PACKET);
	}
}

DAEMON_TEST(fds_attached_to_a_request_are_refused_and_closed)
{
	int bystander = fixture_client(fixture);

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		expect_fds_to_be_refused(fixture, &samples[i], 1);
		expect_fds_to_be_refused(fixture, &samples[i], FDS_AT_ONCE_MAX);
		expect_served(bystander);
	}
	close(bystander);
	expect_settled(fixture);
}

static void expect_strings_refused(int socket, uint16_t kind, uint16_t flags, const char *string, size_t length)
{
	struct packet *to = raw_packet(kind);
	size_t mark = encode_list(to, flags);

	encode_string(to, 0, "good", 4);
	encode_string(to, 0, string, length);
	encode_count(to, mark, 2);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_cut(socket, REFUSAL_BAD_PACKET);
	close(socket);
}

DAEMON_TEST(string_with_a_nul_inside_is_refused)
{
	expect_strings_refused(fixture_client(fixture), KIND_REGISTER, 0, "nul\0 u32 a", 10);
	expect_strings_refused(raw_connect(fixture->control), KIND_TRACE, TRACE_ON, "*\0", 2);
	/* Nothing of the first packet was done. */
	expect_status(fixture, "charges=0");
}

/* The packet is cut to that length, also in its header if it has room for one. How many packets were sent. */
static unsigned flip_each_bit(const struct fixture *fixture, const struct sample *sample, size_t length)
{
	uint8_t packet[SAMPLE_MAX];
	unsigned sent = 0;

	build(sample, packet);
	if (length >= sizeof(struct wire_header))
		set_size(packet, length);
	for (size_t bit = 0; bit < 8 * length; bit += is_emulated() ? 10 : 1, sent++) {
		int socket = open_for(fixture, sample);

		packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
		send_bytes(socket, packet, length);
		close(socket);
		packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	return sent;
}

DAEMON_TEST(packet_with_any_bit_flipped_leaves_no_trace)
{
	unsigned sent = 0;
	int bystander = fixture_client(fixture);

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		uint8_t packet[SAMPLE_MAX];
		size_t size = build(&samples[i], packet);

		/* In a full run cut to each length; otherwise whole. */
		for (size_t length = repetitions(0, 1) ? 1 : size; length <= size; length++)
			sent += flip_each_bit(fixture, &samples[i], length);
		expect_served(bystander);
	}
	close(bystander);
	expect_settled(fixture);
	printf("| %u packets with a bit turned over, of each kind, whole and cut short | | | | | |\n", sent);
}

/* --- nonsense by the thousand --- */

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

/* Two are admins, two have not said hello, four have. */
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

/* Reads everything that came; whether the connection is still open. */
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

DAEMON_TEST(thousands_of_nonsense_packets_leave_no_trace)
{
	const unsigned frames = repetitions(20000, 10000000);
	struct fuzzer fuzzer = { .fixture = fixture, .state = 0x5eed };
	int bystander = fixture_client(fixture);

	for (size_t i = 0; i < ARRAY_SIZE(fuzzer.socket); i++) {
		fuzzer.socket[i] = -1;
		reopen(&fuzzer, i);
	}
	for (unsigned i = 0; i < frames; i++) {
		send_frame(&fuzzer);
		if (i % 500 == 0)
			expect_served(bystander);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fuzzer.socket); i++)
		close(fuzzer.socket[i]);
	close(bystander);
	expect_settled(fixture);
	ck_assert_int_eq(kill(fixture->pid, 0), 0);
	printf("| %u packets of nonsense, most of them nearly right | | | | | |\n", frames);
}
