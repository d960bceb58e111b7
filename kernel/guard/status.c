/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <stdio.h>

struct guard_found {
	struct guard_program_name name;
	struct guard_program program;
	bool complete;
};

static int status_find_complete(const char *name, void *data)
{
	struct guard_found *ret = data;

	if (!guard_program_is_name(name) || strlen(name) >= sizeof(ret->name.text))
		return 0;
	string_copy(ret->name.text, sizeof(ret->name.text), name);
	ret->complete = guard_program_inspect(name, &ret->program) == 0;
	return ret->complete;
}

static int status_print(const struct guard_found *found)
{
	static const char *const kind_names[] = { [GUARD_KIND_LSM] = "lsm", [GUARD_KIND_MODIFY_RETURN] = "fmod_ret" };
	const struct guard_program *program = &found->program;
	struct guard_mounts mounts;
	const char *separator = "";
	int r = guard_mounts_read(&mounts);

	if (r < 0)
		return r;
	printf("{\"loaded\":true,\"program\":\"%s\",\"this_build\":%s,\"kind\":\"%s\",\"hooks\":[", found->name.text,
	       streq(found->name.text, guard_program_name().text) ? "true" : "false", kind_names[program->kind]);
	for (unsigned i = 0; i < GUARD_HOOKS; i++) {
		if (!program->hooks[i])
			continue;
		printf("%s\"%s\"", separator, guard_hooks[i]);
		separator = ",";
	}
	printf("],\"missed\":%llu,\"mounts_max\":%d,\"mounts\":[", (unsigned long long)program->missed,
	       GUARD_MOUNTS_MAX);
	for (size_t i = 0; i < mounts.n; i++)
		printf("%s\n{\"mount\":%llu,\"cgroup_id\":%llu}", i > 0 ? "," : "",
		       (unsigned long long)mounts.list[i].mount, (unsigned long long)mounts.list[i].cgroup);
	printf("]}\n");
	free(mounts.list);
	return 0;
}

int guard_status(const char *path, struct text *why)
{
	_cleanup_(fd_closep) int directory = -1;
	struct guard_found found = { .complete = false };
	int r = guard_directory_open(path, false, &directory, why);

	if (r == 0 && directory >= 0)
		r = guard_directory_visit(status_find_complete, &found);
	if (r >= 0 && found.complete)
		r = status_print(&found);
	else if (r >= 0)
		printf("{\"loaded\":false}\n");
	if (r < 0 && why->length == 0)
		text_printf(why, "can't read the pinned guard: %s", strerror(-r));
	return r;
}
