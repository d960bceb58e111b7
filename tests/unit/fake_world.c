/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Worlds with the fake kernel, and their guard. */

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "daemon/recovery/restore.h"
#include "daemon/registry/kept.h"
#include "kernel/uapi.h"
#include "tests/unit/fake_kernel.h"

static void install_guard(void)
{
	static bool is_there; /* as long as the process is */
	const unsigned low = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint32_t) : 0;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + low),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)UAPI_IOCTL_REGISTER, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + low),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, GUARDED_FDS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	if (is_there)
		return;
	is_there = true;
	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_msg(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "no seccomp: %s", strerror(errno));
	ck_assert_int_eq(ioctl(GUARDED_FDS, UAPI_IOCTL_REGISTER, NULL), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ioctl(GUARDED_FDS - 1, UAPI_IOCTL_REGISTER, NULL), -1);
	ck_assert_int_eq(errno, EBADF);
}

/* The daemon's kernel is the fake one. */
static void put_in_place(struct world *world, const char *guard, bool guarded)
{
	struct kernel_facts *facts = &script.kernel->facts;

	fake.carrier = script.real;
	fake.guard = guarded;
	script.real = &fake_ops;
	script.kernel->tracer = NULL;
	facts->backend = BACKEND_ENABLE_ADDRESS;
	facts->guarded = guarded;
	facts->flags = kernel_offers;
	facts->deposits = fake.keeps;
	world->daemon->registry.guarded = guarded;
	world->daemon->options.guard = guard;
}

static struct world *world_with(const char *guard, bool guarded, bool keeps)
{
	struct world *world = world_new(4000, 1000);

	memset(&fake, 0, sizeof(fake));
	fake.keeps = keeps;
	put_in_place(world, guard, guarded);
	if (guarded)
		install_guard();
	if (keeps)
		ck_assert_int_eq(restore(world->daemon), 0);
	return world;
}

struct world *world_on(const char *guard, bool guarded)
{
	return world_with(guard, guarded, false);
}

struct world *world_kept(bool guarded)
{
	return world_with("prefer", guarded, true);
}

void world_leave_daemon(struct world *world)
{
	world_end(world);
	for (size_t i = 0; i < STREAMS; i++)
		fake.stream[i].wanted = false;
	for (size_t i = 0; i < DEPOSITS; i++)
		fake.deposit[i].wanted = false;
}

void world_next_daemon(struct world *world)
{
	world_begin(world);
	put_in_place(world, "prefer", fake.guard);
	ck_assert_int_eq(restore(world->daemon), 0);
	turn(world);
}

int world_try_next_daemon(struct world *world, long allocations)
{
	int r;

	world_begin(world);
	put_in_place(world, "prefer", fake.guard);
	memory_comes_back = true;
	allocations_left = allocations;
	r = restore(world->daemon);
	allocations_left = -1;
	return r;
}

void world_restart(struct world *world)
{
	world_leave_daemon(world);
	world_next_daemon(world);
}

void expect_all_gone(struct world *world)
{
	hold_no_more();
	turn(world);
	look_at_lingering(world);
	turn(world);
	expect_nothing_left(world);
	expect_kernel_has(0, 0);
	for (size_t i = 0; i < PAGES; i++)
		ck_assert_uint_eq(fake.page[i], 0);
}

void world_leave(struct world **world)
{
	if ((*world)->daemon)
		expect_all_gone(*world);
	fake.keeps = false;
	world_free(world);
}

void set_guard(struct world *world, bool guard)
{
	fake.guard = guard;
	for (struct stream *stream = world->daemon->registry.streams; stream; stream = stream->by_number.next) {
		int fd = stream->fd;

		if (fd < 0)
			continue;
		stream->fd = fcntl(fd, F_DUPFD_CLOEXEC, guard ? GUARDED_FDS : 0);
		close(fd);
	}
}

struct end end_welcomed_as(struct world *world, pid_t pid, uid_t uid)
{
	struct end end = end_of_user(world, pid, uid);

	say_hello(&end);
	expect_welcome(&end);
	return end;
}

void register_on(uint32_t number)
{
	struct fake_stream *stream = find_stream(number);

	if (!stream)
		ck_abort_msg("there is no stream %u", number);
	stream->self_registered = true;
}

uint64_t count_self_registered(const struct end *end)
{
	return tenant_of(end)->refusals[REFUSAL_SELF_REGISTERED];
}

void hang_up_and_keep(struct end *end, int *ret)
{
	*ret = fd_steal(&end->stream);
	end_hang_up(end);
	turn(end->world);
}

void expect_same_answer(const struct answer *one, const struct answer *other)
{
	ck_assert_uint_eq(one->stream, other->stream);
	ck_assert_uint_eq(one->bit, other->bit);
	ck_assert_uint_eq(one->index, other->index);
}

void keep_for(struct world *world, const char *time)
{
	char policy[64];

	world->daemon->options.tenant_is_process = false;
	snprintf(policy, sizeof(policy), "[/world]\nKeepFor=%s\n", time);
	world_adopt(world, policy);
}

static bool give_up_kept(struct world *world)
{
	for (struct stream *stream = world->daemon->registry.streams; stream; stream = stream->by_number.next)
		if (stream->kept)
			return kept_yield(stream->tenant->level);
	return false;
}

void keep_nothing(struct world *world)
{
	keep_for(world, "0");
	while (give_up_kept(world))
		;
}
