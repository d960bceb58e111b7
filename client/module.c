/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Events that are declared with USEREV_EVENT. Each program and each shared library has its own in a section, and says so
 * before its first own line runs. At the start of a program the libraries come first and the program last: the first of them
 * says hello to the daemon, and all are asked for in one go when the program comes, or, if it has no events itself, when
 * somebody first tests one. Nobody waits for an answer.
 *
 * dlclose() and the end of a program look alike from here, and at the end of a program other threads may still emit. So the
 * memory that they may be reading is kept until another library is loaded, which nobody does at the end.
 */

#include <link.h>
#include <sys/auxv.h>

#include "client/library.h"

struct module {
	LIST_ENTRY(module) entry;
	const struct userev_declaration *first;
};

static LIST_HEAD(modules, module) modules = LIST_HEAD_INITIALIZER(modules);
static struct userev *of_all; /* NULL before there is a module; then it stays */

struct userev *library_meant(struct userev *userev)
{
	return userev ? userev : of_all;
}

static struct module *find_module(const struct userev_declaration *first)
{
	struct module *module;

	LIST_FOREACH(module, &modules, entry)
		if (module->first == first)
			return module;
	return NULL;
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

static void claim_declared(const struct userev_declaration *declared)
{
	struct userev_registration asked = {
		.event = declared->event,
		.description = declared->description,
		.flags = (unsigned)declared->flags,
	};

	/* Who declares it in vain learns that from userev_why(): that it is not registered. */
	if (registration_check(&asked) == 0 && claim_new(of_all, &asked) == 0)
		declared->event->grant->claim->asked = NULL;
}

static int add_module(const struct userev_declaration *first, const struct userev_declaration *end)
{
	struct module *module = memory_new(sizeof(*module));
	int r = 0;

	if (!module)
		return -ENOMEM;
	if (!of_all)
		r = library_new(NULL, &of_all);
	if (r < 0) {
		memory_free(module);
		return r;
	}
	module->first = first;
	LIST_INSERT_HEAD(&modules, module, entry);
	for (const struct userev_declaration *declared = first; declared < end; declared++)
		claim_declared(declared);
	return 0;
}

/* For programs that are over before the daemon has answered. */
static int patience_of_the_user(void)
{
	const char *wait = secure_getenv("USEREV_WAIT");

	return wait ? atoi(wait) : 0;
}

static void ask_for_modules(bool all_are_here)
{
	const int wait = patience_of_the_user();

	if (wait > 0)
		connection_advance(of_all, now_ms() + wait);
	else if (all_are_here || of_all->up)
		connection_advance(of_all, 0);
	else
		connection_greet(of_all);
}

_public_ void userev_load(const struct userev_declaration *first, const struct userev_declaration *end)
{
	ENTER_LIBRARY;

	if (find_module(first))
		return;
	if (of_all)
		claims_free_kept(of_all);
	if (add_module(first, end) == 0)
		ask_for_modules(is_the_programs(first));
}

_public_ void userev_unload(const struct userev_declaration *first, const struct userev_declaration *end)
{
	ENTER_LIBRARY;
	struct module *module = find_module(first);

	/* The program's own memory goes with the program. */
	if (!module || is_the_programs(first))
		return;
	LIST_REMOVE(module, entry);
	memory_free(module);
	for (const struct userev_declaration *declared = first; declared < end; declared++)
		if (declared->event->grant)
			claim_release_and_keep(declared->event->grant->claim);
	if (TAILQ_EMPTY(&of_all->claims)) {
		connection_drop(of_all);
		streams_retire(&of_all->streams);
	}
	connection_settle(of_all, 0);
}
