/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A test of an event may process the daemon's answers at any point of the program: in a signal handler that interrupted malloc(),
 * or inside a malloc() that emits events itself. So the library must not call malloc().
 *
 * Small blocks are multiples of STEP. They are cut from chunks, and kept in a free list for their size. Large blocks are mapped.
 * A program with a thousand declared events needs one chunk, which is a part of the library.
 */

#include <sys/mman.h>

#include "client/library/memory.h"
#include "protocol/base/base.h"

enum { STEP = 16, LARGEST = 1024, CHUNK = 4096 };

size_t memory_mapped = CHUNK;

/* Each block is an allocation of its own, so that AddressSanitizer checks its bounds. */
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

/* Precedes each block, and has its alignment. */
union header {
	size_t size;
	union header *next; /* in the free list */
	uint64_t alignment;
};

static _Alignas(union header) uint8_t first_chunk[CHUNK];
static union header *free_lists[LARGEST / STEP + 1];
static uint8_t *chunk = first_chunk;
static size_t chunk_left = CHUNK;

static void *memory_map(size_t size)
{
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		return NULL;
	memory_mapped += size;
	return mapped;
}

void *memory_new(size_t size)
{
	const size_t whole = (size + sizeof(union header) + STEP - 1) / STEP * STEP;
	union header *header = whole > LARGEST ? memory_map(whole) : free_lists[whole / STEP];

	if (whole <= LARGEST && header) {
		free_lists[whole / STEP] = header->next;
		memset(header, 0, whole);
	} else if (whole <= LARGEST) {
		/* The rest of the last chunk is not used. */
		if (chunk_left < whole) {
			chunk = memory_map(CHUNK);
			chunk_left = chunk ? CHUNK : 0;
		}
		if (!chunk)
			return NULL;
		header = (void *)chunk;
		chunk += whole;
		chunk_left -= whole;
	}
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
		munmap(header, size);
		memory_mapped -= size;
	} else {
		header->next = free_lists[size / STEP];
		free_lists[size / STEP] = header;
	}
}

#endif
