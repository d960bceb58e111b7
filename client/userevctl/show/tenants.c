/* SPDX-License-Identifier: GPL-2.0-or-later */

/* tenants: a row for each tenant. */

#include "client/userevctl/show/tenant_view.h"

struct tenants {
	struct tenant_views views;
	enum tenant_order order;
	bool full;
};

void option_tenant_order(const struct ctl_option *option _unused_, const char *value, void *variable)
{
	for (enum tenant_order order = 0; order < TENANT_ORDERS; order++) {
		if (!streq(value, tenant_order_names[order]))
			continue;
		*(enum tenant_order *)variable = order;
		return;
	}
	ctl_error("--sort=%s: give " TENANT_ORDERS_IN_WORDS ".", ctl_shown(value).text);
	exit(EXIT_USAGE);
}

static void put_tenant_refusals(struct table *table, const struct tenant_column *column,
				const struct tenant_views *views _unused_, const struct tenant_view *view)
{
	char refusals[1024];

	tenant_view_refusals(view, refusals, sizeof(refusals));
	table_put(table, column->style, refusals);
}

static const struct tenant_column tenants_columns[] = {
	TENANT_COLUMN("NAME", COLUMN_PATH, tenant_put_name),
	TENANT_COLUMN("TENANT", COLUMN_PATH, tenant_put_path),
	TENANT_NUMBER("EVENTS", tenant_put_number, events, STYLE_PLAIN),
	TENANT_NUMBER("MAX", tenant_put_number, events_max, STYLE_PLAIN),
	TENANT_NUMBER("RESERVE", tenant_put_number, reserved, STYLE_PLAIN),
	TENANT_NUMBER("LINGER", tenant_put_number, lingering, STYLE_PLAIN),
	TENANT_NUMBER("CONN", tenant_put_number, connections, STYLE_PLAIN),
	TENANT_NUMBER("CONN MAX", tenant_put_number, connections_max, STYLE_PLAIN),
	TENANT_NUMBER("LOST", tenant_put_number, counts.lost, STYLE_BAD),
	TENANT_NUMBER("THROT", tenant_put_number, counts.throttled, STYLE_WARNING),
	TENANT_COLUMN("REFUSED", COLUMN_LONG, put_tenant_refusals, .style = STYLE_WARNING),
};

static bool tenant_is_wanted(const struct ctl *ctl, const struct tenant_view *view)
{
	for (int i = 0; i < ctl->argc; i++)
		if (name_matches(ctl->argv[i], view->path, view->path_length) ||
		    name_matches(ctl->argv[i], view->name.text, strlen(view->name.text)))
			return true;
	return ctl->argc == 0;
}

static void tenants_print_json(const struct tenant_views *views, FILE *file)
{
	struct json json = { .file = file };

	json_begin(&json, '[');
	for (size_t i = 0; i < views->n; i++) {
		if (i > 0)
			fputs(",\n ", json.file);
		json.comma = false;
		tenant_view_json(&views->view[i], &json);
	}
	json_end(&json, ']');
	putc('\n', json.file);
}

static int list_tenants(struct ctl *ctl, struct tenants *tenants)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct tenant_views *views = &tenants->views;
	struct cursor row = { 0 };
	int r;

	r = control_open_or_explain(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask(control, KIND_TENANTS);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		const struct tenant_view view = tenant_view_of(row);

		if (tenant_is_wanted(ctl, &view))
			r = tenant_views_add(views, row);
	}
	tenant_views_sort(views, tenants->order);
	if (r == 0 && ctl->json)
		tenants_print_json(views, ctl->output.file);
	else if (r == 0 && views->n > 0)
		r = tenant_views_print(views, &ctl->output, tenants_columns, ARRAY_SIZE(tenants_columns), 0, SIZE_MAX,
				       TENANT_ORDERS);
	return r < 0 ? control_explain(ctl->control_socket, r, control) : ctl_finish(ctl);
}

static int tenants_run(struct ctl *ctl)
{
	struct tenants tenants = { .order = TENANTS_BY_EVENTS };
	size_t n;
	int r;

	options_read(ctl, &tenants, 0, INT32_MAX);
	ctl->output.full = tenants.full;
	r = list_tenants(ctl, &tenants);
	n = tenants.views.n;
	tenant_views_deinit(&tenants.views);
	if (r == EXIT_DONE && n == 0 && ctl->argc > 0) {
		ctl_error("no tenant matches. See 'userevctl tenants'.");
		return EXIT_REFUSED;
	}
	if (r == EXIT_DONE && n == 0 && !ctl->json)
		ctl_note("No program is connected.");
	return r;
}

static const struct ctl_option tenants_options[] = {
	OPTION("full", NULL, "shorten nothing", option_flag, .offset = offsetof(struct tenants, full)),
	OPTION("sort", "KEY", TENANT_ORDERS_IN_WORDS, option_tenant_order, .offset = offsetof(struct tenants, order)),
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
