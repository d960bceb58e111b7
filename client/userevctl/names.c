/* SPDX-License-Identifier: GPL-2.0-or-later */

/* An unknown name is most often misspelt: the message names the events that look alike. */

#include <fnmatch.h>

#include "client/userevctl/tracing/tracing.h"
#include "protocol/base/suggest.h"

bool name_matches(const char *pattern, const char *name, size_t length)
{
	char terminated[WIRE_DESCRIPTION_MAX + 1];

	snprintf(terminated, sizeof(terminated), "%.*s", (int)length, name);
	return fnmatch(pattern, terminated, 0) == 0;
}

bool is_pattern(const char *text)
{
	return strpbrk(text, "*?[");
}

struct lookup {
	struct suggestions suggestions;
	bool found;
	bool foreign; /* it matches a foreign event that the command leaves alone */
};

struct lookups {
	struct tracing *tracing;
	struct lookup *lookup;
	int n;
	size_t events;
};

static void lookup_event(void *data, const struct event_view *event)
{
	struct lookups *lookups = data;

	lookups->events++;
	for (int i = 0; i < lookups->n; i++) {
		struct lookup *lookup = &lookups->lookup[i];
		const char *wanted = lookup->suggestions.wanted;

		suggest(&lookup->suggestions, event->shown, strlen(event->shown));
		if (tracing_matches(lookups->tracing, wanted, event))
			lookup->found = true;
		else if (event->foreign && name_matches(wanted, event->shown, strlen(event->shown)))
			lookup->foreign = true;
	}
}

static void explain_missing(const struct tracing *tracing, const struct lookup *lookup, size_t events)
{
	const struct suggestions *suggestions = &lookup->suggestions;
	struct shown shown = ctl_shown(suggestions->wanted);

	if (lookup->foreign && tracing->foreign == FOREIGN_BY_NAME) {
		ctl_error("'%s' matches foreign events only, made without the daemon. Give the full name of each.",
			  shown.text);
	} else if (lookup->foreign && is_pattern(suggestions->wanted)) {
		ctl_error("'%s' matches foreign events only, made without the daemon. Give --foreign to include them.",
			  shown.text);
	} else if (lookup->foreign) {
		ctl_error("'%s' is foreign: it was made without the daemon. Give --foreign to include it.", shown.text);
	} else if (suggestions->count > 0) {
		ctl_error("no event is called '%s'. These look alike:", shown.text);
		for (size_t i = 0; i < suggestions->count; i++)
			ctl_note("  %s", suggestions->best[i].name);
	} else if (events > 0) {
		ctl_error("no event is called '%s', and none of the %s looks alike. See 'userevctl events'.",
			  shown.text, plural(events, "event", "events").text);
	} else {
		ctl_error("no event is called '%s': no program holds any event now.", shown.text);
	}
}

int names_check(struct tracing *tracing, char *const *patterns, int n, bool may_wait)
{
	_cleanup_(freep) struct lookup *lookup = calloc((size_t)n + 1, sizeof(*lookup));
	struct lookups lookups = { .tracing = tracing, .lookup = lookup, .n = n };
	int r;

	if (!lookup)
		return control_explain(tracing->ctl->control_socket, -ENOMEM, NULL);
	for (int i = 0; i < n; i++)
		lookup[i].suggestions.wanted = patterns[i];
	r = tracing->ops->list(tracing, NULL, 0, false, lookup_event, &lookups);
	if (r != EXIT_DONE)
		return r;
	for (int i = 0; i < n; i++) {
		if (lookup[i].found || (may_wait && is_pattern(patterns[i])))
			continue;
		explain_missing(tracing, &lookup[i], lookups.events);
		r = EXIT_REFUSED;
	}
	return r;
}
