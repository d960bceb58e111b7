/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Several formats of one name, and events that persist. */

#include "tests/integration/fixture.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"

static void expect_records(struct fixture *fixture, const char *event, unsigned n, uint64_t sum)
{
	struct seen seen;

	see(fixture, event, &seen);
	ck_assert_uint_eq(seen.records, n);
	ck_assert_uint_eq(seen.sum, sum);
}

DAEMON_TEST(formats_of_one_name_live_side_by_side, .needs_kernel = "events of one name and many formats")
{
	struct answer one, other, plain, again;
	uint32_t record[3] = { 0 };
	_cleanup_(fd_closep) int stream = -1;
	_cleanup_(fd_closep) int socket = raw_hello(fixture->socket, UINT64_MAX, NULL, NULL);

	if (!offers_multi_format(fixture)) {
		ck_assert_uint_eq(raw_register_with(socket, REGISTER_MULTI_FORMAT, "multi u32 a", &one, &stream),
				  REFUSAL_KERNEL_TOO_OLD);
		return;
	}
	ck_assert_uint_eq(raw_register_with(socket, REGISTER_MULTI_FORMAT, "multi u32 a", &one, &stream), 0);
	ck_assert_uint_eq(raw_register_with(socket, REGISTER_MULTI_FORMAT, "multi u64 b", &other, &stream), 0);
	ck_assert_uint_eq(raw_register_with(socket, REGISTER_MULTI_FORMAT, "multi u32 a", &again, &stream), 0);
	ck_assert_uint_eq(raw_register_with(socket, 0, "multi u32 plain", &plain, &stream), 0);
	ck_assert_uint_eq(again.bit, one.bit);
	ck_assert(one.bit != other.bit && one.bit != plain.bit && other.bit != plain.bit);
	ck_assert_uint_eq(status_number(fixture, "charges"), 3);
	ck_assert_uint_eq(trace(fixture, "multi", true), 3);
	record[0] = one.index;
	record[1] = 100;
	ck_assert_int_eq(write(stream, record, 8), 8);
	record[0] = other.index;
	record[1] = 1;
	ck_assert_int_eq(write(stream, record, 12), 12);
	record[0] = plain.index;
	ck_assert_int_eq(write(stream, record, 8), 8);
	expect_records(fixture, "multi", 1, 1);
	expect_records(fixture, "multi.", 2, 101);
}

/* `second_first`: a foreign event has the name, with the fields of the first. */
static void expect_both_formats(struct fixture *fixture, const char *name, bool second_first)
{
	char first[64], second[64], formats[64];
	struct answer one, other;
	uint32_t record[3] = { 0, 7 };
	int socket = raw_hello(fixture->socket, 0, NULL, NULL), stream = -1;

	snprintf(first, sizeof(first), "%s u32 number", name);
	snprintf(second, sizeof(second), "%s u64 number", name);
	snprintf(formats, sizeof(formats), "%s.", name);
	if (second_first)
		ck_assert_uint_eq(raw_register_with(socket, 0, second, &other, &stream), 0);
	ck_assert_uint_eq(raw_register_with(socket, 0, first, &one, &stream), 0);
	if (!second_first)
		ck_assert_uint_eq(raw_register_with(socket, 0, second, &other, &stream), 0);
	ck_assert_uint_ne(one.bit, other.bit);
	ck_assert_uint_eq(status_number(fixture, "charges"), 2);
	ck_assert_uint_eq(trace(fixture, name, true), 2);
	record[0] = one.index;
	ck_assert_int_eq(write(stream, record, 8), 8);
	record[0] = other.index;
	record[1] = 8;
	ck_assert_int_eq(write(stream, record, 12), 12);
	expect_records(fixture, name, 1, 7);
	expect_records(fixture, formats, 1, 8);
	trace(fixture, name, false);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(fixture, "charges") == 0));
}

DAEMON_TEST(later_description_gets_a_format_of_its_own, .needs_kernel = "a later description with other fields")
{
	struct janitor janitor;

	if (!offers_multi_format(fixture))
		return;
	expect_both_formats(fixture, "late", false);
	/* The daemon learns of a foreign event from the kernel's answer. */
	foreign_event_begin(&janitor, "foreign u32 number");
	expect_both_formats(fixture, "foreign", true);
	ck_assert(kernel_has("foreign"));
	janitor_end(&janitor);
}

DAEMON_TEST(event_persists_where_policy_allows_it, .policy = ONE_FORMAT, .options = { "--allow-persist" },
	    .needs_kernel = "an event that persists")
{
	struct wire_welcome welcome;
	struct answer answer;
	int socket = raw_hello(fixture->socket, UINT64_MAX, &welcome, NULL), stream = -1;

	if (!(welcome.features & WIRE_FEATURE_PERSIST)) {
		ck_assert(!has_enablers(fixture));
		ck_assert_uint_eq(raw_register_with(socket, REGISTER_PERSIST, "lasting u32 a", &answer, &stream),
				  REFUSAL_KERNEL_TOO_OLD);
		close(socket);
		return;
	}
	ck_assert_uint_eq(raw_register_with(socket, REGISTER_PERSIST, "lasting u32 a", &answer, &stream), 0);
	ck_assert_uint_eq(raw_register_with(socket, 0, "passing u32 a", &answer, &stream), 0);
	close(stream);
	close(socket);
	await_status(fixture, "streams=0");
	ck_assert(eventually(!kernel_has("passing")));
	ck_assert(kernel_has("lasting"));
	/* It is charged while the kernel has it, and can be registered again. */
	expect_status(fixture, "charges=1");
	socket = fixture_client(fixture);
	expect_refusal(socket, "lasting u64 b", REFUSAL_NAME_TAKEN, "taken");
	expect_granted(socket, "lasting u32 a");
	expect_status(fixture, "charges=1");
	close(socket);
	ck_assert_int_eq(fixture_end(fixture, fixture->pid, SIGTERM), 0);
	ck_assert(kernel_has("lasting"));
	delete_event("lasting");
}
