/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "client/library.h"

static _Thread_local char refusal[WIRE_SENTENCE_MAX + 1];

void refusal_set(const char *text, size_t length)
{
	length = MIN(length, sizeof(refusal) - 1);
	memcpy(refusal, text, length);
	refusal[length] = '\0';
}

_public_ const char *userev_refusal(void)
{
	return refusal;
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
