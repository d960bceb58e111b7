/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Kernels with user_events: a keeper that dies, foreign events, several formats of one name, a full table of events. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"
#include "tests/integration/policy.h"

#define USER_EVENTS_MAX "/proc/sys/kernel/user_events_max"

DAEMON_TEST(daemon_whose_keeper_dies_logs_it_and_ends, .needs_kernel = "a keeper that dies")
{
	_cleanup_(member_free) struct member member = member_new(fixture, "orphaned");
	int status = fixture_end(fixture, fixture->keeper, SIGKILL);

	ck_assert(has_enablers(fixture) == (fixture->n_enablers > 0));
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
	ck_assert(log_has(fixture, "backend failed"));
	ck_assert_int_lt(access(fixture->socket, F_OK), 0);
	expect_hang_up(fd_steal(&member.socket));
}

static unsigned events_now(void)
{
	_cleanup_(freep) char *events = read_events();

	return count_events(events);
}

DAEMON_TEST(full_kernel_refuses_single_events, .needs_kernel = "a table of events that is full")
{
	static const char *const names[] = { "full_a u32 a", "full_b u32 a", "full_c u32 a", "full_d u32 a" };
	struct janitor janitor;
	struct batch batch;
	unsigned before;
	char number[16];
	int socket;

	if (access(USER_EVENTS_MAX, W_OK) < 0) {
		printf("not possible with this kernel, whose table has no limit: one that is full\n");
		return;
	}
	socket = fixture_client(fixture);
	before = events_now();
	snprintf(number, sizeof(number), "%u", before + 2);
	change_file(&janitor, USER_EVENTS_MAX, number);
	batch_register(socket, names, ARRAY_SIZE(names), &batch, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_uint_eq(batch.answer[i].refusal, i < 2 ? REFUSAL_NONE : REFUSAL_MACHINE_FULL);
	expect_refusal(socket, "full_c u32 a", REFUSAL_MACHINE_FULL, "the kernel takes no more events");
	ck_assert_uint_eq(status_number(fixture, "charges"), 2);
	ck_assert_uint_eq(raw_query(socket).leases, 2);
	ck_assert_uint_eq(events_now(), before + 2);
	/* An existing event is granted. */
	expect_granted(socket, "full_a u32 a");
	janitor_end(&janitor);
	expect_granted(socket, "full_c u32 a");
	ck_assert_uint_eq(status_number(fixture, "charges"), 3);
	close(socket);
}

/* The daemon counts events now and then. */
static bool has_room_for(const struct fixture *fixture, uint64_t events)
{
	return eventually(status_number(fixture, "capacity") == events);
}

TEST(foreign_events_reduce_the_room_for_ours)
{
	enum { ROOM = 8, FOREIGN = 3 };
	struct janitor maximum, one, other;
	struct fixture fixture;
	uint64_t before, foreign_before;
	char number[16];
	int data, socket;
	bool is_limited = access(USER_EVENTS_MAX, W_OK) == 0;

	if (!test_is_possible(&(struct daemon_test){ .needs_kernel = "events that others register" }))
		return;
	if (is_limited) {
		/* The kernel takes a while to delete the events of the test before. */
		ck_assert(eventually(events_now() == 0));
		snprintf(number, sizeof(number), "%u", events_now() + ROOM);
		change_file(&maximum, USER_EVENTS_MAX, number);
	}
	/* With a maximum of its own, the tenant has to leave no share to others. */
	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=100\n", NULL);
	/* Foreign events are counted at the start. */
	ck_assert(eventually(status_number(&fixture, "foreign") == events_now()));
	before = status_number(&fixture, "capacity");
	foreign_before = status_number(&fixture, "foreign");
	ck_assert(!is_limited || before == ROOM);

	foreign_event_begin(&one, "by_hand1 u32 x");
	foreign_event_begin(&other, "by_hand2 u32 x");
	data = open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(register_by_itself(data, "by_a_program u32 x"), 0);
	ck_assert(has_room_for(&fixture, before - FOREIGN));
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	if (is_limited) {
		static const char *const names[] = { "room0", "room1", "room2", "room3", "room4", "room5" };

		for (size_t i = 0; i < ROOM - FOREIGN; i++)
			expect_granted(socket, names[i]);
		/* The daemon refuses it without the kernel. */
		expect_refusal(socket, names[ROOM - FOREIGN], REFUSAL_MACHINE_FULL, "holds 5 of 5 events");
		/* Our own events are not subtracted. */
		ck_assert_uint_eq(status_number(&fixture, "capacity"), ROOM - FOREIGN);
		ck_assert_uint_eq(status_number(&fixture, "foreign"), foreign_before + FOREIGN);
	}

	close(data);
	delete_event("by_a_program");
	janitor_end(&one);
	janitor_end(&other);
	ck_assert(has_room_for(&fixture, before));
	expect_granted(socket, "room5");
	close(socket);
	fixture_stop(&fixture);
	if (is_limited)
		janitor_end(&maximum);
}

/* 100 and 50 for cgroups, and 20 for others. */
static const char fixed_policy[] = "[Daemon]\nSetKernelMaximum=yes\nKernelMargin=20\n"
				   "[/one]\nMaxEvents=100\n[/two]\nReserveEvents=50\n";
enum { FIXED = 170 };

static uint32_t kernel_maximum(void)
{
	FILE *file = fopen(USER_EVENTS_MAX, "re");
	uint32_t maximum = 0;

	ck_assert(file && fscanf(file, "%u", &maximum) == 1);
	fclose(file);
	return maximum;
}

static void expect_fixed_maximum(const char *before)
{
	struct janitor janitor;
	struct fixture fixture;
	int socket;

	change_file(&janitor, USER_EVENTS_MAX, before);
	fixture_start_with_policy(&fixture, fixed_policy, NULL);
	ck_assert(eventually(log_has(&fixture, "kernel.user_events_max is 170 now")));
	ck_assert_uint_eq(kernel_maximum(), FIXED);
	ck_assert(has_room_for(&fixture, FIXED - status_number(&fixture, "foreign")));
	ck_assert_uint_eq(status_number(&fixture, "reserved"), 50);

	/* A changed policy does not set it again. */
	change_policy(&fixture, "[Daemon]\nSetKernelMaximum=yes\n[/one]\nMaxEvents=10\n");
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	expect_granted(socket, "under_a_fixed_maximum u32 a");
	close(socket);
	change_policy(&fixture, "[Daemon]\nSetKernelMaximum=yes\n[/one]\nMaxEvents=1000\n");
	ck_assert_uint_eq(status_number(&fixture, "connections"), 0);
	ck_assert_uint_eq(kernel_maximum(), FIXED);
	fixture_stop(&fixture);
	ck_assert_uint_eq(kernel_maximum(), FIXED);
	janitor_end(&janitor);
}

TEST(kernels_maximum_is_set_once_by_policy)
{
	struct janitor janitor;
	struct fixture fixture;

	if (access(USER_EVENTS_MAX, W_OK) < 0) {
		fixture_start_with_policy(&fixture, fixed_policy, NULL);
		printf("not possible with this kernel, which has none: to set the kernel's maximum\n");
		ck_assert(keeps_records_itself(&fixture) ||
			  eventually(log_has(&fixture, "kernel.user_events_max can't be set")));
		fixture_stop(&fixture);
		return;
	}
	/* It was higher, or lower. */
	expect_fixed_maximum("30000");
	expect_fixed_maximum("40");

	/* Without any number in the policy. */
	change_file(&janitor, USER_EVENTS_MAX, "1000");
	fixture_start_with_policy(&fixture, "[Daemon]\nSetKernelMaximum=yes\n", NULL);
	ck_assert(eventually(log_has(&fixture, "SetKernelMaximum=yes: no section has")));
	fixture_stop(&fixture);
	fixture_start(&fixture, NULL);
	fixture_stop(&fixture);
	ck_assert_uint_eq(kernel_maximum(), 1000);
	janitor_end(&janitor);
}

DAEMON_TEST(foreign_event_is_joined_or_refused, .policy = ONE_FORMAT, .needs_kernel = "a foreign event")
{
	static const char *const taken[] = { "foreign u64 number", "foreign", "foreign u32 number; u32 more",
					     "foreign u32 other" };
	struct janitor janitor;
	struct member member;

	foreign_event_begin(&janitor, "foreign u32 number");
	member = member_new(fixture, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		expect_refusal(member.socket, taken[i], REFUSAL_NAME_TAKEN, "other fields");
	expect_status(fixture, "charges=0");
	member_register(&member, "foreign u32 number");
	ck_assert_uint_eq(trace(fixture, "foreign", true), 1);
	member_emit(&member, 0, 42);
	expect_traced(fixture, &member, 0);
	trace(fixture, "foreign", false);
	member_free(&member);
	await_status(fixture, "streams=0");
	sleep(2);
	ck_assert(kernel_has("foreign"));
	janitor_end(&janitor);
}

/* The client registers the event, which is traced, and disconnects. */
static void leave_it_traced(struct fixture *fixture, const char *description)
{
	int socket = raw_hello(fixture->socket, 0, NULL, NULL);

	expect_granted(socket, description);
	ck_assert_uint_eq(trace(fixture, "traced", true), 1);
	close(socket);
	ck_assert(eventually(status_number(fixture, "streams") == 0));
	ck_assert(kernel_has("traced"));
}

DAEMON_TEST(event_traced_at_release_goes_after_tracing, .policy = ONE_FORMAT,
	    .needs_kernel = "an event that only a tracer has")
{
	int socket;

	leave_it_traced(fixture, "traced u32 a");
	ck_assert_uint_eq(trace(fixture, "traced", false), 1);
	ck_assert(eventually(!kernel_has("traced")));

	/* Until then the name is taken, and the same event can be registered again. */
	leave_it_traced(fixture, "traced u32 a");
	socket = fixture_client(fixture);
	expect_refusal(socket, "traced u64 b", REFUSAL_NAME_TAKEN, "other fields");
	ck_assert_uint_eq(status_number(fixture, "charges"), 0);
	expect_granted(socket, "traced u32 a");
	ck_assert_uint_eq(trace(fixture, "traced", false), 1);
	sleep(2);
	ck_assert(kernel_has("traced"));
	close(socket);
	ck_assert(eventually(!kernel_has("traced")));
}
