/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an event shows to who tests it is one of these:
 *	off		status leads to the event's own zeros
 *	granted		status leads to a byte of the page
 *	pending		status leads to a byte that is never 0, and the place says so: userev_enabled() then asks userev_awaken()
 *
 * Its place says where it is written to, and so whose it is: while no daemon has granted it, that is its connection's `nowhere`.
 */

#include "client/library/library.h"

/* Bit 0 of a page is nobody's: one event in eight takes this for its own, if it is made pending just between two looks. */
static const unsigned char never_off = 1;

static void move_holder(union userev_place from, union userev_place to)
{
	if (stream_at(from))
		stream_at(from)->holders--;
	if (stream_at(to))
		stream_at(to)->holders++;
}

/*
 * Others may be testing and writing meanwhile. Off comes first and on comes last; an event that stays where it was on the
 * page is never off in between. Whatever they see of it, they write to one place or the other.
 */
static void publish(struct userev_event *event, union userev_place place, const void *byte)
{
	const intptr_t status = byte ? (intptr_t)((uintptr_t)byte - (uintptr_t)event) : 0;
	const union userev_place before = event->place;

	if (place.part.stream != 0)
		place.part.stream |= before.part.stream & PLACE_WAS_ON;
	if (event->status != status || before.part.bit != place.part.bit)
		__atomic_store_n(&event->status, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&event->place.whole, place.whole, __ATOMIC_RELEASE);
	__atomic_store_n(&event->status, status, __ATOMIC_RELEASE);
	move_holder(before, place);
}

static union userev_place nowhere(const struct userev *userev)
{
	return (union userev_place){ .part = { .stream = userev->nowhere->slot } };
}

static const uint8_t *byte_of(union userev_place place)
{
	return stream_at(place)->userev->page + (place.part.bit & PLACE_BIT) / 8;
}

bool place_is_on(union userev_place place)
{
	if (!place_is_granted(place) || atomic_load_explicit(&stream_at(place)->ended, memory_order_relaxed) ||
	    page_is_abandoned(stream_at(place)->userev))
		return false;
	return (*(const volatile uint8_t *)byte_of(place) & 1U << place.part.bit % 8) != 0;
}

void event_is_granted(struct userev_event *event, union userev_place place)
{
	publish(event, place, byte_of(place));
}

void event_is_refused(const struct userev *userev, struct userev_event *event)
{
	publish(event, nowhere(userev), NULL);
}

void event_waits(const struct userev *userev, struct userev_event *event)
{
	union userev_place place = place_is_granted(event->place) ? event->place : nowhere(userev);

	place.part.bit |= USEREV_PENDING_;
	publish(event, place, &never_off);
}

void event_waits_anew(const struct userev *userev, struct userev_event *event)
{
	union userev_place place = nowhere(userev);

	place.part.bit = USEREV_PENDING_;
	publish(event, place, &never_off);
}

void event_goes_on(const struct userev *userev, struct userev_event *event)
{
	union userev_place place = event->place;

	place.part.bit &= PLACE_BIT;
	if (place_is_granted(place))
		event_is_granted(event, place);
	else
		event_is_refused(userev, event);
}

void event_forget(struct userev_event *event)
{
	publish(event, (union userev_place){ 0 }, NULL);
}

bool event_has_changed(struct userev_event *event)
{
	union userev_place place = event->place;
	const bool was_on = (place.part.stream & PLACE_WAS_ON) != 0;

	if (place_is_on(place) == was_on)
		return false;
	place.part.stream ^= PLACE_WAS_ON;
	__atomic_store_n(&event->place.whole, place.whole, __ATOMIC_RELEASE);
	return true;
}
