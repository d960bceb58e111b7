/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Records of the embedded backend: from the programs' sockets to the ring. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "protocol/transport.h"
#include "tests/linger.h"
#include "tests/unit/kernel/embedded/bench.h"
#include "tests/unit/shortage.h"

/* Before each record that is read here, a new record is written to this stream, until it is shut down. */
static int ahead = -1;

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	static const char record[9];

	if (ahead >= 0 && write(ahead, record, sizeof(record)) < 0 && errno != EPIPE)
		abort();
	return syscall(SYS_recvmsg, socket, message, flags);
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
	ck_assert_uint_eq(find_event(bench.kernel, "hello")->records, 1);
}

TEST(comm_is_read_once_per_dispatch)
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
	/* The next dispatch reads our own name again. */
	kernel_dispatch(bench.kernel);
	prctl(PR_SET_NAME, "before");
	write_hello(bench.stream, bench.index, 1);
	kernel_dispatch(bench.kernel);
	prctl(PR_SET_NAME, "after");
	write_hello(bench.stream, bench.index, 1);
	kernel_dispatch(bench.kernel);
	row = read_row(bench.kernel, &reader);
	row_get_string(row, "comm", comm, sizeof(comm));
	ck_assert_str_eq(comm, "unknown");
	ck_assert_uint_eq(row_get_u64(row, "pid"), (uint64_t)child);
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
	ck_assert_uint_eq(find_event(kernel, "hello")->bad, bad_of_event);
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
	EMPTY_BENCH(bench);
	uint8_t record[4 + 200] = { 0 };

	tracer_switch(bench.kernel->tracer, "*", true);
	for (uint32_t i = 0; i < 150; i++) {
		char description[64];

		snprintf(description, sizeof(description), "event%u char[%u] bytes", i, i + 1);
		ck_assert_uint_eq(do_register(bench.kernel, 1, description).index, i);
	}
	tracer_switch(bench.kernel->tracer, "*", true);
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t index = i % 150;

		memcpy(record, &index, sizeof(index));
		ck_assert_int_eq(write(bench.stream, record, 4 + index + 1), (ssize_t)(4 + index + 1));
		ck_assert_int_eq(write(bench.stream, record, 4 + index), (ssize_t)(4 + index));
		/* A queue holds a few hundred records where net.core.wmem_max is what it is by default. */
		tracer_drain(bench.kernel->tracer);
	}
	ck_assert_uint_eq(stats_of(bench.kernel, 1).records, 300);
	ck_assert_uint_eq(stats_of(bench.kernel, 1).bad, 300);
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
	/* Its events stay until it is freed. */
	ck_assert_uint_eq(find_event(bench.kernel, "hello")->pages, 1);
	ck_assert_int_eq(release(bench.kernel, 1, bench.index), 0);
	ck_assert_int_eq(stream_free(bench.kernel, 1), 0);
}

TEST(records_before_switching_off_are_kept)
{
	BENCH(bench);

	write_hello(bench.stream, bench.index, 1);
	tracer_switch(bench.kernel->tracer, "hello", false);
	ck_assert_uint_eq(kept(bench.kernel), 1);
}

/* Closed, or shut down by a holder. */
TEST(still_open_reads_rest_of_ended_stream)
{
	for (unsigned way = 0; way < 2; way++) {
		BENCH(bench);

		for (uint32_t i = 0; i < 40; i++)
			write_hello(bench.stream, bench.index, i);
		if (way == 0)
			bench.stream = fd_close(bench.stream);
		else
			shutdown(bench.stream, SHUT_WR);
		ck_assert_int_eq(still_open(bench.kernel, 1), KERNEL_E_GONE);
		ck_assert_uint_eq(kept(bench.kernel), 40);
		ck_assert(!is_readable(bench.kernel->fd));
	}
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

/* Before Linux 6.16 the sender of fds is not refused. `ours` is the other end of the stream. */
static void act_as_older_kernel(int ours)
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

static void expect_end_by_fds(size_t n)
{
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");
	/* The daemon's end of the pair. */
	int ours = lowest_free_fd(), before = count_open_fds();
	OWNED_FD stream = stream_new(kernel, 1, 1);
	uint32_t index = do_register(kernel, 1, HELLO).index;

	tracer_switch(kernel->tracer, "hello", true);
	act_as_older_kernel(ours);
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
		expect_end_by_fds(n);
}

TEST(lingering_fd_in_record_does_not_block)
{
	static const struct hello record = { .kind = 7 };
	KERNEL(kernel);
	OWNED_FD page = page_new(kernel, 1, "/a");

	for (uint32_t i = 0; i < 4; i++) {
		int ours = lowest_free_fd(), before = count_open_fds(), stream = stream_new(kernel, i, 1), peer;
		time_t began;

		act_as_older_kernel(ours);
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

TEST(tenant_name_has_maximum_length)
{
	KERNEL(kernel);
	OWNED_FD page = -1, stream = -1;
	char tenant[WIRE_TENANT_MAX + 1], description[600] = "event";
	char record[4 + WIRE_PAYLOAD_MAX] = { 0 };
	struct ring_reader reader = { 0 };
	struct row_field field;

	memset(tenant, 'x', sizeof(tenant) - 1);
	tenant[sizeof(tenant) - 1] = '\0';
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
