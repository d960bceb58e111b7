/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Each program and shared library with USEREV_EVENT has its events in a section, and registers them in a constructor. At the start
 * of a program the libraries' constructors run before the program's. The first one sends HELLO; all events are sent together when
 * the program's constructor runs or, if it declares none, when an event is first tested. Nothing waits for the answers.
 *
 * A destructor runs for dlclose() and at the end of a program. In the latter case other threads may still emit: their events are
 * off, or refer to a quarantined stream.
 */

#include <link.h>
#include <sys/auxv.h>

#include "client/library/lock.h"
#include "client/library/open.h"
#include "client/library/requests.h"
#include "client/library/session.h"

/* Whether the address is in the program itself, by its program headers. */
static bool module_is_program(const void *address)
{
	const ElfW(Phdr) *header = (const ElfW(Phdr) *)getauxval(AT_PHDR); // NOLINT(performance-no-int-to-ptr)
	const unsigned long n = getauxval(AT_PHNUM);
	uintptr_t base = 0;

	/* The program headers follow the file's ELF header, which is at offset 0 of the first segment. */
	for (unsigned long i = 0; i < n; i++)
		if (header[i].p_type == PT_LOAD && header[i].p_offset == 0)
			base = (uintptr_t)header - sizeof(ElfW(Ehdr)) - header[i].p_vaddr;
	for (unsigned long i = 0; i < n; i++)
		if (header[i].p_type == PT_LOAD && (uintptr_t)address - (base + header[i].p_vaddr) < header[i].p_memsz)
			return true;
	return false;
}

_public_ void userev_load(struct userev_event *first, struct userev_event *end)
{
	LOCK_LIBRARY;
	struct userev *declared = open_declared();

	if (!declared || batch_of(&declared->events, first) ||
	    !batch_new(&declared->events, first, (size_t)(end - first), sizeof(struct batch)))
		return;
	if (declared->wait_ms > 0)
		session_advance(declared, clock_ms() + declared->wait_ms);
	else if (module_is_program(first) || declared->connection.state == CONNECTION_UP)
		session_advance(declared, 0);
	else
		session_connect(declared, 0);
}

_public_ void userev_unload(struct userev_event *first, struct userev_event *end _unused_)
{
	LOCK_LIBRARY;
	struct userev *declared = open_resolve(NULL);
	struct batch *batch = declared ? batch_of(&declared->events, first) : NULL;

	/* The program's events stay valid until its end. */
	if (!batch || module_is_program(first))
		return;
	streams_expect_writers(&declared->files.streams);
	release_batch(declared, batch);
	if (!QUEUE_FIRST(&declared->events.batches)) {
		session_drop(declared);
		streams_close_unused(&declared->files.streams);
	}
	session_settle(declared, 0);
}
