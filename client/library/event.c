/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "client/library/library.h"

static _Thread_local char refusal[WIRE_SENTENCE_MAX + 1];

/* Of a thread that did not ask, not even the buffer is there: making it may take malloc(). */
void refusal_set(const char *text, size_t length)
{
	if (!library_is_asked())
		return;
	length = MIN(length, sizeof(refusal) - 1);
	memcpy(refusal, text, length);
	refusal[length] = '\0';
}

_public_ const char *userev_refusal(void)
{
	return refusal;
}

static const char *why_there_is_no_connection(const struct userev *userev)
{
	if (userev->sentence[0])
		return userev->sentence;
	switch (-userev->error) {
	case 0:
	case EAGAIN:
		return "the daemon has not answered yet";
	case ENOENT:
		return "there is no daemon: its socket does not exist";
	case ECONNREFUSED:
		return "there is no daemon: nobody listens on its socket";
	case EACCES:
		return "no permission to connect to the daemon's socket";
	case ETIMEDOUT:
		return "the daemon does not answer";
	case EPROTO:
		return "the daemon's answer made no sense";
	case ECONNRESET:
		return "the daemon has hung up";
	default:
		return "there is no connection to the daemon";
	}
}

_public_ const char *userev_why(const struct userev_event *event)
{
	ENTER_LIBRARY;
	const struct stream *stream = stream_at(event->place);
	const char *refused;

	if (!stream)
		return "it is not registered";
	if (place_is_granted(event->place))
		return NULL;
	refused = said_why(batch_of(event), event);
	return refused ? refused : why_there_is_no_connection(stream->userev);
}

_public_ const char *userev_event_name(const struct userev_event *event)
{
	ENTER_LIBRARY;

	return place_is_granted(event->place) ? said_name(batch_of(event), event) : NULL;
}

_public_ const char *userev_version(void)
{
	return VERSION;
}
