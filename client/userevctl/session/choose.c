/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Which events a session records, and their filters and triggers. */

#include "client/userevctl/session/session.h"
#include "protocol/base/array.h"
#include "protocol/base/suggest.h"

void session_choose(struct session *session, const char *system, const char *name, bool user)
{
	session->chosen = must(array_grow(session->chosen, session->n_chosen, sizeof(*session->chosen)));
	session->chosen[session->n_chosen++] = (struct session_event){ must(strdup(system)), must(strdup(name)), user };
}

int session_choose_events(struct session *session)
{
	struct tracing *tracing = session->tracing;
	int r;

	/* Without a pattern all events would match. */
	if (session->events.n == 0)
		return EXIT_DONE;
	tracing->patterns = (char *const *)session->events.text;
	tracing->n_patterns = (int)session->events.n;
	tracing->foreign = FOREIGN_BY_NAME;
	r = names_check(tracing, false);
	for (const struct event *event = NULL; r == EXIT_DONE && (event = tracing_next(tracing, event));)
		if (event->system)
			session_choose(session, event->system, event->shown, true);
	return r;
}

/* The kernel's events that match; otherwise those that look alike. */
static int choose_kernel_events(struct session *session, const char *typed, const char *system, const char *pattern)
{
	char **names = tracefs_system_events(NULL, system);
	struct suggestions suggestions = { .wanted = pattern };
	const size_t before = session->n_chosen;
	const char *nearest;

	for (char **name = names; name && *name; name++) {
		suggest(&suggestions, *name, strlen(*name));
		if (name_matches(pattern, *name))
			session_choose(session, system, *name, false);
	}
	if (names)
		tracefs_list_free(names);
	if (session->n_chosen > before)
		return EXIT_DONE;
	nearest = suggestions_nearest(&suggestions);
	ctl_error("--kernel-event=%s: the kernel has no %s.%s%s%s", excerpt_of(typed).text,
		  names ? "such event" : "such system of events", nearest ? " Did you mean '" : "",
		  nearest ? nearest : "", nearest ? "'?" : " See 'trace-cmd list -e'.");
	return EXIT_REFUSED;
}

int session_choose_kernel_events(struct session *session)
{
	int r = EXIT_DONE;

	for (size_t i = 0; r == EXIT_DONE && i < session->kernel_events.n; i++) {
		const char *typed = session->tried = session->kernel_events.text[i];
		const size_t length = strcspn(typed, ":");
		_cleanup_(freep) char *system = must(strndup(typed, length));

		if (!typed[length] || !typed[length + 1] || !text_is_file_name(system)) {
			ctl_error("--kernel-event=%s: give SYSTEM:EVENT, as sched:sched_switch or 'sched:*'.",
				  excerpt_of(typed).text);
			return EXIT_USAGE;
		}
		r = choose_kernel_events(session, typed, system, typed + length + 1);
	}
	return r;
}

static int set_condition(struct session *session, const char *file, const char *typed)
{
	/* The length of EVENT in "EVENT: TEXT"; 0: it has none, since a filter has blanks or operators before. */
	const char *end = strstr(typed, ": ");
	const bool has_event = end && strcspn(typed, " \t<>=!&|()~\"'") > (size_t)(end - typed);
	const size_t length = has_event ? (size_t)(end - typed) : 0;
	_cleanup_(freep) char *pattern = must(strndup(typed, length));
	const char *text = typed + length + (length > 0 ? strlen(": ") : 0);
	bool any = false;
	int r = 1;

	for (size_t i = 0; r >= 0 && r != CONDITION_REFUSED && i < session->n_chosen; i++) {
		const struct session_event *chosen = &session->chosen[i];
		const struct event event = { .shown = chosen->name, .system = chosen->system };
		_cleanup_(freep) char *whole = NULL;
		bool matches = chosen->user;

		if (length > 0) {
			must(asprintf(&whole, "%s:%s", chosen->system, chosen->name) < 0 ? NULL : whole);
			matches = name_matches(pattern, chosen->name) || name_matches(pattern, whole);
		}
		if (!matches)
			continue;
		any = true;
		r = tracefs_set_condition(session->instance, &event, file, text);
	}
	if (r < 0)
		return tracefs_explain("set a filter or a trigger", r);
	if (!any)
		ctl_error("--%s='%s': no event of the session is called '%s'. %s", file, excerpt_of(typed).text,
			  excerpt_of(pattern).text,
			  length > 0 ? "" : "Without 'EVENT: ' before it, it is for those of --event.");
	return r == CONDITION_REFUSED || !any ? EXIT_REFUSED : EXIT_DONE;
}

int session_set_conditions(struct session *session, const char *file, const struct option_list *list)
{
	int r = EXIT_DONE;

	for (size_t i = 0; r == EXIT_DONE && i < list->n; i++) {
		session->tried = list->text[i];
		r = set_condition(session, file, list->text[i]);
	}
	return r;
}
