/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Options may stand anywhere, before the command and behind it. */

#include <getopt.h>

#include "client/userevctl/ctl.h"
#include "protocol/base/text.h"

enum {
	OPTION_JSON = 1000,
	OPTION_COLOUR,
	OPTION_WIDTH,
	OPTION_SOCKET,
	OPTION_CONTROL_SOCKET,
	OPTION_VERSION,
	OPTION_HELP,
	OPTIONS_MAX = 32
};

static const struct ctl_option global_options[] = {
	{ "json", NULL, "for programs; for you --color=WHEN, --width=N", OPTION_JSON },
	{ "color", "WHEN", NULL, OPTION_COLOUR },
	{ "width", "N", NULL, OPTION_WIDTH },
	{ "socket", "PATH", "where programs connect ($USEREV_SOCKET)", OPTION_SOCKET },
	{ "control-socket", "PATH", "where admins do ($USEREV_CONTROL_SOCKET)", OPTION_CONTROL_SOCKET },
	{ "help", NULL, "this, or more about a COMMAND; --version", OPTION_HELP },
	{ "version", NULL, NULL, OPTION_VERSION },
};

struct shown ctl_shown(const char *typed)
{
	struct shown ret = { 0 };
	struct text text = text_make(ret.text, sizeof(ret.text));

	text_excerpt(&text, typed, strlen(typed));
	return ret;
}

static void print_option(FILE *file, const struct ctl_option *option)
{
	char text[64];

	snprintf(text, sizeof(text), "--%s%s%s", option->name, option->argument ? "=" : "",
		 option->argument ? option->argument : "");
	fprintf(file, "  %-31s %s\n", text, option->help);
}

void ctl_print_options(FILE *file, const struct command *command)
{
	for (const struct ctl_option *option = command ? command->options : NULL; option && option->name; option++)
		print_option(file, option);
	for (size_t i = 0; !command && i < ARRAY_SIZE(global_options); i++)
		if (global_options[i].help)
			print_option(file, &global_options[i]);
}

/* The options of getopt_long() and, beside them, ours. */
struct option_list {
	struct option option[OPTIONS_MAX + 1];
	size_t count;
};

static void list_option(struct option_list *list, const struct ctl_option *option)
{
	if (list->count < OPTIONS_MAX)
		list->option[list->count++] = (struct option){
			.name = option->name,
			.has_arg = option->argument ? required_argument : no_argument,
			.val = option->key,
		};
}

static struct option_list list_options(const struct command *command)
{
	struct option_list list = { 0 };

	for (const struct ctl_option *option = command ? command->options : NULL; option && option->name; option++)
		list_option(&list, option);
	for (size_t i = 0; i < ARRAY_SIZE(global_options); i++)
		list_option(&list, &global_options[i]);
	return list;
}

static _Noreturn void wrong_option(const struct ctl *ctl, const struct option_list *list, const char *typed,
				   bool argument)
{
	char name[64], see[64];
	struct suggestions suggestions = { .wanted = name };
	const char *nearest;

	snprintf(see, sizeof(see), "userevctl %s%s", ctl->command ? ctl->command->name : "--help",
		 ctl->command ? " --help" : "");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
	for (size_t i = 0; i < list->count; i++) {
		char option[64];

		snprintf(option, sizeof(option), "--%s", list->option[i].name);
		suggest(&suggestions, option, strlen(option));
	}
	nearest = suggestions_nearest(&suggestions);
	if (argument)
		ctl_error("option '%s' needs a value: %s=... See '%s'.", ctl_shown(name).text, name, see);
	else if (nearest && streq(nearest, name))
		ctl_error("option '%s' takes no value. See '%s'.", ctl_shown(name).text, see);
	else if (nearest)
		ctl_error("there is no option '%s'. Did you mean '%s'? See '%s'.", ctl_shown(name).text, nearest, see);
	else
		ctl_error("there is no option '%s'. See '%s'.", ctl_shown(name).text, see);
	exit(EXIT_USAGE);
}

static enum colour_when parse_colour(const char *value)
{
	if (streq(value, "always"))
		return COLOUR_ALWAYS;
	if (streq(value, "never"))
		return COLOUR_NEVER;
	if (streq(value, "auto"))
		return COLOUR_AUTO;
	ctl_error("--color=%s: give auto, always or never.", ctl_shown(value).text);
	exit(EXIT_USAGE);
}

static _Noreturn void show_help(struct ctl *ctl)
{
	output_init(&ctl->output, stdout, ctl->colour, 0);
	ctl_print_help(stdout, ctl->command);
	exit(ctl_finish(ctl));
}

unsigned ctl_width(const char *name, const char *value)
{
	return (unsigned)ctl_number(name, value, 20, 10000);
}

static void take_global(struct ctl *ctl, int option)
{
	switch (option) {
	case OPTION_JSON:
		ctl->json = true;
		break;
	case OPTION_COLOUR:
		ctl->colour = parse_colour(optarg);
		break;
	case OPTION_WIDTH:
		ctl->width = ctl_width("--width", optarg);
		break;
	case OPTION_SOCKET:
		ctl->socket = optarg;
		break;
	case OPTION_CONTROL_SOCKET:
		ctl->control_socket = optarg;
		break;
	case OPTION_VERSION:
		printf("userevctl %s\n", VERSION);
		output_init(&ctl->output, stdout, COLOUR_NEVER, 0);
		exit(ctl_finish(ctl));
	case OPTION_HELP:
	case 'h':
		show_help(ctl);
	}
}

/* Where getopt_long() stands is global; it begins anew with the command. */
int ctl_next_option(struct ctl *ctl, const char **ret_value)
{
	struct option_list list = list_options(ctl->command);
	const char *letters = !ctl->command || ctl->command->stops_at_argument ? "+:h" : ":h";
	int option;

	while ((option = getopt_long(ctl->argc, ctl->argv, letters, list.option, NULL)) != -1) {
		if (option == '?' || option == ':') {
			char letter[] = { '-', (char)optopt, '\0' };

			/* One letter of "-abc" is found in optopt only. */
			wrong_option(ctl, &list, optopt > ' ' && optopt < 127 ? letter : ctl->argv[optind - 1],
				     option == ':');
		}
		if (option < OPTION_JSON && option != 'h') {
			*ret_value = optarg;
			return option;
		}
		take_global(ctl, option);
	}
	ctl->argc -= optind;
	ctl->argv += optind;
	output_init(&ctl->output, stdout, ctl->colour, ctl->width);
	ctl->output.json = ctl->json;
	return 0;
}

void ctl_no_options(struct ctl *ctl)
{
	const char *value;

	/* The command has none of its own: this reads those for all, once. */
	ctl_next_option(ctl, &value);
}

void ctl_expect_arguments(struct ctl *ctl, int least, int most)
{
	if (ctl->argc >= least && ctl->argc <= most)
		return;
	if (ctl->argc < least)
		ctl_error("%s: %s is missing. See 'userevctl %s --help'.", ctl->command->name, ctl->command->arguments,
			  ctl->command->name);
	else
		ctl_error("%s: what is '%s'? See 'userevctl %s --help'.", ctl->command->name,
			  ctl_shown(ctl->argv[most]).text, ctl->command->name);
	exit(EXIT_USAGE);
}

uint64_t ctl_number(const char *option, const char *value, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t number;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (value[0] >= '0' && value[0] <= '9' && *end == '\0' && !errno && number >= least && number <= most)
		return number;
	ctl_error("%s=%s: give a number from %llu to %llu.", option, ctl_shown(value).text, (unsigned long long)least,
		  (unsigned long long)most);
	exit(EXIT_USAGE);
}
