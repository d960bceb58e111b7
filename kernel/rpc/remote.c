/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <poll.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "kernel/rpc/message.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"

/*
 * The keeper, as the daemon sees it. Batches wait in a queue and leave as packets, as many of them at a time as
 * the keeper takes at once and the socket holds: sending never waits. The keeper answers in the order in which it was asked: an answer is
 * always for the oldest call that has none.
 *
 * What an answer brings may find no room among our fds. Then the call has failed: the keeper has to free what it made,
 * with all that later calls may have registered on it. What a call brings is ours until it is answered, since it may have to
 * be said again: to the keeper that takes the place of this one.
 *
 * Where too many fds of all programs of this user are in flight, what brings an fd has to wait. Deposits wait apart, in their
 * order, so that nobody who registers or releases events has to wait for them.
 */

enum {
	WINDOW = 16,		/* packets under way: what the keeper reads before it answers */
	STALLED_MS = 20,	/* before what is held back is tried again */
	READY_PATIENCE = 30000, /* ms: the keeper may be loading the guard on a busy machine */
};

TAILQ_HEAD(batch_queue, batch);

struct batch {
	TAILQ_ENTRY(batch) entry;
	struct kernel_call *calls;
	size_t n;
	size_t sent;
	size_t answered;
	bool restores; /* said to a new keeper before anything else, and to nobody else */
	kernel_done *done;
	void *data;
	struct kernel_call copy[]; /* where nobody waits */
};

struct remote {
	struct kernel kernel;
	struct batch_queue batches;
	struct batch *sending;	  /* the first that is not wholly sent */
	struct batch_queue held;  /* deposits and withdrawals, while the kernel is stalled */
	int64_t retry_at;	  /* those, in milliseconds */
	size_t under_way[WINDOW]; /* calls in each packet, the oldest first */
	size_t packets;
	kernel_restore *restore; /* until the new keeper is ready */
	void *restore_data;
	bool greeted;		/* it is */
	bool restoring;		/* what is submitted goes behind: */
	struct batch *restored; /* NULL: before all others */
	bool cancelled;
	int failed; /* a negative errno: the keeper has gone, or what came was not understood, nor what comes later */
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

static void finish(struct remote *remote, struct batch *batch)
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

static void answer_all(struct kernel_call *calls, size_t n, int result)
{
	close_brought(calls, n);
	for (size_t i = 0; i < n; i++) {
		calls[i].result = result;
		calls[i].fd = -1;
	}
}

static size_t collect_fds(const struct kernel_call *calls, size_t n, int fds[MESSAGE_FDS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (message_op_takes_fd(calls[i].op) && calls[i].fd >= 0)
			fds[count++] = calls[i].fd;
	return count;
}

/* The next `most` calls of the batch, if they fit; `ret_n`: how many. 0 or a negative errno. */
static int send_packet(struct remote *remote, const struct batch *batch, size_t most, size_t *ret_n)
{
	struct packet packet = packet_make(remote->packet, sizeof(remote->packet));
	const struct kernel_call *calls = batch->calls + batch->sent;
	size_t n = message_put_calls(&packet, calls, most);
	int fds[MESSAGE_FDS_MAX];

	*ret_n = n;
	return n > 0 ? transport_send(remote->kernel.fd, packet.data, packet.size, fds, collect_fds(calls, n, fds),
				      MSG_DONTWAIT)
		     : -E2BIG;
}

static bool is_passing(int error)
{
	return error == -EAGAIN || error == -ETOOMANYREFS || error == -ENOMEM || error == -ENOBUFS;
}

static int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Nothing else that is asked depends on it. */
static bool concerns_deposits(const struct batch *batch)
{
	const enum kernel_op op = batch->calls[0].op;

	return batch->n == 1 && (op == KERNEL_DEPOSIT || op == KERNEL_WITHDRAW);
}

/* No fd is on its way to the keeper, for whose answer could be waited. Whether there is something else to send. */
static bool stall(struct remote *remote, struct batch *batch)
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

/* Behind all that was not held back. */
static void stall_no_more(struct remote *remote)
{
	remote->kernel.stalled = false;
	if (!remote->sending)
		remote->sending = TAILQ_FIRST(&remote->held);
	TAILQ_CONCAT(&remote->batches, &remote->held, entry);
}

/* 0, or a negative errno after which nothing can be sent any more. */
static int send_more(struct remote *remote)
{
	while (remote->sending && remote->packets < WINDOW && remote->greeted && remote->failed == 0) {
		struct batch *batch = remote->sending;
		size_t n;
		int r;

		if (remote->kernel.stalled && concerns_deposits(batch)) {
			stall(remote, batch);
			continue;
		}
		r = send_packet(remote, batch, batch->n - batch->sent, &n);
		/* It goes on when those that fill the queue, or memory, are answered. */
		if (is_passing(r) && remote->packets > 0)
			return 0;
		if (r == -ETOOMANYREFS && stall(remote, batch))
			continue;
		if (r == -ETOOMANYREFS)
			return 0;
		if (r < 0)
			return r;
		remote->under_way[remote->packets++] = n;
		batch->sent += n;
		if (batch->sent == batch->n)
			remote->sending = TAILQ_NEXT(batch, entry);
	}
	return 0;
}

static struct batch *batch_new(struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct batch *batch = malloc(sizeof(*batch) + (done ? 0 : n * sizeof(*calls)));

	if (!batch)
		return NULL;
	*batch = (struct batch){ .calls = calls, .n = n, .done = done, .data = data };
	if (!done) {
		memcpy(batch->copy, calls, n * sizeof(*calls));
		batch->calls = batch->copy;
	}
	for (size_t i = 0; i < n; i++)
		if (!message_op_takes_fd(calls[i].op))
			batch->calls[i].fd = -1;
	return batch;
}

static void enqueue(struct remote *remote, struct batch *batch)
{
	batch->restores = remote->restoring;
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
}

static void remote_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct remote *remote = remote_of(kernel);
	struct batch *batch = n > 0 && !remote->cancelled ? batch_new(calls, n, done, data) : NULL;

	if (!batch) {
		/* What nobody waits for is left undone: it goes on being charged, but to nobody else. */
		answer_all(calls, n, remote->cancelled ? -ECANCELED : -ENOMEM);
		if (done)
			done(data, calls, n);
		return;
	}
	enqueue(remote, batch);
	/* Whatever is wrong with the socket is found, and said, by the next dispatch. */
	if (send_more(remote) < 0)
		shutdown(kernel->fd, SHUT_RDWR);
}

static void remote_cancel(struct kernel *kernel)
{
	struct remote *remote = remote_of(kernel);
	struct batch *batch;

	remote->cancelled = true;
	stall_no_more(remote);
	remote->sending = NULL;
	while ((batch = TAILQ_FIRST(&remote->batches))) {
		answer_all(batch->calls + batch->answered, batch->n - batch->answered, -ECANCELED);
		finish(remote, batch);
	}
	remote->packets = 0;
}

/* A packet of answers, while they are given to those who asked. */
struct arrival {
	struct message_header header;
	struct cursor body;
	struct fdset fds;
	size_t next_fd;
	bool fds_lost; /* there was no room in this process for those behind the ones in `fds` */
	size_t n_lost; /* calls that would have got them */
	size_t n_frees;
	struct kernel_call frees[MESSAGE_FDS_MAX]; /* the last ones of these make it undone in the keeper */
};

static void arrival_deinit(struct arrival *arrival)
{
	fdset_deinit(&arrival->fds);
}

/* From the end on: a page goes behind the streams that were made for it. */
static void lose(struct arrival *arrival, struct kernel_call *call)
{
	call->result = -EMFILE;
	arrival->n_lost++;
	if (message_op_makes(call->op))
		arrival->frees[MESSAGE_FDS_MAX - ++arrival->n_frees] = message_undo(call);
}

static int take_fd(struct arrival *arrival, struct kernel_call *call)
{
	call->fd = fdset_steal(&arrival->fds, arrival->next_fd++);
	if (call->fd < 0 && !arrival->fds_lost)
		return -EPROTO;
	if (call->fd < 0)
		lose(arrival, call);
	return 0;
}

static int take_answer(struct batch *batch, struct arrival *arrival)
{
	struct kernel_call *call = &batch->calls[batch->answered];
	bool has_fd;
	int r;

	if (!message_next_answer(&arrival->body, call, &has_fd))
		return -EPROTO;
	if (has_fd != (call->result == KERNEL_OK && message_op_gives_fd(call->op)))
		return -EPROTO;
	r = has_fd ? take_fd(arrival, call) : 0;
	if (r < 0)
		return r;
	batch->answered++;
	return 0;
}

/* Nothing is left over; nor was anything lost that nobody mentions. */
static bool is_used_up(const struct arrival *arrival)
{
	return cursor_done(&arrival->body) && arrival->next_fd == arrival->fds.count + arrival->n_lost &&
	       arrival->fds_lost == (arrival->n_lost > 0);
}

static int take_answers(struct remote *remote, struct arrival *arrival)
{
	struct batch *batch = TAILQ_FIRST(&remote->batches);

	if (remote->packets == 0 || arrival->header.count != remote->under_way[0])
		return -EPROTO;
	for (size_t i = 0; i < arrival->header.count; i++) {
		int r = take_answer(batch, arrival);

		if (r < 0)
			return r;
	}
	if (!is_used_up(arrival))
		return -EPROTO;
	remote->packets--;
	memmove(remote->under_way, remote->under_way + 1, remote->packets * sizeof(remote->under_way[0]));
	/* Before anybody is told, who may ask for the same once more. */
	if (arrival->n_frees > 0)
		kernel_submit(&remote->kernel, arrival->frees + MESSAGE_FDS_MAX - arrival->n_frees, arrival->n_frees,
			      NULL, NULL);
	if (batch->answered == batch->n)
		finish(remote, batch);
	return 0;
}

/* --- a keeper in the place of another --- */

static int refuse_successor(struct kernel_facts *facts, const char *sentence)
{
	snprintf(facts->note, sizeof(facts->note), "%s", sentence);
	return -ESTALE;
}

/* What has been reckoned with stays as it was. */
static int take_facts(struct kernel_facts *facts, const struct kernel_facts *said)
{
	const uint32_t page_bits = facts->page_bits, capacity = facts->capacity;

	if (said->backend != facts->backend)
		return refuse_successor(facts, "the new keeper has another backend than the one before");
	if (said->page_bits < page_bits)
		return refuse_successor(facts, "the new keeper has smaller pages than the one before");
	*facts = *said;
	facts->page_bits = page_bits;
	facts->capacity = capacity;
	return 0;
}

/* The first words of one that takes another's place. 1, or a negative errno. */
static int greet(struct remote *remote, struct cursor body)
{
	struct kernel_facts said;
	int r;

	if (!message_get_ready(body, &said))
		return -EPROTO;
	r = take_facts(&remote->kernel.facts, &said);
	if (r < 0)
		return r;
	remote->restoring = true;
	remote->restore(remote->restore_data);
	remote->restoring = false;
	remote->restored = NULL;
	remote->sending = TAILQ_FIRST(&remote->batches);
	remote->greeted = true;
	return 1;
}

/* To be asked from the first call on. */
static void rewind_batch(struct batch *batch)
{
	for (size_t i = 0; i < batch->answered; i++)
		if (message_op_gives_fd(batch->calls[i].op))
			batch->calls[i].fd = fd_close(batch->calls[i].fd);
	batch->sent = 0;
	batch->answered = 0;
}

/* What was said to the last one alone: another one is told all of that anew. */
static bool is_over(const struct batch *batch)
{
	return batch->restores || concerns_deposits(batch);
}

static struct batch *find_over(const struct remote *remote)
{
	struct batch *batch;

	TAILQ_FOREACH(batch, &remote->batches, entry)
		if (is_over(batch))
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
	stall_no_more(remote);
	remote->packets = 0;
	remote->restore = restore;
	remote->restore_data = data;
	remote->sending = NULL;
	while ((batch = find_over(remote))) {
		answer_all(batch->calls + batch->answered, batch->n - batch->answered, -ECANCELED);
		finish(remote, batch);
	}
	TAILQ_FOREACH(batch, &remote->batches, entry)
		rewind_batch(batch);
}

/* 1; 0: nothing there; or a negative errno: the end. */
static int take_packet(struct remote *remote)
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
		return greet(remote, arrival.body);
	if (arrival.header.kind != MESSAGE_ANSWERS || !remote->greeted)
		return -EPROTO;
	r = take_answers(remote, &arrival);
	return r < 0 ? r : 1;
}

static int remote_dispatch(struct kernel *kernel)
{
	struct remote *remote = remote_of(kernel);
	int r = 1;

	if (kernel->stalled && clock_ms() >= remote->retry_at) {
		stall_no_more(remote);
		if (send_more(remote) < 0)
			remote->failed = -ECONNRESET;
	}
	while (r > 0 && !remote->cancelled && remote->failed == 0) {
		r = take_packet(remote);
		if (r > 0 && send_more(remote) < 0)
			r = -ECONNRESET;
		remote->failed = MIN(r, 0);
	}
	return remote->failed;
}

/* Records go past us. */
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

/* The keeper's first words. */
static int read_ready(struct remote *remote, char why[WIRE_SENTENCE_MAX + 1])
{
	struct pollfd ask = { .fd = remote->kernel.fd, .events = POLLIN };
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct message_header header;
	struct cursor body;
	ssize_t n;
	int r;

	do
		r = poll(&ask, 1, READY_PATIENCE);
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
	r = read_ready(remote, why);
	if (r < 0)
		return r;
	*ret = &steal_pointer(remote)->kernel;
	return 0;
}
