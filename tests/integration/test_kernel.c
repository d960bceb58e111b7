/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Kernels with user_events: a keeper that dies, foreign events, several formats of one name, a full table of events. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "kernel/uapi.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

#define USER_EVENTS_MAX "/proc/sys/kernel/user_events_max"

TEST(daemon_whose_keeper_dies_logs_it_and_ends)
{
	struct fixture fixture;
	struct raw_reply reply;
	int socket, stream = -1, status;

	fixture_start(&fixture, NULL);
	if (!need_kernel(&fixture, "a keeper that dies"))
		return;
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "orphaned", NULL, &stream), 0);
	fixture.n_enablers = children_of(fixture.keeper, NULL, fixture.enablers, ARRAY_SIZE(fixture.enablers));
	ck_assert(has_enablers(&fixture) == (fixture.n_enablers > 0));
	ck_assert_int_eq(kill(fixture.keeper, SIGKILL), 0);
	ck_assert_int_eq(waitpid(fixture.pid, &status, 0), fixture.pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
	ck_assert(log_has(&fixture, "backend failed"));
	ck_assert_int_lt(access(fixture.socket, F_OK), 0);
	raw_receive(socket, &reply);
	ck_assert_int_le(reply.size, 0);
	close(stream);
	close(socket);
	fixture_abandon(&fixture);
}

static unsigned count_events(void)
{
	_cleanup_(freep) char *events = read_events();
	unsigned n = 0;

	for (const char *at = strchr(events, '\n'); at; at = strchr(at + 1, '\n'))
		n++;
	return n - 1;
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
	before = count_events();
	snprintf(number, sizeof(number), "%u", before + 2);
	change_file(&janitor, USER_EVENTS_MAX, number);
	batch_register(socket, names, ARRAY_SIZE(names), &batch, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_uint_eq(batch.answer[i].refusal, i < 2 ? REFUSAL_NONE : REFUSAL_MACHINE_FULL);
	expect_refusal(socket, "full_c u32 a", REFUSAL_MACHINE_FULL, "the kernel takes no more events");
	ck_assert_uint_eq(status_number(fixture, "charges"), 2);
	ck_assert_uint_eq(raw_query(socket).leases, 2);
	ck_assert_uint_eq(count_events(), before + 2);
	/* An existing event is granted. */
	expect_granted(socket, "full_a u32 a");
	janitor_end(&janitor);
	expect_granted(socket, "full_c u32 a");
	ck_assert_uint_eq(status_number(fixture, "charges"), 3);
	close(socket);
}

static void add_dynamic_event(const char *description)
{
	char line[256];

	snprintf(line, sizeof(line), "u:%s\n", description);
	write_file(TRACEFS "/dynamic_events", line);
}

/* The daemon counts events now and then. */
static bool has_room_for(const struct fixture *fixture, uint64_t events)
{
	return eventually(status_number(fixture, "capacity") == events);
}

/* A foreign event, until the returned file is closed. */
static int register_directly(const struct fixture *fixture, const char *description)
{
	static uint32_t word;
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = sizeof(word),
		.enable_address = (uint64_t)(uintptr_t)&word,
		.description = (uint64_t)(uintptr_t)description,
	};
	struct uapi_register_status asked_of_old = {
		.size = sizeof(asked_of_old),
		.description = (uint64_t)(uintptr_t)description,
	};
	int data = open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC);

	ck_assert_int_eq(ioctl(data, UAPI_IOCTL_REGISTER,
			       fixture->backend == BACKEND_STATUS_PAGE ? (void *)&asked_of_old : &asked),
			 0);
	if (fixture->backend != BACKEND_STATUS_PAGE) {
		struct uapi_unregister enabler = { .size = sizeof(enabler), .disable_address = asked.enable_address };

		/* The file keeps its reference. */
		ck_assert_int_eq(ioctl(data, UAPI_IOCTL_UNREGISTER, &enabler), 0);
	}
	return data;
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

	if (is_limited) {
		/* The kernel takes a while to delete the events of the test before. */
		ck_assert(eventually(count_events() == 0));
		snprintf(number, sizeof(number), "%u", count_events() + ROOM);
		change_file(&maximum, USER_EVENTS_MAX, number);
	}
	/* With a maximum of its own, the tenant has to leave no share to others. */
	fixture_start_with_policy(&fixture, "[/**]\nMaxEvents=100\n", NULL);
	if (!need_kernel(&fixture, "events that others register"))
		return;
	/* Foreign events are counted at the start. */
	ck_assert(eventually(status_number(&fixture, "foreign") == count_events()));
	before = status_number(&fixture, "capacity");
	foreign_before = status_number(&fixture, "foreign");
	ck_assert(!is_limited || before == ROOM);

	janitor_start(&one, delete_event, "by_hand1");
	add_dynamic_event("by_hand1 u32 x");
	janitor_start(&other, delete_event, "by_hand2");
	add_dynamic_event("by_hand2 u32 x");
	data = register_directly(&fixture, "by_a_program u32 x");
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
	const uint32_t record[] = { 0, 42 };
	struct janitor janitor;
	struct seen seen;
	int socket, stream = -1;

	janitor_start(&janitor, delete_event, "foreign");
	add_dynamic_event("foreign u32 number");
	socket = fixture_client(fixture);
	expect_refusal(socket, "foreign u64 number", REFUSAL_NAME_TAKEN, "other fields");
	expect_refusal(socket, "foreign", REFUSAL_NAME_TAKEN, "other fields");
	expect_refusal(socket, "foreign u32 number; u32 more", REFUSAL_NAME_TAKEN, "other fields");
	expect_refusal(socket, "foreign u32 other", REFUSAL_NAME_TAKEN, "other fields");
	ck_assert_uint_eq(status_number(fixture, "charges"), 0);
	ck_assert_uint_eq(raw_register(socket, "foreign u32 number", NULL, &stream), 0);
	ck_assert_uint_eq(trace(fixture, "foreign", true), 1);
	ck_assert_int_eq(write(stream, record, sizeof(record)), sizeof(record));
	see(fixture, "foreign", &seen);
	ck_assert_uint_eq(seen.records, 1);
	ck_assert_uint_eq(seen.sum, 42);
	trace(fixture, "foreign", false);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(fixture, "streams") == 0));
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
