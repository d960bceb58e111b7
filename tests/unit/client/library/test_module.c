/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Declared events, and the memory of events. */

#include "tests/unit/client/library/library_test.h"

enum { DECLARED = 3, THOUSAND = 1000, BYTES_EACH = 32 };

/* A library's declared events. They are not in the program's memory. */
struct module {
	size_t n;
	struct named {
		struct userev_declaration declared;
		char name[16];
		char description[32];
	} * named;
	struct userev_event event[];
};

static struct module *fill_in(struct module *module, const char *name, size_t n)
{
	module->n = n;
	module->named = (struct named *)(void *)&module->event[n];
	for (size_t i = 0; i < n; i++) {
		struct named *named = &module->named[i];

		snprintf(named->name, sizeof(named->name), "%.10s%zu", name, i);
		snprintf(named->description, sizeof(named->description), "%s u32 number", named->name);
		named->declared = (struct userev_declaration){ named->name, named->description, 0 };
		module->event[i].declared = &named->declared;
	}
	userev_load(module->event, module->event + n);
	return module;
}

static struct module *load(const char *name, size_t n)
{
	return fill_in(calloc(1, sizeof(struct module) + n * (sizeof(struct userev_event) + sizeof(struct named))),
		       name, n);
}

static void unload(struct module *module)
{
	userev_unload(module->event, module->event + module->n);
	for (size_t i = 0; i < module->n; i++) {
		ck_assert_uint_eq(module->event[i].place.whole, 0);
		ck_assert_int_eq(module->event[i].status, 0);
	}
	free(module);
}

static void load_program(void)
{
	static _Alignas(struct module) char memory[1024];
	struct module *program = fill_in((struct module *)(void *)memory, "program", DECLARED);

	/* As the constructor of each of its events does. */
	userev_load(program->event, program->event + DECLARED);
}

static void expect_settled(void)
{
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
}

WITH_DAEMON_ONLY(modules_at_start_are_sent_at_once)
{
	struct module *first, *second;

	session_answer_timeout_ms = 1000000;
	fake_set(hold = true);
	first = load("first", DECLARED);
	second = load("second", DECLARED);
	load_program();
	ck_assert_int_eq(userev_poll(NULL, 0), -EAGAIN);
	fake_set(hold = false);
	/* They are registered without a further call. */
	fake_wait(fake_daemon->registers == 1);
	ck_assert_uint_eq(fake_daemon->items, 3 * DECLARED);
	expect_settled();
	expect_alive(&first->event[0], "first0");
	expect_alive(&second->event[2], "second2");
	ck_assert_uint_eq(fake_daemon->registers, 1);
	ck_assert_uint_eq(fake_daemon->hellos, 1);
	unload(first);
	expect_alive(&second->event[2], "second2");
	fake_wait(fake_daemon->releases == 1);
	unload(second);
}

WITH_DAEMON_ONLY(library_events_are_sent_at_first_test)
{
	struct module *first = load("first", DECLARED), *second = load("second", DECLARED);

	test_until_alive(&second->event[1]);
	test_until_alive(&first->event[0]);
	ck_assert_uint_eq(fake_daemon->registers, 1);
	unload(first);
	unload(second);
	fake_wait(fake_daemon->ended == 1);
	/* A library that is loaded later. */
	first = load("later", DECLARED);
	test_until_alive(&first->event[0]);
	expect_alive(&first->event[0], "later0");
	unload(first);
}

WITH_DAEMON_ONLY(refused_declared_event_has_reason)
{
	struct module *library;

	fake_refuse("library1", REFUSAL_NOT_PERMITTED);
	library = load("library", DECLARED);
	ck_assert_ptr_nonnull(userev_why(&library->event[1]));
	expect_settled();
	ck_assert_str_eq(userev_why(&library->event[1]), "because");
	ck_assert_ptr_null(userev_why(&library->event[0]));
	unload(library);
}

WITH_DAEMON_ONLY(unload_drops_unsent_and_releases_pending)
{
	struct module *first, *library, *last;

	fake_set(welcome.batch_max = 1);
	first = load("first", DECLARED);
	expect_settled();
	fake_set(hold = true);
	library = load("library", DECLARED);
	last = load("other", DECLARED);
	unload(library);
	fake_set(hold = false);
	expect_settled();
	fake_wait(fake_daemon->releases == 1);
	/* Two REGISTER were pending. */
	ck_assert_uint_eq(fake_daemon->items, 2 * DECLARED + 2);
	expect_alive(&last->event[0], "other0");
	expect_alive(&last->event[2], "other2");
	unload(first);
	unload(last);
}

/* All memory that the library has mapped, used or not. Not with AddressSanitizer, which has its own allocator. */
static void expect_small_books(void)
{
#ifndef __SANITIZE_ADDRESS__
	ck_assert_uint_gt(memory_mapped, 0);
	ck_assert_uint_le(THOUSAND * sizeof(struct userev_event) + memory_mapped, THOUSAND * BYTES_EACH);
#endif
}

WITH_DAEMON_ONLY(declared_event_costs_32_bytes)
{
	struct module *many_events = load("many", THOUSAND);

	for (int i = 0; i < 20; i++) {
		expect_settled();
		expect_alive(&many_events->event[0], "many0");
		expect_alive(&many_events->event[THOUSAND - 1], "many999");
		expect_small_books();
		fake_restart();
	}
	expect_settled();
	expect_small_books();
	unload(many_events);
	fake_wait(fake_daemon->ended == 1);
}

WITH_DAEMON_ONLY(release_of_a_thousand_takes_two_packets)
{
	struct module *many_events;

	load_program();
	many_events = load("many", THOUSAND);
	expect_settled();
	unload(many_events);
	expect_settled();
	ck_assert_uint_eq(fake_daemon->releases, 2);
	/* The first bit of the second packet, behind those of DECLARED events. */
	ck_assert_uint_eq(fake_daemon->released_bit, DECLARED + WIRE_BATCH_MAX + 1);
}

/* The daemon does not send a stream again before all of its events are released. */
WITH_DAEMON_ONLY(stream_stays_until_all_events_are_released)
{
	struct module *many_events, *library;

	fake_refuse("program", REFUSAL_NOT_PERMITTED);
	fake_set(welcome.packet_max = 800);
	load_program();
	many_events = load("many", THOUSAND);
	expect_settled();
	/* The daemon answers nothing before the library is loaded, so only the first of several RELEASE was sent. */
	fake_set(hold = true);
	unload(many_events);
	library = load("library", DECLARED);
	fake_set(hold = false);
	expect_settled();
	expect_alive(&library->event[0], "library0");
	ck_assert_uint_eq(fake_daemon->accepted, 1);
	unload(library);
}

static void change_daemons(void)
{
	fake_restart();
	userev->not_before = 0;
	ck_assert_int_eq(userev_poll(userev, -1), 0);
}

/* Quarantined streams keep their fds, because a writer may have read the numbers. */
WITH_EVENT_ON(files_of_former_daemons_are_limited)
{
	int fds = count_open_fds();

	for (int i = 0; i < 100; i++)
		change_daemons();
	ck_assert_int_le(count_open_fds(), fds + 70);
	expect_alive(&event, "event");
	close_library();
	fake_wait(fake_daemon->ended == 1);
	ck_assert_int_lt(count_open_fds(), fds);
}

/* Above the lowered limit no number can be reused. */
WITH_EVENT_ON(lowered_fd_limit_keeps_events)
{
	const struct rlimit few = { .rlim_cur = 90, .rlim_max = 90 };

	ck_assert_int_ge(userev->connection.fd, (int)few.rlim_cur);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	change_daemons();
	expect_alive(&event, "event");
}

WITH_EVENT_ON(quarantined_fd_takes_nothing_and_is_reused)
{
	const struct stream *former;
	int fd;

	former = stream_at(event.place);
	fd = former->fd;
	change_daemons();
	ck_assert_ptr_ne(stream_at(event.place), former);
	ck_assert_int_eq(former->fd, fd);
	ck_assert_int_lt(write(fd, "data", 4), 0);
	ck_assert_int_eq(errno, ENOTCONN);
	change_daemons();
	ck_assert_ptr_ne(stream_at(event.place), former);
	QUEUE_FIRST(&userev->files.quarantine)->quarantined_at -= 60000;
	change_daemons();
	ck_assert_ptr_eq(stream_at(event.place), former);
	ck_assert_int_eq(former->fd, fd);
	expect_alive(&event, "event");
}
