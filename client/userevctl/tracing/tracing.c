/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which tracer records, the daemon or the kernel; and the list of events, which is the same for both. */

#include "client/userevctl/tracing/tracefs.h"

#include "kernel/probe.h"

int tracing_open(struct ctl *ctl, enum tracing_use use, struct tracing **ret)
{
	_cleanup_(control_freep) struct control *control = NULL;
	_cleanup_(tracing_freep) struct tracing *tracing = must(calloc(1, sizeof(*tracing)));
	struct cursor row = { 0 };
	int r, exit_code = EXIT_DONE;

	tracing->ctl = ctl;
	tracing->fd = -1;
	r = control_open(ctl->control_socket, &control);
	if (r == 0)
		r = control_ask_row(control, KIND_STATUS, &row);
	tracing->no_daemon = control_nobody(r);
	if (r <= 0 && (!tracing->no_daemon || use == TRACING_LOOK_AT_DAEMON))
		return control_explain(ctl->control_socket, r < 0 ? r : -EBADMSG, control);
	tracing->status = row_copy(row);
	tracing->kernel = !streq(row_string(row, "backend").text, backend_name(BACKEND_EMBEDDED));
	if (tracing->kernel)
		exit_code = tracefs_open(tracing, use);
	if (tracing->no_daemon && exit_code == EXIT_NO_DAEMON)
		return control_explain(ctl->control_socket, r, NULL);
	if (tracing->no_daemon && exit_code == EXIT_DONE)
		ctl_note("userevctl: no daemon runs at %s, so every event here is foreign.", ctl->control_socket);
	if (exit_code == EXIT_DONE)
		*ret = steal_pointer(tracing);
	return exit_code;
}

struct tracing *tracing_free(struct tracing *tracing)
{
	if (!tracing)
		return NULL;
	session_free(tracing->session);
	control_free(tracing->control);
	catalogue_deinit(&tracing->events);
	free((void *)tracing->status.at);
	free(tracing);
	return NULL;
}

bool tracing_matches(const struct tracing *tracing, const char *pattern, const struct event *event)
{
	if (event->foreign && tracing->foreign == FOREIGN_NEVER)
		return false;
	if (event->foreign && tracing->foreign == FOREIGN_BY_NAME)
		return streq(pattern, event->name) || streq(pattern, event->shown);
	return name_matches(pattern, event->name, strlen(event->name)) ||
	       name_matches(pattern, event->shown, strlen(event->shown));
}

bool tracing_matches_any(const struct tracing *tracing, char *const *patterns, int n, const struct event *event)
{
	for (int i = 0; i < n; i++)
		if (tracing_matches(tracing, patterns[i], event))
			return true;
	return n == 0;
}

const struct event *tracing_next(const struct tracing *tracing, char *const *patterns, int n, const struct event *event)
{
	const struct catalogue *all = &tracing->events;

	for (size_t i = event ? (size_t)(event - all->events) + 1 : 0; i < all->n; i++)
		if (tracing_matches_any(tracing, patterns, n, &all->events[i]))
			return &all->events[i];
	return NULL;
}

static bool look_at_multi(void *data _unused_, const char *shown, char *ret_fields, size_t size)
{
	struct event_format format;

	if (tracefs_read_format("user_events_multi", shown, &format) < 0)
		return false;
	string_copy(ret_fields, size, format.fields);
	return true;
}

int tracing_read(const struct tracing *tracing, char *status, struct catalogue *ret)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	int r = 0;

	if (!tracing->no_daemon)
		r = control_open(tracing->ctl->control_socket, &control);
	if (r == 0 && control)
		r = control_ask(control, KIND_EVENTS);
	while (r == 0 && control && (r = control_next_row(control, &row)) > 0) {
		catalogue_add_row(ret, row);
		r = 0;
	}
	if (r == -EREMOTEIO)
		control_explain(tracing->ctl->control_socket, r, control);
	if (r < 0)
		return r;
	if (status)
		catalogue_add_status(ret, status);
	if (tracing->kernel)
		catalogue_merge(ret, look_at_multi, NULL);
	return 0;
}

int tracing_look(struct tracing *tracing)
{
	_cleanup_(freep) char *status = NULL;
	int r;

	catalogue_deinit(&tracing->events);
	if (tracing->kernel && !tracing->blind) {
		status = tracefs_text("user_events_status");
		if (!status)
			return tracefs_explain("read user_events_status", errno ? -errno : -EIO);
	}
	r = tracing_read(tracing, status, &tracing->events);
	return r < 0 ? control_explain(tracing->ctl->control_socket, r, NULL) : EXIT_DONE;
}

int tracing_turn(struct tracing *tracing, char *const *patterns, int n, bool on, uint64_t *ret_events)
{
	int r = 0;

	if (!tracing->kernel)
		return embedded_turn(tracing, patterns, n, on, ret_events);
	*ret_events = 0;
	for (const struct event *event = NULL; (event = tracing_next(tracing, patterns, n, event));) {
		if (!event->system)
			continue;
		r = tracefs_turn(NULL, event, on);
		if (r < 0)
			return tracefs_explain(on ? "switch events on" : "switch events off", r);
		*ret_events += r > 0;
	}
	return EXIT_DONE;
}

int tail_begin(struct tracing *tracing, char *const *patterns, int n, uint16_t flags)
{
	return (tracing->kernel ? session_begin : embedded_tail_begin)(tracing, patterns, n, flags);
}

int tail_read(struct tracing *tracing, struct record_view *view)
{
	return (tracing->kernel ? session_read : embedded_tail_read)(tracing, view);
}

void tail_note_none_is_on(void)
{
	ctl_note("No event is on: name the events to show, or switch some on with 'userevctl enable'.");
}
