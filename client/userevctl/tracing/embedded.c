/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The embedded backend: the daemon records, and answers everything. */

#include "client/userevctl/tracing/tracing.h"

struct embedded {
	struct tracing tracing;
	struct control *control; /* of a tail */
};

static struct embedded *embedded_tracing_of(struct tracing *tracing)
{
	return container_of(tracing, struct embedded, tracing);
}

static int embedded_list(struct tracing *tracing, char *const *patterns, int n, bool fields _unused_, event_take *take,
			 void *data)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	int r;

	r = control_open_or_explain(tracing->ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask(control, KIND_EVENTS);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		char name[WIRE_DESCRIPTION_MAX + 1], description[WIRE_DESCRIPTION_MAX + 1];
		struct event_view event = { .name = name, .shown = name, .row = row, .state_known = true };

		row_get_string(row, "event", name, sizeof(name));
		row_get_string(row, "description", description, sizeof(description));
		event.fields = tracing_fields(description);
		event.on = row_get_u64(row, "on");
		if (n == 0 || tracing_matches_any(tracing, patterns, n, &event))
			take(data, &event);
	}
	return r < 0 ? control_explain(tracing->ctl->control_socket, r, control) : EXIT_DONE;
}

static int embedded_turn(struct tracing *tracing, char *const *patterns, int n, bool on, uint64_t *ret_events)
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

static void find_any_on(void *data, const struct event_view *event)
{
	bool *any = data;

	*any |= event->on;
}

static int embedded_tail_begin(struct tracing *tracing, const struct tail_request *request)
{
	struct embedded *embedded = embedded_tracing_of(tracing);
	int flags = (request->past ? TAIL_PAST : 0) | (request->no_follow ? TAIL_NO_FOLLOW : 0);
	bool any = request->n > 0 || request->no_follow;
	int r = any ? EXIT_DONE : embedded_list(tracing, NULL, 0, false, find_any_on, &any);

	if (r == EXIT_DONE && !any)
		tracing_note_none_is_on();
	if (r == EXIT_DONE)
		r = control_open_or_explain(tracing->ctl, &embedded->control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask_strings(embedded->control, KIND_TAIL, (uint16_t)flags, (const char *const *)request->patterns,
				(size_t)request->n);
	if (r < 0)
		return control_explain(tracing->ctl->control_socket, r, embedded->control);
	tracing->fd = embedded->control->fd;
	return EXIT_DONE;
}

static int embedded_tail_read(struct tracing *tracing, struct record_view *view)
{
	struct embedded *embedded = embedded_tracing_of(tracing);
	struct message message;
	int r;

	r = control_receive(embedded->control, CONTROL_TIMEOUT_MS, &message);
	if (r == 0 && message.kind != KIND_ROWS)
		r = -EBADMSG;
	if (r == 0)
		r = record_view_rows(view, message.body);
	if (r < 0 && ferror(view->output->file))
		return ctl_output_failed(r);
	if (r < 0)
		return control_explain(tracing->ctl->control_socket, r, embedded->control);
	tracing->over = !(message.flags & WIRE_MORE);
	return EXIT_DONE;
}

static void embedded_tracing_free(struct tracing *tracing)
{
	struct embedded *embedded = embedded_tracing_of(tracing);

	control_free(embedded->control);
	free(embedded);
}

int tracing_embedded_new(struct ctl *ctl, struct tracing **ret)
{
	static const struct tracing_ops ops = {
		.list = embedded_list,
		.turn = embedded_turn,
		.tail_begin = embedded_tail_begin,
		.tail_read = embedded_tail_read,
		.free = embedded_tracing_free,
	};
	struct embedded *embedded = calloc(1, sizeof(*embedded));

	if (!embedded)
		return control_explain(ctl->control_socket, -ENOMEM, NULL);
	embedded->tracing = (struct tracing){ .ops = &ops, .ctl = ctl, .fd = -1 };
	*ret = &embedded->tracing;
	return EXIT_DONE;
}
