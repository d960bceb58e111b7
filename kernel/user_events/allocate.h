/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The keeper's answer to a lack of memory, and to the death of one of its processes, is to end: the daemon then gives all pages and
 * streams to its successor. So neither needs error paths here.
 */

#include <stdio.h>

#include "protocol/base/table.h"

static inline _Noreturn void keeper_fail(const char *why)
{
	fprintf(stderr, "userevd-keeper: %s\n", why);
	exit(EXIT_FAILURE);
}

/* Zeros. */
static inline void *keeper_allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		keeper_fail("out of memory");
	return memory;
}

/* After each HASH_ADD. */
static inline void table_check_added(void)
{
	if (!table_added())
		keeper_fail("out of memory");
}
