/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Options may stand before the command and behind it. */

#include <getopt.h>

#include "client/userevctl/ctl.h"
#include "protocol/base/suggest.h"

enum { OPTIONS_MAX = 32, FIRST_KEY = 256 /* above the letters */ };

static const char *const colours[] = { "auto", "always", "never", NULL };
static const struct option_row global_options[] = {
	FLAG_ROW("json", struct ctl, output.json, "print JSON; also: --color=WHEN, --width=N"),
	VALUE_ROW("color", "WHEN", OPTION_WORD, struct ctl, output.when, .words = colours),
	NUMBER_ROW("width", "N", struct ctl, output.columns, WIDTH_LEAST, WIDTH_MOST, NULL),
	TEXT_ROW("socket", "PATH", struct ctl, socket, "the clients' socket ($USEREV_SOCKET)"),
	TEXT_ROW("control-socket", "PATH", struct ctl, control_socket, "the admins' socket ($USEREV_CONTROL_SOCKET)"),
	FLAG_ROW("help", struct ctl, help, "this text, or that of a COMMAND; --version"),
	FLAG_ROW("version", struct ctl, version, NULL),
	{ 0 },
};

void options_print(FILE *file, const struct command *command)
{
	const struct option_row *option = command ? command->options : global_options;

	for (; option && option->name; option++) {
		char text[64];

		if (!option->help)
			continue;
		snprintf(text, sizeof(text), "--%s%s%s", option->name, option->argument ? "=" : "",
			 option->argument ? option->argument : "");
		fprintf(file, "  %-31s %s\n", text, option->help);
	}
}

/* For getopt_long(), and beside each option its row and the struct with its member. */
struct known_options {
	struct option option[OPTIONS_MAX + 1];
	const struct option_row *row[OPTIONS_MAX];
	char *values[OPTIONS_MAX];
	int n;
};

static void know_options(struct known_options *known, const struct option_row *row, void *values)
{
	for (; row && row->name && known->n < OPTIONS_MAX; row++, known->n++) {
		known->option[known->n] = (struct option){ row->name, row->argument ? required_argument : no_argument,
							   NULL, FIRST_KEY + known->n };
		known->row[known->n] = row;
		known->values[known->n] = values;
	}
}

static _Noreturn void refuse_option(const struct ctl *ctl, const struct known_options *known, bool needs_value)
{
	const char letter[] = { '-', (char)optopt, '\0' };
	/* One letter of "-abc" is found in optopt only. */
	const char *typed = optopt > ' ' && optopt < 127 ? letter : ctl->argv[optind - 1], *nearest;
	char name[64], see[64];
	struct suggestions suggestions = { .wanted = name };

	snprintf(see, sizeof(see), "userevctl %s%s", ctl->command ? ctl->command->name : "--help",
		 ctl->command ? " --help" : "");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
	for (int i = 0; i < known->n; i++) {
		char option[64];

		snprintf(option, sizeof(option), "--%s", known->option[i].name);
		suggest(&suggestions, option, strlen(option));
	}
	nearest = suggestions_nearest(&suggestions);
	if (needs_value)
		ctl_error("option '%s' needs a value: %s=... See '%s'.", excerpt_of(name).text, name, see);
	else if (nearest && streq(nearest, name))
		ctl_error("option '%s' takes no value. See '%s'.", excerpt_of(name).text, see);
	else if (nearest)
		ctl_error("there is no option '%s'. Did you mean '%s'? See '%s'.", excerpt_of(name).text, nearest, see);
	else
		ctl_error("there is no option '%s'. See '%s'.", excerpt_of(name).text, see);
	exit(EXIT_USAGE);
}

static void take_option(const struct option_row *row, const char *prefix, const char *value, void *values)
{
	const char *right = option_set(row, value, (char *)values + row->member);

	if (!right)
		return;
	ctl_error("%s%s=%s: %s.", prefix, row->name, excerpt_of(value).text, right);
	exit(EXIT_USAGE);
}

void options_read_environment(struct ctl *ctl)
{
	static const struct option_row row =
		NUMBER_ROW("USEREVCTL_WIDTH", "N", struct ctl, output.columns, WIDTH_LEAST, WIDTH_MOST, NULL);
	const char *width = getenv(row.name);

	if (width && width[0])
		take_option(&row, "", width, ctl);
}

/* The position of getopt_long() is global; main() resets it behind the command. */
void options_read(struct ctl *ctl, void *values, int least_arguments, int most_arguments)
{
	const struct command *command = ctl->command;
	const char *letters = !command || command->stops_at_argument ? "+:h" : ":h";
	struct known_options known = { 0 };
	int key;

	know_options(&known, command ? command->options : NULL, values);
	know_options(&known, global_options, ctl);
	while ((key = getopt_long(ctl->argc, ctl->argv, letters, known.option, NULL)) != -1) {
		if (key == '?' || key == ':')
			refuse_option(ctl, &known, key == ':');
		if (key == 'h')
			ctl->help = true;
		else
			take_option(known.row[key - FIRST_KEY], "--", optarg, known.values[key - FIRST_KEY]);
		if (!ctl->help && !ctl->version)
			continue;
		output_open(&ctl->output, stdout);
		if (ctl->help)
			ctl_print_help(stdout, command);
		else
			printf("userevctl %s\n", VERSION);
		exit(ctl_finish(ctl));
	}
	ctl->argc -= optind;
	ctl->argv += optind;
	output_open(&ctl->output, stdout);
	if (command)
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
