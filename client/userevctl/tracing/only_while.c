/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * An event that was off is switched on for the wanted tenants alone: others do not even write. One that is on for other tenants stays as it
 * is, since another tracer may want that, and so do all events before Linux 6.4 and foreign ones: of these all tenants write, and the command
 * leaves out the records of others. Tenants that come later are found by the next look.
 */

#include "client/userevctl/tracing/only_while.h"

#include <poll.h>

#include "client/userevctl/tracing/only.h"
#include "protocol/base/array.h"

void only_while_deinit(struct only_while *only)
{
	control_free(only->control);
	silence_patterns_deinit(&only->patterns);
	for (size_t i = 0; i < only->n; i++)
		free((void *)only->names[i]);
	free(only->names);
}

/* False: the daemon does not answer, or is an older one. */
static bool ask(struct tracing *tracing, const char *const *names, size_t n)
{
	struct only_while *only = &tracing->only_while;
	struct silence_answer answer = { 0 };
	int r = only->control ? 0 : control_open(tracing->ctl->control_socket, &only->control);

	if (r == 0)
		r = silence_ask_on(only->control, ASK_WHILE, names, n, &only->patterns, &answer);
	silence_answer_deinit(&answer);
	if (r < 0)
		only->control = control_free(only->control);
	return r == 0;
}

/* The daemon has ended, and the rules with it. */
static bool has_lost_daemon(struct only_while *only)
{
	struct pollfd wanted = { .fd = only->control ? only->control->fd : -1, .events = POLLIN };

	if (only->control && poll(&wanted, 1, 0) == 0)
		return false;
	only->control = control_free(only->control);
	return true;
}

void only_while_look(struct tracing *tracing)
{
	struct only_while *only = &tracing->only_while;
	const size_t before = only->patterns.n;

	if (!only->tenant || tracing->no_daemon)
		return;
	silence_find_present(tracing->ctl, only->tenant, &only->patterns);
	if (only->n > 0 && (has_lost_daemon(only) || only->patterns.n > before))
		ask(tracing, only->names, only->n);
}

static bool is_narrow(const struct event *event)
{
	struct row_field field;

	return row_find(event->row, "only", &field);
}

bool only_while_is_shared(const struct tracing *tracing, const struct event *event)
{
	return tracing->no_daemon || only_is_shared(tracing, event) || (event->on && !is_narrow(event));
}

bool only_while_allows(struct tracing *tracing, const struct event *event)
{
	struct only_while *only = &tracing->only_while;

	only->narrow += is_narrow(event);
	if (!only->tenant)
		return true;
	if (only_while_is_shared(tracing, event)) {
		only->shared++;
		return true;
	}
	if (only->patterns.n == 0)
		return false;
	if (!ask(tracing, (const char *const[]){ event->name }, 1)) {
		only->shared++;
		return true;
	}
	only->names = must(array_grow(only->names, only->n, sizeof(*only->names)));
	only->names[only->n++] = must(strdup(event->name));
	return true;
}

void only_while_note(const struct tracing *tracing)
{
	const struct only_while *only = &tracing->only_while;

	if (!only->tenant) {
		if (only->narrow > 0)
			ctl_note("userevctl: %s on for some tenants alone: see 'userevctl status'.",
				 plural(only->narrow, "event is", "events are").text);
		return;
	}
	if (only->n > 0)
		ctl_note("userevctl: %s on for %s alone.", plural(only->n, "event is", "events are").text,
			 plural(only->patterns.n, "tenant", "tenants").text);
	if (only->shared > 0)
		ctl_note("userevctl: %s on for other tenants, too, whose records are left out.",
			 plural(only->shared, "event is", "events are").text);
	if (only->n == 0 && only->shared == 0)
		ctl_note("userevctl: no tenant is called '%s' now: events are switched on once there is one.",
			 excerpt_of(only->tenant).text);
}
