/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One row for each option: its name, help, values, and the member that it sets. userevd(8) explains them. */

#include "daemon/options.h"

#include "daemon/limits.h"
#include "daemon/policy/policy.h"
#include "daemon/process/log.h"
#include "protocol/base/option.h"
#include "protocol/protocol.h"

/* Members that only this file needs. */
struct parsed {
	struct options options;
	const char *tenants;
	const char *log_level;
};

static const char *const backends[] = { "auto", "embedded", "status-page", "enable-address", NULL };
static const char *const guards[] = { "require", "prefer", "off", NULL };
static const char *const tenants[] = { "cgroup", "process", NULL };
static const char *const levels[] = { "err", "warning", "notice", "info", "debug", NULL };

#define OPTION(member) offsetof(struct parsed, options.member)

_Static_assert(DEFAULT_RING_BYTES == 4 << 20 && DEFAULT_CLIENT_TIMEOUT == 10 && WIRE_PAGE_BITS == 32768,
	       "see the help");

static const struct option_row rows[] = {
	{ "socket", "PATH", OPTION_TEXT, OPTION(socket), .help = "where clients connect (default /run/userevd.sock)" },
	{ "control-socket", "PATH", OPTION_TEXT, OPTION(control_socket),
	  .help = "where admins connect (default /run/userevd/control.sock)" },
	{ "keeper-socket", "PATH", OPTION_TEXT, OPTION(keeper_socket),
	  .help = "where systemd starts a keeper (default /run/userevd-keeper/keeper.sock);\n"
		  "without this option root starts a keeper itself" },
	{ "backend", "NAME", OPTION_WORD, OPTION(backend),
	  .help = "auto, embedded, status-page or enable-address (default auto)", .words = backends },
	{ "guard", "MODE", OPTION_WORD, OPTION(guard),
	  .help = "require, prefer or off: whether clients are kept from registering events\n"
		  "on their data files themselves (default: the policy's Guard=)",
	  .words = guards },
	{ "policy", "DIR[:DIR...]", OPTION_TEXT, OPTION(policy),
	  .help = "where policy files are (default: see userevd.conf(5))" },
	{ "state-directory", "DIR", OPTION_TEXT, OPTION(state_directory),
	  .help = "where the last policy without errors is kept, for a start with files that\n"
		  "have errors (default: $STATE_DIRECTORY, or nowhere)" },
	{ "strict-policy", NULL, OPTION_FLAG, OPTION(strict_policy),
	  .help = "do not start with that copy, which may allow more than the files" },
	{ "native", NULL, OPTION_FLAG, OPTION(print_native),
	  .help = "print what the policy wants for native events, for the keeper, and end" },
	{ "allow-persist", NULL, OPTION_FLAG, OPTION(allow_persist),
	  .help = "let clients register persistent events where the policy has no AllowPersist=" },
	{ "user", "NAME", OPTION_TEXT, OPTION(user),
	  .help = "the user to become when started as root (default userevd)" },
	{ "max-events", "N", OPTION_NUMBER, OPTION(max_events),
	  .help = "events that one tenant may hold (default: the policy's DefaultMaxEvents=)",
	  .most = OPTIONS_UNSET - 1 },
	{ "tenants", "KIND", OPTION_WORD, offsetof(struct parsed, tenants),
	  .help = "cgroup, or process: each program is a tenant, for demonstrations without\n"
		  "hostile programs (default cgroup)",
	  .words = tenants },
	{ "ring-size", "BYTES", OPTION_SIZE, OPTION(ring_bytes),
	  .help = "memory for records of the embedded backend; K, M (default 4M)", .least = 4096,
	  .most = UINT64_C(1) << 40 },
	{ "client-timeout", "SECONDS", OPTION_NUMBER, OPTION(client_timeout),
	  .help = "disconnect a client that is silent or does not read replies (default 10)", .least = 1,
	  .most = 3600 },
	/* Its name until November 2026. */
	{ "patience", "SECONDS", OPTION_NUMBER, OPTION(client_timeout), .least = 1, .most = 3600 },
	{ "foreground", NULL, OPTION_FLAG, OPTION(foreground), .help = "stay in the foreground and log to stderr",
	  .letter = 'f' },
	{ "log-level", "LEVEL", OPTION_WORD, offsetof(struct parsed, log_level),
	  .help = "err, warning, notice, info or debug (default info)", .words = levels },
	{ "exit-with-parent", NULL, OPTION_FLAG, OPTION(exit_with_parent),
	  .help = "exit when the parent process exits" },
	{ "capacity", "N", OPTION_NUMBER, OPTION(capacity), .help = "for tests: events in the whole machine",
	  .least = 1, .most = UINT32_MAX },
	{ "page-bits", "N", OPTION_NUMBER, OPTION(page_bits), .help = "for tests: bits in a status page (2 to 32768)",
	  .least = 2, .most = WIRE_PAGE_BITS },
	{ "ready-fd", "N", OPTION_NUMBER, OPTION(ready_fd),
	  .help = "for tests: write a newline there once the sockets listen", .most = INT32_MAX },
	{ 0 },
};

static const struct option_table table = {
	.program = "userevd",
	.usage =
		"Usage: userevd [OPTION...]\n"
		"\n"
		"Lets unprivileged programs emit trace events: they register events here and write records to the kernel.\n",
	.see = "See userevd(8). `userevctl doctor` finds out what is wrong.",
	.rows = rows,
};

int options_parse(int argc, char **argv, struct options *ret)
{
	struct parsed parsed = {
		.options = {
			.socket = "/run/userevd.sock",
			.control_socket = "/run/userevd/control.sock",
			.backend = "auto",
			.policy = POLICY_DIRECTORIES,
			.state_directory = getenv("STATE_DIRECTORY"),
			.max_events = OPTIONS_UNSET,
			.ring_bytes = DEFAULT_RING_BYTES,
			.client_timeout = DEFAULT_CLIENT_TIMEOUT,
			.log_level = LOG_INFO,
			.ready_fd = -1,
		},
		.tenants = "cgroup",
	};
	const int status = option_table_read(&table, argc, argv, &parsed);

	if (status >= 0)
		return status;
	for (uint32_t i = 0; parsed.log_level && levels[i]; i++)
		if (streq(parsed.log_level, levels[i]))
			parsed.options.log_level = LOG_ERR + i;
	parsed.options.tenant_is_process = streq(parsed.tenants, "process");
	parsed.options.keeper_socket_required = parsed.options.keeper_socket;
	if (!parsed.options.keeper_socket)
		parsed.options.keeper_socket = "/run/userevd-keeper/keeper.sock";
	*ret = parsed.options;
	return status;
}
