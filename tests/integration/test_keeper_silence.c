/* SPDX-License-Identifier: GPL-2.0-or-later */

/* SILENCE: events that are on in the kernel, and stay off on some pages. Every answer is compared with the page and with tracefs. */

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "tests/integration/fixture.h"
#include "tests/integration/keeper.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/tracer.h"

enum { PAGES = 3 };

static const char *const unguarded[] = { "--guard=off", NULL };

struct bench {
	struct keeper keeper;
	struct tracer tracer;
	int page[PAGES + 1], stream[PAGES + 1]; /* by their numbers, which begin at 1 */
	const uint8_t *memory[PAGES + 1];
};

static bool bench_begin(struct bench *bench)
{
	if (!need_keeper(&bench->keeper, unguarded))
		return false;
	for (uint32_t i = 1; i <= PAGES; i++) {
		struct kernel_call calls[] = { page_new(i), stream_new(i, i) };
		void *memory;

		ck_assert(keeper_ask(&bench->keeper, calls, ARRAY_SIZE(calls)));
		bench->page[i] = calls[0].fd;
		bench->stream[i] = calls[1].fd;
		memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, calls[0].fd, 0);
		ck_assert_ptr_ne(memory, MAP_FAILED);
		bench->memory[i] = memory;
	}
	return true;
}

static void bench_end(struct bench *bench)
{
	tracer_stop(&bench->tracer);
	for (uint32_t i = 1; i <= PAGES; i++) {
		close(bench->page[i]);
		close(bench->stream[i]);
	}
	ck_assert_int_eq(keeper_stop(&bench->keeper), EXIT_SUCCESS);
}

static bool is_on(const struct bench *bench, uint32_t page, uint32_t bit)
{
	return bench->memory[page][bit / 8] >> bit % 8 & 1;
}

static struct kernel_call bench_register(struct bench *bench, uint32_t stream, const char *description, uint16_t flags)
{
	struct kernel_call call = register_on(stream, description);

	call.flags = flags;
	ck_assert(keeper_ask(&bench->keeper, &call, 1));
	ck_assert_int_eq(call.result, KERNEL_OK);
	return call;
}

static struct kernel_call silence(uint32_t page, uint32_t bit, uint16_t flags)
{
	return (struct kernel_call){ .op = KERNEL_SILENCE, .page = page, .bit = bit, .flags = flags, .fd = -1 };
}

static void expect_records(struct bench *bench, uint32_t stream, uint32_t index, const char *event, unsigned records)
{
	uint32_t value = 7;
	const struct iovec parts[] = { { &index, sizeof(index) }, { &value, sizeof(value) } };
	struct seen seen;

	ck_assert_int_eq(writev(bench->stream[stream], parts, ARRAY_SIZE(parts)), 8);
	tracer_see(&bench->tracer, event, &seen);
	ck_assert_uint_eq(seen.records, records);
}

TEST(silent_event_is_off_on_its_page_alone)
{
	struct bench bench = { 0 };
	struct kernel_call one, two, three;

	if (!bench_begin(&bench))
		return;
	one = bench_register(&bench, 1, "silent_one u32 value", 0);
	two = bench_register(&bench, 2, "silent_one u32 value", 0);
	ck_assert(tracer_switch(&bench.tracer, "silent_one", true));
	if (bench.keeper.facts.shared_page) {
		ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, KERNEL_SILENT)), KERNEL_E_UNSUPPORTED);
		three = register_on(3, "silent_one u32 value");
		three.flags = KERNEL_SILENT;
		ck_assert_int_eq(keeper_do(&bench.keeper, three), KERNEL_E_UNSUPPORTED);
		bench_end(&bench);
		return;
	}
	ck_assert(is_on(&bench, 1, one.bit) && is_on(&bench, 2, two.bit));
	ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, KERNEL_SILENT)), KERNEL_OK);
	ck_assert(!is_on(&bench, 1, one.bit) && is_on(&bench, 2, two.bit));
	/* The second time nothing changes. */
	ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, KERNEL_SILENT)), KERNEL_OK);
	/* Its place on the stream is the same: a program that does not look at its page is recorded. */
	expect_records(&bench, 1, one.index, "silent_one", 1);
	expect_records(&bench, 2, two.index, "silent_one", 2);
	/* A new page, of which the bit is never on. */
	three = bench_register(&bench, 3, "silent_one u32 value", KERNEL_SILENT);
	ck_assert(!is_on(&bench, 3, three.bit));
	expect_records(&bench, 3, three.index, "silent_one", 3);
	ck_assert(tracer_switch(&bench.tracer, "silent_one", false));
	ck_assert(!is_on(&bench, 2, two.bit));
	ck_assert(tracer_switch(&bench.tracer, "silent_one", true));
	ck_assert(!is_on(&bench, 1, one.bit) && is_on(&bench, 2, two.bit) && !is_on(&bench, 3, three.bit));
	/* The kernel brings the bits up to date. */
	ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, 0)), KERNEL_OK);
	ck_assert_int_eq(keeper_do(&bench.keeper, silence(3, three.bit, 0)), KERNEL_OK);
	ck_assert(is_on(&bench, 1, one.bit) && is_on(&bench, 3, three.bit));
	ck_assert(tracer_switch(&bench.tracer, "silent_one", false));
	ck_assert(!is_on(&bench, 1, one.bit) && !is_on(&bench, 3, three.bit));
	ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit + 1, KERNEL_SILENT)), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(keeper_do(&bench.keeper, silence(4, 1, KERNEL_SILENT)), KERNEL_E_NO_SUCH);
	bench_end(&bench);
}

/* The last call counts, whatever it is. */
TEST(registering_an_event_again_silences_it_or_not)
{
	struct bench bench = { 0 };
	struct kernel_call call;

	if (!bench_begin(&bench))
		return;
	if (!bench.keeper.facts.shared_page) {
		call = bench_register(&bench, 1, "silent_again u32 value", 0);
		ck_assert(tracer_switch(&bench.tracer, "silent_again", true));
		bench_register(&bench, 1, "silent_again u32 value", KERNEL_SILENT);
		ck_assert(!is_on(&bench, 1, call.bit));
		bench_register(&bench, 1, "silent_again u32 value", 0);
		ck_assert(is_on(&bench, 1, call.bit));
	}
	bench_end(&bench);
}

/* Calls of one packet are sent together, and between others in their order. */
TEST(many_events_are_silenced_in_order)
{
	enum { EVENTS = 40 };
	static char names[EVENTS][32];
	struct kernel_call calls[2 * EVENTS];
	uint32_t bits[EVENTS];
	struct bench bench = { 0 };

	if (!bench_begin(&bench))
		return;
	for (unsigned i = 0; i < EVENTS; i++) {
		snprintf(names[i], sizeof(names[i]), "silent_%u u32 value", i);
		calls[i] = register_on(1 + i % 2, names[i]);
		calls[i].flags = i % 3 == 0 && !bench.keeper.facts.shared_page ? KERNEL_SILENT : 0;
	}
	ck_assert(keeper_ask(&bench.keeper, calls, EVENTS));
	for (unsigned i = 0; i < EVENTS; i++) {
		ck_assert_int_eq(calls[i].result, KERNEL_OK);
		ck_assert_uint_eq(calls[i].index, i / 2);
		bits[i] = calls[i].bit;
		names[i][strcspn(names[i], " ")] = '\0';
		ck_assert(tracer_switch(&bench.tracer, names[i], true));
	}
	for (unsigned i = 0; i < EVENTS && !bench.keeper.facts.shared_page; i++)
		ck_assert(is_on(&bench, 1 + i % 2, bits[i]) == (i % 3 != 0));
	/* All, and then every second one is on again. */
	for (unsigned i = 0; i < EVENTS; i++) {
		calls[i] = silence(1 + i % 2, bits[i], KERNEL_SILENT);
		calls[EVENTS + i] = silence(1 + i % 2, bits[i], i % 4 < 2 ? KERNEL_SILENT : 0);
	}
	ck_assert(keeper_ask(&bench.keeper, calls, ARRAY_SIZE(calls)));
	for (unsigned i = 0; i < EVENTS && !bench.keeper.facts.shared_page; i++) {
		ck_assert_int_eq(calls[i].result, KERNEL_OK);
		ck_assert_int_eq(calls[EVENTS + i].result, KERNEL_OK);
		ck_assert(is_on(&bench, 1 + i % 2, bits[i]) == (i % 4 >= 2));
	}
	bench_end(&bench);
}

static uint8_t byte_behind(const struct bench *bench, uint32_t page, uint32_t at)
{
	uint8_t byte = 0;

	ck_assert_int_eq(pread(bench->page[page], &byte, 1, at), 1);
	return byte;
}

/* A tenant's own traces: the bit stays on, and the bytes behind the page say whose it is. */
TEST(traced_event_stays_on)
{
	const uint16_t first = 1 << KERNEL_TRACES_SHIFT, third = 4 << KERNEL_TRACES_SHIFT;
	struct bench bench = { 0 };
	struct kernel_call one, two;

	if (!bench_begin(&bench))
		return;
	if (!bench.keeper.facts.shared_page) {
		one = bench_register(&bench, 1, "traced_one u32 value", 0);
		two = bench_register(&bench, 2, "traced_one u32 value", third | KERNEL_SILENT);
		ck_assert(!is_on(&bench, 1, one.bit) && is_on(&bench, 2, two.bit));
		ck_assert_uint_eq(byte_behind(&bench, 2, WIRE_TRACES_AT + two.bit), 4 | WIRE_TRACED_ONLY);
		ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, first)), KERNEL_OK);
		ck_assert(is_on(&bench, 1, one.bit));
		ck_assert_uint_eq(byte_behind(&bench, 1, WIRE_TRACED_AT + one.bit / 8), 1 << one.bit % 8);
		ck_assert_uint_eq(byte_behind(&bench, 1, WIRE_TRACES_AT + one.bit), 1);
		/* Whatever the kernel's tracers do. */
		ck_assert(tracer_switch(&bench.tracer, "traced_one", true));
		ck_assert(is_on(&bench, 1, one.bit));
		ck_assert(tracer_switch(&bench.tracer, "traced_one", false));
		ck_assert(is_on(&bench, 1, one.bit));
		ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, first | third)), KERNEL_OK);
		ck_assert_uint_eq(byte_behind(&bench, 1, WIRE_TRACES_AT + one.bit), 5);
		/* The end: as the kernel has it. */
		ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, 0)), KERNEL_OK);
		ck_assert(!is_on(&bench, 1, one.bit));
		ck_assert_uint_eq(byte_behind(&bench, 1, WIRE_TRACED_AT + one.bit / 8), 0);
		ck_assert_int_eq(keeper_do(&bench.keeper, silence(2, two.bit, KERNEL_SILENT)), KERNEL_OK);
		ck_assert(!is_on(&bench, 2, two.bit));
		ck_assert(tracer_switch(&bench.tracer, "traced_one", true));
		ck_assert(is_on(&bench, 1, one.bit) && !is_on(&bench, 2, two.bit));
		/* The bit of an event that ends while it is traced is off for the next one. */
		ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, first)), KERNEL_OK);
		ck_assert_int_eq(keeper_do(&bench.keeper,
					   (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = 1, .fd = -1 }),
				 KERNEL_OK);
		ck_assert(!is_on(&bench, 1, one.bit));
		ck_assert_uint_eq(byte_behind(&bench, 1, WIRE_TRACED_AT + one.bit / 8), 0);
	}
	bench_end(&bench);
}

/* An older keeper's page has nothing behind it. */
TEST(short_page_grows_when_it_is_adopted)
{
	struct bench bench = { 0 };
	struct kernel_call adopt = { .op = KERNEL_PAGE_ADOPT, .page = 9, .index = 1 };
	struct stat status;
	int fd;

	if (!bench_begin(&bench))
		return;
	if (!bench.keeper.facts.shared_page) {
		fd = memfd_create("page", MFD_CLOEXEC);
		ck_assert_int_eq(ftruncate(fd, WIRE_PAGE_BYTES), 0);
		adopt.fd = dup(fd);
		ck_assert_int_eq(keeper_do(&bench.keeper, adopt), KERNEL_OK);
		ck_assert_int_eq(fstat(fd, &status), 0);
		ck_assert_int_eq(status.st_size, WIRE_PAGE_FILE_BYTES);
		close(adopt.fd);
		close(fd);
	}
	bench_end(&bench);
}

/* A silent event ends with its stream, and another gets its bit. */
TEST(silent_event_ends_with_its_stream)
{
	const struct kernel_call end = { .op = KERNEL_STREAM_FREE, .stream = 1, .fd = -1 };
	struct bench bench = { 0 };
	struct kernel_call one, two;

	if (!bench_begin(&bench))
		return;
	if (!bench.keeper.facts.shared_page) {
		one = bench_register(&bench, 1, "silent_end u32 value", KERNEL_SILENT);
		bench.stream[1] = fd_close(bench.stream[1]);
		ck_assert_int_eq(keeper_do(&bench.keeper, end), KERNEL_OK);
		ck_assert(eventually(!kernel_has("silent_end")));
		ck_assert_int_eq(keeper_do(&bench.keeper, silence(1, one.bit, 0)), KERNEL_E_NO_SUCH);
		two = stream_new(4, 1);
		ck_assert(keeper_ask(&bench.keeper, &two, 1));
		bench.stream[1] = two.fd;
		two = bench_register(&bench, 4, "silent_next u32 value", 0);
		ck_assert_uint_eq(two.bit, one.bit);
		ck_assert(tracer_switch(&bench.tracer, "silent_next", true));
		ck_assert(is_on(&bench, 1, two.bit));
	}
	bench_end(&bench);
}
