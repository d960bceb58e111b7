/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * uthash as this project uses it: keyed, so that nobody can choose names that collide, and without exit() when memory is
 * short: after each HASH_ADD, ask table_added().
 */

#include "protocol/base.h"

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
