/* SPDX-License-Identifier: GPL-2.0-or-later */

/* userevd-keeper without a guard: holders of streams change locks and register events themselves. The test is the daemon, and the holders. */

#include <fcntl.h>
#include <stdio.h>

#include "tests/integration/fixture.h"
#include "tests/integration/keeper.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"

static const char *const unguarded[] = { "--guard=off", NULL };

enum { PAGE = 1 };

/* A test of an unguarded keeper with streams 1 and on, on one page. They are closed after it, unless the test has closed them. */
#define STREAMS_TEST(name, n)                                                                                          \
	static void name##_with(struct keeper *keeper, int *stream);                                                   \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		run_with_streams(n, name##_with);                                                                      \
	}                                                                                                              \
	static void name##_with(struct keeper *keeper, int *stream)

static void run_with_streams(unsigned n, void (*test)(struct keeper *, int *stream))
{
	struct keeper keeper;
	int stream[2];

	if (!need_keeper(&keeper, unguarded))
		return;
	ck_assert_int_eq(keeper_do(&keeper, page_new(PAGE)), KERNEL_OK);
	for (unsigned i = 0; i < n; i++) {
		struct kernel_call call = stream_new(i + 1, PAGE);

		ck_assert(keeper_ask(&keeper, &call, 1));
		ck_assert_int_eq(call.result, KERNEL_OK);
		stream[i] = call.fd;
	}
	test(&keeper, stream);
	for (unsigned i = 0; i < n; i++)
		fd_close(stream[i]);
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
}

static struct kernel_call answer_of(struct keeper *keeper, struct kernel_call call)
{
	ck_assert_msg(keeper_ask(keeper, &call, 1), "%s", keeper->sentence);
	return call;
}

static int free_stream(struct keeper *keeper, uint32_t stream)
{
	return keeper_do(keeper, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = stream });
}

static int still_open(struct keeper *keeper, uint32_t stream)
{
	return keeper_do(keeper,
			 (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = stream, .index = KERNEL_UNGUARDED });
}

/* Before Linux 6.4 the kernel keeps self-registered events. */
static void forget_rogue(const char *event)
{
	delete_event(event);
	ck_assert(eventually(!kernel_has(event)));
}

/* --- names --- */

STREAMS_TEST(name_of_a_removed_event_settles, 2)
{
	struct kernel_call call;

	ck_assert_int_eq(keeper_do(keeper, register_on(1, "keeper_name u32 a")), KERNEL_OK);
	ck_assert_int_eq(free_stream(keeper, 1), KERNEL_OK);
	call = answer_of(keeper, register_on(2, "keeper_name u64 a"));
	/* Before Linux 6.4 the keeper deletes an event, and this one is in use. */
	if (keeper->facts.backend == BACKEND_ENABLE_ADDRESS)
		ck_assert_int_eq(call.result, KERNEL_E_SETTLING);
	else
		ck_assert_int_eq(call.result, KERNEL_E_NAME_TAKEN);
	stream[0] = fd_close(stream[0]);
	ck_assert(eventually(keeper_do(keeper, register_on(2, "keeper_name u64 a")) == KERNEL_OK));
}

STREAMS_TEST(name_of_a_foreign_event_is_refused_at_once, 2)
{
	ck_assert_int_eq(register_by_itself(stream[0], "keeper_foreign u32 a"), 0);
	ck_assert_int_eq(keeper_do(keeper, register_on(2, "keeper_own u32 a")), KERNEL_OK);
	stream[1] = fd_close(stream[1]);
	ck_assert_int_eq(free_stream(keeper, 2), KERNEL_OK);
	ck_assert_int_eq(keeper_do(keeper, register_on(1, "keeper_foreign u64 a")), KERNEL_E_NAME_TAKEN);
	stream[0] = fd_close(stream[0]);
	ck_assert_int_eq(free_stream(keeper, 1), KERNEL_OK);
	forget_rogue("keeper_foreign");
}

/* --- registering --- */

STREAMS_TEST(index_behind_foreign_event_is_noticed, 1)
{
	struct kernel_call call;

	call = answer_of(keeper, register_on(1, "keeper_first u32 a"));
	ck_assert_uint_eq(call.number, 0);
	ck_assert_int_eq(register_by_itself(stream[0], "keeper_rogue u32 a"), 0);
	call = answer_of(keeper, register_on(1, "keeper_second u32 a"));
	ck_assert_int_eq(call.result, KERNEL_OK);
	ck_assert_uint_eq(call.index, 2);
	ck_assert_uint_eq(call.number, 1);
	call = answer_of(keeper, register_on(1, "keeper_third u32 a"));
	ck_assert_uint_eq(call.number, 1);
	ck_assert_int_eq(keeper_do(keeper, (struct kernel_call){ .op = KERNEL_CLEAN, .stream = 1 }),
			 KERNEL_E_SELF_REGISTERED);
	stream[0] = fd_close(stream[0]);
	ck_assert_int_eq(free_stream(keeper, 1), KERNEL_OK);
	forget_rogue("keeper_rogue");
}

/* New events of the page, and events that it has already. */
STREAMS_TEST(own_indexes_are_not_self_registered, 2)
{
	enum { EVENTS = 60 };
	static char texts[EVENTS][32];
	static struct kernel_call calls[2 * EVENTS];

	for (unsigned i = 0; i < EVENTS; i++) {
		snprintf(texts[i], sizeof(texts[i]), "keeper_%u u32 a", i);
		calls[i] = register_on(i % 2 + 1, texts[i]);
	}
	ck_assert(keeper_ask(keeper, calls, EVENTS));
	for (unsigned i = 0; i < EVENTS; i++)
		ck_assert_uint_eq(calls[i].number, 0);
	for (unsigned i = 0; i < EVENTS; i++)
		calls[i] = register_on(1, texts[i]);
	ck_assert(keeper_ask(keeper, calls, EVENTS));
	for (unsigned i = 0; i < EVENTS; i++) {
		ck_assert_int_eq(calls[i].result, KERNEL_OK);
		ck_assert_uint_eq(calls[i].number, 0);
	}
	ck_assert_int_eq(keeper_do(keeper, (struct kernel_call){ .op = KERNEL_CLEAN, .stream = 1 }), KERNEL_OK);
	stream[0] = fd_close(stream[0]);
}

STREAMS_TEST(event_registered_before_lingering_is_found, 1)
{
	ck_assert_int_eq(keeper_do(keeper, register_on(1, "keeper_first u32 a")), KERNEL_OK);
	ck_assert_int_eq(register_by_itself(stream[0], "keeper_rogue u32 a"), 0);
	ck_assert_int_eq(still_open(keeper, 1), KERNEL_E_SELF_REGISTERED);
	ck_assert_int_eq(still_open(keeper, 1), KERNEL_E_SELF_REGISTERED);
	stream[0] = fd_close(stream[0]);
	ck_assert(eventually(still_open(keeper, 1) == KERNEL_E_GONE));
	ck_assert_int_eq(free_stream(keeper, 1), KERNEL_OK);
	forget_rogue("keeper_rogue");
}

static struct kernel_call look(struct keeper *keeper)
{
	return answer_of(keeper, (struct kernel_call){ .op = KERNEL_LOOK });
}

STREAMS_TEST(event_registered_while_lingering_is_counted, 1)
{
	struct kernel_call before, after;

	ck_assert_int_eq(keeper_do(keeper, register_on(1, "keeper_first u32 a")), KERNEL_OK);
	before = look(keeper);
	ck_assert_int_eq(still_open(keeper, 1), KERNEL_OK);
	after = look(keeper);
	/* The keeper's own event is not counted. */
	ck_assert_uint_eq(after.index - after.number, before.index - before.number);
	ck_assert_int_eq(register_by_itself(stream[0], "keeper_rogue u32 a"), 0);
	after = look(keeper);
	ck_assert_uint_eq(after.index - after.number, before.index - before.number + 1);
	stream[0] = fd_close(stream[0]);
	ck_assert(eventually(still_open(keeper, 1) == KERNEL_E_GONE));
	ck_assert_int_eq(free_stream(keeper, 1), KERNEL_OK);
	forget_rogue("keeper_rogue");
}

/* --- locks --- */

STREAMS_TEST(stream_without_lock_is_still_open, 1)
{
	ck_assert_int_eq(keeper_do(keeper, register_on(1, "keeper_first u32 a")), KERNEL_OK);
	ck_assert_int_eq(change_lock(stream[0], F_UNLCK, 0, 0), 0);
	ck_assert_int_eq(still_open(keeper, 1), KERNEL_OK);
	ck_assert_int_eq(change_lock(stream[0], F_UNLCK, 0, 0), 0);
	ck_assert_int_eq(still_open(keeper, 1), KERNEL_OK);
	stream[0] = fd_close(stream[0]);
	ck_assert(eventually(still_open(keeper, 1) == KERNEL_E_GONE));
}

/* By a program that waited for the byte. */
STREAMS_TEST(stream_with_foreign_lock_is_gone, 2)
{
	struct kernel_call call;

	call = answer_of(keeper, (struct kernel_call){ .op = KERNEL_STREAM_FETCH, .stream = 1 });
	ck_assert_int_eq(call.result, KERNEL_OK);
	close(call.fd);
	ck_assert_int_eq(still_open(keeper, 1), KERNEL_OK);
	stream[0] = fd_close(stream[0]);
	ck_assert(eventually(change_lock(stream[1], F_WRLCK, call.number, 1) == 0));
	ck_assert(eventually(still_open(keeper, 1) == KERNEL_E_GONE));
}

/* A guarded stream has its lock, and no witness. */
STREAMS_TEST(guarded_stream_has_no_witness, 1)
{
	struct kernel_call before, after, call = { .op = KERNEL_STILL_OPEN, .stream = 1 };

	before = look(keeper);
	ck_assert_int_eq(keeper_do(keeper, call), KERNEL_OK);
	after = look(keeper);
	ck_assert_uint_eq(after.number, 0);
	ck_assert_uint_eq(after.index, before.index);
	stream[0] = fd_close(stream[0]);
	ck_assert_int_eq(keeper_do(keeper, call), KERNEL_E_GONE);
}

STREAMS_TEST(witness_of_dead_keeper_goes_with_its_file, 1)
{
	char event[64];
	_cleanup_(freep) char *before = keeper->events_before;

	keeper->events_before = NULL;
	ck_assert_int_eq(still_open(keeper, 1), KERNEL_OK);
	keeper_kill(keeper);
	ck_assert(keeper_start(keeper, unguarded));
	ck_assert(find_new_event(before, event, sizeof(event)));
	ck_assert_msg(strncmp(event, "userevd_", 8) == 0, "%s", event);
	stream[0] = fd_close(stream[0]);
	ck_assert(eventually(!find_new_event(before, event, sizeof(event))));
}
