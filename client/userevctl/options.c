/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Options may stand before the command and behind it. */

#include <getopt.h>

#include "client/userevctl/ctl.h"
#include "protocol/base/suggest.h"

enum { OPTIONS_MAX = 32, FIRST_KEY = 256 /* above the letters */ };

void option_flag(const struct ctl_option *option _unused_, const char *value _unused_, void *variable)
{
	*(bool *)variable = true;
}

void option_text(const struct ctl_option *option _unused_, const char *value, void *variable)
{
	*(const char **)variable = value;
}

void option_number(const struct ctl_option *option, const char *value, void *variable)
{
	char *end;
	uint64_t number;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno || number < option->least ||
	    number > option->most) {
		ctl_error("%s%s=%s: give a number from %llu to %llu.", option->argument ? "--" : "", option->name,
			  ctl_shown(value).text, (unsigned long long)option->least, (unsigned long long)option->most);
		exit(EXIT_USAGE);
	}
	*(uint64_t *)variable = number;
}

void option_choice(const struct ctl_option *option, const char *value, void *variable)
{
	char buffer[128];
	struct text all = text_make(buffer, sizeof(buffer));
	unsigned i;

	for (i = 0; option->choices[i]; i++) {
		if (streq(value, option->choices[i])) {
			*(unsigned *)variable = i;
			return;
		}
		text_printf(&all, "%s%s", i == 0 ? "" : option->choices[i + 1] ? ", " : " or ", option->choices[i]);
	}
	ctl_error("--%s=%s: give %s.", option->name, ctl_shown(value).text, buffer);
	exit(EXIT_USAGE);
}

static void take_help(const struct ctl_option *option _unused_, const char *value _unused_, void *variable)
{
	struct ctl *ctl = variable;

	output_open(&ctl->output, stdout);
	ctl_print_help(stdout, ctl->command);
	exit(ctl_finish(ctl));
}

static void take_version(const struct ctl_option *option _unused_, const char *value _unused_, void *variable)
{
	struct ctl *ctl = variable;

	output_open(&ctl->output, stdout);
	printf("userevctl %s\n", VERSION);
	exit(ctl_finish(ctl));
}

static const char *const colours[] = {
	[COLOUR_AUTO] = "auto", [COLOUR_ALWAYS] = "always", [COLOUR_NEVER] = "never", NULL
};
static const struct ctl_option global_options[] = {
	OPTION("json", NULL, "print JSON; also: --color=WHEN, --width=N", option_flag,
	       .offset = offsetof(struct ctl, output.json)),
	OPTION("color", "WHEN", NULL, option_choice, .offset = offsetof(struct ctl, output.when), .choices = colours),
	OPTION("width", "N", NULL, option_number, .offset = offsetof(struct ctl, output.columns), .least = WIDTH_LEAST,
	       .most = WIDTH_MOST),
	OPTION("socket", "PATH", "the clients' socket ($USEREV_SOCKET)", option_text,
	       .offset = offsetof(struct ctl, socket)),
	OPTION("control-socket", "PATH", "the admins' socket ($USEREV_CONTROL_SOCKET)", option_text,
	       .offset = offsetof(struct ctl, control_socket)),
	OPTION("help", NULL, "this text, or that of a COMMAND; --version", take_help),
	OPTION("version", NULL, NULL, take_version),
	{ 0 },
};

struct shown ctl_shown(const char *typed)
{
	struct shown ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));

	text_excerpt(&text, typed, strlen(typed));
	return ret;
}

void options_print(FILE *file, const struct command *command)
{
	for (const struct ctl_option *option = command ? command->options : global_options; option && option->name;
	     option++) {
		char text[64];

		if (!option->help)
			continue;
		snprintf(text, sizeof(text), "--%s%s%s", option->name, option->argument ? "=" : "",
			 option->argument ? option->argument : "");
		fprintf(file, "  %-31s %s\n", text, option->help);
	}
}

/* For getopt_long(), and beside each option ours and its variable. */
struct option_list {
	struct option option[OPTIONS_MAX + 1];
	const struct ctl_option *ours[OPTIONS_MAX];
	char *variable[OPTIONS_MAX];
	int n;
};

static void list_options(struct option_list *list, const struct ctl_option *option, struct ctl *ctl, void *values)
{
	for (; option && option->name && list->n < OPTIONS_MAX; option++, list->n++) {
		list->option[list->n] = (struct option){
			.name = option->name,
			.has_arg = option->argument ? required_argument : no_argument,
			.val = FIRST_KEY + list->n,
		};
		list->ours[list->n] = option;
		list->variable[list->n] = (char *)(option->in_ctl ? ctl : values) + option->offset;
	}
}

static _Noreturn void refuse_option(const struct ctl *ctl, const struct option_list *list, bool needs_value)
{
	const char letter[] = { '-', (char)optopt, '\0' };
	/* One letter of "-abc" is found in optopt only. */
	const char *typed = optopt > ' ' && optopt < 127 ? letter : ctl->argv[optind - 1], *nearest;
	char name[64], see[64];
	struct suggestions suggestions = { .wanted = name };

	snprintf(see, sizeof(see), "userevctl %s%s", ctl->command ? ctl->command->name : "--help",
		 ctl->command ? " --help" : "");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
	for (int i = 0; i < list->n; i++) {
		char option[64];

		snprintf(option, sizeof(option), "--%s", list->option[i].name);
		suggest(&suggestions, option, strlen(option));
	}
	nearest = suggestions_nearest(&suggestions);
	if (needs_value)
		ctl_error("option '%s' needs a value: %s=... See '%s'.", ctl_shown(name).text, name, see);
	else if (nearest && streq(nearest, name))
		ctl_error("option '%s' takes no value. See '%s'.", ctl_shown(name).text, see);
	else if (nearest)
		ctl_error("there is no option '%s'. Did you mean '%s'? See '%s'.", ctl_shown(name).text, nearest, see);
	else
		ctl_error("there is no option '%s'. See '%s'.", ctl_shown(name).text, see);
	exit(EXIT_USAGE);
}

/* The position of getopt_long() is global; main() resets it behind the command. */
void options_read(struct ctl *ctl, void *values, int least_arguments, int most_arguments)
{
	const struct command *command = ctl->command;
	const char *letters = !command || command->stops_at_argument ? "+:h" : ":h";
	struct option_list list = { 0 };
	int key;

	list_options(&list, command ? command->options : NULL, ctl, values);
	list_options(&list, global_options, ctl, ctl);
	while ((key = getopt_long(ctl->argc, ctl->argv, letters, list.option, NULL)) != -1) {
		const struct ctl_option *option;

		if (key == '?' || key == ':')
			refuse_option(ctl, &list, key == ':');
		if (key == 'h')
			take_help(NULL, NULL, ctl);
		option = list.ours[key - FIRST_KEY];
		option->take(option, optarg, list.variable[key - FIRST_KEY]);
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
			  ctl_shown(ctl->argv[most]).text, ctl->command->name);
	exit(EXIT_USAGE);
}
