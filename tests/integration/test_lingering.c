/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Events without a lease, on streams of which a copy is open: which tenant pays for them, and how long. And events that are released
 * while their stream stays in use.
 */

#include <signal.h>

#include "tests/integration/actor.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

/* Longer than the longest time between two checks of the daemon. */
enum { LONG_US = 1200000 };

static bool exists_in_kernel(const struct fixture *fixture, const char *event)
{
	return fixture->keeper && kernel_has(event);
}

DAEMON_TEST(event_lingers_until_its_stream_is_closed)
{
	struct holder holder;

	leave_event(&holder, fixture_client(fixture), "lingers u32 a");
	await_status(fixture, "lingering=1 leases=0 connections=0");
	ck_assert_uint_eq(event_number(fixture, "lingers", "lingering"), 1);
	ck_assert_uint_eq(event_number(fixture, "lingers", "holders_total"), 0);
	usleep(LONG_US);
	expect_status(fixture, "charges=1");
	expect_tenant(fixture, "lingering=1");
	ck_assert(exists_in_kernel(fixture, "lingers") == !keeps_records_itself(fixture));

	holder_end(&holder);
	await_refund(fixture, "charges=0");
	ck_assert(eventually(!exists_in_kernel(fixture, "lingers")));
}

DAEMON_TEST(shared_lingering_event_is_refunded_to_its_tenant, .options = { "--tenants=process" })
{
	struct holder holder;
	int stream = -1;
	struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);

	ck_assert_uint_eq(raw_register(one.socket, "shared u32 a", NULL, &stream), 0);
	expect_granted(another.socket, "shared u32 a");
	expect_status(fixture, "charges=1");
	leave_copy(&holder, fd_steal(&one.socket), stream);
	actor_end(&one);
	await_status(fixture, "lingering=1 tenants=2");
	/* The tenant that has disconnected. */
	expect_tenant(fixture, "events=1 connections=0");

	holder_end(&holder);
	await_refund(fixture, "tenants=1 charges=1");
	expect_account(another.socket, "events=1");
}

/* Leaves streams behind for eight milliseconds each, all the time. */
static _Noreturn void keep_lingering(const struct fixture *fixture)
{
	for (;;) {
		int stream = -1, socket = fixture_client(fixture);

		raw_register(socket, "restless", NULL, &stream);
		close(socket);
		usleep(8000);
		close(stream);
	}
}

DAEMON_TEST(refund_is_not_delayed_by_streams_of_others, .options = { "--tenants=process" })
{
	int stream = -1, socket;
	pid_t restless = start_process();

	if (restless == 0)
		keep_lingering(fixture);
	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "victim", NULL, &stream), 0);
	await_status(fixture, "tenants=2");
	close(socket);
	usleep(100000);
	close(stream);
	await_status(fixture, "tenants=1");
	kill_process(restless);
}

DAEMON_TEST(returning_client_gets_no_more_than_its_maximum, .options = { "--max-events=2" })
{
	static const char *const before[] = { "before_a", "before_b" }, *const after[] = { "after_a", "after_b" };
	static struct batch batch;
	struct holder holder;
	uint32_t bits[2];
	int socket = fixture_client(fixture), stream = -1;

	take_batch(socket, before, 2, NULL, &stream);
	leave_copy(&holder, socket, stream);
	await_status(fixture, "lingering=2");

	socket = fixture_client(fixture);
	batch_register(socket, after, 2, &batch, NULL);
	batch_expect(&batch, REFUSAL_QUOTA_EXCEEDED);
	/* An event that is charged already is granted. */
	take_batch(socket, before, 2, bits, NULL);
	expect_account(socket, "events=2 lingering=0");
	/* Released, they are still on the old stream. */
	raw_release(socket, bits, 2);
	expect_account(socket, "lingering=2");
	expect_refusal(socket, after[0], REFUSAL_QUOTA_EXCEEDED, "");

	holder_end(&holder);
	ck_assert(eventually(raw_query(socket).events == 0));
	take_batch(socket, after, 2, NULL, NULL);
	close(socket);
}

DAEMON_TEST(copy_in_flight_keeps_an_event_lingering)
{
	int stream = -1, post[2], socket = fixture_client(fixture);

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, post), 0);
	ck_assert_uint_eq(raw_register(socket, "posted u32 a", NULL, &stream), 0);
	ck_assert_int_eq(transport_send(post[0], "x", 1, &stream, 1, 0), 0);
	close(stream);
	close(socket);
	await_status(fixture, "lingering=1");
	usleep(LONG_US);
	expect_status(fixture, "charges=1");
	close(post[0]);
	close(post[1]);
	await_status(fixture, "charges=0");
}

DAEMON_TEST(streams_without_lingering_events_are_not_checked)
{
	enum { ALIVE = 40, LESS_THAN_A_CHECK_PER_SECOND = 19 };
	int sockets[ALIVE], streams[ALIVE];
	struct holder holder;

	for (size_t i = 0; i < ALIVE; i++) {
		sockets[i] = fixture_client(fixture);
		streams[i] = -1;
		ck_assert_uint_eq(raw_register(sockets[i], "alive", NULL, &streams[i]), 0);
	}
	expect_wake_ups(fixture, 0);
	leave_event(&holder, fixture_client(fixture), "lingers");
	if (!shares_streams(fixture))
		await_status(fixture, "lingering=1");
	expect_wake_ups(fixture, LESS_THAN_A_CHECK_PER_SECOND);
	holder_end(&holder);
	for (size_t i = 0; i < ALIVE; i++) {
		close(sockets[i]);
		close(streams[i]);
	}
}

/* Registers twenty new events and releases them. Returns the stream that they were on. */
static uint32_t come_and_go(int socket, unsigned round)
{
	enum { AT_ONCE = 20 };
	uint32_t bits[AT_ONCE], on;
	int stream = -1;

	on = take_batch(socket, numbered("passing_%u", round * AT_ONCE, AT_ONCE), AT_ONCE, bits, &stream);
	ck_assert_uint_eq(raw_release(socket, bits, AT_ONCE), AT_ONCE);
	/* A new stream ends now. The first one, which has another event, is not sent again. */
	fd_close(stream);
	return on;
}

DAEMON_TEST(released_events_do_not_pile_up_on_a_stream)
{
	/* A stream may have sixty-four dead events before a new one is begun, and the last packet brought twenty more. */
	enum { ROUNDS = 20, CHARGED_MAX = 1 + 64 + 20 + 64 + 20 };
	struct answer answer;
	bool renewed = false;
	int held = -1;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	ck_assert_uint_eq(raw_register(socket, "anchor", &answer, &held), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		renewed |= come_and_go(socket, round) != answer.stream;
		ck_assert(eventually(status_number(fixture, "charges") <= CHARGED_MAX));
		ck_assert(eventually(status_number(fixture, "streams") <= 4));
	}
	ck_assert(renewed == !releases_at_once(fixture));
	/* The dead events of the first stream end with its living one. */
	expect_account(socket, "leases=1");
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 1);
	close(held);
	await_status(fixture, "charges=0");
}
