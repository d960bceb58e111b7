/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Texts of the daemon about single events: refusals, and names that differ from the declared ones. */

#include <sys/queue.h>

#include "client/userev.h"

struct batch;

struct sentence {
	SLIST_ENTRY(sentence) entry;
	const struct userev_event *event;
	bool refuses; /* a refusal; else the event's name */
	char text[];
};

SLIST_HEAD(sentences, sentence);

struct sentence *sentence_new(const struct userev_event *event, const char *text, size_t length);
void sentences_free(struct sentences *);

/* 0 or -ENOMEM. */
int sentence_set_name(struct batch *, const struct userev_event *, const char *text, size_t length);
/* Valid until the event is released. */
const char *sentence_name(const struct batch *, const struct userev_event *);
void sentence_set_refusal(struct batch *, const struct userev_event *, const char *text, size_t length);
void sentence_clear_refusal(struct batch *, const struct userev_event *);
/* NULL if the event was not refused. */
const char *sentence_refusal(const struct batch *, const struct userev_event *);
