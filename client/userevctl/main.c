/* SPDX-License-Identifier: GPL-2.0-or-later */

/* argv → a command of the table. */

#include <getopt.h>
#include <locale.h>
#include <signal.h>

#include "client/userevctl/ctl.h"
#include "protocol/base/suggest.h"

static const struct command *const commands[] = {
	&command_status, &command_events,  &command_tenants, &command_top,     &command_metrics,
	&command_enable, &command_disable, &command_tail,    &command_emit,    &command_run,
	&command_policy, &command_reload,  &command_doctor,  &command_version, &command_help,
};

void ctl_print_help(FILE *file, const struct command *command)
{
	if (command) {
		fprintf(file, "Usage: userevctl %s%s%s%s\n\n%s\n", command->name,
			command->options ? " [OPTION...]" : "", command->arguments[0] ? " " : "", command->arguments,
			command->help);
		if (command->options)
			putc('\n', file);
		options_print(file, command);
		fputs("\nOptions for all commands: userevctl --help. More: userevctl(1).\n", file);
		return;
	}
	fputs("Usage: userevctl [OPTION...] COMMAND [ARGUMENT...]\n\n", file);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s %s", commands[i]->name, commands[i]->arguments);
		fprintf(file, "  %-31s %s\n", text, commands[i]->summary);
	}
	putc('\n', file);
	options_print(file, NULL);
	fputs("\nExit status: 0 done, 1 refused or failed, 2 usage, 3 no daemon, 4 not permitted.\n", file);
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

	options_read(ctl, NULL, 0, 1);
	if (ctl->argc > 0) {
		command = find_command(ctl->argv[0]);
		if (!command)
			return EXIT_USAGE;
	}
	ctl_print_help(ctl->output.file, command);
	return ctl_finish(ctl);
}

COMMAND(help, "[COMMAND]", "explain a command and its options", NULL,
	"Shows what COMMAND does and its options, or without COMMAND the list of commands.");

int main(int argc, char **argv)
{
	struct ctl ctl = { .argc = argc, .argv = argv, .control_socket = getenv("USEREV_CONTROL_SOCKET") };

	if (!ctl.control_socket || !ctl.control_socket[0])
		ctl.control_socket = "/run/userevd/control.sock";
	options_read_environment(&ctl);
	/* For the widths of characters; otherwise the output does not depend on the locale. */
	setlocale(LC_CTYPE, "C.UTF-8");
	/* A reader that has gone (| head) is seen as EPIPE, so that commands clean up. */
	ctl.sigpipe_was_default = signal(SIGPIPE, SIG_IGN) == SIG_DFL;
	sigprocmask(SIG_SETMASK, NULL, &ctl.signal_mask);
	options_read(&ctl, NULL, 0, 0);
	if (ctl.argc == 0) {
		ctl_print_help(stderr, NULL);
		return EXIT_USAGE;
	}
	ctl.command = find_command(ctl.argv[0]);
	if (!ctl.command)
		return EXIT_USAGE;
	optind = 0;
	return ctl.command->run(&ctl);
}
