/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The words of struct userev_event that other threads read without a lock: its status and its place. */

#include "client/userev.h"
#include "protocol/base/base.h"

struct stream;

/* Bits of a place, besides USEREV_PENDING_. */
enum {
	PLACE_BIT = 0x7fff,    /* in `bit`: the event's bit of the status page; 0: it has no grant */
	PLACE_WAS_ON = 0x8000, /* in `stream`, above the slot: the state that userev_changed() has reported */
};

/* One load, so that index, stream and bit always belong together. */
static inline union userev_place place_of(const struct userev_event *event)
{
	return (union userev_place){ .whole = __atomic_load_n(&event->place.whole, __ATOMIC_ACQUIRE) };
}

static inline bool place_is_granted(union userev_place place)
{
	return (place.part.bit & PLACE_BIT) != 0;
}

/* Whether the event's bit of the status page is set. */
bool place_is_on(union userev_place);

/* In the functions with `ungranted`, an event without a grant belongs to that stream. */
void place_grant(struct userev_event *, union userev_place);
/* The event is registered and off. */
void place_refuse(struct userev_event *, const struct stream *ungranted);
/* Tests of the event look for a daemon. A former grant stays in use until there is a new one. */
void place_wait(struct userev_event *, const struct stream *ungranted);
/* Tests of the event look for a daemon, and a former grant is dropped. */
void place_wait_anew(struct userev_event *, const struct stream *ungranted);
/* The opposite of place_wait(): a grant is valid again, an event without a grant is off. */
void place_resume(struct userev_event *, const struct stream *ungranted);
/* The event is off and not registered. */
void place_clear(struct userev_event *);
/* Whether the event was switched since the last call. Initially it is off. */
bool place_has_changed(struct userev_event *);
