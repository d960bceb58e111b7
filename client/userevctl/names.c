/* SPDX-License-Identifier: GPL-2.0-or-later */

/* An unknown name is most often misspelt: the message names the events that look alike. */

#include "client/userevctl/tracing/tracing.h"
#include "protocol/base/suggest.h"

int names_check(struct tracing *tracing, bool may_wait)
{
	int r = tracing_look(tracing), n = r == EXIT_DONE ? tracing->n_patterns : 0;

	for (int i = 0; i < n; i++) {
		struct suggestions suggestions = { .wanted = tracing->patterns[i] };
		const struct event *event = tracing->events.events, *end = event + tracing->events.n;
		struct excerpt shown = excerpt_of(suggestions.wanted);
		bool foreign = false; /* it matches a foreign event that the command leaves alone */

		if (may_wait && strpbrk(suggestions.wanted, "*?["))
			continue;
		for (; event < end && !tracing_matches(tracing, suggestions.wanted, event); event++) {
			suggest(&suggestions, event->shown, strlen(event->shown));
			foreign |= event->foreign && name_matches(suggestions.wanted, event->shown);
		}
		if (event < end)
			continue;
		r = EXIT_REFUSED;
		if (foreign)
			ctl_error("'%s' matches foreign events only, made without the daemon. Give %s.", shown.text,
				  tracing->foreign == FOREIGN_BY_NAME ? "the full name of each"
								      : "--foreign to include them");
		else if (suggestions.count == 0)
			ctl_error("no event is called '%s', and none of the %s looks alike. See 'userevctl events'.",
				  shown.text, plural(tracing->events.n, "event", "events").text);
		else
			ctl_error("no event is called '%s'. These look alike:", shown.text);
		for (size_t j = 0; !foreign && j < suggestions.count; j++)
			ctl_note("  %s", suggestions.best[j].name);
	}
	return r;
}
