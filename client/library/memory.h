/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The library's allocator. Unlike malloc() it may be used from a signal handler. Guarded by the library's lock. */

#include <stddef.h>

extern size_t memory_mapped; /* bytes, for the test of the library's memory */

/* Zeroed memory, or NULL. */
void *memory_new(size_t size);
void memory_free(void *);
