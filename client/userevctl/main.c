/* SPDX-License-Identifier: GPL-2.0-or-later */

/* argv → options, and a command of the table. */

#include <getopt.h>
#include <locale.h>
#include <signal.h>

#include "client/userevctl/ctl.h"
#include "protocol/base/suggest.h"

static const struct command *const commands[] = {
	&command_status,  &command_events,  &command_tenants, &command_top,    &command_metrics, &command_enable,
	&command_disable, &command_delete,  &command_mute,    &command_unmute, &command_block,	 &command_unblock,
	&command_tail,	  &command_hist,    &command_latency, &command_stats,  &command_record,	 &command_report,
	&command_session, &command_emit,    &command_run,     &command_policy, &command_reload,	 &command_doctor,
	&command_name,	  &command_version, &command_help,
};

static const char *const colours[] = { "auto", "always", "never", NULL };
static const struct option_row all_options[] = {
	FLAG_ROW("json", struct ctl, output.json, "print JSON; also --full --color=WHEN --width=N"),
	VALUE_ROW("color", "WHEN", OPTION_WORD, struct ctl, output.when, .words = colours),
	NUMBER_ROW("width", "N", struct ctl, output.columns, WIDTH_LEAST, WIDTH_MOST, NULL),
	FLAG_ROW("full", struct ctl, output.full, NULL),
	TEXT_ROW("socket", "PATH", struct ctl, socket, "of the daemon; admins: --control-socket=PATH"),
	TEXT_ROW("control-socket", "PATH", struct ctl, control_socket, NULL),
	{ 0 },
};

/* Of a command, or without one those in front of it. Options for all commands may stand before the command and behind it. */
static struct option_table ctl_option_table(struct ctl *ctl, const struct command *command)
{
	static char program[64], usage[4096];
	struct text text = text_make(usage, sizeof(usage));
	struct option_table table = { .program = program, .usage = usage, .takes_arguments = true };

	snprintf(program, sizeof(program), "userevctl%s%s", command ? " " : "", command ? command->name : "");
	if (command) {
		text_printf(&text, "Usage: %s [OPTION...] %s\n\n%s\n", program, command->arguments, command->help);
		table.see = "Options for all commands: userevctl --help. More: userevctl(1).";
		table.rows = command->options;
		table.more = all_options;
		table.more_values = ctl;
		table.stops = command->stops_at_argument;
		return table;
	}
	text_printf(&text, "Usage: userevctl [OPTION...] COMMAND [ARGUMENT...]\n\n");
	/* A line for each command and those behind it that have no summary: "  enable, disable EVENT...  …". */
	for (size_t i = 0, begin = text.length; i < ARRAY_SIZE(commands); begin = text.length) {
		const struct command *first = commands[i++];

		if (!first->summary)
			continue;
		text_printf(&text, "  %s", first->name);
		for (; i < ARRAY_SIZE(commands) && commands[i]->summary && !*commands[i]->summary; i++)
			text_printf(&text, ", %s", commands[i]->name);
		text_printf(&text, " %s", first->arguments);
		text_printf(&text, "%*s%s\n", (int)(begin + 34 - MIN(text.length, begin + 33)), "", first->summary);
	}
	table.see = "Exit status: 0 done, 1 refused or failed, 2 usage, 3 no daemon, 4 not permitted.";
	table.rows = all_options;
	table.stops = true;
	return table;
}

/* main() resets the position of getopt_long() behind the command. */
void options_read(struct ctl *ctl, void *values, int least_arguments, int most_arguments)
{
	const struct option_table table = ctl_option_table(ctl, ctl->command);
	int status = option_table_read(&table, ctl->argc, ctl->argv, values);

	output_open(&ctl->output, stdout);
	if (status >= 0)
		exit(status == 0 ? ctl_finish(ctl) : EXIT_USAGE);
	ctl->argc -= optind;
	ctl->argv += optind;
	if (ctl->command)
		ctl_expect_arguments(ctl, least_arguments, most_arguments);
}

void ctl_expect_arguments(const struct ctl *ctl, int least, int most)
{
	if (ctl->argc >= least && ctl->argc <= most)
		return;
	if (ctl->argc < least)
		ctl_error("%s: %s is missing. See 'userevctl %s --help'.", ctl->command->name, ctl->command->arguments,
			  ctl->command->name);
	else
		ctl_error("%s: unexpected argument '%s'. See 'userevctl %s --help'.", ctl->command->name,
			  excerpt_of(ctl->argv[most]).text, ctl->command->name);
	exit(EXIT_USAGE);
}

/* NULL after a message. */
static const struct command *find_command(const char *name)
{
	struct suggestions suggestions = { .wanted = name };
	const char *nearest;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (streq(commands[i]->name, name))
			return commands[i];
		suggest(&suggestions, commands[i]->name, strlen(commands[i]->name));
	}
	nearest = suggestions_nearest(&suggestions);
	if (nearest)
		ctl_error("there is no command '%s'. Did you mean '%s'?", excerpt_of(name).text, nearest);
	else
		ctl_error("there is no command '%s'. See 'userevctl --help'.", excerpt_of(name).text);
	return NULL;
}

static int help_run(struct ctl *ctl)
{
	const struct command *command = NULL;
	struct option_table table;

	options_read(ctl, NULL, 0, 1);
	if (ctl->argc > 0) {
		command = find_command(ctl->argv[0]);
		if (!command)
			return EXIT_USAGE;
	}
	table = ctl_option_table(ctl, command);
	option_table_help(ctl->output.file, &table);
	return EXIT_DONE;
}

/* Not in the overview, which ends with --help. */
COMMAND(help, "[COMMAND]", NULL, NULL,
	"Shows what COMMAND does and its options, or without COMMAND the list of commands.");

int main(int argc, char **argv)
{
	static const struct option_row width_row =
		NUMBER_ROW("USEREVCTL_WIDTH", "N", struct ctl, output.columns, WIDTH_LEAST, WIDTH_MOST, NULL);
	struct ctl ctl = { .argc = argc, .argv = argv, .control_socket = getenv("USEREV_CONTROL_SOCKET") };
	const char *width = getenv(width_row.name), *right = NULL;
	struct option_table table;
	int r;

	if (!ctl.control_socket || !ctl.control_socket[0])
		ctl.control_socket = "/run/userevd/control.sock";
	if (width && width[0])
		right = option_set(&width_row, width, &ctl.output.columns);
	if (right) {
		ctl_error("%s=%s: %s.", width_row.name, excerpt_of(width).text, right);
		return EXIT_USAGE;
	}
	/* For the widths of characters; otherwise the output does not depend on the locale. */
	setlocale(LC_CTYPE, "C.UTF-8");
	/* A reader that has gone (| head) is seen as EPIPE, so that commands clean up. */
	ctl.sigpipe_was_default = signal(SIGPIPE, SIG_IGN) == SIG_DFL;
	sigprocmask(SIG_SETMASK, NULL, &ctl.signal_mask);
	options_read(&ctl, &ctl, 0, 0);
	if (ctl.argc == 0) {
		table = ctl_option_table(&ctl, NULL);
		option_table_help(stderr, &table);
		return EXIT_USAGE;
	}
	ctl.command = find_command(ctl.argv[0]);
	if (!ctl.command)
		return EXIT_USAGE;
	optind = 0;
	r = ctl.command->run(&ctl);
	if (ctl.signal > 0)
		ctl_end_by_signal(&ctl);
	return r == EXIT_DONE ? ctl_finish(&ctl) : r;
}
