/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/show/tenant_view.h"

#include <inttypes.h>

#include "client/userevctl/output.h"
#include "protocol/base/text.h"

const char *const tenant_order_names[TENANT_ORDERS] = {
	[TENANTS_BY_EVENTS] = "events", [TENANTS_BY_CONNECTIONS] = "connections", [TENANTS_BY_REFUSALS] = "refusals",
	[TENANTS_BY_LOST] = "lost",	[TENANTS_BY_THROTTLED] = "throttled",	  [TENANTS_BY_NAME] = "name",
};

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

static uint64_t count_refusals(struct cursor row)
{
	struct cursor refusals = refusals_of(row), refusal;
	uint64_t count = 0;

	while (row_next_item(&refusals, &refusal) > 0)
		count += row_get_u64(refusal, "count");
	return count;
}

void tenant_view_refusals(const struct tenant_view *view, char *ret, size_t size)
{
	struct cursor refusals = refusals_of(view->row), refusal;
	struct text text = text_make(ret, size);

	while (row_next_item(&refusals, &refusal) > 0)
		text_printf(&text, "%s%s %" PRIu64, text.length > 0 ? ", " : "", row_string(refusal, "reason").text,
			    row_get_u64(refusal, "count"));
}

/* The daemon leaves out what has no limit. */
static uint64_t limit_of(struct cursor row, const char *key)
{
	struct row_field field;

	return row_find(row, key, &field) ? field.number : TENANT_NO_LIMIT;
}

struct tenant_view tenant_view_of(struct cursor row)
{
	struct row_field path = { 0 };

	row_find(row, "tenant", &path);
	return (struct tenant_view){
		.row = row,
		.path = (const char *)path.value,
		.path_length = path.length,
		.name = tenant_name((const char *)path.value, path.length),
		.cgroup_id = row_get_u64(row, "cgroup_id"),
		.connections = row_get_u64(row, "connections"),
		.connections_max = limit_of(row, "connections_max"),
		.files = row_get_u64(row, "files"),
		.events = row_get_u64(row, "events"),
		.events_max = limit_of(row, "events_max"),
		.reserved = row_get_u64(row, "reserved"),
		.lingering = row_get_u64(row, "lingering"),
		.counts = {
			.refused = count_refusals(row),
			.lost = row_get_u64(row, "lost") + row_get_u64(row, "too_big") + row_get_u64(row, "bad"),
			.throttled = row_get_u64(row, "throttled"),
		},
	};
}

static int make_room(struct tenant_views *views)
{
	size_t capacity = MAX(views->capacity * 2, (size_t)16);
	struct tenant_view *view;

	if (views->n < views->capacity)
		return 0;
	view = reallocarray(views->view, capacity, sizeof(*view));
	if (!view)
		return -ENOMEM;
	views->view = view;
	views->capacity = capacity;
	return 0;
}

int tenant_views_add(struct tenant_views *views, struct cursor row)
{
	uint8_t *copy;

	if (make_room(views) < 0)
		return -ENOMEM;
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

/* A path that is deleted and made again is another cgroup. */
static int compare_identities(const struct tenant_view *a, const struct tenant_view *b)
{
	int order = memcmp(a->path, b->path, MIN(a->path_length, b->path_length));

	if (order == 0)
		order = compare_numbers(a->path_length, b->path_length);
	return order != 0 ? order : compare_numbers(a->cgroup_id, b->cgroup_id);
}

static uint64_t number_of(const struct tenant_view *view, enum tenant_order order)
{
	switch (order) {
	case TENANTS_BY_EVENTS:
		return view->events;
	case TENANTS_BY_CONNECTIONS:
		return view->connections;
	case TENANTS_BY_REFUSALS:
		return view->counts.refused;
	case TENANTS_BY_LOST:
		return view->counts.lost;
	case TENANTS_BY_THROTTLED:
		return view->counts.throttled;
	case TENANTS_BY_NAME:
	case TENANT_ORDERS:
		break;
	}
	return 0;
}

static int compare_views(const void *left, const void *right, void *data)
{
	const struct tenant_view *a = left, *b = right;
	enum tenant_order order = *(const enum tenant_order *)data;
	int result = order == TENANTS_BY_NAME ? strcmp(a->name.text, b->name.text)
					      : compare_numbers(number_of(b, order), number_of(a, order));

	return result != 0 ? result : compare_identities(a, b);
}

void tenant_views_sort(struct tenant_views *views, enum tenant_order order)
{
	if (views->n > 0)
		qsort_r(views->view, views->n, sizeof(*views->view), compare_views, &order);
}

/* Of a list that is kept in another order. */
struct entry {
	const struct tenant_view *view;
};

static int compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return compare_identities(a->view, b->view);
}

/* Sorted, as it is searched once for each of now's. */
static struct entry *index_views(const struct tenant_views *views)
{
	struct entry *index = calloc(views->n + 1, sizeof(*index));

	if (!index)
		return NULL;
	for (size_t i = 0; i < views->n; i++)
		index[i].view = &views->view[i];
	qsort(index, views->n, sizeof(*index), compare_entries);
	return index;
}

/* Less than before: the daemon is another one, and counts anew. */
static uint64_t growth(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

static void fill_in_change(struct tenant_view *now, const struct tenant_view *before)
{
	now->events_change = (int64_t)(now->events - before->events);
	now->change.refused = growth(now->counts.refused, before->counts.refused);
	now->change.lost = growth(now->counts.lost, before->counts.lost);
	now->change.throttled = growth(now->counts.throttled, before->counts.throttled);
}

int tenant_views_compare(struct tenant_views *now, const struct tenant_views *before)
{
	static const struct tenant_view nothing;
	_cleanup_(freep) struct entry *index = index_views(before);

	if (!index)
		return -ENOMEM;
	for (size_t i = 0; i < now->n; i++) {
		const struct entry key = { &now->view[i] };
		const struct entry *found = bsearch(&key, index, before->n, sizeof(*index), compare_entries);

		fill_in_change(&now->view[i], found ? found->view : &nothing);
	}
	return 0;
}
