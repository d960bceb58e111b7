/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * On a terminal columns are as wide as their widest cell. Where that is too much for it, the widest column that may be
 * shortened gives way, until it fits or nothing can be shortened any more: numbers never are.
 */

#include <inttypes.h>

#include "client/userevctl/output.h"
#include "protocol/base/text.h"

enum {
	TABLE_GAP = 2,
	COLUMN_LEAST = 12, /* narrower, and a shortened text says nothing any more */
};

struct table table_make(const struct column *columns, size_t n)
{
	return (struct table){ .columns = columns, .n_columns = n };
}

void table_deinit(struct table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	*table = (struct table){ 0 };
}

/* Takes over the text. */
static void put_cell(struct table *table, enum style style, char *text)
{
	if (table->n_cells == table->capacity) {
		size_t capacity = MAX(table->capacity * 2, (size_t)64);
		struct cell *cells = reallocarray(table->cells, capacity, sizeof(*cells));

		if (cells) {
			table->cells = cells;
			table->capacity = capacity;
		}
	}
	if (!text || table->n_cells == table->capacity) {
		table->failed = true;
		free(text);
		return;
	}
	table->cells[table->n_cells++] = (struct cell){ .text = text, .style = style };
}

void table_put(struct table *table, enum style style, const char *text)
{
	/* An empty cell would vanish for whoever splits at white space. */
	put_cell(table, style, strdup(text[0] ? text : "-"));
}

void table_put_safe(struct table *table, enum style style, const char *text, size_t length)
{
	size_t size = length * 4 + 2;
	char *buffer = malloc(size);
	struct text safe;

	if (!buffer) {
		table->failed = true;
		return;
	}
	safe = text_make(buffer, size);
	if (length == 0)
		text_put(&safe, "-", 1);
	text_safe(&safe, text, length);
	put_cell(table, style, buffer);
}

void table_put_number(struct table *table, enum style style, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	table_put(table, style, text);
}

static void print_plain(const struct table *table, const struct output *output)
{
	for (size_t i = 0; i < table->n_cells; i++) {
		output_styled(output, table->cells[i].style, "%s", table->cells[i].text);
		putc((i + 1) % table->n_columns == 0 ? '\n' : '\t', output->file);
	}
}

static bool may_shrink(const struct column *column)
{
	return column->kind == COLUMN_PATH || column->kind == COLUMN_LIST || column->kind == COLUMN_LONG;
}

/* Takes what does not fit from the widest column that may be shortened, again and again. */
static void fit_widths(const struct table *table, size_t *widths, size_t available)
{
	size_t sum = TABLE_GAP * (table->n_columns - 1);

	for (size_t i = 0; i < table->n_columns; i++)
		sum += widths[i];
	for (; sum > available; sum--) {
		size_t widest = table->n_columns;

		for (size_t i = 0; i < table->n_columns; i++)
			if (may_shrink(&table->columns[i]) && widths[i] > COLUMN_LEAST &&
			    (widest == table->n_columns || widths[i] > widths[widest]))
				widest = i;
		if (widest == table->n_columns)
			return;
		widths[widest]--;
	}
}

static void measure(const struct table *table, size_t *widths)
{
	for (size_t i = 0; i < table->n_columns; i++)
		widths[i] = display_width(table->columns[i].title);
	for (size_t i = 0; i < table->n_cells; i++)
		widths[i % table->n_columns] = MAX(widths[i % table->n_columns], display_width(table->cells[i].text));
}

static void print_padding(const struct output *output, size_t n)
{
	fprintf(output->file, "%*s", (int)n, "");
}

static void print_cell(const struct output *output, const struct column *column, size_t width, bool last,
		       const struct cell *cell)
{
	size_t size = strlen(cell->text) + 4;
	_cleanup_(freep) char *shortened = malloc(size);
	const char *text = shortened ? shortened : cell->text;
	size_t pad;

	if (shortened && column->kind == COLUMN_PATH)
		shorten_middle(cell->text, width, shortened, size);
	else if (shortened && column->kind == COLUMN_LIST)
		shorten_list(cell->text, width, shortened, size);
	else if (shortened && column->kind == COLUMN_LONG)
		shorten_end(cell->text, width, shortened, size);
	else
		text = cell->text;

	pad = width - MIN(width, display_width(text));
	if (column->kind == COLUMN_NUMBER)
		print_padding(output, pad);
	output_styled(output, cell->style, "%s", text);
	if (column->kind != COLUMN_NUMBER && !last)
		print_padding(output, pad);
	if (last)
		putc('\n', output->file);
	else
		print_padding(output, TABLE_GAP);
}

static int print_columns(const struct table *table, const struct output *output)
{
	_cleanup_(freep) size_t *widths = calloc(table->n_columns, sizeof(*widths));

	if (!widths)
		return -ENOMEM;
	measure(table, widths);
	if (!output->full)
		fit_widths(table, widths, output->width);
	for (size_t i = 0; i < table->n_columns; i++) {
		char title[64];
		struct cell cell = { .text = title, .style = STYLE_BOLD };

		string_copy(title, sizeof(title), table->columns[i].title);
		print_cell(output, &table->columns[i], widths[i], i + 1 == table->n_columns, &cell);
	}
	for (size_t i = 0; i < table->n_cells; i++) {
		size_t column = i % table->n_columns;

		print_cell(output, &table->columns[column], widths[column], column + 1 == table->n_columns,
			   &table->cells[i]);
	}
	return 0;
}

int table_print(const struct table *table, const struct output *output)
{
	if (table->failed)
		return -ENOMEM;
	if (output->terminal)
		return print_columns(table, output);
	print_plain(table, output);
	return 0;
}
