/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <sys/wait.h>

#include "tests/suite.h"

/* Before the header, so that memory can be short. */
static bool memory_is_short;
#define uthash_malloc(size) (memory_is_short ? NULL : malloc(size))

#include "protocol/base/table.h"

enum {
	MANY = 20000,
	COLLIDING_BITS = 12,
	COLLIDING = 1 << COLLIDING_BITS,
	KEY_MAX = 2 * COLLIDING_BITS,
};

struct thing {
	uint32_t number;
	size_t length;
	char name[KEY_MAX];
	UT_hash_handle by_number;
	UT_hash_handle by_name;
};

static struct thing *find(struct thing *table, uint32_t number)
{
	struct thing *thing;

	HASH_FIND(by_number, table, &number, sizeof(number), thing);
	return thing;
}

/* False: there is no memory. */
static bool add(struct thing **table, struct thing *thing, uint32_t number)
{
	thing->number = number;
	HASH_ADD(by_number, *table, number, sizeof(thing->number), thing);
	return table_added();
}

TEST(added_entry_is_found_until_deleted)
{
	struct thing one = { 0 }, two = { 0 }, *table = NULL;

	ck_assert_ptr_null(find(table, 1));
	ck_assert(add(&table, &one, 1));
	/* Each client and each stream has a table. */
	ck_assert_uint_le(HASH_OVERHEAD(by_number, table), 256);
	ck_assert(add(&table, &two, 2));
	ck_assert_ptr_eq(find(table, 1), &one);
	ck_assert_ptr_eq(find(table, 2), &two);
	ck_assert_ptr_null(find(table, 3));
	ck_assert_uint_eq(HASH_CNT(by_number, table), 2);
	HASH_DELETE(by_number, table, &one);
	ck_assert_ptr_null(find(table, 1));
	ck_assert_ptr_eq(find(table, 2), &two);
	HASH_DELETE(by_number, table, &two);
	ck_assert_ptr_null(table);
}

static size_t longest_chain(const struct thing *table)
{
	const UT_hash_table *buckets = table->by_name.tbl;
	size_t longest = 0;

	for (unsigned i = 0; i < buckets->num_buckets; i++)
		longest = MAX(longest, buckets->buckets[i].count);
	return longest;
}

static uint32_t bernstein(const char *at, size_t length)
{
	uint32_t hash = 0;

	while (length-- > 0)
		hash = hash * 33 + (uint8_t)*at++;
	return hash;
}

/* "Ab" and "BA" have the same hash if it multiplies by 33, and so have all sequences of them. */
TEST(chosen_names_do_not_collide)
{
	_cleanup_(freep) struct thing *things = calloc(COLLIDING, sizeof(*things));
	struct thing *table = NULL, *found;

	for (uint32_t i = 0; i < COLLIDING; i++) {
		struct thing *thing = &things[i];

		thing->length = KEY_MAX;
		for (unsigned bit = 0; bit < COLLIDING_BITS; bit++)
			memcpy(thing->name + 2 * bit, i >> bit & 1 ? "Ab" : "BA", 2);
		if (bernstein(thing->name, KEY_MAX) != bernstein(things[0].name, KEY_MAX))
			ck_abort_msg("the names do not collide even without a key");
		HASH_ADD(by_name, table, name, thing->length, thing);
		if (!table_added())
			ck_abort();
	}
	/* At random, one of 4,096 chains of 10 at most has more than 40 once in 10^13 runs. */
	ck_assert_uint_le(longest_chain(table), 40);
	HASH_FIND(by_name, table, things[17].name, KEY_MAX, found);
	ck_assert_ptr_eq(found, &things[17]);
	HASH_CLEAR(by_name, table);
}

TEST(failed_addition_leaves_table_unchanged)
{
	struct thing one = { 0 }, two = { 0 }, *table = NULL;

	memory_is_short = true;
	ck_assert(!add(&table, &one, 1));
	ck_assert_ptr_null(find(table, 1));
	memory_is_short = false;
	ck_assert(add(&table, &two, 2));
	ck_assert_ptr_eq(find(table, 2), &two);
	ck_assert_ptr_null(find(table, 1));
	HASH_DELETE(by_number, table, &two);
}

TEST(table_that_cannot_grow_loses_nothing)
{
	_cleanup_(freep) struct thing *things = calloc(MANY, sizeof(*things));
	struct thing *table = NULL;
	uint32_t added = 0;

	for (uint32_t i = 0; i < 2000; i++) {
		memory_is_short = i % 7 != 0;
		things[i].length = add(&table, &things[i], i);
		added += (uint32_t)things[i].length;
	}
	memory_is_short = false;
	ck_assert_uint_gt(added, 100);
	ck_assert_uint_eq(HASH_CNT(by_number, table), added);
	for (uint32_t i = 0; i < 2000; i++)
		if (find(table, i) != (things[i].length ? &things[i] : NULL))
			ck_abort_msg("%u", i);
	HASH_CLEAR(by_number, table);
}

TEST(every_byte_and_the_length_change_the_hash)
{
	static const uint8_t zeros[40];
	uint8_t bytes[sizeof(zeros) + 8];
	uint32_t hash[sizeof(zeros) + 1];

	for (size_t length = 0; length <= sizeof(zeros); length++) {
		hash[length] = table_hash(zeros, length);
		ck_assert_uint_eq(table_hash(zeros, length), hash[length]);
		for (size_t shorter = 0; shorter < length; shorter++)
			ck_assert_uint_ne(hash[length], hash[shorter]);
	}
	for (size_t offset = 0; offset < 8; offset++)
		for (size_t at = 0; at < sizeof(zeros); at++) {
			memset(bytes, 0, sizeof(bytes));
			ck_assert_uint_eq(table_hash(bytes + offset, sizeof(zeros)), hash[sizeof(zeros)]);
			bytes[offset + at] = 1;
			ck_assert_uint_ne(table_hash(bytes + offset, sizeof(zeros)), hash[sizeof(zeros)]);
		}
}

/* The hash of a child, which draws the key at its first call. */
static uint64_t hash_of_child(void)
{
	uint32_t hash[2];
	int ends[2];
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		/* 64 bits, so that two processes never agree by chance. */
		hash[0] = table_hash("one", 3);
		hash[1] = table_hash("other", 5);
		_exit(write(ends[1], hash, sizeof(hash)) != sizeof(hash));
	}
	ck_assert_int_eq(read(ends[0], hash, sizeof(hash)), sizeof(hash));
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(ends[0]);
	close(ends[1]);
	return (uint64_t)hash[0] << 32 | hash[1];
}

TEST(each_process_has_its_own_key)
{
	ck_assert_uint_ne(hash_of_child(), hash_of_child());
}
