/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

/*
 * When a process started is told by /proc only in hundredths of a second, and which number it has in the outermost pid
 * namespace not at all; so the guard's own list of processes is asked.
 */

enum { ROOT_CGROUP = 1 };

void guard_processes_free(struct guard_processes *processes)
{
	free(processes->list);
	*processes = (struct guard_processes){ 0 };
}

static int append(struct guard_processes *processes, const struct guard_process *process)
{
	struct guard_process *list = processes->list;

	/* Doubled at each power of two. */
	if ((processes->n & (processes->n - 1)) == 0)
		list = realloc(list, MAX(2 * processes->n, 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	processes->list = list;
	list[processes->n++] = *process;
	return 0;
}

int guard_processes_read(const struct guard_directory *directory, const char *program, struct guard_processes *ret)
{
	struct guard_pin pin = guard_pin(directory, "%s/processes", program);
	FILE *file = fopen(pin.path, "re");
	struct guard_process process;
	unsigned long long start;
	int r = 0;

	*ret = (struct guard_processes){ 0 };
	if (!file)
		return -errno;
	while (r == 0 && fscanf(file, "%d %u %llu", &process.number, &process.tgid, &start) == 3) {
		process.start = start;
		r = append(ret, &process);
	}
	fclose(file);
	return r;
}

int guard_keeper_find_process(const struct guard_directory *directory, const char *program, pid_t number,
			      struct guard_keeper *ret, struct text *why)
{
	_cleanup_(guard_processes_free) struct guard_processes processes;
	int r = guard_processes_read(directory, program, &processes);

	if (r < 0) {
		text_printf(why, "can't list processes: %s", strerror(-r));
		return r;
	}
	for (size_t i = 0; i < processes.n; i++) {
		if (processes.list[i].number != number)
			continue;
		ret->tgid = processes.list[i].tgid;
		ret->start = processes.list[i].start;
		return 0;
	}
	text_printf(why, "there is no process %d", (int)number);
	return -ESRCH;
}

pid_t guard_keeper_process(const struct guard_keeper *keeper, const struct guard_processes *processes)
{
	for (size_t i = 0; i < processes->n; i++)
		if (processes->list[i].tgid == keeper->tgid && processes->list[i].start == keeper->start)
			return processes->list[i].number;
	return 0;
}

int guard_keeper_set_cgroup(uint64_t id, struct guard_keeper *ret, struct text *why)
{
	if (id <= ROOT_CGROUP) {
		text_printf(why, "the root cgroup isn't the keeper's alone; give another one, or --process");
		return -EINVAL;
	}
	ret->cgroup_id = id;
	return 0;
}

static int find_id(int directory, const char *path, int flags, uint64_t *ret)
{
	struct {
		struct file_handle handle;
		uint64_t id;
	} found = { .handle.handle_bytes = sizeof(uint64_t) };
	int mount;

	if (name_to_handle_at(directory, path, &found.handle, &mount, flags) < 0)
		return -errno;
	*ret = found.id;
	return 0;
}

int guard_keeper_find_cgroup(const char *path, struct guard_keeper *ret, struct text *why)
{
	struct statfs status;
	uint64_t id = 0;
	int r;

	if (statfs(path, &status) < 0) {
		r = -errno;
		text_printf(why, "%s: %s", path, strerror(-r));
		return r;
	}
	if (status.f_type != CGROUP2_SUPER_MAGIC) {
		text_printf(why, "%s is no cgroup v2", path);
		return -ENOTSUP;
	}
	r = find_id(AT_FDCWD, path, 0, &id);
	if (r < 0) {
		text_printf(why, "%s: can't find its number: %s", path, strerror(-r));
		return r;
	}
	return guard_keeper_set_cgroup(id, ret, why);
}

/* --- all cgroups --- */

/* Deeper than any service lies: whoever has a cgroup of his own may nest others in it as deep as he likes. */
enum { VISIT_DEPTH_MAX = 16 };

static int visit_from(int directory, unsigned depth, guard_cgroup_visitor *visit, void *data);

static int visit_child(int parent, const struct dirent *entry, unsigned depth, guard_cgroup_visitor *visit, void *data)
{
	int fd;

	if (depth == VISIT_DEPTH_MAX || entry->d_type != DT_DIR || streq(entry->d_name, ".") ||
	    streq(entry->d_name, ".."))
		return 0;
	fd = openat(parent, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno; /* has gone just now */
	return visit_from(fd, depth + 1, visit, data);
}

/* The directory is closed. */
static int visit_from(int directory, unsigned depth, guard_cgroup_visitor *visit, void *data)
{
	DIR *stream = fdopendir(directory);
	const struct dirent *entry;
	uint64_t id = 0;
	int r;

	if (!stream) {
		fd_close(directory);
		return -ENOMEM;
	}
	r = find_id(directory, "", AT_EMPTY_PATH, &id);
	if (r == 0)
		visit(id, data);
	while (r == 0 && (entry = readdir(stream)))
		r = visit_child(directory, entry, depth, visit, data);
	closedir(stream);
	return r;
}

/* In a cgroup namespace the root of what can be seen is another. */
static int open_root(void)
{
	static const char *const paths[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_(fd_closep) int fd = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct statfs status;
		uint64_t id = 0;

		if (fd >= 0 && fstatfs(fd, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC &&
		    find_id(fd, "", AT_EMPTY_PATH, &id) == 0 && id == ROOT_CGROUP)
			return fd_steal(&fd);
	}
	return -ENOENT;
}

int guard_cgroups_visit(guard_cgroup_visitor *visit, void *data)
{
	int root = open_root();

	return root < 0 ? root : visit_from(root, 0, visit, data);
}
