/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/kernel/rpc/line.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "protocol/transport.h"

struct received received;
struct order order;

/* --- both ends --- */

const struct kernel_facts good_facts = {
	.backend = BACKEND_ENABLE_ADDRESS,
	.guarded = true,
	.flags = REGISTER_MULTI_FORMAT,
	.page_bits = 4096,
	.capacity = 1000,
	.payload_max = 4064,
	.note = "all is well",
};

struct line line_new_raw(void)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	return (struct line){ .daemon = pair[0], .keeper = pair[1] };
}

struct line line_new(void)
{
	struct line line = line_new_raw();
	char why[WIRE_SENTENCE_MAX + 1];

	keeper_is_ready(&line);
	ck_assert_int_eq(remote_new(line.daemon, &line.kernel, why), 0);
	line.daemon = -1;
	return line;
}

void line_deinit(struct line *line)
{
	line->kernel = kernel_free(line->kernel);
	line->daemon = fd_close(line->daemon);
	line->keeper = fd_close(line->keeper);
}

void keeper_sends(const struct line *line, const void *packet, size_t size, size_t n_fds)
{
	const int fds[MESSAGE_FDS_MAX] = { 0 };

	ck_assert_int_eq(transport_send(line->keeper, packet, size, fds, n_fds, MSG_DONTWAIT), 0);
}

void keeper_sends_facts(const struct line *line, enum message_kind kind, const struct kernel_facts *facts)
{
	ck_assert_int_eq(message_send_facts(line->keeper, kind, facts), 0);
}

void keeper_is_ready(const struct line *line)
{
	keeper_sends_facts(line, MESSAGE_READY, &good_facts);
}

void keeper_fails(const struct line *line, const char *sentence)
{
	struct kernel_facts facts = { 0 };

	string_copy(facts.note, sizeof(facts.note), sentence);
	keeper_sends_facts(line, MESSAGE_FAILED, &facts);
}

void send_answers(const struct line *line, struct kernel_call *calls, size_t n)
{
	static uint8_t room[MESSAGE_MAX];

	ck_assert_int_eq(message_send(line->keeper, room, MESSAGE_ANSWERS, calls, n), (int)n);
	for (size_t i = 0; i < n; i++)
		fd_close(calls[i].fd);
}

void keeper_sends_answer(const struct line *line)
{
	send_answers(line, &(struct kernel_call){ .fd = -1 }, 1);
}

void keeper_sends_nonsense(const struct line *line, size_t i, size_t n_fds)
{
	struct {
		struct message_header header;
		struct kernel_facts facts;
	} packet = { .header = { .size = sizeof(packet), .kind = MESSAGE_READY, .count = 1 }, .facts = good_facts };

	switch (i) {
	case 0:
		packet.header.size++;
		break;
	case 1:
		packet.header.kind = MESSAGE_CALLS;
		break;
	case 2:
		packet.facts.backend = BACKEND_EMBEDDED;
		break;
	default:
		packet.header.kind = MESSAGE_FAILED;
		memset(packet.facts.note, 'x', sizeof(packet.facts.note));
	}
	keeper_sends(line, &packet, sizeof(packet), n_fds);
}

ino_t inode_of(int fd)
{
	struct stat status;

	ck_assert_int_eq(fstat(fd, &status), 0);
	return status.st_ino;
}

int new_fd(void)
{
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	return ends[1];
}

bool keeper_receives(const struct line *line)
{
	static struct message_packet message;
	int r = message_receive(line->keeper, &message);

	if (r == -EAGAIN)
		return false;
	ck_assert_int_eq(r, 1);
	ck_assert_uint_eq(message.header.kind, MESSAGE_CALLS);
	for (received.n = 0, received.n_fds = 0; received.n < message.header.count; received.n++) {
		struct kernel_call *call = &received.calls[received.n];
		char *text = received.text[received.n];

		ck_assert(message_next_call(&message, call, &text));
		if (call->fd >= 0)
			received.inode[received.n_fds++] = inode_of(call->fd);
		call->fd = fd_close(call->fd);
	}
	ck_assert(message_is_done(&message));
	return true;
}

void expect_received(const struct line *line, size_t n)
{
	ck_assert(keeper_receives(line));
	ck_assert_uint_eq(received.n, n);
}

void expect_nothing_received(const struct line *line)
{
	ck_assert(!keeper_receives(line));
}

void answer_well(struct kernel_call *call)
{
	call->result = KERNEL_OK;
	call->bit = call->index + 1;
	call->index = call->index + 2;
	if (message_op(call->op)->gives_fd)
		call->fd = new_fd();
}

void keeper_answers(const struct line *line)
{
	for (size_t i = 0; i < received.n; i++)
		answer_well(&received.calls[i]);
	send_answers(line, received.calls, received.n);
}

void exchange(const struct line *line, const size_t *packets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		expect_received(line, packets[i]);
		keeper_answers(line);
		expect_dispatched(line);
	}
}

void expect_dispatched(const struct line *line)
{
	ck_assert_int_eq(kernel_dispatch(line->kernel), 0);
}

void expect_failure(const struct line *line, int result)
{
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(kernel_dispatch(line->kernel), result);
}

/* --- batches --- */

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

void submit(struct line *line, struct batch *batch)
{
	kernel_submit(line->kernel, batch->calls, batch->n, on_done, batch);
}

struct batch *batch_new(struct line *line, enum kernel_op op, size_t n)
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

struct batch *deposits_new(struct line *line, size_t n, ino_t *ret_inodes)
{
	struct batch *batch = batch_new(line, KERNEL_DEPOSIT, n);

	for (size_t i = 0; i < n; i++) {
		batch->calls[i].number = UINT64_C(1) << 40 | i;
		batch->calls[i].fd = new_fd();
		ret_inodes[i] = inode_of(batch->calls[i].fd);
	}
	return batch;
}

void batch_free(struct batch **batch)
{
	for (size_t i = 0; i < (*batch)->n; i++)
		fd_close((*batch)->calls[i].fd);
	free(*batch);
}

void expect_results(const struct batch *batch, size_t from, size_t to, int result)
{
	ck_assert_uint_eq(batch->done, 1);
	for (size_t i = from; i < to; i++) {
		const struct kernel_call *call = &batch->calls[i];

		ck_assert_int_eq(call->result, result);
		if (result == KERNEL_OK) {
			ck_assert_uint_eq(call->bit, i + 1);
			ck_assert_uint_eq(call->index, i + 2);
		}
		ck_assert_int_eq(call->fd >= 0, result == KERNEL_OK && message_op(call->op)->gives_fd);
	}
}

void expect_all_ok(const struct batch *batch)
{
	expect_results(batch, 0, batch->n, KERNEL_OK);
}

void expect_cancelled(const struct batch *batch)
{
	expect_results(batch, 0, batch->n, -ECANCELED);
}

void expect_deposits_received(const ino_t *inodes, size_t n)
{
	ck_assert_uint_eq(received.n_fds, n);
	ck_assert_uint_eq(received.calls[0].number >> 40, 1);
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_eq(received.inode[i], inodes[i]);
		ck_assert_uint_eq(received.calls[i].number, received.calls[0].number + i);
	}
}
