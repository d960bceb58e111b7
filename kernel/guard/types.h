/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The members of kernel structs that the guard reads. The loader finds out where each member is in the running kernel, so neither
 * kernel headers nor the BTF of the build machine are needed.
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
	__u64 mnt_id_unique; /* from Linux 6.8 on */
} _relocated_;

struct path {
	struct vfsmount *mnt;
} _relocated_;

struct file {
	struct path f_path;
} _relocated_;
