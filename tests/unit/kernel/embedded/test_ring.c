/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/ring.h"

#include "tests/suite.h"

static void ring_freep(struct ring **ring)
{
	free((*ring)->data);
	free(*ring);
}

static struct ring *new_ring(size_t bytes)
{
	struct ring *ring = calloc(1, sizeof(*ring));

	ck_assert_ptr_nonnull(ring);
	ring->bytes = bytes;
	return ring;
}

static void push(struct ring *ring, const char *text)
{
	void *room = ring_push(ring, strlen(text));

	ck_assert_ptr_nonnull(room);
	memcpy(room, text, strlen(text));
}

static void expect(const struct ring *ring, struct ring_reader *reader, const char *text)
{
	size_t size;
	const void *entry = ring_read(ring, reader, &size);

	ck_assert_ptr_nonnull(entry);
	ck_assert_uint_eq(size, strlen(text));
	ck_assert_mem_eq(entry, text, size);
}

static void expect_end(const struct ring *ring, struct ring_reader *reader)
{
	size_t size;

	ck_assert_ptr_null(ring_read(ring, reader, &size));
}

TEST(entries_keep_their_order)
{
	_cleanup_(ring_freep) struct ring *ring = new_ring(1024);
	struct ring_reader reader = { 0 };

	expect_end(ring, &reader);
	push(ring, "one");
	push(ring, "");
	push(ring, "three");
	expect(ring, &reader, "one");
	expect(ring, &reader, "");
	expect(ring, &reader, "three");
	expect_end(ring, &reader);
	push(ring, "four");
	expect(ring, &reader, "four");
}

TEST(slow_reader_goes_on_with_the_oldest_entry)
{
	_cleanup_(ring_freep) struct ring *ring = new_ring(64); /* four entries of 16 bytes */
	struct ring_reader reader = { 0 };

	push(ring, "a");
	expect(ring, &reader, "a");
	for (char text[2] = "b"; text[0] <= 'h'; text[0]++)
		push(ring, text);
	ck_assert_uint_eq(ring->oldest, 4);
	ck_assert_uint_eq(ring->next, 8);
	expect(ring, &reader, "e");
	expect(ring, &reader, "f");
}

TEST(entry_as_large_as_ring_fits)
{
	_cleanup_(ring_freep) struct ring *ring = new_ring(64);
	struct ring_reader reader = { 0 };
	char text[57] = "";

	push(ring, "first");
	ck_assert_ptr_null(ring_push(ring, 57));
	ck_assert_ptr_null(ring_push(ring, SIZE_MAX));
	expect(ring, &reader, "first");
	memset(text, 'x', 56);
	push(ring, text);
	ck_assert_uint_eq(ring->oldest, 1);
	expect(ring, &reader, text);
}

TEST(unused_ring_takes_no_memory)
{
	_cleanup_(ring_freep) struct ring *ring = new_ring(PTRDIFF_MAX - 4095);

#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__) /* a sanitizer takes so large a request for an error */
	ck_assert_ptr_null(ring_push(ring, 1));
#endif
	ck_assert_uint_eq(ring->next, 0);
}

TEST(reader_may_be_moved)
{
	_cleanup_(ring_freep) struct ring *ring = new_ring(1024);
	struct ring_reader reader = { 0 };

	for (char text[2] = "a"; text[0] <= 'j'; text[0]++)
		push(ring, text);
	reader.position = 7;
	expect(ring, &reader, "h");
	reader.position = 2;
	expect(ring, &reader, "c");
	expect(ring, &reader, "d");
	reader.position = ring->next;
	expect_end(ring, &reader);
	push(ring, "k");
	expect(ring, &reader, "k");
	reader.position = 1000;
	expect_end(ring, &reader);
	ck_assert_uint_eq(reader.position, 11);
}

TEST(entries_are_aligned_to_eight_bytes)
{
	_cleanup_(ring_freep) struct ring *ring = new_ring(1000);

	for (size_t size = 0; size < 100; size++)
		ck_assert_uint_eq((uintptr_t)ring_push(ring, size) % 8, 0);
}

/*
 * The model has the whole history. Entry n has a size and a byte that follow from n.
 */
enum { BYTES = 512, STEPS = 20000, READERS = 4, SIZE_LIMIT = 120, SPACE_LIMIT = 8 + SIZE_LIMIT };

static size_t size_of[STEPS];

static void push_next(struct ring *ring, uint64_t n)
{
	void *room;

	size_of[n] = (size_t)random() % (SIZE_LIMIT + 1);
	room = ring_push(ring, size_of[n]);
	ck_assert_ptr_nonnull(room);
	memset(room, (int)(n % 251), size_of[n]);
}

static size_t space_kept(const struct ring *ring)
{
	size_t sum = 0;

	for (uint64_t n = ring->oldest; n < ring->next; n++)
		sum += 8 + (size_of[n] + 7) / 8 * 8;
	return sum;
}

static void check_bounds(const struct ring *ring, uint64_t pushed)
{
	ck_assert_uint_eq(ring->next, pushed);
	ck_assert_uint_lt(ring->oldest, pushed);
	ck_assert_uint_le(space_kept(ring), BYTES);
	/* Wrapping and the entry that was replaced last take the space of less than two entries. */
	if (ring->oldest > 0)
		ck_assert_uint_gt(space_kept(ring) + 2 * SPACE_LIMIT, BYTES);
}

static void check_read(const struct ring *ring, struct ring_reader *reader)
{
	uint64_t expected = MAX(reader->position, ring->oldest);
	size_t size = 0;
	const uint8_t *entry = ring_read(ring, reader, &size);

	if (expected == ring->next) {
		ck_assert_ptr_null(entry);
		ck_assert_uint_eq(reader->position, expected);
		return;
	}
	ck_assert_ptr_nonnull(entry);
	ck_assert_uint_eq(reader->position, expected + 1);
	ck_assert_uint_eq(size, size_of[expected]);
	for (size_t i = 0; i < size; i++)
		ck_assert_uint_eq(entry[i], expected % 251);
}

TEST(random_history_agrees_with_model)
{
	_cleanup_(ring_freep) struct ring *ring = new_ring(BYTES);
	struct ring_reader reader[READERS] = { 0 };
	uint64_t pushed = 0;

	srandom(1);
	for (int step = 0; step < STEPS; step++) {
		struct ring_reader *someone = &reader[random() % READERS];

		/* Bursts of both: readers are at the end, or behind. */
		if ((step / 16 % 3 == 0) == (random() % 8 != 0)) {
			push_next(ring, pushed++);
			check_bounds(ring, pushed);
		} else {
			if (random() % 64 == 0)
				someone->position = (uint64_t)random() % (pushed + 1);
			check_read(ring, someone);
		}
	}
	ck_assert_uint_gt(ring->oldest, 1000);
}
