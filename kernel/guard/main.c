/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * userevd-guard: guards the files of a keeper's mount, and ends. It leaves behind, pinned in a BPF file system: programs, of which a
 * machine needs one set, and a map with an entry for each mount.
 */

#include <getopt.h>
#include <stdio.h>

#include "kernel/guard/loader.h"
#include "protocol/base/number.h"

enum action { ACTION_ADD, ACTION_REMOVE, ACTION_STATUS };

struct guard_options {
	enum action action;
	const char *directory;
	uint64_t mount; /* 0: not given */
	uint64_t cgroup_id;
	const char *cgroup;
	bool verbose;
};

enum {
	OPTION_MOUNT = 256,
	OPTION_CGROUP,
	OPTION_CGROUP_ID,
	OPTION_PIN,
	OPTION_REMOVE,
	OPTION_STATUS,
	OPTION_JSON,
	OPTION_VERSION,
};

static const struct option guard_long_options[] = {
	{ "mount", required_argument, NULL, OPTION_MOUNT },
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

static const char guard_help[] =
	"Usage: userevd-guard --mount=ID --cgroup=PATH|--cgroup-id=N\n"
	"       userevd-guard --status\n"
	"       userevd-guard --remove [--mount=ID]\n"
	"\n"
	"Allows only the keeper's cgroup to register events on files of tracefs that were opened through the keeper's\n"
	"own mount. userevd-keeper runs this when it starts.\n"
	"\n"
	"      --mount=ID       the mount, by its unique number (before Linux 6.8: by its number)\n"
	"      --cgroup=PATH    the keeper's cgroup, a directory of cgroup v2\n"
	"      --cgroup-id=N    the same, by the cgroup's number\n"
	"      --pin=DIR        where the guard is pinned (default /sys/fs/bpf/userevd)\n"
	"      --status         show which mounts are guarded, as JSON\n"
	"      --remove         stop guarding the mount; without --mount remove the whole guard\n"
	"  -v, --verbose        show messages of libbpf\n"
	"  -h, --help           show this help\n"
	"      --version        show the version\n"
	"\n"
	"See userevd-guard(8).\n";

static int usage_error(const char *sentence)
{
	fprintf(stderr, "userevd-guard: %s\nTry 'userevd-guard --help'.\n", sentence);
	return 2;
}

static int guard_check_options(const struct guard_options *options)
{
	const bool has_keeper = options->cgroup || options->cgroup_id != 0;

	if (options->cgroup && options->cgroup_id != 0)
		return usage_error("give one of --cgroup and --cgroup-id");
	if (options->action != ACTION_ADD && has_keeper)
		return usage_error("--cgroup is for guarding a mount");
	if (options->action == ACTION_STATUS && options->mount != 0)
		return usage_error("--status shows all mounts; leave --mount out");
	if (options->action == ACTION_ADD && options->mount == 0)
		return usage_error("which mount? Give --mount=ID");
	if (options->action == ACTION_ADD && !has_keeper)
		return usage_error("whose mount is it? Give --cgroup=PATH");
	return -1;
}

/* -1 to go on, or an exit status. */
static int guard_parse_options(int argc, char **argv, struct guard_options *ret)
{
	int option;

	while ((option = getopt_long(argc, argv, "vh", guard_long_options, NULL)) >= 0) {
		switch (option) {
		case OPTION_MOUNT:
			if (number_parse(optarg, strlen(optarg), UINT64_MAX, &ret->mount) != NUMBER_GOOD ||
			    ret->mount == 0)
				return usage_error("--mount wants the number of a mount");
			break;
		case OPTION_CGROUP:
			ret->cgroup = optarg;
			break;
		case OPTION_CGROUP_ID:
			if (number_parse(optarg, strlen(optarg), UINT64_MAX, &ret->cgroup_id) != NUMBER_GOOD ||
			    ret->cgroup_id == 0)
				return usage_error("--cgroup-id wants the number of a cgroup");
			break;
		case OPTION_PIN:
			ret->directory = optarg;
			if (*optarg != '/')
				return usage_error("--pin wants a path from the root");
			break;
		case OPTION_REMOVE:
			ret->action = ACTION_REMOVE;
			break;
		case OPTION_STATUS:
			ret->action = ACTION_STATUS;
			break;
		case OPTION_JSON: /* the status always is */
			break;
		case 'v':
			ret->verbose = true;
			break;
		case 'h':
			fputs(guard_help, stdout);
			return 0;
		case OPTION_VERSION:
			printf("userevd-guard %s\n", VERSION);
			return 0;
		default:
			fprintf(stderr, "Try 'userevd-guard --help'.\n");
			return 2;
		}
	}
	return optind < argc ? usage_error("only options are allowed, no arguments") : guard_check_options(ret);
}

static int guard_add(const struct guard_options *options, struct text *why)
{
	_cleanup_(guard_directory_close) struct guard_directory directory = { .fd = -1 };
	uint64_t cgroup = options->cgroup_id;
	int r;

	r = guard_machine_has_bpf(why);
	if (r < 0)
		return r;
	guard_mount_bpffs(options->directory);
	guard_machine_drop_privileges();
	r = guard_directory_open(options->directory, true, &directory, why);
	if (r == 0)
		r = guard_program_ensure(&directory, why);
	if (r == 0 && options->cgroup)
		r = guard_cgroup_find(options->cgroup, &cgroup, why);
	if (r == 0)
		r = guard_cgroup_check(cgroup, why);
	if (r == 0)
		r = guard_mounts_add(&directory, options->mount, cgroup, why);
	if (r == 0)
		guard_mounts_inherit(&directory, cgroup);
	return r;
}

static int guard_remove(const struct guard_options *options, struct text *why)
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
	int r = guard_parse_options(argc, argv, &options);

	if (r >= 0)
		return r;
	guard_program_log(options.verbose);
	if (options.action == ACTION_ADD)
		r = guard_add(&options, &why);
	else if (options.action == ACTION_REMOVE)
		r = guard_remove(&options, &why);
	else
		r = guard_status(options.directory, &why);
	if (r < 0)
		fprintf(stderr, "userevd-guard: %s\n", why.length > 0 ? sentence : strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
