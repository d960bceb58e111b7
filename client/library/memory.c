/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The library's own memory, guarded by its mutex. A test of an event may find that the daemon has answered, wherever the
 * program stands: in a signal handler that interrupted malloc(), or in a malloc() that emits events itself. So nothing here
 * calls it.
 *
 * Small blocks are multiples of STEP, cut from chunks and kept for the next of their size when they are freed; large ones are
 * mapped. A program with a thousand declared events needs one chunk.
 */

#include <sys/mman.h>

#include "client/library/library.h"

size_t memory_mapped;

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

enum { STEP = 16, LARGEST = 1024, CHUNK = 4096 };

/* In front of each block, which is aligned as it is. */
union header {
	size_t size;
	union header *next; /* while it is unused */
	uint64_t alignment;
};

static union header *unused[LARGEST / STEP + 1];
static uint8_t *chunk;
static size_t chunk_left;

static void *map(size_t size)
{
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		return NULL;
	memory_mapped += size;
	return mapped;
}

static void unmap(void *memory, size_t size)
{
	munmap(memory, size);
	memory_mapped -= size;
}

/* What is left of the last chunk is nobody's. */
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

static union header *take_small(size_t size)
{
	union header *header = unused[size / STEP];

	if (!header)
		return cut(size);
	unused[size / STEP] = header->next;
	memset(header, 0, size);
	return header;
}

void *memory_new(size_t size)
{
	const size_t whole = (size + sizeof(union header) + STEP - 1) / STEP * STEP;
	union header *header = whole > LARGEST ? map(whole) : take_small(whole);

	if (!header)
		return NULL;
	header->size = whole;
	return header + 1;
}

void memory_free(void *memory)
{
	union header *header;
	size_t size;

	if (!memory)
		return;
	header = (union header *)memory - 1;
	size = header->size;
	if (size > LARGEST) {
		unmap(header, size);
		return;
	}
	header->next = unused[size / STEP];
	unused[size / STEP] = header;
}

#endif

void memory_freep(void *pointer)
{
	memory_free(*(void **)pointer);
}
