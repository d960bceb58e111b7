/* SPDX-License-Identifier: GPL-2.0-or-later */

/* An unknown name is most often misspelt: the message names the events that look alike. */

#include <fnmatch.h>

#include "client/userevctl/tracing/tracing.h"
#include "protocol/base/suggest.h"

bool name_matches(const char *pattern, const char *name)
{
	return fnmatch(pattern, name, 0) == 0;
}

bool is_pattern(const char *text)
{
	return strpbrk(text, "*?[");
}

/* `foreign`: the pattern matches a foreign event that the command leaves alone. */
static void explain_missing(const struct tracing *tracing, const struct suggestions *suggestions, bool foreign)
{
	struct excerpt shown = excerpt_of(suggestions->wanted);

	if (foreign)
		ctl_error("'%s' matches foreign events only, made without the daemon. Give %s.", shown.text,
			  tracing->foreign == FOREIGN_BY_NAME ? "the full name of each" : "--foreign to include them");
	else if (suggestions->count == 0)
		ctl_error("no event is called '%s', and none of the %s looks alike. See 'userevctl events'.",
			  shown.text, plural(tracing->events.n, "event", "events").text);
	else
		ctl_error("no event is called '%s'. These look alike:", shown.text);
	for (size_t i = 0; !foreign && i < suggestions->count; i++)
		ctl_note("  %s", suggestions->best[i].name);
}

/* Whether an event matches the pattern; explains it if none does. */
static bool name_check(const struct tracing *tracing, const char *wanted)
{
	struct suggestions suggestions = { .wanted = wanted };
	bool foreign = false;

	for (size_t i = 0; i < tracing->events.n; i++) {
		const struct event *event = &tracing->events.events[i];

		if (tracing_matches(tracing, wanted, event))
			return true;
		suggest(&suggestions, event->shown, strlen(event->shown));
		foreign |= event->foreign && name_matches(wanted, event->shown);
	}
	explain_missing(tracing, &suggestions, foreign);
	return false;
}

int names_check(const struct tracing *tracing, bool may_wait)
{
	int r = EXIT_DONE;

	for (int i = 0; i < tracing->n_patterns; i++)
		if (!(may_wait && is_pattern(tracing->patterns[i])) && !name_check(tracing, tracing->patterns[i]))
			r = EXIT_REFUSED;
	return r;
}
