/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which tenant a client belongs to, and which client holds an event: with real cgroups, or with --tenants=process. */

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

	/* The connection outlives its maker. */
	actor_leave(&actor);
	ck_assert_uint_eq(as_user(uid, raw_register(actor.socket, "after", NULL, NULL)), 0);
	seen = holder_of(fixture, "after");
	ck_assert_uint_eq(seen.pid, (uint64_t)actor.pid);
	ck_assert_str_eq(seen.comm, "the holder");
}

/* --- clients that end --- */

/* Its tenant can't be determined any more, so a process that has inherited the connection is not served either. */
DAEMON_TEST(client_ended_before_accept_is_refused)
{
	struct actor gone[12];
	_cleanup_(fd_closep) int bystander = fixture_client(fixture);

	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		actor_connect(&gone[i], fixture->socket, NULL);
		raw_say_hello(gone[i].socket);
		/* The first is not reaped. */
		gone[i].leash = fd_close(gone[i].leash);
		ck_assert_int_eq(waitid(P_PID, (id_t)gone[i].pid, NULL, WEXITED | (i == 0 ? WNOWAIT : 0)), 0);
	}
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		expect_hang_up(gone[i].socket);
	ck_assert_int_eq(waitpid(gone[0].pid, NULL, 0), gone[0].pid);
	expect_status(fixture, "connections=1");
	expect_granted(bystander, "unharmed");
}

int main(void)
{
	return run_tests_in_cgroups();
}
