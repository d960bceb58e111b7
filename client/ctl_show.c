/* SPDX-License-Identifier: GPL-2.0-or-later */

/* events, tenants: what there is, row by row. */

#include <inttypes.h>

#include "client/ctl.h"
#include "protocol/text.h"

/* A listing: each row that is wanted goes into the table or, as JSON, straight out. */
struct listing {
	uint16_t kind;
	const char *key; /* the field that patterns are held against */
	const struct column *columns;
	size_t n_columns;
	void (*put)(struct table *, const struct ctl *, struct cursor row);
};

static bool is_wanted(const struct ctl *ctl, struct cursor row, const char *key)
{
	struct row_field name;

	if (ctl->argc == 0)
		return true;
	if (!row_find(row, key, &name))
		return false;
	for (int i = 0; i < ctl->argc; i++)
		if (name_matches(ctl->argv[i], (const char *)name.value, name.length))
			return true;
	return false;
}

static int list_rows(struct ctl *ctl, const struct listing *listing, struct control *control, struct table *table,
		     size_t *ret_count)
{
	struct cursor row = { 0 };
	int r;

	r = control_ask(control, listing->kind);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		if (!is_wanted(ctl, row, listing->key))
			continue;
		if (ctl->json) {
			struct json json = { .file = ctl->output.file };

			fputs(*ret_count == 0 ? "[" : ",\n ", ctl->output.file);
			json_row(&json, row);
		} else {
			listing->put(table, ctl, row);
		}
		++*ret_count;
	}
	/* An array that is cut off is no JSON: whoever reads it learns that it is not whole. */
	if (r == 0 && ctl->json)
		fputs(*ret_count == 0 ? "[]\n" : "]\n", ctl->output.file);
	return r;
}

static int run_listing(struct ctl *ctl, const struct listing *listing, size_t *ret_count)
{
	_cleanup_(control_freep) struct control *control = NULL;
	_cleanup_(table_deinit) struct table table = table_make(listing->columns, listing->n_columns);
	int r;

	r = ctl_open_control(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	*ret_count = 0;
	r = list_rows(ctl, listing, control, &table, ret_count);
	if (r == 0 && !ctl->json && *ret_count > 0)
		r = table_print(&table, &ctl->output);
	if (r < 0)
		return control_explain(ctl->control_socket, r, control);
	return ctl_finish(ctl);
}

enum { HOLDERS_SHOWN = 3 };

static void put_holders(struct table *table, const struct ctl *ctl, struct cursor row)
{
	char buffer[8192];
	struct text text = text_make(buffer, sizeof(buffer));
	uint64_t total = row_get_u64(row, "holders_total"), shown = 0;
	struct row_field field;
	struct cursor holders = { 0 }, holder;

	if (row_find(row, "holders", &field) && field.type == ROW_ROWS)
		holders = cursor_make(field.value, field.length);
	while ((ctl->output.full || shown < HOLDERS_SHOWN) && row_next_item(&holders, &holder) > 0) {
		text_printf(&text, "%s%s-%" PRIu64, shown > 0 ? ", " : "", row_string(holder, "comm").text,
			    row_get_u64(holder, "pid"));
		shown++;
	}
	if (total > shown)
		text_printf(&text, "%s%" PRIu64 " more", shown > 0 ? " and " : "", total - shown);
	table_put(table, shown > 0 ? STYLE_PLAIN : STYLE_DIM, buffer);
}

static void put_event(struct table *table, const struct ctl *ctl, struct cursor row)
{
	bool on = row_get_u64(row, "on");
	struct row_field event = { 0 }, description = { 0 };

	row_find(row, "event", &event);
	row_find(row, "description", &description);
	if (description.length > event.length)
		description.length -= event.length + 1;
	else
		event.length = description.length = 0;

	table_put_safe(table, on ? STYLE_GOOD : STYLE_NAME, (const char *)event.value, event.length);
	table_put(table, on ? STYLE_GOOD : STYLE_DIM, on ? "on" : "off");
	table_put_number(table, STYLE_PLAIN, row_get_u64(row, "records"));
	table_put_number(table, row_get_u64(row, "bad") ? STYLE_BAD : STYLE_PLAIN, row_get_u64(row, "bad"));
	put_holders(table, ctl, row);
	table_put_safe(table, STYLE_PLAIN, (const char *)description.value + event.length + 1, description.length);
}

enum { OPTION_FULL = 1 };

static const struct ctl_option listing_options[] = {
	{ "full", NULL, "shorten nothing; name all holders of events", OPTION_FULL },
	{ 0 },
};

static void read_listing_options(struct ctl *ctl)
{
	const char *value;
	bool full = false;

	while (ctl_next_option(ctl, &value) != 0)
		full = true;
	ctl->output.full = full;
}

static int events_run(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "EVENT", COLUMN_PATH }, { "STATE", COLUMN_TEXT },   { "RECORDS", COLUMN_NUMBER },
		{ "BAD", COLUMN_NUMBER }, { "HELD BY", COLUMN_LONG }, { "FIELDS", COLUMN_LONG },
	};
	static const struct listing listing = { KIND_EVENTS, "event", columns, ARRAY_SIZE(columns), put_event };
	size_t count = 0;
	int r;

	read_listing_options(ctl);
	r = run_listing(ctl, &listing, &count);
	if (r == EXIT_DONE && count == 0 && ctl->argc > 0)
		return names_check(ctl, ctl->argv, ctl->argc, false);
	if (r == EXIT_DONE && count == 0 && !ctl->json)
		ctl_note("No program holds any event.");
	return r;
}

static void put_refusals(struct table *table, struct cursor row)
{
	char buffer[1024];
	struct text text = text_make(buffer, sizeof(buffer));
	struct cursor refusals = { 0 }, refusal;
	struct row_field field;

	if (row_find(row, "refusals", &field) && field.type == ROW_ROWS)
		refusals = cursor_make(field.value, field.length);
	while (row_next_item(&refusals, &refusal) > 0)
		text_printf(&text, "%s%s %" PRIu64, buffer[0] ? ", " : "", row_string(refusal, "reason").text,
			    row_get_u64(refusal, "count"));
	table_put(table, STYLE_WARNING, buffer);
}

static void put_tenant(struct table *table, const struct ctl *ctl _unused_, struct cursor row)
{
	static const char *const numbers[] = { "events", "events_max", "lingering", "connections", "records" };
	static const char *const losses[] = { "bad", "lost", "too_big" };
	struct row_field tenant = { 0 };

	row_find(row, "tenant", &tenant);
	table_put_safe(table, STYLE_NAME, (const char *)tenant.value, tenant.length);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		table_put_number(table, STYLE_PLAIN, row_get_u64(row, numbers[i]));
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		table_put_number(table, row_get_u64(row, losses[i]) ? STYLE_BAD : STYLE_PLAIN,
				 row_get_u64(row, losses[i]));
	put_refusals(table, row);
}

static int tenants_run(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "TENANT", COLUMN_PATH },	{ "EVENTS", COLUMN_NUMBER },  { "MAX", COLUMN_NUMBER },
		{ "LINGERING", COLUMN_NUMBER }, { "CLIENTS", COLUMN_NUMBER }, { "RECORDS", COLUMN_NUMBER },
		{ "BAD", COLUMN_NUMBER },	{ "LOST", COLUMN_NUMBER },    { "TOO BIG", COLUMN_NUMBER },
		{ "REFUSED", COLUMN_LONG },
	};
	static const struct listing listing = { KIND_TENANTS, "tenant", columns, ARRAY_SIZE(columns), put_tenant };
	size_t count = 0;
	int r;

	read_listing_options(ctl);
	r = run_listing(ctl, &listing, &count);
	if (r == EXIT_DONE && count == 0 && ctl->argc > 0) {
		ctl_error("no tenant matches. See 'userevctl tenants'.");
		return EXIT_REFUSED;
	}
	if (r == EXIT_DONE && count == 0 && !ctl->json)
		ctl_note("No program is connected.");
	return r;
}

const struct command command_events = {
	.name = "events",
	.arguments = "[GLOB...]",
	.summary = "what programs hold, who, and what is on",
	.help = "Lists the events whose names match one of the GLOBs, or all of them. Columns:\n"
		"name, state, records taken, bad records, holders, fields. In a pipe one tab\n"
		"stands between two columns, and there are no titles.",
	.options = listing_options,
	.run = events_run,
};

const struct command command_tenants = {
	.name = "tenants",
	.arguments = "[GLOB...]",
	.summary = "who uses it, how much, and what was refused",
	.help = "Lists the tenants whose paths match one of the GLOBs, or all of them. Columns:\n"
		"path, events, maximum, lingering events, connections, records, bad, lost,\n"
		"too big, refusals.",
	.options = listing_options,
	.run = tenants_run,
};
