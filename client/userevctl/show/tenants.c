/* SPDX-License-Identifier: GPL-2.0-or-later */

/* tenants: a row for each tenant. */

#include "client/userevctl/show/tenants.h"

static int tenants_run(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	_cleanup_(tenant_views_deinit) struct tenant_views views = { 0 };
	const char *sort = "events";
	struct cursor row = { 0 };
	int r;

	options_read(ctl, &sort, 0, INT32_MAX);
	r = control_request(ctl->control_socket, KIND_TENANTS, 0, NULL, 0, &control);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		const struct tenant_view *view = tenant_views_add(&views, row);
		bool wanted = ctl->argc == 0;

		for (int i = 0; i < ctl->argc; i++)
			wanted |= tenant_matches(ctl->argv[i], &view->name, view->path);
		if (!wanted)
			tenant_views_drop(&views);
	}
	if (r < 0)
		return control_explain(ctl->control_socket, r);
	tenant_views_sort(&views, sort);
	if (ctl->output.json)
		tenant_views_json(&views, &(struct json){ .file = ctl->output.file });
	else if (views.n > 0)
		tenant_views_print(&views, &ctl->output, 0, SIZE_MAX, NULL);
	if (views.n == 0 && ctl->argc > 0) {
		ctl_error("no tenant matches. See 'userevctl tenants'.");
		return EXIT_REFUSED;
	}
	if (views.n == 0 && !ctl->output.json)
		ctl_note("No program is connected.");
	return EXIT_DONE;
}

COMMAND(tenants, "[GLOB...]", "events, connections, refusals; top: live", OPTIONS(TENANT_SORT_ROW(0)),
	"Lists the tenants whose names or paths match one of the GLOBs, or all of them,\n"
	"those with most events first. Columns: name, path, events, their maximum,\n"
	"reserved events, lingering events, connections, their maximum, records lost,\n"
	"requests throttled, refusals.");
