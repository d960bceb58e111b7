/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls for single events: registering and releasing them, and queries about them. */

#include "client/library/event.h"
#include "client/library/debug.h"
#include "client/library/library.h"
#include "client/library/lock.h"
#include "client/library/place.h"
#include "client/library/requests.h"
#include "client/library/session.h"

/* Refuses without asking the daemon. */
static void event_refuse(struct userev_registration *registration, int error, const char *refusal)
{
	debug_refusal(registration->description, refusal, strlen(refusal));
	sentence_set_last(refusal, strlen(refusal));
	registration->result = error;
	registration->why = refusal;
}

static void event_add(struct userev *userev, struct userev_registration *one)
{
	one->result = 0;
	one->why = NULL;
	if (one->flags & ~(USEREV_PERSIST | USEREV_MULTI_FORMAT))
		event_refuse(one, -EINVAL, "unknown flags; there are USEREV_PERSIST and USEREV_MULTI_FORMAT");
	else if (strlen(one->description) > WIRE_DESCRIPTION_MAX)
		event_refuse(one, -EINVAL,
			     "the description is longer than 511 bytes; use fewer fields or shorter names");
	else if (one->event->place.part.stream != 0)
		event_refuse(one, -EBUSY, "this event is registered already; release it first");
	else if (!batch_new_single(&userev->events, one->event, one->description, one->flags))
		event_refuse(one, -ENOMEM, "out of memory");
}

_public_ int userev_register_all(struct userev *userev, struct userev_registration *registrations, size_t n)
{
	LOCK_LIBRARY;
	int refused = 0;

	sentence_set_last("", 0);
	sentences_free(&userev->sentences);
	for (size_t i = 0; i < n; i++)
		event_add(userev, &registrations[i]);
	/* A program with many events waits for a silent daemon once, and not at each of them. */
	if (session_is_silent(userev))
		session_advance(userev, clock_ms());
	else
		session_advance_patiently(userev);
	for (size_t i = 0; i < n; i++) {
		struct userev_registration *one = &registrations[i];
		struct batch *batch = one->result == 0 ? batch_of(&userev->events, one->event) : NULL;
		struct sentence *refusal = batch ? sentence_refusal(&batch->sentences, one->event) : NULL;

		/* The daemon's refusal: the event is off and not registered. */
		if (refusal) {
			one->result = refusal_to_errno(refusal->refusal);
			one->why = refusal->text;
			QUEUE_REMOVE(&batch->sentences, refusal);
			QUEUE_PREPEND(&userev->sentences, refusal);
			batch_drop(&userev->events, batch);
		}
		refused += one->result != 0;
	}
	return refused;
}

_public_ int userev_register(struct userev *userev, struct userev_event *event, const char *description, unsigned flags)
{
	struct userev_registration registration = { .event = event, .description = description, .flags = flags };

	userev_register_all(userev, &registration, 1);
	return registration.result;
}

_public_ void userev_release(struct userev *userev, struct userev_event *event)
{
	LOCK_LIBRARY;
	const struct stream *stream = stream_at(event->place);

	if (!stream || userev_of(stream) != userev)
		return;
	release_batch(userev, batch_of(&userev->events, event));
	session_settle(userev, clock_ms() + session_answer_timeout_ms);
	if (userev->connection.state != CONNECTION_UP)
		streams_close_unused(&userev->files.streams);
	loss_report(userev);
}

_public_ const char *userev_refusal(void)
{
	return sentence_last;
}

/* With the lock held. */
static const char *event_why(const struct userev_event *event)
{
	static const struct {
		int error;
		const char *text;
	} problems[] = {
		{ 0, "the daemon has not answered yet" },
		{ -EAGAIN, "the daemon has not answered yet" },
		{ -ENOENT, "there is no daemon: its socket does not exist" },
		{ -ECONNREFUSED, "there is no daemon: its socket is not in use" },
		{ -EACCES, "no permission to connect to the daemon's socket" },
		{ -ETIMEDOUT, "the daemon does not answer" },
		{ -EPROTO, "the daemon's answer is not valid" },
		{ -ECONNRESET, "the daemon has closed the connection" },
	};
	const struct stream *stream = stream_at(event->place);
	const struct sentence *refusal;
	const struct userev *userev;

	if (!stream)
		return "the event is not registered";
	if (place_is_granted(event->place))
		return NULL;
	userev = userev_of(stream);
	refusal = sentence_refusal(&batch_of(&userev->events, event)->sentences, event);
	if (refusal)
		return refusal->text;
	if (userev->sentence[0])
		return userev->sentence;
	for (size_t i = 0; i < ARRAY_SIZE(problems); i++)
		if (problems[i].error == userev->error)
			return problems[i].text;
	return "there is no connection to the daemon";
}

_public_ const char *userev_why(const struct userev_event *event)
{
	LOCK_LIBRARY;

	return event_why(event);
}

bool event_copy_why(const struct userev_event *event, char *to, size_t size)
{
	LOCK_LIBRARY;
	const char *why = event_why(event);

	if (why)
		string_copy(to, size, why);
	return why != NULL;
}

_public_ const char *userev_event_name(const struct userev_event *event)
{
	LOCK_LIBRARY;

	if (!place_is_granted(event->place))
		return NULL;
	return sentence_name(&batch_of(&userev_of(stream_at(event->place))->events, event)->sentences, event);
}

_public_ bool userev_awaken(const struct userev_event *event)
{
	const struct stream *stream = stream_at(place_of(event));

	if (!stream)
		return false;
	session_look(userev_of(stream));
	return place_is_on(place_of(event));
}
