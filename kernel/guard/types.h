/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * What the guard reads of the kernel's structs, and no more: where each member is in the running kernel is found out when the
 * programs are loaded. So no kernel's headers, and no BTF of the machine that builds, are needed.
 */

#define _relocated_ __attribute__((preserve_access_index))

struct super_block {
	unsigned long s_magic;
} _relocated_;

struct vfsmount {
	struct super_block *mnt_sb;
} _relocated_;

struct mount {
	struct vfsmount mnt;
	int mnt_id;
	__u64 mnt_id_unique; /* from 6.8 on */
} _relocated_;

struct path {
	struct vfsmount *mnt;
} _relocated_;

struct file {
	struct path f_path;
} _relocated_;

struct upid {
	int nr;
} _relocated_;

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one for each level, 0 to `level` */
} _relocated_;

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	__u64 start_boottime;
} _relocated_;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} _relocated_;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} _relocated_;
