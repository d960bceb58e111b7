/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/ring.h"

/*
 * Entries lie in one block, each behind its size, none split: an entry that does not fit before the end goes to the beginning, and a mark
 * is left in its place. So the entries are [head, tail) or, wrapped, [head, mark) and [0, tail).
 *
 * A reader remembers where the entry after the last one that it read begins (or the mark there). That is valid as long as the entry
 * before it exists; if it does not, the reader is at the oldest entry or behind it, which begins at head. So readers need not be told
 * when the ring moves.
 */

struct entry {
	uint32_t size; /* or MARK */
	uint32_t zero;
};

enum { ALIGNMENT = 8 };
#define MARK UINT32_MAX

static struct entry *ring_entry_at(const struct ring *ring, size_t offset)
{
	return (struct entry *)(void *)(ring->data + offset);
}

static size_t entry_space(size_t size)
{
	return sizeof(struct entry) + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The offset of the entry that would begin here. */
static size_t past_mark(const struct ring *ring, size_t offset)
{
	return offset == ring->bytes || ring_entry_at(ring, offset)->size == MARK ? 0 : offset;
}

static size_t entry_end(const struct ring *ring, size_t offset)
{
	return offset + entry_space(ring_entry_at(ring, offset)->size);
}

static void ring_drop_oldest(struct ring *ring)
{
	size_t head = entry_end(ring, ring->head);

	if (++ring->oldest == ring->next) {
		ring->head = ring->tail = 0;
		ring->wrapped = false;
		return;
	}
	ring->head = past_mark(ring, head);
	if (ring->head < head)
		ring->wrapped = false;
}

void *ring_push(struct ring *ring, size_t size)
{
	struct entry *entry;

	if (size >= MARK || size > ring->bytes - sizeof(struct entry))
		return NULL;
	if (!ring->data)
		ring->data = calloc(1, ring->bytes);
	if (!ring->data)
		return NULL;
	/* Room behind the tail. */
	while ((ring->wrapped ? ring->head : ring->bytes) - ring->tail < entry_space(size)) {
		if (ring->wrapped) {
			ring_drop_oldest(ring);
			continue;
		}
		if (ring->tail < ring->bytes)
			ring_entry_at(ring, ring->tail)->size = MARK;
		ring->tail = 0;
		ring->wrapped = true;
	}
	entry = ring_entry_at(ring, ring->tail);
	*entry = (struct entry){ .size = (uint32_t)size };
	ring->tail += entry_space(size);
	ring->next++;
	return entry + 1;
}

const void *ring_read(const struct ring *ring, struct ring_reader *reader, size_t *ret_size)
{
	size_t offset = ring->head;

	reader->position = MAX(reader->position, ring->oldest);
	if (reader->position >= ring->next) {
		reader->at = reader->position = ring->next;
		reader->offset = ring->tail;
		return NULL;
	}
	if (reader->position > ring->oldest && reader->at == reader->position)
		offset = past_mark(ring, reader->offset);
	else
		for (uint64_t at = ring->oldest; at < reader->position; at++)
			offset = past_mark(ring, entry_end(ring, offset));
	reader->at = ++reader->position;
	reader->offset = entry_end(ring, offset);
	*ret_size = ring_entry_at(ring, offset)->size;
	return ring_entry_at(ring, offset) + 1;
}
