/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A name that nobody knows is most often a misspelt one: say which there are. */

#include <fnmatch.h>

#include "client/ctl.h"
#include "protocol/text.h"

bool name_matches(const char *pattern, const char *name, size_t length)
{
	char terminated[WIRE_DESCRIPTION_MAX + 1];

	snprintf(terminated, sizeof(terminated), "%.*s", (int)length, name);
	return fnmatch(pattern, terminated, 0) == 0;
}

static bool is_pattern(const char *text)
{
	return strpbrk(text, "*?[");
}

struct lookup {
	struct suggestions suggestions;
	bool found;
};

static int look_up(struct control *control, struct lookup *lookups, size_t n, size_t *ret_events)
{
	struct row_field event;
	struct cursor row = { 0 };
	int r;

	r = control_ask(control, KIND_EVENTS);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0) {
		if (!row_find(row, "event", &event))
			continue;
		++*ret_events;
		for (size_t i = 0; i < n; i++) {
			suggest(&lookups[i].suggestions, (const char *)event.value, event.length);
			if (name_matches(lookups[i].suggestions.wanted, (const char *)event.value, event.length))
				lookups[i].found = true;
		}
	}
	return r;
}

static void explain_missing(const struct lookup *lookup, size_t events)
{
	const struct suggestions *suggestions = &lookup->suggestions;
	struct shown shown = ctl_shown(suggestions->wanted);

	if (suggestions->count > 0) {
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

int names_check(struct ctl *ctl, char **patterns, int n, bool may_wait)
{
	_cleanup_(freep) struct lookup *lookups = calloc((size_t)n + 1, sizeof(*lookups));
	_cleanup_(control_freep) struct control *control = NULL;
	size_t events = 0;
	int r = EXIT_DONE;

	if (!lookups)
		return control_explain(ctl->control_socket, -ENOMEM, NULL);
	for (int i = 0; i < n; i++)
		lookups[i].suggestions.wanted = patterns[i];
	r = ctl_open_control(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = look_up(control, lookups, (size_t)n, &events);
	if (r < 0)
		return control_explain(ctl->control_socket, r, control);
	for (int i = 0; i < n; i++) {
		if (lookups[i].found || (may_wait && is_pattern(patterns[i])))
			continue;
		explain_missing(&lookups[i], events);
		r = EXIT_REFUSED;
	}
	return r;
}

bool names_any_on(struct ctl *ctl)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };

	if (control_open(ctl->control_socket, &control) < 0 || control_ask(control, KIND_EVENTS) < 0)
		return true;
	while (control_next_row(control, &row) > 0)
		if (row_get_u64(row, "on"))
			return true;
	return false;
}
