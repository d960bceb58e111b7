/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <bpf/bpf.h>

struct guard_pin guard_map(const struct guard_directory *directory)
{
	return guard_pin(directory, "mounts%d", GUARD_LAYOUT);
}

int guard_map_open(const struct guard_directory *directory)
{
	struct guard_pin pin = guard_map(directory);
	_cleanup_(fd_closep) int fd = bpf_obj_get(pin.path);
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);

	if (fd < 0)
		return -errno;
	if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		return -errno;
	if (info.type != BPF_MAP_TYPE_HASH || info.key_size != sizeof(uint64_t) ||
	    info.value_size != sizeof(struct guard_keeper))
		return -EPROTOTYPE;
	return fd_steal(&fd);
}

int guard_mounts_add(const struct guard_directory *directory, uint64_t mount, const struct guard_keeper *keeper,
		     struct text *why)
{
	_cleanup_(fd_closep) int fd = guard_map_open(directory);
	int r = fd < 0 ? fd : bpf_map_update_elem(fd, &mount, keeper, BPF_ANY);

	/* Who knows which of them are not needed any more? A keeper that has ended may have left files with its clients. */
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

/* --- what is left of keepers that are no more --- */

struct orphan {
	uint64_t mount;
	uint64_t cgroup_id;
	bool alive;
};

struct orphans {
	struct orphan *list;
	size_t n;
	size_t capacity;
};

/* A process is never another one's heir, nor has he one. */
static void note_orphan(uint64_t mount, const struct guard_keeper *keeper, void *data)
{
	struct orphans *orphans = data;

	if (keeper->tgid != 0 || orphans->n == orphans->capacity)
		return;
	orphans->list[orphans->n++] = (struct orphan){ .mount = mount, .cgroup_id = keeper->cgroup_id };
}

static void note_cgroup(uint64_t id, void *data)
{
	struct orphans *orphans = data;

	for (size_t i = 0; i < orphans->n; i++)
		if (orphans->list[i].cgroup_id == id)
			orphans->list[i].alive = true;
}

void guard_mounts_inherit(const struct guard_directory *directory, const struct guard_keeper *heir)
{
	_cleanup_(freep) struct orphan *list = calloc(GUARD_MOUNTS_MAX, sizeof(*list));
	struct orphans orphans = { .list = list, .capacity = GUARD_MOUNTS_MAX };
	_cleanup_(fd_closep) int fd = guard_map_open(directory);

	if (!list || fd < 0 || heir->cgroup_id == 0 || heir->tgid != 0)
		return;
	if (guard_mounts_visit(directory, note_orphan, &orphans) < 0 || orphans.n == 0)
		return;
	if (guard_cgroups_visit(note_cgroup, &orphans) < 0)
		return;
	for (size_t i = 0; i < orphans.n; i++)
		if (!orphans.list[i].alive)
			(void)bpf_map_update_elem(fd, &orphans.list[i].mount, heir, BPF_EXIST);
}

int guard_mounts_remove(const struct guard_directory *directory, uint64_t mount, struct text *why)
{
	_cleanup_(fd_closep) int fd = guard_map_open(directory);
	int r = fd < 0 ? fd : bpf_map_delete_elem(fd, &mount);

	if (r == -ENOENT)
		text_printf(why, "mount %llu is not guarded", (unsigned long long)mount);
	else if (r < 0)
		text_printf(why, "can't take mount %llu away: %s", (unsigned long long)mount, strerror(-r));
	return r;
}

int guard_mounts_visit(const struct guard_directory *directory, guard_mount_visitor *visit, void *data)
{
	_cleanup_(fd_closep) int fd = guard_map_open(directory);
	uint64_t mount, *before = NULL;
	struct guard_keeper keeper;

	if (fd < 0)
		return fd;
	/* Entries come and go only under the lock that we have. */
	for (; bpf_map_get_next_key(fd, before, &mount) == 0; before = &mount)
		if (bpf_map_lookup_elem(fd, &mount, &keeper) == 0)
			visit(mount, &keeper, data);
	return 0;
}
