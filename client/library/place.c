/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An event is in one of three states, by where its status points to:
 *	off		to a byte that is always 0; before its registration to its own status word, which is 0
 *	granted		to a byte of the status page
 *	pending		to a byte that is never 0, and the place has USEREV_PENDING_: userev_enabled() calls userev_awaken()
 *
 * The place names the stream to write to, and through it the userev. Events without a grant are in a stream without a file.
 */

#include "client/library/place.h"
#include "client/library/page.h"
#include "client/library/stream.h"

/*
 * While an event becomes pending, another thread may combine this byte with the event's former bit. Only bit 0 is set, which is
 * the bit of one event in eight.
 */
static const unsigned char never_off = 1;
/* Not the event's own status: a processor tests an event a third slower if both loads are of one word. */
static const unsigned char never_on;

/*
 * Other threads may be testing and writing the event. If status or bit change, the event is off first and on last; an event that
 * keeps its place on the page is never off in between. A writer sees the old or the new place.
 */
static void place_publish(struct userev_event *event, union userev_place place, const void *byte)
{
	const intptr_t status = byte ? (intptr_t)((uintptr_t)byte - (uintptr_t)event) : 0;
	const union userev_place before = event->place;

	if (place.part.stream != 0)
		place.part.stream |= before.part.stream & PLACE_WAS_ON;
	if (event->status != status || before.part.bit != place.part.bit)
		__atomic_store_n(&event->status, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&event->place.whole, place.whole, __ATOMIC_RELEASE);
	__atomic_store_n(&event->status, status, __ATOMIC_RELEASE);
	if (stream_at(before))
		stream_at(before)->n_events--;
	if (stream_at(place))
		stream_at(place)->n_events++;
}

static const uint8_t *place_byte(union userev_place place)
{
	return stream_at(place)->files->page + (place.part.bit & PLACE_BIT) / 8;
}

bool place_is_on(union userev_place place)
{
	if (!place_is_granted(place) || atomic_load_explicit(&stream_at(place)->ended, memory_order_relaxed) ||
	    page_is_abandoned(stream_at(place)->files->page))
		return false;
	return (*(const volatile uint8_t *)place_byte(place) & 1U << place.part.bit % 8) != 0;
}

void place_grant(struct userev_event *event, union userev_place place)
{
	place_publish(event, place, place_byte(place));
}

void place_refuse(struct userev_event *event, const struct stream *ungranted)
{
	place_publish(event, (union userev_place){ .part.stream = ungranted->slot }, &never_on);
}

void place_wait_anew(struct userev_event *event, const struct stream *ungranted)
{
	place_publish(event, (union userev_place){ .part = { .stream = ungranted->slot, .bit = USEREV_PENDING_ } },
		      &never_off);
}

void place_wait(struct userev_event *event, const struct stream *ungranted)
{
	union userev_place place = event->place;

	if (!place_is_granted(place)) {
		place_wait_anew(event, ungranted);
		return;
	}
	place.part.bit |= USEREV_PENDING_;
	place_publish(event, place, &never_off);
}

void place_resume(struct userev_event *event, const struct stream *ungranted)
{
	union userev_place place = event->place;

	place.part.bit &= PLACE_BIT;
	if (place_is_granted(place))
		place_grant(event, place);
	else
		place_refuse(event, ungranted);
}

void place_clear(struct userev_event *event)
{
	place_publish(event, (union userev_place){ 0 }, NULL);
}

bool place_has_changed(struct userev_event *event)
{
	union userev_place place = event->place;
	const bool was_on = (place.part.stream & PLACE_WAS_ON) != 0;

	if (place_is_on(place) == was_on)
		return false;
	place.part.stream ^= PLACE_WAS_ON;
	__atomic_store_n(&event->place.whole, place.whole, __ATOMIC_RELEASE);
	return true;
}
