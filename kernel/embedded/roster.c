/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/roster.h"

static int grow(struct roster *roster)
{
	size_t capacity = roster->capacity ? roster->capacity * 2 : 4;
	struct roster_place *place = reallocarray(roster->place, capacity, sizeof(*place));

	if (!place)
		return -ENOMEM;
	roster->place = place;
	roster->capacity = capacity;
	return 0;
}

int roster_append(struct roster *roster, uint64_t number, void *thing)
{
	int r;

	if (roster->n == roster->capacity) {
		r = grow(roster);
		if (r < 0)
			return r;
	}
	roster->place[roster->n++] = (struct roster_place){ .number = number, .thing = thing };
	return 0;
}

/* The first place whose number is at least that. */
static size_t seek(const struct roster *roster, uint64_t number)
{
	size_t low = 0, high = roster->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (roster->place[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void *roster_from(const struct roster *roster, uint64_t number)
{
	for (size_t i = seek(roster, number); i < roster->n; i++)
		if (roster->place[i].thing)
			return roster->place[i].thing;
	return NULL;
}

void *roster_find(const struct roster *roster, uint64_t number)
{
	size_t i = seek(roster, number);

	return i < roster->n && roster->place[i].number == number ? roster->place[i].thing : NULL;
}

/* Closes the holes, and gives memory back. */
static void compact(struct roster *roster)
{
	struct roster_place *place;
	size_t kept = 0;

	for (size_t i = 0; i < roster->n; i++)
		if (roster->place[i].thing)
			roster->place[kept++] = roster->place[i];
	roster->n = kept;
	roster->holes = 0;
	if (kept == 0) {
		roster_deinit(roster);
		return;
	}
	place = reallocarray(roster->place, kept, sizeof(*place));
	if (place) {
		roster->place = place;
		roster->capacity = kept;
	}
}

void roster_remove(struct roster *roster, uint64_t number)
{
	size_t i = seek(roster, number);

	if (i == roster->n || roster->place[i].number != number || !roster->place[i].thing)
		return;
	roster->place[i].thing = NULL;
	/* Only when half of it is holes, so that removing all of many costs as much as appending them did. */
	if (++roster->holes > roster->n / 2)
		compact(roster);
}

void roster_deinit(struct roster *roster)
{
	free(roster->place);
	*roster = (struct roster){ 0 };
}
