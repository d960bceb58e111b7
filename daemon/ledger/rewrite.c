/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The keeper has a copy of the file's descriptor, so a rewrite has to use the same file: the current entries are copied to
 * another place in it, and then the header's start is set to that place. That is one word, so the change is atomic. Until
 * then the old place is valid, and goes on growing: entries that are added meanwhile are copied at the end.
 *
 * A million entries take a second, so the rewrite is done in pieces, one in each turn of the loop: first the last entry of
 * each thing is found, then these are copied, then the entries that were added since. A piece is larger while many entries are
 * added, so that the rewrite ends, and before both places meet. Freeing the old place of a million entries takes milliseconds.
 */

#include <fcntl.h>

#include "daemon/ledger/ledger.h"

enum {
	PIECE_BYTES = 32 << 10,	 /* some hundred entries: some ten µs */
	UNIT = sizeof(uint64_t), /* of places: an entry is a multiple of it, and so is where it begins */
	SLOTS_MIN = 1 << 10,
};

/* Of a thing: the places of its first entry since it was struck, and of its last, in units. `last` 0: the slot is free. */
struct slot {
	uint32_t first; /* 0: it was struck */
	uint32_t last;
};

struct ledger_rewriting {
	/* Does one piece. Whether there is more to do; otherwise the rewrite has ended. */
	bool (*part)(struct ledger *, struct ledger_rewriting *, size_t piece);
	struct slot *slots;
	size_t n_slots; /* a power of two */
	size_t n_things;
	size_t lasting;	    /* bytes of current entries */
	size_t seen;	    /* of the old place, how far it was when the last piece was done */
	size_t at;	    /* in the old place */
	size_t behind;	    /* entries from here on were added since the first step */
	size_t start, used; /* of the new place */
};

static const struct ledger_entry *entry_at(const struct ledger *ledger, size_t at)
{
	return (const void *)(ledger->memory + at);
}

static struct slot *slot_find(const struct ledger *ledger, const struct ledger_rewriting *rewriting,
			      const struct ledger_entry *entry)
{
	/* Numbers are consecutive: the multiplications spread them. */
	uint64_t sum = entry->a * UINT64_C(0x9e3779b97f4a7c15) + entry->b * UINT64_C(0xc2b2ae3d27d4eb4f) + entry->kind;
	const struct ledger_entry *last;
	struct slot *slot;

	for (size_t i = (sum ^ sum >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 20;; i++) {
		slot = &rewriting->slots[i & (rewriting->n_slots - 1)];
		last = entry_at(ledger, (size_t)slot->last * UNIT);
		if (slot->last == 0 || (last->kind == entry->kind && last->a == entry->a && last->b == entry->b))
			return slot;
	}
}

void ledger_rewriting_free(struct ledger *ledger)
{
	if (ledger->rewriting)
		free(ledger->rewriting->slots);
	free(ledger->rewriting);
	ledger->rewriting = NULL;
}

/* Ends the rewrite and frees a place, which reads as zeros again. */
static bool rewriting_end(struct ledger *ledger, size_t start, size_t used)
{
	ledger_rewriting_free(ledger);
	if (used > start &&
	    fallocate(ledger->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start, (off_t)(used - start)) < 0)
		ledger->failed = -errno;
	return false;
}

/* The next rewrite begins when the ledger is twice as long. */
static bool rewriting_give_up(struct ledger *ledger)
{
	ledger->lasting = ledger->used - ledger->start;
	return rewriting_end(ledger, ledger->rewriting->start, ledger->rewriting->used);
}

void ledger_make_way(struct ledger *ledger, size_t end)
{
	const struct ledger_rewriting *rewriting = ledger->rewriting;

	/* Behind the end must be zeros. */
	if (rewriting && rewriting->start >= ledger->used && end + sizeof(struct ledger_entry) > rewriting->start)
		rewriting_give_up(ledger);
}

static bool copy_entry(struct ledger *ledger, struct ledger_rewriting *rewriting, size_t from)
{
	size_t size = entry_at(ledger, from)->size, end = rewriting->used + size;

	/* The new place must not overlap the old one; each ends with a zero. */
	if (rewriting->start < ledger->start ? end + sizeof(struct ledger_entry) > ledger->start
					     : ledger->used + sizeof(struct ledger_entry) > rewriting->start)
		return false;
	ledger->failed = ledger_make_room(ledger, end);
	if (ledger->failed < 0)
		return false;
	memcpy(ledger->memory + rewriting->used, ledger->memory + from, size);
	rewriting->used = end;
	return true;
}

static bool copy_later_entries(struct ledger *ledger, struct ledger_rewriting *rewriting, size_t piece)
{
	size_t end = MIN(ledger->used, rewriting->at + piece), start = ledger->start, used = ledger->used;
	struct ledger_header *header;

	for (; rewriting->at < end; rewriting->at += entry_at(ledger, rewriting->at)->size)
		if (!copy_entry(ledger, rewriting, rewriting->at))
			return rewriting_give_up(ledger);
	if (rewriting->at < ledger->used)
		return true;
	header = (void *)ledger->memory;
	__atomic_store_n(&header->start, rewriting->start, __ATOMIC_RELEASE);
	ledger->start = rewriting->start;
	ledger->used = rewriting->used;
	ledger->lasting = rewriting->lasting;
	return rewriting_end(ledger, start, used);
}

/* In the order in which they were entered first. */
static bool copy_current_entries(struct ledger *ledger, struct ledger_rewriting *rewriting, size_t piece)
{
	size_t end = MIN(rewriting->behind, rewriting->at + piece);

	for (size_t size; rewriting->at < end; rewriting->at += size) {
		const struct ledger_entry *entry = entry_at(ledger, rewriting->at);
		const struct slot *slot = slot_find(ledger, rewriting, entry);

		size = entry->size;
		if (slot->first == rewriting->at / UNIT && !copy_entry(ledger, rewriting, (size_t)slot->last * UNIT))
			return rewriting_give_up(ledger);
	}
	if (rewriting->at == rewriting->behind)
		rewriting->part = copy_later_entries;
	return true;
}

static void slot_note(const struct ledger *ledger, struct ledger_rewriting *rewriting, const struct ledger_entry *entry)
{
	struct slot *slot = slot_find(ledger, rewriting, entry);
	uint32_t place = (uint32_t)(rewriting->at / UNIT);

	rewriting->n_things += slot->last == 0;
	if (slot->first != 0)
		rewriting->lasting -= entry_at(ledger, (size_t)slot->last * UNIT)->size;
	slot->last = place;
	if (entry->struck) {
		slot->first = 0;
		return;
	}
	if (slot->first == 0)
		slot->first = place;
	rewriting->lasting += entry->size;
}

static bool find_current_entries(struct ledger *ledger, struct ledger_rewriting *rewriting, size_t piece)
{
	size_t end = MIN(ledger->used, rewriting->at + piece), first = sizeof(struct ledger_header), more;

	for (size_t size; rewriting->at < end; rewriting->at += size) {
		const struct ledger_entry *entry = entry_at(ledger, rewriting->at);

		size = entry->size;
		if (rewriting->n_things > rewriting->n_slots / 10 * 9 || rewriting->at / UNIT > UINT32_MAX)
			return rewriting_give_up(ledger);
		slot_note(ledger, rewriting, entry);
	}
	if (rewriting->at < ledger->used)
		return true;
	rewriting->behind = rewriting->at;
	rewriting->at = ledger->start;
	/* At the beginning if there is room before the old place; otherwise so far behind it that it does not grow into the new one. */
	more = ledger->used - ledger->start + LEDGER_SPARE;
	rewriting->start = first + rewriting->lasting + more <= ledger->start ? first : ledger->used + more;
	rewriting->used = rewriting->start;
	rewriting->part = copy_current_entries;
	return true;
}

/* Without memory it waits until there is twice as much. */
static void rewriting_begin(struct ledger *ledger)
{
	struct ledger_rewriting *rewriting = calloc(1, sizeof(*rewriting));
	struct slot *slots;
	size_t n = SLOTS_MIN;

	while (n < 2 * (ledger->used - ledger->start) / sizeof(struct ledger_entry))
		n *= 2;
	slots = calloc(n, sizeof(*slots));
	if (!rewriting || !slots) {
		free(rewriting);
		free(slots);
		ledger->lasting = ledger->used - ledger->start;
		return;
	}
	*rewriting = (struct ledger_rewriting){
		.part = find_current_entries,
		.slots = slots,
		.n_slots = n,
		.seen = ledger->used,
		.at = ledger->start,
	};
	ledger->rewriting = rewriting;
}

bool ledger_tidy(struct ledger *ledger)
{
	struct ledger_rewriting *rewriting;
	size_t more;

	if (!ledger || ledger->failed < 0)
		return false;
	if (!ledger->rewriting && ledger->used - ledger->start > 2 * ledger->lasting + LEDGER_SPARE)
		rewriting_begin(ledger);
	rewriting = ledger->rewriting;
	if (!rewriting)
		return false;
	more = ledger->used - rewriting->seen;
	rewriting->seen = ledger->used;
	return rewriting->part(ledger, rewriting, MAX((size_t)PIECE_BYTES, 4 * more));
}
