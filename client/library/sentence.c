/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Few events have a sentence, so sentences are lists of their batch, not members of the event. userev_event_name() promises that
 * a name stays valid until the event is released, so an older name stays in the list behind the newer one.
 */

#include "client/library/sentence.h"
#include "client/library/batch.h"
#include "client/library/memory.h"
#include "protocol/base/base.h"

struct sentence *sentence_new(const struct userev_event *event, const char *text, size_t length)
{
	struct sentence *sentence = memory_new(sizeof(*sentence) + length + 1);

	if (!sentence)
		return NULL;
	sentence->event = event;
	memcpy(sentence->text, text, length);
	return sentence;
}

void sentences_free(struct sentences *sentences)
{
	struct sentence *sentence;

	while ((sentence = SLIST_FIRST(sentences))) {
		SLIST_REMOVE_HEAD(sentences, entry);
		memory_free(sentence);
	}
}

static struct sentence *sentence_find(const struct batch *batch, const struct userev_event *event, bool refuses)
{
	struct sentence *sentence;

	SLIST_FOREACH(sentence, &batch->sentences, entry)
	if (sentence->event == event && sentence->refuses == refuses)
		break;
	return sentence;
}

void sentence_clear_refusal(struct batch *batch, const struct userev_event *event)
{
	struct sentence *sentence = sentence_find(batch, event, true);

	if (!sentence)
		return;
	SLIST_REMOVE(&batch->sentences, sentence, sentence, entry);
	memory_free(sentence);
}

void sentence_set_refusal(struct batch *batch, const struct userev_event *event, const char *text, size_t length)
{
	struct sentence *sentence = sentence_new(event, text, length);

	sentence_clear_refusal(batch, event);
	if (!sentence)
		return;
	sentence->refuses = true;
	SLIST_INSERT_HEAD(&batch->sentences, sentence, entry);
}

const char *sentence_refusal(const struct batch *batch, const struct userev_event *event)
{
	const struct sentence *sentence = sentence_find(batch, event, true);

	return sentence ? sentence->text : NULL;
}

const char *sentence_name(const struct batch *batch, const struct userev_event *event)
{
	const struct sentence *sentence = sentence_find(batch, event, false);

	return sentence ? sentence->text : event->declared->name;
}

int sentence_set_name(struct batch *batch, const struct userev_event *event, const char *text, size_t length)
{
	const char *known = sentence_name(batch, event);
	struct sentence *sentence;

	if (strlen(known) == length && memcmp(known, text, length) == 0)
		return 0;
	sentence = sentence_new(event, text, length);
	if (!sentence)
		return -ENOMEM;
	SLIST_INSERT_HEAD(&batch->sentences, sentence, entry);
	return 0;
}
