/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <inttypes.h>

#include "client/userevctl/show/tenants.h"
#include "protocol/base/array.h"

/* In the order of enum tenant_order. */
const char *const tenant_order_names[] = { "events", "connections", "refusals", "lost", "throttled", "name", NULL };
static const enum tenant_number order_numbers[TENANT_ORDERS] = { TENANT_EVENTS, TENANT_CONNECTIONS, TENANT_REFUSED,
								 TENANT_LOST,	TENANT_THROTTLED,   TENANT_NUMBERS };

enum tenant_order tenant_order(const char *sort)
{
	unsigned order = 0;

	while (sort && !streq(sort, tenant_order_names[order]))
		order++;
	return order;
}

void tenant_views_deinit(struct tenant_views *views)
{
	for (size_t i = 0; i < views->n; i++)
		free((void *)views->view[i].row.at);
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
	/* In the order of enum tenant_number; refusals are summed. */
	static const char *const keys[TENANT_NUMBERS] = { "events",	 "events_max",	    "reserved", "lingering",
							  "connections", "connections_max", "files",	NULL,
							  "lost",	 "throttled" };
	struct tenant_view view = { .row = row };
	struct cursor refusals = row_rows(row, "refusals"), refusal;
	struct row_field field = { 0 };

	row_find(row, "tenant", &field);
	view.path = (const char *)field.value;
	view.path_length = field.length;
	view.name = tenant_name(view.path, view.path_length);
	for (size_t i = 0; i < TENANT_NUMBERS; i++) {
		bool is_limit = i == TENANT_EVENTS_MAX || i == TENANT_CONNECTIONS_MAX;

		/* The daemon leaves out a limit that is infinite. */
		if (keys[i] && row_find(row, keys[i], &field))
			view.number[i] = field.number;
		else
			view.number[i] = is_limit ? TENANT_NO_LIMIT : 0;
	}
	view.number[TENANT_LOST] += row_get_u64(row, "too_big") + row_get_u64(row, "bad");
	while (row_next_item(&refusals, &refusal) > 0)
		view.number[TENANT_REFUSED] += row_get_u64(refusal, "count");
	return view;
}

void tenant_views_add(struct tenant_views *views, struct cursor row)
{
	views->view = must(array_grow(views->view, views->n, sizeof(*views->view)));
	views->view[views->n++] = tenant_view_of(row_copy(row));
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

static int compare_views(const void *left, const void *right, void *data)
{
	const struct tenant_view *a = left, *b = right;
	enum tenant_order order = *(const enum tenant_order *)data;
	int result = 0;

	if (order == TENANTS_BY_NAME)
		result = strcmp(a->name.text, b->name.text);
	else if (order < TENANT_ORDERS)
		result = compare_numbers(b->number[order_numbers[order]], a->number[order_numbers[order]]);
	return result != 0 ? result : compare_identities(a, b);
}

void tenant_views_sort(struct tenant_views *views, enum tenant_order order)
{
	if (views->n > 0)
		qsort_r(views->view, views->n, sizeof(*views->view), compare_views, &order);
}

void tenant_views_compare(struct tenant_views *now, struct tenant_views *before, double seconds)
{
	size_t at = 0;

	tenant_views_sort(now, TENANT_ORDERS);
	tenant_views_sort(before, TENANT_ORDERS);
	now->seconds = seconds;
	for (size_t i = 0; i < now->n; i++) {
		struct tenant_view *view = &now->view[i];
		const struct tenant_view *old;

		while (at < before->n && compare_identities(&before->view[at], view) < 0)
			at++;
		old = at < before->n && compare_identities(&before->view[at], view) == 0 ? &before->view[at] : NULL;
		for (size_t j = 0; j < TENANT_NUMBERS; j++) {
			view->change[j] = view->number[j] - (old ? old->number[j] : 0);
			/* A counter that is smaller than before was restarted with the daemon. */
			if (old && j >= TENANT_REFUSED && view->number[j] < old->number[j])
				view->change[j] = view->number[j];
		}
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
	uint64_t number = cell->view->number[cell->column->number];

	if (number == TENANT_NO_LIMIT)
		table_put(table, STYLE_DIM, "-");
	else
		table_put_number(table, number > 0 ? cell->column->style : STYLE_PLAIN, number);
}

void tenant_views_print(const struct tenant_views *views, const struct output *output,
			const struct tenant_column *columns, size_t n_columns, size_t first, size_t most,
			enum tenant_order order)
{
	struct column plain[TENANT_COLUMNS_MAX] = { 0 };
	_cleanup_(table_deinit) struct table table = table_make(plain, n_columns);

	for (size_t i = 0; i < n_columns; i++) {
		plain[i] = columns[i].column;
		if (order < TENANT_ORDERS && columns[i].number == order_numbers[order])
			table.sorted_by = MIN(table.sorted_by, i);
	}
	for (size_t i = first; i < views->n && i - first < most; i++)
		for (size_t j = 0; j < n_columns; j++)
			columns[j].put(&table, &(struct tenant_cell){ &columns[j], views, &views->view[i] });
	table_print(&table, output);
}
