/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/options.h"

#include <getopt.h>
#include <stdio.h>

#include "kernel/keeper/serve.h"
#include "protocol/base/number.h"

/* A daemon that is upgraded on a busy machine is back within this time, and clients wait no longer for an answer. */
enum { HOLD_SECONDS = 60 };

enum {
	OPTION_ENABLER = 256,
	OPTION_BACKEND,
	OPTION_GUARD,
	OPTION_PERSIST,
	OPTION_CAPACITY,
	OPTION_PAGE_BITS,
	OPTION_PAGES,
	OPTION_PREPARE,
	OPTION_HOLD,
	OPTION_VERSION
};

static const struct option keeper_long_options[] = {
	{ "enabler", no_argument, NULL, OPTION_ENABLER },
	{ "backend", required_argument, NULL, OPTION_BACKEND },
	{ "guard", required_argument, NULL, OPTION_GUARD },
	{ "allow-persist", no_argument, NULL, OPTION_PERSIST },
	{ "capacity", required_argument, NULL, OPTION_CAPACITY },
	{ "page-bits", required_argument, NULL, OPTION_PAGE_BITS },
	{ "pages", required_argument, NULL, OPTION_PAGES },
	{ "prepare", no_argument, NULL, OPTION_PREPARE },
	{ "hold", required_argument, NULL, OPTION_HOLD },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ 0 },
};

static void keeper_print_help(void)
{
	printf("Usage: userevd-keeper [OPTION…]\n"
	       "\n"
	       "Holds the privileged part of userevd. userevd starts it with a socket as file descriptor %d, or connects to it\n"
	       "where systemd starts it. Not to be run by hand.\n"
	       "\n"
	       "      --backend=NAME     auto, status-page or enable-address (default auto)\n"
	       "      --guard=MODE       require, prefer or off: the guard keeps clients from registering events themselves\n"
	       "                         on the files that they get (default prefer)\n"
	       "      --allow-persist    keep CAP_PERFMON, for events that outlive their programs\n"
	       "      --capacity=N       events in the whole machine (default: as many as the kernel takes)\n"
	       "      --page-bits=N      bits in a status page\n"
	       "      --pages=DIR        directory for status pages, where a successor finds them (default for systemd:\n"
	       "                         %s)\n"
	       "      --prepare          make the mounts and load the guard, hand them to systemd for the keeper, and end\n"
	       "      --hold=SECONDS     how long to keep everything while no daemon is connected (default %d)\n"
	       "  -h, --help             show this help\n"
	       "      --version          show the version\n"
	       "\n"
	       "See userevd-keeper(8).\n",
	       KEEPER_SOCKET, KEEPER_PAGES, HOLD_SECONDS);
}

static bool parse_guard_mode(const char *text, enum keeper_guard *ret)
{
	static const char *const names[] = { "off", "prefer", "require" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		*ret = (enum keeper_guard)i;
		if (streq(text, names[i]))
			return true;
	}
	fprintf(stderr, "userevd-keeper: --guard=%s: give require, prefer or off\n", text);
	return false;
}

static bool parse_count(const char *option, const char *what, uint32_t *ret)
{
	uint64_t number;

	if (number_parse(optarg, strlen(optarg), INT32_MAX, &number) != NUMBER_GOOD) {
		fprintf(stderr, "userevd-keeper: --%s=%s: give a number of %s\n", option, optarg, what);
		return false;
	}
	*ret = (uint32_t)number;
	return true;
}

int keeper_parse_options(int argc, char **argv, struct keeper_options *ret)
{
	bool good = true;
	int option;

	*ret = (struct keeper_options){
		.backend = "auto", .pages = "", .guard = KEEPER_GUARD_PREFER, .hold = HOLD_SECONDS
	};
	while (good && (option = getopt_long(argc, argv, "h", keeper_long_options, NULL)) >= 0) {
		switch (option) {
		case OPTION_ENABLER:
			ret->enabler = true;
			break;
		case OPTION_BACKEND:
			ret->backend = optarg;
			break;
		case OPTION_GUARD:
			good = parse_guard_mode(optarg, &ret->guard);
			break;
		case OPTION_PERSIST:
			ret->limits.persist = true;
			break;
		case OPTION_CAPACITY:
			good = parse_count("capacity", "events", &ret->limits.capacity);
			break;
		case OPTION_PAGE_BITS:
			good = parse_count("page-bits", "bits", &ret->limits.page_bits);
			break;
		case OPTION_PAGES:
			ret->pages = optarg;
			break;
		case OPTION_PREPARE:
			ret->prepare = true;
			break;
		case OPTION_HOLD:
			good = parse_count("hold", "seconds", &ret->hold);
			break;
		case OPTION_VERSION:
			printf("userevd-keeper %s\n", VERSION);
			return 0;
		case 'h':
			keeper_print_help();
			return 0;
		default:
			fprintf(stderr, "Try 'userevd-keeper --help'.\n");
			return 2;
		}
	}
	if (good && optind < argc) {
		fprintf(stderr, "userevd-keeper: only options are allowed, no arguments: '%s'\n", argv[optind]);
		return 2;
	}
	return good ? -1 : 2;
}
