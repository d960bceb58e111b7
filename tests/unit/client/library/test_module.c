/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Declared events, and what an event costs. */

#include "tests/unit/client/library/library_test.h"

enum { DECLARED = 3 };

/* The section of a library's declared events. It is not in the program's memory. */
struct fake_library {
	struct userev_event event[DECLARED];
	char description[DECLARED][32];
	char name[DECLARED][32];
	struct userev_declaration declared[DECLARED];
};

static void fill_in(struct fake_library *library, const char *name)
{
	for (int i = 0; i < DECLARED; i++) {
		snprintf(library->description[i], sizeof(library->description[i]), "%s%d u32 number", name, i);
		snprintf(library->name[i], sizeof(library->name[i]), "%s%d", name, i);
		library->declared[i].name = library->name[i];
		library->declared[i].description = library->description[i];
		library->event[i].declared = &library->declared[i];
	}
}

static struct fake_library *load_library(const char *name)
{
	struct fake_library *library = calloc(1, sizeof(*library));

	ck_assert_ptr_nonnull(library);
	fill_in(library, name);
	userev_load(library->event, library->event + DECLARED);
	return library;
}

static void unload(struct fake_library *library)
{
	userev_unload(library->event, library->event + DECLARED);
	for (int i = 0; i < DECLARED; i++) {
		ck_assert_uint_eq(library->event[i].place.whole, 0);
		ck_assert_int_eq(library->event[i].status, 0);
	}
	free(library);
}

static void load_program(void)
{
	static struct fake_library program;

	fill_in(&program, "program");
	userev_load(program.event, program.event + DECLARED);
	/* userev_why() of each of its events returns the refusal. */
	userev_load(program.event, program.event + DECLARED);
}

/* The userev of declared events is never freed otherwise. */
static void forget_static_events(void)
{
	userev_close(open_resolve(NULL));
}

TEST(modules_at_start_are_sent_at_once)
{
	struct fake *fake = start();
	struct fake_library *first, *second;

	setenv("USEREV_SOCKET", fake->path, 1);
	session_answer_timeout_ms = 1000000;
	fake_set(fake, hold = true);
	first = load_library("first");
	second = load_library("second");
	load_program();
	ck_assert_int_eq(userev_poll(NULL, 0), -EAGAIN);
	fake_set(fake, hold = false);
	/* They are registered without a further call. */
	fake_wait(fake, fake->registers == 1);
	ck_assert_uint_eq(fake->items, 3 * DECLARED);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	expect_alive(fake, &first->event[0], "first0");
	expect_alive(fake, &second->event[2], "second2");
	ck_assert_uint_eq(fake->registers, 1);
	ck_assert_uint_eq(fake->hellos, 1);
	unload(first);
	expect_alive(fake, &second->event[2], "second2");
	fake_wait(fake, fake->releases == 1);
	unload(second);
	forget_static_events();
	fake_free(fake);
}

TEST(library_events_are_sent_at_first_test)
{
	struct fake *fake = start();
	struct fake_library *first, *second;

	setenv("USEREV_SOCKET", fake->path, 1);
	first = load_library("first");
	second = load_library("second");
	test_until_alive(&second->event[1]);
	test_until_alive(&first->event[0]);
	ck_assert_uint_eq(fake->registers, 1);
	unload(first);
	unload(second);
	fake_wait(fake, fake->ended == 1);
	/* A library that is loaded later. */
	first = load_library("later");
	test_until_alive(&first->event[0]);
	expect_alive(fake, &first->event[0], "later0");
	unload(first);
	forget_static_events();
	fake_free(fake);
}

TEST(last_unload_keeps_reused_fd_open)
{
	struct fake *fake = start();
	struct fake_library *library;
	int ends[2], number;

	setenv("USEREV_SOCKET", fake->path, 1);
	library = load_library("library");
	test_until_alive(&library->event[0]);
	number = open_resolve(NULL)->connection.fd;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	ck_assert_int_eq(dup2(ends[1], number), number);
	unload(library);
	ck_assert_int_eq(send(number, "data", 4, MSG_NOSIGNAL), 4);
	close(number);
	close(ends[0]);
	close(ends[1]);
	forget_static_events();
	fake_free(fake);
}

TEST(library_unloaded_before_answer_is_released)
{
	struct fake *fake = start();
	struct fake_library *library;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, hold = true);
	load_program();
	library = load_library("library");
	userev_poll(NULL, 0);
	unload(library);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	fake_wait(fake, fake->registers > 0);
	ck_assert_uint_eq(fake->releases, fake->items > DECLARED);
	forget_static_events();
	fake_free(fake);
}

TEST(refused_declared_event_has_reason)
{
	struct fake *fake = start();
	struct fake_library *library;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, refuse = "library1");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	library = load_library("library");
	ck_assert_ptr_nonnull(userev_why(&library->event[1]));
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	ck_assert_str_eq(userev_why(&library->event[1]), "because");
	ck_assert_ptr_null(userev_why(&library->event[0]));
	unload(library);
	forget_static_events();
	fake_free(fake);
}

TEST(unload_drops_unsent_and_releases_pending)
{
	struct fake *fake = start();
	struct fake_library *first, *library, *other;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, welcome.batch_max = 1);
	first = load_library("first");
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	fake_set(fake, hold = true);
	library = load_library("library");
	other = load_library("other");
	unload(library);
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	fake_wait(fake, fake->releases == 1);
	/* Two REGISTER were pending. */
	ck_assert_uint_eq(fake->items, 2 * DECLARED + 2);
	expect_alive(fake, &other->event[0], "other0");
	expect_alive(fake, &other->event[2], "other2");
	unload(first);
	unload(other);
	forget_static_events();
	fake_free(fake);
}

struct emitter {
	struct userev_event *event;
	atomic_bool stop;
	atomic_uint rounds;
};

static void *emit_until_the_end(void *data)
{
	struct emitter *emitter = data;

	while (!emitter->stop) {
		for (int i = 0; i < DECLARED; i++)
			if (userev_enabled(&emitter->event[i]))
				userev_write(&emitter->event[i], "data", 4);
		emitter->rounds++;
	}
	return NULL;
}

static void wait_for_rounds(struct emitter *emitter, unsigned more)
{
	const unsigned until = emitter->rounds + more;

	while (emitter->rounds < until)
		usleep(100);
}

/* At the end of a program its libraries release their events while other threads may emit. */
TEST(threads_may_emit_during_unload_at_exit)
{
	struct fake *fake = start();
	pthread_t thread[4];

	setenv("USEREV_SOCKET", fake->path, 1);
	for (int round = 0; round < 20; round++) {
		struct fake_library *library = load_library("library");
		struct emitter emitter = { .event = library->event };

		ck_assert_int_eq(userev_poll(NULL, -1), 0);
		for (int i = 0; i < DECLARED; i++)
			fake_switch(fake, library->name[i], true);
		for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
			pthread_create(&thread[i], NULL, emit_until_the_end, &emitter);
		wait_for_rounds(&emitter, 100);
		userev_unload(library->event, library->event + DECLARED);
		wait_for_rounds(&emitter, 100);
		emitter.stop = true;
		for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
			pthread_join(thread[i], NULL);
		free(library);
	}
	forget_static_events();
	fake_free(fake);
}

enum { THOUSAND = 1000, BYTES_EACH = 32 };

/* As a library declares them, with constant descriptions. */
static struct userev_event *declare_a_thousand(void)
{
	static struct userev_declaration declared[THOUSAND];
	static char name[THOUSAND][16], description[THOUSAND][32];
	struct userev_event *event = calloc(THOUSAND, sizeof(*event));

	ck_assert_ptr_nonnull(event);
	for (int i = 0; i < THOUSAND; i++) {
		snprintf(name[i], sizeof(name[i]), "many%d", i);
		snprintf(description[i], sizeof(description[i]), "many%d u32 number", i);
		declared[i] = (struct userev_declaration){ name[i], description[i], 0 };
		event[i].declared = &declared[i];
	}
	return event;
}

/* All memory that the library has mapped, used or not. Not with AddressSanitizer, which has its own allocator. */
static void expect_small_books(void)
{
#ifndef __SANITIZE_ADDRESS__
	ck_assert_uint_gt(memory_mapped, 0);
	ck_assert_uint_le(THOUSAND * sizeof(struct userev_event) + memory_mapped, THOUSAND * BYTES_EACH);
#endif
}

TEST(declared_event_costs_32_bytes)
{
	struct fake *fake = start();
	struct userev_event *event = declare_a_thousand();

	setenv("USEREV_SOCKET", fake->path, 1);
	userev_load(event, event + THOUSAND);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(userev_poll(NULL, -1), 0);
		expect_alive(fake, &event[0], "many0");
		expect_alive(fake, &event[THOUSAND - 1], "many999");
		expect_small_books();
		fake_stop(fake);
		fake_start(fake);
	}
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	expect_small_books();
	/* All of them are released, in several packets. */
	userev_unload(event, event + THOUSAND);
	ck_assert_uint_eq(event[THOUSAND - 1].place.whole, 0);
	fake_wait(fake, fake->ended == 1);
	free(event);
	forget_static_events();
	fake_free(fake);
}

TEST(release_of_a_thousand_takes_two_packets)
{
	struct fake *fake = start();
	struct userev_event *event = declare_a_thousand();

	setenv("USEREV_SOCKET", fake->path, 1);
	load_program();
	userev_load(event, event + THOUSAND);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	userev_unload(event, event + THOUSAND);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	ck_assert_uint_eq(fake->releases, 2);
	/* The first bit of the second packet, behind those of DECLARED events. */
	ck_assert_uint_eq(fake->released_bit, DECLARED + WIRE_BATCH_MAX + 1);
	free(event);
	forget_static_events();
	fake_free(fake);
}

/* The daemon does not send a stream again before all of its events are released. */
TEST(stream_stays_until_all_events_are_released)
{
	struct fake *fake = start();
	struct userev_event *event = declare_a_thousand();
	struct fake_library *library;

	setenv("USEREV_SOCKET", fake->path, 1);
	fake_set(fake, refuse = "program");
	fake_set(fake, refusal = REFUSAL_NOT_PERMITTED);
	fake_set(fake, welcome.packet_max = 800);
	load_program();
	userev_load(event, event + THOUSAND);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	/* The daemon answers nothing before the library is loaded, so only the first of several RELEASE was sent. */
	fake_set(fake, hold = true);
	userev_unload(event, event + THOUSAND);
	library = load_library("library");
	fake_set(fake, hold = false);
	ck_assert_int_eq(userev_poll(NULL, -1), 0);
	expect_alive(fake, &library->event[0], "library0");
	ck_assert_uint_eq(fake->accepted, 1);
	unload(library);
	free(event);
	forget_static_events();
	fake_free(fake);
}

static void change_daemons(struct fake *fake, struct userev *userev)
{
	fake_stop(fake);
	fake_start(fake);
	userev->not_before = 0;
	ck_assert_int_eq(userev_poll(userev, -1), 0);
}

/* Quarantined streams keep their fds, because a writer may have read the numbers. */
TEST(files_of_former_daemons_are_limited)
{
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };
	int fds = count_open_fds();

	register_event(userev, &event, "event u32 number");
	for (int i = 0; i < 100; i++)
		change_daemons(fake, userev);
	ck_assert_int_le(count_open_fds(), fds + 70);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_wait(fake, fake->ended == 1);
	ck_assert_int_lt(count_open_fds(), fds);
	fake_free(fake);
}

/* Above the lowered limit no number can be reused. */
TEST(lowered_fd_limit_keeps_events)
{
	const struct rlimit few = { .rlim_cur = 90, .rlim_max = 90 };
	struct fake *fake = start();
	struct userev *userev = open_to(fake);
	struct userev_event event = { 0 };

	register_event(userev, &event, "event u32 number");
	ck_assert_int_ge(userev->connection.fd, (int)few.rlim_cur);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	change_daemons(fake, userev);
	expect_alive(fake, &event, "event");
	userev_close(userev);
	fake_free(fake);
}

struct loser {
	struct userev_event event;
	_Atomic bool ends;
};

static void *lose_records(void *data)
{
	struct loser *loser = data;

	while (!loser->ends) {
		userev_write(&loser->event, (char[5000]){ 0 }, 5000);
		usleep(100);
	}
	return NULL;
}

/* For ThreadSanitizer: reporting must not read what WELCOME writes. */
WITH_DAEMON(losses_are_reported_while_daemons_change)
{
	static struct loser loser;
	pthread_t thread;

	register_event(userev, &loser.event, "event char[8] text");
	pthread_create(&thread, NULL, lose_records, &loser);
	for (int i = 0; i < 10; i++) {
		change_daemons(fake, userev);
		fake_set(fake, lost.too_big = 0);
		fake_switch(fake, "event", true);
		fake_wait(fake, fake->lost.too_big > 0);
	}
	loser.ends = true;
	pthread_join(thread, NULL);
}

WITH_DAEMON(quarantined_fd_takes_nothing_and_is_reused)
{
	static struct userev_event event;
	const struct stream *former;
	int fd;

	register_event(userev, &event, "event u32 number");
	former = stream_at(event.place);
	fd = former->fd;
	change_daemons(fake, userev);
	ck_assert_ptr_ne(stream_at(event.place), former);
	ck_assert_int_eq(former->fd, fd);
	ck_assert_int_lt(write(fd, "data", 4), 0);
	ck_assert_int_eq(errno, ENOTCONN);
	change_daemons(fake, userev);
	ck_assert_ptr_ne(stream_at(event.place), former);
	TAILQ_FIRST(&userev->files.quarantine)->quarantined_at -= 60000;
	change_daemons(fake, userev);
	ck_assert_ptr_eq(stream_at(event.place), former);
	ck_assert_int_eq(former->fd, fd);
	expect_alive(fake, &event, "event");
}
