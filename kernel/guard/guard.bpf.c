/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <asm-generic/errno-base.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdbool.h>

/* After <linux/bpf.h>, whose types they need. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel/guard/guard.h"
#include "kernel/guard/types.h"

/*
 * A program that has a data file may write to it and do nothing else: on a file that was opened through a guarded mount, the
 * programs below refuse everything to processes outside the cgroup of the mount's keeper. A file keeps its mount, however a process
 * got the file, and however it opens the file once more (/proc/self/fd).
 *
 * Every ioctl of the machine passes here, so files outside tracefs leave at once. For the same reason an entry whose mount is gone
 * guards no other mount that gets the same number (before Linux 6.8 numbers are used again), unless that is a mount of tracefs.
 */

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG);
	__uint(max_entries, GUARD_MOUNTS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} mounts SEC(".maps");

/*
 * What a program of either kind goes on to: it admits events of programs that have the file by right, and counts them. Empty unless a
 * policy asks for it. Programs of two kinds can't share such a map.
 */
#define ADMISSION(name)                                                                                                \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                                                 \
		__uint(max_entries, 1);                                                                                \
		__type(key, __u32);                                                                                    \
		__type(value, __u32);                                                                                  \
	} name SEC(".maps")
ADMISSION(admission_lsm);
ADMISSION(admission_modify);

/* Set by prove_lsm. */
volatile bool lsm_is_on = false;

static __always_inline int judge(const struct vfsmount *inner)
{
	const struct mount *mount = (const void *)inner - bpf_core_field_offset(struct mount, mnt);
	const __u64 *keeper;
	__u64 id;

	if (inner->mnt_sb->s_magic != TRACEFS_MAGIC)
		return 0;
	if (bpf_core_field_exists(mount->mnt_id_unique))
		id = BPF_CORE_READ(mount, mnt_id_unique);
	else
		id = (__u32)BPF_CORE_READ(mount, mnt_id);
	keeper = bpf_map_lookup_elem(&mounts, &id);
	return keeper && *keeper != bpf_get_current_cgroup_id() ? -EPERM : 0;
}

/*
 * Lets commands pass that concern the descriptor alone and never reach the file: Python, Rust and libuv set close-on-exec this way.
 * The kernel, too, looks at only 32 bits of the command.
 */
static __always_inline int judge_ioctl(const struct file *file, unsigned int command)
{
	enum { DESCRIPTOR_CLOSE_ON_EXEC = 0x5451, DESCRIPTOR_KEEP_ON_EXEC = 0x5450 }; /* FIOCLEX, FIONCLEX */
	int verdict = judge(file->f_path.mnt);

	return command == DESCRIPTOR_CLOSE_ON_EXEC || command == DESCRIPTOR_KEEP_ON_EXEC ? 0 : verdict;
}

/* Ioctls of tracefs that are not refused. */
static __always_inline bool goes_on(const struct file *file, int verdict)
{
	return verdict == 0 && file->f_path.mnt->mnt_sb->s_magic == TRACEFS_MAGIC;
}

/*
 * Each hook exists twice, and the loader chooses one (program.c explains which). A call that another program has refused does not
 * get here, so there is no earlier verdict to preserve.
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

SEC("?lsm/file_ioctl")
int BPF_PROG(lsm_file_ioctl, struct file *file, unsigned int command)
{
	int verdict = judge_ioctl(file, command);

	if (goes_on(file, verdict))
		bpf_tail_call(ctx, &admission_lsm, 0);
	return verdict;
}
SEC("?fmod_ret/security_file_ioctl")
int BPF_PROG(modify_file_ioctl, struct file *file, unsigned int command)
{
	int verdict = judge_ioctl(file, command);

	if (goes_on(file, verdict))
		bpf_tail_call(ctx, &admission_modify, 0);
	return verdict;
}

/* For 32-bit programs from Linux 6.8 on; before, they use file_ioctl. */
HOOK(file_ioctl_compat, judge_ioctl(file, command), struct file *file, unsigned int command)
/* flock(2), F_SETLK, F_OFD_SETLK and F_SETLEASE. */
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
