/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Limits of events, each at N and N + 1. */

#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

static void expect_refusal_to_cost_nothing(const struct fixture *fixture, int socket, const char *description,
					   uint32_t refusal, const char *part)
{
	struct tally before;
	char difference[256];

	tally_take_at_rest(fixture, &before);
	expect_refusal(socket, description, refusal, part);
	expect_refusal(socket, description, refusal, part);
	/* The daemon may hold something for a moment, such as the file that it looks at. */
	ck_assert_msg(tally_settles(fixture, &before, difference, sizeof(difference)), "a refusal has cost %s",
		      difference);
}

/* Disconnects, which ends the lingering events, and connects again. */
static int come_back(const struct fixture *fixture, int socket)
{
	close(socket);
	await_status(fixture, "streams=0");
	return fixture_client(fixture);
}

DAEMON_TEST(event_after_the_last_is_refused_and_costs_nothing, .options = { "--max-events=3" })
{
	uint32_t bit;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_granted(socket, "one");
	bit = expect_granted(socket, "two");
	expect_granted(socket, "three");
	expect_refusal_to_cost_nothing(fixture, socket, "four", REFUSAL_QUOTA_EXCEEDED, "3 of 3");
	/* It may ask again for an event that it has. */
	ck_assert_uint_eq(expect_granted(socket, "two"), bit);
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 1);
	if (!releases_at_once(fixture)) {
		/* The released event stays on the stream of the others. */
		expect_refusal_to_cost_nothing(fixture, socket, "four", REFUSAL_QUOTA_EXCEEDED, "3 of 3");
		socket = come_back(fixture, socket);
		expect_granted(socket, "one");
		expect_granted(socket, "three");
	}
	expect_granted(socket, "four");
	expect_refusal_to_cost_nothing(fixture, socket, "two", REFUSAL_QUOTA_EXCEEDED, "3 of 3");
}

DAEMON_TEST(tenant_near_its_maximum_is_logged, .options = { "--max-events=5" })
{
	static const char said[] = "comes near to its maximum: it holds 4 of 5 events";
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_granted(socket, "one");
	expect_granted(socket, "two");
	expect_granted(socket, "three");
	ck_assert(!log_has(fixture, "comes near"));
	expect_granted(socket, "four");
	ck_assert(log_has(fixture, said));
	expect_granted(socket, "five");
	ck_assert(!log_has(fixture, "it holds 5 of 5"));
}

DAEMON_TEST(batch_is_granted_as_far_as_it_fits, .options = { "--max-events=2" })
{
	static const char *const descriptions[] = { "one", "one", "bad long x", "two", "three", "one", "four" };
	static const uint32_t expected[] = {
		0, 0, REFUSAL_BAD_DESCRIPTION, 0, REFUSAL_QUOTA_EXCEEDED, 0, REFUSAL_QUOTA_EXCEEDED,
	};
	static struct batch batch;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	batch_register(socket, descriptions, ARRAY_SIZE(descriptions), &batch, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++)
		ck_assert_uint_eq(batch.answer[i].refusal, expected[i]);
	expect_account(socket, "events=2");
}

DAEMON_TEST(tenant_without_events_gets_no_stream, .options = { "--max-events=0" })
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	expect_refusal_to_cost_nothing(fixture, socket, "one", REFUSAL_QUOTA_EXCEEDED, "0 of 0");
	expect_status(fixture, "streams=0");
}

DAEMON_TEST(page_holds_one_event_less_than_it_has_bits, .options = { "--page-bits=4", "--tenants=process" })
{
	struct actor one, another;
	uint32_t bit;

	if (!has_a_page_per_tenant(fixture)) {
		not_possible("a page of four bits, since the kernel numbers the bits");
		return;
	}
	one = actor_new(fixture->socket, NULL);
	another = actor_new(fixture->socket, NULL);
	expect_granted(one.socket, "one");
	bit = expect_granted(one.socket, "two");
	ck_assert_uint_lt(expect_granted(one.socket, "three"), 4);
	expect_refusal_to_cost_nothing(fixture, one.socket, "four", REFUSAL_PAGE_FULL, "no bit left");
	ck_assert_uint_eq(raw_release(one.socket, &bit, 1), 1);
	if (releases_at_once(fixture))
		ck_assert_uint_eq(expect_granted(one.socket, "four"), bit);
	/* Another tenant has a page of its own. */
	expect_granted(another.socket, "one");
	expect_granted(another.socket, "five");
	expect_granted(another.socket, "six");
	expect_refusal_to_cost_nothing(fixture, another.socket, "four", REFUSAL_PAGE_FULL, "no bit left");
	actor_end(&another);
	actor_end(&one);
}

DAEMON_TEST(event_of_two_tenants_is_charged_once, .options = { "--capacity=4", "--tenants=process" })
{
	uint32_t bits[2];
	struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);

	expect_granted(one.socket, "one");
	expect_granted(one.socket, "two");
	bits[0] = expect_granted(another.socket, "two");
	expect_granted(another.socket, "three");
	expect_status(fixture, "charges=3");
	/* The last place is left to a tenant that has none. */
	expect_refusal_to_cost_nothing(fixture, another.socket, "four", REFUSAL_QUOTA_EXCEEDED, "not 1;");
	expect_refusal_to_cost_nothing(fixture, one.socket, "four", REFUSAL_QUOTA_EXCEEDED, "not 1;");
	/* An event of another tenant costs the machine nothing. */
	bits[1] = expect_granted(another.socket, "one");
	/* An event that one of two tenants releases stays. */
	ck_assert_uint_eq(raw_release(another.socket, bits, 2), 2);
	expect_refusal_to_cost_nothing(fixture, another.socket, "four", REFUSAL_QUOTA_EXCEEDED, "not 1;");
	actor_end(&one);
	await_status(fixture, "charges=%u", (unsigned)still_charged(fixture, 3, 2));
	if (releases_at_once(fixture))
		expect_granted(another.socket, "four");
	expect_refusal_to_cost_nothing(fixture, another.socket, "five", REFUSAL_QUOTA_EXCEEDED,
				       releases_at_once(fixture) ? "not 2;" : "not 1;");
}

DAEMON_TEST(full_machine_grants_existing_events_only, .options = { "--capacity=1", "--tenants=process" })
{
	_cleanup_(actor_end) struct actor one = actor_new(fixture->socket, NULL);
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, NULL);

	expect_granted(one.socket, "one");
	expect_refusal_to_cost_nothing(fixture, one.socket, "two", REFUSAL_MACHINE_FULL, "1 of 1");
	expect_refusal_to_cost_nothing(fixture, another.socket, "two", REFUSAL_MACHINE_FULL, "1 of 1");
	expect_granted(another.socket, "one");
}

/* All are granted, `at_once` in a packet; no bit is given twice, and bit 0 never. */
static void fill_page(const struct fixture *fixture, int socket, unsigned n, unsigned at_once)
{
	static bool seen[WIRE_PAGE_BITS] = { true };
	uint32_t bits[WIRE_BATCH_MAX];

	for (unsigned from = 0; from < n; from += at_once) {
		unsigned some = MIN(at_once, n - from);

		take_batch(socket, numbered("number_%u", from, some), some, bits, NULL);
		for (unsigned i = 0; i < some; i++) {
			ck_assert_uint_lt(bits[i], WIRE_PAGE_BITS);
			ck_assert_msg(!seen[bits[i]], "bit %u given twice", bits[i]);
			seen[bits[i]] = true;
		}
	}
	expect_status(fixture, "charges=%u", n);
}

/* With the kernel's events that would take minutes; the next test has fewer. */
DAEMON_TEST(client_may_fill_the_whole_page,
	    .options = { "--max-events=40000", "--backend=embedded", "--capacity=70000" })
{
	enum { ALL = WIRE_PAGE_BITS - 1 };
	uint32_t bit = 12345;
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	fill_page(fixture, socket, ALL, WIRE_BATCH_MAX);
	expect_refusal_to_cost_nothing(fixture, socket, "one_more", REFUSAL_PAGE_FULL, "no bit left");
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 1);
	ck_assert_uint_eq(expect_granted(socket, "one_more"), bit);
	ck_assert_uint_eq(trace(fixture, "*", true), ALL);
	ck_assert_uint_eq(trace(fixture, "*", false), ALL);
}

/* A tenant's fair share is half of the capacity while no other tenant has events. */
DAEMON_TEST(client_may_fill_a_page_of_a_thousand,
	    .options = { "--max-events=40000", "--page-bits=1024", "--capacity=2046" })
{
	_cleanup_(fd_closep) int socket = fixture_client(fixture);

	fill_page(fixture, socket, 1023, 128);
	expect_refusal_to_cost_nothing(fixture, socket, "one_more", REFUSAL_QUOTA_EXCEEDED,
				       "1023 events, a fair share");
	socket = come_back(fixture, socket);
	expect_granted(socket, "one_more");
}
