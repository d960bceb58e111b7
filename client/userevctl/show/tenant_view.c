/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/show/tenant_view.h"

#include <inttypes.h>

#include "protocol/base/text.h"

const char *const tenant_order_names[TENANT_ORDERS] = {
	[TENANTS_BY_EVENTS] = "events", [TENANTS_BY_CONNECTIONS] = "connections", [TENANTS_BY_REFUSALS] = "refusals",
	[TENANTS_BY_LOST] = "lost",	[TENANTS_BY_THROTTLED] = "throttled",	  [TENANTS_BY_NAME] = "name",
};

/* What each order compares, in struct tenant_view. */
static const size_t order_at[TENANT_ORDERS] = {
	[TENANTS_BY_EVENTS] = offsetof(struct tenant_view, events),
	[TENANTS_BY_CONNECTIONS] = offsetof(struct tenant_view, connections),
	[TENANTS_BY_REFUSALS] = offsetof(struct tenant_view, counts.refused),
	[TENANTS_BY_LOST] = offsetof(struct tenant_view, counts.lost),
	[TENANTS_BY_THROTTLED] = offsetof(struct tenant_view, counts.throttled),
	[TENANTS_BY_NAME] = offsetof(struct tenant_view, name),
};

static uint64_t number_at(const struct tenant_view *view, size_t at)
{
	return *(const uint64_t *)(const void *)((const char *)view + at);
}

void tenant_views_deinit(struct tenant_views *views)
{
	for (size_t i = 0; i < views->n; i++)
		free((void *)views->view[i].row.at);
	free(views->view);
	*views = (struct tenant_views){ 0 };
}

static struct cursor refusals_of(struct cursor row)
{
	struct row_field field;

	if (row_find(row, "refusals", &field) && field.type == ROW_ROWS)
		return cursor_make(field.value, field.length);
	return (struct cursor){ 0 };
}

void tenant_view_refusals(const struct tenant_view *view, char *ret, size_t size)
{
	struct cursor refusals = refusals_of(view->row), refusal;
	struct text text = text_make(ret, size);

	while (row_next_item(&refusals, &refusal) > 0)
		text_printf(&text, "%s%s %" PRIu64, text.length > 0 ? ", " : "", row_string(refusal, "reason").text,
			    row_get_u64(refusal, "count"));
}

void tenant_view_json(const struct tenant_view *view, struct json *json)
{
	json_begin(json, '{');
	json_put_text(json, "name", view->name.text);
	json_row_fields(json, view->row);
	json_end(json, '}');
}

/* The daemon leaves out a limit that is infinite. */
static uint64_t row_limit(struct cursor row, const char *key)
{
	struct row_field field;

	return row_find(row, key, &field) ? field.number : TENANT_NO_LIMIT;
}

struct tenant_view tenant_view_of(struct cursor row)
{
	struct cursor refusals = refusals_of(row), refusal;
	struct row_field path = { 0 };
	uint64_t refused = 0;

	while (row_next_item(&refusals, &refusal) > 0)
		refused += row_get_u64(refusal, "count");
	row_find(row, "tenant", &path);
	return (struct tenant_view){
		.row = row,
		.path = (const char *)path.value,
		.path_length = path.length,
		.name = tenant_name((const char *)path.value, path.length),
		.cgroup_id = row_get_u64(row, "cgroup_id"),
		.connections = row_get_u64(row, "connections"),
		.connections_max = row_limit(row, "connections_max"),
		.files = row_get_u64(row, "files"),
		.events = row_get_u64(row, "events"),
		.events_max = row_limit(row, "events_max"),
		.reserved = row_get_u64(row, "reserved"),
		.lingering = row_get_u64(row, "lingering"),
		.counts = {
			.refused = refused,
			.lost = row_get_u64(row, "lost") + row_get_u64(row, "too_big") + row_get_u64(row, "bad"),
			.throttled = row_get_u64(row, "throttled"),
		},
	};
}

int tenant_views_add(struct tenant_views *views, struct cursor row)
{
	uint8_t *copy;

	if (views->n == views->capacity) {
		size_t capacity = MAX(views->capacity * 2, (size_t)16);
		struct tenant_view *view = reallocarray(views->view, capacity, sizeof(*view));

		if (!view)
			return -ENOMEM;
		views->view = view;
		views->capacity = capacity;
	}
	copy = malloc(row.left + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, row.at, row.left);
	views->view[views->n++] = tenant_view_of(cursor_make(copy, row.left));
	return 0;
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
	return order != 0 ? order : compare_numbers(a->cgroup_id, b->cgroup_id);
}

static int compare_views(const void *left, const void *right, void *data)
{
	const struct tenant_view *a = left, *b = right;
	enum tenant_order order = *(const enum tenant_order *)data;
	int result = 0;

	if (order == TENANTS_BY_NAME)
		result = strcmp(a->name.text, b->name.text);
	else if (order < TENANT_ORDERS)
		result = compare_numbers(number_at(b, order_at[order]), number_at(a, order_at[order]));
	return result != 0 ? result : compare_identities(a, b);
}

void tenant_views_sort(struct tenant_views *views, enum tenant_order order)
{
	if (views->n > 0)
		qsort_r(views->view, views->n, sizeof(*views->view), compare_views, &order);
}

/* A counter that is smaller than before was restarted with the daemon. */
static uint64_t growth(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

void tenant_views_compare(struct tenant_views *now, struct tenant_views *before, double seconds)
{
	static const struct tenant_view nothing;
	size_t at = 0;

	tenant_views_sort(now, TENANT_ORDERS);
	tenant_views_sort(before, TENANT_ORDERS);
	now->seconds = seconds;
	for (size_t i = 0; i < now->n; i++) {
		struct tenant_view *view = &now->view[i];
		const struct tenant_view *old = &nothing;

		while (at < before->n && compare_identities(&before->view[at], view) < 0)
			at++;
		if (at < before->n && compare_identities(&before->view[at], view) == 0)
			old = &before->view[at];
		view->events_change = (int64_t)(view->events - old->events);
		view->change.refused = growth(view->counts.refused, old->counts.refused);
		view->change.lost = growth(view->counts.lost, old->counts.lost);
		view->change.throttled = growth(view->counts.throttled, old->counts.throttled);
	}
}

void tenant_put_name(struct table *table, const struct tenant_column *column _unused_,
		     const struct tenant_views *views _unused_, const struct tenant_view *view)
{
	table_put(table, STYLE_NAME, view->name.text);
}

void tenant_put_path(struct table *table, const struct tenant_column *column, const struct tenant_views *views _unused_,
		     const struct tenant_view *view)
{
	table_put_safe(table, column->style, view->path, view->path_length);
}

void tenant_put_number(struct table *table, const struct tenant_column *column,
		       const struct tenant_views *views _unused_, const struct tenant_view *view)
{
	uint64_t number = number_at(view, column->at);

	if (number == TENANT_NO_LIMIT)
		table_put(table, STYLE_DIM, "-");
	else
		table_put_number(table, number > 0 ? column->style : STYLE_PLAIN, number);
}

int tenant_views_print(const struct tenant_views *views, const struct output *output,
		       const struct tenant_column *columns, size_t n_columns, size_t first, size_t most,
		       enum tenant_order order)
{
	_cleanup_(freep) struct column *plain = calloc(n_columns, sizeof(*plain));
	_cleanup_(freep) unsigned *ranks = calloc(n_columns, sizeof(*ranks));
	_cleanup_(table_deinit) struct table table = table_make(plain, n_columns);

	if (!plain || !ranks)
		return -ENOMEM;
	for (size_t i = 0; i < n_columns; i++) {
		plain[i] = columns[i].column;
		ranks[i] = columns[i].rank;
		if (order == TENANT_ORDERS || columns[i].at != order_at[order])
			continue;
		table.sorted_by = i;
		ranks[i] = 0;
	}
	table.ranks = ranks;
	for (size_t i = first; i < views->n && i - first < most; i++)
		for (size_t j = 0; j < n_columns; j++)
			columns[j].put(&table, &columns[j], views, &views->view[i]);
	return table_print(&table, output);
}
