/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events that the policy declares are there before any program; those that it wants kept are there after them. */

#include <stdio.h>
#include <sys/mman.h>

#include "tests/integration/machine.h"
#include "tests/integration/pair.h"
#include "tests/integration/policy.h"

#define ONE   "[Event declared_one]\nFields=u32 x\n"
#define TWO   "[Event declared_two]\nFields=u32 x; char[8] name\n"
#define THREE "[Event declared_three]\n"

static struct fixture fixture;

/* A program that has asked for one event. */
struct program {
	int socket;
	int stream;
	const uint8_t *page;
	struct answer answer;
};

static void program_start(struct program *program, const char *socket, const char *description)
{
	int page;

	*program = (struct program){ .stream = -1 };
	program->socket = raw_hello(socket, UINT64_MAX, NULL, &page);
	program->page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	ck_assert_ptr_ne(program->page, MAP_FAILED);
	close(page);
	ck_assert_uint_eq(raw_register(program->socket, description, &program->answer, &program->stream), 0);
}

static void program_end(struct program *program)
{
	munmap((void *)(uintptr_t)program->page, WIRE_PAGE_BYTES);
	fd_close(program->socket);
	fd_close(program->stream);
}

static bool is_on(const struct program *program)
{
	uint32_t bit = program->answer.bit;

	return __atomic_load_n(&program->page[bit / 8], __ATOMIC_ACQUIRE) >> bit % 8 & 1;
}

static void emit(const struct program *program, uint32_t x)
{
	uint32_t record[] = { program->answer.index, x };

	ck_assert_int_eq(write(program->stream, record, sizeof(record)), sizeof(record));
}

static void expect_traced(struct fixture *of, const char *event, unsigned records)
{
	struct seen seen;

	see(of, event, &seen);
	ck_assert_uint_eq(seen.records, records);
}

/* Of the daemon, and of the kernel where that has events. */
static bool is_there(const struct fixture *of, const char *event)
{
	bool held = event_number(of, event, "tenants") > 0;

	return held && (of->backend == BACKEND_EMBEDDED || kernel_has(event));
}

/* Not from the start: what the keeper has in reserve for the next event may come a little later than that one. */
static void declare(const char *events)
{
	fixture_start(&fixture, NULL);
	change_policy(&fixture, events);
}

TEST(tracer_attaches_before_the_program_starts)
{
	struct program program;

	declare(ONE TWO);
	ck_assert(eventually(is_there(&fixture, "declared_one")));
	ck_assert(eventually(is_there(&fixture, "declared_two")));
	ck_assert_uint_eq(status_number(&fixture, "lingering"), 0);
	ck_assert_uint_eq(trace(&fixture, "declared_one", true), 1);
	program_start(&program, fixture.socket, "declared_one u32 x");
	ck_assert(is_on(&program));
	emit(&program, 7);
	expect_traced(&fixture, "declared_one", 1);
	ck_assert_uint_eq(event_number(&fixture, "declared_one", "tenants"), 2);
	program_end(&program);
	ck_assert(eventually(event_number(&fixture, "declared_one", "tenants") == 1));
	change_policy(&fixture, "");
	fixture_stop(&fixture);
}
END_TEST

TEST(reload_changes_only_changed_events)
{
	fixture_start(&fixture, NULL);
	ck_assert(!is_there(&fixture, "declared_one"));
	change_policy(&fixture, ONE TWO);
	ck_assert(eventually(is_there(&fixture, "declared_one") && is_there(&fixture, "declared_two")));
	change_policy(&fixture, TWO THREE);
	ck_assert(eventually(is_there(&fixture, "declared_three") && !is_there(&fixture, "declared_one")));
	ck_assert(is_there(&fixture, "declared_two"));
	change_policy(&fixture, "");
	fixture_stop(&fixture);
}
END_TEST

TEST(declared_event_is_listed_and_refused_to_others)
{
	char output[4096];
	int socket;

	declare(ONE "Tenants=/nobody/here\n");
	ck_assert(eventually(is_there(&fixture, "declared_one")));
	ck_assert_int_eq(run_command(&fixture, output, sizeof(output),
				     (const char *const[]){ built("userevctl"), "tenants", NULL }),
			 0);
	ck_assert_msg(strstr(output, "policy"), "%s", output);
	socket = raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
	expect_refusal(socket, "declared_one u32 x", REFUSAL_NOT_PERMITTED,
		       "the policy keeps the event 'declared_one'");
	close(socket);
	change_policy(&fixture, "");
	fixture_stop(&fixture);
}
END_TEST

TEST(declared_name_taken_with_other_fields_is_logged)
{
	struct program program;

	fixture_start(&fixture, NULL);
	program_start(&program, fixture.socket, "declared_one u64 y");
	change_policy(&fixture, ONE TWO);
	ck_assert(eventually(is_there(&fixture, "declared_two")));
	ck_assert(log_has(&fixture,
			  "policy.conf:1: [Event declared_one] can't be had: the name 'declared_one' is taken"));
	program_end(&program);
	ck_assert(eventually(!is_there(&fixture, "declared_one")));
	/* And once it is free, the next reload makes it. */
	change_policy(&fixture, ONE TWO);
	ck_assert(eventually(is_there(&fixture, "declared_one")));
	change_policy(&fixture, "");
	fixture_stop(&fixture);
}
END_TEST

TEST(declared_event_outlives_daemon_and_keeper)
{
	struct pair pair;
	struct program program;

	if (!pair_start(&pair, "--guard=prefer"))
		return;
	change_policy(&pair.fixture, ONE TWO);
	ck_assert(eventually(is_there(&pair.fixture, "declared_one")));
	ck_assert_uint_eq(trace(&pair.fixture, "declared_one", true), 1);
	pair_end_daemon(&pair, SIGKILL);
	ck_assert(kernel_has("declared_two"));
	pair_start_daemon(&pair);
	pair_wait(&pair);
	ck_assert(is_there(&pair.fixture, "declared_one"));
	ck_assert(is_there(&pair.fixture, "declared_two"));
	ck_assert_uint_eq(status_number(&pair.fixture, "streams"), 1);
	pair_end_keeper(&pair, SIGKILL);
	ck_assert(kernel_has("declared_two"));
	pair_start_keeper(&pair);
	program_start(&program, pair.fixture.socket, "declared_one u32 x");
	ck_assert(eventually(is_on(&program)));
	emit(&program, 7);
	expect_traced(&pair.fixture, "declared_one", 1);
	program_end(&program);
	/* One that declares something else. */
	pair_end_daemon(&pair, SIGTERM);
	fixture_write_policy(&pair.fixture, TWO);
	pair_start_daemon(&pair);
	ck_assert(eventually(status_number(&pair.fixture, "events") == 1));
	ck_assert(is_there(&pair.fixture, "declared_two"));
	pair_stop(&pair);
}
END_TEST

#define KEPT_ALONE "[/**]\nMaxEvents=1\nKeepFor=1h\n"

TEST(kept_event_waits_for_its_program)
{
	struct program program;
	struct answer before;

	fixture_start_with_policy(&fixture, KEPT_ALONE, NULL);
	program_start(&program, fixture.socket, "declared_one u32 x");
	before = program.answer;
	program_end(&program);
	ck_assert(eventually(status_number(&fixture, "connections") == 0));
	/* It would be gone by now. */
	usleep(300000);
	ck_assert(is_there(&fixture, "declared_one"));
	program_start(&program, fixture.socket, "declared_one u32 x");
	ck_assert_uint_eq(program.answer.bit, before.bit);
	ck_assert_uint_eq(trace(&fixture, "declared_one", true), 1);
	emit(&program, 7);
	expect_traced(&fixture, "declared_one", 1);
	trace(&fixture, "declared_one", false);
	program_end(&program);
	ck_assert(eventually(status_number(&fixture, "connections") == 0));
	/* Who needs the room gets it. */
	program.socket = raw_hello(fixture.socket, UINT64_MAX, NULL, NULL);
	expect_refusal(program.socket, "declared_two u32 x", REFUSAL_QUOTA_EXCEEDED, "released now: try again");
	ck_assert(eventually(status_number(&fixture, "charges") == 0));
	change_policy(&fixture, "");
	expect_granted(program.socket, "declared_two u32 x");
	close(program.socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(kept_event_is_kept_by_the_next_daemon)
{
	struct pair pair;
	struct program program;

	if (!pair_start(&pair, "--guard=prefer"))
		return;
	change_policy(&pair.fixture, KEPT_ALONE);
	program_start(&program, pair.fixture.socket, "declared_one u32 x");
	program_end(&program);
	ck_assert(eventually(status_number(&pair.fixture, "connections") == 0));
	pair_end_daemon(&pair, SIGKILL);
	pair_start_daemon(&pair);
	pair_wait(&pair);
	usleep(300000);
	ck_assert(is_there(&pair.fixture, "declared_one"));
	pair_end_daemon(&pair, SIGTERM);
	fixture_write_policy(&pair.fixture, "");
	pair_start_daemon(&pair);
	ck_assert(eventually(status_number(&pair.fixture, "events") == 0));
	pair_stop(&pair);
}
END_TEST

SUITE("policy_events", tracer_attaches_before_the_program_starts, reload_changes_only_changed_events,
      declared_event_is_listed_and_refused_to_others, declared_name_taken_with_other_fields_is_logged,
      declared_event_outlives_daemon_and_keeper, kept_event_waits_for_its_program,
      kept_event_is_kept_by_the_next_daemon)
