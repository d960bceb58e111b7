/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Few events have a sentence, so sentences are lists of their batch, not members of the event. userev_event_name() promises that
 * a name stays valid until the event is released, so an older name stays in the list behind the newer one.
 */

#include "client/library/sentence.h"
#include "client/library/lock.h"
#include "client/library/memory.h"
#include "protocol/refusal.h"

_Thread_local char sentence_last[WIRE_SENTENCE_MAX + 1];

/* Inside a test of an event the variable must not be touched: allocating it for this thread may call malloc(). */
void sentence_set_last(const char *text, size_t length)
{
	if (lock_is_explicit)
		string_copy(sentence_last, MIN(length + 1, sizeof(sentence_last)), text);
}

int sentence_add(struct sentences *sentences, const struct userev_event *event, uint32_t refusal, const char *text,
		 size_t length)
{
	struct sentence *sentence = memory_new(sizeof(*sentence) + length + 1);

	if (!sentence)
		return -ENOMEM;
	sentence->event = event;
	sentence->refusal = refusal;
	memcpy(sentence->text, text, length);
	QUEUE_PREPEND(sentences, sentence);
	return 0;
}

void sentence_drop(struct sentences *sentences, struct sentence *sentence)
{
	if (!sentence)
		return;
	QUEUE_REMOVE(sentences, sentence);
	memory_free(sentence);
}

void sentences_free(struct sentences *sentences)
{
	while (QUEUE_FIRST(sentences))
		sentence_drop(sentences, QUEUE_FIRST(sentences));
}

static struct sentence *sentence_find(const struct sentences *sentences, const struct userev_event *event, bool refuses)
{
	struct sentence *sentence;

	QUEUE_FOREACH(sentence, sentences)
		if (sentence->event == event && (sentence->refusal != REFUSAL_NONE) == refuses)
			break;
	return sentence;
}

struct sentence *sentence_refusal(const struct sentences *sentences, const struct userev_event *event)
{
	return sentence_find(sentences, event, true);
}

const char *sentence_name(const struct sentences *sentences, const struct userev_event *event)
{
	const struct sentence *sentence = sentence_find(sentences, event, false);

	return sentence ? sentence->text : event->declared->name;
}

int sentence_set_name(struct sentences *sentences, const struct userev_event *event, const char *text, size_t length)
{
	const char *known = sentence_name(sentences, event);

	if (strlen(known) == length && memcmp(known, text, length) == 0)
		return 0;
	return sentence_add(sentences, event, REFUSAL_NONE, text, length);
}
