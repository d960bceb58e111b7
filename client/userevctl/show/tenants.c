/* SPDX-License-Identifier: GPL-2.0-or-later */

/* tenants: who uses it, row by row. */

#include "client/userevctl/show/tenants.h"
#include "client/userevctl/ctl.h"
#include "protocol/base/text.h"

enum { OPTION_FULL = 1, OPTION_SORT };

enum tenant_order ctl_tenant_order(const char *value)
{
	for (enum tenant_order order = 0; order < TENANT_ORDERS; order++)
		if (streq(value, tenant_order_names[order]))
			return order;
	ctl_error("--sort=%s: give " TENANT_ORDERS_IN_WORDS ".", ctl_shown(value).text);
	exit(EXIT_USAGE);
}

void ctl_tenant_json(struct json *json, const struct tenant_view *view)
{
	json_begin(json, '{');
	json_key(json, "name", 4);
	json_string(json, view->name.text, strlen(view->name.text));
	json_row_fields(json, view->row);
	json_end(json, '}');
}

static bool is_wanted(const struct ctl *ctl, struct cursor row)
{
	const struct tenant_view view = tenant_view_of(row);

	for (int i = 0; i < ctl->argc; i++)
		if (name_matches(ctl->argv[i], view.path, view.path_length) ||
		    name_matches(ctl->argv[i], view.name.text, strlen(view.name.text)))
			return true;
	return ctl->argc == 0;
}

static void put_limit(struct table *table, uint64_t limit)
{
	if (limit == TENANT_NO_LIMIT)
		table_put(table, STYLE_DIM, "-");
	else
		table_put_number(table, STYLE_PLAIN, limit);
}

static void put_tenant(struct table *table, const struct tenant_view *view)
{
	char refusals[1024];

	tenant_view_refusals(view, refusals, sizeof(refusals));
	table_put_safe(table, STYLE_NAME, view->name.text, strlen(view->name.text));
	table_put_safe(table, STYLE_PLAIN, view->path, view->path_length);
	table_put_number(table, STYLE_PLAIN, view->events);
	put_limit(table, view->events_max);
	table_put_number(table, STYLE_PLAIN, view->reserved);
	table_put_number(table, STYLE_PLAIN, view->lingering);
	table_put_number(table, STYLE_PLAIN, view->connections);
	put_limit(table, view->connections_max);
	table_put_number(table, view->counts.lost > 0 ? STYLE_BAD : STYLE_PLAIN, view->counts.lost);
	table_put_number(table, view->counts.throttled > 0 ? STYLE_WARNING : STYLE_PLAIN, view->counts.throttled);
	table_put(table, STYLE_WARNING, refusals);
}

static int read_tenants(const struct ctl *ctl, struct control *control, struct tenant_views *views)
{
	struct cursor row = { 0 };
	int r;

	r = control_ask(control, KIND_TENANTS);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0)
		if (is_wanted(ctl, row))
			r = tenant_views_add(views, row);
	return r;
}

static int print_table(const struct ctl *ctl, const struct tenant_views *views)
{
	static const struct column columns[] = {
		{ "NAME", COLUMN_PATH },    { "TENANT", COLUMN_PATH },	   { "EVENTS", COLUMN_NUMBER },
		{ "MAX", COLUMN_NUMBER },   { "RESERVE", COLUMN_NUMBER },  { "LINGER", COLUMN_NUMBER },
		{ "CONN", COLUMN_NUMBER },  { "CONN MAX", COLUMN_NUMBER }, { "LOST", COLUMN_NUMBER },
		{ "THROT", COLUMN_NUMBER }, { "REFUSED", COLUMN_LONG },
	};
	_cleanup_(table_deinit) struct table table = table_make(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < views->n; i++)
		put_tenant(&table, &views->view[i]);
	return views->n > 0 ? table_print(&table, &ctl->output) : 0;
}

static void print_json(const struct ctl *ctl, const struct tenant_views *views)
{
	struct json json = { .file = ctl->output.file };

	json_begin(&json, '[');
	for (size_t i = 0; i < views->n; i++) {
		if (i > 0)
			fputs(",\n ", json.file);
		json.comma = false;
		ctl_tenant_json(&json, &views->view[i]);
	}
	json_end(&json, ']');
	putc('\n', json.file);
}

static int list_tenants(struct ctl *ctl, enum tenant_order order, struct tenant_views *views)
{
	_cleanup_(control_freep) struct control *control = NULL;
	int r;

	r = ctl_open_control(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = read_tenants(ctl, control, views);
	tenant_views_sort(views, order);
	if (r == 0 && ctl->json)
		print_json(ctl, views);
	else if (r == 0)
		r = print_table(ctl, views);
	return r < 0 ? control_explain(ctl->control_socket, r, control) : ctl_finish(ctl);
}

static int tenants_run(struct ctl *ctl)
{
	_cleanup_(tenant_views_deinit) struct tenant_views views = { 0 };
	enum tenant_order order = TENANTS_BY_EVENTS;
	const char *value;
	bool full = false;
	int option, r;

	while ((option = ctl_next_option(ctl, &value)) != 0) {
		if (option == OPTION_SORT)
			order = ctl_tenant_order(value);
		else
			full = true;
	}
	ctl->output.full = full;
	r = list_tenants(ctl, order, &views);
	if (r == EXIT_DONE && views.n == 0 && ctl->argc > 0) {
		ctl_error("no tenant matches. See 'userevctl tenants'.");
		return EXIT_REFUSED;
	}
	if (r == EXIT_DONE && views.n == 0 && !ctl->json)
		ctl_note("No program is connected.");
	return r;
}

static const struct ctl_option tenants_options[] = {
	{ "full", NULL, "shorten nothing", OPTION_FULL },
	{ "sort", "KEY", TENANT_ORDERS_IN_WORDS, OPTION_SORT },
	{ 0 },
};

const struct command command_tenants = {
	.name = "tenants",
	.arguments = "[GLOB...]",
	.summary = "who uses it, how much, and what was refused",
	.help = "Lists the tenants whose names or paths match one of the GLOBs, or all of them,\n"
		"those with most events first. Columns: name, path, events, their maximum, how\n"
		"many are reserved, how many linger, connections, their maximum, records lost,\n"
		"requests throttled, refusals.",
	.options = tenants_options,
	.run = tenants_run,
};
