/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <stdio.h>

struct found {
	struct guard_program_name name;
	struct guard_program program;
	bool whole;
};

struct listing {
	const struct guard_directory *directory;
	const struct found *found;
	struct guard_processes processes;
	bool json;
	size_t n;
};

static const char *const kind_names[] = {
	[GUARD_KIND_LSM] = "lsm",
	[GUARD_KIND_MODIFY_RETURN] = "fmod_ret",
};

static int find_whole(const struct guard_directory *directory, const char *name, void *data)
{
	struct found *ret = data;

	if (!guard_program_is_name(name) || strlen(name) >= sizeof(ret->name.text))
		return 0;
	string_copy(ret->name.text, sizeof(ret->name.text), name);
	ret->whole = guard_program_inspect(directory, name, &ret->program) == 0;
	return ret->whole;
}

static void print_keeper_json(const struct guard_keeper *keeper, pid_t number)
{
	if (keeper->tgid != 0 && number > 0)
		printf("\"process\":%d,\"alive\":true,", (int)number);
	else if (keeper->tgid != 0)
		printf("\"process\":%u,\"alive\":false,", keeper->tgid);
	else
		printf("\"process\":null,\"alive\":null,");
	if (keeper->cgroup_id != 0)
		printf("\"cgroup_id\":%llu", (unsigned long long)keeper->cgroup_id);
	else
		printf("\"cgroup_id\":null");
}

static void print_keeper(const struct guard_keeper *keeper, pid_t number)
{
	const char *separator = "";

	if (keeper->tgid != 0) {
		printf("process %d (%s) and its children", number > 0 ? (int)number : (int)keeper->tgid,
		       number > 0 ? "runs" : "ended");
		separator = ", ";
	}
	if (keeper->cgroup_id != 0)
		printf("%scgroup %llu", separator, (unsigned long long)keeper->cgroup_id);
}

static void print_mount(uint64_t mount, const struct guard_keeper *keeper, void *data)
{
	struct listing *listing = data;
	pid_t number = guard_keeper_process(keeper, &listing->processes);

	if (listing->json) {
		printf("%s{\"mount\":%llu,", listing->n > 0 ? "," : "", (unsigned long long)mount);
		print_keeper_json(keeper, number);
		printf("}");
	} else {
		printf("mount %llu: ", (unsigned long long)mount);
		print_keeper(keeper, number);
		printf("\n");
	}
	listing->n++;
}

static void print_hooks(const struct guard_program *program, const char *quote, const char *separator)
{
	const char *before = "";

	for (unsigned i = 0; i < GUARD_HOOKS; i++) {
		if (!program->hooks[i])
			continue;
		printf("%s%s%s%s", before, quote, guard_hooks[i], quote);
		before = separator;
	}
}

static int print_json(struct listing *listing)
{
	const struct guard_program *program = &listing->found->program;
	bool this_build = streq(listing->found->name.text, guard_program_name().text);
	int r;

	printf("{\"loaded\":true,\"program\":\"%s\",\"this_build\":%s,\"kind\":\"%s\",\"hooks\":[",
	       listing->found->name.text, this_build ? "true" : "false", kind_names[program->kind]);
	print_hooks(program, "\"", ",");
	printf("],\"missed\":%llu,\"mounts_max\":%d,\"mounts\":[", (unsigned long long)program->missed,
	       GUARD_MOUNTS_MAX);
	r = guard_mounts_visit(listing->directory, print_mount, listing);
	printf("]}\n");
	return r;
}

static int print_text(struct listing *listing)
{
	const struct guard_program *program = &listing->found->program;
	bool this_build = streq(listing->found->name.text, guard_program_name().text);
	int r;

	printf("The guard is loaded: %s/%s, %s build\n", listing->directory->path, listing->found->name.text,
	       this_build ? "this" : "another");
	printf("%s programs at ", kind_names[program->kind]);
	print_hooks(program, "", ", ");
	printf("\n");
	if (program->missed > 0)
		printf("It was interrupted %llu times, and let pass what came meanwhile\n",
		       (unsigned long long)program->missed);
	r = guard_mounts_visit(listing->directory, print_mount, listing);
	printf("%zu of at most %d mounts are guarded\n", listing->n, GUARD_MOUNTS_MAX);
	return r;
}

int guard_status(const char *path, bool json, struct text *why)
{
	_cleanup_(guard_directory_close) struct guard_directory directory = { .fd = -1 };
	struct found found = { .whole = false };
	struct listing listing = { .directory = &directory, .found = &found, .json = json };
	int r;

	r = guard_directory_open(path, false, &directory, why);
	if (r < 0)
		return r;
	r = directory.fd < 0 ? 0 : guard_directory_visit(&directory, find_whole, &found);
	if (r == 0)
		printf(json ? "{\"loaded\":false}\n" : "No guard is loaded\n");
	if (r > 0)
		r = guard_processes_read(&directory, found.name.text, &listing.processes);
	if (r == 0 && found.whole)
		r = json ? print_json(&listing) : print_text(&listing);
	guard_processes_free(&listing.processes);
	if (r < 0)
		text_printf(why, "can't read what is pinned: %s", strerror(-r));
	return r;
}
