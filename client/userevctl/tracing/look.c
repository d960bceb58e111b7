/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Which events a tail wants on. Nothing tells when one is registered, so that we look again and again, the less often
 * the longer a look takes.
 *
 * An event that is on in an instance lives on when its programs have ended, and then nobody may register one of that
 * name with other fields. So what no program holds any more is switched off, once everything that was recorded has been
 * read.
 */

#include "client/userevctl/tracing/tail.h"

enum {
	LOOK_LEAST_MS = 100,
	LOOK_MOST_MS = 3000,
	LOOK_SHARE = 20,	  /* looking may take a twentieth of the time */
	LOOK_UNSETTLED_MS = 2000, /* the daemon names an event a little after the kernel does */
	LOOK_ANYWAY_MS = 3000,	  /* what was foreign may become a program's, and no text changes */
};

static struct tail_event *find_event(const struct tail_session *session, const char *shown)
{
	struct tail_event *event;

	HASH_FIND(by_key, session->events, shown, strlen(shown), event);
	return event;
}

static struct tail_event *add_event(struct tail_session *session, const struct event_view *view)
{
	size_t shown = strlen(view->shown), name = strlen(view->name);
	struct tail_event *event = calloc(1, sizeof(*event) + shown + 1 + name + 1);

	if (!event)
		return NULL;
	memcpy(event->shown, view->shown, shown);
	event->name = event->shown + shown + 1;
	memcpy(event->name, view->name, name);
	event->system = view->system;
	HASH_ADD_KEYPTR(by_key, session->events, event->shown, shown, event);
	if (table_added())
		return event;
	free(event);
	return NULL;
}

/*
 * The name in front is only for the parser: an event's own may be one that no description has. Where the fields say
 * less than the whole truth, there are none, and nothing can be parsed.
 */
static void describe(struct tail_event *event, const struct event_format *format)
{
	struct text text = text_make(event->description, sizeof(event->description));

	text_printf(&text, "event %s", format->exact ? format->fields : "?");
	if (format->exact && !format->fields[0])
		string_copy(event->description, sizeof(event->description), "event");
}

/* 0, also where it has gone meanwhile; or a negative errno. */
static int turn_on(struct tail_session *session, struct tail_event *event)
{
	struct event_format format;
	int r;

	r = tracefs_turn(session->instance, event->system, event->shown, true);
	if (r < 0)
		return r == -ENOENT || r == -ENODEV ? 0 : r;
	/* From now on it cannot go, so that its type is its own. */
	r = tracefs_read_format(event->system, event->shown, &format);
	if (r < 0)
		return tracefs_turn(session->instance, event->system, event->shown, false);
	describe(event, &format);
	session->by_type[format.id] = event;
	event->on = true;
	return 0;
}

static bool is_wanted(const struct tail_session *session, const struct event_view *event)
{
	const struct tracing *tracing = &session->tracefs->tracing;
	char line[WIRE_DESCRIPTION_MAX + 64];

	if (!event->system)
		return false;
	if (session->wish.n > 0)
		return tracing_matches_any(tracing, session->wish.patterns, session->wish.n, event);
	if (event->foreign && tracing->foreign != FOREIGN_ALL)
		return false;
	snprintf(line, sizeof(line), "%s:%s", event->system, event->shown);
	return session->set_event && text_has_line(session->set_event, line);
}

static int want_event(struct tail_session *session, const struct catalogue_event *known)
{
	struct tail_event *event;
	struct event_view view;

	catalogue_view(known, &view);
	if (!is_wanted(session, &view))
		return 0;
	event = find_event(session, view.shown);
	if (!event)
		event = add_event(session, &view);
	if (!event)
		return -ENOMEM;
	event->seen = session->looks;
	return event->on ? 0 : turn_on(session, event);
}

static bool any_unwanted(const struct tail_session *session)
{
	for (const struct tail_event *event = session->events; event; event = event->by_key.next)
		if (event->on && event->seen != session->looks)
			return true;
	return false;
}

/* `view`: where to print what they wrote before. */
static int turn_unwanted_off(struct tail_session *session, struct record_view *view)
{
	int r = 0;

	if (!any_unwanted(session))
		return 0;
	if (view)
		r = tail_drain(session, view);
	for (struct tail_event *event = session->events; r == 0 && event; event = event->by_key.next) {
		if (!event->on || event->seen == session->looks)
			continue;
		/* It may have gone. */
		tracefs_turn(session->instance, event->system, event->shown, false);
		event->on = false;
	}
	return r;
}

/* Whether the texts are as they were; takes the new ones over. */
static bool texts_are_the_same(struct tail_session *session, char *status, char *set_event)
{
	bool same = session->status && streq(session->status, status) &&
		    (session->wish.n > 0 || streq(session->set_event, set_event));

	free(session->status);
	free(session->set_event);
	session->status = status;
	session->set_event = set_event;
	return same;
}

/* 1: there is nothing new; 0; or a negative errno. */
static int read_texts(struct tail_session *session)
{
	uint64_t now = monotonic_ns();
	char *status, *set_event = NULL;
	bool same;

	errno = 0;
	status = tracefs_text("user_events_status", NULL);
	if (status && session->wish.n == 0)
		set_event = tracefs_text("set_event", NULL);
	/* An empty file may come as no text. */
	if (status && !set_event)
		set_event = strdup("");
	if (!status || !set_event) {
		free(status);
		return errno ? -errno : -EIO;
	}
	same = texts_are_the_same(session, status, set_event);
	if (!same)
		session->settled = now + LOOK_UNSETTLED_MS * NS_PER_MS;
	if (same && now > session->settled && now - session->looked < LOOK_ANYWAY_MS * NS_PER_MS)
		return 1;
	return 0;
}

/* That the daemon is started anew while we look on is no reason to end. */
static int lose_daemon(struct tail_session *session, int error)
{
	const struct tracing *tracing = &session->tracefs->tracing;

	if (session->looks == 1)
		return control_explain(tracing->ctl->control_socket, error, NULL);
	if (!session->daemon_gone)
		ctl_note(
			"userevctl: the daemon does not answer (%s): events that are registered from now on are not seen "
			"before it does.",
			strerror(-error));
	session->daemon_gone = true;
	return EXIT_DONE;
}

static int apply(struct tail_session *session, const struct catalogue *catalogue, struct record_view *view)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < catalogue->n && !tail_stopped; i++)
		r = want_event(session, &catalogue->events[i]);
	if (r < 0)
		return tracefs_explain("switch events on", r);
	if (tail_stopped)
		return EXIT_DONE;
	r = turn_unwanted_off(session, view);
	return r < 0 ? ctl_output_failed(r) : EXIT_DONE;
}

static int look_at_all(struct tail_session *session, struct record_view *view)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	int r, daemon;

	session->looks++;
	session->looked = session->asked = monotonic_ns();
	r = tracefs_catalogue(session->tracefs, session->status, strlen(session->status), session->writers, &catalogue,
			      &daemon);
	if (r == -EREMOTE)
		return lose_daemon(session, daemon);
	if (r < 0)
		return tracefs_explain("list events", r);
	session->daemon_gone = false;
	return apply(session, &catalogue, view);
}

uint64_t tail_next_look(const struct tail_session *session)
{
	uint64_t pause = LOOK_SHARE * session->look_took;

	return MIN(MAX(pause, LOOK_LEAST_MS * NS_PER_MS), LOOK_MOST_MS * NS_PER_MS);
}

int tail_look(struct tail_session *session, struct record_view *view)
{
	uint64_t begun = monotonic_ns();
	int r = read_texts(session);

	if (r < 0)
		r = tracefs_explain("read which events there are", r);
	else if (r == 0)
		r = look_at_all(session, view);
	else
		r = EXIT_DONE;
	session->look_took = monotonic_ns() - begun;
	return r;
}
