/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The status page as a client gets it, and all ways to write to it, tried by all kinds of users. Another program's view of
 * the page never changes, and never disappears: also if the page is the kernel's own, shared by all.
 */

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"
#include "tests/kernel/page_attempts.h"
#include "tests/kernel/pages.h"
#include "tests/kernel/people.h"

enum attacker { OURSELVES, DAEMONS_USER, OTHER_USER, ROOT_OF_NAMESPACE, ROOT_IN_CONTAINER, ATTACKERS };

static const char *const attackers[ATTACKERS] = {
	[OURSELVES] = "by who started the daemon",
	[DAEMONS_USER] = "by the daemon's user",
	[OTHER_USER] = "by another user",
	[ROOT_OF_NAMESPACE] = "by root of a user namespace",
	[ROOT_IN_CONTAINER] = "by root of the host in a container",
};

/* Some attempts succeed, and change nothing. */
enum outcome { REFUSED, HARMLESS };

static const struct {
	const char *name;
	int (*run)(int fd);
	enum outcome outcome;
} attempts[] = {
	{ "a writable map", map_writable, REFUSED },
	{ "a writable map behind the end", map_writable_behind, REFUSED },
	{ "a private map", map_private, HARMLESS },
	{ "mprotect", make_map_writable, REFUSED },
	{ "mremap and mprotect", move_map_and_make_it_writable, REFUSED },
	{ "MADV_REMOVE", punch_through_map, REFUSED },
	{ "/proc/self/mem", write_as_a_debugger, REFUSED },
	{ "process_vm_writev", write_as_another_process, REFUSED },
	{ "read into the map", read_into_map, REFUSED },
	{ "pwrite", write_at, REFUSED },
	{ "pwritev2", write_vector, REFUSED },
	{ "splice", splice_into, REFUSED },
	{ "sendfile", send_file_into, REFUSED },
	{ "copy_file_range", copy_range_into, REFUSED },
	{ "a write to a pipe that it was spliced into", write_to_spliced_page, HARMLESS },
	{ "a write to a pipe that it was vmspliced into", write_to_page_in_pipe, HARMLESS },
	{ "F_SETFL", set_write_mode, REFUSED },
	{ "punching a hole", punch, REFUSED },
	{ "fallocate", allocate, REFUSED },
	{ "ftruncate", cut, REFUSED },
	{ "ftruncate beyond the end", grow, REFUSED },
	{ "truncate", cut_by_path, REFUSED },
	{ "reopening to write", reopen_to_write, REFUSED },
	{ "reopening to map", reopen_to_map, REFUSED },
	{ "reopening to append", reopen_to_append, REFUSED },
	{ "reopening with O_TRUNC", reopen_to_cut, REFUSED },
	{ "reopening through map_files", reopen_map_file, REFUSED },
	{ "reopening by handle", reopen_by_handle, REFUSED },
	{ "fchmod", change_page_mode, HARMLESS },
	{ "a seal", seal, REFUSED },
};

/* --- attackers: processes of their own, which assert nothing --- */

enum { NO_ATTACKER = -2000 };

static bool become_daemons_user(uid_t uid)
{
	return geteuid() != 0 || (setgroups(0, NULL) == 0 && setresgid(uid, uid, uid) == 0 &&
				  setresuid(uid, uid, uid) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
}

static int attack_as_daemons_user(uid_t uid, size_t attempt, int page)
{
	return become_daemons_user(uid) ? attempts[attempt].run(page) : NO_ATTACKER;
}

static int attack_in_container(size_t attempt, int page)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP) < 0)
		return NO_ATTACKER;
	return attempts[attempt].run(page);
}

static int attack(const struct fixture *fixture, enum attacker attacker, size_t attempt, int page)
{
	uid_t uid = (uid_t)proc_status(fixture->pid, "Uid:", 10);

	switch (attacker) {
	case DAEMONS_USER:
		return as(ROOT, attack_as_daemons_user(uid, attempt, page));
	case OTHER_USER:
		return as(UNPRIVILEGED, attempts[attempt].run(page));
	case ROOT_OF_NAMESPACE:
		return as(NAMESPACE_ROOT, attempts[attempt].run(page));
	case ROOT_IN_CONTAINER:
		return as(ROOT, attack_in_container(attempt, page));
	default:
		return as(ROOT, attempts[attempt].run(page));
	}
}

/* Whether this machine allows such namespaces. */
static bool may_unshare(uid_t uid, int namespaces)
{
	int status;
	pid_t pid = start_process();

	if (pid == 0)
		_exit(setresuid(uid, uid, uid) < 0 || unshare(namespaces) < 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status == 0;
}

static bool is_possible(enum attacker attacker)
{
	bool possible = attacker <= DAEMONS_USER || geteuid() == 0;

	if (possible && attacker == ROOT_OF_NAMESPACE)
		possible = may_unshare(1000, CLONE_NEWUSER);
	if (possible && attacker == ROOT_IN_CONTAINER)
		possible = may_unshare(0, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP);
	if (!possible)
		printf("not possible here: an attack %s\n", attackers[attacker]);
	return possible;
}

/* --- the page afterwards --- */

struct victim {
	struct member member;
	uint8_t expected[WIRE_PAGE_BYTES];
};

static sigjmp_buf it_is_gone;

static void on_bus_error(int signal _unused_)
{
	siglongjmp(it_is_gone, 1);
}

static bool is_changed(const struct victim *victim)
{
	bool changed;

	signal(SIGBUS, on_bus_error);
	changed = sigsetjmp(it_is_gone, 1) || memcmp(victim->member.page, victim->expected, WIRE_PAGE_BYTES) != 0;
	signal(SIGBUS, SIG_DFL);
	return changed;
}

struct tally_of_attacks {
	unsigned attempts, refused;
};

static void judge(const struct victim *victim, enum attacker attacker, size_t attempt, int said,
		  struct tally_of_attacks *tally)
{
	ck_assert_msg(said != NO_ATTACKER && said != NO_MAP, "%s %s could not be tried", attempts[attempt].name,
		      attackers[attacker]);
	ck_assert_msg(!is_changed(victim), "%s %s changes the page", attempts[attempt].name, attackers[attacker]);
	ck_assert_msg(said < 0 || attempts[attempt].outcome == HARMLESS, "%s %s is not refused", attempts[attempt].name,
		      attackers[attacker]);
	tally->attempts++;
	tally->refused += said < 0;
}

DAEMON_TEST(page_cannot_be_changed_for_others_even_by_root)
{
	struct tally_of_attacks tally = { 0 };
	struct victim victim = { .member = member_new(fixture, "seen u32 a") };
	int attacker_socket, page;

	ck_assert_uint_eq(trace(fixture, "seen", true), 1);
	memcpy(victim.expected, victim.member.page, WIRE_PAGE_BYTES);
	attacker_socket = raw_hello(fixture->socket, 0, NULL, &page);
	for (enum attacker attacker = OURSELVES; attacker < ATTACKERS; attacker++)
		for (size_t i = 0; i < ARRAY_SIZE(attempts) && (i > 0 || is_possible(attacker)); i++)
			judge(&victim, attacker, i, attack(fixture, attacker, i, page), &tally);
	printf("%u attempts to write to a page: %u refused, %u of no effect, none changed it\n", tally.attempts,
	       tally.refused, tally.attempts - tally.refused);
	close(page);
	close(attacker_socket);
	trace(fixture, "seen", false);
	member_free(&victim.member);
}
