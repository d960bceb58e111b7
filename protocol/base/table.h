/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * uthash with a keyed hash, so clients can't choose names that collide, and without exit() if memory is short: call table_added() after
 * each HASH_ADD.
 */

#include "protocol/base/base.h"

/* SipHash-1-3 with a random key, made at the first call. */
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

/* There are thousands of tables with a handful of elements, of clients and streams; uthash enlarges the others. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS      4U
#define HASH_INITIAL_NUM_BUCKETS_LOG2 2U

/*
 * For keys that are our own numbers, or addresses: clients don't choose them, so a cheap hash will do. A table is used either with these
 * or with uthash's own macros, except for HASH_DELETE.
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
