/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * --tenant of a session. Its events that are off are switched on for these tenants alone, by rules as those of enable --tenant, which end when
 * the session is destroyed and no tracer has the event on. The rest of its events are recorded for all tenants, and `snapshot --tenant` leaves
 * out the records of others.
 */

#include "client/userevctl/session/session.h"
#include "client/userevctl/tracing/only.h"
#include "protocol/base/array.h"

struct names {
	const char **at; /* the catalogue's */
	size_t n;
};

static void names_add(struct names *names, const char *name)
{
	names->at = must(array_grow(names->at, names->n, sizeof(*names->at)));
	names->at[names->n++] = name;
}

int session_limit(struct session *session)
{
	struct tracing *tracing = session->tracing;
	_cleanup_(only_deinit) struct only only = { 0 };
	struct names names = { 0 };
	size_t shared = 0;
	int r;

	if (session->tenants.n == 0)
		return EXIT_DONE;
	if (session->events.n == 0) {
		ctl_error("--tenant: give --event, too: events of the kernel and probes are for all tenants.");
		return EXIT_USAGE;
	}
	r = only_find(tracing, (const char *const *)session->tenants.text, session->tenants.n, false, &only);
	for (const struct event *event = NULL; r == EXIT_DONE && (event = tracing_next(tracing, event));) {
		if (!event->system)
			continue;
		if (only_while_is_shared(tracing, event))
			shared++;
		else
			names_add(&names, event->name);
	}
	if (names.n > 0)
		r = silence_ask(tracing->ctl, ASK_ONLY, names.at, names.n, &only.patterns, &only.answer);
	if (r == EXIT_DONE && names.n > 0)
		ctl_note("userevctl: %s on for %s alone.", plural(names.n, "event is", "events are").text,
			 plural(only.patterns.n, "tenant", "tenants").text);
	if (r == EXIT_DONE && shared > 0)
		ctl_note(
			"userevctl: %s on for all tenants. 'session snapshot --tenant' leaves out the records of others.",
			plural(shared, "event is", "events are").text);
	free(names.at);
	return r;
}

void session_unlimit(struct session *session, const char *set_event)
{
	struct tracing *tracing = session->tracing;
	_cleanup_(only_deinit) struct only none = { 0 };
	struct names names = { 0 };
	char line[WIRE_DESCRIPTION_MAX + 64];
	struct row_field field;

	/* The number of rules, before this command. */
	const bool may_have_rules = session->tenants.n > 0 || row_get_u64(tracing->status, "silences") > 0;

	if (!may_have_rules || tracing_look(tracing) != EXIT_DONE)
		return;
	for (size_t i = 0; i < tracing->events.n; i++) {
		const struct event *event = &tracing->events.events[i];

		snprintf(line, sizeof(line), "%s:%s\n", event->system ? event->system : "", event->shown);
		if (strstr(set_event, line) && !event->on && row_find(event->row, "only", &field))
			names_add(&names, event->name);
	}
	if (names.n > 0)
		silence_ask(tracing->ctl, ASK_ALL, names.at, names.n, &none.patterns, &none.answer);
	free(names.at);
}
