/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <bpf/bpf.h>

int guard_map_open(uint32_t *ret_id)
{
	_cleanup_(fd_closep) int fd = bpf_obj_get(GUARD_MAP);
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		return -errno;
	if (info.type != BPF_MAP_TYPE_HASH || info.key_size != sizeof(uint64_t) || info.value_size != sizeof(uint64_t))
		return -EPROTOTYPE;
	if (ret_id)
		*ret_id = info.id;
	return fd_steal(&fd);
}

int guard_mounts_add(uint64_t mount, uint64_t cgroup, struct text *why)
{
	_cleanup_(fd_closep) int fd = guard_map_open(NULL);
	int r = fd < 0 ? fd : bpf_map_update_elem(fd, &mount, &cgroup, BPF_ANY);

	/* Only an admin can tell which entries are obsolete: a keeper that has ended may have left files with its clients. */
	if (r == -E2BIG)
		text_printf(
			why,
			"all %d entries for guarded mounts are taken; userevd-guard --status shows them, and --remove takes "
			"one or all away",
			GUARD_MOUNTS_MAX);
	else if (r < 0)
		text_printf(why, "can't guard the mount: %s", strerror(-r));
	return r;
}

int guard_mounts_read(struct guard_mounts *ret)
{
	_cleanup_(freep) struct guard_mount *list = calloc(GUARD_MOUNTS_MAX, sizeof(*list));
	_cleanup_(fd_closep) int fd = guard_map_open(NULL);
	uint64_t *before = NULL;
	size_t n = 0;

	if (fd < 0 || !list)
		return fd < 0 ? fd : -ENOMEM;
	/* Entries are added and removed only under our lock. */
	for (; n < GUARD_MOUNTS_MAX && bpf_map_get_next_key(fd, before, &list[n].mount) == 0 &&
	       bpf_map_lookup_elem(fd, &list[n].mount, &list[n].cgroup) == 0;
	     n++)
		before = &list[n].mount;
	*ret = (struct guard_mounts){ .list = steal_pointer(list), .n = n };
	return 0;
}

void guard_mounts_inherit(uint64_t cgroup)
{
	_cleanup_(fd_closep) int fd = guard_map_open(NULL);
	struct guard_mounts mounts = { 0 };

	if (fd >= 0 && guard_mounts_read(&mounts) == 0 && guard_cgroups_look_up(&mounts) == 0)
		for (size_t i = 0; i < mounts.n; i++)
			if (!mounts.list[i].alive)
				(void)bpf_map_update_elem(fd, &mounts.list[i].mount, &cgroup, BPF_EXIST);
	free(mounts.list);
}

int guard_mounts_remove(uint64_t mount, struct text *why)
{
	_cleanup_(fd_closep) int fd = guard_map_open(NULL);
	int r = fd < 0 ? fd : bpf_map_delete_elem(fd, &mount);

	if (r == -ENOENT)
		text_printf(why, "mount %llu is not guarded", (unsigned long long)mount);
	else if (r < 0)
		text_printf(why, "can't take mount %llu away: %s", (unsigned long long)mount, strerror(-r));
	return r;
}
