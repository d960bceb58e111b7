/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "guard.skel.h"

/*
 * Two kinds of BPF programs can refuse at a security hook. Those of a Linux security module run only if "bpf" is among the modules
 * chosen at boot, but the kernel attaches them in any case: only a test shows whether they run. The other kind changes the return
 * value of the hook's function, and runs everywhere. But the kernel does not start such a program on a processor on which the same
 * program is running already, and goes on as if it had agreed. So where one task may interrupt another inside the kernel, a few
 * programs that call ioctl all the time get through (four calls of five, with twelve programs on Debian's 6.1 and preempt=full).
 * Hence the first kind if it runs, otherwise the second if tasks are not interrupted, otherwise none.
 */

const char *const guard_hooks[GUARD_HOOKS] = { "file_ioctl", "file_lock", "file_ioctl_compat", "path_chmod",
					       "path_chown" };

static const struct {
	const char *program;
	const char *function;
	enum bpf_attach_type type;
} kinds[] = {
	[GUARD_KIND_LSM] = { "lsm_", "bpf_lsm_", BPF_LSM_MAC },
	[GUARD_KIND_MODIFY_RETURN] = { "modify_", "security_", BPF_MODIFY_RETURN },
};

static bool verbose;

static void skeleton_destroy(struct guard_bpf **skeleton)
{
	guard_bpf__destroy(*skeleton);
}

static int _printf_(2, 0) print_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return verbose && level != LIBBPF_DEBUG ? vfprintf(stderr, format, arguments) : 0;
}

void guard_program_log(bool on)
{
	verbose = on;
	libbpf_set_print(print_message);
}

/* --- names --- */

static uint64_t name_hash(uint64_t sum, const void *bytes, size_t n)
{
	const uint8_t *byte = bytes;

	/* FNV-1a */
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ byte[i]) * UINT64_C(0x100000001b3);
	return sum;
}

uint64_t guard_program_hash(const void *bytes, size_t n)
{
	uint64_t sum = name_hash(UINT64_C(0xcbf29ce484222325), VERSION, strlen(VERSION));

	return name_hash(sum, bytes, n);
}

struct guard_program_name guard_program_name(void)
{
	struct guard_program_name name;
	const void *bytes;
	size_t n;

	bytes = guard_bpf__elf_bytes(&n);
	/* Names in a BPF file system have no dots. */
	snprintf(name.text, sizeof(name.text), GUARD_PROGRAM "%016llx",
		 (unsigned long long)guard_program_hash(bytes, n));
	return name;
}

bool guard_program_is_name(const char *name)
{
	return strncmp(name, GUARD_PROGRAM, strlen(GUARD_PROGRAM)) == 0;
}

/* --- pinned programs --- */

struct hook_pins {
	char link[128], program[128];
};

static struct hook_pins hook_pins(const char *name, unsigned hook)
{
	struct hook_pins pins;

	snprintf(pins.link, sizeof(pins.link), "%s/%s", name, guard_hooks[hook]);
	snprintf(pins.program, sizeof(pins.program), "%s/%s-program", name, guard_hooks[hook]);
	return pins;
}

static int inspect_hook(const char *name, unsigned hook, uint32_t map, struct guard_program *ret)
{
	struct hook_pins pins = hook_pins(name, hook);
	_cleanup_(fd_closep) int link = bpf_obj_get(pins.link);
	_cleanup_(fd_closep) int program = bpf_obj_get(pins.program);
	uint32_t maps[4] = { 0 }, link_size = sizeof(struct bpf_link_info), program_size = sizeof(struct bpf_prog_info);
	struct bpf_link_info link_info = { 0 };
	struct bpf_prog_info info = { .map_ids = (uintptr_t)maps, .nr_map_ids = ARRAY_SIZE(maps) };
	bool uses_map = false;

	if (link < 0 || program < 0)
		return -ENOENT;
	if (bpf_obj_get_info_by_fd(link, &link_info, &link_size) < 0 ||
	    bpf_obj_get_info_by_fd(program, &info, &program_size) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		uses_map |= maps[i] == map;
	if (link_info.type != BPF_LINK_TYPE_TRACING || link_info.prog_id != info.id || !uses_map)
		return -ESTALE;
	ret->kind = link_info.tracing.attach_type == BPF_LSM_MAC ? GUARD_KIND_LSM : GUARD_KIND_MODIFY_RETURN;
	ret->missed += info.recursion_misses;
	return 0;
}

int guard_program_inspect(const char *name, struct guard_program *ret)
{
	uint32_t map;
	_cleanup_(fd_closep) int fd = guard_map_open(&map);
	int r;

	*ret = (struct guard_program){ 0 };
	if (fd < 0)
		return fd;
	for (unsigned i = 0; i < GUARD_HOOKS; i++) {
		r = inspect_hook(name, i, map, ret);
		ret->hooks[i] = r == 0;
		if (r < 0 && (r != -ENOENT || i < GUARD_HOOKS_NEEDED))
			return r;
	}
	return 0;
}

/* --- loading --- */

static struct bpf_program *find_program(const struct guard_bpf *skeleton, enum guard_kind kind, unsigned hook)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%s", kinds[kind].program, guard_hooks[hook]);
	return bpf_object__find_program_by_name(skeleton->obj, name);
}

static bool kernel_has(const struct btf *btf, enum guard_kind kind, unsigned hook)
{
	char name[48];

	snprintf(name, sizeof(name), "%s%s", kinds[kind].function, guard_hooks[hook]);
	return btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
}

/* A program whose function the kernel lacks can't be loaded. */
static int select_programs(const struct guard_bpf *skeleton, unsigned hooks)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool lsm, modify;

	if (!btf)
		return -errno;
	for (unsigned i = 0; i < hooks; i++)
		for (unsigned kind = 0; kind < ARRAY_SIZE(kinds); kind++)
			bpf_program__set_autoload(find_program(skeleton, (enum guard_kind)kind, i),
						  kernel_has(btf, (enum guard_kind)kind, i));
	lsm = kernel_has(btf, GUARD_KIND_LSM, 0) && kernel_has(btf, GUARD_KIND_LSM, 1);
	modify = kernel_has(btf, GUARD_KIND_MODIFY_RETURN, 0) && kernel_has(btf, GUARD_KIND_MODIFY_RETURN, 1);
	btf__free(btf);
	bpf_program__set_autoload(skeleton->progs.prove_lsm, lsm);
	return lsm || modify ? 0 : -ESRCH;
}

static int load_hooks(unsigned hooks, struct guard_bpf **ret)
{
	_cleanup_(skeleton_destroy) struct guard_bpf *skeleton = guard_bpf__open();
	_cleanup_(fd_closep) int map = -1;
	int r;

	if (!skeleton)
		return -errno;
	r = select_programs(skeleton, hooks);
	if (r < 0)
		return r;
	map = guard_map_open(NULL);
	if (map < 0 && map != -ENOENT)
		return map;
	r = map < 0 ? 0 : bpf_map__reuse_fd(skeleton->maps.mounts, map);
	if (r == 0)
		r = bpf_map__set_pin_path(skeleton->maps.admission_lsm, GUARD_ADMISSION "lsm");
	if (r == 0)
		r = bpf_map__set_pin_path(skeleton->maps.admission_modify, GUARD_ADMISSION "modify");
	if (r == 0)
		r = guard_bpf__load(skeleton);
	if (r < 0)
		return r;
	*ret = steal_pointer(skeleton);
	return 0;
}

static bool lsm_is_running(const struct guard_bpf *skeleton)
{
	_cleanup_(fd_closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct bpf_link *link;

	if (!bpf_program__autoload(skeleton->progs.prove_lsm))
		return false;
	link = bpf_program__attach(skeleton->progs.prove_lsm);
	(void)ioctl(fd, GUARD_PROOF, NULL);
	bpf_link__destroy(link);
	return skeleton->bss->lsm_is_on;
}

static int pin_hook(const struct guard_bpf *skeleton, enum guard_kind kind, unsigned hook)
{
	struct hook_pins pins = hook_pins("new", hook);
	struct bpf_program *program = find_program(skeleton, kind, hook);
	struct bpf_link *link;
	int r;

	if (!bpf_program__autoload(program))
		return hook < GUARD_HOOKS_NEEDED ? -ESRCH : 0;
	r = bpf_program__pin(program, pins.program);
	if (r < 0)
		return r;
	link = bpf_program__attach(program);
	if (!link)
		return -errno;
	r = bpf_link__pin(link, pins.link);
	/* The pin keeps the link alive. */
	bpf_link__destroy(link);
	return r;
}

/* Under the name "new", which no loader takes for a guard, until everything is there; then in the place of an incomplete one. */
static int pin_all(const struct guard_bpf *skeleton, enum guard_kind kind, const char *name)
{
	int r = 0;

	if (mkdir("new", 0700) < 0)
		return -errno;
	if (access(GUARD_MAP, F_OK) < 0)
		r = bpf_map__pin(skeleton->maps.mounts, GUARD_MAP);
	for (unsigned i = 0; i < GUARD_HOOKS && r == 0; i++)
		r = pin_hook(skeleton, kind, i);
	if (r == 0)
		r = guard_unpin(name);
	return r == 0 && rename("new", name) < 0 ? -errno : r;
}

static int load_and_pin(const char *name, struct text *why)
{
	_cleanup_(skeleton_destroy) struct guard_bpf *skeleton = NULL;
	enum guard_kind kind = GUARD_KIND_LSM;
	int r;

	r = load_hooks(GUARD_HOOKS, &skeleton);
	/* Kernels before 6.1 don't take functions with structs as arguments, such as path_chown. */
	if (r < 0 && r != -EPERM && r != -ESRCH)
		r = load_hooks(GUARD_HOOKS_NEEDED, &skeleton);
	if (r == 0 && !lsm_is_running(skeleton)) {
		kind = GUARD_KIND_MODIFY_RETURN;
		if (guard_machine_is_preemptible()) {
			text_printf(
				why,
				"this kernel switches tasks in the midst of a guard, which then lets others pass (PREEMPT); boot it with "
				"bpf in lsm=, or with preempt=voluntary");
			return -EOPNOTSUPP;
		}
	}
	if (r == 0)
		r = pin_all(skeleton, kind, name);
	if (r < 0) {
		guard_unpin("new");
		guard_machine_explain_refusal(r, why);
	}
	return r;
}

static int unpin_other(const char *name, void *data)
{
	return guard_program_is_name(name) && !streq(name, data) ? guard_unpin(name) : 0;
}

int guard_program_ensure(struct text *why)
{
	struct guard_program_name name = guard_program_name();
	struct guard_program program;
	int r;

	/* Left behind by a loader that was killed. */
	guard_unpin("new");
	r = guard_program_inspect(name.text, &program);
	if (r < 0 || (program.kind == GUARD_KIND_MODIFY_RETURN && guard_machine_is_preemptible()))
		r = load_and_pin(name.text, why);
	if (r < 0)
		return r;
	/* Only now that ours refuse the same. */
	r = guard_directory_visit(unpin_other, name.text);
	if (r < 0)
		text_printf(why, "can't take another build's programs away: %s", strerror(-r));
	return r;
}
