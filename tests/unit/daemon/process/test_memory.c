/* SPDX-License-Identifier: GPL-2.0-or-later */

/* When freed memory is returned to the system. */

#include "daemon/process/memory.h"

#include <ev.h>
#include <stdio.h>

#include "daemon/limits.h"
#include "tests/suite.h"

enum { MANY = 4096, BYTES = 1024 };

static struct memory *begin(void)
{
	static struct memory memory;

	memory = (struct memory){ .loop = ev_loop_new(EVFLAG_AUTO) };
	return &memory;
}

static void end(struct memory *memory)
{
	ev_loop_destroy(memory->loop);
}

/* The allocator of a sanitizer keeps freed memory. */
#ifndef __SANITIZE_ADDRESS__
static size_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fscanf(file, "%*u %zu", &pages), 1);
	fclose(file);
	return pages * 4096;
}

TEST(much_freed_memory_is_returned)
{
	static void *blocks[MANY];
	struct memory *memory = begin();
	size_t before = resident();
	char *last;

	for (unsigned i = 0; i < MANY; i++) {
		blocks[i] = memset(malloc(BYTES), 1, BYTES);
		memory_taken(memory, BYTES);
	}
	/* The C library frees memory behind this one by itself. */
	last = malloc(BYTES);
	ck_assert_uint_gt(resident(), before + (size_t)MANY * BYTES / 2);
	for (unsigned i = 0; i < MANY; i++) {
		free(blocks[i]);
		memory_freed(memory, BYTES);
	}
	ev_invoke(memory->loop, &memory->w_trim, EV_TIMER);
	ck_assert_uint_lt(resident(), before + (size_t)MANY * BYTES / 2);
	free(last);
	end(memory);
}
#endif

TEST(freed_memory_is_returned_once_it_is_much)
{
	struct memory *memory = begin();

	memory_freed(memory, TRIM_LEAST - 1);
	ck_assert(!ev_is_active(&memory->w_trim));
	memory_freed(memory, 1);
	ck_assert(ev_is_active(&memory->w_trim));
	ev_invoke(memory->loop, &memory->w_trim, EV_TIMER);
	ck_assert_uint_eq(memory->freed, 0);
	ck_assert(!ev_is_active(&memory->w_trim));
	end(memory);
}

/* A tenant that registers and releases does not have the same memory returned again and again. */
TEST(memory_that_is_taken_again_is_not_returned)
{
	struct memory *memory = begin();

	for (unsigned i = 0; i < 100; i++) {
		memory_freed(memory, TRIM_LEAST / 2);
		memory_taken(memory, TRIM_LEAST / 2);
	}
	ck_assert_uint_eq(memory->freed, 0);
	ck_assert(!ev_is_active(&memory->w_trim));
	memory_taken(memory, 1);
	ck_assert_uint_eq(memory->freed, 0);
	end(memory);
}
