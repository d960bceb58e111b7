/* SPDX-License-Identifier: GPL-2.0-or-later */

/* events: the events, their tracers and their holders. `status` ends with the same table. */

#include <inttypes.h>

#include "client/userevctl/show/show.h"
#include "protocol/base/text.h"

enum { SHOWN_MAX = 3 }; /* holders and tenants, without --full */

static void put_event(struct table *table, const struct tracing *tracing _unused_, const struct event *event)
{
	table_put(table, event->on ? STYLE_GOOD : STYLE_NAME, event->shown);
}

static void put_state(struct table *table, const struct tracing *tracing, const struct event *event)
{
	table_put(table, event->on ? STYLE_GOOD : STYLE_DIM, tracing->blind ? "-" : event->on ? "on" : "off");
}

static void put_used_by(struct table *table, const struct tracing *tracing _unused_, const struct event *event)
{
	char buffer[64];
	struct text text = text_make(buffer, sizeof(buffer));

	for (size_t i = 0; i < USERS; i++)
		if (event->used_by & 1U << i)
			text_printf(&text, "%s%s", text.length > 0 ? ", " : "", user_names[i]);
	table_put(table, text.length > 0 ? STYLE_GOOD : STYLE_DIM, buffer);
}

static void put_records(struct table *table, const struct tracing *tracing _unused_, const struct event *event)
{
	table_put_number(table, STYLE_PLAIN, row_get_u64(event->row, "records"));
}

static void put_bad(struct table *table, const struct tracing *tracing _unused_, const struct event *event)
{
	uint64_t bad = row_get_u64(event->row, "bad");

	table_put_number(table, bad > 0 ? STYLE_BAD : STYLE_PLAIN, bad);
}

static void put_fields(struct table *table, const struct tracing *tracing _unused_, const struct event *event)
{
	const char *fields = tracing_fields(event);

	table_put(table, STYLE_PLAIN, fields ? fields : "");
}

/* "… and 7 more" */
static void put_list(struct table *table, struct text *list, uint64_t shown, uint64_t total)
{
	if (total > shown)
		text_printf(list, "%s%" PRIu64 " more", shown > 0 ? " and " : "", total - shown);
	table_put(table, shown > 0 ? STYLE_PLAIN : STYLE_DIM, list->buffer);
}

static void put_event_holders(struct table *table, const struct tracing *tracing, const struct event *event)
{
	char buffer[8192];
	struct text text = text_make(buffer, sizeof(buffer));
	struct cursor holders = row_rows(event->row, "holders"), holder;
	uint64_t shown = 0;

	if (event->foreign) {
		table_put(table, STYLE_WARNING, "foreign");
		return;
	}
	for (; (tracing->ctl->output.full || shown < SHOWN_MAX) && row_next_item(&holders, &holder) > 0; shown++)
		text_printf(&text, "%s%s-%" PRIu64, shown > 0 ? ", " : "", row_string(holder, "comm").text,
			    row_get_u64(holder, "pid"));
	put_list(table, &text, shown, row_get_u64(event->row, "holders_total"));
}

/* The tenant of the next holder that has another tenant than all holders before it. */
static bool next_tenant(struct cursor all, struct cursor *holders, struct row_field *ret)
{
	struct cursor holder;

	while (row_next_item(holders, &holder) > 0 && row_find(holder, "tenant", ret)) {
		struct row_field field = { 0 };

		for (struct cursor at = all; row_next_item(&at, &holder) > 0 && row_find(holder, "tenant", &field);)
			if (field.length == ret->length && memcmp(field.value, ret->value, field.length) == 0)
				break;
		if (field.value == ret->value)
			return true;
	}
	return false;
}

static void put_tenants(struct table *table, const struct tracing *tracing, const struct event *event)
{
	static char buffer[16 * WIRE_TENANT_MAX];
	struct text text = text_make(buffer, sizeof(buffer));
	struct cursor all = row_rows(event->row, "holders"), holders = all;
	uint64_t shown = 0, total = 0;
	struct row_field tenant;

	for (; next_tenant(all, &holders, &tenant); total++) {
		if (!tracing->ctl->output.full && shown == SHOWN_MAX)
			continue;
		text_printf(&text, "%s", shown++ > 0 ? ", " : "");
		text_safe(&text, (const char *)tenant.value, tenant.length);
	}
	put_list(table, &text, shown, MAX(total, row_get_u64(event->row, "tenants")));
}

/* The daemon counts the records that it takes; the kernel tells tracers apart. */
enum columns_for {
	EVENTS_OF_DAEMON = 1 << 0,
	EVENTS_OF_KERNEL = 1 << 1,
	STATUS_OF_DAEMON = 1 << 2,
	STATUS_OF_KERNEL = 1 << 3,
	KERNEL = EVENTS_OF_KERNEL | STATUS_OF_KERNEL,
	ALL = EVENTS_OF_DAEMON | STATUS_OF_DAEMON | KERNEL,
};

static const struct {
	struct column column;
	unsigned in; /* of enum columns_for */
	void (*put)(struct table *, const struct tracing *, const struct event *);
} columns[] = {
	{ { "EVENT", COLUMN_PATH, 0 }, ALL, put_event },
	{ { "STATE", COLUMN_TEXT, 0 }, ALL, put_state },
	{ { "USED BY", COLUMN_TEXT, 0 }, KERNEL, put_used_by },
	{ { "RECORDS", COLUMN_NUMBER, 0 }, EVENTS_OF_DAEMON, put_records },
	{ { "BAD", COLUMN_NUMBER, 0 }, EVENTS_OF_DAEMON, put_bad },
	{ { "HELD BY", COLUMN_LONG, 0 }, ALL, put_event_holders },
	{ { "TENANTS", COLUMN_LIST, 0 }, KERNEL | STATUS_OF_DAEMON, put_tenants },
	{ { "FIELDS", COLUMN_LONG, 0 }, EVENTS_OF_DAEMON | EVENTS_OF_KERNEL, put_fields },
};

/* All fields of the daemon's row, and behind them those of tracefs. */
static void event_json(struct json *json, const struct tracing *tracing, const struct event *event)
{
	char text[4 * WIRE_DESCRIPTION_MAX];

	json_line(json, '{');
	json_row_fields(json, event->row);
	if (event->foreign) {
		const char *fields = tracing_fields(event);

		snprintf(text, sizeof(text), "%s%s%s", event->shown, fields && fields[0] ? " " : "",
			 fields ? fields : "");
		json_put(json, json_text("event", event->shown), json_text("description", fields ? text : NULL),
			 json_bool("foreign", true));
	}
	if (tracing->kernel && !tracing->blind) {
		json_put(json, json_bool("on", event->on));
		json_put_begin(json, "used_by", '[');
		for (size_t i = 0; i < USERS; i++)
			if (event->used_by & 1U << i)
				json_string(json, user_names[i], strlen(user_names[i]));
		json_end(json, ']');
	}
	if (event->system) {
		snprintf(text, sizeof(text), "%s:%s", event->system, event->shown);
		json_put(json, json_text("tracefs", text));
	}
	json_end(json, '}');
}

size_t events_print(const struct tracing *tracing, bool in_status)
{
	unsigned in = (in_status ? STATUS_OF_DAEMON : EVENTS_OF_DAEMON) << (tracing->kernel ? 1 : 0);
	struct column chosen[ARRAY_SIZE(columns)] = { 0 };
	_cleanup_(table_deinit) struct table table = table_make(chosen, 0);
	const struct event *event = NULL;
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (columns[i].in & in)
			chosen[table.n_columns++] = columns[i].column;
	for (; (event = tracing_next(tracing, event)); count++)
		for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
			if (columns[i].in & in)
				columns[i].put(&table, tracing, event);
	if (count > 0)
		table_print(&table, &tracing->ctl->output);
	return count;
}

size_t events_print_json(const struct tracing *tracing, struct json *json)
{
	const struct event *event = NULL;
	size_t count = 0;

	json_begin(json, '[');
	for (; (event = tracing_next(tracing, event)); count++)
		event_json(json, tracing, event);
	json_end(json, ']');
	return count;
}

static int events_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	size_t count;
	int r;

	options_read(ctl, ctl, 0, INT32_MAX);
	r = tracing_open(ctl, TRACING_LOOK, &tracing);
	if (r == EXIT_DONE)
		r = tracing_look(tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = FOREIGN_ALL;
	if (ctl->output.json) {
		count = events_print_json(tracing, &(struct json){ .file = ctl->output.file });
		putc('\n', ctl->output.file);
	} else {
		count = events_print(tracing, false);
	}
	r = ctl_finish(ctl);
	if (r == EXIT_DONE && count == 0 && ctl->argc > 0)
		return names_check(tracing, false);
	if (r == EXIT_DONE && count == 0 && !ctl->output.json)
		ctl_note("No program holds any event.");
	return r;
}

static const struct option_row events_options[] = {
	FLAG_ROW("full", struct ctl, output.full, "shorten nothing; name all holders and tenants"),
	{ 0 },
};

COMMAND(events, "[GLOB...]", "events, their state and their holders", events_options,
	"Lists the events whose names match one of the GLOBs, or all of them. Columns:\n"
	"name, state, records taken, bad records, holders, fields; with the kernel's\n"
	"backends: name, state, the tracers that use it (ftrace, perf, other), holders,\n"
	"tenants, fields. In a pipe one tab stands between two columns, and there are no\n"
	"titles. Events that were made without the daemon are marked as foreign.");
