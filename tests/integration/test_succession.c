/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Pages, streams, bits and records outlive a daemon in its keeper, and are given to a new keeper. The test is the daemon. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/integration/fixture.h"
#include "tests/integration/keeper.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"

/* All of them share the directory: pages that another keeper uses stay as they are. */
static const char *const options[] = { "--guard=off", "--hold=1", "--pages=/dev/shm/userevd-test-pages", NULL };

#define SOCKET_PATH "/tmp/userevd-test-succession"

static const char event[] = "keeper_heir u32 number", other_event[] = "keeper_second u32 number";

static struct tracer tracer;

static void trace_event(const char *name, bool on)
{
	ck_assert(tracer_switch(&tracer, name, on));
}

/* All records of that event up to now, and the sum of their numbers. */
static void expect_records(const char *name, unsigned n, uint64_t sum)
{
	struct seen seen;

	tracer_see(&tracer, name, &seen);
	ck_assert_uint_eq(seen.records, n);
	ck_assert_uint_eq(seen.sum, sum);
}

/* --- a client --- */

struct held {
	int page;
	int writable; /* the daemon's */
	const uint8_t *bytes;
	int stream;
	uint64_t lock;
	uint32_t bit;
	uint32_t index;
};

static bool is_abandoned(const struct held *held)
{
	return __atomic_load_n(held->bytes, __ATOMIC_ACQUIRE) & 1;
}

static bool is_on(const struct held *held)
{
	return __atomic_load_n(&held->bytes[held->bit / 8], __ATOMIC_ACQUIRE) >> held->bit % 8 & 1;
}

static void map(struct held *held)
{
	held->bytes = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, held->page, 0);
	ck_assert_ptr_ne(held->bytes, MAP_FAILED);
}

static void write_record(const struct held *held, uint32_t number)
{
	struct iovec parts[] = { { (void *)(uintptr_t)&held->index, sizeof(held->index) },
				 { &number, sizeof(number) } };

	ck_assert_msg(writev(held->stream, parts, 2) == 8, "%s", strerror(errno));
}

/* A page, a stream and an event. */
static void acquire(struct keeper *keeper, struct held *ret)
{
	struct kernel_call calls[] = { page_new(1), stream_new(1, 1), register_on(1, event) };

	ck_assert(keeper_ask(keeper, calls, ARRAY_SIZE(calls)));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		ck_assert_int_eq(calls[i].result, KERNEL_OK);
	*ret = (struct held){
		.page = calls[0].fd,
		.writable = -1,
		.stream = calls[1].fd,
		.lock = calls[1].number,
		.bit = calls[2].bit,
		.index = calls[2].index,
	};
	ck_assert_uint_ne(ret->lock, 0);
	map(ret);
}

static void release(struct held *held)
{
	if (held->bytes)
		munmap((void *)(uintptr_t)held->bytes, WIRE_PAGE_BYTES);
	held->bytes = NULL;
	held->page = fd_close(held->page);
	held->writable = fd_close(held->writable);
	held->stream = fd_close(held->stream);
}

static int fetch(struct keeper *keeper, enum kernel_op op, uint32_t number, uint32_t index)
{
	struct kernel_call call = { .op = op, .page = number, .stream = number, .index = index, .fd = -1 };

	ck_assert(keeper_ask(keeper, &call, 1));
	ck_assert_int_eq(call.result, KERNEL_OK);
	return call.fd;
}

static int ask_about(struct keeper *keeper, enum kernel_op op, uint32_t number)
{
	return keeper_do(keeper, (struct kernel_call){ .op = op, .page = number, .stream = number, .fd = -1 });
}

static bool is_same_file(int one, int other)
{
	struct stat first, second;

	return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

static void run(void (*test)(struct keeper *, struct held *))
{
	struct keeper keeper;
	struct held held;
	char *before = read_events();

	keeper_listen(&keeper, SOCKET_PATH, options);
	if (!keeper_connect(&keeper)) {
		not_possible(keeper.sentence);
		keeper_stop(&keeper);
		free(before);
		return;
	}
	ck_assert(keeper.facts.deposits);
	acquire(&keeper, &held);
	test(&keeper, &held);
	release(&held);
	/* Compare with the events before the first keeper. */
	free(keeper.events_before);
	keeper.events_before = before;
	tracer_stop(&tracer);
	ck_assert_int_eq(keeper_stop(&keeper), EXIT_SUCCESS);
	ck_assert(eventually(!kernel_has("keeper_heir")));
}

/* A test of a keeper of which a client holds a page, a stream and an event. */
#define SUCCESSION_TEST(name)                                                                                          \
	static void name##_with(struct keeper *, struct held *);                                                       \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		run(name##_with);                                                                                      \
	}                                                                                                              \
	static void name##_with(struct keeper *keeper, struct held *held)

/* --- the daemon goes --- */

SUCCESSION_TEST(next_daemon_goes_on_with_pages_streams_and_bits)
{
	struct kernel_call call = register_on(1, other_event);
	pid_t pid;
	int fd;

	trace_event("keeper_heir", true);
	ck_assert(eventually(is_on(held)));
	pid = keeper->pid;
	keeper->socket = fd_close(keeper->socket);
	write_record(held, 1);
	expect_records("keeper_heir", 1, 1);

	ck_assert(keeper_connect(keeper));
	ck_assert_int_eq(keeper->pid, pid);
	fd = fetch(keeper, KERNEL_PAGE_FETCH, 1, 0);
	ck_assert(is_same_file(fd, held->page));
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	close(held->stream);
	held->stream = fetch(keeper, KERNEL_STREAM_FETCH, 1, 0);
	ck_assert_int_eq(ask_about(keeper, KERNEL_DISOWN, 0), KERNEL_OK);
	write_record(held, 2);
	ck_assert(keeper_ask(keeper, &call, 1));
	ck_assert_int_eq(call.result, KERNEL_OK);
	ck_assert_uint_eq(call.index, 1);
	expect_records("keeper_heir", 2, 3);
	/* Bits go on changing between daemons. */
	keeper->socket = fd_close(keeper->socket);
	trace_event("keeper_heir", false);
	ck_assert(eventually(!is_on(held)));
	trace_event("keeper_heir", true);
	ck_assert(eventually(is_on(held)));
	trace_event("keeper_heir", false);
	ck_assert(keeper_connect(keeper));
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_OK);
	release(held);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_E_GONE);
}

/* Its number is free at once, its event when it has gone. */
SUCCESSION_TEST(disowned_event_ends_with_last_holder)
{
	struct kernel_call again[] = { page_new(1), stream_new(1, 1), register_on(1, other_event) };
	struct kernel_call taken = register_on(1, "keeper_heir u64 number");

	ck_assert(keeper_connect(keeper));
	ck_assert_int_eq(keeper_do(keeper, page_new(1)), -EEXIST);
	ck_assert_int_eq(ask_about(keeper, KERNEL_DISOWN, 0), KERNEL_OK);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_E_NO_SUCH);
	ck_assert(keeper_ask(keeper, again, ARRAY_SIZE(again)));
	for (size_t i = 0; i < ARRAY_SIZE(again); i++)
		ck_assert_int_eq(again[i].result, KERNEL_OK);
	ck_assert_uint_ne(again[1].number, held->lock);
	ck_assert(keeper_ask(keeper, &taken, 1));
	ck_assert_int_eq(taken.result, KERNEL_E_NAME_TAKEN);
	/* Its bit is right while a program has the stream. */
	trace_event("keeper_heir", true);
	ck_assert(eventually(is_on(held)));
	write_record(held, 3);
	trace_event("keeper_heir", false);
	expect_records("keeper_heir", 1, 3);
	ck_assert(kernel_has("keeper_heir"));
	release(held);
	ck_assert(eventually(!kernel_has("keeper_heir")));
	ck_assert(kernel_has("keeper_second"));
	close(again[0].fd);
	close(again[1].fd);
}

SUCCESSION_TEST(stream_that_was_asked_about_is_not_disowned)
{
	ck_assert(keeper_connect(keeper));
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_OK);
	ck_assert_int_eq(ask_about(keeper, KERNEL_DISOWN, 0), KERNEL_OK);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STREAM_FETCH, 1), KERNEL_E_GONE);
	release(held);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_E_GONE);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STREAM_FREE, 1), KERNEL_OK);
	ck_assert_int_eq(ask_about(keeper, KERNEL_PAGE_FREE, 1), KERNEL_OK);
	ck_assert(eventually(!kernel_has("keeper_heir")));
}

SUCCESSION_TEST(keeper_without_a_daemon_ends_and_leaves_nothing)
{
	release(held);
	keeper->socket = fd_close(keeper->socket);
	ck_assert(eventually(!kernel_has("keeper_heir")));
}

static void stop_using(struct held *held)
{
	trace_event("keeper_heir", false);
	held->stream = fd_close(held->stream);
}

SUCCESSION_TEST(keeper_terminated_without_a_daemon_leaves_nothing)
{
	trace_event("keeper_heir", true);
	ck_assert(eventually(is_on(held)));
	keeper->socket = fd_close(keeper->socket);
	usleep(300000);
	/* Before Linux 6.4 an event that is in use when its keeper ends is never deleted. */
	if (keeper->facts.shared_page)
		stop_using(held);
	ck_assert_int_eq(kill(keeper->pid, SIGTERM), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)keeper->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	ck_assert(eventually(keeper->facts.shared_page ? !is_on(held) : is_abandoned(held)));
	if (!keeper->facts.shared_page)
		stop_using(held);
}

/* --- the keeper goes --- */

enum { EVENTS = 1000 };

static struct kernel_call page_adopt(uint32_t page, uint32_t index, int fd)
{
	return (struct kernel_call){ .op = KERNEL_PAGE_ADOPT, .page = page, .index = index, .fd = fd };
}

static struct kernel_call stream_adopt(uint32_t stream, uint64_t lock, int fd)
{
	return (struct kernel_call){ .op = KERNEL_STREAM_ADOPT, .stream = stream, .page = 1, .number = lock, .fd = fd };
}

static void expect_all_ok(const struct kernel_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(calls[i].result == KERNEL_OK, "%zu: %d", i, calls[i].result);
}

static struct kernel_call adopt(uint32_t stream, const char *text, uint32_t bit, uint32_t index)
{
	return (struct kernel_call){
		.op = KERNEL_ADOPT, .stream = stream, .text = text, .bit = bit, .index = index, .fd = -1
	};
}

static void start_next(struct keeper *keeper)
{
	keeper_kill(keeper);
	keeper_listen(keeper, SOCKET_PATH, options);
	ck_assert_msg(keeper_connect(keeper), "%s", keeper->sentence);
}

static void hand_over(struct keeper *keeper, const struct held *held)
{
	struct kernel_call calls[] = { page_adopt(1, 1, held->writable), page_adopt(1, 0, held->page),
				       stream_adopt(1, held->lock, held->stream) };

	ck_assert(keeper_ask(keeper, calls, ARRAY_SIZE(calls)));
	expect_all_ok(calls, ARRAY_SIZE(calls));
}

SUCCESSION_TEST(next_keeper_corrects_bits_and_goes_on)
{
	struct kernel_call calls[] = {
		register_on(1, other_event),	      adopt(1, event, 0, 0), adopt(1, other_event, 0, 0),
		register_on(1, "keeper_third u32 a"), stream_new(2, 1),	     register_on(2, event)
	};
	struct held second;

	held->writable = fetch(keeper, KERNEL_PAGE_FETCH, 1, 1);
	ck_assert(keeper_ask(keeper, calls, 1));
	second = *held;
	second.bit = calls[0].bit;
	second.index = calls[0].index;
	trace_event("keeper_heir", true);
	ck_assert(eventually(is_on(held)));
	keeper_kill(keeper);
	/* Records are kept; bits do not change for now. */
	write_record(held, 1);
	expect_records("keeper_heir", 1, 1);
	trace_event("keeper_heir", false);
	trace_event("keeper_second", true);

	keeper_listen(keeper, SOCKET_PATH, options);
	ck_assert_msg(keeper_connect(keeper), "%s", keeper->sentence);
	hand_over(keeper, held);
	calls[1].bit = held->bit;
	calls[1].index = held->index;
	calls[2].bit = second.bit;
	calls[2].index = second.index;
	ck_assert(keeper_ask(keeper, calls + 1, ARRAY_SIZE(calls) - 1));
	expect_all_ok(calls + 1, ARRAY_SIZE(calls) - 1);
	ck_assert(!is_on(held));
	ck_assert(!is_abandoned(held));
	ck_assert(is_on(&second));
	write_record(&second, 2);
	ck_assert_uint_eq(calls[3].index, 2);
	ck_assert_uint_eq(calls[5].bit, held->bit);
	trace_event("keeper_heir", true);
	ck_assert(eventually(is_on(held)));
	expect_records("keeper_second", 1, 2);
	ck_assert_int_eq(ask_about(keeper, KERNEL_CLEAN, 1), KERNEL_OK);
	close(calls[4].fd);
	/* Its lock has the byte that the last keeper chose. */
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_OK);
	trace_event("keeper_heir", false);
	trace_event("keeper_second", false);
	release(held);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_E_GONE);
}

static void expect(struct keeper *keeper, struct kernel_call call, int result)
{
	ck_assert_int_eq(keeper_do(keeper, call), result);
}

SUCCESSION_TEST(invalid_adoptions_are_refused)
{
	const struct flock unlock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	const bool is_shared = keeper->facts.shared_page;
	int file;

	held->writable = fetch(keeper, KERNEL_PAGE_FETCH, 1, 1);
	start_next(keeper);
	file = memfd_create("page", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(file, WIRE_PAGE_BYTES - 1), 0);
	expect(keeper, page_adopt(1, 0, held->page), KERNEL_E_NO_SUCH);
	expect(keeper, page_adopt(1, 2, held->page), -EINVAL);
	expect(keeper, stream_adopt(1, held->lock, held->stream), KERNEL_E_NO_SUCH);
	expect(keeper, adopt(1, event, 1, 0), KERNEL_E_NO_SUCH);
	if (!is_shared) {
		expect(keeper, page_adopt(1, 1, file), -EINVAL);
		expect(keeper, page_adopt(1, 1, held->page), -EINVAL);
	}
	for (unsigned i = 0; i < 2; i++)
		expect(keeper, page_adopt(1, 1, held->writable), KERNEL_OK);
	if (!is_shared) {
		expect(keeper, page_adopt(1, 1, file), -EEXIST);
		expect(keeper, page_adopt(1, 1, held->page), -EEXIST);
		expect(keeper, page_adopt(1, 0, held->writable), -EINVAL);
		expect(keeper, page_adopt(1, 0, file), -EINVAL);
	}
	expect(keeper, page_adopt(1, 0, held->page), KERNEL_OK);

	expect(keeper, stream_adopt(1, held->lock, file), -EINVAL);
	expect(keeper, stream_adopt(1, UINT64_MAX, held->stream), -EINVAL);
	/* A holder of an unguarded stream may remove its lock, which is then set again. */
	ck_assert_int_eq(fcntl(held->stream, F_OFD_SETLK, &unlock), 0);
	for (unsigned i = 0; i < 2; i++)
		expect(keeper, stream_adopt(1, held->lock, held->stream), KERNEL_OK);
	expect(keeper, stream_adopt(1, held->lock, file), -EINVAL);
	expect(keeper, stream_adopt(1, held->lock + 1, -1), -EEXIST);
	expect(keeper, stream_adopt(2, held->lock + 1, -1), KERNEL_OK);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 2), KERNEL_E_GONE);

	expect(keeper, adopt(1, event, 0, 0), -EINVAL);
	expect(keeper, adopt(1, event, WIRE_PAGE_BITS, 0), -EINVAL);
	expect(keeper, adopt(1, "keeper_heir u32  a", held->bit, 0), KERNEL_E_BAD_DESCRIPTION);
	expect(keeper, adopt(1, "keeper_heir u64 number", held->bit, 0),
	       is_shared ? KERNEL_E_NO_SUCH : KERNEL_E_NAME_TAKEN);
	if (is_shared)
		expect(keeper, adopt(1, event, held->bit + 1, 0), KERNEL_E_NO_SUCH);
	for (unsigned i = 0; i < 2; i++)
		expect(keeper, adopt(1, event, held->bit, held->index), KERNEL_OK);
	expect(keeper, adopt(1, event, held->bit, held->index + 1), -EEXIST);
	expect(keeper, adopt(1, event, held->bit + 1, held->index), -EEXIST);
	if (!is_shared)
		expect(keeper, adopt(1, other_event, held->bit, 1), -EEXIST);
	close(file);
}

/* Only the connection has ended. */
SUCCESSION_TEST(reconnected_daemon_adopts_same_files)
{
	held->writable = fetch(keeper, KERNEL_PAGE_FETCH, 1, 1);
	ck_assert(keeper_connect(keeper));
	hand_over(keeper, held);
	ck_assert_int_eq(keeper_do(keeper, adopt(1, event, held->bit, held->index)), KERNEL_OK);
	/* This daemon has adopted everything: nothing is disowned. */
	ck_assert_int_eq(ask_about(keeper, KERNEL_DISOWN, 0), KERNEL_OK);
	ck_assert_int_eq(ask_about(keeper, KERNEL_CLEAN, 1), KERNEL_OK);
	trace_event("keeper_heir", true);
	ck_assert(eventually(is_on(held)));
	trace_event("keeper_heir", false);
	release(held);
	ck_assert_int_eq(ask_about(keeper, KERNEL_STILL_OPEN, 1), KERNEL_E_GONE);
}

/* Registers many events, or adopts them with the answers of before. */
static void do_many(struct keeper *keeper, enum kernel_op op, struct kernel_call *answered)
{
	static char names[EVENTS][32];

	for (unsigned i = 0; i < EVENTS; i++) {
		snprintf(names[i], sizeof(names[i]), "keeper_%u u32 a", i);
		answered[i].op = op;
		answered[i].stream = 1;
		answered[i].text = names[i];
		answered[i].fd = -1;
	}
	for (unsigned i = 0; i < EVENTS; i += MESSAGE_CALLS_MAX)
		keeper_say(keeper, answered + i, MESSAGE_CALLS_MAX);
	for (unsigned i = 0; i < EVENTS; i += MESSAGE_CALLS_MAX)
		ck_assert(keeper_hear(keeper, answered + i, MESSAGE_CALLS_MAX));
	expect_all_ok(answered, EVENTS);
}

SUCCESSION_TEST(thousand_events_are_adopted_at_once)
{
	static struct kernel_call answered[EVENTS];
	uint64_t start, registered;

	held->writable = fetch(keeper, KERNEL_PAGE_FETCH, 1, 1);
	start = clock_us();
	do_many(keeper, KERNEL_REGISTER, answered);
	registered = clock_us() - start;
	start_next(keeper);
	hand_over(keeper, held);
	ck_assert_int_eq(keeper_do(keeper, adopt(1, event, held->bit, held->index)), KERNEL_OK);
	start = clock_us();
	do_many(keeper, KERNEL_ADOPT, answered);
	printf("%d events registered in %u ms, adopted in %u ms\n", EVENTS, (unsigned)(registered / 1000),
	       (unsigned)((clock_us() - start) / 1000));
	ck_assert_int_eq(ask_about(keeper, KERNEL_CLEAN, 1), KERNEL_OK);
	held->bit = answered[EVENTS - 1].bit;
	trace_event("keeper_999", true);
	ck_assert(eventually(is_on(held)));
	trace_event("keeper_999", false);
}
