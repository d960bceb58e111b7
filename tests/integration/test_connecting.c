/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A connection: its HELLO and its page, which users may send on it, and how it ends. Packets by hand. */

#include <stdio.h>

#include "tests/integration/actor.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"
#include "tests/integration/policy.h"
#include "tests/integration/samples.h"

static uint64_t features(const struct fixture *fixture)
{
	return WIRE_FEATURE_WATCH | (offers_multi_format(fixture) ? WIRE_FEATURE_MULTI_FORMAT : 0);
}

DAEMON_TEST(welcome_has_the_limits_and_features, .options = { "--page-bits=64", "--max-events=7" })
{
	struct wire_welcome welcome;
	struct string_item tenant;
	struct raw_reply reply;
	_cleanup_(fd_closep) int socket = raw_connect(fixture->socket);

	encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &(struct wire_hello){ .understands = UINT64_MAX });
	raw_ask(socket, KIND_WELCOME, &reply);
	ck_assert_uint_eq(reply.message.flags, 0);
	ck_assert_uint_eq(reply.message.streams, 0);
	ck_assert_int_eq(decode_welcome(reply.message.body, &welcome, &tenant), 0);

	ck_assert_uint_eq(welcome.features, features(fixture));
	ck_assert_uint_eq(welcome.page_bytes, WIRE_PAGE_BYTES);
	ck_assert_uint_eq(welcome.page_bits, has_a_page_per_tenant(fixture) ? 64 : WIRE_PAGE_BITS);
	ck_assert_uint_eq(welcome.payload_max, WIRE_PAYLOAD_MAX);
	ck_assert_uint_eq(welcome.packet_max, WIRE_PACKET_MAX);
	ck_assert_uint_eq(welcome.batch_max, WIRE_BATCH_MAX);
	ck_assert_uint_eq(welcome.events_max, 7);
	ck_assert_uint_eq(welcome.backend, fixture->backend);
	ck_assert_uint_gt(tenant.length, 0);
	ck_assert_int_eq(tenant.text[0], '/');
	raw_reply_deinit(&reply);
}

DAEMON_TEST(feature_not_asked_for_is_not_offered)
{
	struct wire_welcome welcome;

	close(raw_hello(fixture->socket, ~WIRE_FEATURE_WATCH, &welcome, NULL));
	ck_assert_uint_eq(welcome.features, features(fixture) & ~WIRE_FEATURE_WATCH);
	close(raw_hello(fixture->socket, 0, &welcome, NULL));
	ck_assert_uint_eq(welcome.features, 0);
}

DAEMON_TEST(needed_feature_that_is_missing_is_refused)
{
	int socket;

	for (int bit = 0; bit < 64; bit++) {
		const struct wire_hello hello = { .needs = UINT64_C(1) << bit };

		socket = raw_connect(fixture->socket);
		encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &hello);
		ck_assert_int_eq(raw_send(socket), 0);
		if (hello.needs & features(fixture))
			expect_kind(socket, KIND_WELCOME);
		else
			expect_cut(socket, REFUSAL_FEATURE_MISSING);
		close(socket);
	}
}

DAEMON_TEST(hello_sent_during_accept_is_answered)
{
	for (unsigned i = 0; i < (is_emulated() ? 100 : 3000); i++) {
		_cleanup_(fd_closep) int socket = raw_connect(fixture->socket);

		/* A little later each time, so that some of them hit the moment. */
		for (volatile unsigned spin = i % 64 * 200; spin > 0; spin--)
			;
		raw_say_hello(socket);
		expect_kind(socket, KIND_WELCOME);
	}
}

DAEMON_TEST(forked_child_may_use_the_connection)
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);
	pid_t child = start_process();

	if (child == 0) {
		raw_request(socket, KIND_QUERY);
		_exit(EXIT_SUCCESS);
	}
	await_success(child);
	expect_kind(socket, KIND_ACCOUNT);
	expect_served(socket);
}

DAEMON_TEST(pipelined_requests_are_answered_in_order)
{
	enum { ROUNDS = 40 };
	static const uint16_t answers[] = { KIND_REGISTERED, KIND_WATCHING, KIND_RELEASED, KIND_ACCOUNT };
	uint32_t serials[1 + ROUNDS * ARRAY_SIZE(answers)];
	static const uint16_t requests[] = { KIND_REGISTER, KIND_WATCH, KIND_LOST, KIND_RELEASE, KIND_QUERY };
	struct raw_reply reply;
	uint8_t packet[SAMPLE_MAX];
	size_t n = 0;
	_cleanup_(fd_closep) int socket = raw_connect(fixture->socket);

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
}

/* 512 events that are refused with the longest sentence, in one packet of requests. */
static void put_long_refusals(int socket, struct batch *ret)
{
	static char taken[WIRE_DESCRIPTION_MAX + 1], name[64];
	const char *same[WIRE_BATCH_MAX];

	memset(name, 'n', sizeof(name) - 1);
	snprintf(taken, sizeof(taken), "%s u64 ", name);
	memset(taken + strlen(taken), 'f', sizeof(taken) - 1 - strlen(taken));
	batch_register(socket, (const char *const[]){ taken }, 1, ret, NULL);
	batch_expect(ret, 0);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		same[i] = name;
	batch_put(same, ARRAY_SIZE(same));
}

DAEMON_TEST(full_batch_of_longest_refusals_fits_one_answer, .policy = ONE_FORMAT)
{
	static struct batch batch;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	put_long_refusals(socket, &batch);
	batch_ask(socket, &batch);
	ck_assert_uint_eq(batch.count, WIRE_BATCH_MAX);
	batch_expect(&batch, REFUSAL_NAME_TAKEN);
	for (size_t i = 0; i < batch.count; i++) {
		ck_assert_uint_eq(batch.answer[i].length, WIRE_SENTENCE_MAX);
		ck_assert_uint_eq(batch.answer[i].bit, 0);
	}
	ck_assert_uint_eq(refusal_count(fixture, "name-taken"), WIRE_BATCH_MAX);
	expect_served(socket);
}

DAEMON_TEST(client_that_never_reads_is_disconnected, .policy = ONE_FORMAT, .options = { "--client-timeout=1" })
{
	static struct batch batch;
	const struct packet *packet;
	_cleanup_(fd_closep) int bystander = fixture_client(fixture);
	_cleanup_(fd_closep) int slow = fixture_client(fixture);

	put_long_refusals(slow, &batch);
	/* The daemon stops reading when its queue is full; then the client's is filled. */
	packet = raw_finish();
	while (transport_send(slow, packet->data, packet->size, NULL, 0, MSG_DONTWAIT) == 0)
		;
	for (int i = 0; status_number(fixture, "connections") == 2; i++) {
		ck_assert_msg(i < 6000, "the client is not disconnected");
		expect_served(bystander);
		usleep(10000);
	}
	ck_assert_uint_eq(refusal_count(fixture, "too-slow"), 1);
	/* The bystander is not disconnected, although it sends little. */
	expect_served(bystander);
}

DAEMON_TEST(client_silent_before_hello_is_disconnected, .options = { "--client-timeout=1" })
{
	_cleanup_(fd_closep) int greeted = fixture_client(fixture);
	_cleanup_(fd_closep) int admin = raw_connect(fixture->control);
	int silent = raw_connect(fixture->socket);

	expect_cut(silent, REFUSAL_TOO_SLOW);
	close(silent);
	expect_served(greeted);
	ck_assert_uint_eq(raw_rows(admin, KIND_EVENTS, 0, NULL, NULL, NULL), 0);
}

DAEMON_TEST(client_that_leaves_amid_requests_leaves_nothing)
{
	static struct batch batch;

	for (int i = 0; i < (is_emulated() ? 10 : 50); i++) {
		int socket = fixture_client(fixture);

		put_long_refusals(socket, &batch);
		ck_assert_int_eq(raw_send(socket), 0);
		raw_packet(KIND_QUERY);
		raw_send(socket);
		close(socket);
		close(raw_connect(fixture->socket));
		close(raw_connect(fixture->control));
	}
	expect_settled(fixture);
}

DAEMON_TEST(half_closed_client_still_gets_its_answer)
{
	struct raw_reply reply;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	raw_request(socket, KIND_QUERY);
	ck_assert_int_eq(shutdown(socket, SHUT_WR), 0);
	expect_kind(socket, KIND_ACCOUNT);
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.size, 0);
}
