/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The embedded backend as a tracer: switching, sessions, and random histories. */

#include <stdio.h>

#include "tests/unit/kernel/embedded/bench.h"
#include "tests/unit/shortage.h"

struct changes {
	uint32_t page[8];
	uint32_t bit[8];
	size_t n;
	const uint8_t *memory; /* of page 1 */
	bool expect_on;
};

static void on_changed(void *data, uint32_t page, uint32_t bit)
{
	struct changes *changes = data;

	ck_assert_uint_lt(changes->n, ARRAY_SIZE(changes->page));
	changes->page[changes->n] = page;
	changes->bit[changes->n++] = bit;
	if (page == 1)
		ck_assert(bit_is_on(changes->memory, bit) == changes->expect_on);
}

TEST(switch_changes_bits_on_all_pages)
{
	KERNEL(kernel);
	OWNED_FD one = page_new(kernel, 1, "/a");
	OWNED_FD two = page_new(kernel, 2, "/b");
	OWNED_FD first = stream_new(kernel, 1, 1);
	OWNED_FD second = stream_new(kernel, 2, 2);
	struct changes changes = { .memory = map_page(one), .expect_on = true };
	const uint8_t *other = map_page(two);
	uint32_t http1 = do_register(kernel, 1, "http_request").bit, text = do_register(kernel, 1, TEXT).bit;
	uint32_t http2;

	do_register(kernel, 2, HELLO);
	http2 = do_register(kernel, 2, "http_request").bit;
	kernel->changed = on_changed;
	kernel->changed_data = &changes;
	ck_assert_uint_eq(tracer_switch(kernel->tracer, "nothing*", true), 0);
	ck_assert_uint_eq(tracer_switch(kernel->tracer, "http_*", true), 1);
	ck_assert_uint_eq(changes.n, 2);
	ck_assert_uint_eq(changes.page[0] + changes.page[1], 3);
	ck_assert(bit_is_on(changes.memory, http1) && bit_is_on(other, http2));
	ck_assert(!bit_is_on(changes.memory, text));
	/* The second time no bit changes, and the event is counted all the same. */
	ck_assert_uint_eq(tracer_switch(kernel->tracer, "http_*", true), 1);
	ck_assert_uint_eq(changes.n, 2);
	changes.expect_on = false;
	ck_assert_uint_eq(tracer_switch(kernel->tracer, "*", false), 3);
	ck_assert_uint_eq(changes.n, 4);
	ck_assert(!bit_is_on(changes.memory, http1) && !bit_is_on(other, http2));
}

static void silence(struct kernel *kernel, uint32_t page, uint32_t bit, uint16_t flags, int result)
{
	const struct kernel_call call = { .op = KERNEL_SILENCE, .page = page, .bit = bit, .flags = flags };

	ck_assert_int_eq(ask(kernel, call).result, result);
}

TEST(silent_event_is_off_on_its_page_alone)
{
	KERNEL(kernel);
	OWNED_FD one = page_new(kernel, 1, "/a");
	OWNED_FD two = page_new(kernel, 2, "/b");
	OWNED_FD first = stream_new(kernel, 1, 1);
	OWNED_FD second = stream_new(kernel, 2, 2);
	struct changes changes = { .memory = map_page(one) };
	const uint8_t *memory = changes.memory, *other = map_page(two);
	const struct kernel_call here = do_register(kernel, 1, HELLO), there = do_register(kernel, 2, HELLO);
	struct hello hello = { .index = here.index, .count = 1 };

	tracer_switch(kernel->tracer, "hello", true);
	kernel->changed = on_changed;
	kernel->changed_data = &changes;
	ck_assert_int_eq(write(first, &hello, sizeof(hello)), sizeof(hello));
	silence(kernel, 1, here.bit, KERNEL_SILENT, KERNEL_OK);
	ck_assert(!bit_is_on(memory, here.bit) && bit_is_on(other, there.bit));
	ck_assert_uint_eq(changes.n, 1);
	/* The record of before was read; one of a program that does not look at its page is not taken. */
	ck_assert_uint_eq(kernel->totals.records, 1);
	ck_assert_int_eq(write(first, &hello, sizeof(hello)), sizeof(hello));
	tracer_drain(kernel->tracer);
	ck_assert_uint_eq(kernel->totals.records, 1);
	/* Nothing changes there when the event is switched. */
	tracer_switch(kernel->tracer, "hello", false);
	tracer_switch(kernel->tracer, "hello", true);
	ck_assert(!bit_is_on(memory, here.bit) && bit_is_on(other, there.bit));
	ck_assert_uint_eq(changes.n, 3);
	changes.expect_on = true;
	silence(kernel, 1, here.bit, 0, KERNEL_OK);
	silence(kernel, 1, here.bit, 0, KERNEL_OK);
	ck_assert(bit_is_on(memory, here.bit));
	ck_assert_uint_eq(changes.n, 4);
	silence(kernel, 1, here.bit + 1, KERNEL_SILENT, KERNEL_E_NO_SUCH);
	silence(kernel, 3, 1, KERNEL_SILENT, KERNEL_E_NO_SUCH);
}

TEST(event_registered_as_silent_is_off)
{
	KERNEL(kernel);
	OWNED_FD one = page_new(kernel, 1, "/a");
	OWNED_FD first = stream_new(kernel, 1, 1);
	const uint8_t *memory = map_page(one);
	struct kernel_call call = {
		.op = KERNEL_REGISTER, .page = 1, .stream = 1, .flags = KERNEL_SILENT, .text = HELLO, .fd = -1
	};
	struct tracer_session *session;

	ck_assert_int_eq(tracer_session_new(kernel->tracer, (const char *const[]){ "*" }, 1, &session), 0);
	call = ask(kernel, call);
	ck_assert_int_eq(call.result, KERNEL_OK);
	ck_assert(!bit_is_on(memory, call.bit));
	/* The last call counts. */
	call.flags = 0;
	ask(kernel, call);
	ck_assert(bit_is_on(memory, call.bit));
	tracer_session_free(session);
}

TEST(session_enables_events_until_its_end)
{
	static const char *const wanted[] = { "http_*", "hello" };
	KERNEL(kernel);
	OWNED_FD fd = page_new(kernel, 1, "/a");
	OWNED_FD stream = stream_new(kernel, 1, 1);
	const uint8_t *page = map_page(fd);
	struct tracer_session *session, *other;
	uint32_t hello = do_register(kernel, 1, HELLO).bit, text = do_register(kernel, 1, TEXT).bit, http;

	ck_assert_int_eq(tracer_session_new(kernel->tracer, wanted, 2, &session), 0);
	ck_assert(bit_is_on(page, hello) && !bit_is_on(page, text));
	http = do_register(kernel, 1, "http_reply").bit;
	ck_assert(bit_is_on(page, http));
	ck_assert(!find_event(kernel, "http_reply")->switched);

	ck_assert_int_eq(tracer_session_new(kernel->tracer, wanted, 1, &other), 0);
	tracer_switch(kernel->tracer, "hello", true);
	ck_assert_ptr_null(tracer_session_free(session));
	ck_assert(bit_is_on(page, hello) && bit_is_on(page, http));
	tracer_switch(kernel->tracer, "*", false);
	ck_assert(!bit_is_on(page, hello) && bit_is_on(page, http));
	tracer_session_free(other);
	ck_assert(!bit_is_on(page, http));
	ck_assert_ptr_null(tracer_session_free(NULL));
}

TEST(session_wants_names_that_match)
{
	static const char *const wanted[] = { "a?c", "[x-z]*" };
	KERNEL(kernel);
	char name[600];
	struct tracer_session *session;

	ck_assert_int_eq(tracer_session_new(kernel->tracer, wanted, 2, &session), 0);
	ck_assert(tracer_session_wants(session, "abc u32 n", 3));
	ck_assert(!tracer_session_wants(session, "abc u32 n", 4));
	ck_assert(tracer_session_wants(session, "yellow", 6));
	ck_assert(!tracer_session_wants(session, "", 0));
	memset(name, 'x', sizeof(name));
	ck_assert(tracer_session_wants(session, name, 200));
	ck_assert(!tracer_session_wants(session, name, sizeof(name)));
	tracer_session_free(session);
	ck_assert_int_eq(tracer_session_new(kernel->tracer, NULL, 0, &session), 0);
	ck_assert(!tracer_session_wants(session, "abc", 3));
	tracer_session_free(session);
}

TEST(session_without_memory_fails)
{
	static const char *const wanted[] = { "*", "hello" };
	struct tracer_session *session = NULL;
	BENCH(bench);
	int r = -1;

	tracer_switch(bench.kernel->tracer, "*", false);
	for (long n = 0; r != 0; n++) {
		ck_assert(!find_event(bench.kernel, "hello")->on);
		allocations_left = n;
		r = tracer_session_new(bench.kernel->tracer, wanted, 2, &session);
		allocations_left = -1;
		ck_assert(r == 0 || r == -ENOMEM);
		ck_assert_int_lt(n, 10);
	}
	tracer_session_free(session);
}

/* Random histories, compared with a model that has only the registrations of each stream. */
enum { PAGES = 3, STREAMS = 9, NAMES = 12, STEPS = 6000 };

static struct {
	bool open[STREAMS];
	int fd[STREAMS];
	int index[STREAMS][NAMES]; /* -1: not registered */
	int next_index[STREAMS];
	int bit[PAGES][NAMES]; /* of the last answer */
	bool switched[NAMES];
} model;

static bool is_held(unsigned page, unsigned name)
{
	for (unsigned stream = page; stream < STREAMS; stream += PAGES)
		if (model.open[stream] && model.index[stream][name] >= 0)
			return true;
	return false;
}

static void model_open(struct kernel *kernel, unsigned stream)
{
	model.open[stream] = true;
	model.fd[stream] = stream_new(kernel, stream, stream % PAGES);
	model.next_index[stream] = 0;
	memset(model.index[stream], -1, sizeof(model.index[stream]));
}

static void model_close(struct kernel *kernel, unsigned stream)
{
	if (random() % 2)
		model.fd[stream] = fd_close(model.fd[stream]);
	ck_assert_int_eq(stream_free(kernel, stream), 0);
	model.fd[stream] = fd_close(model.fd[stream]);
	model.open[stream] = false;
}

static void model_register(struct kernel *kernel, unsigned stream, unsigned name)
{
	char description[32];
	bool held = is_held(stream % PAGES, name);
	struct kernel_call call;

	snprintf(description, sizeof(description), "event%u u32 n", name);
	call = do_register(kernel, stream, description);
	if (model.index[stream][name] < 0)
		model.index[stream][name] = model.next_index[stream]++;
	ck_assert_int_eq((int)call.index, model.index[stream][name]);
	if (held)
		ck_assert_int_eq((int)call.bit, model.bit[stream % PAGES][name]);
	model.bit[stream % PAGES][name] = (int)call.bit;
}

static void model_release(struct kernel *kernel, unsigned stream, unsigned name)
{
	if (model.index[stream][name] < 0)
		return;
	ck_assert_int_eq(release(kernel, stream, (uint32_t)model.index[stream][name]), 0);
	model.index[stream][name] = -1;
}

static void model_switch(struct kernel *kernel, unsigned name)
{
	char event[32];
	bool on = random() % 2 == 0;

	snprintf(event, sizeof(event), "event%u", name);
	if (tracer_switch(kernel->tracer, event, on) == 1)
		model.switched[name] = on;
}

static void check_event(struct kernel *kernel, const uint8_t *const *memory, unsigned name)
{
	const struct trace_event *event;
	unsigned pages = 0;
	char text[32];

	snprintf(text, sizeof(text), "event%u", name);
	event = find_event(kernel, text);
	for (unsigned page = 0; page < PAGES; page++)
		if (is_held(page, name)) {
			pages++;
			ck_assert(bit_is_on(memory[page], (uint32_t)model.bit[page][name]) == model.switched[name]);
		}
	ck_assert(event->id != 0 ? event->pages == pages && event->on == model.switched[name] : pages == 0);
	ck_assert((event->id != 0) == (pages > 0 || model.switched[name]));
}

/* No other bit is on. */
static void check_page(const uint8_t *memory, unsigned page)
{
	unsigned on = 0, expected = 0;

	for (unsigned i = 0; i < 16; i++)
		on += (unsigned)__builtin_popcount(memory[i]);
	for (unsigned name = 0; name < NAMES; name++)
		expected += model.switched[name] && is_held(page, name);
	ck_assert_uint_eq(on, expected);
}

TEST(random_history_agrees_with_model)
{
	_cleanup_(kernel_freep) struct kernel *kernel = kernel_new(NAMES + 1, NAMES, 0);
	const uint8_t *memory[PAGES];
	int page[PAGES];

	srandom(1);
	for (unsigned i = 0; i < PAGES; i++) {
		page[i] = page_new(kernel, i, "/a");
		memory[i] = map_page(page[i]);
	}
	for (int step = 0; step < STEPS; step++) {
		unsigned stream = (unsigned)random() % STREAMS, name = (unsigned)random() % NAMES;
		int what = (int)(random() % 16);

		if (!model.open[stream])
			model_open(kernel, stream);
		else if (what == 0)
			model_close(kernel, stream);
		else if (what < 7)
			model_register(kernel, stream, name);
		else if (what < 13)
			model_release(kernel, stream, name);
		else
			model_switch(kernel, name);
		for (name = 0; name < NAMES; name++)
			check_event(kernel, memory, name);
		for (unsigned i = 0; i < PAGES; i++)
			check_page(memory[i], i);
	}
	for (unsigned stream = 0; stream < STREAMS; stream++)
		if (model.open[stream])
			model_close(kernel, stream);
	for (unsigned i = 0; i < PAGES; i++) {
		ck_assert_int_eq(page_free(kernel, i), 0);
		close(page[i]);
	}
}
