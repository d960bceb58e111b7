/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the guard's BPF programs and their loader share; read by both compilers. */

#include <linux/types.h>

/*
 * Of the map and of what its values mean. Programs of one layout share a map, whichever build they are of; those of another
 * are left alone, with theirs, to guard what they guard.
 */
#define GUARD_LAYOUT 1

/* An entry for each keeper that ever ran since the guard was loaded, whoever may use it now: they are removed by hand only. */
#define GUARD_MOUNTS_MAX 16384

/* The ioctl with which the loader finds out whether BPF programs for security hooks run at all. */
#define GUARD_PROOF 0x6e617564

/*
 * Who may do what he likes with the files of a mount; the key is the mount's unique id (STATX_MNT_ID_UNIQUE, Linux 6.8),
 * or STATX_MNT_ID on older kernels. He is in the cgroup, or he is the process, or a child of it.
 */
struct guard_keeper {
	__u64 cgroup_id; /* 0: no cgroup */
	__u32 tgid;	 /* as the outermost pid namespace has it; 0: no process */
	__u32 zero;
	__u64 start; /* of the process, ns since boot: a number that was given again is somebody else */
};
