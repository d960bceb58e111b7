/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which tenant a client belongs to, and which client holds an event: with real cgroups, or with --tenants=process. */

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/integration/cgroups.h"
#include "tests/integration/policy.h"
#include "tests/integration/speaker.h"

/* The tests are root, in what looks like a container, with files that no guard may protect. */
#define ROOT_IS_TRUSTED "[/**]\nAllowHostRoot=yes\n"

/* The page has that bit alone; with bit 0, which no event has, none. */
static bool page_has_only(int page, uint32_t bit)
{
	const uint8_t *bytes = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	uint8_t expected[WIRE_PAGE_BYTES] = { 0 };
	bool same;

	ck_assert_ptr_ne(bytes, MAP_FAILED);
	if (bit > 0)
		expected[bit / 8] = (uint8_t)(1u << bit % 8);
	same = memcmp(bytes, expected, sizeof(expected)) == 0;
	munmap((void *)(uintptr_t)bytes, WIRE_PAGE_BYTES);
	return same;
}

static ino_t file_of(int fd)
{
	struct stat status;

	ck_assert_int_eq(fstat(fd, &status), 0);
	return status.st_ino;
}

/* Two tenants have a page each, and are charged each for the event that both have. */
static void expect_two_tenants(struct fixture *fixture, struct actor *one, struct actor *another)
{
	bool own_pages = has_a_page_per_tenant(fixture);
	struct answer ours, both, second;

	expect_status(fixture, "tenants=2");
	ck_assert(own_pages == (file_of(one->page) != file_of(another->page)));
	ck_assert_uint_eq(raw_register(one->socket, "ours", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(another->socket, "theirs", NULL, NULL), 0);
	ck_assert_uint_eq(trace(fixture, "ours", true), 1);
	ck_assert(page_has_only(one->page, ours.bit));
	ck_assert(page_has_only(another->page, 0) == own_pages);
	trace(fixture, "ours", false);

	ck_assert_uint_eq(raw_register(one->socket, "both", &both, NULL), 0);
	ck_assert_uint_eq(raw_register(another->socket, "both", &second, NULL), 0);
	expect_account(one->socket, "events=2");
	expect_account(another->socket, "events=2");
	expect_status(fixture, "charges=3");
	ck_assert_uint_eq(trace(fixture, "both", true), 1);
	ck_assert(page_has_only(one->page, both.bit));
	ck_assert(page_has_only(another->page, second.bit));
	/* A client that releases an event sees its bit only while the event is still on the client's stream. */
	ck_assert_uint_eq(raw_release(another->socket, &second.bit, 1), 1);
	ck_assert(page_has_only(another->page, 0) == releases_at_once(fixture));
	expect_status(fixture, "charges=3");
	ck_assert_uint_eq(trace(fixture, "*", false), 3);
	ck_assert(page_has_only(one->page, 0));
}

DAEMON_TEST(processes_are_tenants_with_that_option, .options = { "--tenants=process" })
{
	struct seen_tenants seen;
	char wanted[64];
	_cleanup_(actor_end) struct actor one = actor_new(fixture->socket, &(struct actor_as){ .comm = "one" });
	_cleanup_(actor_end) struct actor another = actor_new(fixture->socket, &(struct actor_as){ .comm = "another" });

	expect_two_tenants(fixture, &one, &another);
	see_tenants(fixture, &seen);
	snprintf(wanted, sizeof(wanted), "process:%d:one", (int)one.pid);
	ck_assert_str_eq(seen.tenant[0].path, wanted);
	snprintf(wanted, sizeof(wanted), "process:%d:another", (int)another.pid);
	ck_assert_str_eq(seen.tenant[1].path, wanted);
}

DAEMON_TEST(cgroups_are_tenants_with_a_page_each, .needs_cgroups = "two cgroups as two tenants")
{
	_cleanup_(actor_end) struct actor one = actor_in(fixture, make_cgroup("first"), 0);
	_cleanup_(actor_end) struct actor another = actor_in(fixture, make_cgroup("second"), 0);

	expect_two_tenants(fixture, &one, &another);
	expect_tenants(fixture, make_cgroup("first"), make_cgroup("second"));
}

/* Where no cgroup can be made, in the test's own. */
DAEMON_TEST(processes_of_one_cgroup_share_page_and_maximum, .options = { "--max-events=2" })
{
	const char *cgroup = why_no_cgroups() ? NULL : make_cgroup("shared");
	_cleanup_(actor_end) struct actor one = actor_in(fixture, cgroup, 0);
	_cleanup_(actor_end) struct actor another = actor_in(fixture, cgroup, 0);

	expect_status(fixture, "tenants=1");
	ck_assert_uint_eq(file_of(one.page), file_of(another.page));
	ck_assert_uint_eq(expect_granted(one.socket, "shared"), expect_granted(another.socket, "shared"));
	expect_granted(one.socket, "second");
	expect_refusal(another.socket, "third", REFUSAL_QUOTA_EXCEEDED, "");
}

DAEMON_TEST(owner_of_a_cgroup_gains_nothing_by_delegation, .policy = ROOT_IS_TRUSTED, .options = { "--max-events=1" },
	    .needs_cgroups = "a cgroup of another user")
{
	static const char *const owned[] = { "given", "given/mine", "given/sibling" };
	struct actor one, another;

	for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
		ck_assert_int_eq(chown(make_cgroup(owned[i]), 65534, 65534), 0);
	if (!delegate(make_cgroup("given/mine")) || !delegate(make_cgroup("given/sibling")))
		return;
	one = actor_in(fixture, make_cgroup("given/mine"), 0);
	another = actor_in(fixture, make_cgroup("given/sibling"), 0);
	expect_granted(one.socket, "the_one");
	expect_refusal(another.socket, "the_other", REFUSAL_QUOTA_EXCEEDED, "");
	actor_end(&another);
	actor_end(&one);
}

DAEMON_TEST(outermost_delegated_cgroup_is_the_tenant, .policy = ROOT_IS_TRUSTED, .needs_cgroups = "delegation")
{
	struct seen_tenants seen;
	struct actor inside, sibling, undelegated;
	const char *slice = make_cgroup("slice");
	const char *scope = make_cgroup("slice/scope");
	const char *container = make_cgroup("slice/scope/container");

	if (!delegate(scope))
		return;
	/* A mark further inside was set by the owner of the outer cgroup. */
	delegate(container);
	inside = actor_in(fixture, container, 0);
	sibling = actor_in(fixture, make_cgroup("slice/scope/sibling"), 0);
	undelegated = actor_in(fixture, make_cgroup("slice/other"), 0);
	seen = expect_tenants(fixture, scope, slice);
	ck_assert_uint_eq(seen.tenant[0].connections, 2);
	actor_end(&undelegated);
	actor_end(&sibling);
	actor_end(&inside);

	/* Also above the second level. */
	ck_assert(delegate(top_cgroup()));
	await_status(fixture, "tenants=0");
	inside = actor_in(fixture, container, 0);
	see_tenants(fixture, &seen);
	ck_assert_int_eq(removexattr(top_cgroup(), "user.delegate"), 0);
	ck_assert(seen.n == 1 && is_tenant(&seen.tenant[0], top_cgroup()));
	actor_end(&inside);
}

DAEMON_TEST(client_moved_after_connecting_keeps_its_tenant, .policy = ROOT_IS_TRUSTED,
	    .needs_cgroups = "a process that is moved to another cgroup")
{
	const char *before = make_cgroup("before"), *after = make_cgroup("after");
	struct seen_tenants seen;
	struct actor newcomer;
	_cleanup_(actor_end) struct actor moved = actor_in(fixture, before, 0);

	expect_granted(moved.socket, "first");
	move_to(moved.pid, after);
	expect_granted(moved.socket, "second");
	seen = expect_tenants(fixture, before);
	ck_assert_uint_eq(seen.tenant[0].events, 2);
	/* A new connection belongs to the new cgroup. */
	newcomer = actor_in(fixture, after, 0);
	expect_tenants(fixture, before, after);
	actor_end(&newcomer);
}

DAEMON_TEST(recreated_cgroup_is_another_tenant, .policy = ROOT_IS_TRUSTED, .options = { "--max-events=2" },
	    .needs_cgroups = "a cgroup that is removed and made again")
{
	struct seen_tenants seen;
	struct actor first, second;
	const char *path = make_cgroup("again");

	first = actor_in(fixture, path, 0);
	expect_granted(first.socket, "old");
	move_to(first.pid, make_cgroup("elsewhere"));
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	second = actor_in(fixture, path, 0);
	/* The event of the first tenant counts. */
	expect_account(second.socket, "events=1");
	expect_granted(second.socket, "new");
	expect_refusal(second.socket, "newer", REFUSAL_QUOTA_EXCEEDED, "");
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_str_eq(seen.tenant[0].path, seen.tenant[1].path);
	ck_assert_uint_ne(seen.tenant[0].cgroup_id, seen.tenant[1].cgroup_id);
	ck_assert(seen.tenant[0].events == 1 && seen.tenant[1].events == 1);
	if (has_a_page_per_tenant(fixture))
		ck_assert_uint_ne(file_of(first.page), file_of(second.page));
	actor_end(&first);
	ck_assert(eventually(raw_query(second.socket).events == 1));
	expect_granted(second.socket, "newer");
	actor_end(&second);
}

/* --- holders --- */

DAEMON_TEST(holder_of_an_event_has_pid_name_and_user, .options = { "--tenants=process" })
{
	const uid_t uid = need_root("a holder with another uid than the test's") ? 65534 : geteuid();
	struct seen_holder seen;
	char wanted[64];
	_cleanup_(actor_end) struct actor actor =
		actor_new(fixture->socket, &(struct actor_as){ .comm = "the holder", .uid = uid });

	ck_assert_uint_eq(as_user(uid, raw_register(actor.socket, "held", NULL, NULL)), 0);
	seen = holder_of(fixture, "held");
	ck_assert_uint_eq(seen.n, 1);
	ck_assert_uint_eq(seen.total, 1);
	ck_assert_uint_eq(seen.pid, (uint64_t)actor.pid);
	ck_assert_uint_eq(seen.uid, uid);
	ck_assert_str_eq(seen.comm, "the holder");
	snprintf(wanted, sizeof(wanted), "process:%d:the holder", (int)actor.pid);
	ck_assert_str_eq(seen.tenant, wanted);
}

/* --- clients that end --- */

/*
 * Connects, sends HELLO and ends, but is not reaped. With a pipe to report to, it leaves the connection to a child, which reports
 * whether the connection has ended without an answer.
 */
static pid_t connect_and_end(const char *path, int report)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int socket = raw_connect(path);
		char byte;
		bool ended;

		encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &(struct wire_hello){ 0 });
		raw_send(socket);
		if (report < 0 || fork() > 0)
			_exit(EXIT_SUCCESS);
		ended = recv(socket, &byte, 1, 0) == 0 || errno == ECONNRESET;
		_exit(write(report, ended ? "e" : "x", 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT), 0);
	return pid;
}

/* Its tenant can't be determined any more, so a child that has inherited the connection is not served either. */
DAEMON_TEST(client_ended_before_accept_is_refused)
{
	int report[2];
	char reported[2];
	pid_t unreaped;
	_cleanup_(fd_closep) int bystander = fixture_client(fixture);

	ck_assert_int_eq(pipe2(report, O_CLOEXEC), 0);
	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	unreaped = connect_and_end(fixture->socket, report[1]);
	for (int i = 0; i < 10; i++)
		waitpid(connect_and_end(fixture->socket, -1), NULL, 0);
	waitpid(connect_and_end(fixture->socket, report[1]), NULL, 0);
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	for (size_t i = 0; i < sizeof(reported); i++) {
		ck_assert_int_eq(read(report[0], &reported[i], 1), 1);
		ck_assert_int_eq(reported[i], 'e');
	}
	ck_assert_int_eq(waitpid(unreaped, NULL, 0), unreaped);
	expect_status(fixture, "connections=1");
	expect_granted(bystander, "unharmed");
	close(report[0]);
	close(report[1]);
}

DAEMON_TEST(connection_outlives_its_maker_after_accept, .options = { "--tenants=process" })
{
	struct seen_holder seen;
	_cleanup_(actor_end) struct actor actor =
		actor_new(fixture->socket, &(struct actor_as){ .comm = "the departed" });

	expect_granted(actor.socket, "before");
	actor_leave(&actor);
	expect_granted(actor.socket, "after");
	expect_account(actor.socket, "events=2");
	seen = holder_of(fixture, "after");
	ck_assert_uint_eq(seen.pid, (uint64_t)actor.pid);
	ck_assert_str_eq(seen.comm, "the departed");
}

int main(void)
{
	return run_tests_in_cgroups();
}
