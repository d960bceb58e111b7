/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Switches the events of a tail on and off. The kernel does not notify of new events, so the tail looks repeatedly, less often
 * the longer a look takes.
 *
 * An event that is on in an instance outlives its programs, and no program can then register an event of that name with other
 * fields. So an event without a program is switched off, after all that was recorded has been read.
 */

#include "client/userevctl/tracing/tracefs.h"

enum {
	LOOK_LEAST_MS = 100,
	LOOK_MOST_MS = 3000,
	LOOK_SHARE = 20,	  /* looks take a twentieth of the time */
	LOOK_UNSETTLED_MS = 2000, /* the daemon lists an event a little later than the kernel */
	LOOK_ANYWAY_MS = 3000,	  /* a foreign event may become a program's without a change of the texts */
};

struct follower_event *follower_event_of(struct follower *follower, const struct event *event)
{
	struct follower_event *known;

	HASH_FIND(by_shown, follower->events, event->shown, strlen(event->shown), known);
	if (known)
		return known;
	known = must(calloc(1, sizeof(*known)));
	known->event.name = must(strdup(event->name));
	known->event.shown = must(strdup(event->shown));
	known->event.system = event->system;
	HASH_ADD_KEYPTR(by_shown, follower->events, known->event.shown, strlen(known->event.shown), known);
	return must(table_added() ? known : NULL);
}

int follower_learn_type(struct follower *follower, struct follower_event *event)
{
	struct text text = text_make(event->description, sizeof(event->description));
	struct event_format format;
	int r = tracefs_read_format(event->event.system, event->event.shown, &format);

	if (r < 0)
		return r;
	/* The parser needs a name, and the event's own may be invalid in a description. "?" makes the parser fail. */
	text_printf(&text, "event");
	if (!format.complete || format.fields[0])
		text_printf(&text, " %s", format.complete ? format.fields : "?");
	event->version = ++follower->versions;
	follower->by_type[format.id] = event;
	return 0;
}

/* 0, also if the event has gone meanwhile; a negative errno; or CONDITION_REFUSED. */
static int turn_on(struct follower *follower, struct follower_event *event)
{
	const struct tracing *tracing = follower->tracing;
	int r = 1;

	if (tracing->filter)
		r = tracefs_set_condition(follower->instance, &event->event, "filter", tracing->filter);
	if (r == 1 && tracing->trigger)
		r = tracefs_set_condition(follower->instance, &event->event, "trigger", tracing->trigger);
	else if (r == 1)
		r = tracefs_turn(follower->instance, &event->event, true);
	if (r != 1)
		return r;
	/* From now on the event cannot go, and its type in records is not reused. */
	r = follower_learn_type(follower, event);
	if (r < 0) {
		r = tracefs_turn(follower->instance, &event->event, false);
		return MIN(r, 0);
	}
	event->on = true;
	return 0;
}

static bool look_is_wanted(const struct follower *follower, const struct event *event)
{
	const struct tracing *tracing = follower->tracing;
	char line[WIRE_DESCRIPTION_MAX + 64];

	if (!event->system)
		return false;
	if (tracing->n_patterns > 0)
		return tracing_matches_any(tracing, event);
	if (event->foreign && tracing->foreign != FOREIGN_ALL)
		return false;
	snprintf(line, sizeof(line), "\n%s:%s\n", event->system, event->shown);
	return strstr(follower->set_event, line);
}

static int turn_wanted_on(struct follower *follower, const struct catalogue *catalogue)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < catalogue->n && !follower_stopped; i++) {
		struct follower_event *event;

		if (!look_is_wanted(follower, &catalogue->events[i]))
			continue;
		event = follower_event_of(follower, &catalogue->events[i]);
		event->seen = follower->looks;
		if (!event->on && only_while_allows(follower->tracing, &catalogue->events[i]))
			r = turn_on(follower, event);
	}
	return r;
}

/* `view`: prints the records that the events wrote before. */
static int turn_unwanted_off(struct follower *follower, struct record_view *view)
{
	for (struct follower_event *event = follower->events; event; event = event->by_shown.next) {
		int r = 0;

		if (!event->on || event->seen == follower->looks)
			continue;
		if (view)
			r = follower_drain(follower, view);
		if (r < 0)
			return r;
		view = NULL;
		tracefs_turn(follower->instance, &event->event, false);
		event->on = false;
	}
	return 0;
}

/* 1: nothing is new; 0; or a negative errno. */
static int read_texts(struct follower *follower)
{
	char *status = tracefs_instance_file_read(NULL, "user_events_status", NULL), *set_event;
	_cleanup_(freep) char *on = NULL;
	uint64_t now = ctl_now_ns();
	bool same;

	if (status && follower->tracing->n_patterns == 0)
		on = tracefs_instance_file_read(NULL, "set_event", NULL);
	if (!status)
		return errno ? -errno : -EIO;
	/* libtracefs may return NULL for an empty file. */
	must(asprintf(&set_event, "\n%s\n", on ? on : "") < 0 ? NULL : follower);
	same = follower->status && streq(follower->status, status) && streq(follower->set_event, set_event);
	free(follower->status);
	free(follower->set_event);
	follower->status = status;
	follower->set_event = set_event;
	if (!same)
		follower->settled = now + LOOK_UNSETTLED_MS * NS_PER_MS;
	return same && now > follower->settled && now - follower->looked < LOOK_ANYWAY_MS * NS_PER_MS;
}

static int look_at_all(struct follower *follower, struct record_view *view)
{
	_cleanup_(catalogue_deinit) struct catalogue catalogue = { 0 };
	_cleanup_(freep) char *status = must(strdup(follower->status));
	int r;

	follower->looks++;
	follower->looked = follower->asked = ctl_now_ns();
	r = tracing_read(follower->tracing, status, &catalogue);
	if (r < 0 && follower->looks == 1)
		return control_explain(follower->tracing->ctl->control_socket, r);
	if (r < 0) {
		/* A tail goes on while the daemon is restarted. */
		if (!follower->daemon_gone && !follower_stopped)
			ctl_note(
				"userevctl: the daemon does not answer (%s): events that are registered from now on are "
				"shown once it answers.",
				r == -EREMOTEIO ? control_refusal.sentence : strerror(-r));
		follower->daemon_gone = true;
		return EXIT_DONE;
	}
	follower->daemon_gone = false;
	writers_learn(follower, &catalogue);
	only_while_look(follower->tracing);
	r = turn_wanted_on(follower, &catalogue);
	if (r == CONDITION_REFUSED)
		return EXIT_REFUSED;
	if (r < 0)
		return tracefs_explain("switch events on", r);
	if (follower_stopped)
		return EXIT_DONE;
	r = turn_unwanted_off(follower, view);
	return r < 0 ? ctl_output_failed(r) : EXIT_DONE;
}

uint64_t look_pause(const struct follower *follower)
{
	uint64_t pause = LOOK_SHARE * follower->look_took;

	return MIN(MAX(pause, LOOK_LEAST_MS * NS_PER_MS), LOOK_MOST_MS * NS_PER_MS);
}

int look_now(struct follower *follower, struct record_view *view)
{
	uint64_t begun = ctl_now_ns();
	int r = read_texts(follower);

	if (r < 0)
		r = tracefs_explain("read the list of events", r);
	else
		r = r == 0 ? look_at_all(follower, view) : EXIT_DONE;
	follower->look_took = ctl_now_ns() - begun;
	follower->tracing->due = begun + follower->look_took + look_pause(follower);
	return r;
}
