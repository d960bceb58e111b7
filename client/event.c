/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "client/library.h"

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

struct sentence *sentence_new(const char *text, size_t length)
{
	struct sentence *sentence = memory_new(sizeof(*sentence) + length + 1);

	if (sentence)
		memcpy(sentence->text, text, length);
	return sentence;
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
	const struct claim *claim = event->grant ? event->grant->claim : NULL;

	if (!claim)
		return "it is not registered";
	if (claim->refused)
		return claim->refused->text;
	return claim->bit ? NULL : why_there_is_no_connection(claim->userev);
}

_public_ const char *userev_event_name(const struct userev_event *event)
{
	const struct userev_grant *grant = __atomic_load_n(&event->grant, __ATOMIC_ACQUIRE);

	return grant ? grant->name : NULL;
}

_public_ const char *userev_version(void)
{
	return VERSION;
}
