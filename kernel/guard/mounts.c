/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <bpf/bpf.h>

int guard_map_open(void)
{
	_cleanup_(fd_closep) int fd = bpf_obj_get(GUARD_MAP);
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		return -errno;
	if (info.type != BPF_MAP_TYPE_HASH || info.key_size != sizeof(uint64_t) || info.value_size != sizeof(uint64_t))
		return -EPROTOTYPE;
	return fd_steal(&fd);
}

int guard_mounts_add(uint64_t mount, uint64_t cgroup, struct text *why)
{
	_cleanup_(fd_closep) int fd = guard_map_open();
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

/* --- entries of keepers that have ended --- */

struct guard_entry {
	uint64_t mount;
	uint64_t cgroup;
	bool alive; /* the cgroup exists */
};

struct guard_entries {
	struct guard_entry *list;
	size_t n;
};

static void entries_add(uint64_t mount, uint64_t cgroup, void *data)
{
	struct guard_entries *entries = data;

	if (entries->n < GUARD_MOUNTS_MAX)
		entries->list[entries->n++] = (struct guard_entry){ .mount = mount, .cgroup = cgroup };
}

static void entries_note_cgroup(uint64_t id, void *data)
{
	struct guard_entries *entries = data;

	for (size_t i = 0; i < entries->n; i++)
		entries->list[i].alive |= entries->list[i].cgroup == id;
}

void guard_mounts_inherit(uint64_t cgroup)
{
	_cleanup_(freep) struct guard_entry *list = calloc(GUARD_MOUNTS_MAX, sizeof(*list));
	struct guard_entries entries = { .list = list };
	_cleanup_(fd_closep) int fd = guard_map_open();

	if (!list || fd < 0 || guard_mounts_visit(entries_add, &entries) < 0 ||
	    guard_cgroups_visit(entries_note_cgroup, &entries) < 0)
		return;
	for (size_t i = 0; i < entries.n; i++)
		if (!list[i].alive)
			(void)bpf_map_update_elem(fd, &list[i].mount, &cgroup, BPF_EXIST);
}

int guard_mounts_remove(uint64_t mount, struct text *why)
{
	_cleanup_(fd_closep) int fd = guard_map_open();
	int r = fd < 0 ? fd : bpf_map_delete_elem(fd, &mount);

	if (r == -ENOENT)
		text_printf(why, "mount %llu is not guarded", (unsigned long long)mount);
	else if (r < 0)
		text_printf(why, "can't take mount %llu away: %s", (unsigned long long)mount, strerror(-r));
	return r;
}

int guard_mounts_visit(void (*visit)(uint64_t mount, uint64_t cgroup, void *data), void *data)
{
	_cleanup_(fd_closep) int fd = guard_map_open();
	uint64_t mount, cgroup, *before = NULL;

	if (fd < 0)
		return fd;
	/* Entries are added and removed only under our lock. */
	for (; bpf_map_get_next_key(fd, before, &mount) == 0; before = &mount)
		if (bpf_map_lookup_elem(fd, &mount, &cgroup) == 0)
			visit(mount, cgroup, data);
	return 0;
}
