/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/base/option.h"

#include <getopt.h>

#include "protocol/base/number.h"
#include "protocol/base/suggest.h"

enum { OPTIONS_MAX = 32, FIRST_KEY = 256 /* above all letters */ };

struct common {
	bool help, version;
};

static const struct option_row common_rows[] = {
	{ "help", NULL, OPTION_LAST, offsetof(struct common, help), .help = "show this help", .letter = 'h' },
	{ "version", NULL, OPTION_LAST, offsetof(struct common, version), .help = "show the version" },
	{ 0 },
};

static void option_print(FILE *file, const struct option_row *row)
{
	for (; row && row->name; row++) {
		const char letter[] = { '-', row->letter, ',', ' ', '\0' };
		char left[64];

		if (!row->help)
			continue;
		snprintf(left, sizeof(left), "%s--%s%s%s", row->letter ? letter : "", row->name,
			 row->argument ? "=" : "", row->argument ? row->argument : "");
		fprintf(file, "  %-31s ", left);
		for (const char *at = row->help; *at; at++) {
			putc(*at, file);
			if (*at == '\n')
				fprintf(file, "%34s", "");
		}
		putc('\n', file);
	}
}

void option_table_help(FILE *file, const struct option_table *table)
{
	fprintf(file, "%s\n", table->usage);
	option_print(file, table->rows);
	option_print(file, common_rows);
	fprintf(file, "\n%s\n", table->see);
}

static const char *option_set_number(const struct option_row *row, const char *argument, void *member)
{
	static char right[128];
	size_t length = strlen(argument);
	unsigned shift = 0;
	uint64_t number;

	if (row->kind == OPTION_SIZE && length > 0 && strchr("kKM", argument[length - 1]))
		shift = argument[--length] == 'M' ? 20 : 10;
	if (number_parse(argument, length, row->most >> shift, &number) != NUMBER_GOOD ||
	    number << shift < row->least) {
		snprintf(right, sizeof(right), "give a number from %llu to %llu", (unsigned long long)row->least,
			 (unsigned long long)row->most);
		return right;
	}
	if (row->kind == OPTION_NUMBER)
		*(uint32_t *)member = (uint32_t)number;
	else
		*(uint64_t *)member = number << shift;
	return NULL;
}

static const char *option_set_word(const struct option_row *row, const char *argument, void *member)
{
	static char right[128];
	struct text text = text_make(right, sizeof(right));

	for (const char *const *word = row->words; *word; word++) {
		if (streq(argument, *word)) {
			*(const char **)member = *word;
			return NULL;
		}
		text_printf(&text, "%s%s", word == row->words ? "give " : word[1] ? ", " : " or ", *word);
	}
	return right;
}

const char *option_set(const struct option_row *row, const char *argument, void *member)
{
	struct option_list *list = member;

	if (row->kind == OPTION_FLAG || row->kind == OPTION_LAST)
		*(bool *)member = true;
	else if (row->kind == OPTION_TEXT)
		*(const char **)member = argument;
	else if (row->kind == OPTION_TEXTS && list->n == OPTION_TEXTS_MAX)
		return "there are too many of them";
	else if (row->kind == OPTION_TEXTS)
		list->text[list->n++] = argument;
	else if (row->kind == OPTION_WORD)
		return option_set_word(row, argument, member);
	else
		return option_set_number(row, argument, member);
	return NULL;
}

/* For getopt_long(), and beside each option its row and member. */
struct known_options {
	struct option option[OPTIONS_MAX + 1];
	const struct option_row *row[OPTIONS_MAX];
	void *member[OPTIONS_MAX];
	char letters[2 * OPTIONS_MAX + 3];
	int n;
};

static void options_know(struct known_options *known, const struct option_row *row, void *values)
{
	char *letter;

	for (; row && row->name && known->n < OPTIONS_MAX; row++, known->n++) {
		known->option[known->n] = (struct option){ row->name, row->argument ? required_argument : no_argument,
							   NULL, FIRST_KEY + known->n };
		known->row[known->n] = row;
		known->member[known->n] = (char *)values + row->member;
		letter = known->letters + strlen(known->letters);
		letter[0] = row->letter;
		letter[1] = row->letter && row->argument ? ':' : '\0';
	}
}

static void option_refuse(const struct known_options *known, const char *last, bool needs_value, struct text *why)
{
	const char letter[] = { '-', (char)optopt, '\0' };
	/* One letter of "-abc" is found in optopt only. */
	const char *typed = optopt > ' ' && optopt < 127 ? letter : last, *nearest;
	char name[64];
	struct suggestions suggestions = { .wanted = name };

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
	for (int i = 0; i < known->n; i++) {
		char option[64];

		snprintf(option, sizeof(option), "--%s", known->option[i].name);
		suggest(&suggestions, option, strlen(option));
	}
	nearest = suggestions_nearest(&suggestions);
	if (needs_value || (nearest && streq(nearest, name))) {
		text_printf(why, "option '%s' %s.", name, needs_value ? "needs a value" : "takes no value");
		return;
	}
	text_printf(why, "there is no option '");
	text_excerpt(why, name, strlen(name));
	text_printf(why, nearest ? "'. Did you mean '%s'?" : "'.", nearest);
}

/* 0; or -1 with a sentence. */
static int options_get(const struct known_options *known, int argc, char **argv, struct text *why)
{
	int key;

	while ((key = getopt_long(argc, argv, known->letters, known->option, NULL)) != -1) {
		int i = MAX(key - FIRST_KEY, 0);
		const char *right;

		while (key < FIRST_KEY && i < known->n && known->row[i]->letter != key)
			i++;
		if (i == known->n) {
			option_refuse(known, argv[optind - 1], key == ':', why);
			return -1;
		}
		right = option_set(known->row[i], optarg, known->member[i]);
		if (right) {
			text_printf(why, "--%s=", known->row[i]->name);
			text_excerpt(why, optarg, strlen(optarg));
			text_printf(why, ": %s.", right);
			return -1;
		}
		if (known->row[i]->kind == OPTION_LAST)
			break;
	}
	return 0;
}

int option_table_read(const struct option_table *table, int argc, char **argv, void *ret)
{
	struct known_options known = { 0 };
	struct common common = { 0 };
	TEXT(why, 512);
	int r;

	string_copy(known.letters, sizeof(known.letters), table->stops ? "+:" : ":");
	options_know(&known, table->rows, ret);
	options_know(&known, table->more, table->more_values);
	options_know(&known, common_rows, &common);
	r = options_get(&known, argc, argv, &why);
	if (common.version)
		printf("%.*s %s\n", (int)strcspn(table->program, " "), table->program, VERSION);
	else if (common.help)
		option_table_help(stdout, table);
	if (common.version || common.help)
		return 0;
	if (r == 0 && (table->takes_arguments || optind == argc))
		return -1;
	if (r == 0)
		text_printf(&why, "unexpected argument '%s'.", argv[optind]);
	fprintf(stderr, "%s: %s See '%s --help'.\n", table->program, why.buffer, table->program);
	return 2;
}
