/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <asm-generic/errno-base.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdbool.h>

/* After <linux/bpf.h>, whose types they take for granted. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel/guard/guard.h"
#include "kernel/guard/types.h"

/*
 * Who was given a data file may write to it, and nothing else: on files that were opened through a guarded mount, the
 * programs below refuse everybody but the mount's keeper. However the file came to somebody, and however he opens it once
 * more (/proc/self/fd), its mount stays.
 *
 * Every ioctl of the machine comes by here, so what is not tracefs leaves at once. That also keeps an entry whose mount is
 * gone from guarding another one of the same number (before 6.8 these are given again), unless that is one of tracefs.
 */

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
	__uint(max_entries, GUARD_MOUNTS_MAX);
	__type(key, __u64);
	__type(value, struct guard_keeper);
} mounts SEC(".maps");

/* Set by prove_lsm. */
volatile bool lsm_is_on = false;

static __always_inline __u64 mount_id(const struct vfsmount *inner)
{
	const struct mount *mount = (const void *)inner - bpf_core_field_offset(struct mount, mnt);

	if (bpf_core_field_exists(mount->mnt_id_unique))
		return BPF_CORE_READ(mount, mnt_id_unique);
	return (__u32)BPF_CORE_READ(mount, mnt_id);
}

static __always_inline bool is_process(const struct task_struct *task, const struct guard_keeper *keeper)
{
	return (__u32)task->tgid == keeper->tgid && task->group_leader->start_boottime == keeper->start;
}

static __always_inline bool is_keeper(const struct guard_keeper *keeper)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	if (keeper->cgroup_id != 0 && bpf_get_current_cgroup_id() == keeper->cgroup_id)
		return true;
	return keeper->tgid != 0 && (is_process(task, keeper) || is_process(task->real_parent, keeper));
}

static __always_inline int judge(const struct vfsmount *mount)
{
	const struct guard_keeper *keeper;
	__u64 id;

	if (mount->mnt_sb->s_magic != TRACEFS_MAGIC)
		return 0;
	id = mount_id(mount);
	keeper = bpf_map_lookup_elem(&mounts, &id);
	return keeper && !is_keeper(keeper) ? -EPERM : 0;
}

/*
 * What concerns the descriptor alone and never gets to the file is let through: Python, Rust and libuv set close-on-exec
 * so. The kernel, too, looks at 32 bits of the command only.
 */
static __always_inline int judge_ioctl(const struct file *file, unsigned int command)
{
	enum { DESCRIPTOR_CLOSE_ON_EXEC = 0x5451, DESCRIPTOR_KEEP_ON_EXEC = 0x5450 }; /* FIOCLEX, FIONCLEX */
	int verdict = judge(file->f_path.mnt);

	return command == DESCRIPTOR_CLOSE_ON_EXEC || command == DESCRIPTOR_KEEP_ON_EXEC ? 0 : verdict;
}

/*
 * Each hook twice, and the loader takes one (guard_program.c says which). What another program has already refused does not
 * come here, so there is no earlier verdict to keep.
 */
#define HOOK(hook, verdict, ...)                                                                                       \
	SEC("?lsm/" #hook) int BPF_PROG(lsm_##hook, __VA_ARGS__)                                                       \
	{                                                                                                              \
		return verdict;                                                                                        \
	}                                                                                                              \
	SEC("?fmod_ret/security_" #hook) int BPF_PROG(modify_##hook, __VA_ARGS__)                                      \
	{                                                                                                              \
		return verdict;                                                                                        \
	}

HOOK(file_ioctl, judge_ioctl(file, command), struct file *file, unsigned int command)
/* Where 32-bit programs come by since 6.8; before, they come by the former. */
HOOK(file_ioctl_compat, judge_ioctl(file, command), struct file *file, unsigned int command)
/* flock(2), and all that F_SETLK, F_OFD_SETLK and F_SETLEASE stand for. */
HOOK(file_lock, judge(file->f_path.mnt), struct file *file)
/* These change the file for all mounts: its owner could lock the keeper out. */
HOOK(path_chmod, judge(path->mnt), const struct path *path)
HOOK(path_chown, judge(path->mnt), const struct path *path)

SEC("?lsm/file_ioctl")
int BPF_PROG(prove_lsm, struct file *file, unsigned int command)
{
	if (command == GUARD_PROOF)
		lsm_is_on = true;
	return 0;
}

/* The number that the process has for who reads this. The iterator shows nobody who has none. */
static __always_inline int number_for_reader(const struct task_struct *task)
{
	const struct task_struct *reader = bpf_get_current_task_btf();
	unsigned int level = BPF_CORE_READ(reader, thread_pid, level);
	const void *numbers =
		(const void *)BPF_CORE_READ(task, thread_pid) + bpf_core_field_offset(struct pid, numbers);
	const struct upid *number = numbers + level * bpf_core_type_size(struct upid);

	return BPF_CORE_READ(number, nr);
}

/* A line for each process: its number, its number in the outermost pid namespace, and when it started. */
SEC("?iter/task")
int list_processes(struct bpf_iter__task *context)
{
	const struct task_struct *task = context->task;

	if (task && task->pid == task->tgid)
		BPF_SEQ_PRINTF(context->meta->seq, "%d %d %llu\n", number_for_reader(task), task->tgid,
			       task->start_boottime);
	return 0;
}
