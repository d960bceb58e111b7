/* SPDX-License-Identifier: GPL-2.0-or-later */

/* argv → a command of the table. */

#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>

#include "client/userevctl/ctl.h"

static int help_run(struct ctl *ctl);

static const struct command command_help = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "what a command does, and its options",
	.help = "Shows what COMMAND does and which options it has; without one, the list of\n"
		"commands.",
	.run = help_run,
};

static const struct command *const commands[] = {
	&command_status, &command_events,  &command_tenants, &command_top,     &command_metrics,
	&command_enable, &command_disable, &command_tail,    &command_emit,    &command_run,
	&command_policy, &command_reload,  &command_doctor,  &command_version, &command_help,
};

void ctl_error(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fputs("userevctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	putc('\n', stderr);
}

void ctl_note(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	putc('\n', stderr);
}

int ctl_output_failed(int error)
{
	if (error == -EPIPE)
		return EXIT_DONE;
	ctl_error("cannot write the output: %s.", strerror(-error));
	return EXIT_REFUSED;
}

int ctl_finish(struct ctl *ctl)
{
	int r = output_flush(&ctl->output);

	return r < 0 ? ctl_output_failed(r) : EXIT_DONE;
}

static void print_overview(FILE *file)
{
	fputs("Usage: userevctl [OPTION...] COMMAND [ARGUMENT...]\n\n", file);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s %s", commands[i]->name, commands[i]->arguments);
		fprintf(file, "  %-31s %s\n", text, commands[i]->summary);
	}
	putc('\n', file);
	ctl_print_options(file, NULL);
	fputs("\nExit status: 0 done, 1 refused or failed, 2 usage, 3 no daemon, 4 not permitted.\n", file);
}

static void print_command(FILE *file, const struct command *command)
{
	fprintf(file, "Usage: userevctl %s%s%s%s\n\n%s\n", command->name, command->options ? " [OPTION...]" : "",
		command->arguments[0] ? " " : "", command->arguments, command->help);
	if (command->options)
		putc('\n', file);
	ctl_print_options(file, command);
	fputs("\nOptions for all commands: userevctl --help. More: userevctl(1).\n", file);
}

void ctl_print_help(FILE *file, const struct command *command)
{
	if (command)
		print_command(file, command);
	else
		print_overview(file);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (streq(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	struct suggestions suggestions = { .wanted = name };
	const char *nearest;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		suggest(&suggestions, commands[i]->name, strlen(commands[i]->name));
	nearest = suggestions_nearest(&suggestions);
	if (nearest)
		ctl_error("there is no command '%s'. Did you mean '%s'?", ctl_shown(name).text, nearest);
	else
		ctl_error("there is no command '%s'. See 'userevctl --help'.", ctl_shown(name).text);
	return EXIT_USAGE;
}

static int help_run(struct ctl *ctl)
{
	const struct command *command;

	ctl_no_options(ctl);
	ctl_expect_arguments(ctl, 0, 1);
	if (ctl->argc == 0) {
		print_overview(ctl->output.file);
		return ctl_finish(ctl);
	}
	command = find_command(ctl->argv[0]);
	if (!command)
		return unknown_command(ctl->argv[0]);
	print_command(ctl->output.file, command);
	return ctl_finish(ctl);
}

static const char *control_socket_path(void)
{
	const char *path = getenv("USEREV_CONTROL_SOCKET");

	return path && path[0] ? path : "/run/userevd/control.sock";
}

/* A reader who has gone (| head) is seen as EPIPE, so that whoever has to clean up can. */
static bool ignore_sigpipe(void)
{
	return signal(SIGPIPE, SIG_IGN) == SIG_DFL;
}

static unsigned environment_width(void)
{
	const char *value = getenv("USEREVCTL_WIDTH");

	return value && value[0] ? ctl_width("USEREVCTL_WIDTH", value) : 0;
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .argc = argc, .argv = argv, .control_socket = control_socket_path() };

	/* For the widths of characters; what is printed does not depend on where one lives. */
	setlocale(LC_CTYPE, "C.UTF-8");
	ctl.sigpipe_was_default = ignore_sigpipe();
	ctl.width = environment_width();
	opterr = 0;
	ctl_no_options(&ctl);
	if (ctl.argc == 0) {
		print_overview(stderr);
		return EXIT_USAGE;
	}
	ctl.command = find_command(ctl.argv[0]);
	if (!ctl.command)
		return unknown_command(ctl.argv[0]);
	optind = 0;
	return ctl.command->run(&ctl);
}
