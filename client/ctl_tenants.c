/* SPDX-License-Identifier: GPL-2.0-or-later */

/* tenants: who uses it, row by row. */

#include <inttypes.h>

#include "client/ctl.h"
#include "protocol/text.h"

static bool is_wanted(const struct ctl *ctl, struct cursor row)
{
	struct row_field name;

	if (ctl->argc == 0)
		return true;
	if (!row_find(row, "tenant", &name))
		return false;
	for (int i = 0; i < ctl->argc; i++)
		if (name_matches(ctl->argv[i], (const char *)name.value, name.length))
			return true;
	return false;
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

/* Only the embedded backend counts records. */
static void put_count(struct table *table, enum style style, struct cursor row, const char *key)
{
	struct row_field field;

	if (row_find(row, key, &field))
		table_put_number(table, field.number > 0 ? style : STYLE_PLAIN, field.number);
	else
		table_put(table, STYLE_DIM, "-");
}

static void put_tenant(struct table *table, struct cursor row)
{
	static const char *const numbers[] = { "events", "events_max", "lingering", "connections", "records" };
	static const char *const losses[] = { "bad", "lost", "too_big" };
	struct row_field tenant = { 0 };

	row_find(row, "tenant", &tenant);
	table_put_safe(table, STYLE_NAME, (const char *)tenant.value, tenant.length);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		put_count(table, STYLE_PLAIN, row, numbers[i]);
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		put_count(table, STYLE_BAD, row, losses[i]);
	put_refusals(table, row);
}

static int list_rows(struct ctl *ctl, struct control *control, struct table *table, size_t *ret_count)
{
	struct cursor row = { 0 };
	int r;

	r = control_ask(control, KIND_TENANTS);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		if (!is_wanted(ctl, row))
			continue;
		if (ctl->json) {
			struct json json = { .file = ctl->output.file };

			fputs(*ret_count == 0 ? "[" : ",\n ", ctl->output.file);
			json_row(&json, row);
		} else {
			put_tenant(table, row);
		}
		++*ret_count;
	}
	/* An array that is cut off is no JSON: whoever reads it learns that it is not whole. */
	if (r == 0 && ctl->json)
		fputs(*ret_count == 0 ? "[]\n" : "]\n", ctl->output.file);
	return r;
}

static int list_tenants(struct ctl *ctl, size_t *ret_count)
{
	static const struct column columns[] = {
		{ "TENANT", COLUMN_PATH },	{ "EVENTS", COLUMN_NUMBER },  { "MAX", COLUMN_NUMBER },
		{ "LINGERING", COLUMN_NUMBER }, { "CLIENTS", COLUMN_NUMBER }, { "RECORDS", COLUMN_NUMBER },
		{ "BAD", COLUMN_NUMBER },	{ "LOST", COLUMN_NUMBER },    { "TOO BIG", COLUMN_NUMBER },
		{ "REFUSED", COLUMN_LONG },
	};
	_cleanup_(control_freep) struct control *control = NULL;
	_cleanup_(table_deinit) struct table table = table_make(columns, ARRAY_SIZE(columns));
	int r;

	r = ctl_open_control(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = list_rows(ctl, control, &table, ret_count);
	if (r == 0 && !ctl->json && *ret_count > 0)
		r = table_print(&table, &ctl->output);
	if (r < 0)
		return control_explain(ctl->control_socket, r, control);
	return ctl_finish(ctl);
}

static int tenants_run(struct ctl *ctl)
{
	const char *value;
	bool full = false;
	size_t count = 0;
	int r;

	while (ctl_next_option(ctl, &value) != 0)
		full = true;
	ctl->output.full = full;
	r = list_tenants(ctl, &count);
	if (r == EXIT_DONE && count == 0 && ctl->argc > 0) {
		ctl_error("no tenant matches. See 'userevctl tenants'.");
		return EXIT_REFUSED;
	}
	if (r == EXIT_DONE && count == 0 && !ctl->json)
		ctl_note("No program is connected.");
	return r;
}

static const struct ctl_option tenants_options[] = {
	{ "full", NULL, "shorten nothing", 1 },
	{ 0 },
};

const struct command command_tenants = {
	.name = "tenants",
	.arguments = "[GLOB...]",
	.summary = "who uses it, how much, and what was refused",
	.help = "Lists the tenants whose paths match one of the GLOBs, or all of them. Columns:\n"
		"path, events, maximum, lingering events, connections, records, bad, lost,\n"
		"too big, refusals.",
	.options = tenants_options,
	.run = tenants_run,
};
