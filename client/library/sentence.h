/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Texts of the daemon: refusals, and names of events that differ from the declared ones. */

#include "client/library/queue.h"

#include "client/userev.h"

struct sentence {
	QUEUE_ENTRY(sentence) entry;
	const struct userev_event *event;
	uint32_t refusal; /* REFUSAL_NONE: the event's name */
	char text[];
};

QUEUE(sentences, sentence);

void sentences_free(struct sentences *);

/* 0 or -ENOMEM. */
int sentence_set_name(struct sentences *, const struct userev_event *, const char *text, size_t length);
/* Valid until the event is released. */
const char *sentence_name(const struct sentences *, const struct userev_event *);
/* A refusal, which the event does not have yet: 0 or -ENOMEM. */
int sentence_add(struct sentences *, const struct userev_event *, uint32_t refusal, const char *text, size_t length);
/* NULL if the event was not refused. */
struct sentence *sentence_refusal(const struct sentences *, const struct userev_event *);
/* Without effect on NULL. */
void sentence_drop(struct sentences *, struct sentence *);

/* The last refusal in this thread, or "". */
extern _Thread_local char sentence_last[];
void sentence_set_last(const char *text, size_t length);
