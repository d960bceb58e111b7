/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The embedded backend, its calls, and what it keeps. */

#include <poll.h>
#include <sys/mman.h>

#include "kernel/embedded/tracer.h"
#include "kernel/kernel.h"
#include "protocol/row.h"
#include "tests/suite.h"

/* Some fds are there only to be closed. */
#define OWNED_FD _cleanup_(fd_closep) _unused_ int

#define HELLO "hello u32 count; u8 kind"
#define TEXT  "text __rel_loc char[] words"

struct hello {
	uint32_t index;
	uint32_t count;
	uint8_t kind;
} __attribute__((packed));

static inline struct kernel *kernel_new(uint32_t page_bits, uint32_t capacity, size_t ring_bytes)
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

static inline void kernel_freep(struct kernel **kernel)
{
	*kernel = kernel_free(*kernel);
}

#define KERNEL(name) _cleanup_(kernel_freep) struct kernel *name = kernel_new(0, 0, 0)

static inline void on_done(void *data, struct kernel_call *calls _unused_, size_t n)
{
	*(size_t *)data += n;
}

static inline struct kernel_call ask(struct kernel *kernel, struct kernel_call call)
{
	size_t done = 0;

	kernel_submit(kernel, &call, 1, on_done, &done);
	ck_assert_uint_eq(done, 1);
	return call;
}

static inline int page_new(struct kernel *kernel, uint32_t page, const char *tenant)
{
	struct kernel_call call =
		ask(kernel, (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = page, .text = tenant });

	ck_assert_int_eq(call.result, 0);
	ck_assert_int_ge(call.fd, 0);
	return call.fd;
}

static inline int stream_new(struct kernel *kernel, uint32_t stream, uint32_t page)
{
	struct kernel_call call =
		ask(kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .stream = stream, .page = page });

	ck_assert_int_eq(call.result, 0);
	ck_assert_int_ge(call.fd, 0);
	return call.fd;
}

static inline struct kernel_call try_register(struct kernel *kernel, uint32_t stream, const char *description)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_REGISTER, .stream = stream, .text = description });
}

static inline struct kernel_call do_register(struct kernel *kernel, uint32_t stream, const char *description)
{
	struct kernel_call call = try_register(kernel, stream, description);

	ck_assert_int_eq(call.result, 0);
	return call;
}

static inline int release(struct kernel *kernel, uint32_t stream, uint32_t index)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_RELEASE, .stream = stream, .index = index }).result;
}

static inline int still_open(struct kernel *kernel, uint32_t stream)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_STILL_OPEN, .stream = stream }).result;
}

static inline int stream_free(struct kernel *kernel, uint32_t stream)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE, .stream = stream }).result;
}

static inline int page_free(struct kernel *kernel, uint32_t page)
{
	return ask(kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = page }).result;
}

static inline size_t count_events(struct kernel *kernel)
{
	const struct trace_event *event;
	size_t n = 0;

	for (uint64_t id = 0; (event = tracer_next(kernel->tracer, id)); id = event->id)
		n++;
	return n;
}

/* The event of that name; id 0: unknown. */
static inline const struct trace_event *find_event(struct kernel *kernel, const char *name)
{
	static const struct trace_event none;
	const struct trace_event *event;

	for (uint64_t id = 0; (event = tracer_next(kernel->tracer, id)); id = event->id)
		if (streq(event->name, name))
			return event;
	return &none;
}

static inline const uint8_t *map_page(int fd)
{
	void *memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

static inline bool bit_is_on(const uint8_t *page, uint32_t bit)
{
	return page[bit / 8] >> bit % 8 & 1;
}

static inline void write_hello(int fd, uint32_t index, uint32_t count)
{
	struct hello record = { .index = index, .count = count, .kind = 7 };

	ck_assert_int_eq(write(fd, &record, sizeof(record)), sizeof(record));
}

static inline struct kernel_page_stats stats_of(struct kernel *kernel, uint32_t page)
{
	return tracer_page_stats(kernel->tracer, page);
}

static inline uint64_t kept(struct kernel *kernel)
{
	return kernel->tracer->ring.next;
}

static inline struct cursor read_row(struct kernel *kernel, struct ring_reader *reader)
{
	size_t size = 0;
	const void *row = ring_read(&kernel->tracer->ring, reader, &size);

	ck_assert_ptr_nonnull(row);
	return cursor_make(row, size);
}

/* A kernel with one page, one stream, and HELLO on it, switched on. */
struct bench {
	struct kernel *kernel;
	int page;
	int stream;
	uint32_t index;
	uint32_t bit;
};

static inline struct bench bench_new_empty(void)
{
	struct bench bench = { .kernel = kernel_new(0, 0, 0) };

	bench.page = page_new(bench.kernel, 1, "/some.slice");
	bench.stream = stream_new(bench.kernel, 1, 1);
	return bench;
}

static inline struct bench bench_new(void)
{
	struct bench bench = bench_new_empty();
	struct kernel_call call;

	call = do_register(bench.kernel, 1, HELLO);
	bench.index = call.index;
	bench.bit = call.bit;
	ck_assert_uint_eq(tracer_switch(bench.kernel->tracer, "hello", true), 1);
	return bench;
}

static inline void bench_free(struct bench *bench)
{
	bench->page = fd_close(bench->page);
	bench->stream = fd_close(bench->stream);
	bench->kernel = kernel_free(bench->kernel);
}

#define BENCH(name)	  _cleanup_(bench_free) struct bench name = bench_new()
#define EMPTY_BENCH(name) _cleanup_(bench_free) struct bench name = bench_new_empty()

static inline bool is_readable(int fd)
{
	struct pollfd ask_poll = { .fd = fd, .events = POLLIN };

	return poll(&ask_poll, 1, 0) == 1;
}
