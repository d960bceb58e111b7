/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <inttypes.h>

#include "client/userevctl/show/tenants.h"
#include "protocol/base/array.h"

const char *const tenant_orders[] = { "events", "connections", "refusals", "lost", "throttled", "name", NULL };

void tenant_views_drop(struct tenant_views *views)
{
	struct tenant_view *view = &views->view[--views->n];

	free((void *)view->row.at);
	free((void *)view->before.at);
	free(view->path);
}

void tenant_views_deinit(struct tenant_views *views)
{
	while (views->n > 0)
		tenant_views_drop(views);
	free(views->view);
	free((void *)views->status.at);
	*views = (struct tenant_views){ 0 };
}

void tenant_views_json(const struct tenant_views *views, struct json *json)
{
	json_begin(json, '[');
	for (size_t i = 0; i < views->n; i++) {
		json_begin(json, '{');
		tenant_name_json(&views->view[i].name, json);
		json_row_fields(json, views->view[i].row);
		json_end(json, '}');
	}
	json_end(json, ']');
}

struct tenant_view *tenant_views_add(struct tenant_views *views, struct cursor row)
{
	char path[WIRE_TENANT_MAX + 1];

	row_get_string(row, "tenant", path, sizeof(path));
	views->view = must(array_grow(views->view, views->n, sizeof(*views->view)));
	views->view[views->n] =
		(struct tenant_view){ .row = row_copy(row), .path = must(strdup(path)), .name = *tenant_name(path) };
	return &views->view[views->n++];
}

bool tenant_number(struct cursor row, const char *key, uint64_t *ret)
{
	struct cursor refusals = row_rows(row, "refusals"), refusal;
	struct row_field field = { .type = ROW_U64 };
	bool is_sum = streq(key, "refusals") || streq(key, "lost");

	*ret = row_get_u64(row, key);
	/* The queue was full, or the record was too big or bad. */
	if (streq(key, "lost"))
		*ret += row_get_u64(row, "too_big") + row_get_u64(row, "bad");
	while (streq(key, "refusals") && row_next_item(&refusals, &refusal) > 0)
		*ret += row_get_u64(refusal, "count");
	return is_sum || row_find(row, key, &field);
}

int64_t tenant_change(const struct tenant_view *view, const char *key)
{
	uint64_t now, before;

	tenant_number(view->row, key, &now);
	tenant_number(view->before, key, &before);
	/* A counter that is smaller than before was restarted with the daemon. */
	return (int64_t)(now < before && !streq(key, "events") ? now : now - before);
}

/* A path that was deleted and made again is another cgroup. */
static int compare_identities(const void *left, const void *right)
{
	const struct tenant_view *a = left, *b = right;
	uint64_t id_a = row_get_u64(a->row, "cgroup_id"), id_b = row_get_u64(b->row, "cgroup_id");
	int order = strcmp(a->path, b->path);

	return order != 0 ? order : (id_a > id_b) - (id_a < id_b);
}

static int compare_views(const void *left, const void *right, void *order)
{
	const struct tenant_view *a = left, *b = right;
	uint64_t of_a, of_b;
	int result;

	tenant_number(a->row, order, &of_a);
	tenant_number(b->row, order, &of_b);
	result = streq(order, "name") ? strcmp(a->name.text, b->name.text) : (of_b > of_a) - (of_b < of_a);
	return result != 0 ? result : compare_identities(a, b);
}

void tenant_views_sort(struct tenant_views *views, const char *order)
{
	if (views->n > 0)
		qsort_r(views->view, views->n, sizeof(*views->view), compare_views, (void *)order);
}

void tenant_views_compare(struct tenant_views *now, struct tenant_views *before)
{
	now->seconds = (double)(now->time - before->time) / NS_PER_S;
	if (before->n > 0)
		qsort(before->view, before->n, sizeof(*before->view), compare_identities);
	for (size_t i = 0; i < now->n && before->n > 0; i++) {
		struct tenant_view *same =
			bsearch(&now->view[i], before->view, before->n, sizeof(*before->view), compare_identities);

		if (same)
			now->view[i].before = row_copy(same->row);
	}
}
