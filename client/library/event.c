/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "client/library/event.h"
#include "client/library/batch.h"
#include "client/library/lock.h"
#include "client/library/place.h"
#include "client/library/public.h"
#include "client/library/session.h"
#include "client/library/stream.h"

static _Thread_local char refusal[WIRE_SENTENCE_MAX + 1];

/* Inside a test of an event the variable must not be touched: allocating it for this thread may call malloc(). */
void event_set_refusal(const char *text, size_t length)
{
	if (!lock_is_explicit())
		return;
	length = MIN(length, sizeof(refusal) - 1);
	memcpy(refusal, text, length);
	refusal[length] = '\0';
}

_public_ const char *userev_refusal(void)
{
	return refusal;
}

static const char *event_connection_problem(const struct userev *userev)
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
	const struct stream *stream = stream_at(event->place);
	const char *refused;

	if (!stream)
		return "the event is not registered";
	if (place_is_granted(event->place))
		return NULL;
	refused = sentence_refusal(batch_of(event), event);
	return refused ? refused : event_connection_problem(stream->userev);
}

_public_ const char *userev_event_name(const struct userev_event *event)
{
	LOCK_LIBRARY;

	return place_is_granted(event->place) ? sentence_name(batch_of(event), event) : NULL;
}

_public_ const char *userev_version(void)
{
	return VERSION;
}
