/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "kernel/embedded/tracer.h"
#include "kernel/kernel.h"
#include "protocol/protocol.h"
#include "protocol/row.h"
#include "protocol/transport.h"
#include "tests/linger.h"

/* Some are there only to be closed. */
#define OWNED_FD _cleanup_(fd_closep) _unused_ int

/* The n-th allocation fails. */
static long allocations_left = -1;

#if defined(__SANITIZE_ADDRESS__)
#define REAL(function) __interceptor_##function
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REAL(function) __interceptor_##function
#endif
#endif
#ifndef REAL
#define REAL(function) __libc_##function
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *old, size_t size);

static bool may_allocate(void)
{
	if (allocations_left < 0)
		return true;
	if (allocations_left > 0) {
		allocations_left--;
		return true;
	}
	errno = ENOMEM;
	return false;
}

void *malloc(size_t size)
{
	return may_allocate() ? REAL(malloc)(size) : NULL;
}

void *calloc(size_t n, size_t size)
{
	return may_allocate() ? REAL(calloc)(n, size) : NULL;
}

void *realloc(void *old, size_t size)
{
	return may_allocate() ? REAL(realloc)(old, size) : NULL;
}

void *reallocarray(void *old, size_t n, size_t size)
{
	return realloc(old, n * size);
}
/* A stream to which somebody always writes one more record before the next is read. */
static int ahead = -1;

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	static const char record[9];

	if (ahead >= 0 && write(ahead, record, sizeof(record)) < 0)
		abort();
	return syscall(SYS_recvmsg, socket, message, flags);
}

#define HELLO "hello u32 count; u8 kind"
#define TEXT  "text __rel_loc char[] words"

struct hello {
	uint32_t index;
	uint32_t count;
	uint8_t kind;
} __attribute__((packed));

static struct kernel *kernel_new(uint32_t page_bits, uint32_t capacity, size_t ring_bytes)
{
	const struct kernel_limits limits = {
		.page_bits = page_bits,
		.capacity = capacity,
		.ring_bytes = ring_bytes,
	};
	struct kernel *kernel;

	ck_assert_int_eq(embedded_new(&limits, &kernel), 0);
	return kernel;
}

#define KERNEL(name) _cleanup_(kernel_freep) struct kernel *name = kernel_new(0, 0, 0)

static void on_done(void *data, struct kernel_call *calls _unused_, size_t n)
{
	*(size_t *)data += n;
}

static struct kernel_call ask(struct kernel *kernel, struct kernel_call call)
{
	size_t done = 0;

	kernel_submit(kernel, &call, 1, on_done, &done);
	ck_assert_uint_eq(done, 1);
	return call;
}

static int page_new(struct kernel *kernel, uint32_t page, const char *tenant)
{
	struct kernel_call call =
		ask(kernel, (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = page, .text = tenant });

	ck_assert_int_eq(call.result, 0);
	ck_assert_int_ge(call.fd, 0);
	return call.fd;
}

static int stream_new(struct kernel *kernel, uint32_t stream, uint32_t page)
{
	struct kernel_call call =
		ask(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .stream = stream, .page = page });

	ck_assert_int_eq(call.result, 0);
	ck_assert_int_ge(call.fd, 0);
	return call.fd;
}

static struct kernel_call try_register(struct kernel *kernel, uint32_t stream, const char *description)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_REGISTER, .stream = stream, .text = description });
}

static struct kernel_call do_register(struct kernel *kernel, uint32_t stream, const char *description)
{
	struct kernel_call call = try_register(kernel, stream, description);

	ck_assert_int_eq(call.result, 0);
	return call;
}

static int release(struct kernel *kernel, uint32_t stream, uint32_t index)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_RELEASE, .stream = stream, .index = index }).result;
}

static int still_open(struct kernel *kernel, uint32_t stream)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = stream }).result;
}

static int stream_free(struct kernel *kernel, uint32_t stream)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = stream }).result;
}

static int page_free(struct kernel *kernel, uint32_t page)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = page }).result;
}

static size_t count_events(struct kernel *kernel)
{
	struct tracer_event event = { 0 };
	size_t n = 0;

	while (tracer_next(kernel->tracer, event.id, &event))
		n++;
	return n;
}

/* The event of that name; id 0: unknown. */
static struct tracer_event find_event(struct kernel *kernel, const char *name)
{
	struct tracer_event event = { 0 };

	while (tracer_next(kernel->tracer, event.id, &event))
		if (event.name_length == strlen(name) && memcmp(event.description, name, event.name_length) == 0)
			return event;
	return (struct tracer_event){ 0 };
}

static const uint8_t *map_page(int fd)
{
	void *memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

static bool bit_is_on(const uint8_t *page, uint32_t bit)
{
	return page[bit / 8] >> bit % 8 & 1;
}

static void write_hello(int fd, uint32_t index, uint32_t count)
{
	struct hello record = { .index = index, .count = count, .kind = 7 };

	ck_assert_int_eq(write(fd, &record, sizeof(record)), sizeof(record));
}

static struct kernel_page_stats stats_of(struct kernel *kernel, uint32_t page)
{
	struct kernel_page_stats stats;

	ck_assert(kernel_page_stats(kernel, page, &stats));
	return stats;
}

static uint64_t kept(struct kernel *kernel)
{
	return ring_next(tracer_ring(kernel->tracer));
}

static struct cursor read_row(struct kernel *kernel, struct ring_reader *reader)
{
	size_t size = 0;
	const void *row = ring_read(tracer_ring(kernel->tracer), reader, &size);

	ck_assert_ptr_nonnull(row);
	return cursor_make(row, size);
}

/* A kernel with one page, one stream, and HELLO on it, switched on: what most tests begin with. */
struct bench {
	struct kernel *kernel;
	int page;
	int stream;
	uint32_t index;
	uint32_t bit;
};

static struct bench bench_new(void)
{
	struct bench bench = { .kernel = kernel_new(0, 0, 0) };
	struct kernel_call call;

	bench.page = page_new(bench.kernel, 1, "/some.slice");
	bench.stream = stream_new(bench.kernel, 1, 1);
	call = do_register(bench.kernel, 1, HELLO);
	bench.index = call.index;
	bench.bit = call.bit;
	ck_assert_uint_eq(tracer_switch(bench.kernel->tracer, "hello", true), 1);
	return bench;
}

static void bench_free(struct bench *bench)
{
	bench->page = fd_close(bench->page);
	bench->stream = fd_close(bench->stream);
	bench->kernel = kernel_free(bench->kernel);
}

#define BENCH(name) _cleanup_(bench_free) struct bench name = bench_new()

TEST(the_facts_are_what_the_limits_say)
{
	static const struct kernel_limits too_many = { .page_bits = WIRE_PAGE_BITS + 1 };
	static const struct kernel_limits no_ring = { .ring_bytes = 1 };
	_cleanup_(kernel_freep) struct kernel *small = kernel_new(10, 20, 0);
	struct kernel *none = NULL;
	KERNEL(large);

	ck_assert_uint_eq(small->facts.page_bits, 10);
	ck_assert_uint_eq(small->facts.capacity, 20);
	ck_assert_uint_eq(large->facts.page_bits, WIRE_PAGE_BITS);
	ck_assert_uint_gt(large->facts.capacity, WIRE_PAGE_BITS);
	ck_assert_int_eq(large->facts.backend, BACKEND_EMBEDDED);
	ck_assert_uint_eq(large->facts.payload_max, WIRE_PAYLOAD_MAX);
	ck_assert(!large->facts.shared_page && !large->facts.guarded && large->facts.flags == 0);
	ck_assert_int_eq(embedded_new(&too_many, &none), -EINVAL);
	ck_assert_int_eq(embedded_new(&no_ring, &none), -EINVAL);
	ck_assert_ptr_null(kernel_free(none));
}

TEST(event_has_one_bit_per_page)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD first = stream_new(kernel, 1, 1);
	OWNED_FD second = stream_new(kernel, 2, 1);
	struct kernel_call hello = do_register(kernel, 1, HELLO);
	struct kernel_call text = do_register(kernel, 1, TEXT);
	struct kernel_call again = do_register(kernel, 1, HELLO);
	struct kernel_call elsewhere = do_register(kernel, 2, TEXT);

	ck_assert_uint_eq(hello.index, 0);
	ck_assert_uint_eq(text.index, 1);
	ck_assert_uint_eq(again.index, hello.index);
	ck_assert_uint_eq(again.bit, hello.bit);
	ck_assert_uint_eq(elsewhere.index, 0);
	ck_assert_uint_eq(elsewhere.bit, text.bit);
	ck_assert_uint_ne(hello.bit, 0);
	ck_assert_uint_ne(hello.bit / 8, text.bit / 8);
	ck_assert_uint_eq(find_event(kernel, "hello").pages, 1);
	ck_assert_uint_eq(count_events(kernel), 2);
}

TEST(two_tenants_share_an_event_and_not_a_page)
{
	KERNEL(kernel);
	OWNED_FD one = page_new(kernel, 1, "/a");
	OWNED_FD two = page_new(kernel, 2, "/b");
	OWNED_FD first = stream_new(kernel, 1, 1);
	OWNED_FD second = stream_new(kernel, 2, 2);

	do_register(kernel, 1, TEXT);
	do_register(kernel, 1, HELLO);
	ck_assert_uint_eq(do_register(kernel, 2, HELLO).index, 0);
	ck_assert_uint_eq(find_event(kernel, "hello").pages, 2);
	ck_assert_uint_eq(find_event(kernel, "text").pages, 1);
	ck_assert_int_eq(stream_free(kernel, 1), 0);
	ck_assert_uint_eq(find_event(kernel, "hello").pages, 1);
	ck_assert_uint_eq(find_event(kernel, "text").id, 0);
}

TEST(name_is_taken_until_released)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD stream = stream_new(kernel, 1, 1);

	do_register(kernel, 1, HELLO);
	ck_assert_int_eq(try_register(kernel, 1, "hello u32 count").result, KERNEL_E_NAME_TAKEN);
	ck_assert_int_eq(try_register(kernel, 1, "hello").result, KERNEL_E_NAME_TAKEN);
	ck_assert_int_eq(try_register(kernel, 1, "hell").result, 0);
	ck_assert_int_eq(release(kernel, 1, 0), 0);
	ck_assert_int_eq(try_register(kernel, 1, "hello u32 count").result, 0);
}

TEST(a_description_is_made_canonical_here_too)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD stream = stream_new(kernel, 1, 1);

	do_register(kernel, 1, "hello   u32 count;u8  kind");
	ck_assert_uint_eq(do_register(kernel, 1, HELLO).index, 0);
	ck_assert_str_eq(find_event(kernel, "hello").description, HELLO);
}

TEST(refused_registration_leaves_nothing)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD stream = stream_new(kernel, 1, 1);
	struct kernel_call call = { .op = KERNEL_REGISTER, .stream = 1, .text = HELLO, .bit = 77, .index = 77 };

	call.flags = KERNEL_PERSIST;
	ck_assert_int_eq(ask(kernel, call).result, KERNEL_E_UNSUPPORTED);
	call.flags = KERNEL_MULTI_FORMAT;
	ck_assert_int_eq(ask(kernel, call).result, KERNEL_E_UNSUPPORTED);
	call.flags = 1 << 15;
	call = ask(kernel, call);
	ck_assert_int_eq(call.result, KERNEL_E_UNSUPPORTED);
	ck_assert_uint_eq(call.bit, 77);
	ck_assert_uint_eq(call.index, 77);
	ck_assert_int_eq(try_register(kernel, 1, "hello long count").result, KERNEL_E_BAD_DESCRIPTION);
	ck_assert_int_eq(try_register(kernel, 1, "").result, KERNEL_E_BAD_DESCRIPTION);
	ck_assert_int_eq(try_register(kernel, 2, HELLO).result, KERNEL_E_NO_SUCH);
	ck_assert_uint_eq(count_events(kernel), 0);
	ck_assert_uint_eq(do_register(kernel, 1, HELLO).index, 0);
}

TEST(missing_or_existing_numbers_are_refused)
{
	BENCH(bench);
	struct kernel *kernel = bench.kernel;
	struct kernel_page_stats stats;

	write_hello(bench.stream, bench.index, 1);
	ck_assert_int_eq(release(kernel, 1, 1), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(release(kernel, 2, 0), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(still_open(kernel, 2), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(stream_free(kernel, 2), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(page_free(kernel, 2), KERNEL_E_NO_SUCH);
	ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .stream = 2, .page = 2 }).result,
			 KERNEL_E_NO_SUCH);
	ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .stream = 1, .page = 1 }).result,
			 -EEXIST);
	ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = 1, .text = "" }).result,
			 -EEXIST);
	ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = (enum kernel_op)99 }).result, -EINVAL);
	for (enum kernel_op op = KERNEL_DEPOSIT; op < KERNEL_OP_MAX_; op++) {
		int fds = count_open_fds(), fd = dup(STDIN_FILENO);

		ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = op, .fd = fd }).result, KERNEL_E_UNSUPPORTED);
		if (fcntl(fd, F_GETFD) >= 0)
			close(fd);
		ck_assert_int_eq(count_open_fds(), fds);
	}
	ck_assert_int_eq(page_free(kernel, 1), -EBUSY);
	ck_assert(!kernel_page_stats(kernel, 2, &stats));
	ck_assert_int_eq(stream_free(kernel, 1), 0);
	ck_assert_int_eq(page_free(kernel, 1), 0);
	ck_assert(!kernel_page_stats(kernel, 1, &stats));
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
	/* What is there already needs no room, on whichever page. */
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
	ck_assert_uint_eq(find_event(kernel, "c").pages, 1);
	ck_assert_int_eq(release(kernel, 1, 0), 0);
	ck_assert_uint_eq(do_register(kernel, 1, "c").index, 2);
}

TEST(bits_are_reused_indexes_are_not)
{
	BENCH(bench);
	const uint8_t *page = map_page(bench.page);
	struct kernel_call call;

	ck_assert(bit_is_on(page, bench.bit));
	tracer_switch(bench.kernel->tracer, "hello", false);
	tracer_switch(bench.kernel->tracer, "hello", true);
	ck_assert(bit_is_on(page, bench.bit));
	ck_assert_int_eq(release(bench.kernel, 1, 0), 0);
	ck_assert(!bit_is_on(page, bench.bit));
	ck_assert_int_eq(release(bench.kernel, 1, 0), KERNEL_E_NO_SUCH);
	call = do_register(bench.kernel, 1, TEXT);
	ck_assert_uint_eq(call.bit, bench.bit);
	ck_assert_uint_eq(call.index, 1);
	ck_assert(!bit_is_on(page, call.bit));
}

TEST(bit_lives_as_long_as_its_streams)
{
	BENCH(bench);
	OWNED_FD second = stream_new(bench.kernel, 2, 1);
	const uint8_t *page = map_page(bench.page);

	do_register(bench.kernel, 2, HELLO);
	ck_assert_int_eq(release(bench.kernel, 1, 0), 0);
	ck_assert(bit_is_on(page, bench.bit));
	ck_assert_int_eq(stream_free(bench.kernel, 2), 0);
	ck_assert(!bit_is_on(page, bench.bit));
}

TEST(record_is_kept_with_its_origin)
{
	static const char *const keys[] = { "time", "pid", "uid", "comm", "tenant", "event", "payload" };
	BENCH(bench);
	struct ring_reader reader = { 0 };
	struct timespec before, after;
	struct row_field field;
	struct cursor row, rest;
	char string[64];

	prctl(PR_SET_NAME, "my program");
	clock_gettime(CLOCK_REALTIME, &before);
	write_hello(bench.stream, bench.index, 0x01020304);
	clock_gettime(CLOCK_REALTIME, &after);
	ck_assert_int_eq(kernel_dispatch(bench.kernel), 0);

	row = rest = read_row(bench.kernel, &reader);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		ck_assert_int_eq(row_next(&rest, &field), 1);
		ck_assert_uint_eq(field.key_length, strlen(keys[i]));
		ck_assert_mem_eq(field.key, keys[i], field.key_length);
	}
	ck_assert_int_eq(row_next(&rest, &field), 0);
	ck_assert_uint_ge(row_get_u64(row, "time"), (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec);
	ck_assert_uint_le(row_get_u64(row, "time"), (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec);
	ck_assert_uint_eq(row_get_u64(row, "pid"), (uint64_t)getpid());
	ck_assert_uint_eq(row_get_u64(row, "uid"), getuid());
	row_get_string(row, "comm", string, sizeof(string));
	ck_assert_str_eq(string, "my program");
	row_get_string(row, "tenant", string, sizeof(string));
	ck_assert_str_eq(string, "/some.slice");
	row_get_string(row, "event", string, sizeof(string));
	ck_assert_str_eq(string, HELLO);
	ck_assert(row_find(row, "payload", &field));
	ck_assert_uint_eq(field.length, 5);
	ck_assert_mem_eq(field.value, &(uint32_t){ 0x01020304 }, 4);
	ck_assert_uint_eq(stats_of(bench.kernel, 1).records, 1);
	ck_assert_uint_eq(find_event(bench.kernel, "hello").records, 1);
}

TEST(comm_of_ended_writer_is_unknown)
{
	BENCH(bench);
	struct ring_reader reader = { 0 };
	struct cursor row;
	char comm[16];
	pid_t child = fork();

	if (child == 0) {
		write_hello(bench.stream, bench.index, 1);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	kernel_dispatch(bench.kernel);
	row = read_row(bench.kernel, &reader);
	row_get_string(row, "comm", comm, sizeof(comm));
	ck_assert_str_eq(comm, "unknown");
	ck_assert_uint_eq(row_get_u64(row, "pid"), (uint64_t)child);
}

TEST(comm_is_read_again_at_next_dispatch)
{
	BENCH(bench);
	struct ring_reader reader = { 0 };
	char comm[16];

	prctl(PR_SET_NAME, "before");
	write_hello(bench.stream, bench.index, 1);
	kernel_dispatch(bench.kernel);
	prctl(PR_SET_NAME, "after");
	write_hello(bench.stream, bench.index, 1);
	kernel_dispatch(bench.kernel);
	row_get_string(read_row(bench.kernel, &reader), "comm", comm, sizeof(comm));
	ck_assert_str_eq(comm, "before");
	row_get_string(read_row(bench.kernel, &reader), "comm", comm, sizeof(comm));
	ck_assert_str_eq(comm, "after");
}

static void expect_counts(struct kernel *kernel, uint64_t records, uint64_t bad, uint64_t bad_of_event)
{
	ck_assert_int_eq(kernel_dispatch(kernel), 0);
	ck_assert_uint_eq(stats_of(kernel, 1).records, records);
	ck_assert_uint_eq(stats_of(kernel, 1).bad, bad);
	ck_assert_uint_eq(kernel->totals.records, records);
	ck_assert_uint_eq(kernel->totals.bad, bad);
	ck_assert_uint_eq(find_event(kernel, "hello").bad, bad_of_event);
	ck_assert_uint_eq(kept(kernel), records);
}

TEST(bad_records_are_refused_and_counted)
{
	BENCH(bench);
	struct hello record = { .index = bench.index };
	char large[4 + WIRE_PAYLOAD_MAX + 1] = { 0 };

	ck_assert_int_eq(send(bench.stream, "", 0, 0), 0);
	expect_counts(bench.kernel, 0, 1, 0);
	ck_assert_int_eq(write(bench.stream, &record, 3), 3);
	expect_counts(bench.kernel, 0, 2, 0);
	ck_assert_int_eq(write(bench.stream, &record, sizeof(record) - 1), sizeof(record) - 1);
	expect_counts(bench.kernel, 0, 3, 1);
	write_hello(bench.stream, bench.index + 1, 1);
	write_hello(bench.stream, UINT32_MAX, 1);
	expect_counts(bench.kernel, 0, 5, 1);
	ck_assert_int_eq(write(bench.stream, large, sizeof(large)), sizeof(large));
	expect_counts(bench.kernel, 0, 6, 2);
	ck_assert_int_eq(write(bench.stream, large, sizeof(large) - 1), sizeof(large) - 1);
	expect_counts(bench.kernel, 1, 6, 2);
	ck_assert_int_eq(still_open(bench.kernel, 1), 0);
}

TEST(a_dynamic_field_outside_its_record_is_bad)
{
	BENCH(bench);
	uint32_t index = do_register(bench.kernel, 1, TEXT).index;
	struct {
		uint32_t index;
		uint32_t words;
		char text[4];
	} record = { index, 4 << 16, "abc" };

	tracer_switch(bench.kernel->tracer, "text", true);
	ck_assert_int_eq(write(bench.stream, &record, sizeof(record)), sizeof(record));
	kernel_dispatch(bench.kernel);
	ck_assert_uint_eq(stats_of(bench.kernel, 1).records, 1);
	record.words = 5 << 16;
	ck_assert_int_eq(write(bench.stream, &record, sizeof(record)), sizeof(record));
	record.words = 3 << 16; /* without its NUL */
	ck_assert_int_eq(write(bench.stream, &record, sizeof(record)), sizeof(record));
	kernel_dispatch(bench.kernel);
	ck_assert_uint_eq(stats_of(bench.kernel, 1).records, 1);
	ck_assert_uint_eq(stats_of(bench.kernel, 1).bad, 2);
	ck_assert_uint_eq(find_event(bench.kernel, "text").bad, 2);
}

TEST(records_of_disabled_events_are_dropped)
{
	BENCH(bench);

	tracer_switch(bench.kernel->tracer, "*", false);
	write_hello(bench.stream, bench.index, 1);
	expect_counts(bench.kernel, 0, 0, 0);
	tracer_switch(bench.kernel->tracer, "*", true);
	ck_assert_int_eq(release(bench.kernel, 1, bench.index), 0);
	do_register(bench.kernel, 1, HELLO);
	write_hello(bench.stream, bench.index, 1);
	expect_counts(bench.kernel, 0, 0, 0);
}

TEST(many_events_share_cache_of_parsed)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD stream = stream_new(kernel, 1, 1);
	uint8_t record[4 + 200] = { 0 };

	tracer_switch(kernel->tracer, "*", true);
	for (uint32_t i = 0; i < 150; i++) {
		char description[64];

		snprintf(description, sizeof(description), "event%u char[%u] bytes", i, i + 1);
		ck_assert_uint_eq(do_register(kernel, 1, description).index, i);
	}
	tracer_switch(kernel->tracer, "*", true);
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t index = i % 150;

		memcpy(record, &index, sizeof(index));
		ck_assert_int_eq(write(stream, record, 4 + index + 1), (ssize_t)(4 + index + 1));
		ck_assert_int_eq(write(stream, record, 4 + index), (ssize_t)(4 + index));
		/* A queue holds a few hundred records where net.core.wmem_max is what it is by default. */
		tracer_drain(kernel->tracer);
	}
	ck_assert_uint_eq(stats_of(kernel, 1).records, 300);
	ck_assert_uint_eq(stats_of(kernel, 1).bad, 300);
}

static bool is_readable(int fd)
{
	struct pollfd ask_poll = { .fd = fd, .events = POLLIN };

	return poll(&ask_poll, 1, 0) == 1;
}

TEST(last_close_comes_after_records)
{
	BENCH(bench);
	int copy = fcntl(bench.stream, F_DUPFD_CLOEXEC, 0);

	bench.stream = fd_close(bench.stream);
	ck_assert_int_eq(still_open(bench.kernel, 1), KERNEL_OK);
	write_hello(copy, bench.index, 1);
	close(copy);
	ck_assert(is_readable(bench.kernel->fd));
	kernel_dispatch(bench.kernel);
	ck_assert(!is_readable(bench.kernel->fd));
	ck_assert_uint_eq(kept(bench.kernel), 1);
	ck_assert_int_eq(still_open(bench.kernel, 1), KERNEL_E_GONE);
	ck_assert_int_eq(still_open(bench.kernel, 1), KERNEL_E_GONE);
	/* What it registered stays until it is freed. */
	ck_assert_uint_eq(find_event(bench.kernel, "hello").pages, 1);
	ck_assert_int_eq(release(bench.kernel, 1, bench.index), 0);
	ck_assert_int_eq(stream_free(bench.kernel, 1), 0);
}

TEST(still_open_reads_rest_of_closed_stream)
{
	BENCH(bench);

	for (uint32_t i = 0; i < 40; i++)
		write_hello(bench.stream, bench.index, i);
	bench.stream = fd_close(bench.stream);
	ck_assert_int_eq(still_open(bench.kernel, 1), KERNEL_E_GONE);
	ck_assert_uint_eq(kept(bench.kernel), 40);
	ck_assert(!is_readable(bench.kernel->fd));
}

TEST(a_writer_that_shuts_its_end_is_gone)
{
	BENCH(bench);

	write_hello(bench.stream, bench.index, 1);
	shutdown(bench.stream, SHUT_WR);
	kernel_dispatch(bench.kernel);
	ck_assert_uint_eq(kept(bench.kernel), 1);
	ck_assert_int_eq(still_open(bench.kernel, 1), KERNEL_E_GONE);
	ck_assert(!is_readable(bench.kernel->fd));
}

TEST(records_before_release_are_kept)
{
	BENCH(bench);

	write_hello(bench.stream, bench.index, 1);
	ck_assert_int_eq(release(bench.kernel, 1, bench.index), 0);
	ck_assert_uint_eq(kept(bench.kernel), 1);

	bench.index = do_register(bench.kernel, 1, HELLO).index;
	write_hello(bench.stream, bench.index, 2);
	ck_assert_int_eq(stream_free(bench.kernel, 1), 0);
	ck_assert_uint_eq(kept(bench.kernel), 2);
	ck_assert_int_eq(write(bench.stream, "1234", 4), -1);
}

TEST(records_before_switching_off_are_kept)
{
	BENCH(bench);

	write_hello(bench.stream, bench.index, 1);
	tracer_switch(bench.kernel->tracer, "hello", false);
	ck_assert_uint_eq(kept(bench.kernel), 1);
}

/* How many records fit until the queue is full. */
static size_t fill(int fd, uint32_t index)
{
	struct hello record = { .index = index };
	size_t n = 0;

	while (write(fd, &record, sizeof(record)) == sizeof(record))
		n++;
	ck_assert_int_eq(errno, EAGAIN);
	return n;
}

TEST(a_full_queue_never_blocks_the_writer_and_empties)
{
	BENCH(bench);
	size_t n;

	ck_assert_int_ne(fcntl(bench.stream, F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ne(fcntl(bench.stream, F_GETFD) & FD_CLOEXEC, 0);
	n = fill(bench.stream, bench.index);
	ck_assert_uint_gt(n, 100);
	tracer_drain(bench.kernel->tracer);
	ck_assert_uint_eq(kept(bench.kernel), n);
	write_hello(bench.stream, bench.index, 1);
}

TEST(dispatch_is_bounded_and_fair)
{
	BENCH(bench);
	OWNED_FD second = stream_new(bench.kernel, 2, 1);
	size_t n = fill(bench.stream, bench.index), dispatches = 0;
	struct ring_reader reader = { 0 };
	struct row_field payload;
	bool found = false;

	do_register(bench.kernel, 2, HELLO);
	write_hello(second, 0, 4242);
	n = MIN(n, 20000u) + 1;
	while (kept(bench.kernel) < n) {
		uint64_t before = kept(bench.kernel);

		ck_assert_int_eq(kernel_dispatch(bench.kernel), 0);
		ck_assert_uint_gt(kept(bench.kernel), before);
		ck_assert_uint_le(kept(bench.kernel), before + 550);
		if (dispatches++ == 0)
			while (!found && reader.position < kept(bench.kernel)) {
				struct cursor row = read_row(bench.kernel, &reader);

				ck_assert(row_find(row, "payload", &payload));
				found = memcmp(payload.value, &(uint32_t){ 4242 }, 4) == 0;
			}
	}
	ck_assert(found);
}

TEST(drain_reads_all_streams)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	int stream[150];

	for (uint32_t i = 0; i < ARRAY_SIZE(stream); i++) {
		stream[i] = stream_new(kernel, i, 1);
		do_register(kernel, i, HELLO);
	}
	tracer_switch(kernel->tracer, "hello", true);
	for (uint32_t i = 0; i < ARRAY_SIZE(stream); i++)
		for (uint32_t n = 0; n < 30; n++)
			write_hello(stream[i], 0, n);
	tracer_drain(kernel->tracer);
	ck_assert_uint_eq(kept(kernel), 30 * ARRAY_SIZE(stream));
	ck_assert(!is_readable(kernel->fd));
	/* And those that have gone are noticed. */
	for (uint32_t i = 0; i < ARRAY_SIZE(stream); i++)
		close(stream[i]);
	tracer_drain(kernel->tracer);
	ck_assert(!is_readable(kernel->fd));
}

TEST(fast_writer_does_not_block_drain)
{
	BENCH(bench);

	write_hello(bench.stream, bench.index, 1);
	ahead = bench.stream;
	tracer_drain(bench.kernel->tracer);
	ck_assert_int_eq(release(bench.kernel, 1, bench.index), 0);
	do_register(bench.kernel, 1, HELLO);
	ck_assert_int_eq(stream_free(bench.kernel, 1), 0);
	ahead = -1;
	ck_assert_uint_le(kept(bench.kernel), 10);
}

static ssize_t send_with_fds(int socket, uint32_t index, size_t n)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(64 * sizeof(int))];
	} control = { 0 };
	struct hello record = { .index = index };
	struct iovec data = { .iov_base = &record, .iov_len = sizeof(record) };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	int *fds = (int *)(void *)CMSG_DATA(&control.header);

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		fds[i] = STDERR_FILENO;
	return sendmsg(socket, &message, 0);
}

/* As kernels before 6.16 are, and this one may be: nothing is refused to the sender. `ours` is the stream's other end. */
static void play_an_older_kernel(int ours)
{
	setsockopt(ours, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 1 }, sizeof(int));
	transport_fds_are_refused = false;
}

TEST(record_with_fds_is_refused_by_new_kernel)
{
	BENCH(bench);

	if (!transport_fds_are_refused)
		return;
	for (size_t n = 1; n <= 64; n *= 2)
		ck_assert_int_eq(send_with_fds(bench.stream, bench.index, n), -1);
	write_hello(bench.stream, bench.index, 1);
	kernel_dispatch(bench.kernel);
	ck_assert_uint_eq(kept(bench.kernel), 1);
	ck_assert_uint_eq(stats_of(bench.kernel, 1).bad, 0);
}

static void expect_the_end_by_fds(size_t n)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	/* Our own end is the lower one of the pair. */
	int ours = lowest_free_fd(), before = count_open_fds();
	OWNED_FD stream = stream_new(kernel, 1, 1);
	uint32_t index = do_register(kernel, 1, HELLO).index;

	tracer_switch(kernel->tracer, "hello", true);
	play_an_older_kernel(ours);
	write_hello(stream, index, 1);
	ck_assert_int_eq(send_with_fds(stream, index, n), sizeof(struct hello));
	write_hello(stream, index, 1);
	kernel_dispatch(kernel);
	ck_assert_uint_eq(kept(kernel), 1);
	ck_assert_uint_eq(stats_of(kernel, 1).bad, 1);
	ck_assert_int_eq(still_open(kernel, 1), KERNEL_E_GONE);
	ck_assert_int_eq(write(stream, "1234", 4), -1);
	stream = fd_close(stream);
	wait_for_open_fds(before);
}

TEST(record_with_fds_ends_stream_on_old_kernel)
{
	for (size_t n = 1; n <= 64; n *= 2)
		expect_the_end_by_fds(n);
}

TEST(lingering_fd_in_record_does_not_block)
{
	static const struct hello record = { .kind = 7 };
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");

	for (uint32_t i = 0; i < 4; i++) {
		int ours = lowest_free_fd(), before = count_open_fds(), stream = stream_new(kernel, i, 1), peer;
		time_t began;

		play_an_older_kernel(ours);
		peer = lingerer_send(stream, &record, sizeof(record));
		began = seconds_now();
		if (i == 0)
			kernel_dispatch(kernel);
		else if (i == 1)
			tracer_drain(kernel->tracer);
		close(stream);
		if (i == 2)
			ck_assert_int_eq(still_open(kernel, i), KERNEL_E_GONE);
		ck_assert_int_eq(stream_free(kernel, i), 0);
		ck_assert(did_not_linger(began));
		ck_assert_uint_eq(stats_of(kernel, 1).bad, i + 1);
		close(peer);
		wait_for_open_fds(before);
	}
}

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
	/* Once more changes nothing, and is counted all the same. */
	ck_assert_uint_eq(tracer_switch(kernel->tracer, "http_*", true), 1);
	ck_assert_uint_eq(changes.n, 2);
	changes.expect_on = false;
	ck_assert_uint_eq(tracer_switch(kernel->tracer, "*", false), 3);
	ck_assert_uint_eq(changes.n, 4);
	ck_assert(!bit_is_on(changes.memory, http1) && !bit_is_on(other, http2));
}

TEST(switched_event_stays_without_holders)
{
	BENCH(bench);
	const uint8_t *page = map_page(bench.page);
	struct tracer_event event;

	do_register(bench.kernel, 1, TEXT);
	ck_assert_int_eq(stream_free(bench.kernel, 1), 0);
	ck_assert_uint_eq(count_events(bench.kernel), 1);
	event = find_event(bench.kernel, "hello");
	ck_assert(event.switched && event.on && event.pages == 0);

	close(bench.stream);
	bench.stream = stream_new(bench.kernel, 1, 1);
	ck_assert(bit_is_on(page, do_register(bench.kernel, 1, HELLO).bit));
	ck_assert_uint_eq(find_event(bench.kernel, "hello").id, event.id);
	ck_assert_int_eq(stream_free(bench.kernel, 1), 0);
	ck_assert_uint_eq(tracer_switch(bench.kernel->tracer, "hello", false), 1);
	ck_assert_uint_eq(count_events(bench.kernel), 0);
	ck_assert_uint_eq(tracer_switch(bench.kernel->tracer, "hello", false), 0);
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
	ck_assert(!find_event(kernel, "http_reply").switched);

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

TEST(a_session_knows_which_names_it_wants)
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

TEST(a_kernel_is_freed_with_all_that_is_still_open)
{
	BENCH(bench);

	do_register(bench.kernel, 1, TEXT);
	ck_assert_int_eq(stream_free(bench.kernel, 1), 0);
	close(bench.stream);
	bench.stream = stream_new(bench.kernel, 2, 1);
	do_register(bench.kernel, 2, TEXT);
	write_hello(bench.stream, 0, 1);
	/* bench_free() and the sanitizers do the rest. */
}

TEST(thirty_thousand_events_are_listed)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	OWNED_FD stream = stream_new(kernel, 1, 1);
	char description[64];

	for (uint32_t i = 0; i < 30000; i++) {
		snprintf(description, sizeof(description), "event_number_%u u32 count", i);
		ck_assert_uint_eq(do_register(kernel, 1, description).index, i);
	}
	ck_assert_uint_eq(count_events(kernel), 30000);
	ck_assert_uint_eq(tracer_switch(kernel->tracer, "event_number_1*", true), 11111);
	for (uint32_t i = 0; i < 30000; i += 2)
		ck_assert_int_eq(release(kernel, 1, i), 0);
	ck_assert_uint_eq(count_events(kernel), 15000 + 11111 / 2);
	tracer_switch(kernel->tracer, "*", false);
	ck_assert_uint_eq(count_events(kernel), 15000);
	ck_assert_int_eq(stream_free(kernel, 1), 0);
	ck_assert_uint_eq(count_events(kernel), 0);
}

/* Each call with 0, 1, 2 … allocations and then none: it fails cleanly until it succeeds as if it were the first time. */
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

TEST(when_memory_is_short_each_call_undoes_what_it_did)
{
	KERNEL(kernel);
	struct kernel_call call;
	int page, stream;

	page = starve(kernel, (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = 1, .text = "/a" }).fd;
	stream = starve(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .page = 1, .stream = 1 }).fd;
	for (uint32_t i = 0; i < 10; i++) {
		char description[32];
		struct tracer_event event;

		snprintf(description, sizeof(description), "event%u u32 n", i);
		call = starve(kernel, (struct kernel_call){ .op = KERNEL_REGISTER, .stream = 1, .text = description });
		ck_assert_uint_eq(call.index, i);
		ck_assert_uint_eq(call.bit, 8 * (i + 1));
		ck_assert_uint_eq(count_events(kernel), i + 1);
		snprintf(description, sizeof(description), "event%u", i);
		event = find_event(kernel, description);
		ck_assert_uint_eq(event.pages, 1);
	}
	ck_assert_int_eq(stream_free(kernel, 1), 0);
	ck_assert_int_eq(page_free(kernel, 1), 0);
	close(stream);
	close(page);
}

TEST(kernel_and_session_without_memory_fail)
{
	static const char *const wanted[] = { "*", "hello" };
	static const struct kernel_limits limits = { 0 };
	struct tracer_session *session = NULL;
	struct kernel *another = NULL;
	BENCH(bench);
	int r = -1;

	tracer_switch(bench.kernel->tracer, "*", false);
	for (long n = 0; r != 0; n++) {
		ck_assert(!find_event(bench.kernel, "hello").on);
		allocations_left = n;
		r = tracer_session_new(bench.kernel->tracer, wanted, 2, &session);
		allocations_left = -1;
		ck_assert(r == 0 || r == -ENOMEM);
		ck_assert_int_lt(n, 10);
	}
	tracer_session_free(session);
	r = -1;
	for (long n = 0; r != 0; n++) {
		ck_assert_ptr_null(another);
		allocations_left = n;
		r = embedded_new(&limits, &another);
		allocations_left = -1;
		ck_assert(r == 0 || r == -ENOMEM);
		ck_assert_int_lt(n, 10);
	}
	kernel_free(another);
}

TEST(records_without_ring_are_counted)
{
	BENCH(bench);
	int r;

	write_hello(bench.stream, bench.index, 1);
	allocations_left = 0;
	r = kernel_dispatch(bench.kernel);
	allocations_left = -1;
	ck_assert_int_eq(r, 0);
	ck_assert_uint_eq(stats_of(bench.kernel, 1).records, 1);
	ck_assert_uint_eq(kept(bench.kernel), 0);
	write_hello(bench.stream, bench.index, 1);
	kernel_dispatch(bench.kernel);
	ck_assert_uint_eq(kept(bench.kernel), 1);
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

TEST(without_fds_nothing_is_made_and_nothing_is_left)
{
	KERNEL(kernel);
	struct kernel_call page = { .op = KERNEL_PAGE_NEW, .page = 1, .text = "/a" };
	struct kernel_call stream = { .op = KERNEL_STREAM_NEW, .stream = 1, .page = 1 };
	int before = count_open_fds();

	ck_assert_int_eq(ask_with_fds(kernel, 0, page).result, -EMFILE);
	ck_assert_int_eq(count_open_fds(), before);
	/* With one, the sealed file itself has to do. */
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

TEST(tenant_name_has_maximum_length)
{
	KERNEL(kernel);
	OWNED_FD page = -1, stream = -1;
	char tenant[WIRE_TENANT_MAX + 2], description[600] = "event";
	char record[4 + WIRE_PAYLOAD_MAX] = { 0 };
	struct ring_reader reader = { 0 };
	struct row_field field;

	memset(tenant, 'x', sizeof(tenant) - 1);
	tenant[sizeof(tenant) - 1] = '\0';
	ck_assert_int_eq(ask(kernel, (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = 1, .text = tenant }).result,
			 -ENAMETOOLONG);
	tenant[WIRE_TENANT_MAX] = '\0';
	page = page_new(kernel, 1, tenant);
	stream = stream_new(kernel, 1, 1);
	for (int i = 0; strlen(description) < 490; i++)
		sprintf(description + strlen(description), "%s u8 field%d", i ? ";" : "", i);
	do_register(kernel, 1, description);
	tracer_switch(kernel->tracer, "*", true);
	ck_assert_int_eq(write(stream, record, sizeof(record)), sizeof(record));
	kernel_dispatch(kernel);
	ck_assert(row_find(read_row(kernel, &reader), "tenant", &field));
	ck_assert_uint_eq(field.length, WIRE_TENANT_MAX);
}

/* Random histories against a model that knows nothing but who registered what where. */
enum { PAGES = 3, STREAMS = 9, NAMES = 12, STEPS = 6000 };

static struct {
	bool open[STREAMS];
	int fd[STREAMS];
	int index[STREAMS][NAMES]; /* -1: not registered */
	int next_index[STREAMS];
	int bit[PAGES][NAMES]; /* as last told */
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
	struct tracer_event event;
	unsigned pages = 0;
	char text[32];

	snprintf(text, sizeof(text), "event%u", name);
	event = find_event(kernel, text);
	for (unsigned page = 0; page < PAGES; page++)
		if (is_held(page, name)) {
			pages++;
			ck_assert(bit_is_on(memory[page], (uint32_t)model.bit[page][name]) == model.switched[name]);
		}
	ck_assert(event.id != 0 ? event.pages == pages && event.on == model.switched[name] : pages == 0);
	ck_assert((event.id != 0) == (pages > 0 || model.switched[name]));
}

/* No bit on that is nobody's. */
static void check_page(const uint8_t *memory, unsigned page)
{
	unsigned on = 0, expected = 0;

	for (unsigned i = 0; i < 16; i++)
		on += (unsigned)__builtin_popcount(memory[i]);
	for (unsigned name = 0; name < NAMES; name++)
		expected += model.switched[name] && is_held(page, name);
	ck_assert_uint_eq(on, expected);
}

TEST(any_history_leaves_what_the_model_says)
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
