/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon without a guard, or with a guard that is lost: it notices each self-registered event, and disconnects no other client. As root, in a guest. */

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>

#include "tests/guard/bypass.h"
#include "tests/guard/loader.h"
#include "tests/guard/stand_in.h"
#include "tests/integration/actor.h"
#include "tests/integration/cgroups.h"
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

static bool is_disconnected(int socket)
{
	struct pollfd ask = { .fd = socket };

	return poll(&ask, 1, 0) == 1 && ask.revents & POLLHUP;
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
		ck_assert_uint_eq(raw_query(attacker->member.socket).leases, 1);
	return registered;
}

static void forget_all(struct fixture *fixture, int foreign, struct member *bystander)
{
	for (int i = 0; i <= n_ioctl_bypasses; i++)
		member_free(&attackers[i].member);
	member_free(bystander);
	close(foreign);
	ck_assert(eventually(status_number(fixture, "streams") == 0));
	/* Before Linux 6.4 the kernel keeps self-registered events. */
	delete_new_events(fixture->events_before);
	fixture_stop(fixture);
}

/* An attempt to delete or to unregister changes nothing, and is not noticed. */
TEST(self_registration_is_noticed_by_any_way)
{
	static const char *const without_guard[] = { "--guard=off", NULL };
	struct member bystander;
	struct fixture fixture;
	unsigned registered = 0;
	int foreign;

	fixture_start(&fixture, without_guard);
	foreign = make_foreign_event();
	bystander = member_new(&fixture, "bystander u32 a");
	for (int i = 0; i < n_ioctl_bypasses; i++)
		attacker_start(&attackers[i], &fixture, &bypasses[i]);
	/* The daemon checks streams in the order of their clients: the last one shows that all were checked. */
	attacker_start(&attackers[n_ioctl_bypasses], &fixture, &bypasses[0]);
	for (int i = 0; i <= n_ioctl_bypasses; i++)
		attacker_try(&attackers[i]);
	ck_assert(eventually(is_disconnected(attackers[n_ioctl_bypasses].member.socket)));
	for (int i = 0; i < n_ioctl_bypasses; i++)
		registered += judge(&attackers[i]);
	ck_assert_uint_eq(raw_query(bystander.socket).leases, 1);
	printf("%d attempts without a guard: %u have registered something, and all %u were noticed and disconnected\n",
	       n_ioctl_bypasses, registered, registered);
	forget_all(&fixture, foreign, &bystander);
}

static int register_rogue(void *data)
{
	return attempt(*(int *)data, REGISTER_NEW, kernel_manner(), "rogue");
}

static void forget(struct fixture *fixture)
{
	ck_assert(eventually(status_number(fixture, "streams") == 0));
	delete_new_events(fixture->events_before);
	fixture_stop(fixture);
}

static uint32_t ask_for_file(const struct fixture *fixture)
{
	int socket = raw_hello(fixture->socket, 0, NULL, NULL);
	uint32_t refusal = raw_register(socket, "next u32 a", NULL, NULL);

	close(socket);
	return refusal;
}

/* Events of an earlier daemon, or of the keeper's first look, may be counted as foreign a moment after their end. */
static void await_exact_count(const struct fixture *fixture)
{
	await_status(fixture, "foreign=%u", count_events(fixture->events_before));
}

TEST(unknown_events_deny_the_tenant_another_file)
{
	static const char *const without_guard[] = { "--guard=off", NULL };
	struct fixture fixture;
	struct member member;

	fixture_start(&fixture, without_guard);
	await_exact_count(&fixture);
	member = member_new(&fixture, "first u32 a");
	close(member.socket);
	member.socket = -1;
	ck_assert(eventually(status_number(&fixture, "lingering") == 1));
	ck_assert_uint_eq(ask_for_file(&fixture), 0);
	ck_assert_int_eq(run_in_child(register_rogue, &member.stream), 0);
	ck_assert(eventually(ask_for_file(&fixture) == REFUSAL_TROUBLE));
	member.stream = fd_close(member.stream);
	ck_assert(eventually(ask_for_file(&fixture) == 0));
	forget(&fixture);
}

/* --- a guard that is lost --- */

static bool need_guard(struct fixture *fixture)
{
	if (!fixture->guarded) {
		printf("not possible here: a guard\n");
		fixture_stop(fixture);
	}
	return fixture->guarded;
}

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

static void (*const losses[])(void) = { remove_by_command, unpin_by_hand, forget_the_mount };

/* As the daemon checks it. The kernel detaches programs a moment after the last link to them has gone. */
static bool is_guarded(int stream)
{
	return ioctl(stream, UAPI_IOCTL_REGISTER, NULL) < 0 && errno == EPERM;
}

static void lose_guard(int which, int stream)
{
	ck_assert(is_guarded(stream));
	losses[which]();
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

TEST(lost_guard_is_noticed_before_the_next_file)
{
	struct member members[4];
	struct fixture fixture;

	fixture_start(&fixture, NULL);
	if (!need_guard(&fixture))
		return;
	members[0] = member_new(&fixture, "common u32 number");
	members[1] = member_new(&fixture, "common u32 number");
	ck_assert_uint_eq(members[0].answer.stream, members[1].answer.stream);
	lose_guard(_i, members[0].stream);
	members[2] = member_new(&fixture, "common u32 number");
	members[3] = member_new(&fixture, "common u32 number");
	ck_assert(log_has(&fixture, "the guard is gone: data files are no longer shared"));
	fixture_read_backend(&fixture);
	ck_assert(!fixture.guarded);
	ck_assert_uint_ne(members[2].answer.stream, members[0].answer.stream);
	ck_assert_uint_ne(members[3].answer.stream, members[0].answer.stream);
	ck_assert_uint_ne(members[3].answer.stream, members[2].answer.stream);
	expect_records(&fixture, members, ARRAY_SIZE(members));
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		member_free(&members[i]);
	fixture_stop(&fixture);
}

/* The daemon checks the streams when it opens a stream, and disconnects all clients of a stream with foreign events. */
DAEMON_TEST(self_registration_after_a_lost_guard_is_noticed)
{
	struct member one, another, later;

	if (!need_guard(fixture))
		return;
	one = member_new(fixture, "common u32 number");
	another = member_new(fixture, "common u32 number");
	lose_guard(0, one.stream);
	ck_assert_int_eq(run_in_child(register_rogue, &one.stream), 0);
	later = member_new(fixture, "common u32 number");
	expect_disconnect(&one);
	expect_disconnect(&another);
	ck_assert_uint_eq(raw_query(later.socket).leases, 1);
	member_free(&one);
	member_free(&another);
	member_free(&later);
}

DAEMON_TEST(required_guard_that_is_lost_stops_new_files, .options = { "--guard=require" })
{
	struct member before;
	int socket, stream = -1;

	ck_assert(fixture->guarded);
	before = member_new(fixture, "common u32 number");
	lose_guard(0, before.stream);
	socket = fixture_client(fixture);
	ck_assert_uint_eq(raw_register(socket, "common u32 number", NULL, &stream), REFUSAL_TROUBLE);
	ck_assert_uint_eq(raw_register(socket, "another u32 number", NULL, &stream), REFUSAL_TROUBLE);
	ck_assert_int_eq(stream, -1);
	ck_assert(log_has(fixture, "the guard is gone: data files are not given out any more"));
	expect_records(fixture, &before, 1);
	close(socket);
	member_free(&before);
}

DAEMON_TEST(container_root_gets_no_file_after_a_lost_guard, .needs_cgroups = "root of the machine in a container")
{
	struct member before;
	struct actor root;
	int stream = -1;
	const char *container = make_cgroup("machine.slice/roots.scope");

	if (!delegate(container))
		return;
	before = member_new(fixture, "common u32 number");
	root = actor_new(fixture->socket, &(struct actor_as){ .cgroup = container });
	lose_guard(0, before.stream);
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
DAEMON_TEST(unmounted_bpffs_leaves_the_guard_in_force)
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

static void hide_btf(void)
{
	enter_mount_namespace();
	ck_assert_int_eq(mount("none", "/sys/kernel/btf", "tmpfs", 0, NULL), 0);
}

TEST(daemon_without_btf_works_unguarded_and_logs_why)
{
	struct member members[2];
	struct fixture fixture;

	hide_btf();
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
	fixture_stop(&fixture);
}

TEST(required_guard_without_btf_prevents_the_start)
{
	char directory[64], socket[128], control[128], output[2048];
	const char *const argv[] = { built("userevd"), "--foreground", "--guard=require", socket, control, NULL };

	hide_btf();
	make_temporary_directory(directory, sizeof(directory));
	snprintf(socket, sizeof(socket), "--socket=%s/s", directory);
	snprintf(control, sizeof(control), "--control-socket=%s/c", directory);
	ck_assert_int_eq(run_command(NULL, output, sizeof(output), argv), EXIT_FAILURE);
	ck_assert_msg(strstr(output, "there is no guard, and it is required"), "%s", output);
	ck_assert_msg(strstr(output, no_btf), "%s", output);
	ck_assert_int_eq(rmdir(directory), 0);
}

static TCase *add_cases(Suite *suite, const char *name)
{
	TCase *cases = tcase_create(name);

	tcase_set_timeout(cases, 300);
	suite_check_fds(cases);
	suite_add_tcase(suite, cases);
	return cases;
}

static int run_all(void)
{
	Suite *suite = suite_create("unguarded");
	TCase *cases = add_cases(suite, "never guarded");

	tcase_add_test(cases, self_registration_is_noticed_by_any_way);
	tcase_add_test(cases, unknown_events_deny_the_tenant_another_file);
	if (has_btf()) {
		cases = add_cases(suite, "lost");
		tcase_add_loop_test(cases, lost_guard_is_noticed_before_the_next_file, 0, ARRAY_SIZE(losses));
		tcase_add_test(cases, self_registration_after_a_lost_guard_is_noticed);
		tcase_add_test(cases, required_guard_that_is_lost_stops_new_files);
		tcase_add_test(cases, container_root_gets_no_file_after_a_lost_guard);
		tcase_add_test(cases, unmounted_bpffs_leaves_the_guard_in_force);
		cases = add_cases(suite, "no BTF");
		tcase_add_test(cases, daemon_without_btf_works_unguarded_and_logs_why);
		tcase_add_test(cases, required_guard_without_btf_prevents_the_start);
	}
	return suite_run(suite);
}

int main(void)
{
	int r;

	if (!is_a_place_for_tests())
		return EXIT_SUCCESS;
	loader_directory = "/sys/fs/bpf/userevd";
	bypasses_list();
	cgroups_find_room();
	r = run_all();
	cgroups_remove_all();
	return r;
}
