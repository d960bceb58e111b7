/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <inttypes.h>

#include "client/userevctl/show/tenants.h"
#include "protocol/base/array.h"

const char *const tenant_orders[] = { "events", "connections", "refusals", "lost", "throttled", "name", NULL };

void tenant_views_deinit(struct tenant_views *views)
{
	for (size_t i = 0; i < views->n; i++) {
		free((void *)views->view[i].row.at);
		free((void *)views->view[i].before.at);
	}
	free(views->view);
	*views = (struct tenant_views){ 0 };
}

void tenant_view_refusals(const struct tenant_view *view, char *ret, size_t size)
{
	struct cursor refusals = row_rows(view->row, "refusals"), refusal;
	struct text text = text_make(ret, size);

	while (row_next_item(&refusals, &refusal) > 0)
		text_printf(&text, "%s%s %" PRIu64, text.length > 0 ? ", " : "", row_string(refusal, "reason").text,
			    row_get_u64(refusal, "count"));
}

void tenant_views_json(const struct tenant_views *views, struct json *json)
{
	json_begin(json, '[');
	for (size_t i = 0; i < views->n; i++) {
		json_line(json, '{');
		json_put(json, json_text("name", views->view[i].name.text));
		json_row_fields(json, views->view[i].row);
		json_end(json, '}');
	}
	json_end(json, ']');
}

struct tenant_view tenant_view_of(struct cursor row)
{
	struct tenant_view view = { .row = row };
	struct row_field field = { 0 };

	row_find(row, "tenant", &field);
	view.path = (const char *)field.value;
	view.path_length = field.length;
	view.name = tenant_name(view.path, view.path_length);
	return view;
}

void tenant_views_add(struct tenant_views *views, struct cursor row)
{
	views->view = must(array_grow(views->view, views->n, sizeof(*views->view)));
	views->view[views->n++] = tenant_view_of(row_copy(row));
}

static bool number_of_row(struct cursor row, const char *key, uint64_t *ret)
{
	struct cursor refusals = row_rows(row, "refusals"), refusal;
	bool is_lost = streq(key, "lost");
	struct row_field field;

	/* The queue was full, or the record was too big or bad. */
	*ret = is_lost ? row_get_u64(row, "lost") + row_get_u64(row, "too_big") + row_get_u64(row, "bad") : 0;
	while (streq(key, "refusals") && row_next_item(&refusals, &refusal) > 0)
		*ret += row_get_u64(refusal, "count");
	if (!row_find(row, key, &field))
		return is_lost;
	if (!is_lost && field.type == ROW_U64)
		*ret = field.number;
	return true;
}

bool tenant_number(const struct tenant_view *view, const char *key, uint64_t *ret)
{
	return number_of_row(view->row, key, ret);
}

int64_t tenant_change(const struct tenant_view *view, const char *key)
{
	uint64_t now, before;

	number_of_row(view->row, key, &now);
	number_of_row(view->before, key, &before);
	/* A counter that is smaller than before was restarted with the daemon. */
	return (int64_t)(now < before && !streq(key, "events") ? now : now - before);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* A path that was deleted and made again is another cgroup. */
static int compare_identities(const struct tenant_view *a, const struct tenant_view *b)
{
	int order = memcmp(a->path, b->path, MIN(a->path_length, b->path_length));

	if (order == 0)
		order = compare_numbers(a->path_length, b->path_length);
	return order != 0 ? order : compare_numbers(row_get_u64(a->row, "cgroup_id"), row_get_u64(b->row, "cgroup_id"));
}

static int compare_views(const void *left, const void *right, void *order)
{
	const struct tenant_view *a = left, *b = right;
	uint64_t of_a = 0, of_b = 0;
	const bool has_a = order && tenant_number(a, order, &of_a), has_b = order && tenant_number(b, order, &of_b);
	int result = 0;

	if (order && streq(order, "name"))
		result = strcmp(a->name.text, b->name.text);
	else if (has_a || has_b)
		result = compare_numbers(of_b, of_a);
	return result != 0 ? result : compare_identities(a, b);
}

void tenant_views_sort(struct tenant_views *views, const char *order)
{
	if (views->n > 0)
		qsort_r(views->view, views->n, sizeof(*views->view), compare_views, (void *)order);
}

void tenant_views_compare(struct tenant_views *now, struct tenant_views *before, double seconds)
{
	size_t at = 0;

	tenant_views_sort(now, NULL);
	tenant_views_sort(before, NULL);
	now->seconds = seconds;
	for (size_t i = 0; i < now->n; i++) {
		while (at < before->n && compare_identities(&before->view[at], &now->view[i]) < 0)
			at++;
		if (at == before->n || compare_identities(&before->view[at], &now->view[i]) != 0)
			continue;
		now->view[i].before = before->view[at].row;
		before->view[at++].row.at = NULL;
	}
}

void tenant_put_name(struct table *table, const struct tenant_cell *cell)
{
	table_put(table, STYLE_NAME, cell->view->name.text);
}

void tenant_put_path(struct table *table, const struct tenant_cell *cell)
{
	table_put_safe(table, cell->column->style, cell->view->path, cell->view->path_length);
}

void tenant_put_number(struct table *table, const struct tenant_cell *cell)
{
	uint64_t number;

	if (tenant_number(cell->view, cell->column->key, &number))
		table_put_number(table, number > 0 ? cell->column->style : STYLE_PLAIN, number);
	else
		table_put(table, STYLE_DIM, "-");
}

void tenant_views_print(const struct tenant_views *views, const struct output *output,
			const struct tenant_column *columns, size_t n_columns, size_t first, size_t most,
			const char *order)
{
	struct column plain[TENANT_COLUMNS_MAX] = { 0 };
	_cleanup_(table_deinit) struct table table = table_make(plain, n_columns);

	for (size_t i = 0; i < n_columns; i++) {
		plain[i] = columns[i].column;
		if (order && streq(columns[i].key, order))
			table.sorted_by = MIN(table.sorted_by, i);
	}
	for (size_t i = first; i < views->n && i - first < most; i++)
		for (size_t j = 0; j < n_columns; j++)
			columns[j].put(&table, &(struct tenant_cell){ &columns[j], views, &views->view[i] });
	table_print(&table, output);
}
