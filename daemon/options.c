/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/options.h"

#include <getopt.h>
#include <stdio.h>

#include "daemon/limits.h"
#include "daemon/policy/policy.h"
#include "daemon/process/log.h"
#include "protocol/protocol.h"

enum {
	OPTION_SOCKET = 256,
	OPTION_CONTROL_SOCKET,
	OPTION_KEEPER_SOCKET,
	OPTION_BACKEND,
	OPTION_GUARD,
	OPTION_POLICY,
	OPTION_STATE_DIRECTORY,
	OPTION_STRICT_POLICY,
	OPTION_ALLOW_PERSIST,
	OPTION_USER,
	OPTION_CAPACITY,
	OPTION_PAGE_BITS,
	OPTION_MAX_EVENTS,
	OPTION_RING_SIZE,
	OPTION_TENANTS,
	OPTION_PATIENCE,
	OPTION_LOG_LEVEL,
	OPTION_READY_FD,
	OPTION_EXIT_WITH_PARENT,
	OPTION_VERSION,
};

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, OPTION_SOCKET },
	{ "control-socket", required_argument, NULL, OPTION_CONTROL_SOCKET },
	{ "keeper-socket", required_argument, NULL, OPTION_KEEPER_SOCKET },
	{ "backend", required_argument, NULL, OPTION_BACKEND },
	{ "guard", required_argument, NULL, OPTION_GUARD },
	{ "policy", required_argument, NULL, OPTION_POLICY },
	{ "state-directory", required_argument, NULL, OPTION_STATE_DIRECTORY },
	{ "strict-policy", no_argument, NULL, OPTION_STRICT_POLICY },
	{ "allow-persist", no_argument, NULL, OPTION_ALLOW_PERSIST },
	{ "user", required_argument, NULL, OPTION_USER },
	{ "capacity", required_argument, NULL, OPTION_CAPACITY },
	{ "page-bits", required_argument, NULL, OPTION_PAGE_BITS },
	{ "max-events", required_argument, NULL, OPTION_MAX_EVENTS },
	{ "ring-size", required_argument, NULL, OPTION_RING_SIZE },
	{ "tenants", required_argument, NULL, OPTION_TENANTS },
	{ "patience", required_argument, NULL, OPTION_PATIENCE },
	{ "foreground", no_argument, NULL, 'f' },
	{ "log-level", required_argument, NULL, OPTION_LOG_LEVEL },
	{ "ready-fd", required_argument, NULL, OPTION_READY_FD },
	{ "exit-with-parent", no_argument, NULL, OPTION_EXIT_WITH_PARENT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ 0 },
};

static void print_help(void)
{
	printf("Usage: userevd [OPTION…]\n"
	       "\n"
	       "Lets programs without privilege emit trace events: they ask here, and write to the kernel.\n"
	       "\n"
	       "      --socket=PATH          where clients connect (default /run/userevd.sock)\n"
	       "      --control-socket=PATH  where admins connect (default /run/userevd/control.sock)\n"
	       "      --keeper-socket=PATH   where systemd starts a keeper; root has one of its own where this is not\n"
	       "                             given (default /run/userevd-keeper/keeper.sock)\n"
	       "      --backend=NAME         auto, embedded, status-page or enable-address (default auto)\n"
	       "      --guard=MODE           require, prefer or off: what keeps clients from registering by themselves\n"
	       "                             on the files that they are given (default: the policy's Guard=)\n"
	       "      --policy=DIR[:DIR…]    where policy files are (default: where userevd.conf(5) says)\n"
	       "      --state-directory=DIR  where the last policy without errors is kept, for a start with one that has some\n"
	       "                             (default: $STATE_DIRECTORY, or nowhere)\n"
	       "      --strict-policy        do not start with that; an older policy may allow more\n"
	       "      --allow-persist        let clients ask for events that outlive them, where the policy says nothing\n"
	       "      --user=NAME            whom to become when started as root (default userevd)\n"
	       "      --max-events=N         events that one tenant may hold (default: the policy's DefaultMaxEvents=)\n"
	       "      --tenants=KIND         cgroup, or process: each program a tenant of its own, for a\n"
	       "                             demonstration where nobody is hostile (default cgroup)\n"
	       "      --ring-size=BYTES      records kept by the embedded backend; K, M (default %dM)\n"
	       "      --patience=SECONDS     with who says nothing, or reads no answer (default %d)\n"
	       "  -f, --foreground           stay in the foreground and log to stderr\n"
	       "      --log-level=LEVEL      err, warning, notice, info or debug (default info)\n"
	       "      --exit-with-parent     end when the process that started it ends\n"
	       "  -h, --help                 show this help\n"
	       "      --version              show the version\n"
	       "\n"
	       "For tests:\n"
	       "      --capacity=N           events in the whole machine\n"
	       "      --page-bits=N          bits in a status page (2 to %d)\n"
	       "      --ready-fd=N           write a newline there once the sockets listen\n"
	       "\n"
	       "See userevd(8). `userevctl doctor` tells what is wrong.\n",
	       DEFAULT_RING_BYTES >> 20, DEFAULT_PATIENCE, WIRE_PAGE_BITS);
}

static bool parse_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
	unsigned shift = 0;
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end > text && (*end == 'K' || *end == 'M') && most > UINT32_MAX)
		shift = *end++ == 'K' ? 10 : 20;
	/* A digit first: strtoull() also takes blanks and signs, and lets what is negative wrap around. */
	if (errno || *text < '0' || *text > '9' || *end || value > most >> shift || value << shift < least) {
		fprintf(stderr, "userevd: --%s=%s: give a number from %llu to %llu\n", option, text,
			(unsigned long long)least, (unsigned long long)most);
		return false;
	}
	*ret = value << shift;
	return true;
}

static bool parse_backend(const char *text, const char **ret)
{
	if (!streq(text, "auto") && !streq(text, "embedded") && !streq(text, "status-page") &&
	    !streq(text, "enable-address")) {
		fprintf(stderr, "userevd: --backend=%s: give auto, embedded, status-page or enable-address\n", text);
		return false;
	}
	*ret = text;
	return true;
}

static bool parse_guard(const char *text, const char **ret)
{
	if (!streq(text, "require") && !streq(text, "prefer") && !streq(text, "off")) {
		fprintf(stderr, "userevd: --guard=%s: give require, prefer or off\n", text);
		return false;
	}
	*ret = text;
	return true;
}

static bool parse_tenants(const char *text, bool *ret)
{
	if (!streq(text, "cgroup") && !streq(text, "process")) {
		fprintf(stderr, "userevd: --tenants=%s: give cgroup or process\n", text);
		return false;
	}
	*ret = streq(text, "process");
	return true;
}

static bool parse_level(const char *text, int *ret)
{
	int level = log_level_from_name(text);

	if (level < 0) {
		fprintf(stderr, "userevd: --log-level=%s: give err, warning, notice, info or debug\n", text);
		return false;
	}
	*ret = level;
	return true;
}

static bool take_option(int option, struct options *options)
{
	uint64_t number = 0;
	bool good = true;

	switch (option) {
	case OPTION_SOCKET:
		options->socket = optarg;
		break;
	case OPTION_CONTROL_SOCKET:
		options->control_socket = optarg;
		break;
	case OPTION_KEEPER_SOCKET:
		options->keeper_socket = optarg;
		options->keeper_socket_said = true;
		break;
	case OPTION_BACKEND:
		good = parse_backend(optarg, &options->backend);
		break;
	case OPTION_GUARD:
		good = parse_guard(optarg, &options->guard);
		break;
	case OPTION_POLICY:
		options->policy = optarg;
		break;
	case OPTION_STATE_DIRECTORY:
		options->state_directory = optarg;
		break;
	case OPTION_STRICT_POLICY:
		options->strict_policy = true;
		break;
	case OPTION_ALLOW_PERSIST:
		options->allow_persist = true;
		break;
	case OPTION_USER:
		options->user = optarg;
		break;
	case OPTION_CAPACITY:
		good = parse_number("capacity", optarg, 1, UINT32_MAX, &number);
		options->capacity = (uint32_t)number;
		break;
	case OPTION_PAGE_BITS:
		good = parse_number("page-bits", optarg, 2, WIRE_PAGE_BITS, &number);
		options->page_bits = (uint32_t)number;
		break;
	case OPTION_MAX_EVENTS:
		good = parse_number("max-events", optarg, 0, OPTIONS_UNSAID - 1, &number);
		options->max_events = (uint32_t)number;
		break;
	case OPTION_RING_SIZE:
		good = parse_number("ring-size", optarg, 4096, UINT64_C(1) << 40, &number);
		options->ring_bytes = number;
		break;
	case OPTION_TENANTS:
		good = parse_tenants(optarg, &options->tenant_is_process);
		break;
	case OPTION_PATIENCE:
		good = parse_number("patience", optarg, 1, 3600, &number);
		options->patience = (uint32_t)number;
		break;
	case 'f':
		options->foreground = true;
		break;
	case OPTION_LOG_LEVEL:
		good = parse_level(optarg, &options->log_level);
		break;
	case OPTION_READY_FD:
		good = parse_number("ready-fd", optarg, 0, INT32_MAX, &number);
		options->ready_fd = (int)number;
		break;
	case OPTION_EXIT_WITH_PARENT:
		options->exit_with_parent = true;
		break;
	default:
		good = false;
	}
	return good;
}

int options_parse(int argc, char **argv, struct options *ret)
{
	struct options options = {
		.socket = "/run/userevd.sock",
		.control_socket = "/run/userevd/control.sock",
		.keeper_socket = "/run/userevd-keeper/keeper.sock",
		.backend = "auto",
		.policy = POLICY_DIRECTORIES,
		.state_directory = getenv("STATE_DIRECTORY"),
		.max_events = OPTIONS_UNSAID,
		.ring_bytes = DEFAULT_RING_BYTES,
		.patience = DEFAULT_PATIENCE,
		.log_level = LOG_INFO,
		.ready_fd = -1,
	};
	int option;

	while ((option = getopt_long(argc, argv, "fh", long_options, NULL)) != -1) {
		if (option == 'h') {
			print_help();
			return OPTIONS_EXIT;
		}
		if (option == OPTION_VERSION) {
			printf("userevd %s\n", VERSION);
			return OPTIONS_EXIT;
		}
		if (!take_option(option, &options)) {
			fprintf(stderr, "userevd: see userevd --help\n");
			return OPTIONS_WRONG;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "userevd: what is '%s'? It takes options only; see userevd --help\n", argv[optind]);
		return OPTIONS_WRONG;
	}
	*ret = options;
	return OPTIONS_RUN;
}
