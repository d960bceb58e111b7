/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which tracer records: the daemon or the kernel. */

#include "client/userevctl/tracing/tracing.h"

#include "kernel/probe.h"

int tracing_open(struct ctl *ctl, enum tracing_use use, struct tracing **ret)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	int r, exit_code;

	r = control_open(ctl->control_socket, &control);
	if (r == 0)
		r = control_ask_row(control, KIND_STATUS, &row);
	if (control_nobody(r)) {
		exit_code = tracing_tracefs_new(ctl, use, true, ret);
		if (exit_code == EXIT_NO_DAEMON)
			return control_explain(ctl->control_socket, r, NULL);
		if (exit_code == EXIT_DONE)
			ctl_note("userevctl: no daemon runs at %s, so every event here is foreign.",
				 ctl->control_socket);
		return exit_code;
	}
	if (r <= 0)
		return control_explain(ctl->control_socket, r < 0 ? r : -EBADMSG, control);
	if (streq(row_string(row, "backend").text, backend_name(BACKEND_EMBEDDED)))
		return tracing_embedded_new(ctl, ret);
	return tracing_tracefs_new(ctl, use, false, ret);
}

struct tracing *tracing_free(struct tracing *tracing)
{
	if (tracing)
		tracing->ops->free(tracing);
	return NULL;
}

bool tracing_matches(const struct tracing *tracing, const char *pattern, const struct event_view *event)
{
	if (event->foreign && tracing->foreign == FOREIGN_NEVER)
		return false;
	if (event->foreign && tracing->foreign == FOREIGN_BY_NAME)
		return streq(pattern, event->name) || streq(pattern, event->shown);
	return name_matches(pattern, event->name, strlen(event->name)) ||
	       name_matches(pattern, event->shown, strlen(event->shown));
}

bool tracing_matches_any(const struct tracing *tracing, char *const *patterns, int n, const struct event_view *event)
{
	for (int i = 0; i < n; i++)
		if (tracing_matches(tracing, patterns[i], event))
			return true;
	return false;
}

void tracing_note_none_is_on(void)
{
	ctl_note("No event is on: name the events to show, or switch some on with 'userevctl enable'.");
}
