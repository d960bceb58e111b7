/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The keeper as the daemon sees it, against one at the other end of its socket that says what the test wants it to say. */

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "kernel/rpc/message.h"
#include "protocol/transport.h"
#include "tests/suite.h"
#include "tests/unit/shortage.h"

enum { BATCH_MAX = 260, WINDOW = 16, ORDER_MAX = 32 };

/* --- the clock: nobody here waits for half a minute --- */

static struct {
	int interruptions; /* by signals, before anything else */
	bool runs_out;
	int timeout; /* that was asked for last */
} patience;

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct timespec time = { .tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L };

	patience.timeout = timeout;
	if (patience.interruptions > 0) {
		patience.interruptions--;
		errno = EINTR;
		return -1;
	}
	if (patience.runs_out)
		return 0;
	return (int)syscall(SYS_ppoll, fds, n, timeout < 0 ? NULL : &time, NULL, 0);
}

/* --- how many fds are on their way, of all programs of this user together --- */

static bool too_many_in_flight, no_memory;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (too_many_in_flight && message->msg_controllen > 0) {
		errno = ETOOMANYREFS;
		return -1;
	}
	if (no_memory) {
		errno = ENOMEM;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

/* --- both ends --- */

struct line {
	int daemon; /* until it is the kernel's */
	int keeper;
	struct kernel *kernel;
};

static uint8_t buffer[MESSAGE_MAX];

static struct packet packet_new(void)
{
	return packet_make(buffer, sizeof(buffer));
}

static void keeper_says(const struct line *line, const struct packet *packet, const int *fds, size_t n)
{
	ck_assert(!packet->failed);
	ck_assert_int_eq(transport_send(line->keeper, packet->data, packet->size, fds, n, MSG_DONTWAIT), 0);
}

static void keeper_is_ready(const struct line *line)
{
	const struct kernel_facts facts = {
		.backend = BACKEND_ENABLE_ADDRESS,
		.guarded = true,
		.flags = KERNEL_MULTI_FORMAT,
		.page_bits = 4096,
		.capacity = 1000,
		.payload_max = 4064,
		.note = "all is well",
	};
	struct packet packet = packet_new();

	message_put_ready(&packet, &facts);
	keeper_says(line, &packet, NULL, 0);
}

static struct line line_new(void)
{
	struct line line = { 0 };
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	line.daemon = pair[0];
	line.keeper = pair[1];
	return line;
}

static struct line line_ready(void)
{
	struct line line = line_new();
	char why[WIRE_SENTENCE_MAX + 1];

	keeper_is_ready(&line);
	ck_assert_int_eq(remote_new(line.daemon, &line.kernel, why), 0);
	line.daemon = -1;
	return line;
}

static void line_deinit(struct line *line)
{
	line->kernel = kernel_free(line->kernel);
	line->daemon = fd_close(line->daemon);
	line->keeper = fd_close(line->keeper);
}

#define LINE(name)	 _cleanup_(line_deinit) struct line name = line_new()
#define READY_LINE(name) _cleanup_(line_deinit) struct line name = line_ready()

/* What the keeper has heard last. */
static struct {
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char text[MESSAGE_CALLS_MAX][WIRE_TENANT_MAX + 1];
	size_t n;
	ino_t inode[MESSAGE_FDS_MAX]; /* of what it was brought */
	size_t n_fds;
} heard;

static ino_t inode(int fd)
{
	struct stat status;

	ck_assert_int_eq(fstat(fd, &status), 0);
	return status.st_ino;
}

static void add_inode(const struct fdset *fds)
{
	ck_assert_uint_lt(heard.n_fds, fds->count);
	heard.inode[heard.n_fds] = inode(fds->fd[heard.n_fds]);
	heard.n_fds++;
}

static bool keeper_hears(const struct line *line)
{
	static uint8_t packet[MESSAGE_MAX];
	struct fdset fds = { 0 };
	ssize_t size = transport_receive_fds(line->keeper, packet, sizeof(packet), &fds, MSG_DONTWAIT);
	struct message_header header;
	struct cursor body;

	if (size == -EAGAIN)
		return false;
	ck_assert(message_read(packet, (size_t)size, &header, &body));
	ck_assert_uint_eq(header.kind, MESSAGE_CALLS);
	for (heard.n = 0, heard.n_fds = 0; heard.n < header.count; heard.n++) {
		bool has_fd;

		ck_assert(message_next_call(&body, &heard.calls[heard.n], heard.text[heard.n], &has_fd));
		if (has_fd)
			add_inode(&fds);
	}
	ck_assert(cursor_done(&body));
	ck_assert_uint_eq(fds.count, heard.n_fds);
	fdset_deinit(&fds);
	return true;
}

static void expect_heard(const struct line *line, size_t n)
{
	ck_assert(keeper_hears(line));
	ck_assert_uint_eq(heard.n, n);
}

/* Whatever can be told apart again. */
static int new_fd(void)
{
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	return ends[1];
}

/* What was heard goes well: an fd where one belongs, and else a bit and an index that follow from what was asked. */
static void answer_well(struct kernel_call *call)
{
	call->result = KERNEL_OK;
	call->bit = call->index + 1;
	call->index = call->index + 2;
	if (message_op_gives_fd(call->op))
		call->fd = new_fd();
}

/* Their copies leave, ours are closed. */
static void send_answers(const struct line *line, struct kernel_call *calls, size_t n)
{
	struct packet packet = packet_new();
	int fds[MESSAGE_FDS_MAX];
	size_t n_fds = 0;

	message_put_answers(&packet, calls, n);
	for (size_t i = 0; i < n; i++)
		if (calls[i].fd >= 0)
			fds[n_fds++] = calls[i].fd;
	keeper_says(line, &packet, fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
}

static void keeper_answers(const struct line *line)
{
	for (size_t i = 0; i < heard.n; i++)
		answer_well(&heard.calls[i]);
	send_answers(line, heard.calls, heard.n);
}

static void expect_dispatched(const struct line *line)
{
	ck_assert_int_eq(kernel_dispatch(line->kernel), 0);
}

/* --- what is asked --- */

struct batch {
	struct kernel_call calls[BATCH_MAX];
	size_t n;
	unsigned done;
	struct batch *next; /* is submitted when this one is done */
	struct line *line;
};

/* In which order they were done. */
static struct {
	const struct batch *batch[ORDER_MAX];
	size_t n;
} order;

static void submit(struct line *line, struct batch *batch);

static void on_done(void *data, struct kernel_call *calls, size_t n)
{
	struct batch *batch = data;

	ck_assert_ptr_eq(calls, batch->calls);
	ck_assert_uint_eq(n, batch->n);
	ck_assert_uint_eq(batch->done, 0);
	batch->done++;
	if (order.n < ORDER_MAX)
		order.batch[order.n++] = batch;
	if (batch->next)
		submit(batch->line, batch->next);
}

static void submit(struct line *line, struct batch *batch)
{
	kernel_submit(line->kernel, batch->calls, batch->n, on_done, batch);
}

static struct batch *batch_new(struct line *line, enum kernel_op op, size_t n)
{
	struct batch *batch = calloc(1, sizeof(*batch));

	batch->n = n;
	batch->line = line;
	for (size_t i = 0; i < n; i++)
		batch->calls[i] = (struct kernel_call){
			.op = op,
			.page = 1,
			.stream = 2,
			.flags = 3,
			.text = op == KERNEL_REGISTER ? "event u32 x" : NULL,
			.index = (uint32_t)i,
			.result = 4711,
			.fd = 12345, /* of no meaning before it is answered */
		};
	return batch;
}

static void batch_free(struct batch **batch)
{
	if (*batch)
		for (size_t i = 0; i < (*batch)->n; i++)
			fd_close((*batch)->calls[i].fd);
	free(*batch);
}

#define BATCH(name, line, op, n) _cleanup_(batch_free) struct batch *name = batch_new(&(line), op, n)

static void expect_results(const struct batch *batch, size_t from, size_t to, int result)
{
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = from; i < to; i++) {
		ck_assert_int_eq(batch->calls[i].result, result);
		if (result == KERNEL_OK) {
			ck_assert_uint_eq(batch->calls[i].bit, i + 1);
			ck_assert_uint_eq(batch->calls[i].index, i + 2);
		}
		if (result != KERNEL_OK || !message_op_gives_fd(batch->calls[i].op))
			ck_assert_int_eq(batch->calls[i].fd, -1);
	}
}

static void expect_granted(const struct batch *batch)
{
	expect_results(batch, 0, batch->n, KERNEL_OK);
}

static void expect_cancelled(const struct batch *batch)
{
	expect_results(batch, 0, batch->n, -ECANCELED);
}

/* --- its first words --- */

TEST(a_keeper_that_is_ready_is_taken_over)
{
	LINE(line);
	char why[WIRE_SENTENCE_MAX + 1] = "untouched";
	int fd = line.daemon;

	keeper_is_ready(&line);
	ck_assert_int_eq(remote_new(line.daemon, &line.kernel, why), 0);
	line.daemon = -1;
	ck_assert_int_eq(line.kernel->fd, fd);
	ck_assert_str_eq(line.kernel->facts.name, "enable-address");
	ck_assert_uint_eq(line.kernel->facts.backend, BACKEND_ENABLE_ADDRESS);
	ck_assert(line.kernel->facts.guarded);
	ck_assert(!line.kernel->facts.shared_page);
	ck_assert_uint_eq(line.kernel->facts.flags, KERNEL_MULTI_FORMAT);
	ck_assert_uint_eq(line.kernel->facts.page_bits, 4096);
	ck_assert_uint_eq(line.kernel->facts.capacity, 1000);
	ck_assert_uint_eq(line.kernel->facts.payload_max, 4064);
	ck_assert_str_eq(line.kernel->facts.note, "all is well");
	ck_assert_ptr_null(line.kernel->tracer);
	ck_assert_str_eq(why, "untouched");
	expect_dispatched(&line);
}

/* The socket stays the caller's. */
static void expect_no_kernel(const struct line *line, int result, const char *sentence)
{
	struct kernel *kernel = NULL;
	char why[WIRE_SENTENCE_MAX + 1] = "untouched";

	ck_assert_int_eq(remote_new(line->daemon, &kernel, why), result);
	ck_assert_ptr_null(kernel);
	ck_assert_str_eq(why, sentence);
	ck_assert_int_ge(fcntl(line->daemon, F_GETFD), 0);
}

TEST(a_keeper_that_cannot_says_why)
{
	LINE(line);
	struct packet packet = packet_new();

	message_put_failed(&packet, "mount tracefs first");
	keeper_says(&line, &packet, NULL, 0);
	expect_no_kernel(&line, -ECONNREFUSED, "mount tracefs first");
}

TEST(a_keeper_that_hangs_up_is_none)
{
	LINE(line);

	line.keeper = fd_close(line.keeper);
	expect_no_kernel(&line, -ECONNRESET, "untouched");
}

TEST(silent_keeper_times_out)
{
	LINE(line);

	patience.runs_out = true;
	patience.interruptions = 3;
	expect_no_kernel(&line, -ETIMEDOUT, "untouched");
	ck_assert_int_eq(patience.interruptions, 0);
	ck_assert_int_ge(patience.timeout, 10000);
	ck_assert_int_le(patience.timeout, 60000);
}

static void put_garbage(struct packet *packet)
{
	packet_put(packet, "garbage of some length", 22);
}

static void put_header(struct packet *packet)
{
	const struct message_header header = { .size = sizeof(header), .kind = MESSAGE_READY, .count = 1 };

	packet_put(packet, &header, sizeof(header));
}

static void put_calls(struct packet *packet)
{
	message_put_calls(packet, &(struct kernel_call){ .op = KERNEL_CLEAN }, 1);
}

static void put_answer(struct packet *packet)
{
	message_put_answers(packet, &(struct kernel_call){ .fd = -1 }, 1);
}

static void put_empty_facts(struct packet *packet)
{
	message_put_ready(packet, &(struct kernel_facts){ 0 });
}

static void put_embedded(struct packet *packet)
{
	message_put_ready(packet, &(struct kernel_facts){ .backend = BACKEND_EMBEDDED, .page_bits = 4096 });
}

/* What would be good facts. */
static void put_ready_as_calls(struct packet *packet)
{
	const struct message_header header = { .size = 32, .kind = MESSAGE_CALLS, .count = 1 };

	message_put_ready(packet, &(struct kernel_facts){ .backend = BACKEND_STATUS_PAGE, .page_bits = 4096 });
	memcpy(packet->data, &header, sizeof(header));
}

static void put_broken_sentence(struct packet *packet)
{
	const struct message_header header = { .size = sizeof(header) + 4, .kind = MESSAGE_FAILED, .count = 1 };

	packet_put(packet, &header, sizeof(header));
	packet_put(packet, "\4\0\0\0", 4);
}

TEST(a_keeper_that_talks_nonsense_is_none)
{
	static void (*const nonsense[])(struct packet *) = {
		put_garbage,  put_header,      put_calls,	   put_answer,
		put_embedded, put_empty_facts, put_ready_as_calls, put_broken_sentence,
	};

	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		LINE(line);
		struct packet packet = packet_new();

		nonsense[i](&packet);
		keeper_says(&line, &packet, NULL, 0);
		expect_no_kernel(&line, -EPROTO, "untouched");
	}
}

/* Nobody is asked for any, and they are nobody's. */
TEST(fds_that_come_with_the_first_words_are_not_kept)
{
	static void (*const said[])(struct packet *) = { put_garbage, put_embedded };
	const int fds[] = { 0, 0, 0, 0, 0, 0, 0, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		LINE(line);
		struct packet packet = packet_new();

		said[i](&packet);
		keeper_says(&line, &packet, fds, ARRAY_SIZE(fds));
		expect_no_kernel(&line, -EPROTO, "untouched");
	}
}

/* --- batches --- */

TEST(a_batch_goes_out_as_it_is_and_comes_back_answered)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 3);

	batch->calls[1].text = "another u64 y";
	batch->calls[2].op = KERNEL_RELEASE;
	batch->calls[2].text = NULL;
	submit(&line, batch);
	expect_heard(&line, 3);
	ck_assert(!keeper_hears(&line));
	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(heard.calls[i].op, i < 2 ? KERNEL_REGISTER : KERNEL_RELEASE);
		ck_assert_uint_eq(heard.calls[i].page, 1);
		ck_assert_uint_eq(heard.calls[i].stream, 2);
		ck_assert_uint_eq(heard.calls[i].flags, 3);
		ck_assert_uint_eq(heard.calls[i].index, i);
	}
	ck_assert_str_eq(heard.text[0], "event u32 x");
	ck_assert_str_eq(heard.text[1], "another u64 y");
	ck_assert_str_eq(heard.text[2], "");
	expect_dispatched(&line);
	ck_assert_uint_eq(batch->done, 0);
	keeper_answers(&line);
	ck_assert_uint_eq(batch->done, 0);
	expect_dispatched(&line);
	expect_granted(batch);
	ck_assert_str_eq(batch->calls[1].text, "another u64 y");
}

TEST(an_answer_is_that_of_its_own_call)
{
	static const int results[] = { KERNEL_E_NAME_TAKEN, KERNEL_OK, -EIO, KERNEL_E_PAGE_FULL, 4711 };
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, ARRAY_SIZE(results));

	submit(&line, batch);
	expect_heard(&line, ARRAY_SIZE(results));
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		heard.calls[i].result = results[i];
	send_answers(&line, heard.calls, heard.n);
	expect_dispatched(&line);
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		ck_assert_int_eq(batch->calls[i].result, results[i]);
}

TEST(batches_are_under_way_together_and_done_in_order)
{
	READY_LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_RELEASE, 2);
	BATCH(third, line, KERNEL_CLEAN, 3);

	submit(&line, first);
	submit(&line, second);
	submit(&line, third);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_heard(&line, 2);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(first);
	expect_granted(second);
	ck_assert_uint_eq(third->done, 0);
	expect_heard(&line, 3);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(third);
	ck_assert_uint_eq(order.n, 3);
	ck_assert_ptr_eq(order.batch[0], first);
	ck_assert_ptr_eq(order.batch[1], second);
	ck_assert_ptr_eq(order.batch[2], third);
}

/* Whatever was heard, the oldest packet is answered. */
static void answer_oldest(const struct line *line, size_t from, size_t n)
{
	struct kernel_call answers[MESSAGE_CALLS_MAX];

	for (size_t i = 0; i < n; i++) {
		answers[i] = (struct kernel_call){ .op = KERNEL_REGISTER, .index = (uint32_t)(from + i), .fd = -1 };
		answer_well(&answers[i]);
	}
	send_answers(line, answers, n);
}

/* What the keeper takes before it answers. */
TEST(window_limits_packets_under_way)
{
	READY_LINE(line);
	struct batch *batches[WINDOW + 8];
	size_t packets = 2 * ARRAY_SIZE(batches), sent = 0;

	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		batches[i] = batch_new(&line, KERNEL_REGISTER, 150);
		submit(&line, batches[i]);
	}
	for (size_t answered = 0; answered < packets; answered++) {
		while (keeper_hears(&line))
			ck_assert_uint_eq(heard.n, sent++ % 2 ? 50 : 100);
		ck_assert_uint_eq(sent, MIN(answered + WINDOW, packets));
		answer_oldest(&line, answered % 2 ? 100 : 0, answered % 2 ? 50 : 100);
		expect_dispatched(&line);
	}
	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		expect_granted(batches[i]);
		ck_assert_ptr_eq(order.batch[i], batches[i]);
		batch_free(&batches[i]);
	}
}

TEST(batch_of_many_packets_is_done_once)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 250);

	submit(&line, batch);
	for (size_t left = batch->n; left > 0;) {
		size_t n = MIN(left, MESSAGE_CALLS_MAX);

		expect_heard(&line, n);
		ck_assert_uint_eq(heard.calls[0].index, batch->n - left);
		ck_assert_uint_eq(heard.calls[n - 1].index, batch->n - left + n - 1);
		ck_assert_uint_eq(batch->done, 0);
		keeper_answers(&line);
		expect_dispatched(&line);
		left -= n;
	}
	expect_granted(batch);
}

TEST(a_batch_of_nothing_is_done_at_once)
{
	READY_LINE(line);
	BATCH(before, line, KERNEL_REGISTER, 1);
	BATCH(nothing, line, KERNEL_REGISTER, 0);

	submit(&line, before);
	submit(&line, nothing);
	ck_assert_uint_eq(nothing->done, 1);
	ck_assert_uint_eq(before->done, 0);
	expect_heard(&line, 1);
	ck_assert(!keeper_hears(&line));
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(before);
}

TEST(fds_go_to_those_who_asked_for_them)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 21);
	ino_t inodes[21] = { 0 };
	size_t answered = 0;

	for (size_t i = 0; i < batch->n; i += 2)
		batch->calls[i].op = KERNEL_RELEASE;
	submit(&line, batch);
	while (answered < batch->n) {
		ck_assert(keeper_hears(&line));
		for (size_t i = 0; i < heard.n; i++) {
			answer_well(&heard.calls[i]);
			if (heard.calls[i].fd >= 0)
				inodes[answered + i] = inode(heard.calls[i].fd);
		}
		/* One of them could not be made; those behind it get theirs all the same. */
		if (answered == 0) {
			heard.calls[5].result = -ENOMEM;
			heard.calls[5].fd = fd_close(heard.calls[5].fd);
		}
		answered += heard.n;
		send_answers(&line, heard.calls, heard.n);
		expect_dispatched(&line);
	}
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < batch->n; i++) {
		bool gets = i % 2 && i != 5;

		ck_assert_int_eq(batch->calls[i].fd >= 0, gets);
		if (gets) {
			ck_assert_uint_eq(inode(batch->calls[i].fd), inodes[i]);
			ck_assert_int_eq(fcntl(batch->calls[i].fd, F_GETFD), FD_CLOEXEC);
		}
	}
}

/* The caller's copy is gone by then. */
TEST(call_without_done_is_sent_in_order)
{
	READY_LINE(line);
	BATCH(batches, line, KERNEL_REGISTER, 250);
	struct kernel_call call = { .op = KERNEL_STREAM_FREE, .stream = 77 };

	submit(&line, batches);
	kernel_submit(line.kernel, &call, 1, NULL, NULL);
	memset(&call, 0xff, sizeof(call));
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = 78 });
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(keeper_hears(&line));
		keeper_answers(&line);
		expect_dispatched(&line);
	}
	expect_granted(batches);
	expect_heard(&line, 1);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_STREAM_FREE);
	ck_assert_uint_eq(heard.calls[0].stream, 77);
	keeper_answers(&line);
	expect_heard(&line, 1);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_PAGE_FREE);
	ck_assert_uint_eq(heard.calls[0].page, 78);
	heard.calls[0].result = -EBUSY;
	send_answers(&line, heard.calls, 1);
	expect_dispatched(&line);
	ck_assert(!keeper_hears(&line));
}

TEST(fd_of_call_without_done_is_closed)
{
	READY_LINE(line);
	int fds = count_open_fds();

	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_STREAM_NEW, .stream = 1 });
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(done_may_submit_more)
{
	READY_LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_REGISTER, 120);
	BATCH(third, line, KERNEL_RELEASE, 1);

	first->next = second;
	second->next = third;
	submit(&line, first);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(first);
	expect_heard(&line, 100);
	keeper_answers(&line);
	expect_heard(&line, 20);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(second);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(third);
}

TEST(batch_without_memory_is_not_sent)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 2);

	memory_comes_back = true;
	allocations_left = 0;
	submit(&line, batch);
	allocations_left = 0;
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_STREAM_FREE });
	expect_results(batch, 0, 2, -ENOMEM);
	ck_assert(!keeper_hears(&line));
	expect_dispatched(&line);
}

/* One packet of the longest descriptions is what this socket takes; the next goes when that has been read and answered. */
TEST(packet_waits_for_room_in_socket)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 250);
	char text[WIRE_DESCRIPTION_MAX + 1];
	int size = 27700; /* the kernel doubles it */

	ck_assert_int_eq(setsockopt(line.kernel->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (size_t i = 0; i < batch->n; i++)
		batch->calls[i].text = text;
	submit(&line, batch);
	for (size_t left = batch->n; left > 0; left -= heard.n) {
		expect_heard(&line, MIN(left, MESSAGE_CALLS_MAX));
		ck_assert(!keeper_hears(&line));
		ck_assert_uint_eq(batch->done, 0);
		keeper_answers(&line);
		expect_dispatched(&line);
	}
	expect_granted(batch);
}

/* --- the end --- */

TEST(cancel_answers_everything_once)
{
	READY_LINE(line);
	BATCH(first, line, KERNEL_STREAM_NEW, 5);
	BATCH(second, line, KERNEL_REGISTER, 250);
	BATCH(third, line, KERNEL_REGISTER, 3);
	BATCH(later, line, KERNEL_PAGE_NEW, 2);

	submit(&line, first);
	submit(&line, second);
	submit(&line, third);
	for (unsigned i = 0; i < WINDOW; i++)
		kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE });
	kernel_cancel(line.kernel);
	expect_cancelled(first);
	expect_cancelled(second);
	expect_cancelled(third);
	ck_assert_ptr_eq(order.batch[0], first);
	ck_assert_ptr_eq(order.batch[1], second);
	ck_assert_ptr_eq(order.batch[2], third);
	submit(&line, later);
	expect_cancelled(later);
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE });
	kernel_cancel(line.kernel);
	expect_dispatched(&line);
	/* What had left before it has left. */
	expect_heard(&line, 5);
	expect_heard(&line, 100);
	expect_heard(&line, 100);
	expect_heard(&line, 50);
	expect_heard(&line, 3);
	for (unsigned packets = 5; packets < WINDOW; packets++)
		expect_heard(&line, 1);
	ck_assert(!keeper_hears(&line));
}

TEST(answer_after_cancel_is_ignored)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 2);

	submit(&line, batch);
	expect_heard(&line, 2);
	kernel_cancel(line.kernel);
	expect_cancelled(batch);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_cancelled(batch);
}

TEST(answer_before_cancel_is_kept)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 20);

	submit(&line, batch);
	expect_heard(&line, MESSAGE_FDS_MAX);
	keeper_answers(&line);
	expect_dispatched(&line);
	ck_assert_uint_eq(batch->done, 0);
	kernel_cancel(line.kernel);
	expect_results(batch, 0, MESSAGE_FDS_MAX, KERNEL_OK);
	expect_results(batch, MESSAGE_FDS_MAX, 20, -ECANCELED);
	for (size_t i = 0; i < MESSAGE_FDS_MAX; i++)
		ck_assert_int_ge(fcntl(batch->calls[i].fd, F_GETFD), 0);
}

TEST(cancelled_batch_may_submit_more)
{
	READY_LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_REGISTER, 2);
	BATCH(third, line, KERNEL_REGISTER, 3);

	first->next = second;
	second->next = third;
	submit(&line, first);
	kernel_cancel(line.kernel);
	expect_cancelled(first);
	expect_cancelled(second);
	expect_cancelled(third);
}

static void on_last(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct line *line = data;

	kernel_cancel(line->kernel);
}

TEST(done_may_cancel)
{
	READY_LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_REGISTER, 1);

	kernel_submit(line.kernel, first->calls, 1, on_last, &line);
	submit(&line, second);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	ck_assert_int_eq(first->calls[0].result, KERNEL_OK);
	expect_cancelled(second);
}

TEST(a_kernel_that_is_freed_answers_first)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 20);

	submit(&line, batch);
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE });
	line.kernel = kernel_free(line.kernel);
	expect_cancelled(batch);
}

static void expect_failure(const struct line *line, int result)
{
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(kernel_dispatch(line->kernel), result);
}

TEST(a_keeper_that_has_gone_is_noticed)
{
	READY_LINE(line);
	BATCH(before, line, KERNEL_REGISTER, 1);
	BATCH(after, line, KERNEL_REGISTER, 1);

	submit(&line, before);
	line.keeper = fd_close(line.keeper);
	submit(&line, after);
	ck_assert_uint_eq(before->done + after->done, 0);
	expect_failure(&line, -ECONNRESET);
	ck_assert_uint_eq(before->done + after->done, 0);
	kernel_cancel(line.kernel);
	expect_cancelled(before);
	expect_cancelled(after);
}

TEST(a_keeper_that_does_not_read_any_more_has_gone)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 1);

	ck_assert_int_eq(shutdown(line.keeper, SHUT_RD), 0);
	submit(&line, batch);
	expect_failure(&line, -ECONNRESET);
	kernel_cancel(line.kernel);
	expect_cancelled(batch);
}

/* Or a daemon with nothing to ask would never learn of it. */
TEST(end_of_idle_keeper_is_noticed)
{
	READY_LINE(line);
	struct pollfd ask = { .fd = line.kernel->fd, .events = POLLIN };

	line.keeper = fd_close(line.keeper);
	ck_assert_int_eq(poll(&ask, 1, 0), 1);
	expect_failure(&line, -ECONNRESET);
}

TEST(answers_before_keepers_end_are_read)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 1);

	submit(&line, batch);
	expect_heard(&line, 1);
	keeper_answers(&line);
	line.keeper = fd_close(line.keeper);
	expect_failure(&line, -ECONNRESET);
	expect_granted(batch);
}

TEST(a_keeper_that_refuses_to_go_on_says_why)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 1);
	struct packet packet = packet_new();

	submit(&line, batch);
	message_put_failed(&packet, "that makes no sense");
	keeper_says(&line, &packet, NULL, 0);
	expect_failure(&line, -ECONNREFUSED);
	ck_assert_str_eq(line.kernel->facts.note, "that makes no sense");
	kernel_cancel(line.kernel);
	expect_cancelled(batch);
}

/* --- a daemon without fds --- */

static void limit_fds(rlim_t number)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = MIN(number, limit.rlim_max);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Room for so many more, exactly. */
static void leave_fds(size_t n)
{
	int number = 0;

	while (n > 0)
		n -= fcntl(number++, F_GETFD) < 0;
	limit_fds((rlim_t)number);
}

static int dispatch_with_fds(const struct line *line, size_t room)
{
	int r;

	leave_fds(room);
	r = kernel_dispatch(line->kernel);
	limit_fds(RLIM_INFINITY);
	return r;
}

/* Two pages, two streams, and something on each. */
static const struct kernel_call things[] = {
	{ .op = KERNEL_PAGE_NEW, .page = 1 },	{ .op = KERNEL_STREAM_NEW, .page = 1, .stream = 2 },
	{ .op = KERNEL_REGISTER, .stream = 2 }, { .op = KERNEL_STREAM_NEW, .page = 1, .stream = 3 },
	{ .op = KERNEL_REGISTER, .stream = 3 }, { .op = KERNEL_PAGE_NEW, .page = 4 },
};

enum { FDS_OF_THINGS = 4 };

/* The first of them got their fd. */
static void expect_things(const struct batch *batch, size_t room)
{
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < batch->n; i++) {
		const struct kernel_call *call = &batch->calls[i];
		bool gets = message_op_gives_fd(call->op) && room > 0;

		room -= gets;
		ck_assert_int_eq(call->fd >= 0, gets);
		ck_assert_int_eq(call->result, gets || call->op == KERNEL_REGISTER ? KERNEL_OK : -EMFILE);
	}
}

/* The others are nowhere, the last one first: nothing may refer to a page that is freed. */
static void expect_freed(const struct line *line, size_t lost)
{
	static const struct kernel_call frees[FDS_OF_THINGS] = {
		{ .op = KERNEL_PAGE_FREE, .page = 4 },
		{ .op = KERNEL_STREAM_FREE, .page = 1, .stream = 3 },
		{ .op = KERNEL_STREAM_FREE, .page = 1, .stream = 2 },
		{ .op = KERNEL_PAGE_FREE, .page = 1 },
	};

	if (lost > 0) {
		expect_heard(line, lost);
		for (size_t i = 0; i < lost; i++) {
			ck_assert_int_eq(heard.calls[i].op, frees[i].op);
			ck_assert_uint_eq(heard.calls[i].page, frees[i].page);
			ck_assert_uint_eq(heard.calls[i].stream, frees[i].stream);
		}
		keeper_answers(line);
		expect_dispatched(line);
	}
	ck_assert(!keeper_hears(line));
}

TEST(lost_fd_fails_its_call_and_is_undone)
{
	for (size_t room = 0; room <= FDS_OF_THINGS; room++) {
		READY_LINE(line);
		BATCH(batch, line, KERNEL_REGISTER, ARRAY_SIZE(things));
		BATCH(later, line, KERNEL_STREAM_NEW, 1);
		int fds = count_open_fds();

		memcpy(batch->calls, things, sizeof(things));
		submit(&line, batch);
		expect_heard(&line, ARRAY_SIZE(things));
		keeper_answers(&line);
		ck_assert_int_eq(dispatch_with_fds(&line, room), 0);
		expect_things(batch, room);
		ck_assert_int_eq(count_open_fds(), fds + (int)room);
		expect_freed(&line, FDS_OF_THINGS - room);

		/* As soon as there are fds, all is well. */
		submit(&line, later);
		expect_heard(&line, 1);
		keeper_answers(&line);
		expect_dispatched(&line);
		ck_assert_int_eq(later->calls[0].result, KERNEL_OK);
		ck_assert_int_ge(later->calls[0].fd, 0);
	}
}

/* Who asks anew at once does so for the same page: that comes behind. */
TEST(lost_fd_is_undone_before_done)
{
	READY_LINE(line);
	BATCH(first, line, KERNEL_PAGE_NEW, 1);
	BATCH(second, line, KERNEL_PAGE_NEW, 1);

	first->next = second;
	submit(&line, first);
	expect_heard(&line, 1);
	keeper_answers(&line);
	ck_assert_int_eq(dispatch_with_fds(&line, 0), 0);
	expect_heard(&line, 1);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_PAGE_FREE);
	keeper_answers(&line);
	expect_heard(&line, 1);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_PAGE_NEW);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_results(first, 0, 1, -EMFILE);
	expect_granted(second);
}

/* What came is counted by the kernel, and only what did not come can be more than was said. */
TEST(an_fd_too_many_is_no_want_of_fds)
{
	for (size_t room = 1; room < 3; room++) {
		READY_LINE(line);
		BATCH(batch, line, KERNEL_STREAM_NEW, 1);
		struct kernel_call answer = { .result = KERNEL_OK, .fd = 0 };
		struct packet packet = packet_new();
		const int fds[] = { 0, 0, 0 };
		int before = count_open_fds();

		submit(&line, batch);
		message_put_answers(&packet, &answer, 1);
		keeper_says(&line, &packet, fds, ARRAY_SIZE(fds));
		ck_assert_int_eq(dispatch_with_fds(&line, room), -EPROTO);
		expect_failure(&line, -EPROTO);
		kernel_cancel(line.kernel);
		batch->calls[0].fd = fd_close(batch->calls[0].fd);
		ck_assert_int_eq(count_open_fds(), before);
	}
}

/* --- what calls bring --- */

/* A batch of deposits, each with an fd of its own; their inodes. */
static struct batch *deposits_new(struct line *line, size_t n, ino_t *ret_inodes)
{
	struct batch *batch = batch_new(line, KERNEL_DEPOSIT, n);

	for (size_t i = 0; i < n; i++) {
		batch->calls[i].number = UINT64_C(1) << 40 | i;
		batch->calls[i].fd = new_fd();
		ret_inodes[i] = inode(batch->calls[i].fd);
	}
	return batch;
}

static void expect_brought(const ino_t *inodes, size_t n)
{
	ck_assert_uint_eq(heard.n_fds, n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_eq(heard.inode[i], inodes[i]);
		ck_assert_uint_eq(heard.calls[i].number, UINT64_C(1) << 40 | heard.calls[i].index);
	}
}

TEST(fds_of_calls_arrive_and_are_closed)
{
	READY_LINE(line);
	int fds = count_open_fds();
	ino_t inodes[20];
	_cleanup_(batch_free) struct batch *batch = deposits_new(&line, 20, inodes);

	submit(&line, batch);
	for (size_t done = 0; done < 20; done += heard.n) {
		ck_assert(keeper_hears(&line));
		ck_assert_uint_eq(heard.n, MIN(20 - done, MESSAGE_FDS_MAX));
		expect_brought(inodes + done, heard.n);
		keeper_answers(&line);
		expect_dispatched(&line);
	}
	expect_granted(batch);
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(optional_fd_may_be_missing)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_ADOPT, 2);

	batch->calls[0].fd = -1;
	batch->calls[1].fd = new_fd();
	submit(&line, batch);
	expect_heard(&line, 2);
	ck_assert_uint_eq(heard.n_fds, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(batch);
}

TEST(fds_of_failed_calls_are_closed)
{
	READY_LINE(line);
	int fds = count_open_fds();
	ino_t inodes[3];
	_cleanup_(batch_free) struct batch *unsaid = deposits_new(&line, 3, inodes);
	_cleanup_(batch_free) struct batch *batch = deposits_new(&line, 3, inodes);
	struct kernel_call call = { .op = KERNEL_DEPOSIT, .fd = new_fd() };

	memory_comes_back = true;
	allocations_left = 0;
	submit(&line, unsaid);
	expect_results(unsaid, 0, 3, -ENOMEM);
	submit(&line, batch);
	kernel_tell(line.kernel, call);
	kernel_cancel(line.kernel);
	expect_cancelled(batch);
	call.fd = new_fd();
	kernel_tell(line.kernel, call);
	while (keeper_hears(&line))
		;
	ck_assert_int_eq(count_open_fds(), fds);
}

/* As long as the daemon's timer. */
static void wait_for_retry(void)
{
	usleep(30000);
}

TEST(calls_are_sent_later_after_too_many_references)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 3);
	int fds = count_open_fds();

	batch->calls[1] = (struct kernel_call){ .op = KERNEL_DEPOSIT, .fd = new_fd() };
	too_many_in_flight = true;
	submit(&line, batch);
	ck_assert(line.kernel->stalled);
	ck_assert(!keeper_hears(&line));
	expect_dispatched(&line);
	ck_assert(line.kernel->stalled);
	too_many_in_flight = false;
	wait_for_retry();
	expect_dispatched(&line);
	ck_assert(!line.kernel->stalled);
	expect_heard(&line, 3);
	ck_assert_uint_eq(heard.n_fds, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(batch->calls[i].result, KERNEL_OK);
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(deposit_that_waits_holds_up_nothing_else)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 3);
	const struct kernel_call deposit = { .op = KERNEL_DEPOSIT, .number = 7, .fd = new_fd() };
	int fds = count_open_fds();

	too_many_in_flight = true;
	kernel_tell(line.kernel, deposit);
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_WITHDRAW, .number = 7, .fd = -1 });
	submit(&line, batch);
	ck_assert(line.kernel->stalled);
	expect_heard(&line, 3);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(batch);
	too_many_in_flight = false;
	wait_for_retry();
	expect_dispatched(&line);
	expect_heard(&line, 1);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_DEPOSIT);
	keeper_answers(&line);
	expect_heard(&line, 1);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_WITHDRAW);
	keeper_answers(&line);
	expect_dispatched(&line);
	ck_assert_int_eq(count_open_fds(), fds - 1);
}

TEST(deposit_that_waits_ends_with_its_keeper)
{
	READY_LINE(line);
	int fds = count_open_fds();

	too_many_in_flight = true;
	kernel_tell(line.kernel, (struct kernel_call){ .op = KERNEL_DEPOSIT, .number = 7, .fd = new_fd() });
	ck_assert(line.kernel->stalled);
	kernel_cancel(line.kernel);
	ck_assert(!line.kernel->stalled);
	too_many_in_flight = false;
	ck_assert_int_eq(count_open_fds(), fds);
}

TEST(packet_without_memory_waits_for_answers)
{
	READY_LINE(line);
	BATCH(first, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_REGISTER, 1);

	submit(&line, first);
	no_memory = true;
	submit(&line, second);
	no_memory = false;
	for (unsigned i = 0; i < 2; i++) {
		expect_heard(&line, 1);
		keeper_answers(&line);
		expect_dispatched(&line);
	}
	ck_assert_int_eq(first->calls[0].result, KERNEL_OK);
	ck_assert_int_eq(second->calls[0].result, KERNEL_OK);
}

TEST(a_copy_that_there_is_no_fd_for_needs_no_undoing)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_FETCH, 3);
	static const enum kernel_op ops[] = { KERNEL_STREAM_FETCH, KERNEL_PAGE_FETCH, KERNEL_DEPOSITED };

	for (size_t i = 0; i < 3; i++)
		batch->calls[i].op = ops[i];
	submit(&line, batch);
	expect_heard(&line, 3);
	keeper_answers(&line);
	ck_assert_int_eq(dispatch_with_fds(&line, 1), 0);
	ck_assert_int_ge(batch->calls[0].fd, 0);
	for (size_t i = 1; i < 3; i++)
		ck_assert_int_eq(batch->calls[i].result, -EMFILE);
	ck_assert(!keeper_hears(&line));
}

/* --- a keeper in the place of another --- */

struct heir {
	struct line *line;
	struct batch *batch; /* what it is given; NULL: nothing */
	unsigned restored;
};

static void restore(void *data)
{
	struct heir *heir = data;

	heir->restored++;
	if (heir->batch)
		submit(heir->line, heir->batch);
}

/* It has not said anything yet. */
static void connect_next(struct line *line, struct heir *heir)
{
	int pair[2];

	heir->line = line;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fd_close(line->keeper);
	line->keeper = pair[1];
	remote_succeed(line->kernel, pair[0], restore, heir);
	ck_assert_int_eq(line->kernel->fd, pair[0]);
}

/* The old one has gone. */
static void replace_keeper(struct line *line, struct heir *heir)
{
	line->keeper = fd_close(line->keeper);
	expect_failure(line, -ECONNRESET);
	connect_next(line, heir);
}

TEST(unanswered_calls_go_to_new_keeper)
{
	READY_LINE(line);
	BATCH(answered, line, KERNEL_REGISTER, 1);
	BATCH(said, line, KERNEL_REGISTER, 2);
	BATCH(while_none, line, KERNEL_CLEAN, 1);
	BATCH(before_ready, line, KERNEL_RELEASE, 1);
	struct heir heir = { 0 };

	submit(&line, answered);
	submit(&line, said);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(answered);
	line.keeper = fd_close(line.keeper);
	expect_failure(&line, -ECONNRESET);
	submit(&line, while_none);
	replace_keeper(&line, &heir);
	submit(&line, before_ready);
	expect_dispatched(&line);
	ck_assert(!keeper_hears(&line));
	ck_assert_uint_eq(heir.restored, 0);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	ck_assert_uint_eq(heir.restored, 1);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(keeper_hears(&line));
		ck_assert_int_eq(heard.calls[0].op,
				 ((enum kernel_op[]){ KERNEL_REGISTER, KERNEL_CLEAN, KERNEL_RELEASE })[i]);
		keeper_answers(&line);
	}
	expect_dispatched(&line);
	expect_granted(said);
	expect_granted(while_none);
	expect_granted(before_ready);
	ck_assert_uint_eq(heir.restored, 1);
}

TEST(restored_calls_come_first_in_order)
{
	READY_LINE(line);
	BATCH(waiting, line, KERNEL_REGISTER, 1);
	BATCH(second, line, KERNEL_ADOPT, 120);
	int fds = count_open_fds();
	ino_t inodes[2];
	_cleanup_(batch_free) struct batch *first = deposits_new(&line, 2, inodes);
	struct heir heir = { .batch = first };

	submit(&line, waiting);
	replace_keeper(&line, &heir);
	keeper_is_ready(&line);
	first->next = second; /* asked for when that is done: behind all */
	expect_dispatched(&line);
	expect_heard(&line, 2);
	expect_brought(inodes, 2);
	keeper_answers(&line);
	expect_heard(&line, 1);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_REGISTER);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(first);
	expect_granted(waiting);
	expect_heard(&line, 100);
	ck_assert_int_eq(heard.calls[0].op, KERNEL_ADOPT);
	keeper_answers(&line);
	expect_heard(&line, 20);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(second);
	ck_assert_int_eq(count_open_fds(), fds);
}

/* From the first call on; of what has come nothing is left, and what it brought is there for the next one. */
TEST(a_batch_that_was_half_answered_is_asked_anew)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, MESSAGE_FDS_MAX + 1);
	int fds = count_open_fds();
	ino_t inodes[MESSAGE_FDS_MAX + 1];
	_cleanup_(batch_free) struct batch *deposits = deposits_new(&line, MESSAGE_FDS_MAX + 1, inodes);
	struct heir heir = { 0 };

	submit(&line, batch);
	submit(&line, deposits);
	expect_heard(&line, MESSAGE_FDS_MAX);
	keeper_answers(&line);
	expect_dispatched(&line);
	replace_keeper(&line, &heir);
	keeper_is_ready(&line);
	ck_assert_int_eq(count_open_fds(), fds + MESSAGE_FDS_MAX + 1);
	expect_dispatched(&line);
	for (unsigned i = 0; i < 2; i++) {
		expect_heard(&line, i ? 1 : MESSAGE_FDS_MAX);
		ck_assert_int_eq(heard.calls[0].op, KERNEL_STREAM_NEW);
		keeper_answers(&line);
	}
	expect_heard(&line, MESSAGE_FDS_MAX);
	expect_brought(inodes, MESSAGE_FDS_MAX);
	keeper_answers(&line);
	expect_dispatched(&line);
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < batch->n; i++)
		ck_assert_int_ge(batch->calls[i].fd, 0);
	/* Half of the deposits are answered. */
	replace_keeper(&line, &heir);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	for (unsigned i = 0; i < 2; i++) {
		expect_heard(&line, i ? 1 : MESSAGE_FDS_MAX);
		ck_assert_uint_eq(heard.n_fds, heard.n);
		ck_assert_uint_eq(heard.inode[0], inodes[i * MESSAGE_FDS_MAX]);
		keeper_answers(&line);
	}
	expect_dispatched(&line);
	ck_assert_uint_eq(deposits->done, 1);
}

TEST(restored_calls_are_cancelled_for_next_keeper)
{
	READY_LINE(line);
	ino_t inodes[2];
	_cleanup_(batch_free) struct batch *first = deposits_new(&line, 2, inodes);
	_cleanup_(batch_free) struct batch *again = deposits_new(&line, 1, inodes);
	BATCH(waiting, line, KERNEL_REGISTER, 1);
	struct heir heir = { .batch = first };

	submit(&line, waiting);
	replace_keeper(&line, &heir);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	expect_heard(&line, 2);
	heir.batch = again;
	replace_keeper(&line, &heir);
	expect_cancelled(first);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	expect_heard(&line, 1);
	expect_brought(inodes, 1);
	keeper_answers(&line);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(again);
	expect_granted(waiting);
}

static struct kernel_facts facts_now(const struct line *line)
{
	return line->kernel->facts;
}

static void keeper_says_ready(const struct line *line, const struct kernel_facts *facts)
{
	struct packet packet = packet_new();

	message_put_ready(&packet, facts);
	keeper_says(line, &packet, NULL, 0);
}

TEST(a_keeper_of_another_sort_is_no_successor)
{
	for (unsigned i = 0; i < 2; i++) {
		READY_LINE(line);
		BATCH(batch, line, KERNEL_REGISTER, 1);
		struct kernel_facts facts = facts_now(&line);
		struct heir heir = { 0 };

		submit(&line, batch);
		if (i == 0)
			facts.backend = BACKEND_STATUS_PAGE;
		else
			facts.page_bits--;
		replace_keeper(&line, &heir);
		keeper_says_ready(&line, &facts);
		expect_failure(&line, -ESTALE);
		ck_assert_ptr_nonnull(strstr(line.kernel->facts.note, "than the one before"));
		ck_assert_uint_eq(line.kernel->facts.backend, BACKEND_ENABLE_ADDRESS);
		ck_assert_uint_eq(heir.restored, 0);
		ck_assert(!keeper_hears(&line));
		kernel_cancel(line.kernel);
		expect_cancelled(batch);
	}
}

TEST(new_keepers_facts_except_limits_are_taken)
{
	READY_LINE(line);
	struct kernel_facts facts = facts_now(&line);
	struct heir heir = { 0 };

	facts.guarded = false;
	facts.deposits = true;
	facts.page_bits++;
	facts.capacity--;
	replace_keeper(&line, &heir);
	keeper_says_ready(&line, &facts);
	expect_dispatched(&line);
	ck_assert(!line.kernel->facts.guarded);
	ck_assert(line.kernel->facts.deposits);
	ck_assert_uint_eq(line.kernel->facts.page_bits, 4096);
	ck_assert_uint_eq(line.kernel->facts.capacity, 1000);
}

TEST(refusal_of_new_keeper_is_shown)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 1);
	struct packet packet = packet_new();
	struct heir heir = { 0 };

	submit(&line, batch);
	replace_keeper(&line, &heir);
	message_put_failed(&packet, "no tracefs any more");
	keeper_says(&line, &packet, NULL, 0);
	expect_failure(&line, -ECONNREFUSED);
	ck_assert_str_eq(line.kernel->facts.note, "no tracefs any more");
	connect_next(&line, &heir);
	keeper_is_ready(&line);
	expect_dispatched(&line);
	ck_assert_uint_eq(heir.restored, 1);
	expect_heard(&line, 1);
	keeper_answers(&line);
	expect_dispatched(&line);
	expect_granted(batch);
}

TEST(a_new_keeper_that_speaks_out_of_turn_is_none)
{
	READY_LINE(line);
	struct packet packet = packet_new();
	struct heir heir = { 0 };

	replace_keeper(&line, &heir);
	put_answer(&packet);
	keeper_says(&line, &packet, NULL, 0);
	expect_failure(&line, -EPROTO);
	connect_next(&line, &heir);
	keeper_is_ready(&line);
	keeper_is_ready(&line);
	expect_failure(&line, -EPROTO);
	ck_assert_uint_eq(heir.restored, 1);
}

/* --- a keeper that breaks the protocol --- */

/* Two calls are under way, a stream and an event on it; this is what comes. */
struct violation {
	const char *name;
	struct kernel_call answers[4];
	size_t n;     /* answers in the packet */
	size_t count; /* what its header says */
	size_t fds;
	size_t bytes;	/* more or less than it says */
	size_t granted; /* whose answers are good all the same */
};

#define STREAM                                                                                                         \
	{                                                                                                              \
		.result = KERNEL_OK, .fd = 0                                                                           \
	}
#define NO_STREAM                                                                                                      \
	{                                                                                                              \
		.result = KERNEL_OK, .fd = -1                                                                          \
	}
#define BAD_STREAM                                                                                                     \
	{                                                                                                              \
		.result = -EMFILE, .fd = 0                                                                             \
	}
#define EVENT                                                                                                          \
	{                                                                                                              \
		.result = KERNEL_OK, .bit = 2, .index = 3, .fd = -1                                                    \
	}
#define EVENT_OF_FD                                                                                                    \
	{                                                                                                              \
		.result = KERNEL_OK, .fd = 0                                                                           \
	}

static const struct violation violations[] = {
	{ "no answer", {}, 0, 0, 0, 0, 0 },
	{ "one is missing", { STREAM }, 1, 1, 1, 0, 0 },
	{ "one is missing and said to be there", { STREAM }, 1, 2, 1, 0, 1 },
	{ "one too many", { STREAM, EVENT, EVENT }, 3, 3, 1, 0, 0 },
	{ "one too many and said not to be there", { STREAM, EVENT, EVENT }, 3, 2, 1, 0, 2 },
	{ "a few bytes more", { STREAM, EVENT }, 2, 2, 1, 4, 2 },
	{ "all bits of the count", { STREAM, EVENT }, 2, UINT16_MAX, 1, 0, 0 },
	{ "no fd for the stream", { STREAM, EVENT }, 2, 2, 0, 0, 0 },
	{ "no stream, and no reason", { NO_STREAM, EVENT }, 2, 2, 0, 0, 0 },
	{ "a stream that nobody mentions", { NO_STREAM, EVENT }, 2, 2, 1, 0, 0 },
	{ "a stream in spite of all", { BAD_STREAM, EVENT }, 2, 2, 1, 0, 0 },
	{ "an fd too many", { STREAM, EVENT }, 2, 2, 2, 0, 2 },
	{ "as many fds as there can be", { STREAM, EVENT }, 2, 2, MESSAGE_FDS_MAX, 0, 2 },
	{ "an fd for the event", { STREAM, EVENT_OF_FD }, 2, 2, 2, 0, 1 },
};

static void violate(const struct line *line, const struct violation *violation)
{
	struct packet packet = packet_new();
	struct message_header header;
	int fds[MESSAGE_FDS_MAX] = { 0 };

	for (size_t i = 0; i < violation->fds; i++)
		fds[i] = new_fd();
	message_put_answers(&packet, violation->answers, violation->n);
	packet_room(&packet, violation->bytes);
	memcpy(&header, packet.data, sizeof(header));
	header.size = (uint32_t)packet.size;
	header.count = (uint16_t)violation->count;
	memcpy(packet.data, &header, sizeof(header));
	keeper_says(line, &packet, fds, violation->fds);
	for (size_t i = 0; i < violation->fds; i++)
		close(fds[i]);
}

static void expect_violated(const struct violation *violation)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_STREAM_NEW, 2);
	BATCH(next, line, KERNEL_REGISTER, 1);
	int fds = count_open_fds();

	batch->calls[1].op = KERNEL_REGISTER;
	submit(&line, batch);
	submit(&line, next);
	violate(&line, violation);
	expect_failure(&line, -EPROTO);
	ck_assert_uint_eq(batch->done, 0);
	/* Nor does what comes later make it good. */
	keeper_hears(&line);
	keeper_answers(&line);
	expect_failure(&line, -EPROTO);
	kernel_cancel(line.kernel);
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = 0; i < 2; i++)
		ck_assert_int_eq(batch->calls[i].result, i < violation->granted ? KERNEL_OK : -ECANCELED);
	ck_assert_int_eq(batch->calls[0].fd >= 0, violation->granted > 0);
	ck_assert_int_eq(batch->calls[1].fd, -1);
	expect_cancelled(next);
	/* Those of the answer that nobody reads are still in the queue, which is not counted here. */
	ck_assert_int_eq(count_open_fds(), fds + (violation->granted > 0));
}

TEST(invalid_packet_ends_reading)
{
	for (size_t i = 0; i < ARRAY_SIZE(violations); i++)
		expect_violated(&violations[i]);
}

TEST(packet_of_other_kind_ends_it)
{
	static void (*const nonsense[])(struct packet *) = {
		put_garbage, put_header, put_calls, put_embedded, put_empty_facts, put_broken_sentence,
	};
	const int fds[] = { 0, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		READY_LINE(line);
		BATCH(batch, line, KERNEL_REGISTER, 1);
		struct packet packet = packet_new();

		submit(&line, batch);
		nonsense[i](&packet);
		keeper_says(&line, &packet, fds, i % 3);
		expect_failure(&line, -EPROTO);
		kernel_cancel(line.kernel);
		expect_cancelled(batch);
	}
}

TEST(unexpected_answer_ends_it)
{
	READY_LINE(line);
	BATCH(batch, line, KERNEL_REGISTER, 1);
	struct packet packet = packet_new();

	submit(&line, batch);
	expect_heard(&line, 1);
	keeper_answers(&line);
	put_answer(&packet);
	keeper_says(&line, &packet, NULL, 0);
	expect_failure(&line, -EPROTO);
	expect_granted(batch);
}

/* The answer to both at once, or one in two pieces: packets are answered one by one. */
TEST(answers_are_packed_as_the_calls_were)
{
	for (unsigned pieces = 0; pieces < 2; pieces++) {
		READY_LINE(line);
		BATCH(first, line, KERNEL_REGISTER, 2);
		BATCH(second, line, KERNEL_REGISTER, 2);
		struct kernel_call answers[4] = { [0 ... 3] = { .fd = -1 } };

		submit(&line, first);
		submit(&line, second);
		send_answers(&line, answers, pieces ? 1 : 4);
		expect_failure(&line, -EPROTO);
		kernel_cancel(line.kernel);
		expect_cancelled(first);
		expect_cancelled(second);
	}
}
