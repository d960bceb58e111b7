/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Loads and pins the programs of admission.bpf.c. They are numbered by build as those of the guard are, and the maps outlive them:
 * programs of two builds that are attached for a moment count nothing twice, since each step of a registration is done once.
 */

#include <bpf/bpf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kernel/guard/admission.h"
#include "kernel/guard/loader.h"

#include "admission.skel.h"

/* The others are what the guard's program goes on to, and files. */
static const char *const attached[] = { "name_copied", "refuse_new", "reference_added", "file_closed",
					"event_ended", "lock_file",  "chmod_file",	"chown_file" };

static void skeleton_destroy(struct admission_bpf **skeleton)
{
	admission_bpf__destroy(*skeleton);
}

static struct guard_program_name program_name(void)
{
	struct guard_program_name name;
	const void *bytes;
	size_t n;

	bytes = admission_bpf__elf_bytes(&n);
	snprintf(name.text, sizeof(name.text), ADMISSION_PROGRAM "%016llx",
		 (unsigned long long)guard_program_hash(bytes, n));
	return name;
}

/* Whether everything of this build is pinned. */
static bool is_pinned(const char *name)
{
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(attached); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, attached[i]);
		if (access(path, F_OK) < 0)
			return false;
	}
	return true;
}

static int pin_link(const struct admission_bpf *skeleton, const char *program)
{
	struct bpf_program *found = bpf_object__find_program_by_name(skeleton->obj, program);
	struct bpf_link *link = bpf_program__attach(found);
	char path[128];
	int r;

	if (!link)
		return -errno;
	snprintf(path, sizeof(path), "new/%s", program);
	r = bpf_link__pin(link, path);
	/* The pin keeps the link alive. */
	bpf_link__destroy(link);
	return r;
}

/* The program that the guard's goes on to. */
static int pin_first(const struct admission_bpf *skeleton, enum guard_kind kind)
{
	const bool lsm = kind == GUARD_KIND_LSM;
	const struct bpf_program *program = lsm ? skeleton->progs.lsm_ask : skeleton->progs.modify_ask;
	_cleanup_(fd_closep) int map = bpf_obj_get(lsm ? GUARD_ADMISSION "lsm" : GUARD_ADMISSION "modify");
	int fd = bpf_program__fd(program);
	uint32_t zero = 0;

	if (map < 0)
		return -errno;
	return bpf_map_update_elem(map, &zero, &fd, BPF_ANY) < 0 ? -errno : 0;
}

/* A file whose reader runs the program with each element of the map. For everybody who can enter the directory, or is given it. */
static int pin_file(const struct bpf_program *program, const struct bpf_map *map, const char *path)
{
	union bpf_iter_link_info info = { .map.map_fd = (unsigned)bpf_map__fd(map) };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_link *link = bpf_program__attach_iter(program, &options);
	int r;

	if (!link)
		return -errno;
	r = guard_unpin(path);
	if (r == 0)
		r = bpf_link__pin(link, path);
	if (r == 0 && chmod(path, 0444) < 0)
		r = -errno;
	bpf_link__destroy(link);
	return r;
}

/* Attached to what they follow before what they precede, so that no registration is seen in part. */
static int pin_all(const struct admission_bpf *skeleton, enum guard_kind kind, const char *name)
{
	int r = 0;

	if (mkdir("new", 0700) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(attached) && r == 0; i++)
		r = pin_link(skeleton, attached[i]);
	if (r == 0)
		r = pin_file(skeleton->progs.sweep, skeleton->maps.globals, ADMISSION_MAP "sweep");
	if (r == 0)
		r = pin_file(skeleton->progs.list, skeleton->maps.grants, ADMISSION_MAP "list");
	if (r == 0)
		r = guard_unpin(name);
	if (r == 0 && rename("new", name) < 0)
		r = -errno;
	return r == 0 ? pin_first(skeleton, kind) : r;
}

static int load(enum guard_kind kind, struct admission_bpf **ret)
{
	_cleanup_(skeleton_destroy) struct admission_bpf *skeleton = admission_bpf__open();
	struct bpf_map *map;
	char path[64];
	int r;

	if (!skeleton)
		return -errno;
	bpf_program__set_autoload(skeleton->progs.lsm_ask, kind == GUARD_KIND_LSM);
	bpf_program__set_autoload(skeleton->progs.modify_ask, kind == GUARD_KIND_MODIFY_RETURN);
	bpf_object__for_each_map(map, skeleton->obj)
	{
		if (bpf_map__is_internal(map))
			continue;
		snprintf(path, sizeof(path), ADMISSION_MAP "%s", bpf_map__name(map));
		r = bpf_map__set_pin_path(map, path);
		if (r < 0)
			return r;
	}
	r = admission_bpf__load(skeleton);
	if (r < 0)
		return r;
	*ret = steal_pointer(skeleton);
	return 0;
}

static int unpin_other(const char *name, void *data)
{
	return strncmp(name, ADMISSION_PROGRAM, strlen(ADMISSION_PROGRAM)) == 0 && !streq(name, data)
		       ? guard_unpin(name)
		       : 0;
}

static int set_inode(uint64_t inode)
{
	_cleanup_(fd_closep) int map = bpf_obj_get(ADMISSION_MAP "shared");
	struct admission_shared *shared;

	if (map < 0)
		return -errno;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	if (shared == MAP_FAILED)
		return -errno;
	__atomic_store_n(&shared->inode, inode, __ATOMIC_SEQ_CST);
	munmap(shared, sizeof(*shared));
	return 0;
}

int guard_admission_ensure(uint64_t inode, struct text *why)
{
	struct guard_program_name name = program_name();
	_cleanup_(skeleton_destroy) struct admission_bpf *skeleton = NULL;
	struct guard_program guard;
	int r = guard_program_inspect(guard_program_name().text, &guard);

	if (r == 0 && guard_machine_is_preemptible()) {
		text_printf(
			why,
			"this kernel switches tasks in the midst of a BPF program (PREEMPT), which then misses registrations; "
			"boot it with preempt=voluntary");
		return -EOPNOTSUPP;
	}
	if (r == 0 && !is_pinned(name.text)) {
		r = load(guard.kind, &skeleton);
		if (r == 0)
			r = pin_all(skeleton, guard.kind, name.text);
	}
	if (r == 0)
		r = set_inode(inode);
	if (r == -ENOENT && is_pinned(name.text)) {
		/* Other maps would know nothing of what programs have. */
		text_printf(why, "the map of native events was removed; 'userevd-guard --remove' and a restart of the "
				 "keeper start again, and do not count the events that programs have now");
		return r;
	}
	if (r == 0)
		r = guard_directory_visit(unpin_other, name.text);
	if (r < 0) {
		guard_unpin("new");
		text_printf(why,
			    "the kernel doesn't take the programs that admit native events: %s; --verbose tells more",
			    strerror(-r));
	}
	return r;
}
