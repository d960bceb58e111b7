/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * userevd-guard: guards the files of a keeper's mount, and ends. It leaves behind, pinned in a BPF file system: programs, of which a
 * machine needs one set, and a map with an entry for each mount.
 */

#include <stdio.h>

#include "kernel/guard/loader.h"
#include "protocol/base/option.h"

struct guard_options {
	const char *directory;
	uint64_t mount; /* 0: not given */
	uint64_t cgroup_id;
	const char *cgroup;
	uint64_t native; /* 0: not given */
	bool remove;
	bool status;
	bool json; /* an old option: the status always is */
	bool verbose;
};

#define MEMBER(name) offsetof(struct guard_options, name)

static const struct option_row rows[] = {
	{ "mount", "ID", OPTION_LONG, MEMBER(mount),
	  .help = "the mount, by its unique number (before Linux 6.8: by its number)", .least = 1, .most = UINT64_MAX },
	{ "cgroup", "PATH", OPTION_TEXT, MEMBER(cgroup), .help = "the keeper's cgroup, a directory of cgroup v2" },
	{ "cgroup-id", "N", OPTION_LONG, MEMBER(cgroup_id), .help = "the same, by the cgroup's number", .least = 1,
	  .most = UINT64_MAX },
	{ "native", "INODE", OPTION_LONG, MEMBER(native), .help = "admit events on this file's mounts of its own, too",
	  .least = 1, .most = UINT64_MAX },
	{ "pin", "DIR", OPTION_TEXT, MEMBER(directory),
	  .help = "where the guard is pinned (default /sys/fs/bpf/userevd)" },
	{ "status", NULL, OPTION_FLAG, MEMBER(status), .help = "show which mounts are guarded, as JSON" },
	{ "json", NULL, OPTION_FLAG, MEMBER(json), .help = NULL },
	{ "remove", NULL, OPTION_FLAG, MEMBER(remove),
	  .help = "stop guarding the mount; without --mount remove the whole guard" },
	{ "verbose", NULL, OPTION_FLAG, MEMBER(verbose), .help = "show messages of libbpf", .letter = 'v' },
	{ 0 },
};

static const struct option_table table = {
	.program = "userevd-guard",
	.usage = "Usage: userevd-guard --mount=ID --cgroup=PATH|--cgroup-id=N\n"
		 "       userevd-guard --status\n"
		 "       userevd-guard --remove [--mount=ID]\n"
		 "\n"
		 "Allows only the keeper's cgroup to register events on files of tracefs that were opened through the\n"
		 "keeper's own mount. userevd-keeper runs this when it starts.\n",
	.see = "See userevd-guard(8).",
	.rows = rows,
};

/* A sentence about options that do not go together, or NULL. */
static const char *guard_check_options(const struct guard_options *options)
{
	const bool has_keeper = options->cgroup || options->cgroup_id != 0, adds = !options->remove && !options->status;

	if (*options->directory != '/')
		return "--pin wants a path from the root";
	if (options->cgroup && options->cgroup_id != 0)
		return "give one of --cgroup and --cgroup-id";
	if (options->remove && options->status)
		return "give one of --remove and --status";
	if (!adds && has_keeper)
		return "--cgroup is for guarding a mount";
	if (options->status && options->mount != 0)
		return "--status shows all mounts; leave --mount out";
	if (adds && options->mount == 0)
		return "which mount? Give --mount=ID";
	if (adds && !has_keeper)
		return "whose mount is it? Give --cgroup=PATH";
	return NULL;
}

static int guard_add(const struct guard_options *options, struct text *why)
{
	_cleanup_(fd_closep) int directory = -1;
	uint64_t cgroup = options->cgroup_id;
	int r;

	r = guard_machine_has_bpf(why);
	if (r < 0)
		return r;
	guard_mount_bpffs(options->directory);
	guard_machine_drop_privileges();
	if (options->cgroup)
		r = guard_cgroup_find(options->cgroup, &cgroup, why);
	if (r == 0)
		r = guard_directory_open(options->directory, true, &directory, why);
	if (r == 0)
		r = guard_program_ensure(why);
	if (r == 0 && cgroup <= GUARD_ROOT_CGROUP) {
		text_printf(why, "the root cgroup has other processes than the keeper; give another cgroup");
		r = -EINVAL;
	}
	if (r == 0)
		r = guard_mounts_add(options->mount, cgroup, why);
	if (r == 0)
		guard_mounts_inherit(cgroup);
	if (r == 0 && options->native != 0)
		r = guard_admission_ensure(options->native, why);
	return r;
}

static int guard_remove(const struct guard_options *options, struct text *why)
{
	_cleanup_(fd_closep) int directory = -1;
	int r = guard_directory_open(options->directory, false, &directory, why);

	if (r < 0)
		return r;
	if (options->mount != 0 && directory < 0) {
		text_printf(why, "no guard is loaded");
		return -ENOENT;
	}
	if (options->mount != 0)
		return guard_mounts_remove(options->mount, why);
	if (directory < 0)
		return 0;
	r = guard_unpin(options->directory);
	if (r < 0)
		text_printf(why, "can't take all of %s away: %s", options->directory, strerror(-r));
	return r;
}

int main(int argc, char **argv)
{
	struct guard_options options = { .directory = "/sys/fs/bpf/userevd" };
	TEXT(why, GUARD_SENTENCE_BYTES);
	const char *problem;
	int r = option_table_read(&table, argc, argv, &options);

	if (r >= 0)
		return r;
	problem = guard_check_options(&options);
	if (problem) {
		fprintf(stderr, "userevd-guard: %s. See 'userevd-guard --help'.\n", problem);
		return 2;
	}
	guard_program_log(options.verbose);
	if (options.status)
		r = guard_status(options.directory, &why);
	else
		r = options.remove ? guard_remove(&options, &why) : guard_add(&options, &why);
	if (r < 0)
		fprintf(stderr, "userevd-guard: %s\n", why.length > 0 ? why.buffer : strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
