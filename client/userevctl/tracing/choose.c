/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Who records here: the daemon or the kernel? */

#include "client/userevctl/tracing/tracer.h"
#include "kernel/probe.h"

/* The daemon's backend: 0, or a negative errno. */
static int ask_backend(struct ctl *ctl, struct control **ret, struct safe_string *ret_backend)
{
	struct cursor row = { 0 };
	int r;

	r = control_open(ctl->control_socket, ret);
	if (r == 0)
		r = control_ask_row(*ret, KIND_STATUS, &row);
	if (r <= 0)
		return r < 0 ? r : -EBADMSG;
	*ret_backend = row_string(row, "backend");
	return 0;
}

static int open_without_daemon(struct ctl *ctl, enum tracing_use use, int error, struct tracing **ret)
{
	int r = tracing_tracefs_new(ctl, use, true, ret);

	if (r == EXIT_NO_DAEMON)
		return control_explain(ctl->control_socket, error, NULL);
	if (r == EXIT_DONE)
		ctl_note("userevctl: no daemon runs at %s, so that every event here is foreign.", ctl->control_socket);
	return r;
}

int tracing_open(struct ctl *ctl, enum tracing_use use, struct tracing **ret)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct safe_string backend;
	int r;

	r = ask_backend(ctl, &control, &backend);
	if (control_nobody(r))
		return open_without_daemon(ctl, use, r, ret);
	if (r < 0)
		return control_explain(ctl->control_socket, r, control);
	if (streq(backend.text, backend_name(BACKEND_EMBEDDED)))
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

void tracing_tell_none_is_on(void)
{
	ctl_note("No event is on: name those that you want to see, or switch some on with 'userevctl enable'.");
}
