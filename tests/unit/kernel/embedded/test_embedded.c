/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Calls to the embedded backend, and the bits that follow. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

#include "tests/unit/kernel/embedded/bench.h"
#include "tests/unit/shortage.h"

TEST(facts_follow_from_limits)
{
	_cleanup_(kernel_freep) struct kernel *small = kernel_new(10, 20, 0);
	KERNEL(large);

	ck_assert_uint_eq(small->facts.page_bits, 10);
	ck_assert_uint_eq(small->facts.capacity, 20);
	ck_assert_uint_eq(large->facts.page_bits, WIRE_PAGE_BITS);
	ck_assert_uint_gt(large->facts.capacity, WIRE_PAGE_BITS);
	ck_assert_int_eq(large->facts.backend, BACKEND_EMBEDDED);
	ck_assert_uint_eq(large->facts.payload_max, WIRE_PAYLOAD_MAX);
	ck_assert(!large->facts.shared_page && !large->facts.guarded && large->facts.flags == 0);
}

TEST(name_is_taken_until_released)
{
	EMPTY_BENCH(bench);

	ck_assert_int_eq(try_register(bench.kernel, 1, "hello   u32 count;u8  kind").result, KERNEL_E_BAD_DESCRIPTION);
	do_register(bench.kernel, 1, HELLO);
	ck_assert_uint_eq(do_register(bench.kernel, 1, HELLO).index, 0);
	ck_assert_str_eq(find_event(bench.kernel, "hello")->description, HELLO);
	ck_assert_int_eq(try_register(bench.kernel, 1, "hello u32 count").result, KERNEL_E_NAME_TAKEN);
	ck_assert_int_eq(try_register(bench.kernel, 1, "hello").result, KERNEL_E_NAME_TAKEN);
	ck_assert_int_eq(try_register(bench.kernel, 1, "hell").result, 0);
	ck_assert_int_eq(release(bench.kernel, 1, 0), 0);
	ck_assert_int_eq(try_register(bench.kernel, 1, "hello u32 count").result, 0);
}

TEST(refused_registration_leaves_nothing)
{
	EMPTY_BENCH(bench);
	struct kernel_call call = { .op = KERNEL_REGISTER, .stream = 1, .text = HELLO, .bit = 77, .index = 77 };

	call.flags = REGISTER_PERSIST;
	ck_assert_int_eq(ask(bench.kernel, call).result, KERNEL_E_UNSUPPORTED);
	call.flags = REGISTER_MULTI_FORMAT;
	ck_assert_int_eq(ask(bench.kernel, call).result, KERNEL_E_UNSUPPORTED);
	call.flags = 1 << 14;
	call = ask(bench.kernel, call);
	ck_assert_int_eq(call.result, KERNEL_E_UNSUPPORTED);
	ck_assert_uint_eq(call.bit, 77);
	ck_assert_uint_eq(call.index, 77);
	ck_assert_int_eq(try_register(bench.kernel, 1, "hello long count").result, KERNEL_E_BAD_DESCRIPTION);
	ck_assert_int_eq(try_register(bench.kernel, 1, "").result, KERNEL_E_BAD_DESCRIPTION);
	ck_assert_int_eq(try_register(bench.kernel, 2, HELLO).result, KERNEL_E_NO_SUCH);
	ck_assert_uint_eq(count_events(bench.kernel), 0);
	ck_assert_uint_eq(do_register(bench.kernel, 1, HELLO).index, 0);
}

TEST(missing_or_existing_numbers_are_refused)
{
	BENCH(bench);
	struct kernel *kernel = bench.kernel;

	write_hello(bench.stream, bench.index, 1);
	ck_assert_int_eq(release(kernel, 1, 1), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(release(kernel, 2, 0), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(still_open(kernel, 2), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(stream_free(kernel, 2), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(page_free(kernel, 2), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .stream = 2, .page = 2 }).result,
			 KERNEL_E_NO_SUCH);
	ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = (enum kernel_op)99 }).result, KERNEL_E_UNSUPPORTED);
	for (enum kernel_op op = KERNEL_DEPOSIT; op < KERNEL_SILENCE; op++) {
		int fds = count_open_fds(), fd = dup(STDIN_FILENO);

		ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = op, .fd = fd }).result, KERNEL_E_UNSUPPORTED);
		if (fcntl(fd, F_GETFD) >= 0)
			close(fd);
		ck_assert_int_eq(count_open_fds(), fds);
	}
	ck_assert_int_eq(page_free(kernel, 1), -EBUSY);
	ck_assert_int_eq(stream_free(kernel, 1), 0);
	ck_assert_int_eq(page_free(kernel, 1), 0);
	ck_assert_uint_eq(tracer_page_stats(kernel->tracer, 1).records, 0);
	ck_assert_uint_eq(kernel->totals.records, 1);
}

TEST(failed_call_does_not_stop_batch)
{
	KERNEL(kernel);
	struct kernel_call calls[] = {
		{ .op = KERNEL_PAGE_NEW, .page = 1, .text = "/a" },
		{ .op = KERNEL_STREAM_NEW, .stream = 1, .page = 1 },
		{ .op = KERNEL_REGISTER, .stream = 1, .text = "no: good" },
		{ .op = KERNEL_REGISTER, .stream = 1, .text = TEXT },
		{ .op = KERNEL_RELEASE, .stream = 1, .index = 0 },
		{ .op = KERNEL_REGISTER, .stream = 1, .text = HELLO },
	};
	static const int expected[] = { 0, 0, KERNEL_E_BAD_DESCRIPTION, 0, 0, 0 };
	size_t done = 0;

	kernel_submit(kernel, calls, ARRAY_SIZE(calls), on_done, &done);
	ck_assert_uint_eq(done, ARRAY_SIZE(calls));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		ck_assert_int_eq(calls[i].result, expected[i]);
	ck_assert_uint_eq(calls[5].index, 1);
	kernel_tell(kernel, (struct kernel_call){ .op = KERNEL_RELEASE, .stream = 1, .index = 1 });
	ck_assert_uint_eq(count_events(kernel), 0);
	close(calls[0].fd);
	close(calls[1].fd);
}

TEST(event_beyond_capacity_is_refused)
{
	_cleanup_(kernel_freep) struct kernel *kernel = kernel_new(0, 2, 0);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD other = page_new(kernel, 2, "/b");
	OWNED_FD first = stream_new(kernel, 1, 1);
	OWNED_FD second = stream_new(kernel, 2, 2);
	uint32_t bit;

	do_register(kernel, 1, "a");
	bit = do_register(kernel, 1, "b").bit;
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(try_register(kernel, 1, "c").result, KERNEL_E_FULL);
	/* An event that exists needs no room. */
	do_register(kernel, 1, "a");
	do_register(kernel, 2, "a");
	ck_assert_int_eq(try_register(kernel, 2, "c").result, KERNEL_E_FULL);
	ck_assert_int_eq(release(kernel, 1, 1), 0);
	ck_assert_uint_eq(do_register(kernel, 1, "c").bit, bit);
}

TEST(event_beyond_page_is_refused)
{
	_cleanup_(kernel_freep) struct kernel *kernel = kernel_new(3, 3, 0);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD other = page_new(kernel, 2, "/b");
	OWNED_FD first = stream_new(kernel, 1, 1);
	OWNED_FD second = stream_new(kernel, 2, 2);

	do_register(kernel, 1, "a");
	do_register(kernel, 1, "b");
	ck_assert_int_eq(try_register(kernel, 1, "c").result, KERNEL_E_PAGE_FULL);
	ck_assert_uint_eq(count_events(kernel), 2);
	do_register(kernel, 2, "c");
	ck_assert_int_eq(try_register(kernel, 1, "c").result, KERNEL_E_PAGE_FULL);
	ck_assert_uint_eq(find_event(kernel, "c")->pages, 1);
	ck_assert_int_eq(release(kernel, 1, 0), 0);
	ck_assert_uint_eq(do_register(kernel, 1, "c").index, 2);
}

/* --- without memory or fds --- */

/* With 0, 1, 2 … allocations the call fails cleanly, until it succeeds as if it were the first one. */
static struct kernel_call starve(struct kernel *kernel, struct kernel_call call)
{
	size_t events = count_events(kernel);

	for (long n = 0; n < 20; n++) {
		struct kernel_call result = call;

		allocations_left = n; /* check itself allocates, too */
		kernel_submit(kernel, &result, 1, NULL, NULL);
		allocations_left = -1;
		if (result.result == 0)
			return result;
		ck_assert_int_eq(result.result, -ENOMEM);
		ck_assert_uint_eq(count_events(kernel), events);
	}
	ck_abort_msg("it never succeeds");
}

TEST(call_without_memory_is_undone)
{
	KERNEL(kernel);
	struct kernel_call call;
	int page, stream;

	page = starve(kernel, (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = 1, .text = "/a" }).fd;
	stream = starve(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .page = 1, .stream = 1 }).fd;
	for (uint32_t i = 0; i < 10; i++) {
		char description[32];
		const struct trace_event *event;

		snprintf(description, sizeof(description), "event%u u32 n", i);
		call = starve(kernel, (struct kernel_call){ .op = KERNEL_REGISTER, .stream = 1, .text = description });
		ck_assert_uint_eq(call.index, i);
		ck_assert_uint_eq(call.bit, 8 * (i + 1));
		ck_assert_uint_eq(count_events(kernel), i + 1);
		snprintf(description, sizeof(description), "event%u", i);
		event = find_event(kernel, description);
		ck_assert_uint_eq(event->pages, 1);
	}
	ck_assert_int_eq(stream_free(kernel, 1), 0);
	ck_assert_int_eq(page_free(kernel, 1), 0);
	close(stream);
	close(page);
}

TEST(kernel_without_memory_fails)
{
	static const struct kernel_limits limits = { 0 };
	struct kernel *kernel = NULL;
	int r = -1;

	for (long n = 0; r != 0; n++) {
		ck_assert_ptr_null(kernel);
		allocations_left = n;
		r = embedded_new(&limits, &kernel);
		allocations_left = -1;
		ck_assert(r == 0 || r == -ENOMEM);
		ck_assert_int_lt(n, 10);
	}
	kernel_free(kernel);
}

/* With room for `n` more fds. */
static struct kernel_call ask_with_fds(struct kernel *kernel, int n, struct kernel_call call)
{
	struct rlimit limit, less;

	getrlimit(RLIMIT_NOFILE, &limit);
	less = limit;
	less.rlim_cur = (rlim_t)lowest_free_fd() + (rlim_t)n;
	setrlimit(RLIMIT_NOFILE, &less);
	call = ask(kernel, call);
	setrlimit(RLIMIT_NOFILE, &limit);
	return call;
}

TEST(call_without_fds_leaves_nothing)
{
	KERNEL(kernel);
	struct kernel_call page = { .op = KERNEL_PAGE_NEW, .page = 1, .text = "/a" };
	struct kernel_call stream = { .op = KERNEL_STREAM_NEW, .stream = 1, .page = 1 };
	int before = count_open_fds();

	ck_assert_int_eq(ask_with_fds(kernel, 0, page).result, -EMFILE);
	ck_assert_int_eq(count_open_fds(), before);
	/* With one fd, the client gets the sealed file itself. */
	page = ask_with_fds(kernel, 1, page);
	ck_assert_int_eq(page.result, 0);
	ck_assert_int_eq(count_open_fds(), before + 1);
	ck_assert_int_eq(ask_with_fds(kernel, 0, stream).result, -EMFILE);
	ck_assert_int_eq(ask_with_fds(kernel, 1, stream).result, -EMFILE);
	ck_assert_int_eq(count_open_fds(), before + 1);
	stream = ask_with_fds(kernel, 2, stream);
	ck_assert_int_eq(stream.result, 0);
	do_register(kernel, 1, HELLO);
	close(page.fd);
	close(stream.fd);
}
