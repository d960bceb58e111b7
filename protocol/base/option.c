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

int option_table_read(const struct option_table *table, int argc, char **argv, void *ret)
{
	const size_t n = table->n + ARRAY_SIZE(common_rows);
	struct option options[ROWS_MAX] = { 0 };
	struct option_row rows[ROWS_MAX];
	char letters[ROWS_MAX] = "";
	int key;

	memcpy(mempcpy(rows, table->rows, table->n * sizeof(*rows)), common_rows, sizeof(common_rows));
	for (size_t i = 0, n_letters = 0; i < n; i++) {
		options[i] = (struct option){ rows[i].name, rows[i].argument ? required_argument : no_argument, NULL,
					      FIRST_KEY + (int)i };
		if (rows[i].letter)
			letters[n_letters++] = rows[i].letter;
	}
	while ((key = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		size_t i = key < FIRST_KEY ? 0 : (size_t)(key - FIRST_KEY);
		const char *right = NULL;

		while (key < FIRST_KEY && i < n && rows[i].letter != key)
			i++;
		if (i < table->n)
			right = option_set(&rows[i], optarg, (char *)ret + rows[i].member);
		if (right)
			fprintf(stderr, "%s: --%s=%s: %s\n", table->program, rows[i].name, optarg, right);
		if (right || i == n) {
			fprintf(stderr, "%s: see %s --help\n", table->program, table->program);
			return 2;
		}
		if (i < table->n)
			continue;
		if (i == n - 1)
			return printf("%s %s\n", table->program, VERSION) < 0;
		puts(table->usage);
		for (i = 0; i < n; i++)
			if (rows[i].help)
				option_print(&rows[i]);
		printf("\n%s\n", table->see);
		return 0;
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "%s: unexpected argument '%s'; see %s --help\n", table->program, argv[optind], table->program);
	return 2;
}
