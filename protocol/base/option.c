/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/base/option.h"

#include <getopt.h>
#include <stdio.h>

#include "protocol/base/number.h"
#include "protocol/base/text.h"

enum { ROWS_MAX = 32, FIRST_KEY = 256 /* above all letters */ };

static const struct option_row common_rows[] = {
	{ "help", NULL, OPTION_FLAG, .help = "show this help", .letter = 'h' },
	{ "version", NULL, OPTION_FLAG, .help = "show the version" },
};

static void option_print(const struct option_row *row)
{
	char left[40];

	snprintf(left, sizeof(left), "--%s%s%s", row->name, row->argument ? "=" : "",
		 row->argument ? row->argument : "");
	if (row->letter)
		printf("  -%c, %-25s ", row->letter, left);
	else
		printf("      %-25s ", left);
	for (const char *at = row->help; *at; at++) {
		putchar(*at);
		if (*at == '\n')
			printf("%32s", "");
	}
	putchar('\n');
}

static void options_print_help(const struct option_table *table)
{
	puts(table->usage);
	for (size_t i = 0; i < table->n; i++)
		if (table->rows[i].help)
			option_print(&table->rows[i]);
	for (size_t i = 0; i < ARRAY_SIZE(common_rows); i++)
		option_print(&common_rows[i]);
	printf("\n%s\n", table->see);
}

static const char *option_set_number(const struct option_row *row, const char *argument, void *member)
{
	static char right[128];
	size_t length = strlen(argument);
	unsigned shift = 0;
	uint64_t number;

	if (row->kind == OPTION_SIZE && length > 0 && strchr("KM", argument[length - 1]))
		shift = argument[--length] == 'K' ? 10 : 20;
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

	if (row->kind == OPTION_FLAG)
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

/* For getopt_long(). Keys are positions in the table; common rows come behind it. */
static void options_prepare(const struct option_table *table, struct option *ret, char *ret_letters)
{
	for (size_t i = 0; i < table->n + ARRAY_SIZE(common_rows); i++) {
		const struct option_row *row = i < table->n ? &table->rows[i] : &common_rows[i - table->n];

		*ret++ = (struct option){ row->name, row->argument ? required_argument : no_argument, NULL,
					  FIRST_KEY + (int)i };
		if (row->letter)
			*ret_letters++ = row->letter;
	}
}

static size_t find_letter(const struct option_table *table, int letter)
{
	size_t i = 0;

	while (i < table->n && table->rows[i].letter != letter)
		i++;
	return i;
}

int option_table_read(const struct option_table *table, int argc, char **argv, void *ret)
{
	struct option options[ROWS_MAX] = { 0 };
	char letters[ROWS_MAX] = "";
	int key;

	options_prepare(table, options, letters);
	while ((key = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		const size_t i = key < FIRST_KEY ? find_letter(table, key) : (size_t)(key - FIRST_KEY);
		const char *right = NULL;

		if (i < table->n)
			right = option_set(&table->rows[i], optarg, (char *)ret + table->rows[i].member);
		if (right)
			fprintf(stderr, "%s: --%s=%s: %s\n", table->program, table->rows[i].name, optarg, right);
		if (right || key == '?') {
			fprintf(stderr, "%s: see %s --help\n", table->program, table->program);
			return 2;
		}
		if (i < table->n)
			continue;
		if (i == table->n)
			options_print_help(table);
		else
			printf("%s %s\n", table->program, VERSION);
		return 0;
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "%s: unexpected argument '%s'; see %s --help\n", table->program, argv[optind], table->program);
	return 2;
}
