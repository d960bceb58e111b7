/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * On a terminal each column is as wide as its widest cell. Where that is too much, columns that have a rank are left out, the
 * highest rank first, and then the widest column that may be shortened gives way until the table fits. Numbers are never
 * shortened.
 *
 * Why not libsmartcols: with the columns of `tenants` on 100 columns it leaves four to the names and shortens paths only at
 * their end, so that two containers of one engine look the same.
 */

#include <inttypes.h>
#include <wchar.h>

#include "client/userevctl/ctl.h"
#include "protocol/base/array.h"

enum {
	TABLE_GAP = 2,
	COLUMN_LEAST = 12,  /* a narrower text is useless */
	COLUMN_WANTED = 20, /* "docker-0123456789ab", and one: before columns are left out */
};

/* The bytes of the character at `text` and the columns that it takes; 0 at the end. */
static size_t next_character(const char *text, size_t *ret_columns)
{
	wchar_t character = L'?';
	int length = mbtowc(&character, text, MB_CUR_MAX);

	*ret_columns = (size_t)MAX(wcwidth(character), 0);
	return length < 0 ? 1 : (size_t)length;
}

/* How many bytes from the beginning of `text` fit into `width` columns, and the columns that they take. */
static size_t bytes_that_fit(const char *text, size_t width, size_t *ret_taken)
{
	size_t at = 0, taken = 0, columns, length;

	for (; (length = next_character(text + at, &columns)) > 0 && taken + columns <= width; at += length)
		taken += columns;
	*ret_taken = taken;
	return at;
}

size_t display_width(const char *text)
{
	size_t width;

	bytes_that_fit(text, SIZE_MAX, &width);
	return width;
}

void shorten(enum column_kind kind, const char *text, size_t width, char *ret, size_t size)
{
	const char *comma = kind == COLUMN_LIST ? strstr(text, ", ") : NULL, *back = text;
	size_t taken, left = display_width(text), front = (width - 3) / 2;

	if (kind < COLUMN_PATH || left <= width) {
		string_copy(ret, size, text);
	} else if (kind == COLUMN_LONG) {
		snprintf(ret, size, "%.*s...", (int)bytes_that_fit(text, width - 3, &taken), text);
	} else if (comma) {
		_cleanup_(freep) char *first = must(strndup(text, (size_t)(comma - text)));

		shorten(COLUMN_PATH, first, width - strlen(", ..."), ret, size);
		strncat(ret, ", ...", size - strlen(ret) - 1);
	} else {
		/* In the middle: paths differ more often at their ends. */
		for (; left > width - 3 - front; left -= taken)
			back += next_character(back, &taken);
		snprintf(ret, size, "%.*s...%s", (int)bytes_that_fit(text, front, &taken), text, back);
	}
}

struct table table_make(const struct column *columns, size_t n)
{
	return (struct table){ .columns = columns, .n_columns = n, .sorted_by = SIZE_MAX };
}

void table_deinit(struct table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	*table = (struct table){ 0 };
}

void table_put_safe(struct table *table, enum style style, const char *text, size_t length)
{
	size_t size = length * 4 + 2;
	char *buffer = must(malloc(size));
	struct text safe = text_make(buffer, size);

	/* A script that splits at white space would not see an empty cell. */
	if (length == 0)
		text_put(&safe, "-", 1);
	text_safe(&safe, text, length);
	table->cells = must(array_grow(table->cells, table->n_cells, sizeof(*table->cells)));
	table->cells[table->n_cells++] = (struct cell){ .text = buffer, .style = style };
}

void table_put(struct table *table, enum style style, const char *text)
{
	table_put_safe(table, style, text, strlen(text));
}

void table_put_number(struct table *table, enum style style, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	table_put(table, style, text);
}

/* The width of the whole table, with texts that may be shortened at most so wide. */
static size_t table_width(const struct table *table, const size_t *widths, size_t most)
{
	size_t sum = 0;

	for (size_t i = 0; i < table->n_columns; i++)
		if (widths[i] > 0)
			sum += TABLE_GAP + (table->columns[i].kind >= COLUMN_PATH ? MIN(widths[i], most) : widths[i]);
	return sum - MIN(sum, (size_t)TABLE_GAP);
}

static void choose_widths(const struct table *table, const struct output *output, size_t *widths)
{
	const size_t room = output->terminal && !output->full ? output->width : SIZE_MAX, n = table->n_columns;
	const struct column *columns = table->columns;
	size_t chosen;

	for (size_t i = 0; i < n; i++)
		widths[i] = table->hidden & 1U << i ? 0 : display_width(columns[i].title);
	for (size_t i = 0; i < table->n_cells; i++)
		if (widths[i % n] > 0)
			widths[i % n] = MAX(widths[i % n], display_width(table->cells[i].text));
	do {
		chosen = 0;
		for (size_t i = 1; i < n && table_width(table, widths, COLUMN_WANTED) > room; i++)
			if (widths[i] > 0 && i != table->sorted_by && columns[i].rank > columns[chosen].rank)
				chosen = i;
		widths[chosen] = chosen > 0 ? 0 : widths[0];
	} while (chosen > 0);
	for (size_t over = table_width(table, widths, SIZE_MAX); over > room && chosen < n; over--) {
		chosen = n;
		for (size_t i = 0; i < n; i++)
			if (columns[i].kind >= COLUMN_PATH && widths[i] > COLUMN_LEAST &&
			    (chosen == n || widths[i] > widths[chosen]))
				chosen = i;
		if (chosen < n)
			widths[chosen]--;
	}
}

/* A width of 0: the column is left out, which the first one never is. */
static void print_row(const struct table *table, const struct output *output, const size_t *widths,
		      const struct cell *cells)
{
	for (size_t i = 0, pad = 0; i < table->n_columns; i++) {
		size_t size = strlen(cells[i].text) + 4;
		_cleanup_(freep) char *text = must(malloc(size));

		if (widths[i] == 0)
			continue;
		shorten(table->columns[i].kind, cells[i].text, MAX(widths[i], (size_t)5), text, size);
		if (!output->terminal)
			fputs(i > 0 ? "\t" : "", output->file);
		else
			fprintf(output->file, "%*s", (int)pad + (i > 0 ? TABLE_GAP : 0), "");
		pad = widths[i] - MIN(widths[i], display_width(text));
		if (output->terminal && table->columns[i].kind == COLUMN_NUMBER) {
			fprintf(output->file, "%*s", (int)pad, "");
			pad = 0;
		}
		output_styled(output, cells[i].style, "%s", text);
	}
	putc('\n', output->file);
}

void table_print(const struct table *table, const struct output *output)
{
	_cleanup_(freep) size_t *widths = must(calloc(table->n_columns, sizeof(*widths)));
	_cleanup_(freep) struct cell *titles = must(calloc(table->n_columns, sizeof(*titles)));

	choose_widths(table, output, widths);
	for (size_t i = 0; i < table->n_columns; i++)
		titles[i] = (struct cell){ .text = (char *)table->columns[i].title,
					   .style = i == table->sorted_by ? STYLE_GOOD : STYLE_BOLD };
	if (output->terminal)
		print_row(table, output, widths, titles);
	for (size_t i = 0; i < table->n_cells; i += table->n_columns)
		print_row(table, output, widths, table->cells + i);
}
