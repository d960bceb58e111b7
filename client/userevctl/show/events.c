/* SPDX-License-Identifier: GPL-2.0-or-later */

/* events: what there is, who traces it, who holds it. A status ends with the same. */

#include <inttypes.h>

#include "client/userevctl/tracing/tracer.h"
#include "protocol/base/text.h"

enum { SHOWN_MAX = 3 }; /* holders, and tenants, unless all are wanted */

enum cell_kind {
	CELL_EVENT,
	CELL_STATE,
	CELL_USED_BY,
	CELL_RECORDS,
	CELL_BAD,
	CELL_HELD_BY,
	CELL_TENANTS,
	CELL_FIELDS
};

static const struct column all_columns[] = {
	[CELL_EVENT] = { "EVENT", COLUMN_PATH },     [CELL_STATE] = { "STATE", COLUMN_TEXT },
	[CELL_USED_BY] = { "USED BY", COLUMN_TEXT }, [CELL_RECORDS] = { "RECORDS", COLUMN_NUMBER },
	[CELL_BAD] = { "BAD", COLUMN_NUMBER },	     [CELL_HELD_BY] = { "HELD BY", COLUMN_LONG },
	[CELL_TENANTS] = { "TENANTS", COLUMN_LIST }, [CELL_FIELDS] = { "FIELDS", COLUMN_LONG },
};

enum { CELLS_MAX = ARRAY_SIZE(all_columns) };

struct layout {
	size_t n;
	enum cell_kind cell[CELLS_MAX];
};

/* Who counts the records: the daemon. Who tells tracers apart: the kernel. */
static const struct layout events_of_daemon = {
	6, { CELL_EVENT, CELL_STATE, CELL_RECORDS, CELL_BAD, CELL_HELD_BY, CELL_FIELDS }
};
static const struct layout events_of_kernel = {
	6, { CELL_EVENT, CELL_STATE, CELL_USED_BY, CELL_HELD_BY, CELL_TENANTS, CELL_FIELDS }
};
static const struct layout status_of_daemon = { 4, { CELL_EVENT, CELL_STATE, CELL_HELD_BY, CELL_TENANTS } };
static const struct layout status_of_kernel = { 5,
						{ CELL_EVENT, CELL_STATE, CELL_USED_BY, CELL_HELD_BY, CELL_TENANTS } };

static const char *const user_names[] = { "ftrace", "perf", "other" };

static void put_used_by(struct table *table, const struct event_view *event)
{
	char buffer[64];
	struct text text = text_make(buffer, sizeof(buffer));

	for (size_t i = 0; i < ARRAY_SIZE(user_names); i++)
		if (event->used_by & 1U << i)
			text_printf(&text, "%s%s", text.length > 0 ? ", " : "", user_names[i]);
	table_put(table, text.length > 0 ? STYLE_GOOD : STYLE_DIM, buffer);
}

static void put_state(struct table *table, const struct event_view *event)
{
	if (event->state_known)
		table_put(table, event->on ? STYLE_GOOD : STYLE_DIM, event->on ? "on" : "off");
	else
		table_put(table, STYLE_DIM, "-");
}

static struct cursor holders_of(const struct event_view *event)
{
	struct row_field field;

	if (row_find(event->row, "holders", &field) && field.type == ROW_ROWS)
		return cursor_make(field.value, field.length);
	return (struct cursor){ 0 };
}

/* "and 7 more", unless all were shown; "-" where there are none. */
static void put_list(struct table *table, struct text *list, uint64_t shown, uint64_t total)
{
	if (total > shown)
		text_printf(list, "%s%" PRIu64 " more", shown > 0 ? " and " : "", total - shown);
	table_put(table, shown > 0 ? STYLE_PLAIN : STYLE_DIM, list->buffer);
}

static void put_holders(struct table *table, const struct output *output, const struct event_view *event)
{
	char buffer[8192];
	struct text text = text_make(buffer, sizeof(buffer));
	struct cursor holders = holders_of(event), holder;
	uint64_t shown = 0;

	if (event->foreign) {
		table_put(table, STYLE_WARNING, "foreign");
		return;
	}
	while ((output->full || shown < SHOWN_MAX) && row_next_item(&holders, &holder) > 0) {
		text_printf(&text, "%s%s-%" PRIu64, shown > 0 ? ", " : "", row_string(holder, "comm").text,
			    row_get_u64(holder, "pid"));
		shown++;
	}
	put_list(table, &text, shown, row_get_u64(event->row, "holders_total"));
}

/* Whether one of the holders before this one is of the same tenant. */
static bool is_repeated(struct cursor holders, const uint8_t *tenant, size_t length)
{
	struct cursor holder;
	struct row_field field;

	while (row_next_item(&holders, &holder) > 0 && row_find(holder, "tenant", &field) && field.value != tenant)
		if (field.length == length && memcmp(field.value, tenant, length) == 0)
			return true;
	return false;
}

static void put_tenants(struct table *table, const struct output *output, const struct event_view *event)
{
	static char buffer[16 * WIRE_TENANT_MAX];
	struct text text = text_make(buffer, sizeof(buffer));
	const struct cursor all = holders_of(event);
	struct cursor holders = all, holder;
	uint64_t shown = 0, total = 0;
	struct row_field field;

	while (row_next_item(&holders, &holder) > 0 && row_find(holder, "tenant", &field)) {
		if (is_repeated(all, field.value, field.length))
			continue;
		total++;
		if (!output->full && shown == SHOWN_MAX)
			continue;
		text_printf(&text, "%s", shown > 0 ? ", " : "");
		text_safe(&text, (const char *)field.value, field.length);
		shown++;
	}
	put_list(table, &text, shown, MAX(total, row_get_u64(event->row, "tenants")));
}

static void put_cell(struct table *table, const struct output *output, const struct event_view *event,
		     enum cell_kind cell)
{
	switch (cell) {
	case CELL_EVENT:
		table_put_safe(table, event->on ? STYLE_GOOD : STYLE_NAME, event->shown, strlen(event->shown));
		break;
	case CELL_STATE:
		put_state(table, event);
		break;
	case CELL_USED_BY:
		put_used_by(table, event);
		break;
	case CELL_RECORDS:
		table_put_number(table, STYLE_PLAIN, row_get_u64(event->row, "records"));
		break;
	case CELL_BAD:
		table_put_number(table, row_get_u64(event->row, "bad") ? STYLE_BAD : STYLE_PLAIN,
				 row_get_u64(event->row, "bad"));
		break;
	case CELL_HELD_BY:
		put_holders(table, output, event);
		break;
	case CELL_TENANTS:
		put_tenants(table, output, event);
		break;
	case CELL_FIELDS:
		table_put_safe(table, STYLE_PLAIN, event->fields ? event->fields : "",
			       event->fields ? strlen(event->fields) : 0);
		break;
	}
}

static void json_text(struct json *json, const char *key, const char *text)
{
	json_key(json, key, strlen(key));
	json_string(json, text, strlen(text));
}

static void json_description(struct json *json, const struct event_view *event)
{
	char buffer[4 * WIRE_DESCRIPTION_MAX];
	struct text text = text_make(buffer, sizeof(buffer));

	text_printf(&text, "%s%s%s", event->shown, event->fields[0] ? " " : "", event->fields);
	json_text(json, "description", buffer);
}

static void json_users(struct json *json, const struct event_view *event)
{
	json_key(json, "on", 2);
	json_bool(json, event->on);
	json_key(json, "used_by", 7);
	json_begin(json, '[');
	for (size_t i = 0; i < ARRAY_SIZE(user_names); i++)
		if (event->used_by & 1U << i)
			json_string(json, user_names[i], strlen(user_names[i]));
	json_end(json, ']');
}

/* What the daemon says, whole; what tracefs does, behind it. */
static void json_event(struct json *json, bool kernel, const struct event_view *event)
{
	char name[2 * WIRE_DESCRIPTION_MAX];

	json_begin(json, '{');
	json_row_fields(json, event->row);
	if (event->foreign) {
		json_text(json, "event", event->shown);
		if (event->fields)
			json_description(json, event);
		json_key(json, "foreign", 7);
		json_bool(json, true);
	}
	if (kernel && event->state_known)
		json_users(json, event);
	if (event->system) {
		snprintf(name, sizeof(name), "%s:%s", event->system, event->shown);
		json_text(json, "tracefs", name);
	}
	json_end(json, '}');
}

struct listing {
	const struct output *output;
	const struct layout *layout;
	struct table *table; /* NULL: JSON */
	struct json *json;
	bool kernel;
	size_t count;
};

static void take_event(void *data, const struct event_view *event)
{
	struct listing *listing = data;

	listing->count++;
	if (!listing->table) {
		if (listing->count > 1)
			fputs(",\n ", listing->output->file);
		listing->json->comma = false;
		json_event(listing->json, listing->kernel, event);
		return;
	}
	for (size_t i = 0; i < listing->layout->n; i++)
		put_cell(listing->table, listing->output, event, listing->layout->cell[i]);
}

static int print_table(struct ctl *ctl, struct tracing *tracing, const struct layout *layout, size_t *ret_count)
{
	struct column columns[CELLS_MAX] = { 0 };
	_cleanup_(table_deinit) struct table table = table_make(columns, layout->n);
	struct listing listing = { .output = &ctl->output, .layout = layout, .table = &table };
	int r;

	for (size_t i = 0; i < layout->n; i++)
		columns[i] = all_columns[layout->cell[i]];
	r = tracing->ops->list(tracing, ctl->argv, ctl->argc, true, take_event, &listing);
	*ret_count = listing.count;
	if (r == EXIT_DONE && listing.count > 0 && table_print(&table, &ctl->output) < 0)
		return control_explain(ctl->control_socket, -ENOMEM, NULL);
	return r;
}

/* An array that is cut off is no JSON: whoever reads it learns that it is not whole. */
static int print_json(struct ctl *ctl, struct tracing *tracing, struct json *json, size_t *ret_count)
{
	struct listing listing = { .output = &ctl->output, .json = json, .kernel = tracing->kernel };
	int r;

	json_begin(json, '[');
	r = tracing->ops->list(tracing, ctl->argv, ctl->argc, true, take_event, &listing);
	if (r == EXIT_DONE)
		json_end(json, ']');
	*ret_count = listing.count;
	return r;
}

int events_table(struct ctl *ctl, struct tracing *tracing)
{
	size_t count;

	return print_table(ctl, tracing, tracing->kernel ? &status_of_kernel : &status_of_daemon, &count);
}

int events_json(struct ctl *ctl, struct tracing *tracing, struct json *json)
{
	size_t count;

	return print_json(ctl, tracing, json, &count);
}

static int list_events(struct ctl *ctl, struct tracing *tracing, size_t *ret_count)
{
	struct json json = { .file = ctl->output.file };
	int r;

	if (!ctl->json)
		return print_table(ctl, tracing, tracing->kernel ? &events_of_kernel : &events_of_daemon, ret_count);
	r = print_json(ctl, tracing, &json, ret_count);
	if (r == EXIT_DONE)
		putc('\n', ctl->output.file);
	return r;
}

static int events_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	const char *value;
	bool full = false;
	size_t count = 0;
	int r;

	while (ctl_next_option(ctl, &value) != 0)
		full = true;
	ctl->output.full = full;
	r = tracing_open(ctl, TRACING_LOOK, &tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = FOREIGN_ALL;
	r = list_events(ctl, tracing, &count);
	if (r == EXIT_DONE)
		r = ctl_finish(ctl);
	if (r == EXIT_DONE && count == 0 && ctl->argc > 0)
		return names_check(tracing, ctl->argv, ctl->argc, false);
	if (r == EXIT_DONE && count == 0 && !ctl->json)
		ctl_note("No program holds any event.");
	return r;
}

static const struct ctl_option events_options[] = {
	{ "full", NULL, "shorten nothing; name all holders and tenants", 1 },
	{ 0 },
};

const struct command command_events = {
	.name = "events",
	.arguments = "[GLOB...]",
	.summary = "what programs hold, who, and what is on",
	.help = "Lists the events whose names match one of the GLOBs, or all of them. Columns:\n"
		"name, state, records taken, bad records, holders, fields; where the kernel\n"
		"records: name, state, which tracers use it (ftrace, perf, other), holders,\n"
		"tenants, fields. In a pipe one tab stands between two columns, and there are no\n"
		"titles. Events that somebody made without the daemon are marked as foreign.",
	.options = events_options,
	.run = events_run,
};
