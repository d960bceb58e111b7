/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon without a guard, or with a guard that is lost: it notices each self-registered event, and disconnects no other client. As root, in a guest. */

#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>

#include "tests/guard/bypass.h"
#include "tests/guard/loader.h"
#include "tests/guard/stand_in.h"
#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/member.h"

/* --- never guarded --- */

struct attacker {
	struct member member;
	const struct bypass *bypass;
};

static struct attacker attackers[BYPASSES_MAX + 1];

/* In a process of its own: its enabler ends with it. */
static int try_in_child(void *data)
{
	const struct attacker *attacker = data;
	char event[64];

	return try_bypass(attacker->bypass, attacker->member.stream, event, sizeof(event));
}

static void attacker_start(struct attacker *attacker, const struct fixture *fixture, const struct bypass *bypass)
{
	char description[64];

	snprintf(description, sizeof(description), "own_%zu u32 a", (size_t)(attacker - attackers));
	*attacker = (struct attacker){ .member = member_new(fixture, description), .bypass = bypass };
}

/* When all clients have their streams: a tenant with a self-registered event gets no more of them. */
static void attacker_try(struct attacker *attacker)
{
	const struct bypass *bypass = attacker->bypass;
	int error, expected = unguarded_answer(bypass->way, bypass->operation);

	error = run_in_child(try_in_child, attacker);
	ck_assert_msg(error == expected, "%s %s: %s, instead of %s", operation_names[bypass->operation],
		      bypass->way->name, strerror(error), strerror(expected));
}

/* On the stream, and not on a file that the attempt opened itself. */
static bool has_registered(const struct bypass *bypass)
{
	return (bypass->operation == REGISTER_NEW || bypass->operation == REGISTER_FOREIGN) &&
	       unguarded_answer(bypass->way, bypass->operation) == 0 && !bypass->way->other_file;
}

static void expect_disconnect(const struct member *member)
{
	ck_assert(eventually(is_disconnected(member->socket)));
	expect_cut(member->socket, REFUSAL_SELF_REGISTERED);
}

static unsigned judge(const struct attacker *attacker)
{
	bool registered = has_registered(attacker->bypass);

	ck_assert_msg(is_disconnected(attacker->member.socket) == registered, "%s %s: %s",
		      operation_names[attacker->bypass->operation], attacker->bypass->way->name,
		      registered ? "not noticed" : "disconnected");
	if (registered)
		expect_cut(attacker->member.socket, REFUSAL_SELF_REGISTERED);
	else
		expect_account(attacker->member.socket, "leases=1");
	return registered;
}

/* Before Linux 6.4 the kernel keeps self-registered events. */
static void forget_events(const struct fixture *fixture)
{
	await_status(fixture, "streams=0");
	delete_new_events(fixture->events_before);
}

/* An attempt to delete or to unregister changes nothing, and is not noticed. */
DAEMON_TEST(self_registration_is_noticed_by_any_way, .options = { "--guard=off" })
{
	int foreign = make_foreign_event();
	struct member bystander = member_new(fixture, "bystander u32 a");
	unsigned registered = 0;

	for (int i = 0; i < n_ioctl_bypasses; i++)
		attacker_start(&attackers[i], fixture, &bypasses[i]);
	/* The daemon checks streams in the order of their clients: the last one shows that all were checked. */
	attacker_start(&attackers[n_ioctl_bypasses], fixture, &bypasses[0]);
	for (int i = 0; i <= n_ioctl_bypasses; i++)
		attacker_try(&attackers[i]);
	ck_assert(eventually(is_disconnected(attackers[n_ioctl_bypasses].member.socket)));
	for (int i = 0; i < n_ioctl_bypasses; i++)
		registered += judge(&attackers[i]);
	expect_account(bystander.socket, "leases=1");
	printf("%d attempts without a guard: %u have registered something, and all %u were noticed and disconnected\n",
	       n_ioctl_bypasses, registered, registered);
	for (int i = 0; i <= n_ioctl_bypasses; i++)
		member_free(&attackers[i].member);
	member_free(&bystander);
	close(foreign);
	forget_events(fixture);
}

static int register_rogue(void *data)
{
	return attempt(*(int *)data, REGISTER_NEW, kernel_manner(), "rogue");
}

static uint32_t ask_for_file(const struct fixture *fixture)
{
	int socket = raw_hello(fixture->socket, 0, NULL, NULL);
	uint32_t refusal = raw_register(socket, "next u32 a", NULL, NULL);

	close(socket);
	return refusal;
}

/* Events of an earlier daemon, or of the keeper's first look, may be counted as foreign a moment after their end. */
static void await_exact_count(const struct fixture *fixture, unsigned unknown)
{
	await_status(fixture, "foreign=%u", count_events(fixture->events_before) + unknown);
}

DAEMON_TEST(unknown_events_deny_the_tenant_another_file, .options = { "--guard=off" })
{
	struct member member;

	await_exact_count(fixture, 0);
	member = member_new(fixture, "first u32 a");
	member.socket = fd_close(member.socket);
	await_status(fixture, "lingering=1");
	ck_assert_uint_eq(ask_for_file(fixture), 0);
	ck_assert_int_eq(run_in_child(register_rogue, &member.stream), 0);
	/*
	 * The daemon counts from time to time. While events come and go it can't be sure of one: so none is asked for before it has counted
	 * this one, and that by which the keeper has looked at the file.
	 */
	await_exact_count(fixture, 2);
	ck_assert_uint_eq(ask_for_file(fixture), REFUSAL_TROUBLE);
	member_free(&member);
	ck_assert(eventually(ask_for_file(fixture) == 0));
	forget_events(fixture);
}

/* --- a guard that is lost --- */

#define GUARD_TEST(name, ...)                                                                                          \
	static void name##_with(struct fixture *fixture);                                                              \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		if (has_btf())                                                                                         \
			fixture_run(&(const struct daemon_test){ __VA_ARGS__ }, name##_with);                          \
	}                                                                                                              \
	static void name##_with(struct fixture *fixture)

static void remove_by_command(void)
{
	ck_assert_msg(loader("--remove") == 0, "%s", loader_output);
}

static void unpin_by_hand(void)
{
	remove_directory(loader_directory);
}

static void forget_the_mount(void)
{
	unsigned long long mount;
	const char *at;

	ck_assert_int_eq(loader("--status --json"), 0);
	/* Those of earlier daemons, too. */
	at = strstr(loader_output, "\"mount\":");
	ck_assert_ptr_nonnull(at);
	for (; at; at = strstr(at + 1, "\"mount\":")) {
		char mounts[LOADER_OUTPUT_BYTES];

		ck_assert_int_eq(sscanf(at, "\"mount\":%llu", &mount), 1);
		memcpy(mounts, loader_output, sizeof(mounts));
		ck_assert_int_eq(loader("--remove --mount=%llu", mount), 0);
		memcpy(loader_output, mounts, sizeof(mounts));
	}
}

/* As the daemon checks it. The kernel detaches programs a moment after the last link to them has gone. */
static bool is_guarded(int stream)
{
	return ioctl(stream, UAPI_IOCTL_REGISTER, NULL) < 0 && errno == EPERM;
}

static void lose_guard(void (*lose)(void), int stream)
{
	ck_assert(is_guarded(stream));
	lose();
	ck_assert(eventually(!is_guarded(stream)));
}

static void expect_records(struct fixture *fixture, const struct member *members, unsigned n)
{
	struct seen seen;

	ck_assert_uint_eq(trace(fixture, "common", true), 1);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(write_number(&members[i], 1), 8);
	see(fixture, "common", &seen);
	ck_assert_uint_eq(seen.records, n);
	trace(fixture, "common", false);
}

static void expect_loss_to_be_noticed(struct fixture *fixture, void (*lose)(void))
{
	struct member members[4];

	members[0] = member_new(fixture, "common u32 number");
	members[1] = member_new(fixture, "common u32 number");
	ck_assert_uint_eq(members[0].answer.stream, members[1].answer.stream);
	lose_guard(lose, members[0].stream);
	members[2] = member_new(fixture, "common u32 number");
	members[3] = member_new(fixture, "common u32 number");
	ck_assert(log_has(fixture, "the guard is gone: data files are no longer shared"));
	fixture_read_backend(fixture);
	ck_assert(!fixture->guarded);
	ck_assert_uint_ne(members[2].answer.stream, members[0].answer.stream);
	ck_assert_uint_ne(members[3].answer.stream, members[0].answer.stream);
	ck_assert_uint_ne(members[3].answer.stream, members[2].answer.stream);
	expect_records(fixture, members, ARRAY_SIZE(members));
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		member_free(&members[i]);
}

GUARD_TEST(removed_guard_is_noticed_before_the_next_file)
{
	expect_loss_to_be_noticed(fixture, remove_by_command);
}

GUARD_TEST(unpinned_guard_is_noticed_before_the_next_file)
{
	expect_loss_to_be_noticed(fixture, unpin_by_hand);
}

GUARD_TEST(forgotten_mount_is_noticed_before_the_next_file)
{
	expect_loss_to_be_noticed(fixture, forget_the_mount);
}

/* The daemon checks the streams when it opens a stream, and disconnects all clients of a stream with foreign events. */
GUARD_TEST(self_registration_after_a_lost_guard_is_noticed)
{
	struct member one, another, later;

	one = member_new(fixture, "common u32 number");
	another = member_new(fixture, "common u32 number");
	lose_guard(remove_by_command, one.stream);
	ck_assert_int_eq(run_in_child(register_rogue, &one.stream), 0);
	later = member_new(fixture, "common u32 number");
	expect_disconnect(&one);
	expect_disconnect(&another);
	expect_account(later.socket, "leases=1");
	member_free(&one);
	member_free(&another);
	member_free(&later);
}

GUARD_TEST(required_guard_that_is_lost_stops_new_files, .options = { "--guard=require" })
{
	struct member before;
	int socket, stream = -1;

	ck_assert(fixture->guarded);
	before = member_new(fixture, "common u32 number");
	lose_guard(remove_by_command, before.stream);
	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "common u32 number", NULL, &stream), REFUSAL_TROUBLE);
	ck_assert_uint_eq(raw_register(socket, "another u32 number", NULL, &stream), REFUSAL_TROUBLE);
	ck_assert_int_eq(stream, -1);
	ck_assert(log_has(fixture, "the guard is gone: data files are not given out any more"));
	expect_records(fixture, &before, 1);
	close(socket);
	member_free(&before);
}

GUARD_TEST(container_root_gets_no_file_after_a_lost_guard, .needs_cgroups = "root of the machine in a container")
{
	struct member before;
	struct actor root;
	int stream = -1;
	const char *container = make_cgroup("machine.slice/roots.scope");

	if (!delegate(container))
		return;
	before = member_new(fixture, "common u32 number");
	root = actor_new(fixture->socket, &(struct actor_as){ .cgroup = container });
	lose_guard(remove_by_command, before.stream);
	ck_assert_uint_eq(raw_register(root.socket, "roots u32 number", NULL, &stream), REFUSAL_NOT_PERMITTED);
	ck_assert_int_eq(stream, -1);
	actor_end(&root);
	member_free(&before);
}

static void enter_mount_namespace(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
}

/* The keeper's own mount namespace has the BPF file system, too. */
GUARD_TEST(unmounted_bpffs_leaves_the_guard_in_force)
{
	struct member another;
	_cleanup_(member_free) struct member one = member_new(fixture, "common u32 number");

	enter_mount_namespace();
	ck_assert_int_eq(umount2("/sys/fs/bpf", MNT_DETACH), 0);
	another = member_new(fixture, "common u32 number");
	ck_assert_uint_eq(one.answer.stream, another.answer.stream);
	ck_assert(is_guarded(another.stream));
	member_free(&another);
}

/* --- a kernel that can't have a guard --- */

static const char no_btf[] = "this kernel doesn't describe its types for BPF: there is no /sys/kernel/btf/vmlinux";

TEST(without_btf_the_daemon_works_unguarded_if_it_may)
{
	struct member members[2];
	struct fixture fixture;

	/* Linux 6.1 of the guests has none, and a backend without guard. */
	if (!has_btf())
		return;
	enter_mount_namespace();
	ck_assert_int_eq(mount("none", "/sys/kernel/btf", "tmpfs", 0, NULL), 0);
	fixture_start(&fixture, NULL);
	ck_assert(!fixture.guarded);
	ck_assert(log_has(&fixture, no_btf));
	ck_assert(log_has(&fixture, "each client gets a data file of its own"));
	members[0] = member_new(&fixture, "common u32 number");
	members[1] = member_new(&fixture, "common u32 number");
	ck_assert_uint_ne(members[0].answer.stream, members[1].answer.stream);
	expect_records(&fixture, members, ARRAY_SIZE(members));
	member_free(&members[0]);
	member_free(&members[1]);
	fixture_expect_no_start(&fixture, built("userevd"), "--guard=require", "there is no guard, and it is required");
	fixture_expect_no_start(&fixture, built("userevd"), "--guard=require", no_btf);
	fixture_stop(&fixture);
}

int main(void)
{
	if (!is_a_place_for_tests())
		return EXIT_SUCCESS;
	loader_directory = "/sys/fs/bpf/userevd";
	bypasses_list();
	return run_tests_in_cgroups();
}
