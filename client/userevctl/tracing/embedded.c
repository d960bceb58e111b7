/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The embedded backend: the daemon is the tracer. */

#include "client/userevctl/tracing/tracefs.h"

int embedded_turn(struct tracing *tracing, char *const *patterns, int n, bool on, uint64_t *ret_events)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	int r;

	r = control_open_or_explain(tracing->ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask_strings(control, KIND_TRACE, on ? TRACE_ON : 0, (const char *const *)patterns, (size_t)n);
	if (r == 0)
		r = control_next_row(control, &row);
	if (r <= 0)
		return control_explain(tracing->ctl->control_socket, r < 0 ? r : -EBADMSG, control);
	*ret_events = row_get_u64(row, "events");
	return EXIT_DONE;
}

static int note_if_none_is_on(struct tracing *tracing)
{
	int r = tracing_look(tracing);

	for (size_t i = 0; i < tracing->events.n; i++)
		if (tracing->events.events[i].on)
			return r;
	if (r == EXIT_DONE)
		tail_note_none_is_on();
	return r;
}

int embedded_tail_begin(struct tracing *tracing, char *const *patterns, int n, uint16_t flags)
{
	int r = n > 0 || flags & TAIL_NO_FOLLOW ? EXIT_DONE : note_if_none_is_on(tracing);

	if (r == EXIT_DONE)
		r = control_open_or_explain(tracing->ctl, &tracing->control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask_strings(tracing->control, KIND_TAIL, flags, (const char *const *)patterns, (size_t)n);
	if (r < 0)
		return control_explain(tracing->ctl->control_socket, r, tracing->control);
	tracing->fd = tracing->control->fd;
	return EXIT_DONE;
}

int embedded_tail_read(struct tracing *tracing, struct record_view *view)
{
	struct message message;
	int r;

	r = control_receive(tracing->control, 0, &message);
	if (r == -ETIMEDOUT)
		return EXIT_DONE;
	if (r == 0 && message.kind != KIND_ROWS)
		r = -EBADMSG;
	if (r == 0)
		r = record_view_rows(view, message.body);
	if (r < 0 && ferror(view->output->file))
		return ctl_output_failed(r);
	if (r < 0)
		return control_explain(tracing->ctl->control_socket, r, tracing->control);
	tracing->over = !(message.flags & WIRE_MORE);
	return EXIT_DONE;
}
