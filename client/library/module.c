/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Events that are declared with USEREV_EVENT. Each program and each shared library has its own in a section, and says so
 * before its first own line runs. At the start of a program the libraries come first and the program last: the first of them
 * says hello to the daemon, and all are asked for in one go when the program comes, or, if it has no events itself, when
 * somebody first tests one. Nobody waits for an answer.
 *
 * dlclose() and the end of a program look alike from here, and at the end of a program other threads may still emit: they find
 * nothing, or a stream that rests.
 */

#include <link.h>
#include <sys/auxv.h>

#include "client/library/library.h"

static struct userev *of_all; /* NULL before there is a module; then it stays */

struct userev *library_meant(struct userev *userev)
{
	return userev ? userev : of_all;
}

static struct batch *find_module(const struct userev_event *first)
{
	struct batch *batch;

	if (!of_all)
		return NULL;
	TAILQ_FOREACH(batch, &of_all->batches, entry)
		if (batch->event == first)
			break;
	return batch;
}

/* Where the program's own headers say that it lies. */
static bool is_the_programs(const void *address)
{
	const ElfW(Phdr) *header = (const ElfW(Phdr) *)getauxval(AT_PHDR); // NOLINT(performance-no-int-to-ptr)
	const unsigned long n = getauxval(AT_PHNUM);
	uintptr_t base = 0;

	/* They follow the first header of the file, whose part of the memory says where the file was meant to be. */
	for (unsigned long i = 0; i < n; i++)
		if (header[i].p_type == PT_LOAD && header[i].p_offset == 0)
			base = (uintptr_t)header - sizeof(ElfW(Ehdr)) - header[i].p_vaddr;
	for (unsigned long i = 0; i < n; i++)
		if (header[i].p_type == PT_LOAD && (uintptr_t)address - (base + header[i].p_vaddr) < header[i].p_memsz)
			return true;
	return false;
}

static int add_module(struct userev_event *first, struct userev_event *end)
{
	struct batch *batch;
	int r = 0;

	if (!of_all)
		r = library_new(NULL, &of_all);
	if (r < 0)
		return r;
	of_all->declares = true;
	batch = memory_new(sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	batch_add(of_all, batch, first, (size_t)(end - first));
	return 0;
}

static void ask_for_modules(bool all_are_here)
{
	if (of_all->wait_ms > 0)
		connection_advance(of_all, now_ms() + of_all->wait_ms);
	else if (all_are_here || of_all->up)
		connection_advance(of_all, 0);
	else
		connection_greet(of_all);
}

_public_ void userev_load(struct userev_event *first, struct userev_event *end)
{
	ENTER_LIBRARY;

	if (!find_module(first) && add_module(first, end) == 0)
		ask_for_modules(is_the_programs(first));
}

_public_ void userev_unload(struct userev_event *first, struct userev_event *end _unused_)
{
	ENTER_LIBRARY;
	struct batch *batch = find_module(first);

	/* The program's own memory goes with the program. */
	if (!batch || is_the_programs(first))
		return;
	streams_doubt(&of_all->streams);
	batch_release(of_all, batch);
	if (TAILQ_EMPTY(&of_all->batches)) {
		connection_drop(of_all);
		streams_tidy(&of_all->streams);
	}
	connection_settle(of_all, 0);
}
