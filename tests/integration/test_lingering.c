/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Events that nobody leases any more, on streams of which a copy is open somewhere: who pays for them, and how long. And what
 * is released while its stream goes on.
 */

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

/* Whether the kernel has the event, where it is the kernel that has events. */
static bool exists_in_kernel(const struct fixture *fixture, const char *event)
{
	return fixture->keeper && kernel_has(event);
}

/* Two seconds were promised; one more for a busy machine. */
enum { REFUND_MS = 3000 };

DAEMON_TEST(event_lingers_until_its_stream_is_closed)
{
	struct holder holder;
	uint64_t closed;
	int socket, stream = -1;

	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "lingers u32 a", NULL, &stream), 0);
	holder_start(&holder, stream);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(fixture, "lingering") == 1));
	ck_assert_uint_eq(status_number(fixture, "leases"), 0);
	ck_assert_uint_eq(status_number(fixture, "connections"), 0);
	ck_assert_uint_eq(event_number(fixture, "lingers", "lingering"), 1);
	ck_assert_uint_eq(event_number(fixture, "lingers", "holders_total"), 0);
	/* So long that the daemon looks at its rarest. */
	usleep(1500000);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	ck_assert_uint_eq(tenant_number(fixture, "lingering"), 1);
	ck_assert(exists_in_kernel(fixture, "lingers") == !keeps_records_itself(fixture));

	holder_end(&holder);
	closed = clock_us() / 1000;
	ck_assert(eventually(status_number(fixture, "charges") == 0));
	ck_assert_uint_le(clock_us() / 1000 - closed, REFUND_MS);
	ck_assert(eventually(!exists_in_kernel(fixture, "lingers")));
}

DAEMON_TEST(shared_lingering_event_is_refunded_to_its_tenant, .options = { "--tenants=process" })
{
	struct holder holder;
	uint64_t closed;
	int stream = -1;
	struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);

	ck_assert_uint_eq(raw_register(one.socket, "shared u32 a", NULL, &stream), 0);
	ck_assert_uint_eq(raw_register(another.socket, "shared u32 a", NULL, NULL), 0);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	holder_start(&holder, stream);
	close(stream);
	actor_end(&one);
	ck_assert(eventually(status_number(fixture, "lingering") == 1));
	ck_assert_uint_eq(status_number(fixture, "tenants"), 2);
	/* The first that there is: the one that has left. */
	ck_assert_uint_eq(tenant_number(fixture, "events"), 1);
	ck_assert_uint_eq(tenant_number(fixture, "connections"), 0);

	holder_end(&holder);
	closed = clock_us() / 1000;
	ck_assert(eventually(status_number(fixture, "tenants") == 1));
	ck_assert_uint_le(clock_us() / 1000 - closed, REFUND_MS);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	ck_assert_uint_eq(raw_query(another.socket).events, 1);
}

/* Leaves streams behind for eight milliseconds each, all the time. */
static void keep_lingering(const char *path)
{
	for (;;) {
		int stream = -1, socket = raw_hello(path, 0, NULL, NULL);

		raw_register(socket, "restless", NULL, &stream);
		close(socket);
		usleep(8000);
		close(stream);
	}
}

DAEMON_TEST(refund_is_not_delayed_by_streams_of_others, .options = { "--tenants=process" })
{
	int stream = -1, socket;
	pid_t restless = fork();

	if (restless == 0)
		keep_lingering(fixture->socket);
	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "victim", NULL, &stream), 0);
	ck_assert(eventually(status_number(fixture, "tenants") == 2));
	close(socket);
	usleep(100000);
	close(stream);
	ck_assert(eventually(status_number(fixture, "tenants") == 1));
	ck_assert_int_eq(kill(restless, SIGKILL), 0);
	ck_assert_int_eq(waitpid(restless, NULL, 0), restless);
}

DAEMON_TEST(returning_client_gets_no_more_than_its_maximum, .options = { "--max-events=2" })
{
	static const char *const before[] = { "before_a", "before_b" }, *const after[] = { "after_a", "after_b" };
	struct holder holder;
	struct batch batch;
	int socket, stream = -1;

	socket = fixture_client(fixture);
	batch_register(socket, before, 2, &batch, &stream);
	holder_start(&holder, stream);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(fixture, "lingering") == 2));

	socket = fixture_client(fixture);
	batch_register(socket, after, 2, &batch, NULL);
	ck_assert_uint_eq(batch.answer[0].refusal, REFUSAL_QUOTA_EXCEEDED);
	ck_assert_uint_eq(batch.answer[1].refusal, REFUSAL_QUOTA_EXCEEDED);
	/* What is paid for already is there for the asking. */
	batch_register(socket, before, 2, &batch, NULL);
	ck_assert_uint_eq(batch.answer[0].refusal, 0);
	ck_assert_uint_eq(batch.answer[1].refusal, 0);
	ck_assert_uint_eq(raw_query(socket).events, 2);
	ck_assert_uint_eq(raw_query(socket).lingering, 0);
	/* Released here, they are still on the old stream. */
	raw_release(socket, (uint32_t[]){ batch.answer[0].bit, batch.answer[1].bit }, 2);
	ck_assert_uint_eq(raw_query(socket).lingering, 2);
	batch_register(socket, after, 1, &batch, NULL);
	ck_assert_uint_eq(batch.answer[0].refusal, REFUSAL_QUOTA_EXCEEDED);

	holder_end(&holder);
	ck_assert(eventually(raw_query(socket).events == 0));
	batch_register(socket, after, 2, &batch, NULL);
	ck_assert_uint_eq(batch.answer[0].refusal, 0);
	ck_assert_uint_eq(batch.answer[1].refusal, 0);
	close(socket);
}

/* Leaves with copies of its stream in another process; how many of its events it was granted. */
static unsigned leave_copies(const struct fixture *fixture, unsigned round, struct holder *holder)
{
	int socket = raw_hello(fixture->socket, 0, NULL, NULL), stream = -1;
	const char *descriptions[4];
	char names[4][32];
	struct batch batch;
	unsigned granted = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(names[i], sizeof(names[i]), "round_%u_%zu", round, i);
		descriptions[i] = names[i];
	}
	batch_register(socket, descriptions, ARRAY_SIZE(descriptions), &batch, &stream);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		granted += batch.answer[i].refusal == 0;
		ck_assert(exists_in_kernel(fixture, names[i]) == (fixture->keeper && batch.answer[i].refusal == 0));
	}
	holder_start(holder, stream);
	fd_close(stream);
	close(socket);
	return granted;
}

DAEMON_TEST(copies_left_behind_do_not_exceed_the_maximum, .options = { "--max-events=6" })
{
	enum { ROUNDS = 5, MOST = 6 };
	struct holder holders[ROUNDS];
	unsigned granted = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		granted += leave_copies(fixture, i, &holders[i]);
		ck_assert_uint_le(status_number(fixture, "charges"), MOST);
	}
	ck_assert_uint_eq(granted, MOST);
	ck_assert_uint_eq(status_number(fixture, "charges"), MOST);
	for (unsigned i = 0; i < ROUNDS; i++)
		holder_end(&holders[i]);
}

DAEMON_TEST(copy_in_flight_keeps_an_event_lingering)
{
	int socket, stream = -1, post[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, post), 0);
	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "posted u32 a", NULL, &stream), 0);
	ck_assert_int_eq(transport_send(post[0], "x", 1, &stream, 1, 0), 0);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(fixture, "lingering") == 1));
	usleep(1500000);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	close(post[0]);
	close(post[1]);
	ck_assert(eventually(status_number(fixture, "charges") == 0));
}

static uint64_t wake_ups(pid_t pid)
{
	return proc_status(pid, "voluntary_ctxt_switches:", 10);
}

/*
 * How often daemon and keeper were awake in the quietest of some spells of two seconds. (Where streams are not guarded they
 * are looked at for another reason, all of them, every ten seconds.)
 */
static uint64_t wake_ups_at_rest(const struct fixture *fixture)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 4; i++) {
		uint64_t before = wake_ups(fixture->pid) + (fixture->keeper ? wake_ups(fixture->keeper) : 0);

		sleep(2);
		least = MIN(least, wake_ups(fixture->pid) + (fixture->keeper ? wake_ups(fixture->keeper) : 0) - before);
	}
	return least;
}

DAEMON_TEST(streams_without_lingering_events_are_not_checked)
{
	enum { ALIVE = 40, A_LOOK_PER_SECOND = 20 };
	int sockets[ALIVE], streams[ALIVE], socket, stream = -1;
	struct holder holder;

	for (size_t i = 0; i < ALIVE; i++) {
		sockets[i] = fixture_client(fixture);
		streams[i] = -1;
		ck_assert_uint_eq(raw_register(sockets[i], "alive", NULL, &streams[i]), 0);
	}
	ck_assert_uint_eq(wake_ups_at_rest(fixture), 0);
	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "lingers", NULL, &stream), 0);
	holder_start(&holder, stream);
	close(stream);
	close(socket);
	if (!shares_streams(fixture))
		ck_assert(eventually(status_number(fixture, "lingering") == 1));
	ck_assert_uint_lt(wake_ups_at_rest(fixture), A_LOOK_PER_SECOND);
	holder_end(&holder);
	for (size_t i = 0; i < ALIVE; i++) {
		close(sockets[i]);
		close(streams[i]);
	}
}

/* Registers twenty events that nobody has had yet, and gives them back. The stream that they were on, and how many are charged then. */
static uint32_t come_and_go(int socket, unsigned round)
{
	enum { AT_ONCE = 20 };
	uint32_t bits[AT_ONCE];
	struct batch batch;
	int stream = -1;

	batch_register(socket, numbered("passing_%u", round * AT_ONCE, AT_ONCE), AT_ONCE, &batch, &stream);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		ck_assert_uint_eq(batch.answer[i].refusal, 0);
		bits[i] = batch.answer[i].bit;
	}
	ck_assert_uint_eq(raw_release(socket, bits, AT_ONCE), AT_ONCE);
	/* A stream of its own is over now; the first one, on which there is one more, did not come along. */
	fd_close(stream);
	return batch.answer[0].stream;
}

DAEMON_TEST(released_events_do_not_pile_up_on_a_stream)
{
	/* Sixty-four may be dead before a new stream is begun, and twenty more came with the last packet. */
	enum { ROUNDS = 20, CHARGED_MAX = 1 + 64 + 20 + 64 + 20 };
	uint32_t first = 0, stream;
	struct answer answer;
	bool renewed = false;
	int held = -1;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	ck_assert_uint_eq(raw_register(socket, "anchor", &answer, &held), 0);
	first = answer.stream;
	for (unsigned round = 0; round < ROUNDS; round++) {
		stream = come_and_go(socket, round);
		renewed |= stream != first;
		ck_assert(eventually(status_number(fixture, "charges") <= CHARGED_MAX));
		ck_assert(eventually(status_number(fixture, "streams") <= 4));
	}
	ck_assert(renewed == !releases_at_once(fixture));
	/* On the first stream the dead are as long as the living one. */
	ck_assert_uint_eq(raw_query(socket).leases, 1);
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 1);
	close(held);
	ck_assert(eventually(status_number(fixture, "charges") == 0));
}
