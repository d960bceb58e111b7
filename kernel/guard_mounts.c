/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard_loader.h"

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
