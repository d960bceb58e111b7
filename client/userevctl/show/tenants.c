/* SPDX-License-Identifier: GPL-2.0-or-later */

/* tenants: a row for each tenant. */

#include "client/userevctl/show/tenants.h"

static void put_tenant_refusals(struct table *table, const struct tenant_cell *cell)
{
	char refusals[1024];

	tenant_view_refusals(cell->view, refusals, sizeof(refusals));
	table_put(table, cell->column->style, refusals);
}

static const struct tenant_column columns[] = {
	{ { "NAME", COLUMN_PATH }, tenant_put_name, TENANT_NUMBERS, STYLE_PLAIN, 0, NULL },
	{ { "TENANT", COLUMN_PATH }, tenant_put_path, TENANT_NUMBERS, STYLE_PLAIN, 0, NULL },
	{ { "EVENTS", COLUMN_NUMBER }, tenant_put_number, TENANT_EVENTS, STYLE_PLAIN, 0, NULL },
	{ { "MAX", COLUMN_NUMBER }, tenant_put_number, TENANT_EVENTS_MAX, STYLE_PLAIN, 0, NULL },
	{ { "RESERVE", COLUMN_NUMBER }, tenant_put_number, TENANT_RESERVED, STYLE_PLAIN, 0, NULL },
	{ { "LINGER", COLUMN_NUMBER }, tenant_put_number, TENANT_LINGERING, STYLE_PLAIN, 0, NULL },
	{ { "CONN", COLUMN_NUMBER }, tenant_put_number, TENANT_CONNECTIONS, STYLE_PLAIN, 0, NULL },
	{ { "CONN MAX", COLUMN_NUMBER }, tenant_put_number, TENANT_CONNECTIONS_MAX, STYLE_PLAIN, 0, NULL },
	{ { "LOST", COLUMN_NUMBER }, tenant_put_number, TENANT_LOST, STYLE_BAD, 0, NULL },
	{ { "THROT", COLUMN_NUMBER }, tenant_put_number, TENANT_THROTTLED, STYLE_WARNING, 0, NULL },
	{ { "REFUSED", COLUMN_LONG }, put_tenant_refusals, TENANT_NUMBERS, STYLE_WARNING, 0, NULL },
};

static bool tenant_is_wanted(const struct ctl *ctl, const struct tenant_view *view)
{
	for (int i = 0; i < ctl->argc; i++)
		if (name_matches(ctl->argv[i], view->path, view->path_length) ||
		    name_matches(ctl->argv[i], view->name.text, strlen(view->name.text)))
			return true;
	return ctl->argc == 0;
}

static int tenants_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	_cleanup_(tenant_views_deinit) struct tenant_views views = { 0 };
	struct json json = { 0 };
	unsigned order = TENANTS_BY_EVENTS;
	struct cursor row = { 0 };
	int r;

	options_read(ctl, &order, 0, INT32_MAX);
	r = control_open_or_explain(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask(control, KIND_TENANTS);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		const struct tenant_view view = tenant_view_of(row);

		if (tenant_is_wanted(ctl, &view))
			tenant_views_add(&views, row);
	}
	if (r < 0)
		return control_explain(ctl->control_socket, r, control);
	tenant_views_sort(&views, (enum tenant_order)order);
	json.file = ctl->output.file;
	if (ctl->output.json) {
		tenant_views_json(&views, &json);
		putc('\n', json.file);
	} else if (views.n > 0) {
		tenant_views_print(&views, &ctl->output, columns, ARRAY_SIZE(columns), 0, SIZE_MAX, TENANT_ORDERS);
	}
	r = ctl_finish(ctl);
	if (r == EXIT_DONE && views.n == 0 && ctl->argc > 0) {
		ctl_error("no tenant matches. See 'userevctl tenants'.");
		return EXIT_REFUSED;
	}
	if (r == EXIT_DONE && views.n == 0 && !ctl->output.json)
		ctl_note("No program is connected.");
	return r;
}

static const struct ctl_option tenants_options[] = {
	OPTION_FULL("shorten nothing"),
	TENANT_ORDER_OPTION(0),
	{ 0 },
};

const struct command command_tenants = {
	.name = "tenants",
	.arguments = "[GLOB...]",
	.summary = "tenants: events, connections, refusals",
	.help = "Lists the tenants whose names or paths match one of the GLOBs, or all of them,\n"
		"those with most events first. Columns: name, path, events, their maximum,\n"
		"reserved events, lingering events, connections, their maximum, records lost,\n"
		"requests throttled, refusals.",
	.options = tenants_options,
	.run = tenants_run,
};
