/* SPDX-License-Identifier: GPL-2.0-or-later */

/* One row for each option: its name, help, values, and the member that it sets. userevd(8) explains them. */

#include "daemon/options.h"

#include <getopt.h>
#include <stdio.h>

#include "daemon/limits.h"
#include "daemon/policy/policy.h"
#include "daemon/process/log.h"
#include "protocol/base/number.h"
#include "protocol/protocol.h"

enum kind {
	KIND_FLAG,
	KIND_TEXT,
	KIND_WORD,   /* one of `words`; the member is that word */
	KIND_NUMBER, /* 32 bits */
	KIND_SIZE,   /* 64 bits, with K or M behind it */
};

/* Members that only this file needs. */
struct parsed {
	struct options options;
	const char *tenants;
	const char *log_level;
	bool help;
	bool version;
};

static const char *const backends[] = { "auto", "embedded", "status-page", "enable-address", NULL };
static const char *const guards[] = { "require", "prefer", "off", NULL };
static const char *const tenants[] = { "cgroup", "process", NULL };
static const char *const levels[] = { "err", "warning", "notice", "info", "debug", NULL };

#define HIDDEN	       ""
#define OPTION(member) offsetof(struct parsed, options.member)

_Static_assert(DEFAULT_RING_BYTES == 4 << 20 && DEFAULT_CLIENT_TIMEOUT == 10 && WIRE_PAGE_BITS == 32768,
	       "see the help");

static const struct option_row {
	const char *name;
	const char *argument; /* NULL: it takes none */
	enum kind kind;
	size_t member;
	const char *help; /* HIDDEN: an old name */
	const char *const *words;
	uint64_t least, most;
	char letter;
} rows[] = {
	{ "socket", "PATH", KIND_TEXT, OPTION(socket), .help = "where clients connect (default /run/userevd.sock)" },
	{ "control-socket", "PATH", KIND_TEXT, OPTION(control_socket),
	  .help = "where admins connect (default /run/userevd/control.sock)" },
	{ "keeper-socket", "PATH", KIND_TEXT, OPTION(keeper_socket),
	  .help = "where systemd starts a keeper (default /run/userevd-keeper/keeper.sock);\n"
		  "without this option root starts a keeper itself" },
	{ "backend", "NAME", KIND_WORD, OPTION(backend),
	  .help = "auto, embedded, status-page or enable-address (default auto)", .words = backends },
	{ "guard", "MODE", KIND_WORD, OPTION(guard),
	  .help = "require, prefer or off: whether clients are kept from registering events\n"
		  "on their data files themselves (default: the policy's Guard=)",
	  .words = guards },
	{ "policy", "DIR[:DIR...]", KIND_TEXT, OPTION(policy),
	  .help = "where policy files are (default: see userevd.conf(5))" },
	{ "state-directory", "DIR", KIND_TEXT, OPTION(state_directory),
	  .help = "where the last policy without errors is kept, for a start with files that\n"
		  "have errors (default: $STATE_DIRECTORY, or nowhere)" },
	{ "strict-policy", NULL, KIND_FLAG, OPTION(strict_policy),
	  .help = "do not start with that copy, which may allow more than the files" },
	{ "allow-persist", NULL, KIND_FLAG, OPTION(allow_persist),
	  .help = "let clients register persistent events where the policy has no AllowPersist=" },
	{ "user", "NAME", KIND_TEXT, OPTION(user),
	  .help = "the user to become when started as root (default userevd)" },
	{ "max-events", "N", KIND_NUMBER, OPTION(max_events),
	  .help = "events that one tenant may hold (default: the policy's DefaultMaxEvents=)",
	  .most = OPTIONS_UNSET - 1 },
	{ "tenants", "KIND", KIND_WORD, offsetof(struct parsed, tenants),
	  .help = "cgroup, or process: each program is a tenant, for demonstrations without\n"
		  "hostile programs (default cgroup)",
	  .words = tenants },
	{ "ring-size", "BYTES", KIND_SIZE, OPTION(ring_bytes),
	  .help = "memory for records of the embedded backend; K, M (default 4M)", .least = 4096,
	  .most = UINT64_C(1) << 40 },
	{ "client-timeout", "SECONDS", KIND_NUMBER, OPTION(client_timeout),
	  .help = "disconnect a client that is silent or does not read replies (default 10)", .least = 1,
	  .most = 3600 },
	{ "patience", "SECONDS", KIND_NUMBER, OPTION(client_timeout), .help = HIDDEN, .least = 1, .most = 3600 },
	{ "foreground", NULL, KIND_FLAG, OPTION(foreground), .help = "stay in the foreground and log to stderr",
	  .letter = 'f' },
	{ "log-level", "LEVEL", KIND_WORD, offsetof(struct parsed, log_level),
	  .help = "err, warning, notice, info or debug (default info)", .words = levels },
	{ "exit-with-parent", NULL, KIND_FLAG, OPTION(exit_with_parent), .help = "exit when the parent process exits" },
	{ "help", NULL, KIND_FLAG, offsetof(struct parsed, help), .help = "show this help", .letter = 'h' },
	{ "version", NULL, KIND_FLAG, offsetof(struct parsed, version), .help = "show the version" },
	{ "capacity", "N", KIND_NUMBER, OPTION(capacity), .help = "for tests: events in the whole machine", .least = 1,
	  .most = UINT32_MAX },
	{ "page-bits", "N", KIND_NUMBER, OPTION(page_bits), .help = "for tests: bits in a status page (2 to 32768)",
	  .least = 2, .most = WIRE_PAGE_BITS },
	{ "ready-fd", "N", KIND_NUMBER, OPTION(ready_fd),
	  .help = "for tests: write a newline there once the sockets listen", .most = INT32_MAX },
};

static void options_print_help(void)
{
	puts("Usage: userevd [OPTION...]\n"
	     "\n"
	     "Lets unprivileged programs emit trace events: they register events here and write records to the kernel.\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char left[40];

		snprintf(left, sizeof(left), "--%s%s%s", rows[i].name, rows[i].argument ? "=" : "",
			 rows[i].argument ? rows[i].argument : "");
		if (!*rows[i].help)
			continue;
		printf("  %c%c%c %-25s ", rows[i].letter ? '-' : ' ', rows[i].letter ? rows[i].letter : ' ',
		       rows[i].letter ? ',' : ' ', left);
		for (const char *at = rows[i].help; *at; at++) {
			putchar(*at);
			if (*at == '\n')
				printf("%32s", "");
		}
		putchar('\n');
	}
	puts("\nSee userevd(8). `userevctl doctor` finds out what is wrong.");
}

/* Sets the member from `argument`. NULL, or a sentence with the values that are right. */
static const char *option_set(const struct option_row *row, const char *argument, void *member)
{
	static char right[128];
	struct text text = text_make(right, sizeof(right));
	unsigned shift = 0;
	uint64_t number;
	size_t length;

	if (!argument) {
		*(bool *)member = true;
		return NULL;
	}
	length = strlen(argument);
	switch (row->kind) {
	case KIND_TEXT:
		*(const char **)member = argument;
		return NULL;
	case KIND_WORD:
		for (const char *const *word = row->words; *word; word++) {
			text_printf(&text, "%s%s", word == row->words ? "give " : word[1] ? ", " : " or ", *word);
			if (streq(argument, *word)) {
				*(const char **)member = *word;
				return NULL;
			}
		}
		return right;
	case KIND_SIZE:
		if (length > 0 && (argument[length - 1] == 'K' || argument[length - 1] == 'M'))
			shift = argument[--length] == 'K' ? 10 : 20;
		break;
	case KIND_NUMBER:
	case KIND_FLAG:
		break;
	}
	if (number_parse(argument, length, row->most >> shift, &number) != NUMBER_GOOD ||
	    number << shift < row->least) {
		text_printf(&text, "give a number from %llu to %llu", (unsigned long long)row->least,
			    (unsigned long long)row->most);
		return right;
	}
	if (row->kind == KIND_SIZE)
		*(uint64_t *)member = number << shift;
	else
		*(uint32_t *)member = (uint32_t)number;
	return NULL;
}

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
	struct option options[ARRAY_SIZE(rows) + 1] = { 0 };
	const char *right;
	int option;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		options[i] = (struct option){ rows[i].name, rows[i].argument ? required_argument : no_argument, NULL,
					      rows[i].letter ? rows[i].letter : 256 + (int)i };
	while ((option = getopt_long(argc, argv, "fh", options, NULL)) != -1) {
		const struct option_row *row = NULL;

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			if (options[i].val == option)
				row = &rows[i];
		right = row ? option_set(row, optarg, (char *)&parsed + row->member) : NULL;
		if (right)
			fprintf(stderr, "userevd: --%s=%s: %s\n", row->name, optarg, right);
		if (!row || right) {
			fprintf(stderr, "userevd: see userevd --help\n");
			return OPTIONS_WRONG;
		}
		if (parsed.help)
			options_print_help();
		if (parsed.version)
			puts("userevd " VERSION);
		if (parsed.help || parsed.version)
			return OPTIONS_EXIT;
	}
	if (optind < argc) {
		fprintf(stderr, "userevd: unexpected argument '%s'; see userevd --help\n", argv[optind]);
		return OPTIONS_WRONG;
	}
	for (uint32_t i = 0; parsed.log_level && levels[i]; i++)
		if (streq(parsed.log_level, levels[i]))
			parsed.options.log_level = LOG_ERR + i;
	parsed.options.tenant_is_process = streq(parsed.tenants, "process");
	parsed.options.keeper_socket_required = parsed.options.keeper_socket;
	if (!parsed.options.keeper_socket)
		parsed.options.keeper_socket = "/run/userevd-keeper/keeper.sock";
	*ret = parsed.options;
	return OPTIONS_RUN;
}
