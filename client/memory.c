/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The library's own memory, guarded by its mutex. A test of an event may find that the daemon has answered, wherever the
 * program stands: in a signal handler that interrupted malloc(), or in a malloc() that emits events itself. So nothing here
 * calls it.
 *
 * Small blocks are powers of two, cut from chunks and kept for the next when they are freed; large ones are mapped.
 */

#include <sys/mman.h>

#include "client/library.h"

/* A sanitizer shall see each block for itself. */
#ifdef __SANITIZE_ADDRESS__

void *memory_new(size_t size)
{
	return calloc(1, size);
}

void memory_free(void *memory)
{
	free(memory);
}

#else

enum { SMALLEST = 6, LARGEST = 12, CHUNK = 65536 };

/* In front of each block, and as long as keeps the block aligned. */
union header {
	size_t size;
	union header *next; /* while it is unused */
	max_align_t alignment;
};

static union header *unused[LARGEST + 1];
static uint8_t *chunk;
static size_t chunk_left;

static void *map(size_t size)
{
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mapped == MAP_FAILED ? NULL : mapped;
}

static unsigned power_for(size_t size)
{
	unsigned power = SMALLEST;

	while ((size_t)1 << power < size)
		power++;
	return power;
}

/* What is left of the last chunk is smaller than a page, and nobody's. */
static void *cut(size_t size)
{
	void *block;

	if (chunk_left < size) {
		uint8_t *fresh = map(CHUNK);

		if (!fresh)
			return NULL;
		chunk = fresh;
		chunk_left = CHUNK;
	}
	block = chunk;
	chunk += size;
	chunk_left -= size;
	return block;
}

static union header *take_small(unsigned power)
{
	union header *header = unused[power];

	if (!header)
		return cut((size_t)1 << power);
	unused[power] = header->next;
	memset(header, 0, (size_t)1 << power);
	return header;
}

void *memory_new(size_t size)
{
	size_t whole = size + sizeof(union header);
	union header *header = whole > (size_t)1 << LARGEST ? map(whole) : take_small(power_for(whole));

	if (!header)
		return NULL;
	header->size = whole;
	return header + 1;
}

void memory_free(void *memory)
{
	union header *header;
	unsigned power;

	if (!memory)
		return;
	header = (union header *)memory - 1;
	if (header->size > (size_t)1 << LARGEST) {
		munmap(header, header->size);
		return;
	}
	power = power_for(header->size);
	header->next = unused[power];
	unused[power] = header;
}

#endif

void memory_freep(void *pointer)
{
	memory_free(*(void **)pointer);
}
