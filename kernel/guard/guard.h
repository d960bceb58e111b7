/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Shared by the guard's BPF programs and their loader, and read by both compilers. */

/*
 * The version of the map's layout: the key is a mount's unique id (STATX_MNT_ID_UNIQUE, Linux 6.8), or STATX_MNT_ID on older
 * kernels; the value is the number of its keeper's cgroup, a __u64 as well. Programs of one layout share a map, whichever build
 * they belong to. Programs of another layout stay as they are, with their own map.
 */
#define GUARD_LAYOUT "2"

/* One entry for each keeper since the guard was loaded: only an admin removes entries. */
#define GUARD_MOUNTS_MAX 16384

/* With this ioctl the loader finds out whether BPF programs for security hooks run at all. */
#define GUARD_PROOF 0x6e617564
