/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon's limits, each at N and N + 1, and how it begins and ends. */

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

/* So that its limits may be changed by somebody without CAP_SYS_RESOURCE. */
static const char *const stays_root[] = { "--user=root", NULL };
static const char *const alone_and_root[] = { "--user=root", "--guard=off", NULL };

static void expect_sentence(int socket, const char *description, uint32_t refusal, const char *part)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	uint32_t got = register_one(socket, description, sentence, sizeof(sentence));

	ck_assert_msg(got == refusal, "%s: refused as %s instead of %s: %s", description, refusal_name(got),
		      refusal_name(refusal), sentence);
	ck_assert_msg(strstr(sentence, part), "'%s' is not in '%s'", part, sentence);
}

static uint32_t expect_granted(int socket, const char *description)
{
	struct answer answer;

	ck_assert_uint_eq(raw_register(socket, description, &answer, NULL), 0);
	return answer.bit;
}

static void expect_refusal_to_cost_nothing(const struct fixture *fixture, int socket, const char *description,
					   uint32_t refusal, const char *part)
{
	struct tally before;
	char difference[256];

	tally_take_at_rest(fixture, &before);
	expect_sentence(socket, description, refusal, part);
	expect_sentence(socket, description, refusal, part);
	/* The daemon may hold something for a moment, such as the file that it looks at. */
	ck_assert_msg(tally_settles(fixture, &before, difference, sizeof(difference)), "a refusal has cost %s",
		      difference);
}

/* Leaves, which ends what lingers, and connects again. */
static int come_back(const struct fixture *fixture, int socket)
{
	close(socket);
	ck_assert(eventually(status_number(fixture, "streams") == 0));
	return raw_hello(fixture->socket, 0, NULL, NULL);
}

TEST(the_event_after_the_last_is_refused_and_costs_nothing)
{
	static const char *const options[] = { "--max-events=3", NULL };
	struct fixture fixture;
	uint32_t bit;
	int socket;

	fixture_start(&fixture, options);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	expect_granted(socket, "one");
	bit = expect_granted(socket, "two");
	expect_granted(socket, "three");
	expect_refusal_to_cost_nothing(&fixture, socket, "four", REFUSAL_QUOTA_EXCEEDED, "3 of 3");
	/* What it has it may ask for again. */
	ck_assert_uint_eq(expect_granted(socket, "two"), bit);
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 1);
	if (!releases_at_once(&fixture)) {
		/* It stays on the stream on which the others are. */
		expect_refusal_to_cost_nothing(&fixture, socket, "four", REFUSAL_QUOTA_EXCEEDED, "3 of 3");
		socket = come_back(&fixture, socket);
		expect_granted(socket, "one");
		expect_granted(socket, "three");
	}
	expect_granted(socket, "four");
	expect_refusal_to_cost_nothing(&fixture, socket, "two", REFUSAL_QUOTA_EXCEEDED, "3 of 3");
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_comes_near_to_its_maximum_is_told_of_in_the_log)
{
	static const char *const options[] = { "--max-events=5", NULL };
	static const char said[] = "comes near to its maximum: it holds 4 of 5 events";
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, options);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	expect_granted(socket, "one");
	expect_granted(socket, "two");
	expect_granted(socket, "three");
	ck_assert(!log_has(&fixture, "comes near"));
	expect_granted(socket, "four");
	ck_assert(log_has(&fixture, said));
	expect_granted(socket, "five");
	ck_assert(!log_has(&fixture, "it holds 5 of 5"));
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_batch_is_granted_as_far_as_it_fits)
{
	static const char *const options[] = { "--max-events=2", NULL };
	static const char *const descriptions[] = { "one", "one", "bad long x", "two", "three", "one", "four" };
	static const uint32_t expected[] = {
		0, 0, REFUSAL_BAD_DESCRIPTION, 0, REFUSAL_QUOTA_EXCEEDED, 0, REFUSAL_QUOTA_EXCEEDED,
	};
	struct fixture fixture;
	struct batch batch;
	int socket;

	fixture_start(&fixture, options);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	batch_register(socket, descriptions, ARRAY_SIZE(descriptions), &batch, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(descriptions); i++)
		ck_assert_uint_eq(batch.answer[i].refusal, expected[i]);
	ck_assert_uint_eq(raw_query(socket).events, 2);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(whoever_may_have_none_gets_no_stream_either)
{
	static const char *const options[] = { "--max-events=0", NULL };
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, options);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	expect_refusal_to_cost_nothing(&fixture, socket, "one", REFUSAL_QUOTA_EXCEEDED, "0 of 0");
	ck_assert_uint_eq(status_number(&fixture, "streams"), 0);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_page_holds_as_many_events_as_it_has_bits_but_for_the_first)
{
	static const char *const options[] = { "--page-bits=4", "--tenants=process", NULL };
	struct fixture fixture;
	struct actor one, another;
	uint32_t bit;

	fixture_start(&fixture, options);
	if (!has_a_page_per_tenant(&fixture)) {
		printf("not possible here, where the kernel numbers bits: a page of four bits\n");
		fixture_stop(&fixture);
		return;
	}
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	expect_granted(one.socket, "one");
	bit = expect_granted(one.socket, "two");
	ck_assert_uint_lt(expect_granted(one.socket, "three"), 4);
	expect_refusal_to_cost_nothing(&fixture, one.socket, "four", REFUSAL_PAGE_FULL, "no bit left");
	ck_assert_uint_eq(raw_release(one.socket, &bit, 1), 1);
	if (releases_at_once(&fixture))
		ck_assert_uint_eq(expect_granted(one.socket, "four"), bit);
	/* Another tenant has a page of its own. */
	expect_granted(another.socket, "one");
	expect_granted(another.socket, "five");
	expect_granted(another.socket, "six");
	expect_refusal_to_cost_nothing(&fixture, another.socket, "four", REFUSAL_PAGE_FULL, "no bit left");
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(the_smallest_page_holds_one_event)
{
	static const char *const options[] = { "--page-bits=2", NULL };
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, options);
	if (!has_a_page_per_tenant(&fixture)) {
		printf("not possible here, where the kernel numbers bits: a page of two bits\n");
		fixture_stop(&fixture);
		return;
	}
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(expect_granted(socket, "one"), 1);
	expect_refusal_to_cost_nothing(&fixture, socket, "two", REFUSAL_PAGE_FULL, "no bit left");
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(the_machine_pays_once_for_what_two_tenants_have)
{
	static const char *const options[] = { "--capacity=4", "--tenants=process", NULL };
	struct fixture fixture;
	struct actor one, another;
	uint32_t bits[2];

	fixture_start(&fixture, options);
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	expect_granted(one.socket, "one");
	expect_granted(one.socket, "two");
	bits[0] = expect_granted(another.socket, "two");
	expect_granted(another.socket, "three");
	ck_assert_uint_eq(status_number(&fixture, "charges"), 3);
	/* The last place is left to who has none. */
	expect_refusal_to_cost_nothing(&fixture, another.socket, "four", REFUSAL_QUOTA_EXCEEDED, "not 1;");
	expect_refusal_to_cost_nothing(&fixture, one.socket, "four", REFUSAL_QUOTA_EXCEEDED, "not 1;");
	/* What is there anyway costs the machine nothing. */
	bits[1] = expect_granted(another.socket, "one");
	/* Released by one of two it is there still. */
	ck_assert_uint_eq(raw_release(another.socket, bits, 2), 2);
	expect_refusal_to_cost_nothing(&fixture, another.socket, "four", REFUSAL_QUOTA_EXCEEDED, "not 1;");
	actor_end(&one);
	ck_assert(eventually(status_number(&fixture, "charges") == still_charged(&fixture, 3, 2)));
	if (releases_at_once(&fixture))
		expect_granted(another.socket, "four");
	expect_refusal_to_cost_nothing(&fixture, another.socket, "five", REFUSAL_QUOTA_EXCEEDED,
				       releases_at_once(&fixture) ? "not 2;" : "not 1;");
	actor_end(&another);
	fixture_stop(&fixture);
}
END_TEST

TEST(a_machine_that_is_full_gives_what_is_there_and_nothing_else)
{
	static const char *const options[] = { "--capacity=1", "--tenants=process", NULL };
	struct fixture fixture;
	struct actor one, another;

	fixture_start(&fixture, options);
	actor_start(&one, fixture.socket, NULL);
	actor_start(&another, fixture.socket, NULL);
	expect_granted(one.socket, "one");
	expect_refusal_to_cost_nothing(&fixture, one.socket, "two", REFUSAL_MACHINE_FULL, "1 of 1");
	expect_refusal_to_cost_nothing(&fixture, another.socket, "two", REFUSAL_MACHINE_FULL, "1 of 1");
	expect_granted(another.socket, "one");
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}
END_TEST

TEST(who_takes_all_it_can_leaves_room_for_the_next_one)
{
	static const char *const options[] = { "--capacity=8", "--tenants=process", NULL };
	struct fixture fixture;
	struct actor greedy, modest;

	fixture_start(&fixture, options);
	actor_start(&greedy, fixture.socket, NULL);
	actor_start(&modest, fixture.socket, NULL);
	expect_granted(greedy.socket, "one");
	expect_granted(greedy.socket, "two");
	expect_granted(greedy.socket, "three");
	expect_granted(greedy.socket, "four");
	expect_refusal_to_cost_nothing(&fixture, greedy.socket, "five", REFUSAL_QUOTA_EXCEEDED,
				       "4 events, a fair share");
	expect_granted(modest.socket, "five");
	actor_end(&modest);
	actor_end(&greedy);
	fixture_stop(&fixture);
}
END_TEST

/* Events `from` to `from + n`, which all must be granted; notes their bits. */
static void register_numbered(int socket, unsigned from, unsigned n, bool *seen)
{
	static struct batch batch;
	const char *descriptions[WIRE_BATCH_MAX];
	char names[WIRE_BATCH_MAX][16];

	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "number_%u", from + i);
		descriptions[i] = names[i];
	}
	batch_register(socket, descriptions, n, &batch, NULL);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_msg(batch.answer[i].refusal == 0, "%s: %.*s", names[i], (int)batch.answer[i].length,
			      batch.answer[i].text);
		ck_assert_uint_lt(batch.answer[i].bit, WIRE_PAGE_BITS);
		ck_assert_msg(!seen[batch.answer[i].bit], "bit %u given twice", batch.answer[i].bit);
		seen[batch.answer[i].bit] = true;
	}
}

TEST(one_client_may_fill_the_whole_page)
{
	enum { ALL = WIRE_PAGE_BITS - 1 };
	/* What takes the kernel a minute and more is the same with fewer: the next test. */
	static const char *const options[] = { "--max-events=40000", "--backend=embedded", "--capacity=70000", NULL };
	static bool seen[WIRE_PAGE_BITS];
	struct fixture fixture;
	uint32_t bit = 12345;
	int socket;

	fixture_start(&fixture, options);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	for (unsigned from = 0; from < ALL; from += WIRE_BATCH_MAX)
		register_numbered(socket, from, MIN((unsigned)WIRE_BATCH_MAX, ALL - from), seen);
	ck_assert(!seen[0]);
	ck_assert_uint_eq(status_number(&fixture, "charges"), ALL);
	expect_refusal_to_cost_nothing(&fixture, socket, "one_more", REFUSAL_PAGE_FULL, "no bit left");
	ck_assert_uint_eq(raw_release(socket, &bit, 1), 1);
	ck_assert_uint_eq(expect_granted(socket, "one_more"), bit);
	ck_assert_uint_eq(trace(&fixture, "*", true), ALL);
	ck_assert_uint_eq(trace(&fixture, "*", false), ALL);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(one_client_may_fill_a_page_of_a_thousand)
{
	enum { ALL = 1023 };
	/* While nobody else has any, one tenant's fair share is half of what there is. */
	static const char *const options[] = { "--max-events=40000", "--page-bits=1024", "--capacity=2046", NULL };
	static bool seen[WIRE_PAGE_BITS];
	struct fixture fixture;
	int socket;

	fixture_start(&fixture, options);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	for (unsigned from = 0; from < ALL; from += 128)
		register_numbered(socket, from, MIN(128u, ALL - from), seen);
	ck_assert(!seen[0]);
	ck_assert_uint_eq(status_number(&fixture, "charges"), ALL);
	expect_refusal_to_cost_nothing(&fixture, socket, "one_more", REFUSAL_QUOTA_EXCEEDED,
				       "1023 events, a fair share");
	socket = come_back(&fixture, socket);
	memset(seen, 0, sizeof(seen));
	register_numbered(socket, ALL - 1, 1, seen);
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

/* What /proc tells of the daemon. */

static uint64_t wake_ups(pid_t pid)
{
	return proc_status(pid, "voluntary_ctxt_switches:", 10) + proc_status(pid, "nonvoluntary_ctxt_switches:", 10);
}

static bool has_fallen_asleep(pid_t pid)
{
	uint64_t before = wake_ups(pid);

	usleep(100000);
	return wake_ups(pid) == before;
}

static void expect_to_sleep(pid_t pid, unsigned seconds)
{
	uint64_t before;

	ck_assert_msg(eventually(has_fallen_asleep(pid)), "the daemon does not come to rest");
	before = wake_ups(pid);
	sleep(seconds);
	ck_assert_uint_eq(wake_ups(pid) - before, 0);
}

/* In hundredths of a second, mostly. */
static unsigned long cpu_time(pid_t pid)
{
	char path[64], line[512];
	unsigned long user = 0, system = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
	fclose(file);
	ck_assert_int_eq(
		sscanf(strrchr(line, ')'), ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &user, &system), 2);
	return user + system;
}

static struct rlimit fd_limit(void)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit;
}

static void set_fd_limit(rlim_t number)
{
	const struct rlimit limit = { .rlim_cur = number, .rlim_max = fd_limit().rlim_max };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* As many connections as were asked for, or as this machine allows one process. */
static unsigned most_connections(unsigned wanted)
{
	enum { MARGIN = 64 };
	rlim_t most = fd_limit().rlim_max;

	if (most >= wanted + MARGIN)
		return wanted;
	printf("not possible here, where a process may have %" PRIu64 " fds: more than %" PRIu64 " connections\n",
	       (uint64_t)most, (uint64_t)most - MARGIN);
	return (unsigned)most - MARGIN;
}

static bool has_sanitizer(void)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#else
	return false;
#endif
}

TEST(ten_thousand_idle_connections_cost_a_kilobyte_each_and_no_wake_up)
{
	static int sockets[10000];
	unsigned n = most_connections(is_emulated() ? 1000 : ARRAY_SIZE(sockets));
	struct fixture fixture;
	uint64_t before, grown;
	int first;

	/* What most get: the daemon is to raise it for itself. */
	set_fd_limit(MIN(fd_limit().rlim_max, (rlim_t)1024));
	fixture_start_with_policy(&fixture, "[Daemon]\nDefaultMaxConnections=infinity\n", NULL);
	set_fd_limit(fd_limit().rlim_max);
	first = raw_hello(fixture.socket, 0, NULL, NULL);
	before = proc_status(fixture.pid, "VmRSS:", 10);
	for (unsigned i = 0; i < n; i++)
		sockets[i] = raw_hello(fixture.socket, 0, NULL, NULL);
	grown = proc_status(fixture.pid, "VmRSS:", 10) - before;
	ck_assert_msg(grown <= n || has_sanitizer(), "%u connections cost %" PRIu64 " KiB", n, grown);
	ck_assert_uint_eq(status_number(&fixture, "connections"), n + 1);
	expect_to_sleep(fixture.pid, 2);
	/* The first and the last are served as if they were alone. */
	expect_granted(first, "first");
	expect_granted(sockets[n - 1], "last");
	for (unsigned i = 0; i < n; i++)
		close(sockets[i]);
	close(first);
	fixture_stop(&fixture);
}
END_TEST

TEST(after_something_lingered_the_daemon_sleeps_again)
{
	struct fixture fixture;
	struct holder holder;
	int socket, stream = -1;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(socket, "lingers", NULL, &stream), 0);
	holder_start(&holder, stream);
	close(stream);
	close(socket);
	ck_assert(eventually(status_number(&fixture, "lingering") == 1));
	holder_end(&holder);
	ck_assert(eventually(status_number(&fixture, "streams") == 0));
	expect_to_sleep(fixture.pid, 2);
	fixture_stop(&fixture);
}
END_TEST

static void say_hello(int socket)
{
	encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
	ck_assert_int_eq(raw_send(socket), 0);
}

static void expect_welcome(int socket)
{
	struct raw_reply reply;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "nothing came: %zd", reply.size);
	ck_assert_uint_eq(reply.message.kind, KIND_WELCOME);
	raw_reply_deinit(&reply);
}

TEST(when_fds_run_out_the_others_wait_and_nobody_is_dropped)
{
	/* All that clients may have: one is the stream's, one the page's. */
	enum { FDS = 128, RESERVE = FDS / 4, WAITING = 120, CONNECTIONS = FDS - RESERVE - 2 };
	const struct rlimit few = { .rlim_cur = FDS, .rlim_max = FDS };
	int sockets[WAITING], old, without_stream;
	struct fixture fixture;
	unsigned long before;

	/* With the guard one stream would do for all. */
	fixture_start(&fixture, alone_and_root);
	old = raw_hello(fixture.socket, 0, NULL, NULL);
	without_stream = raw_hello(fixture.socket, 0, NULL, NULL);
	expect_granted(old, "before");
	ck_assert_int_eq(prlimit(fixture.pid, RLIMIT_NOFILE, &few, NULL), 0);
	for (size_t i = 0; i < WAITING; i++) {
		sockets[i] = raw_connect(fixture.socket);
		say_hello(sockets[i]);
	}
	ck_assert(eventually(status_number(&fixture, "connections") == CONNECTIONS));
	/* Pages that nobody takes would make the whole tenant wait. */
	for (size_t i = 0; i < CONNECTIONS - 2; i++)
		expect_welcome(sockets[i]);

	before = cpu_time(fixture.pid);
	sleep(1);
	ck_assert_msg(cpu_time(fixture.pid) - before < (unsigned long)sysconf(_SC_CLK_TCK) / 5,
		      "%lu ticks in a second in which nothing could be done", cpu_time(fixture.pid) - before);
	/* Who is there goes on; who would need an fd for it is told. */
	expect_granted(old, "meanwhile");
	expect_sentence(without_stream, "meanwhile", REFUSAL_TROUBLE, "try again later");
	ck_assert_uint_eq(raw_query(without_stream).events, 2);

	/* Whenever one leaves, the next is let in, in the order in which they came. */
	for (size_t i = 0; i < WAITING; i++) {
		if (i >= CONNECTIONS - 2)
			expect_welcome(sockets[i]);
		close(sockets[i]);
	}
	expect_granted(without_stream, "later");
	close(without_stream);
	close(old);
	fixture_stop(&fixture);
}
END_TEST

static void expect_refusals(const struct fixture *fixture, const char *wanted)
{
	char output[8192];
	const char *const argv[] = { built("userevctl"), "--json", "tenants", NULL };

	ck_assert_int_eq(run_command(fixture, output, sizeof(output), argv), 0);
	ck_assert_msg(strstr(output, wanted), "'%s' is not in '%s'", wanted, output);
}

/* Else each of them would be refused for its tenant, which has its one connection, and counted. */
TEST(connection_that_has_hung_up_is_not_looked_at)
{
	static const char policy[] = "[Daemon]\nDefaultMaxConnections=1\n";
	struct fixture fixture;
	int held, last;

	fixture_start_with_policy(&fixture, policy, NULL);
	held = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_int_eq(kill(fixture.pid, SIGSTOP), 0);
	for (unsigned i = 0; i < 10; i++)
		close(raw_connect(fixture.socket));
	last = raw_connect(fixture.socket);
	ck_assert_int_eq(kill(fixture.pid, SIGCONT), 0);
	expect_cut(last, REFUSAL_TOO_MANY_CONNECTIONS);
	expect_refusals(&fixture, "\"reason\":\"too-many-connections\",\"count\":1}");
	close(last);
	close(held);
	fixture_stop(&fixture);
}
END_TEST

/* Not by its own account: then it would not even ask for what there is no fd for. */
TEST(a_daemon_that_can_take_no_fd_refuses_what_needs_one_and_lives)
{
	const struct rlimit none = { .rlim_cur = 6, .rlim_max = fd_limit().rlim_max }, all = fd_limit();
	struct fixture fixture;
	int first, second;

	fixture_start(&fixture, alone_and_root);
	first = raw_connect(fixture.socket);
	second = raw_connect(fixture.socket);
	ck_assert(eventually(status_number(&fixture, "connections") == 2));
	ck_assert_int_eq(prlimit(fixture.pid, RLIMIT_NOFILE, &none, NULL), 0);
	say_hello(first);
	expect_cut(first, REFUSAL_TROUBLE);
	close(first);
	ck_assert_int_eq(prlimit(fixture.pid, RLIMIT_NOFILE, &all, NULL), 0);

	/* Of the page that was made nothing is left that would be in the way of the next. */
	say_hello(second);
	expect_welcome(second);
	ck_assert_int_eq(prlimit(fixture.pid, RLIMIT_NOFILE, &none, NULL), 0);
	expect_sentence(second, "without_a_stream u32 a", REFUSAL_TROUBLE, "Too many open files");
	ck_assert_uint_eq(raw_query(second).events, 0);
	ck_assert_int_eq(prlimit(fixture.pid, RLIMIT_NOFILE, &all, NULL), 0);
	expect_granted(second, "without_a_stream u32 a");
	close(second);
	fixture_stop(&fixture);
}
END_TEST

TEST(where_the_machine_has_no_file_left_what_needs_one_is_refused_or_waits)
{
	static const char *const alone[] = { "--guard=off", NULL };
	struct shortage shortage;
	struct fixture fixture;
	int old, without_stream, late;

	if (!is_guest()) {
		printf("not possible here: a machine that has no file left, for it is not ours alone\n");
		return;
	}
	fixture_start(&fixture, alone);
	old = raw_hello(fixture.socket, 0, NULL, NULL);
	without_stream = raw_hello(fixture.socket, 0, NULL, NULL);
	expect_granted(old, "before u32 a");

	shortage_begin(&shortage);
	late = raw_connect(fixture.socket);
	say_hello(late);
	ck_assert(eventually(log_has(&fixture, "can't accept on")));
	ck_assert(log_has(&fixture, strerror(ENFILE)));
	expect_sentence(without_stream, "meanwhile u32 a", REFUSAL_TROUBLE, strerror(ENFILE));
	ck_assert_uint_eq(raw_query(without_stream).leases, 0);
	/* Who is there already goes on, but where the kernel's files have to be read for each new event. */
	if (fixture.backend == BACKEND_STATUS_PAGE) {
		expect_sentence(old, "meanwhile u32 a", REFUSAL_TROUBLE, strerror(ENFILE));
	} else {
		expect_granted(old, "meanwhile u32 a");
		ck_assert_uint_eq(raw_query(old).leases, 2);
	}

	shortage_end(&shortage);
	expect_welcome(late);
	expect_granted(late, "later u32 a");
	expect_granted(without_stream, "meanwhile u32 a");
	close(late);
	close(without_stream);
	close(old);
	fixture_stop(&fixture);
}
END_TEST

TEST(an_admin_gets_in_when_clients_have_all_the_fds)
{
	enum { FDS = 160, CLIENTS = 160 };
	const struct rlimit few = { .rlim_cur = FDS, .rlim_max = FDS };
	int sockets[CLIENTS];
	struct fixture fixture;
	uint64_t connections;

	fixture_start(&fixture, stays_root);
	ck_assert_int_eq(prlimit(fixture.pid, RLIMIT_NOFILE, &few, NULL), 0);
	for (size_t i = 0; i < CLIENTS; i++) {
		sockets[i] = raw_connect(fixture.socket);
		say_hello(sockets[i]);
	}
	/* All that clients may have, but for their page, and not one more. */
	ck_assert(eventually(status_number(&fixture, "connections") == FDS - FDS / 4 - 1));
	usleep(300000);
	connections = status_number(&fixture, "connections");
	ck_assert_uint_eq(connections, FDS - FDS / 4 - 1);
	for (size_t i = 0; i < CLIENTS; i++)
		close(sockets[i]);
	fixture_stop(&fixture);
}
END_TEST

/* How it begins and ends. */

static void expect_the_end(int socket)
{
	struct raw_reply reply;

	do
		raw_receive(socket, &reply);
	while (reply.size > 0);
	ck_assert_msg(reply.size == 0 || reply.size == -ECONNRESET, "%zd", reply.size);
	close(socket);
}

/* With everything under way that can be under way. */
static void end_by_signal(int signal)
{
	const uint32_t record[2] = { 0 }; /* index, n */
	struct fixture fixture;
	struct holder holder;
	int greeted, silent, left, admin, stream = -1, lingering = -1, status;

	fixture_start(&fixture, NULL);
	greeted = raw_hello(fixture.socket, 0, NULL, NULL);
	silent = raw_connect(fixture.socket);
	left = raw_hello(fixture.socket, 0, NULL, NULL);
	ck_assert_uint_eq(raw_register(greeted, "held u32 n", NULL, &stream), 0);
	ck_assert_uint_eq(raw_register(left, "left_behind u32 n", NULL, &lingering), 0);
	holder_start(&holder, lingering);
	close(lingering);
	close(left);
	ck_assert(eventually(status_number(&fixture, "lingering") == 1));
	admin = raw_connect(fixture.control);
	encode_strings(raw_packet(KIND_TAIL), TAIL_PAST);
	ck_assert_int_eq(raw_send(admin), 0);
	ck_assert_uint_eq(trace(&fixture, "*", true), 2);
	ck_assert_msg(write(stream, record, sizeof(record)) == sizeof(record), "write: %s", strerror(errno));
	encode_watch(raw_packet(KIND_WATCH), &(struct wire_watch){ .on = 1 });
	ck_assert_int_eq(raw_send(greeted), 0);

	status = fixture_end(&fixture, signal);
	ck_assert_msg(status == 0, "the daemon ended with status %#x", (unsigned)status);
	ck_assert_int_lt(access(fixture.socket, F_OK), 0);
	ck_assert_int_lt(access(fixture.control, F_OK), 0);
	expect_the_end(greeted);
	expect_the_end(silent);
	expect_the_end(admin);
	/* The kernel goes on taking records. */
	if (keeps_records_itself(&fixture)) {
		ck_assert_int_lt(write(stream, record, sizeof(record)), 0);
		ck_assert_int_eq(errno, EPIPE);
	} else {
		ck_assert_msg(write(stream, record, sizeof(record)) == sizeof(record), "%s", strerror(errno));
	}
	close(stream);
	holder_end(&holder);
	fixture_abandon(&fixture);
}

TEST(the_daemon_ends_cleanly_with_everybody_connected)
{
	signal(SIGPIPE, SIG_IGN);
	end_by_signal(SIGTERM);
	end_by_signal(SIGINT);
}
END_TEST

TEST(a_daemon_that_root_started_has_given_up_everything)
{
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	if (geteuid() == 0) {
		ck_assert_uint_ne(proc_status(fixture.pid, "Uid:", 10), 0);
		ck_assert_uint_ne(proc_status(fixture.pid, "Gid:", 10), 0);
		ck_assert_uint_eq(proc_status(fixture.pid, "NoNewPrivs:", 10), 1);
		ck_assert_uint_eq(proc_status(fixture.pid, "CapBnd:", 16), 0);
	}
	ck_assert_uint_eq(proc_status(fixture.pid, "CapEff:", 16), 0);
	ck_assert_uint_eq(proc_status(fixture.pid, "CapPrm:", 16), 0);
	fixture_stop(&fixture);
}
END_TEST

static void read_pid(void *data, struct cursor row)
{
	*(pid_t *)data = (pid_t)row_get_u64(row, "pid");
}

/* Starts one more daemon on these sockets; its exit status. */
static int start_another(const char *socket, const char *control, const char *option, char *output, size_t size)
{
	char socket_option[160], control_option[160];
	const char *const argv[] = { built("userevd"),	    socket_option, control_option,
				     "--log-level=warning", option,	   NULL };

	/* As if no supervisor had started the tests. */
	unsetenv("NOTIFY_SOCKET");
	unsetenv("INVOCATION_ID");
	snprintf(socket_option, sizeof(socket_option), "--socket=%s", socket);
	snprintf(control_option, sizeof(control_option), "--control-socket=%s", control);
	return run_command(NULL, output, size, argv);
}

/* One that has gone to the background: asks it for its pid and ends it by that. It is our child if we are a subreaper. */
static void end_background(const char *control)
{
	int admin = raw_connect(control), status = -1;
	pid_t pid = 0;

	ck_assert_uint_eq(raw_rows(admin, KIND_STATUS, 0, NULL, read_pid, &pid), 0);
	close(admin);
	ck_assert_int_gt(pid, 1);
	ck_assert_int_eq(kill(pid, SIGTERM), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "the daemon ended with status %#x", (unsigned)status);
}

TEST(a_stale_socket_is_taken_over_and_the_background_daemon_ends_by_the_pid_of_its_status)
{
	struct fixture fixture;
	char output[1024];

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* One that was started as root and became somebody else has somebody to tidy up after it. */
	fixture_start(&fixture, stays_root);
	fixture_end(&fixture, SIGKILL);
	ck_assert_int_eq(access(fixture.socket, F_OK), 0);
	ck_assert_int_eq(access(fixture.control, F_OK), 0);

	/* When this returns it listens. */
	ck_assert_int_eq(start_another(fixture.socket, fixture.control, NULL, output, sizeof(output)), 0);
	ck_assert_str_eq(output, "");
	close(raw_hello(fixture.socket, 0, NULL, NULL));
	end_background(fixture.control);
	ck_assert_int_lt(access(fixture.socket, F_OK), 0);
	ck_assert_int_lt(access(fixture.control, F_OK), 0);
	fixture_abandon(&fixture);
}
END_TEST

TEST(in_the_background_relative_paths_mean_what_they_meant)
{
	char directory[64], output[1024];
	int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	make_temporary_directory(directory, sizeof(directory));
	ck_assert_int_eq(chdir(directory), 0);
	ck_assert_int_eq(start_another("here.sock", "below/control.sock", NULL, output, sizeof(output)), 0);
	close(raw_hello("here.sock", 0, NULL, NULL));
	end_background("below/control.sock");
	/* It found them again to remove them, and the directory that it had made. */
	ck_assert_int_lt(access("below", F_OK), 0);
	ck_assert_int_eq(fchdir(before), 0);
	ck_assert_int_eq(rmdir(directory), 0);
	close(before);
}
END_TEST

static void expect_start_to_fail(const char *socket, const char *control, const char *part)
{
	char output[1024];

	ck_assert_int_eq(start_another(socket, control, "--foreground", output, sizeof(output)), 1);
	ck_assert_msg(strstr(output, part), "'%s' is not in '%s'", part, output);
	/* Whoever starts it in the background learns the same. */
	ck_assert_int_eq(start_another(socket, control, NULL, output, sizeof(output)), 1);
	ck_assert_msg(strstr(output, part), "'%s' is not in '%s'", part, output);
}

TEST(a_living_daemons_socket_is_not_taken_over)
{
	struct fixture fixture;
	char other[128];
	int socket;

	fixture_start(&fixture, NULL);
	socket = raw_hello(fixture.socket, 0, NULL, NULL);
	snprintf(other, sizeof(other), "%s/other.sock", fixture.directory);
	expect_start_to_fail(fixture.socket, other, "another daemon listens on");
	ck_assert_int_lt(access(other, F_OK), 0);
	/* What the second one had begun it takes back. */
	expect_start_to_fail(other, fixture.control, "another daemon listens on");
	ck_assert_int_lt(access(other, F_OK), 0);
	expect_granted(socket, "still_there");
	close(raw_hello(fixture.socket, 0, NULL, NULL));
	close(socket);
	fixture_stop(&fixture);
}
END_TEST

TEST(what_is_not_a_socket_is_not_removed)
{
	struct fixture fixture;
	char path[128], control[128], longer[160];

	fixture_start(&fixture, NULL);
	snprintf(control, sizeof(control), "%s/other.sock", fixture.directory);
	expect_start_to_fail(fixture.log, control, "can't listen on");
	ck_assert_int_eq(access(fixture.log, F_OK), 0);
	expect_start_to_fail(fixture.directory, control, "can't listen on");
	snprintf(path, sizeof(path), "%s/no/such/directory", fixture.directory);
	expect_start_to_fail(path, control, "can't listen on");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	longer[0] = '/';
	expect_start_to_fail(longer, control, "can't listen on");
	fixture_stop(&fixture);
}
END_TEST

TEST(it_ends_when_its_parent_does_if_it_was_told_to)
{
	static const char script[] = "\"$0\" --exit-with-parent --socket=\"$1/s\" --control-socket=\"$1/c\" & "
				     "while ! [ -S \"$1/c\" ]; do sleep 0.01; done >/dev/null 2>&1";
	char directory[64], path[96], output[1024];
	const char *const argv[] = { "/bin/sh", "-c", script, built("userevd"), directory, NULL };

	make_temporary_directory(directory, sizeof(directory));
	/* Returns when the daemon, too, has closed its output. */
	ck_assert_int_eq(run_command(NULL, output, sizeof(output), argv), 0);
	snprintf(path, sizeof(path), "%s/s", directory);
	ck_assert(eventually(access(path, F_OK) < 0));
	ck_assert(eventually(rmdir(directory) == 0));
}
END_TEST

static int run_with(const char *option, char *output, size_t size)
{
	const char *const argv[] = { built("userevd"), option, NULL };

	return run_command(NULL, output, size, argv);
}

TEST(help_and_version_are_told)
{
	char output[4096];

	ck_assert_int_eq(run_with("--help", output, sizeof(output)), 0);
	ck_assert_ptr_nonnull(strstr(output, "Usage: userevd"));
	ck_assert_ptr_nonnull(strstr(output, "--max-events=N"));
	ck_assert_int_eq(run_with("-h", output, sizeof(output)), 0);
	ck_assert_int_eq(run_with("--version", output, sizeof(output)), 0);
	ck_assert_str_eq(output, "userevd " VERSION "\n");
}
END_TEST

TEST(wrong_options_exit_with_two_and_a_sentence)
{
	static const struct {
		const char *option, *part;
	} wrong[] = {
		{ "--max-events=many", "give a number from 0 to" },
		{ "--max-events=-1", "give a number" },
		{ "--max-events=", "give a number" },
		{ "--max-events=5x", "give a number" },
		{ "--max-events=4294967296", "give a number from 0 to 4294967294" },
		{ "--max-events=1K", "give a number" },
		{ "--page-bits=1", "from 2 to 32768" },
		{ "--page-bits=32769", "from 2 to 32768" },
		{ "--capacity=0", "from 1 to" },
		{ "--client-timeout=0", "from 1 to 3600" },
		{ "--ring-size=4095", "from 4096 to" },
		{ "--ring-size=1G", "give a number" },
		{ "--ring-size=18014398509481988K", "give a number" }, /* 2^64 + 4096 */
		{ "--ready-fd=x", "give a number" },
		{ "--tenants=user", "give cgroup or process" },
		{ "--log-level=loud", "give err, warning, notice, info or debug" },
		{ "--backend=magic", "give auto, embedded, status-page or enable-address" },
		{ "--bogus", "bogus" },
		{ "-x", "x" },
		{ "--socket", "requires an argument" },
		{ "stray", "unexpected argument 'stray'" },
	};
	char output[4096];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		int status = run_with(wrong[i].option, output, sizeof(output));

		ck_assert_msg(status == 2, "%s: exit status %d", wrong[i].option, status);
		ck_assert_msg(strstr(output, wrong[i].part), "%s: '%s' is not in '%s'", wrong[i].option, wrong[i].part,
			      output);
		ck_assert_ptr_nonnull(strstr(output, "userevd --help"));
	}
}
END_TEST

SUITE("limits", the_event_after_the_last_is_refused_and_costs_nothing,
      who_comes_near_to_its_maximum_is_told_of_in_the_log, a_batch_is_granted_as_far_as_it_fits,
      whoever_may_have_none_gets_no_stream_either, a_page_holds_as_many_events_as_it_has_bits_but_for_the_first,
      the_smallest_page_holds_one_event, the_machine_pays_once_for_what_two_tenants_have,
      a_machine_that_is_full_gives_what_is_there_and_nothing_else, who_takes_all_it_can_leaves_room_for_the_next_one,
      one_client_may_fill_the_whole_page, one_client_may_fill_a_page_of_a_thousand,
      ten_thousand_idle_connections_cost_a_kilobyte_each_and_no_wake_up,
      after_something_lingered_the_daemon_sleeps_again, when_fds_run_out_the_others_wait_and_nobody_is_dropped,
      connection_that_has_hung_up_is_not_looked_at, a_daemon_that_can_take_no_fd_refuses_what_needs_one_and_lives,
      where_the_machine_has_no_file_left_what_needs_one_is_refused_or_waits,
      an_admin_gets_in_when_clients_have_all_the_fds, the_daemon_ends_cleanly_with_everybody_connected,
      a_daemon_that_root_started_has_given_up_everything,
      a_stale_socket_is_taken_over_and_the_background_daemon_ends_by_the_pid_of_its_status,
      in_the_background_relative_paths_mean_what_they_meant, a_living_daemons_socket_is_not_taken_over,
      what_is_not_a_socket_is_not_removed, it_ends_when_its_parent_does_if_it_was_told_to, help_and_version_are_told,
      wrong_options_exit_with_two_and_a_sentence)
