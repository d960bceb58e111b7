/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the daemon has said of a few events, with their batch: why it refuses one, or its name where that is not the one that it
 * was declared with. Programs keep the names that they are given until they release the event.
 */

#include "client/library/library.h"

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

/* The newest one of that kind. */
static struct sentence *find(const struct batch *batch, const struct userev_event *event, bool refuses)
{
	struct sentence *sentence;

	SLIST_FOREACH(sentence, &batch->said, entry)
	if (sentence->event == event && sentence->refuses == refuses)
		break;
	return sentence;
}

void said_no_refusal(struct batch *batch, const struct userev_event *event)
{
	struct sentence *sentence = find(batch, event, true);

	if (!sentence)
		return;
	SLIST_REMOVE(&batch->said, sentence, sentence, entry);
	memory_free(sentence);
}

void said_refusal(struct batch *batch, const struct userev_event *event, const char *text, size_t length)
{
	struct sentence *sentence = sentence_new(event, text, length);

	said_no_refusal(batch, event);
	if (!sentence)
		return;
	sentence->refuses = true;
	SLIST_INSERT_HEAD(&batch->said, sentence, entry);
}

const char *said_why(const struct batch *batch, const struct userev_event *event)
{
	const struct sentence *sentence = find(batch, event, true);

	return sentence ? sentence->text : NULL;
}

const char *said_name(const struct batch *batch, const struct userev_event *event)
{
	const struct sentence *sentence = find(batch, event, false);

	return sentence ? sentence->text : event->declared->name;
}

int said_is_named(struct batch *batch, const struct userev_event *event, const char *text, size_t length)
{
	const char *known = said_name(batch, event);
	struct sentence *sentence;

	if (strlen(known) == length && memcmp(known, text, length) == 0)
		return 0;
	sentence = sentence_new(event, text, length);
	if (!sentence)
		return -ENOMEM;
	SLIST_INSERT_HEAD(&batch->said, sentence, entry);
	return 0;
}
