/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which tracer records, the daemon or the kernel; and the list of events, which is the same for both. */

#include "client/userevctl/tracing/tracefs.h"

#include "kernel/probe.h"

int tracing_open(struct ctl *ctl, enum tracing_use use, struct tracing **ret)
{
	_cleanup_(tracing_freep) struct tracing *tracing = must(calloc(1, sizeof(*tracing)));
	int r, exit_code = EXIT_DONE;

	tracing->ctl = ctl;
	tracing->patterns = ctl->argv;
	tracing->n_patterns = ctl->argc;
	tracing->fd = -1;
	r = control_ask_status(ctl->control_socket, CONTROL_TIMEOUT_MS, &tracing->status);
	tracing->no_daemon = control_nobody(r);
	if (r < 0 && (!tracing->no_daemon || use <= TRACING_LOOK_AT_DAEMON))
		return control_explain(ctl->control_socket, r);
	tracing->kernel = !streq(row_string(tracing->status, "backend").text, backend_name(BACKEND_EMBEDDED));
	if (tracing->kernel && use != TRACING_ASK_DAEMON)
		exit_code = tracefs_open(tracing, use);
	if (tracing->no_daemon && exit_code == EXIT_NO_DAEMON)
		return control_explain(ctl->control_socket, r);
	if (tracing->no_daemon && exit_code == EXIT_DONE && use != TRACING_INSTANCES)
		ctl_note("userevctl: no daemon runs at %s, so every event here is foreign.", ctl->control_socket);
	if (exit_code == EXIT_DONE && use != TRACING_ASK_DAEMON && use < TRACING_ACT)
		exit_code = tracing_look(tracing);
	if (exit_code == EXIT_DONE)
		*ret = steal_pointer(tracing);
	return exit_code;
}

struct tracing *tracing_free(struct tracing *tracing)
{
	if (!tracing)
		return NULL;
	follower_free(tracing->follower);
	if (tracing->own)
		tracing->own_calls->free(tracing);
	control_free(tracing->control);
	only_while_deinit(&tracing->only_while);
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
	return name_matches(pattern, event->name) || name_matches(pattern, event->shown);
}

bool tracing_matches_any(const struct tracing *tracing, const struct event *event)
{
	struct cursor holders = row_rows(event->row, "holders"), holder;
	bool wanted = tracing->n_patterns == 0, has_tenant = !tracing->tenant;
	char path[WIRE_TENANT_MAX + 1];

	for (int i = 0; !wanted && i < tracing->n_patterns; i++)
		wanted = tracing_matches(tracing, tracing->patterns[i], event);
	/* The daemon lists the first 64 programs. */
	while (wanted && !has_tenant && row_next_item(&holders, &holder) > 0) {
		row_get_string(holder, "tenant", path, sizeof(path));
		has_tenant = tenant_matches(tracing->tenant, tenant_name(path), path);
	}
	return wanted && has_tenant && (event->on || !tracing->only_on);
}

const struct event *tracing_next(const struct tracing *tracing, const struct event *event)
{
	const struct catalogue *all = &tracing->events;

	for (size_t i = event ? (size_t)(event - all->events) + 1 : 0; i < all->n; i++)
		if (tracing_matches_any(tracing, &all->events[i]))
			return &all->events[i];
	return NULL;
}

int tracing_read(const struct tracing *tracing, char *status, struct catalogue *ret)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row;
	int r = tracing->no_daemon ? 0
				   : control_request(tracing->ctl->control_socket, KIND_EVENTS, 0, NULL, 0, &control);

	while (r >= 0 && control && (r = control_next_row(control, &row)) > 0)
		catalogue_add_row(ret, row);
	if (r == 0 && tracing->kernel)
		catalogue_merge(ret, status, tracefs_read_format);
	return r;
}

int tracing_look(struct tracing *tracing)
{
	_cleanup_(freep) char *status = NULL;
	int r;

	catalogue_deinit(&tracing->events);
	if (tracing->kernel && !tracing->blind) {
		status = tracefs_instance_file_read(NULL, "user_events_status", NULL);
		if (!status)
			return tracefs_explain("read user_events_status", errno ? -errno : -EIO);
	}
	r = tracing_read(tracing, status, &tracing->events);
	return r < 0 ? control_explain(tracing->ctl->control_socket, r) : EXIT_DONE;
}

/* With the embedded backend: the daemon is the tracer. */
static int ask_about_patterns(const struct tracing *tracing, uint16_t kind, uint16_t flags, struct control **ret)
{
	return control_request(tracing->ctl->control_socket, kind, flags, (const char *const *)tracing->patterns,
			       (size_t)tracing->n_patterns, ret);
}

int tracing_turn(struct tracing *tracing, bool on, uint64_t *ret_events)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	int r = 0;

	*ret_events = 0;
	for (const struct event *event = NULL; tracing->kernel && (event = tracing_next(tracing, event));) {
		r = event->system ? tracefs_turn(NULL, event, on) : 0;
		if (r < 0)
			return tracefs_explain(on ? "switch events on" : "switch events off", r);
		*ret_events += r > 0;
	}
	/* Otherwise the daemon only remembers who did it, for `events`; an older one refuses. */
	if (!tracing->no_daemon)
		r = ask_about_patterns(tracing, KIND_TRACE, (on ? TRACE_ON : 0) | (tracing->kernel ? TRACE_DONE : 0),
				       &control);
	if (r == 0 && control)
		r = control_next_row(control, &row);
	if (tracing->kernel)
		return EXIT_DONE;
	if (r <= 0)
		return control_explain(tracing->ctl->control_socket, r < 0 ? r : -EBADMSG);
	*ret_events = row_get_u64(row, "events");
	return EXIT_DONE;
}

enum { EMBEDDED_LOOK_MS = 1000 }; /* for new tenants */

/* The daemon will switch the events on. */
static int look_at_embedded(struct tracing *tracing, bool *any_on)
{
	int r = tracing_look(tracing);

	if (r != EXIT_DONE)
		return r;
	only_while_look(tracing);
	for (const struct event *event = NULL; (event = tracing_next(tracing, event));) {
		tracing->only_while.shared += !only_while_allows(tracing, event);
		*any_on |= event->on;
	}
	return EXIT_DONE;
}

int tail_begin(struct tracing *tracing, uint16_t flags)
{
	bool any_on = tracing->n_patterns > 0 || flags & TAIL_NO_FOLLOW;
	int r;

	if (tracing->own)
		return tracing->own_calls->begin(tracing);
	if (tracing->kernel) {
		r = follower_begin(tracing, flags);
		any_on = any_on || r != EXIT_DONE || tracing->follower->events;
	} else if (tracing->filter) {
		ctl_error("--filter: the embedded backend has no filters. Select fields of 'tail --json' instead.");
		return EXIT_REFUSED;
	} else {
		r = look_at_embedded(tracing, &any_on);
	}
	if (r == EXIT_DONE && !any_on)
		ctl_note("No event is on: name the events to show, or switch some on with 'userevctl enable'.");
	else if (r == EXIT_DONE)
		only_while_note(tracing);
	if (r != EXIT_DONE || tracing->kernel)
		return r;
	r = ask_about_patterns(tracing, KIND_TAIL, flags, &tracing->control);
	if (r < 0)
		return control_explain(tracing->ctl->control_socket, r);
	tracing->fd = tracing->control->fd;
	tracing->control->timeout = 0;
	tracing->due = tracing->only_while.n > 0 ? ctl_now_ns() : 0;
	return EXIT_DONE;
}

int tail_read(struct tracing *tracing, struct record_view *view)
{
	int r;

	if (tracing->own)
		return tracing->own_calls->read(tracing, view);
	if (tracing->kernel)
		return follower_read(tracing, view);
	if (tracing->due > 0 && ctl_now_ns() >= tracing->due) {
		only_while_look(tracing);
		tracing->due = ctl_now_ns() + EMBEDDED_LOOK_MS * NS_PER_MS;
	}
	r = record_view_take(view, tracing->control);
	if (r == -ETIMEDOUT)
		return EXIT_DONE;
	if (r < 0)
		return control_explain(tracing->ctl->control_socket, r);
	tracing->over = !tracing->control->more;
	return view->output_error < 0 ? ctl_output_failed(view->output_error) : EXIT_DONE;
}
