/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * uthash as this project uses it: keyed, so that nobody can choose names that collide, and without exit() when memory is
 * short: after each HASH_ADD, ask table_added().
 */

#include "protocol/base/base.h"

/* SipHash-1-3 with a key drawn at the first use. */
uint32_t table_hash(const void *key, size_t length);

static bool table_failed_;

/* Whether the last HASH_ADD in this file found memory. */
static inline bool table_added(void)
{
	bool added = !table_failed_;

	table_failed_ = false;
	return added;
}

#define HASH_NONFATAL_OOM		 1
#define uthash_nonfatal_oom(element)	 (table_failed_ = true)
#define HASH_FUNCTION(key, length, hash) ((hash) = table_hash((key), (length)))

#include <uthash.h>

/* Most tables are a client's or a stream's with a handful of things in it, and there are thousands: they grow by themselves. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS      4U
#define HASH_INITIAL_NUM_BUCKETS_LOG2 2U

/*
 * Where the key is a number of ours, or an address: nobody chooses them, so a cheap hash will do. Each table has keys of one
 * sort, and is used with these alone, but for HASH_DELETE.
 */
static inline uint32_t number_hash(uint64_t number)
{
	return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

#define NUMBER_FIND(hh, table, number, out)                                                                            \
	HASH_FIND_BYHASHVALUE(hh, table, &(number), sizeof(__typeof__(number)), number_hash((uintptr_t)(number)), out)
#define NUMBER_ADD(hh, table, field, element)                                                                          \
	HASH_ADD_BYHASHVALUE(hh, table, field, sizeof(__typeof__((element)->field)),                                   \
			     number_hash((uintptr_t)(element)->field), element)
