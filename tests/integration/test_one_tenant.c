/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events that are on for one tenant alone: userevctl's commands, and the truth in pages, in the tracer's records, and in system calls. */

#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/ptrace.h>

#include "client/userev.h"
#include "tests/integration/machine.h"
#include "tests/integration/policy.h"
#include "tests/integration/silence.h"

/* --- one tenant --- */

static void tracer_write_top(const char *event, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), TRACEFS "/events/user_events/%s/enable", event);
	write_file(path, text);
}

SILENT_TEST(event_is_on_for_one_tenant_alone)
{
	PROGRAM(one, "one", "alone u32 x");
	PROGRAM(two, "two", "alone u32 x");
	PROGRAM(three, "three", "alone u32 x");

	if (!has_a_page_per_tenant(fixture)) {
		expect_ctl(EXIT_SUCCESS, "have now, and none that comes later", "enable", "alone", "--tenant",
			   one.path);
		ck_assert(is_on(&one) && is_on(&two));
		expect_ctl(EXIT_SUCCESS, "1 event is off", "disable", "alone");
		return;
	}
	expect_ctl(EXIT_SUCCESS, "1 event is on, for ", "enable", "alone", "--tenant", one.path);
	ck_assert_msg(strstr(ctl_output, "alone: off for 2 other tenants."), "%s", ctl_output);
	ck_assert(is_on(&one) && !is_on(&two) && !is_on(&three));
	/* Another tracer changes nothing about that. */
	trace(fixture, "alone", true);
	ck_assert(is_on(&one) && !is_on(&two) && !is_on(&three));
	member_emit(&one.member, 0, 5);
	expect_traced(fixture, &one.member, 0);
	{
		PROGRAM(late, "late", "alone u32 x");
		PROGRAM(beside, "one", "alone u32 x");

		ck_assert(!is_on(&late) && is_on(&beside));
	}
	expect_ctl(EXIT_SUCCESS, "on in 1 of 3", "events", "alone");
	expect_ctl(EXIT_SUCCESS, "Only: alone in ", "status");
	expect_ctl(EXIT_SUCCESS, "\"only\":[{\"tenant\":\"", "events", "--json");
	/* A second one, by a pid. */
	expect_ctl(EXIT_SUCCESS, "off for 1 other tenant.", "enable", "alone", "--tenant", two.pid);
	ck_assert(is_on(&one) && is_on(&two) && !is_on(&three));
	expect_ctl(EXIT_SUCCESS, "1 event is on.", "enable", "alone");
	ck_assert(is_on(&one) && is_on(&two) && is_on(&three));
	expect_ctl(EXIT_SUCCESS, "silences\":0", "status", "--json");
	/* disable ends it, too: once more it is on for all. */
	expect_ctl(EXIT_SUCCESS, "1 event is on", "enable", "alone", "--tenant", one.path);
	trace(fixture, "alone", false);
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "alone");
	ck_assert(!is_on(&one) && !is_on(&two) && !is_on(&three));
	trace(fixture, "alone", true);
	ck_assert(is_on(&one) && is_on(&two) && is_on(&three));
	trace(fixture, "alone", false);
}

static bool filter_of_by_hand_has(const char *text)
{
	return file_has_line(TRACEFS "/events/user_events/by_hand/filter", "", text);
}

/* A filter does what the page can't. */
DAEMON_TEST(foreign_event_is_recorded_for_one_tenant, .policy = ROOT_IS_TRUSTED,
	    .needs_cgroups = "tenants of their own", .needs_guest = "foreign events")
{
	char condition[64];
	PROGRAM(one, "one", "daemons u32 x");
	PROGRAM(two, "two", "daemons u32 x");

	write_file(TRACEFS "/dynamic_events", "u:by_hand u32 x");
	snprintf(condition, sizeof(condition), "common_pid == %s", one.pid);
	expect_ctl(EXIT_FAILURE, "1 event is for all tenants or for none", "enable", "--keep", "--foreign", "by_hand",
		   "--tenant", one.path);
	expect_ctl(EXIT_SUCCESS, "have now, and none that comes later", "enable", "--foreign", "by_hand", "daemons",
		   "--tenant", one.path);
	ck_assert_msg(filter_of_by_hand_has(condition), "%s", condition);
	ck_assert(is_on(&one) && is_on(&two) == !has_a_page_per_tenant(fixture));
	expect_ctl(EXIT_SUCCESS, "2 events are on.", "enable", "--foreign", "by_hand", "daemons");
	ck_assert(filter_of_by_hand_has("none"));
	expect_ctl(EXIT_SUCCESS, "2 events are off.", "disable", "--foreign", "by_hand", "daemons");
	ck_assert(!is_on(&one) && !is_on(&two));
	/* Since Linux 6.4 it has gone by itself. */
	CTL("delete", "--foreign", "by_hand");
}

SILENT_TEST(rule_for_a_tenant_to_come_is_announced)
{
	char path[256];
	PROGRAM(one, "one", "comes u32 x");

	if (!has_a_page_per_tenant(fixture))
		return;
	string_copy(path, sizeof(path), cgroup_path(make_cgroup("comes")));
	expect_ctl(EXIT_SUCCESS, "no tenant matches", "enable", "comes", "--tenant", path);
	ck_assert(!is_on(&one));
	{
		PROGRAM(late, "comes", "comes u32 x");

		ck_assert(is_on(&late) && !is_on(&one));
	}
	expect_ctl(EXIT_FAILURE, "no tenant is called 'nobody'", "enable", "comes", "--tenant", "nobody");
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "comes");
	/* A pattern. */
	string_copy(path, sizeof(path), one.path);
	string_copy(strrchr(path, '/'), 3, "/*");
	expect_ctl(EXIT_SUCCESS, "1 event is on", "enable", "comes", "--tenant", path);
	ck_assert(is_on(&one));
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "comes");
}

static bool has_no_rules(const struct fixture *fixture)
{
	return CTL("status", "--json") == EXIT_SUCCESS && strstr(ctl_output, "\"silences\":0");
}

SILENT_TEST(tail_of_a_tenant_switches_on_for_it_alone)
{
	PROGRAM(one, "one", "watched u32 x");
	PROGRAM(two, "two", "watched u32 x");
	pid_t tail = START("tail", "--tenant", one.path, "watched"), second;

	ck_assert(eventually(is_on(&one)));
	if (!has_a_page_per_tenant(fixture)) {
		ck_assert(is_on(&two));
		end_ctl(tail, SIGTERM);
		return;
	}
	ck_assert(!is_on(&two));
	expect_ctl(EXIT_SUCCESS, " (while a command runs)", "status");
	{
		PROGRAM(late, "late", "watched u32 x");

		ck_assert(!is_on(&late));
	}
	second = START("tail", "--tenant", two.path, "watched");
	ck_assert(eventually(is_on(&two)) && is_on(&one));
	end_ctl(second, SIGTERM);
	ck_assert(eventually(!is_on(&two)) && is_on(&one));
	/* An admin who wants it on for all has it. */
	expect_ctl(EXIT_SUCCESS, "1 event is on.", "enable", "watched");
	ck_assert(is_on(&one) && is_on(&two));
	end_ctl(tail, SIGTERM);
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "watched");
	ck_assert(eventually(!is_on(&one)) && !is_on(&two));
	ck_assert(has_no_rules(fixture));
}

SILENT_TEST(tail_of_a_tenant_leaves_other_tracers_alone)
{
	PROGRAM(one, "one", "watched u32 x");
	PROGRAM(two, "two", "watched u32 x");

	trace(fixture, "watched", true);
	expect_ctl(EXIT_SUCCESS, "1 event is on for other tenants, too, whose records are left out.", "tail",
		   "--timeout=1", "--tenant", one.path, "watched");
	ck_assert(is_on(&one) && is_on(&two));
	if (fixture->backend != BACKEND_EMBEDDED)
		expect_ctl(EXIT_SUCCESS, "counts only the 1 thread that these", "hist", "--key=x",
			   "--filter=x > 1 || x == 0", "--timeout=1", "--tenant", one.path, "watched");
	trace(fixture, "watched", false);
	if (!has_a_page_per_tenant(fixture))
		return;
	expect_ctl(EXIT_SUCCESS, "1 event is on for 1 tenant alone.", "tail", "--timeout=1", "--tenant", one.path,
		   "watched");
	ck_assert(eventually(!is_on(&one) && !is_on(&two)));
	if (fixture->backend != BACKEND_EMBEDDED)
		expect_ctl(EXIT_SUCCESS, "no tenant is called 'nobody' now", "tail", "--timeout=1", "--tenant=nobody",
			   "watched");
	expect_ctl(EXIT_SUCCESS, "1 event is on for 1 tenant alone.", "stats", "--count=1", "--tenant", one.path,
		   "watched");
	if (fixture->backend != BACKEND_EMBEDDED)
		expect_ctl(EXIT_SUCCESS, "1 event is on for 1 tenant alone.", "hist", "--key=x", "--timeout=1",
			   "--tenant", one.path, "watched");
	expect_ctl(EXIT_SUCCESS, "1 event is on", "enable", "watched", "--tenant", two.path);
	expect_ctl(EXIT_SUCCESS, "1 event is on for some tenants alone", "tail", "--timeout=1", "watched");
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "watched");
	ck_assert(has_no_rules(fixture));
}

SILENT_TEST(session_of_a_tenant_is_on_for_it_alone)
{
	PROGRAM(one, "one", "watched u32 x");
	PROGRAM(two, "two", "watched u32 x");

	if (fixture->backend == BACKEND_EMBEDDED)
		return;
	expect_ctl(2, "give --event, too", "session", "create", "test-tenant", "--kernel-event=sched:sched_switch",
		   "--tenant", one.path);
	expect_ctl(EXIT_FAILURE, "no tenant is called 'nobody'", "session", "create", "test-tenant", "--event=watched",
		   "--tenant=nobody");
	ck_assert(!is_on(&one) && has_no_rules(fixture));
	expect_ctl(EXIT_FAILURE, "the kernel refuses", "session", "create", "test-tenant", "--event=watched",
		   "--trigger=nonsense", "--tenant", one.path);
	ck_assert(!is_on(&one) && has_no_rules(fixture));
	expect_ctl(EXIT_SUCCESS, has_a_page_per_tenant(fixture) ? "on for 1 tenant alone" : "on for all tenants",
		   "session", "create", "test-tenant", "--event=watched", "--tenant", one.path);
	ck_assert(is_on(&one) && is_on(&two) == !has_a_page_per_tenant(fixture));
	/* The test writes, in its own cgroup. */
	member_emit(&one.member, 0, 7);
	expect_ctl(EXIT_SUCCESS, "x=7", "session", "snapshot", "test-tenant");
	member_emit(&one.member, 0, 8);
	expect_ctl(EXIT_SUCCESS, "0 records", "session", "snapshot", "test-tenant", "--tenant", two.path);
	expect_ctl(EXIT_SUCCESS, "is destroyed", "session", "destroy", "test-tenant");
	ck_assert(!is_on(&one) && !is_on(&two) && has_no_rules(fixture));
	/* One whose event another tracer has on ends nothing of that. */
	if (!has_a_page_per_tenant(fixture))
		return;
	expect_ctl(EXIT_SUCCESS, "1 event is on", "enable", "watched", "--tenant", one.path);
	expect_ctl(EXIT_SUCCESS, "on for 1 tenant alone", "session", "create", "test-tenant", "--event=watched",
		   "--tenant", two.path);
	ck_assert(is_on(&one) && is_on(&two));
	expect_ctl(EXIT_SUCCESS, "is destroyed", "session", "destroy", "test-tenant");
	ck_assert(is_on(&one));
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "watched");
	ck_assert(has_no_rules(fixture));
}

/* Its tenant comes, goes, and comes again; it is killed. */
SILENT_TEST(tail_waits_for_its_tenant)
{
	char path[256], pattern[300];
	PROGRAM(two, "two", "watched u32 x");
	pid_t tail;

	if (!has_a_page_per_tenant(fixture))
		return;
	string_copy(path, sizeof(path), cgroup_path(make_cgroup("expected-1")));
	snprintf(pattern, sizeof(pattern), "%.*s*", (int)strlen(path) - 1, path);
	tail = START("tail", "--tenant", pattern, "watched");
	for (unsigned round = 0; round < 2; round++) {
		PROGRAM(one, "expected-1", "watched u32 x");
		PROGRAM(other, "expected-2", "watched u32 x");

		ck_assert(eventually(is_on(&one) && is_on(&other)));
		/* With the embedded backend it is on for all if no such tenant is there at the beginning. */
		ck_assert(fixture->backend == BACKEND_EMBEDDED || !is_on(&two));
	}
	end_ctl(tail, SIGKILL);
	ck_assert(eventually(has_no_rules(fixture)));
	/* The next one removes what is left of it in the kernel. */
	CTL("tail", "--timeout=1", "--tenant=nobody", "watched");
	ck_assert(eventually(!is_on(&two)));
}

/* A name is that of one tenant, or it is refused; the rule is its path. */
SILENT_TEST(name_of_a_tenant_is_looked_up_once)
{
	PROGRAM(one, "named-one", "named u32 x");
	PROGRAM(two, "named-two", "named u32 x");

	if (!has_a_page_per_tenant(fixture))
		return;
	if (CTL("name", "--engine", "podman", one.path, "shop") != EXIT_SUCCESS) {
		not_possible("a cgroup with a name");
		return;
	}
	trace(fixture, "named", true);
	expect_ctl(EXIT_SUCCESS, "shop (podman) is muted: 1 event is off.", "mute", "shop");
	ck_assert(!is_on(&one) && is_on(&two));
	expect_ctl(EXIT_SUCCESS, "Muted: shop (podman)", "status");
	/* A tenant that gets the name later is not concerned. */
	expect_ctl(EXIT_SUCCESS, "", "name", "--engine", "podman", two.path, "shop");
	ck_assert(!is_on(&one) && is_on(&two));
	expect_ctl(EXIT_FAILURE, "2 tenants are called 'shop'", "block", "shop");
	ck_assert_msg(strstr(ctl_output, one.path) && strstr(ctl_output, two.path), "%s", ctl_output);
	/* A glob means all of them. */
	expect_ctl(EXIT_SUCCESS, "is muted", "mute", "sho*");
	ck_assert(!is_on(&one) && !is_on(&two));
	expect_ctl(EXIT_SUCCESS, "not muted any more", "unmute", "shop (podman)");
	ck_assert(is_on(&one) && is_on(&two));
	trace(fixture, "named", false);
}

DAEMON_TEST(event_is_kept_for_one_tenant, .policy = ROOT_IS_TRUSTED "[Event kept_alone]\nFields=u32 x\n",
	    .needs_cgroups = "tenants of their own", .needs_guest = "a change of /etc")
{
	PROGRAM(one, "one", "kept_alone u32 x");
	PROGRAM(two, "two", "kept_alone u32 x");

	if (!has_a_page_per_tenant(fixture))
		return;
	expect_ctl(EXIT_SUCCESS, "1 event is on, for", "enable", "--keep", "kept_alone", "--tenant", one.path);
	ck_assert(is_on(&one) && !is_on(&two));
	ck_assert(file_has_line("/etc/userevd/kept-events", "kept_alone ", one.path));
	/* As after a boot. */
	tracer_write_top("kept_alone", "0");
	expect_ctl(EXIT_SUCCESS, "", "status");
	ck_assert(!is_on(&one));
	expect_ctl(EXIT_SUCCESS, "1 event is on.", "enable", "--kept");
	ck_assert(is_on(&one) && !is_on(&two));
	expect_ctl(EXIT_SUCCESS, "1 event is on.", "enable", "--keep", "kept_alone");
	ck_assert(is_on(&one) && is_on(&two));
	ck_assert(!file_has_line("/etc/userevd/kept-events", "kept_alone ", one.path));
	expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "kept_alone");
	ck_assert(!file_has_line("/etc/userevd/kept-events", "kept_alone", ""));
}

/* --- hundreds of tenants --- */

enum { TESTS = 100, FEW = 40, MANY = 500, AT_ONCE = 5 };

struct ticker {
	pid_t pid;
	int leash;
};

/* Waits for a byte; tests the event, and writes a record each time it is on; and answers with a byte. */
static _Noreturn void tick(const char *socket)
{
	static struct userev_event event;
	struct userev *userev = userev_open(socket, 0);
	const uint32_t value = 1;
	char byte = 'x';

	ck_assert_int_eq(userev_connected(userev), 0);
	ck_assert_int_eq(userev_register(userev, &event, "ticks u32 x", 0), 0);
	/* On a busy machine the answer may come later, and would be read at the first test. */
	while (!userev_event_name(&event))
		userev_poll(userev, 1000);
	ck_assert_int_eq(write(3, &byte, 1), 1);
	while (read(3, &byte, 1) == 1) {
		for (unsigned i = 0; i < TESTS; i++)
			if (userev_enabled(&event))
				userev_write(&event, &value, sizeof(value));
		ck_assert_int_eq(write(3, &byte, 1), 1);
	}
	_exit(EXIT_SUCCESS);
}

static struct ticker ticker_new(const struct fixture *fixture, const char *cgroup)
{
	const struct actor_as as = { .cgroup = cgroup };
	struct ticker ticker;

	ticker.pid = actor_fork(-1, &ticker.leash);
	if (ticker.pid == 0) {
		actor_become(&as);
		tick(fixture->socket);
	}
	return ticker;
}

static void ticker_await(const struct ticker *ticker)
{
	char byte;

	ck_assert_int_eq(read(ticker->leash, &byte, 1), 1);
}

static void ticker_end(const struct ticker *ticker)
{
	close(ticker->leash);
	ck_assert_int_eq(waitpid(ticker->pid, NULL, 0), ticker->pid);
}

struct calls {
	unsigned writes; /* writev() or write() of records */
	unsigned others;
};

/* Its system calls from the byte that it reads to its answer, as strace(1) finds them. */
static struct calls ticker_trace(const struct ticker *ticker)
{
	struct ptrace_syscall_info call;
	struct calls calls = { 0 };
	bool begun = false, ended = false;
	int status;

	ck_assert_int_eq(ptrace(PTRACE_SEIZE, ticker->pid, NULL, (void *)PTRACE_O_TRACESYSGOOD), 0);
	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, ticker->pid, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(ticker->pid, &status, 0), ticker->pid);
	ck_assert_int_eq(write(ticker->leash, "x", 1), 1);
	while (!ended) {
		ck_assert_int_eq(ptrace(PTRACE_SYSCALL, ticker->pid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(ticker->pid, &status, 0), ticker->pid);
		ck_assert(WIFSTOPPED(status));
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		ck_assert_int_gt(ptrace(PTRACE_GET_SYSCALL_INFO, ticker->pid, (void *)sizeof(call), &call), 0);
		if (call.op == PTRACE_SYSCALL_INFO_EXIT && !begun) {
			/* Of the read; its beginning was before. */
			begun = call.exit.rval == 1;
			continue;
		}
		if (call.op != PTRACE_SYSCALL_INFO_ENTRY || !begun)
			continue;
		ended = call.entry.nr == SYS_write && call.entry.args[0] == 3;
		if (call.entry.nr == SYS_writev || (call.entry.nr == SYS_write && !ended))
			calls.writes++;
		else if (!ended)
			calls.others++;
	}
	ck_assert_int_eq(ptrace(PTRACE_DETACH, ticker->pid, NULL, NULL), 0);
	ticker_await(ticker);
	return calls;
}

static uint64_t timed_ctl(const struct fixture *fixture, const char *const *words)
{
	const uint64_t begun = clock_us();

	ck_assert_msg(run_ctl(fixture, words) == EXIT_SUCCESS, "%s", ctl_output);
	return clock_us() - begun;
}

#define TIMED(...) timed_ctl(fixture, (const char *const[]){ __VA_ARGS__, NULL })

SILENT_TEST(other_tenants_make_no_system_call)
{
	static struct ticker tickers[MANY];
	const unsigned n = is_guest() || getenv("FULL") ? MANY : FEW;
	char name[32], chosen[256] = "";
	uint64_t all, all_off, one, one_off;
	struct calls calls;
	struct seen seen;

	if (!has_a_page_per_tenant(fixture))
		return;
	for (unsigned i = 0; i < n; i++) {
		const char *directory;

		snprintf(name, sizeof(name), "many-%u", i);
		directory = make_cgroup(name);
		if (i == n / 2)
			string_copy(chosen, sizeof(chosen), cgroup_path(directory));
		tickers[i] = ticker_new(fixture, directory);
		/* Hundreds at once would take longer than the library waits for a connection, on an emulated processor. */
		if (i >= AT_ONCE)
			ticker_await(&tickers[i - AT_ONCE]);
	}
	for (unsigned i = n - AT_ONCE; i < n; i++)
		ticker_await(&tickers[i]);
	expect_status(fixture, "tenants=%u", n);
	all = TIMED("enable", "ticks");
	all_off = TIMED("disable", "ticks");
	one = TIMED("enable", "ticks", "--tenant", chosen);
	trace(fixture, "ticks", true);
	for (unsigned i = 0; i < n; i++) {
		calls = ticker_trace(&tickers[i]);
		ck_assert_uint_eq(calls.writes, i == n / 2 ? TESTS : 0);
		ck_assert_uint_eq(calls.others, 0);
	}
	see(fixture, "ticks", &seen);
	ck_assert_uint_eq(seen.records, TESTS);
	ck_assert_int_eq(seen.pid, tickers[n / 2].pid);
	/* Muted, that one pays a load and a test, too. */
	ck_assert_msg(CTL("mute", chosen) == EXIT_SUCCESS, "%s", ctl_output);
	calls = ticker_trace(&tickers[n / 2]);
	ck_assert_uint_eq(calls.writes + calls.others, 0);
	ck_assert_msg(CTL("unmute", chosen) == EXIT_SUCCESS, "%s", ctl_output);
	trace(fixture, "ticks", false);
	one_off = TIMED("disable", "ticks");
	printf("%u tenants, userevctl enable and disable: for all %lu and %lu us, for one %lu and %lu us\n", n,
	       (unsigned long)all, (unsigned long)all_off, (unsigned long)one, (unsigned long)one_off);
	ck_assert(!log_has(fixture, "the kernel refuses"));
	for (unsigned i = 0; i < n; i++)
		ticker_end(&tickers[i]);
}

/* --- before Linux 6.4 --- */

static void tick_once(const struct ticker *ticker)
{
	ck_assert_int_eq(write(ticker->leash, "x", 1), 1);
	ticker_await(ticker);
}

/* In the top instance of tracefs, where this kernel prints a hex dump of each record: a pid is at its fifth byte. */
static unsigned count_records_of(pid_t pid)
{
	FILE *file = fopen(TRACEFS "/trace", "re");
	unsigned n = 0, byte[8];
	char line[512];

	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		n += sscanf(line, "00000000: %x %x %x %x %x %x %x %x", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4],
			    &byte[5], &byte[6], &byte[7]) == 8 &&
		     (pid_t)(byte[4] | byte[5] << 8 | byte[6] << 16 | byte[7] << 24) == pid;
	fclose(file);
	return n;
}

DAEMON_TEST(filter_records_one_tenant_of_a_shared_page, .policy = ROOT_IS_TRUSTED,
	    .needs_cgroups = "tenants of their own", .needs_kernel = "a page that all tenants share")
{
	const struct ticker one = ticker_new(fixture, make_cgroup("one")),
			    two = ticker_new(fixture, make_cgroup("two"));
	char path[256];

	ticker_await(&one);
	ticker_await(&two);
	string_copy(path, sizeof(path), cgroup_path(make_cgroup("one")));
	if (!has_a_page_per_tenant(fixture)) {
		write_file(TRACEFS "/trace", "\n");
		expect_ctl(EXIT_SUCCESS, "records only the 1 thread", "enable", "ticks", "--tenant", path);
		tick_once(&one);
		tick_once(&two);
		ck_assert_uint_eq(count_records_of(one.pid), TESTS);
		ck_assert_uint_eq(count_records_of(two.pid), 0);
		expect_ctl(EXIT_FAILURE, "--keep", "enable", "ticks", "--keep", "--tenant", path);
		/* For all. */
		expect_ctl(EXIT_SUCCESS, "1 event is on.", "enable", "ticks");
		tick_once(&two);
		ck_assert_uint_eq(count_records_of(two.pid), TESTS);
		expect_ctl(EXIT_SUCCESS, "1 event is on", "enable", "ticks", "--tenant", path);
		expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "ticks");
		expect_ctl(EXIT_SUCCESS, "1 event is on.", "enable", "ticks");
		tick_once(&two);
		ck_assert_uint_eq(count_records_of(two.pid), 2 * TESTS);
		expect_ctl(EXIT_SUCCESS, "1 event is off.", "disable", "ticks");
		expect_ctl(EXIT_FAILURE, "it has none now", "enable", "ticks", "--tenant", "/no/such");
		write_file(TRACEFS "/trace", "\n");
	}
	ticker_end(&one);
	ticker_end(&two);
}

int main(void)
{
	return run_tests_in_cgroups();
}
