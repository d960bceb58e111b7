/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Who is who: cgroups and tenants, with real cgroups where this machine lets us make some. Where not, that is said, and what
 * can be shown with --tenants=process is shown.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "protocol/transport.h"
#include "tests/integration/actor.h"
#include "tests/integration/batch.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/fixture.h"

static const char *const each_process_a_tenant[] = { "--tenants=process", NULL };
/* As we are, in what was given away, and where there may be no guard. */
static const char root_is_trusted[] = "[/**]\nAllowHostRoot=yes\n";

static struct actor actor_in(const struct fixture *fixture, const char *cgroup)
{
	return actor_new(fixture->socket, &(struct actor_as){ .cgroup = cgroup });
}

static bool page_says(int page, uint32_t bit)
{
	const uint8_t *bytes = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	bool on;

	ck_assert_ptr_ne(bytes, MAP_FAILED);
	on = bytes[bit / 8] >> bit % 8 & 1;
	munmap((void *)(uintptr_t)bytes, WIRE_PAGE_BYTES);
	return on;
}

static bool page_is_empty(int page)
{
	const uint8_t *bytes = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, page, 0);
	size_t set = 0;

	ck_assert_ptr_ne(bytes, MAP_FAILED);
	for (size_t i = 0; i < WIRE_PAGE_BYTES; i++)
		set += bytes[i] != 0;
	munmap((void *)(uintptr_t)bytes, WIRE_PAGE_BYTES);
	return set == 0;
}

static ino_t file_of(int fd)
{
	struct stat status;

	ck_assert_int_eq(fstat(fd, &status), 0);
	return status.st_ino;
}

/* Two who are tenants of their own, whichever way. */
static void expect_two_tenants(struct fixture *fixture, struct actor *one, struct actor *another)
{
	bool own_pages = has_a_page_per_tenant(fixture);
	struct answer first, second, both;

	ck_assert_uint_eq(status_number(fixture, "tenants"), 2);
	ck_assert(own_pages == (file_of(one->page) != file_of(another->page)));
	ck_assert_uint_eq(raw_register(one->socket, "ours", &first, NULL), 0);
	ck_assert_uint_eq(raw_register(another->socket, "theirs", &second, NULL), 0);
	ck_assert_uint_eq(trace(fixture, "ours", true), 1);
	ck_assert(page_says(one->page, first.bit));
	ck_assert(own_pages == page_is_empty(another->page));

	/* What both have costs each of them one, and the machine one; and it is on for both. */
	ck_assert_uint_eq(raw_register(one->socket, "both", &both, NULL), 0);
	ck_assert_uint_eq(raw_register(another->socket, "both", &second, NULL), 0);
	ck_assert_uint_eq(raw_query(one->socket).events, 2);
	ck_assert_uint_eq(raw_query(another->socket).events, 2);
	ck_assert_uint_eq(status_number(fixture, "charges"), 3);
	ck_assert_uint_eq(trace(fixture, "both", true), 1);
	ck_assert(page_says(one->page, both.bit));
	ck_assert(page_says(another->page, second.bit));
	/* Who releases it sees no more of it, unless it is still on his stream. */
	ck_assert_uint_eq(raw_release(another->socket, &second.bit, 1), 1);
	ck_assert(page_is_empty(another->page) == releases_at_once(fixture));
	ck_assert_uint_eq(status_number(fixture, "charges"), 3);
	ck_assert_uint_eq(trace(fixture, "*", false), 3);
	ck_assert(page_is_empty(one->page));
}

/* For five reasons. */
static void be_refused(int socket)
{
	static const char *const wrong[] = { "no fields here long x", "denied u32 a", "taken u32 a", "taken u64 a",
					     "more u32 a" };
	static const uint32_t refusals[] = { REFUSAL_BAD_DESCRIPTION, REFUSAL_NOT_PERMITTED, 0, REFUSAL_NAME_TAKEN,
					     REFUSAL_QUOTA_EXCEEDED };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		ck_assert_uint_eq(raw_register(socket, wrong[i], NULL, NULL), refusals[i]);
	raw_request(socket, 999);
	expect_cut(socket, REFUSAL_UNKNOWN_KIND);
}

TEST(refusals_of_one_tenant_hide_none_of_another)
{
	enum { TIMES = 50, REASONS = 5 };
	char attacker[256], victim[256], line[320];
	struct fixture fixture;
	struct actor actor;

	if (!need_cgroups("two tenants in the log"))
		return;
	snprintf(attacker, sizeof(attacker), "%s", make_cgroup("attacker"));
	snprintf(victim, sizeof(victim), "%s", make_cgroup("victim"));
	fixture_start_with_policy(
		&fixture,
		"[/**]\nAllowHostRoot=yes\nAllowMultiFormat=no\nDenyEvents=denied\n[/*/attacker]\nMaxEvents=1\n[/*/victim]\nMaxEvents=1\n",
		(const char *const[]){ "--log-level=info", NULL });
	for (unsigned i = 0; i < TIMES; i++) {
		actor = actor_in(&fixture, attacker);
		be_refused(actor.socket);
		actor_end(&actor);
		ck_assert(eventually(status_number(&fixture, "tenants") == 0));
	}
	actor = actor_in(&fixture, victim);
	be_refused(actor.socket);
	actor_end(&actor);
	snprintf(line, sizeof(line), "tenant %s", cgroup_path(victim));
	/* One for each reason, and that the tenant came near to its maximum; the attacker's are as many for each minute. */
	ck_assert_uint_eq(log_count(&fixture, line), REASONS + 1);
	snprintf(line, sizeof(line), "tenant %s", cgroup_path(attacker));
	ck_assert_uint_le(log_count(&fixture, line), 3 * (REASONS + 1));
	fixture_stop(&fixture);
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
	struct seen_tenants seen;
	const char *first = make_cgroup("first");
	const char *second = make_cgroup("second");
	_cleanup_(actor_end) struct actor one = actor_in(fixture, first);
	_cleanup_(actor_end) struct actor another = actor_in(fixture, second);

	expect_two_tenants(fixture, &one, &another);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_msg(is_tenant(&seen.tenant[0], first), "%s is not %s", seen.tenant[0].path, first);
	ck_assert_msg(is_tenant(&seen.tenant[1], second), "%s is not %s", seen.tenant[1].path, second);
}

TEST(processes_of_one_cgroup_share_page_and_maximum)
{
	static const char *const options[] = { "--max-events=2", NULL };
	struct actor one, another;
	struct answer ours, theirs;
	struct fixture fixture;
	const char *cgroup = why_no_cgroups() ? NULL : make_cgroup("shared");

	/* Our own will do. */
	if (!cgroup)
		printf("in the cgroup that we are in, since %s\n", why_no_cgroups());
	fixture_start(&fixture, options);
	one = actor_in(&fixture, cgroup);
	another = actor_in(&fixture, cgroup);
	ck_assert_uint_eq(status_number(&fixture, "tenants"), 1);
	ck_assert_uint_eq(file_of(one.page), file_of(another.page));
	ck_assert_uint_eq(raw_register(one.socket, "shared", &ours, NULL), 0);
	ck_assert_uint_eq(raw_register(another.socket, "shared", &theirs, NULL), 0);
	ck_assert_uint_eq(ours.bit, theirs.bit);
	ck_assert_uint_eq(raw_register(one.socket, "second", NULL, NULL), 0);
	ck_assert_uint_eq(raw_register(another.socket, "third", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	actor_end(&another);
	actor_end(&one);
	fixture_stop(&fixture);
}

DAEMON_TEST(cgroups_made_below_a_tenant_gain_it_nothing, .options = { "--max-events=1" },
	    .needs_cgroups = "cgroups below a tenant's")
{
	struct seen_tenants seen;
	struct actor one, below, deeper;
	const char *cgroup = make_cgroup("outer");

	make_cgroup("outer/inner");
	one = actor_in(fixture, cgroup);
	below = actor_in(fixture, make_cgroup("outer/other"));
	deeper = actor_in(fixture, make_cgroup("outer/inner/innermost"));
	ck_assert_uint_eq(raw_register(deeper.socket, "the_one", NULL, NULL), 0);
	ck_assert_uint_eq(raw_register(below.socket, "the_other", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	ck_assert_uint_eq(raw_register(one.socket, "the_other", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 1);
	ck_assert_msg(is_tenant(&seen.tenant[0], cgroup), "%s is not %s", seen.tenant[0].path, cgroup);
	ck_assert_uint_eq(seen.tenant[0].connections, 3);
	actor_end(&deeper);
	actor_end(&below);
	actor_end(&one);
}

DAEMON_TEST(owner_of_a_cgroup_gains_nothing_by_delegation, .policy = root_is_trusted, .options = { "--max-events=1" },
	    .needs_cgroups = "a cgroup of another user")
{
	struct actor one, another;
	const char *mine, *sibling;

	ck_assert_int_eq(chown(make_cgroup("given"), 65534, 65534), 0);
	mine = make_cgroup("given/mine");
	sibling = make_cgroup("given/sibling");
	ck_assert_int_eq(chown(mine, 65534, 65534), 0);
	ck_assert_int_eq(chown(sibling, 65534, 65534), 0);
	if (!delegate(mine) || !delegate(sibling))
		return;
	one = actor_in(fixture, mine);
	another = actor_in(fixture, sibling);
	ck_assert_uint_eq(raw_register(one.socket, "the_one", NULL, NULL), 0);
	ck_assert_uint_eq(raw_register(another.socket, "the_other", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	actor_end(&another);
	actor_end(&one);
}

DAEMON_TEST(outermost_delegated_cgroup_is_the_tenant, .policy = root_is_trusted, .needs_cgroups = "delegation")
{
	struct seen_tenants seen;
	struct actor inside, sibling, undelegated;
	const char *slice = make_cgroup("slice");
	const char *scope = make_cgroup("slice/scope");
	const char *container = make_cgroup("slice/scope/container");

	if (!delegate(scope))
		return;
	/* What is marked further inside was marked by who was given the outer one. */
	delegate(container);
	inside = actor_in(fixture, container);
	sibling = actor_in(fixture, make_cgroup("slice/scope/sibling"));
	undelegated = actor_in(fixture, make_cgroup("slice/other"));
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_msg(is_tenant(&seen.tenant[0], scope), "%s is not %s", seen.tenant[0].path, scope);
	ck_assert_uint_eq(seen.tenant[0].connections, 2);
	ck_assert_msg(is_tenant(&seen.tenant[1], slice), "%s is not %s", seen.tenant[1].path, slice);
	actor_end(&undelegated);
	actor_end(&sibling);
	actor_end(&inside);

	/* Above the second level, too. */
	ck_assert(delegate(top_cgroup()));
	ck_assert(eventually(status_number(fixture, "tenants") == 0));
	inside = actor_in(fixture, container);
	see_tenants(fixture, &seen);
	ck_assert_int_eq(removexattr(top_cgroup(), "user.delegate"), 0);
	ck_assert_uint_eq(seen.n, 1);
	ck_assert_msg(is_tenant(&seen.tenant[0], top_cgroup()), "%s is not %s", seen.tenant[0].path, top_cgroup());
	actor_end(&inside);
}

DAEMON_TEST(client_moved_after_connecting_keeps_its_tenant, .policy = root_is_trusted,
	    .needs_cgroups = "a process that is moved to another cgroup")
{
	struct seen_tenants seen;
	struct actor newcomer;
	const char *before = make_cgroup("before");
	const char *after = make_cgroup("after");
	_cleanup_(actor_end) struct actor moved = actor_in(fixture, before);

	ck_assert_uint_eq(raw_register(moved.socket, "first", NULL, NULL), 0);
	move_to(moved.pid, after);
	ck_assert_uint_eq(raw_register(moved.socket, "second", NULL, NULL), 0);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 1);
	ck_assert(is_tenant(&seen.tenant[0], before));
	ck_assert_uint_eq(seen.tenant[0].events, 2);
	/* A new connection is made where it is now. */
	newcomer = actor_in(fixture, after);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert(is_tenant(&seen.tenant[1], after));
	actor_end(&newcomer);
}

DAEMON_TEST(recreated_cgroup_is_another_tenant, .policy = root_is_trusted, .options = { "--max-events=2" },
	    .needs_cgroups = "a cgroup that is removed and made again")
{
	struct seen_tenants seen;
	struct actor first, second;
	const char *path = make_cgroup("again");
	const char *elsewhere = make_cgroup("elsewhere");

	first = actor_in(fixture, path);
	ck_assert_uint_eq(raw_register(first.socket, "old", NULL, NULL), 0);
	move_to(first.pid, elsewhere);
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	second = actor_in(fixture, path);
	/* What the first one has counts. */
	ck_assert_uint_eq(raw_query(second.socket).events, 1);
	ck_assert_uint_eq(raw_register(second.socket, "new", NULL, NULL), 0);
	ck_assert_uint_eq(raw_register(second.socket, "newer", NULL, NULL), REFUSAL_QUOTA_EXCEEDED);
	see_tenants(fixture, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_str_eq(seen.tenant[0].path, seen.tenant[1].path);
	ck_assert_uint_ne(seen.tenant[0].cgroup_id, seen.tenant[1].cgroup_id);
	ck_assert_uint_eq(seen.tenant[0].events, 1);
	ck_assert_uint_eq(seen.tenant[1].events, 1);
	if (has_a_page_per_tenant(fixture))
		ck_assert_uint_ne(file_of(first.page), file_of(second.page));
	actor_end(&first);
	ck_assert(eventually(raw_query(second.socket).events == 1));
	ck_assert_uint_eq(raw_register(second.socket, "newer", NULL, NULL), 0);
	actor_end(&second);
}

/* Who holds an event. */

TEST(holder_of_an_event_has_pid_name_and_user)
{
	const uid_t uid = geteuid() == 0 ? 65534 : geteuid();
	struct seen_holder seen;
	struct fixture fixture;
	struct answer answer;
	struct actor actor;
	char wanted[64];

	if (geteuid() != 0)
		printf("not possible here without root: a holder with another uid than ours\n");
	fixture_start(&fixture, each_process_a_tenant);
	actor = actor_new(fixture.socket, &(struct actor_as){ .comm = "the holder", .uid = uid });
	/* What is said on its connection is to come from its user, and the kernel goes by the real uid. */
	ck_assert_int_eq(setreuid(uid, (uid_t)-1), 0);
	ck_assert_uint_eq(raw_register(actor.socket, "held", &answer, NULL), 0);
	ck_assert_int_eq(setreuid(geteuid(), (uid_t)-1), 0);
	seen = holder_of(&fixture, "held");
	ck_assert_uint_eq(seen.n, 1);
	ck_assert_uint_eq(seen.total, 1);
	ck_assert_uint_eq(seen.pid, (uint64_t)actor.pid);
	ck_assert_uint_eq(seen.uid, uid);
	ck_assert_str_eq(seen.comm, "the holder");
	snprintf(wanted, sizeof(wanted), "process:%d:the holder", (int)actor.pid);
	ck_assert_str_eq(seen.tenant, wanted);
	actor_end(&actor);
	fixture_stop(&fixture);
}

DAEMON_TEST(holders_beyond_sixty_four_are_only_counted)
{
	enum { HOLDERS = 70, NAMED_MAX = 64 };
	struct seen_holder seen;
	int sockets[HOLDERS];

	for (size_t i = 0; i < HOLDERS; i++) {
		sockets[i] = fixture_client(fixture);
		ck_assert_uint_eq(raw_register(sockets[i], "popular", NULL, NULL), 0);
	}
	seen = holder_of(fixture, "popular");
	ck_assert_uint_eq(seen.n, NAMED_MAX);
	ck_assert_uint_eq(seen.total, HOLDERS);
	ck_assert_uint_eq(status_number(fixture, "charges"), 1);
	for (size_t i = 0; i < HOLDERS; i++)
		close(sockets[i]);
}

/*
 * Connects, says hello and ends, but is not reaped yet. Where there is somebody to report to, it leaves the connection to a
 * child, which tells whether that ended without a word.
 */
static pid_t connect_and_end(const char *path, int report)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int socket = raw_connect(path);
		char byte;
		bool ended;

		encode_hello(raw_packet(KIND_HELLO), &(struct wire_hello){ 0 });
		raw_send(socket);
		if (report < 0 || fork() > 0)
			_exit(EXIT_SUCCESS);
		ended = recv(socket, &byte, 1, 0) == 0 || errno == ECONNRESET;
		_exit(write(report, ended ? "e" : "x", 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT), 0);
	return pid;
}

DAEMON_TEST(client_ended_before_accept_is_refused)
{
	int bystander, report[2];
	char reported[2];
	pid_t unreaped;

	ck_assert_int_eq(pipe2(report, O_CLOEXEC), 0);
	bystander = fixture_client(fixture);
	ck_assert_int_eq(kill(fixture->pid, SIGSTOP), 0);
	unreaped = connect_and_end(fixture->socket, report[1]);
	for (int i = 0; i < 10; i++)
		waitpid(connect_and_end(fixture->socket, -1), NULL, 0);
	waitpid(connect_and_end(fixture->socket, report[1]), NULL, 0);
	ck_assert_int_eq(kill(fixture->pid, SIGCONT), 0);
	/* To whom it was left does not help: nobody can tell any more which tenant it was. */
	for (size_t i = 0; i < sizeof(reported); i++) {
		ck_assert_int_eq(read(report[0], &reported[i], 1), 1);
		ck_assert_int_eq(reported[i], 'e');
	}
	ck_assert_int_eq(waitpid(unreaped, NULL, 0), unreaped);
	ck_assert_uint_eq(status_number(fixture, "connections"), 1);
	ck_assert_uint_eq(raw_register(bystander, "unharmed", NULL, NULL), 0);
	close(report[0]);
	close(report[1]);
	close(bystander);
}

DAEMON_TEST(connection_outlives_its_maker_after_accept, .options = { "--tenants=process" })
{
	struct seen_holder seen;
	_cleanup_(actor_end) struct actor actor =
		actor_new(fixture->socket, &(struct actor_as){ .comm = "the departed" });

	ck_assert_uint_eq(raw_register(actor.socket, "before", NULL, NULL), 0);
	actor_leave(&actor);
	ck_assert_uint_eq(raw_register(actor.socket, "after", NULL, NULL), 0);
	ck_assert_uint_eq(raw_query(actor.socket).events, 2);
	seen = holder_of(fixture, "after");
	ck_assert_uint_eq(seen.pid, (uint64_t)actor.pid);
	ck_assert_str_eq(seen.comm, "the departed");
}

int main(void)
{
	return run_tests_in_cgroups();
}
