/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/shortage.h"

long allocations_left = -1;
bool memory_comes_back;

#if defined(__SANITIZE_ADDRESS__)
#define REAL(function) __interceptor_##function
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REAL(function) __interceptor_##function
#endif
#endif
#ifndef REAL
#define REAL(function) __libc_##function
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *old, size_t size);

static bool may_allocate(void)
{
	if (allocations_left < 0)
		return true;
	if (allocations_left-- > 0)
		return true;
	if (!memory_comes_back)
		allocations_left = 0;
	errno = ENOMEM;
	return false;
}

void *malloc(size_t size)
{
	return may_allocate() ? REAL(malloc)(size) : NULL;
}

void *calloc(size_t n, size_t size)
{
	return may_allocate() ? REAL(calloc)(n, size) : NULL;
}

void *realloc(void *old, size_t size)
{
	return may_allocate() ? REAL(realloc)(old, size) : NULL;
}

void *evs_own_memory(void *old, long size)
{
	if (size > 0)
		return REAL(realloc)(old, (size_t)size);
	free(old);
	return NULL;
}
