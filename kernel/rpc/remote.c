/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <poll.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "kernel/rpc/message.h"
#include "protocol/base/clock.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"

/*
 * The keeper, as the daemon sees it. Batches wait in a queue and are sent as packets, as many at a time as the keeper reads at once and
 * the socket holds: sending never waits. The keeper answers in the order of the calls, so an answer always belongs to the oldest call
 * without one.
 *
 * The daemon may lack room for an answer's fd. Then the call fails, and the keeper has to free what it made, with everything that later
 * calls may have registered on it. A call's fd belongs to the daemon until the call is answered, since it may have to be sent again, to
 * the keeper's successor.
 *
 * While too many fds of the daemon's user are in flight, calls with an fd have to wait. Deposits wait in a queue of their own, in their
 * order, so that other calls need not wait for them.
 */

enum {
	WINDOW = 16,	       /* packets under way: as many as the keeper reads before it answers */
	STALLED_MS = 20,       /* until stalled calls are tried again */
	READY_TIMEOUT = 30000, /* ms: the keeper may be loading the guard on a busy machine */
};

TAILQ_HEAD(batch_queue, batch);

struct batch {
	TAILQ_ENTRY(batch) entry;
	struct kernel_call *calls;
	size_t n;
	size_t sent;
	size_t answered;
	bool restores; /* is sent to a new keeper first, and to no other */
	kernel_done *done;
	void *data;
	struct kernel_call copy[]; /* without `done` */
};

struct remote {
	struct kernel kernel;
	struct batch_queue batches;
	struct batch *sending;	  /* the first that is not wholly sent */
	struct batch_queue held;  /* deposits and withdrawals, while the kernel is stalled */
	int64_t retry_at;	  /* for them, in milliseconds */
	size_t under_way[WINDOW]; /* calls in each packet, the oldest first */
	size_t packets;
	kernel_restore *restore; /* until a new keeper is ready */
	void *restore_data;
	bool greeted;		/* the keeper is ready */
	bool restoring;		/* submitted batches go behind `restored` */
	struct batch *restored; /* NULL: before all others */
	bool cancelled;
	int failed; /* a negative errno: the keeper has gone, or has sent something invalid, and is not read any more */
	uint8_t packet[MESSAGE_MAX];
};

static struct remote *remote_of(struct kernel *kernel)
{
	return container_of(kernel, struct remote, kernel);
}

static void close_brought(struct kernel_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (message_op_takes_fd(calls[i].op))
			calls[i].fd = fd_close(calls[i].fd);
}

static void batch_finish(struct remote *remote, struct batch *batch)
{
	if (remote->sending == batch)
		remote->sending = TAILQ_NEXT(batch, entry);
	TAILQ_REMOVE(&remote->batches, batch, entry);
	close_brought(batch->calls, batch->n);
	if (batch->done)
		batch->done(batch->data, batch->calls, batch->n);
	else
		for (size_t i = 0; i < batch->n; i++)
			fd_close(batch->calls[i].fd);
	free(batch);
}

static void answer_calls(struct kernel_call *calls, size_t n, int result)
{
	close_brought(calls, n);
	for (size_t i = 0; i < n; i++) {
		calls[i].result = result;
		calls[i].fd = -1;
	}
}

static void batch_cancel(struct remote *remote, struct batch *batch)
{
	answer_calls(batch->calls + batch->answered, batch->n - batch->answered, -ECANCELED);
	batch_finish(remote, batch);
}

/* Sends as many of the next calls as fit into a packet. 0 with their number, or a negative errno. */
static int batch_send_packet(struct remote *remote, const struct batch *batch, size_t *ret_n)
{
	struct packet packet = packet_make(remote->packet, sizeof(remote->packet));
	const struct kernel_call *calls = batch->calls + batch->sent;
	size_t n = message_put_calls(&packet, calls, batch->n - batch->sent), n_fds = 0;
	int fds[MESSAGE_FDS_MAX];

	if (n == 0)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		if (message_op_takes_fd(calls[i].op) && calls[i].fd >= 0)
			fds[n_fds++] = calls[i].fd;
	*ret_n = n;
	return transport_send(remote->kernel.fd, packet.data, packet.size, fds, n_fds, MSG_DONTWAIT);
}

/* No other call depends on it. */
static bool concerns_deposits(const struct batch *batch)
{
	const enum kernel_op op = batch->calls[0].op;

	return batch->n == 1 && (op == KERNEL_DEPOSIT || op == KERNEL_WITHDRAW);
}

/* No answer is due after which the batch could be sent. Returns whether other batches can be sent meanwhile. */
static bool remote_stall(struct remote *remote, struct batch *batch)
{
	if (!remote->kernel.stalled)
		remote->retry_at = clock_ms() + STALLED_MS;
	remote->kernel.stalled = true;
	if (!concerns_deposits(batch))
		return false;
	remote->sending = TAILQ_NEXT(batch, entry);
	TAILQ_REMOVE(&remote->batches, batch, entry);
	TAILQ_INSERT_TAIL(&remote->held, batch, entry);
	return true;
}

/* Held batches go behind all others. */
static void remote_unstall(struct remote *remote)
{
	remote->kernel.stalled = false;
	if (!remote->sending)
		remote->sending = TAILQ_FIRST(&remote->held);
	TAILQ_CONCAT(&remote->batches, &remote->held, entry);
}

/* 0, or a negative errno after which nothing can be sent any more. */
static int remote_send(struct remote *remote)
{
	while (remote->sending && remote->packets < WINDOW && remote->greeted && remote->failed == 0) {
		struct batch *batch = remote->sending;
		size_t n;
		int r;

		if (remote->kernel.stalled && concerns_deposits(batch)) {
			remote_stall(remote, batch);
			continue;
		}
		r = batch_send_packet(remote, batch, &n);
		/* Sending goes on when the calls that fill the queue, or memory, are answered. */
		if ((r == -EAGAIN || r == -ETOOMANYREFS || r == -ENOMEM || r == -ENOBUFS) && remote->packets > 0)
			return 0;
		if (r == -ETOOMANYREFS) {
			if (remote_stall(remote, batch))
				continue;
			return 0;
		}
		if (r < 0)
			return r;
		remote->under_way[remote->packets++] = n;
		batch->sent += n;
		if (batch->sent == batch->n)
			remote->sending = TAILQ_NEXT(batch, entry);
	}
	return 0;
}

static void remote_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct remote *remote = remote_of(kernel);
	const bool takes = n > 0 && !remote->cancelled;
	struct batch *batch = takes ? malloc(sizeof(*batch) + (done ? 0 : n * sizeof(*calls))) : NULL;

	if (!batch) {
		/* Without `done` the call is lost: for example, an event goes on being charged to its tenant. */
		answer_calls(calls, n, remote->cancelled ? -ECANCELED : -ENOMEM);
		if (done)
			done(data, calls, n);
		return;
	}
	*batch = (struct batch){ .calls = calls, .n = n, .done = done, .data = data, .restores = remote->restoring };
	if (!done) {
		memcpy(batch->copy, calls, n * sizeof(*calls));
		batch->calls = batch->copy;
	}
	for (size_t i = 0; i < n; i++)
		if (!message_op_takes_fd(calls[i].op))
			batch->calls[i].fd = -1;
	if (!remote->restoring)
		TAILQ_INSERT_TAIL(&remote->batches, batch, entry);
	else if (remote->restored)
		TAILQ_INSERT_AFTER(&remote->batches, remote->restored, batch, entry);
	else
		TAILQ_INSERT_HEAD(&remote->batches, batch, entry);
	if (remote->restoring)
		remote->restored = batch;
	if (!remote->sending)
		remote->sending = batch;
	/* The next dispatch finds the end of the socket, and returns the error. */
	if (remote_send(remote) < 0)
		shutdown(kernel->fd, SHUT_RDWR);
}

static void remote_cancel(struct kernel *kernel)
{
	struct remote *remote = remote_of(kernel);

	remote->cancelled = true;
	remote_unstall(remote);
	remote->sending = NULL;
	while (!TAILQ_EMPTY(&remote->batches))
		batch_cancel(remote, TAILQ_FIRST(&remote->batches));
	remote->packets = 0;
}

/* A packet of answers. */
struct arrival {
	struct message_header header;
	struct cursor body;
	struct fdset fds;
	size_t next_fd;
	bool fds_lost; /* this process had no room for more fds than those in `fds` */
	size_t n_lost; /* calls whose fd was lost */
	size_t n_frees;
	struct kernel_call frees[MESSAGE_FDS_MAX]; /* the last ones undo those calls in the keeper */
};

static void arrival_deinit(struct arrival *arrival)
{
	fdset_deinit(&arrival->fds);
}

static int arrival_take_answer(struct arrival *arrival, struct kernel_call *call)
{
	bool has_fd;

	if (!message_next_answer(&arrival->body, call, &has_fd) ||
	    has_fd != (call->result == KERNEL_OK && message_op_gives_fd(call->op)))
		return -EPROTO;
	if (!has_fd)
		return 0;
	call->fd = fdset_steal(&arrival->fds, arrival->next_fd++);
	if (call->fd >= 0)
		return 0;
	if (!arrival->fds_lost)
		return -EPROTO;
	call->result = -EMFILE;
	arrival->n_lost++;
	/* From the end on: a page is freed after the streams that were made for it. */
	if (message_op_makes(call->op))
		arrival->frees[MESSAGE_FDS_MAX - ++arrival->n_frees] = message_undo(call);
	return 0;
}

static int remote_take_answers(struct remote *remote, struct arrival *arrival)
{
	struct batch *batch = TAILQ_FIRST(&remote->batches);

	if (remote->packets == 0 || arrival->header.count != remote->under_way[0])
		return -EPROTO;
	for (size_t i = 0; i < arrival->header.count; i++) {
		int r = arrival_take_answer(arrival, &batch->calls[batch->answered]);

		if (r < 0)
			return r;
		batch->answered++;
	}
	if (!cursor_done(&arrival->body) || arrival->next_fd != arrival->fds.count + arrival->n_lost ||
	    arrival->fds_lost != (arrival->n_lost > 0))
		return -EPROTO;
	remote->packets--;
	memmove(remote->under_way, remote->under_way + 1, remote->packets * sizeof(remote->under_way[0]));
	/* Before `done`, which may ask for the same again. */
	if (arrival->n_frees > 0)
		kernel_submit(&remote->kernel, arrival->frees + MESSAGE_FDS_MAX - arrival->n_frees, arrival->n_frees,
			      NULL, NULL);
	if (batch->answered == batch->n)
		batch_finish(remote, batch);
	return 0;
}

/* --- a keeper's successor --- */

/* A new keeper's first message. 1, or a negative errno. */
static int remote_greet(struct remote *remote, struct cursor body)
{
	struct kernel_facts *facts = &remote->kernel.facts, said;
	const char *problem = NULL;

	if (!message_get_ready(body, &said))
		return -EPROTO;
	if (said.backend != facts->backend)
		problem = "the new keeper has another backend than the one before";
	else if (said.page_bits < facts->page_bits)
		problem = "the new keeper has smaller pages than the one before";
	if (problem) {
		snprintf(facts->note, sizeof(facts->note), "%s", problem);
		return -ESTALE;
	}
	/* The daemon has based its limits on these. */
	said.page_bits = facts->page_bits;
	said.capacity = facts->capacity;
	*facts = said;
	remote->restoring = true;
	remote->restore(remote->restore_data);
	remote->restoring = false;
	remote->restored = NULL;
	remote->sending = TAILQ_FIRST(&remote->batches);
	remote->greeted = true;
	return 1;
}

/* A batch that concerned only the last keeper. */
static struct batch *find_obsolete(const struct remote *remote)
{
	struct batch *batch;

	TAILQ_FOREACH(batch, &remote->batches, entry)
		if (batch->restores || concerns_deposits(batch))
			return batch;
	return NULL;
}

void remote_succeed(struct kernel *kernel, int socket, kernel_restore *restore, void *data)
{
	struct remote *remote = remote_of(kernel);
	struct batch *batch;

	fd_close(kernel->fd);
	kernel->fd = socket;
	remote->failed = 0;
	remote->greeted = false;
	remote_unstall(remote);
	remote->packets = 0;
	remote->restore = restore;
	remote->restore_data = data;
	remote->sending = NULL;
	/* `done` may change the list, so the search begins again. */
	while ((batch = find_obsolete(remote)))
		batch_cancel(remote, batch);
	/* The others are sent again from their first call on. */
	TAILQ_FOREACH(batch, &remote->batches, entry) {
		for (size_t i = 0; i < batch->answered; i++)
			if (message_op_gives_fd(batch->calls[i].op))
				batch->calls[i].fd = fd_close(batch->calls[i].fd);
		batch->sent = 0;
		batch->answered = 0;
	}
}

/* 1; 0 if there is none; or a negative errno after which the keeper is not read any more. */
static int remote_take_packet(struct remote *remote)
{
	_cleanup_(arrival_deinit) struct arrival arrival = { 0 };
	ssize_t n;
	int r;

	n = transport_receive_first_fds(remote->kernel.fd, remote->packet, sizeof(remote->packet), &arrival.fds,
					&arrival.fds_lost, MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n <= 0)
		return n < 0 ? (int)n : -ECONNRESET;
	if (!message_read(remote->packet, (size_t)n, &arrival.header, &arrival.body))
		return -EPROTO;
	if (arrival.header.kind == MESSAGE_FAILED)
		return message_get_failed(arrival.body, remote->kernel.facts.note) ? -ECONNREFUSED : -EPROTO;
	if (arrival.header.kind == MESSAGE_READY && !remote->greeted)
		return remote_greet(remote, arrival.body);
	if (arrival.header.kind != MESSAGE_ANSWERS || !remote->greeted)
		return -EPROTO;
	r = remote_take_answers(remote, &arrival);
	return r < 0 ? r : 1;
}

static int remote_dispatch(struct kernel *kernel)
{
	struct remote *remote = remote_of(kernel);
	int r = 1;

	if (kernel->stalled && clock_ms() >= remote->retry_at) {
		remote_unstall(remote);
		if (remote_send(remote) < 0)
			remote->failed = -ECONNRESET;
	}
	while (r > 0 && !remote->cancelled && remote->failed == 0) {
		r = remote_take_packet(remote);
		if (r > 0 && remote_send(remote) < 0)
			r = -ECONNRESET;
		remote->failed = MIN(r, 0);
	}
	return remote->failed;
}

/* Records do not pass through the daemon. */
static bool remote_page_stats(struct kernel *kernel _unused_, uint32_t page _unused_,
			      struct kernel_page_stats *ret _unused_)
{
	return false;
}

static void remote_free(struct kernel *kernel)
{
	remote_cancel(kernel);
	fd_close(kernel->fd);
	free(remote_of(kernel));
}

static const struct kernel_ops remote_ops = {
	.submit = remote_submit,
	.cancel = remote_cancel,
	.dispatch = remote_dispatch,
	.free = remote_free,
	.page_stats = remote_page_stats,
};

/* Waits for the keeper's first message. */
static int remote_read_ready(struct remote *remote, char why[WIRE_SENTENCE_MAX + 1])
{
	struct pollfd ask = { .fd = remote->kernel.fd, .events = POLLIN };
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct message_header header;
	struct cursor body;
	ssize_t n;
	int r;

	do
		r = poll(&ask, 1, READY_TIMEOUT);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	n = transport_receive_fds(remote->kernel.fd, remote->packet, sizeof(remote->packet), &fds, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 ? (int)n : -ECONNRESET;
	if (!message_read(remote->packet, (size_t)n, &header, &body))
		return -EPROTO;
	if (header.kind == MESSAGE_FAILED)
		return message_get_failed(body, why) ? -ECONNREFUSED : -EPROTO;
	return header.kind == MESSAGE_READY && message_get_ready(body, &remote->kernel.facts) ? 0 : -EPROTO;
}

int remote_new(int socket, struct kernel **ret, char why[WIRE_SENTENCE_MAX + 1])
{
	_cleanup_(freep) struct remote *remote = calloc(1, sizeof(*remote));
	int r;

	if (!remote)
		return -ENOMEM;
	remote->kernel = (struct kernel){ .ops = &remote_ops, .fd = socket };
	remote->greeted = true;
	TAILQ_INIT(&remote->batches);
	TAILQ_INIT(&remote->held);
	r = remote_read_ready(remote, why);
	if (r < 0)
		return r;
	*ret = &steal_pointer(remote)->kernel;
	return 0;
}
