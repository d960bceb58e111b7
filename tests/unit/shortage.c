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

/* The library's own call malloc() where we cannot see it. */
void *reallocarray(void *old, size_t n, size_t size)
{
	return realloc(old, n * size);
}

char *strndup(const char *text, size_t most)
{
	size_t length = strnlen(text, most);
	char *copy = malloc(length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

char *strdup(const char *text)
{
	return strndup(text, SIZE_MAX);
}

void *evs_own_memory(void *old, long size)
{
	if (size > 0)
		return REAL(realloc)(old, (size_t)size);
	free(old);
	return NULL;
}
