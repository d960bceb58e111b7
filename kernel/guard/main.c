/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * userevd-guard: guards the files of a keeper's mount, and ends. What it leaves is in the kernel, pinned in a BPF file system:
 * programs, of which a machine needs one set, and a map with an entry for each mount.
 */

#include <getopt.h>
#include <stdio.h>

#include "kernel/guard/loader.h"

enum action { ACTION_ADD, ACTION_REMOVE, ACTION_STATUS };

struct guard_options {
	enum action action;
	const char *directory;
	uint64_t mount; /* 0: none was given */
	uint64_t cgroup_id;
	const char *cgroup;
	pid_t process;
	bool json;
	bool verbose;
};

enum {
	OPTION_MOUNT = 256,
	OPTION_PROCESS,
	OPTION_CGROUP,
	OPTION_CGROUP_ID,
	OPTION_PIN,
	OPTION_REMOVE,
	OPTION_STATUS,
	OPTION_JSON,
	OPTION_VERSION,
};

static const struct option long_options[] = {
	{ "mount", required_argument, NULL, OPTION_MOUNT },
	{ "process", required_argument, NULL, OPTION_PROCESS },
	{ "cgroup", required_argument, NULL, OPTION_CGROUP },
	{ "cgroup-id", required_argument, NULL, OPTION_CGROUP_ID },
	{ "pin", required_argument, NULL, OPTION_PIN },
	{ "remove", no_argument, NULL, OPTION_REMOVE },
	{ "status", no_argument, NULL, OPTION_STATUS },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ 0 },
};

static void print_help(void)
{
	printf("Usage: userevd-guard --mount=ID --process=PID|--cgroup=PATH|--cgroup-id=N\n"
	       "       userevd-guard --status [--json]\n"
	       "       userevd-guard --remove [--mount=ID]\n"
	       "\n"
	       "Keeps everybody but their keeper from registering events by himself on files of tracefs that were opened\n"
	       "through a mount of the keeper's own. userevd-keeper does this when it starts.\n"
	       "\n"
	       "      --mount=ID       the mount, by its unique number (before Linux 6.8: by its number)\n"
	       "      --process=PID    the keeper is this process; its children may do what it may\n"
	       "      --cgroup=PATH    the keeper is whoever is in this cgroup, a directory of cgroup v2\n"
	       "      --cgroup-id=N    the same, by the cgroup's number\n"
	       "      --pin=DIR        where the guard is pinned (default /sys/fs/bpf/userevd)\n"
	       "      --status         show which mounts are guarded\n"
	       "      --json           as JSON\n"
	       "      --remove         guard the mount no more; without --mount take the guard away, and guard nothing\n"
	       "  -v, --verbose        show what libbpf says\n"
	       "  -h, --help           show this help\n"
	       "      --version        show the version\n"
	       "\n"
	       "See userevd-guard(8).\n");
}

static int usage_error(const char *sentence)
{
	fprintf(stderr, "userevd-guard: %s\nTry 'userevd-guard --help'.\n", sentence);
	return 2;
}

/* A number from 1 to `max`, or 0. */
static uint64_t parse_number(const char *text, uint64_t max)
{
	unsigned long long number;
	char *end;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno != 0 || *end != '\0' || number > max ? 0 : number;
}

/* 0, or an exit status. */
static int parse_option(int option, struct guard_options *ret)
{
	switch (option) {
	case OPTION_MOUNT:
		ret->mount = parse_number(optarg, UINT64_MAX);
		return ret->mount == 0 ? usage_error("--mount wants the number of a mount") : 0;
	case OPTION_PROCESS:
		ret->process = (pid_t)parse_number(optarg, INT32_MAX);
		return ret->process == 0 ? usage_error("--process wants the number of a process") : 0;
	case OPTION_CGROUP:
		ret->cgroup = optarg;
		return 0;
	case OPTION_CGROUP_ID:
		ret->cgroup_id = parse_number(optarg, UINT64_MAX);
		return ret->cgroup_id == 0 ? usage_error("--cgroup-id wants the number of a cgroup") : 0;
	case OPTION_PIN:
		ret->directory = optarg;
		return *optarg != '/' ? usage_error("--pin wants a path from the root") : 0;
	case OPTION_REMOVE:
		ret->action = ACTION_REMOVE;
		return 0;
	case OPTION_STATUS:
		ret->action = ACTION_STATUS;
		return 0;
	case OPTION_JSON:
		ret->json = true;
		return 0;
	case 'v':
		ret->verbose = true;
		return 0;
	default:
		fprintf(stderr, "Try 'userevd-guard --help'.\n");
		return 2;
	}
}

static int check_options(const struct guard_options *options)
{
	bool has_keeper = options->process != 0 || options->cgroup || options->cgroup_id != 0;

	if (options->cgroup && options->cgroup_id != 0)
		return usage_error("give one of --cgroup and --cgroup-id");
	if (options->json && options->action != ACTION_STATUS)
		return usage_error("--json goes with --status");
	if (options->action != ACTION_ADD && has_keeper)
		return usage_error("--process and --cgroup are for guarding a mount");
	if (options->action == ACTION_STATUS && options->mount != 0)
		return usage_error("--status shows all mounts; leave --mount out");
	if (options->action != ACTION_ADD)
		return 0;
	if (options->mount == 0)
		return usage_error("which mount? Give --mount=ID");
	if (!has_keeper)
		return usage_error("whose mount is it? Give --process=PID or --cgroup=PATH");
	return 0;
}

/* -1: go on; else an exit status. */
static int parse_options(int argc, char **argv, struct guard_options *ret)
{
	int option, r;

	while ((option = getopt_long(argc, argv, "vh", long_options, NULL)) >= 0) {
		if (option == 'h') {
			print_help();
			return 0;
		}
		if (option == OPTION_VERSION) {
			printf("userevd-guard %s\n", VERSION);
			return 0;
		}
		r = parse_option(option, ret);
		if (r != 0)
			return r;
	}
	if (optind < argc)
		return usage_error("no arguments are wanted, only options");
	r = check_options(ret);
	return r != 0 ? r : -1;
}

static int find_keeper(const struct guard_options *options, const struct guard_directory *directory,
		       struct guard_keeper *ret, struct text *why)
{
	int r = 0;

	if (options->cgroup)
		r = guard_keeper_find_cgroup(options->cgroup, ret, why);
	else if (options->cgroup_id != 0)
		r = guard_keeper_set_cgroup(options->cgroup_id, ret, why);
	if (r == 0 && options->process != 0)
		r = guard_keeper_find_process(directory, guard_program_name().text, options->process, ret, why);
	return r;
}

static int add(const struct guard_options *options, struct text *why)
{
	_cleanup_(guard_directory_close) struct guard_directory directory = { .fd = -1 };
	struct guard_keeper keeper = { 0 };
	int r;

	r = guard_machine_has_bpf(why);
	if (r < 0)
		return r;
	guard_mount_bpffs(options->directory);
	guard_machine_drop_privileges();
	r = guard_directory_open(options->directory, true, &directory, why);
	if (r == 0)
		r = guard_program_ensure(&directory, why);
	if (r == 0)
		r = find_keeper(options, &directory, &keeper, why);
	if (r == 0)
		r = guard_mounts_add(&directory, options->mount, &keeper, why);
	if (r == 0)
		guard_mounts_inherit(&directory, &keeper);
	return r;
}

static int take_away(const struct guard_options *options, struct text *why)
{
	_cleanup_(guard_directory_close) struct guard_directory directory = { .fd = -1 };
	int r = guard_directory_open(options->directory, false, &directory, why);

	if (r < 0)
		return r;
	if (options->mount != 0 && directory.fd < 0) {
		text_printf(why, "no guard is loaded");
		return -ENOENT;
	}
	if (options->mount != 0)
		return guard_mounts_remove(&directory, options->mount, why);
	if (directory.fd < 0)
		return 0;
	r = guard_directory_remove(&directory);
	if (r < 0)
		text_printf(why, "can't take all of %s away: %s", options->directory, strerror(-r));
	return r;
}

int main(int argc, char **argv)
{
	struct guard_options options = { .directory = "/sys/fs/bpf/userevd" };
	char sentence[GUARD_SENTENCE_BYTES];
	struct text why = text_make(sentence, sizeof(sentence));
	int r = parse_options(argc, argv, &options);

	if (r >= 0)
		return r;
	guard_program_log(options.verbose);
	if (options.action == ACTION_ADD)
		r = add(&options, &why);
	else if (options.action == ACTION_REMOVE)
		r = take_away(&options, &why);
	else
		r = guard_status(options.directory, options.json, &why);
	if (r < 0)
		fprintf(stderr, "userevd-guard: %s\n", why.length > 0 ? sentence : strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
