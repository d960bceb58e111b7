/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * One of the two ends, in whatever way, and is started again: clients keep their connections, pages, indexes and data files,
 * and no record is lost.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "kernel/uapi.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/machine.h"
#include "tests/integration/pair.h"
#include "tests/integration/raw.h"

/* --- a client, and what it must not notice --- */

enum { CLIENTS = 12, EVENTS = 4 };

struct program {
	const uint8_t *page;
	struct {
		struct answer answer;
		char name[32];
		uint64_t sum;
		unsigned written;
	} event[EVENTS];
	unsigned n;
	int socket;
	int stream; /* the last that it was given */
};

static struct program program_new(const struct pair *pair)
{
	struct program program = { .stream = -1 };
	int page;

	program.socket = raw_hello(pair->fixture.socket, 0, NULL, &page);
	program.page = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	ck_assert_ptr_ne(program.page, MAP_FAILED);
	close(page);
	return program;
}

static void program_end(struct program *program)
{
	munmap((void *)(uintptr_t)program->page, WIRE_PAGE_BYTES);
	fd_close(program->socket);
	fd_close(program->stream);
}

static unsigned program_register(struct program *program, const char *name)
{
	char description[64];
	int stream = -1;
	unsigned i = program->n++;
	uint32_t refusal;

	ck_assert_uint_lt(i, EVENTS);
	snprintf(program->event[i].name, sizeof(program->event[i].name), "%s", name);
	snprintf(description, sizeof(description), "%s u32 x", name);
	refusal = raw_register(program->socket, description, &program->event[i].answer, &stream);
	ck_assert_msg(refusal == 0, "%s was refused: %s", name, refusal_name(refusal));
	if (stream >= 0) {
		fd_close(program->stream);
		program->stream = stream;
	}
	return i;
}

static bool is_on(const struct program *program, unsigned i)
{
	uint32_t bit = program->event[i].answer.bit;

	return __atomic_load_n(&program->page[bit / 8], __ATOMIC_ACQUIRE) >> bit % 8 & 1;
}

static void program_write(struct program *program, unsigned i, uint32_t x)
{
	uint32_t record[] = { program->event[i].answer.index, x };

	ck_assert_int_eq(write(program->stream, record, sizeof(record)), sizeof(record));
	program->event[i].written++;
	program->event[i].sum += x;
}

/* Without asking the daemon, which may not be there; after trace() it is known what to look for. */
static void switch_alone(const struct pair *pair, const char *name, bool on)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/events/user_events/%s/enable", pair->fixture.tracer.directory, name);
	write_file(path, on ? "1" : "0");
}

/* All that it wrote is in the trace. */
static void expect_traced(struct pair *pair, const struct program *program, unsigned i)
{
	struct seen seen;

	see(&pair->fixture, program->event[i].name, &seen);
	ck_assert_uint_eq(seen.records, program->event[i].written);
	ck_assert_uint_eq(seen.sum, program->event[i].sum);
}

/* The answer to what was asked last, though another daemon may give it. */
static void expect_registered(int socket, size_t fds)
{
	static struct batch batch;

	raw_receive_answer(socket, &batch.reply);
	batch_read(&batch);
	for (size_t i = 0; i < batch.count; i++)
		ck_assert_uint_eq(batch.answer[i].refusal, 0);
	ck_assert_uint_eq(batch.reply.fds.count, fds);
	raw_reply_deinit(&batch.reply);
}

/* --- the daemon --- */

PAIR_TEST(client_keeps_everything_when_the_daemon_is_killed, "--guard=prefer")
{
	struct answer before;
	_cleanup_(program_end) struct program program = program_new(pair);

	program_register(&program, "restart_one");
	before = program.event[0].answer;
	trace(&pair->fixture, "restart_one", true);
	ck_assert(is_on(&program, 0));
	program_write(&program, 0, 1);
	pair_end_daemon(pair, SIGKILL);
	program_write(&program, 0, 2);
	/* Bits go on changing, and nobody is there who could have done that. */
	switch_alone(pair, "restart_one", false);
	ck_assert(!is_on(&program, 0));
	switch_alone(pair, "restart_one", true);
	ck_assert(is_on(&program, 0));
	program_write(&program, 0, 3);
	pair_start_daemon(pair);
	ck_assert_uint_eq(raw_query(program.socket).leases, 1);
	program_write(&program, 0, 4);
	program_register(&program, "restart_two");
	ck_assert_uint_eq(program.event[1].answer.stream, before.stream);
	ck_assert_uint_ne(program.event[1].answer.bit, before.bit);
	trace(&pair->fixture, "restart_two", true);
	ck_assert(is_on(&program, 1));
	program_write(&program, 1, 5);
	ck_assert_uint_eq(status_number(&pair->fixture, "charges"), 2);
	ck_assert_uint_eq(status_number(&pair->fixture, "streams"), 1);
	expect_traced(pair, &program, 0);
	expect_traced(pair, &program, 1);
}

PAIR_TEST(request_without_a_daemon_is_answered_by_the_next, "--guard=prefer")
{
	_cleanup_(program_end) struct program program = program_new(pair);

	pair_end_daemon(pair, SIGKILL);
	send_register(program.socket, "waits u32 x");
	pair_start_daemon(pair);
	expect_registered(program.socket, 1);
}

/* Several at once, by each way in which a process ends. */
PAIR_TEST(clients_do_not_notice_how_the_daemon_ends, "--guard=prefer")
{
	static const int signals[] = { SIGTERM, SIGKILL, SIGABRT, SIGSEGV, SIGINT };
	struct program program[CLIENTS];
	char name[32];

	for (unsigned i = 0; i < CLIENTS; i++) {
		program[i] = program_new(pair);
		snprintf(name, sizeof(name), "ways_%u", i % 4);
		program_register(&program[i], name);
	}
	for (size_t way = 0; way < ARRAY_SIZE(signals); way++) {
		pair_end_daemon(pair, signals[way]);
		pair_start_daemon(pair);
		ck_assert_uint_eq(status_number(&pair->fixture, "connections"), CLIENTS);
		ck_assert_uint_eq(status_number(&pair->fixture, "events"), 4);
		for (unsigned i = 0; i < CLIENTS; i++)
			ck_assert_uint_eq(raw_query(program[i].socket).leases, 1);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		program_end(&program[i]);
}

PAIR_TEST(client_that_left_without_a_daemon_is_refunded, "--guard=prefer")
{
	struct program stays = program_new(pair);
	struct program leaves = program_new(pair);

	program_register(&stays, "leave_a");
	program_register(&leaves, "leave_b");
	pair_end_daemon(pair, SIGKILL);
	program_end(&leaves);
	pair_start_daemon(pair);
	ck_assert_uint_eq(raw_query(stays.socket).leases, 1);
	ck_assert_uint_eq(status_number(&pair->fixture, "connections"), 1);
	program_end(&stays);
	ck_assert(eventually(status_number(&pair->fixture, "charges") == 0));
	ck_assert(eventually(status_number(&pair->fixture, "tenants") == 0));
}

/* --- versions --- */

static const char next_version[] = "tests/userevd-next";

static void replace_daemon(struct pair *pair, const char *program)
{
	pair_end_daemon(pair, SIGKILL);
	pair->program = program;
	pair_start_daemon(pair);
	pair_wait(pair);
}

PAIR_TEST(next_version_takes_over_the_ledger, "--guard=prefer")
{
	_cleanup_(program_end) struct program program = program_new(pair);

	program_register(&program, "upgrade_a");
	trace(&pair->fixture, "upgrade_a", true);
	program_write(&program, 0, 1);
	replace_daemon(pair, next_version);
	ck_assert(log_has(&pair->fixture, "what its entry has not is zero"));
	ck_assert_uint_eq(raw_query(program.socket).leases, 1);
	program_write(&program, 0, 2);
	program_register(&program, "upgrade_b");
	trace(&pair->fixture, "upgrade_b", true);
	ck_assert(!log_has(&pair->fixture, "what its entry has more is there"));
	replace_daemon(pair, next_version);
	ck_assert(log_has(&pair->fixture, "what its entry has more is there"));
	ck_assert_uint_eq(raw_query(program.socket).leases, 2);
	ck_assert_uint_eq(status_number(&pair->fixture, "connections"), 1);
	ck_assert_uint_eq(status_number(&pair->fixture, "charges"), 2);
	program_write(&program, 0, 3);
	program_write(&program, 1, 4);
	expect_traced(pair, &program, 0);
	expect_traced(pair, &program, 1);
}

/* It begins with nothing, and says so: who is connected connects again; data file, page and index go on as they were. */
PAIR_TEST(last_version_discards_the_ledger_of_the_next, "--guard=prefer")
{
	struct program program, again;
	struct raw_reply reply;

	replace_daemon(pair, next_version);
	program = program_new(pair);
	program_register(&program, "downgrade_a");
	trace(&pair->fixture, "downgrade_a", true);
	program_write(&program, 0, 1);
	ck_assert(!log_has(&pair->fixture, "the last daemon, a newer version"));
	replace_daemon(pair, "userevd");
	ck_assert(log_has(&pair->fixture, "the last daemon, a newer version"));
	raw_receive(program.socket, &reply);
	ck_assert(reply.size == 0 || reply.size == -ECONNRESET);
	ck_assert_uint_eq(status_number(&pair->fixture, "connections"), 0);
	ck_assert_uint_eq(status_number(&pair->fixture, "charges"), 0);
	ck_assert(is_on(&program, 0));
	program_write(&program, 0, 2);
	switch_alone(pair, "downgrade_a", false);
	ck_assert(eventually(!is_on(&program, 0)));
	switch_alone(pair, "downgrade_a", true);
	ck_assert(eventually(is_on(&program, 0)));
	program_write(&program, 0, 3);
	again = program_new(pair);
	program_register(&again, "downgrade_a");
	ck_assert_uint_eq(raw_query(again.socket).leases, 1);
	ck_assert(eventually(is_on(&again, 0)));
	program_write(&again, 0, 4);
	program_write(&program, 0, 5);
	program.event[0].written++;
	program.event[0].sum += 4;
	expect_traced(pair, &program, 0);
	program_end(&program);
	program_end(&again);
}

/* --- the keeper --- */

PAIR_TEST(next_keeper_makes_all_bits_right, "--guard=off")
{
	_cleanup_(program_end) struct program program = program_new(pair);

	program_register(&program, "keep_on");
	program_register(&program, "keep_off");
	program_register(&program, "keep_changing");
	trace(&pair->fixture, "keep_on", true);
	trace(&pair->fixture, "keep_changing", true);
	trace(&pair->fixture, "keep_off", true);
	trace(&pair->fixture, "keep_off", false);
	program_write(&program, 0, 1);
	pair_end_keeper(pair, SIGKILL);
	/* Nobody sees these, but what is on takes records. */
	switch_alone(pair, "keep_off", true);
	switch_alone(pair, "keep_changing", false);
	program_write(&program, 0, 2);
	pair_start_keeper(pair);
	ck_assert(eventually(is_on(&program, 1)));
	ck_assert(eventually(!is_on(&program, 2)));
	ck_assert(is_on(&program, 0));
	program_write(&program, 0, 3);
	program_write(&program, 1, 4);
	/* And everything goes on from there. */
	program_register(&program, "keep_more");
	trace(&pair->fixture, "keep_more", true);
	ck_assert(eventually(is_on(&program, 3)));
	program_write(&program, 3, 5);
	for (unsigned i = 0; i < EVENTS; i++)
		expect_traced(pair, &program, i);
	ck_assert_uint_eq(raw_query(program.socket).leases, EVENTS);
}

PAIR_TEST(keeper_and_daemon_may_end_in_turns, "--guard=off")
{
	_cleanup_(program_end) struct program program = program_new(pair);

	program_register(&program, "turns_a");
	for (unsigned i = 0; i < 3; i++) {
		pair_end_keeper(pair, SIGKILL);
		pair_start_keeper(pair);
		pair_wait(pair);
		ck_assert_uint_eq(raw_query(program.socket).leases, 1);
		/* What it asks of the kernel comes behind all that the new one is given. */
		ck_assert(eventually(log_count(&pair->fixture, "a new keeper has taken over") == i + 1));
		trace(&pair->fixture, "turns_a", i % 2 == 0);
		ck_assert(eventually(is_on(&program, 0) == (i % 2 == 0)));
		pair_end_daemon(pair, SIGKILL);
		pair_start_daemon(pair);
		ck_assert_uint_eq(raw_query(program.socket).leases, 1);
	}
	program_register(&program, "turns_b");
}

PAIR_TEST(keeper_without_a_guard_gives_streams_of_their_own, "--guard=prefer")
{
	struct program one, two;
	_cleanup_(program_end) struct program before = program_new(pair);

	program_register(&before, "guard_before");
	pair_end_keeper(pair, SIGKILL);
	pair->guard = "--guard=off";
	pair_start_keeper(pair);
	ck_assert(eventually(log_has(&pair->fixture, "a new keeper has taken over")));
	ck_assert(!pair->fixture.guarded || log_has(&pair->fixture, "the new keeper has no guard"));
	one = program_new(pair);
	two = program_new(pair);
	program_register(&one, "guard_after");
	program_register(&two, "guard_after");
	ck_assert_uint_ne(one.event[0].answer.stream, two.event[0].answer.stream);
	program_end(&one);
	program_end(&two);
}

PAIR_TEST(request_lost_with_a_keeper_is_sent_to_the_next, "--guard=off")
{
	_cleanup_(program_end) struct program program = program_new(pair);

	program_register(&program, "under_way_a");
	pair_end_keeper(pair, SIGKILL);
	send_register(program.socket, "under_way_b u32 x");
	usleep(50000);
	pair_start_keeper(pair);
	expect_registered(program.socket, 0);
	ck_assert_uint_eq(raw_query(program.socket).leases, 2);
}

/* --- both --- */

PAIR_TEST(clients_connect_again_after_both_have_ended, "--guard=off")
{
	struct program again;
	struct raw_reply reply;
	_cleanup_(program_end) struct program program = program_new(pair);

	program_register(&program, "both_a");
	trace(&pair->fixture, "both_a", true);
	trace(&pair->fixture, "both_a", false);
	pair_end_daemon(pair, SIGKILL);
	pair_end_keeper(pair, SIGKILL);
	raw_receive(program.socket, &reply);
	ck_assert(reply.size == 0 || reply.size == -ECONNRESET);
	/* What it has is its own. */
	switch_alone(pair, "both_a", true);
	program_write(&program, 0, 1);
	pair_start_keeper(pair);
	pair_start_daemon(pair);
	again = program_new(pair);
	program_register(&again, "both_a");
	ck_assert(eventually(is_on(&again, 0)));
	program_write(&again, 0, 2);
	program.event[0].written++;
	program.event[0].sum += 2;
	expect_traced(pair, &program, 0);
	program_end(&again);
}

/* --- at every moment --- */

/* A program in a process of its own, which makes sure of all that it is promised. */
static pid_t start_life(const struct pair *pair)
{
	const char *program = built("tests/restart_load");
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(program, program, "life", pair->fixture.socket, NULL);
	_exit(127);
}

static bool has_ended(pid_t pid, int *ret_status)
{
	return waitpid(pid, ret_status, WNOHANG) == pid;
}

/* From now on it stops at each system call. */
static void seize(pid_t daemon)
{
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, daemon, NULL, PTRACE_O_TRACESYSGOOD), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, daemon, NULL, NULL), 0);
}

/* Lets the daemon go on until it has stopped at so many system calls, twice for each, or the life is over: false. */
static bool run_until(pid_t daemon, unsigned stops, pid_t life, int *ret_status)
{
	int status;

	for (;;) {
		pid_t one = waitpid(daemon, &status, __WALL | WNOHANG);

		ck_assert_int_ge(one, 0);
		if (one == 0 && has_ended(life, ret_status))
			return false;
		if (one == 0) {
			usleep(200);
			continue;
		}
		ck_assert(WIFSTOPPED(status));
		if (WSTOPSIG(status) == (SIGTRAP | 0x80) && --stops == 0)
			return true;
		ck_assert_int_eq(ptrace(PTRACE_SYSCALL, daemon, NULL, NULL), 0);
	}
}

/* Which moments: all, or some of them (RESTART_STEP). */
static unsigned moments_apart(void)
{
	const char *step = getenv("RESTART_STEP");

	return step ? (unsigned)atoi(step) : 17;
}

PAIR_TEST(daemon_may_be_killed_at_any_system_call, "--guard=prefer")
{
	unsigned moments = 0;
	bool goes_on = true;

	for (unsigned at = 1; goes_on; at += moments_apart()) {
		pid_t life;
		int status;

		seize(pair->daemon);
		life = start_life(pair);
		goes_on = run_until(pair->daemon, at, life, &status);
		pair_end_daemon(pair, SIGKILL);
		pair_start_daemon(pair);
		if (goes_on)
			ck_assert_int_eq(waitpid(life, &status, 0), life);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
			      "killed at stop %u: its life ended with %#x", at, (unsigned)status);
		ck_assert_msg(eventually(status_number(&pair->fixture, "charges") == 0), "killed at stop %u", at);
		ck_assert_uint_eq(status_number(&pair->fixture, "connections"), 0);
		moments++;
	}
	printf("killed at %u moments\n", moments);
}

/* --- how long it takes --- */

enum { TENANTS = 100, OF_EACH = 5, EVENTS_OF_EACH = 10, MANY = TENANTS * OF_EACH };

static void describe(char ret[64], const char *prefix, unsigned tenant, unsigned event)
{
	snprintf(ret, 64, "%s_%u_%u u32 x", prefix, tenant, event);
}

/* Without a daemon, as root can: no assertion here, it would be the test's. */
static _Noreturn void register_directly(unsigned tenant, int begin, int done)
{
	static uint64_t enabled[EVENTS_OF_EACH];
	int data = open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC);
	char byte, description[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(begin, &byte, 1) < 0)
		_exit(EXIT_FAILURE);
	for (unsigned i = 0; i < EVENTS_OF_EACH; i++) {
		struct uapi_register asked = {
			.size = sizeof(asked),
			.enable_size = sizeof(enabled[i]),
			.enable_address = (uint64_t)(uintptr_t)&enabled[i],
			.description = (uint64_t)(uintptr_t)description,
		};

		describe(description, "direct", tenant, i);
		byte = ioctl(data, UAPI_IOCTL_REGISTER, &asked) == 0 ? '+' : '-';
	}
	if (write(done, &byte, 1) < 0)
		_exit(EXIT_FAILURE);
	for (;;)
		pause();
}

/* From the moment on at which all may begin, to that at which the last one has what it wants. */
static double time_direct(void)
{
	pid_t pids[MANY];
	int begin[2], done[2];
	double begun;
	char byte;

	ck_assert_int_eq(pipe2(begin, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(done, O_CLOEXEC), 0);
	for (unsigned i = 0; i < MANY; i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (pids[i] == 0) {
			close(begin[1]);
			register_directly(i % TENANTS, begin[0], done[1]);
		}
	}
	usleep(1000000); /* all of them wait */
	begun = (double)clock_us() / 1000;
	close(begin[1]);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(read(done[0], &byte, 1), 1);
		ck_assert_int_eq(byte, '+');
	}
	begun = (double)clock_us() / 1000 - begun;
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(kill(pids[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(pids[i], NULL, 0), pids[i]);
	}
	close(begin[0]);
	close(done[0]);
	close(done[1]);
	return begun;
}

static void register_all(int socket, unsigned tenant)
{
	char descriptions[EVENTS_OF_EACH][64];
	const char *all[EVENTS_OF_EACH];

	for (unsigned i = 0; i < EVENTS_OF_EACH; i++) {
		describe(descriptions[i], "broker", tenant, i);
		all[i] = descriptions[i];
	}
	batch_put(all, EVENTS_OF_EACH);
	ck_assert_int_eq(raw_send(socket), 0);
	expect_registered(socket, 1);
}

TEST(restart_with_500_clients_is_timed)
{
	static struct actor actors[MANY];
	double begun, direct;
	struct pair pair;
	char name[32];

	if (!need_cgroups("a hundred tenants") || !pair_start(&pair, "--guard=prefer"))
		return;
	/* Two fds of each, and the pipes. */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 4 * MANY, 4 * MANY }), 0);
	direct = pair.fixture.backend == BACKEND_ENABLE_ADDRESS ? time_direct() : 0;
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "tenant%u", i % TENANTS);
		actors[i] = actor_new(pair.fixture.socket, &(struct actor_as){ .cgroup = make_cgroup(name) });
		register_all(actors[i].socket, i % TENANTS);
	}
	pair_end_daemon(&pair, SIGKILL);
	begun = (double)clock_us() / 1000;
	pair_start_daemon(&pair);
	ck_assert_uint_eq(status_number(&pair.fixture, "connections"), MANY);
	printf("a daemon is back after %.0f ms, from its first instruction to its first answer, with %u connections and %u "
	       "events of %u tenants",
	       (double)clock_us() / 1000 - begun, MANY, TENANTS * EVENTS_OF_EACH, TENANTS);
	if (direct > 0)
		printf("; directly, these programs register in %.0f ms", direct);
	printf("\n");
	ck_assert_uint_eq(status_number(&pair.fixture, "tenants"), TENANTS);
	ck_assert_uint_eq(status_number(&pair.fixture, "leases"), MANY * EVENTS_OF_EACH);
	for (unsigned i = 0; i < MANY; i++)
		actor_end(&actors[i]);
	ck_assert(eventually(status_number(&pair.fixture, "charges") == 0));
	pair_stop(&pair);
}

int main(void)
{
	return run_tests_in_cgroups();
}
