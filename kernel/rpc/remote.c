/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <poll.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "kernel/rpc/message.h"
#include "protocol/base/clock.h"

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
	PACKETS_MAX = 4,       /* of answers that are handled in one turn of the loop, up to half a millisecond */
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
	bool greeted;	/* the keeper is ready */
	bool restoring; /* batches that are submitted are for this keeper alone */
	bool cancelled;
	int failed; /* a negative errno: the keeper has gone, or has sent something invalid, and is not read any more */
	struct message_packet message; /* received last */
};

static struct remote *remote_of(struct kernel *kernel)
{
	return container_of(kernel, struct remote, kernel);
}

static void close_brought(struct kernel_call *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (message_op(calls[i].op)->takes_fd)
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
		int r;

		if (remote->kernel.stalled && concerns_deposits(batch)) {
			remote_stall(remote, batch);
			continue;
		}
		r = message_send(remote->kernel.fd, remote->message.packet, MESSAGE_CALLS, batch->calls + batch->sent,
				 batch->n - batch->sent);
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
		remote->under_way[remote->packets++] = (size_t)r;
		batch->sent += (size_t)r;
		if (batch->sent == batch->n)
			remote->sending = TAILQ_NEXT(batch, entry);
	}
	return 0;
}

static void remote_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	struct remote *remote = remote_of(kernel);
	struct batch *batch = NULL;

	if (n > 0 && !remote->cancelled)
		batch = malloc(sizeof(*batch) + (done ? 0 : n * sizeof(*calls)));
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
		if (!message_op(calls[i].op)->takes_fd)
			batch->calls[i].fd = -1;
	TAILQ_INSERT_TAIL(&remote->batches, batch, entry);
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

static int remote_take_answers(struct remote *remote)
{
	struct batch *batch = TAILQ_FIRST(&remote->batches);
	struct kernel_call frees[MESSAGE_FDS_MAX];
	size_t first_free = MESSAGE_FDS_MAX;

	if (remote->packets == 0 || remote->message.header.count != remote->under_way[0])
		return -EPROTO;
	for (size_t i = 0; i < remote->under_way[0]; i++, batch->answered++) {
		struct kernel_call *call = &batch->calls[batch->answered];
		const enum kernel_op undo = message_op(call->op)->undo;

		if (!message_next_answer(&remote->message, call))
			return -EPROTO;
		/* Perhaps the keeper has made it. From the end on: a page is freed after the streams that were made for it. */
		if (undo != 0 && call->result == -EMFILE)
			frees[--first_free] = (struct kernel_call){
				.op = undo,
				.page = call->page,
				.stream = call->stream,
				.fd = -1,
			};
	}
	if (!message_is_done(&remote->message))
		return -EPROTO;
	remote->packets--;
	memmove(remote->under_way, remote->under_way + 1, remote->packets * sizeof(remote->under_way[0]));
	/* Before `done`, which may ask for the same again. */
	if (first_free < MESSAGE_FDS_MAX)
		kernel_submit(&remote->kernel, frees + first_free, MESSAGE_FDS_MAX - first_free, NULL, NULL);
	if (batch->answered == batch->n)
		batch_finish(remote, batch);
	return 0;
}

/* --- a keeper's successor --- */

/* A keeper's first message. 0 or a negative errno. */
static int remote_greet(struct remote *remote)
{
	struct kernel_facts *facts = &remote->kernel.facts, said;
	struct batch_queue waiting = TAILQ_HEAD_INITIALIZER(waiting);
	const char *problem = NULL;

	if (!message_get_facts(&remote->message, &said))
		return -EPROTO;
	if (!remote->restore) {
		*facts = said;
		remote->greeted = true;
		return 0;
	}
	if (said.backend != facts->backend)
		problem = "the new keeper has another backend than the one before";
	else if (said.page_bits < facts->page_bits)
		problem = "the new keeper has smaller pages than the one before";
	if (problem) {
		string_copy(facts->note, sizeof(facts->note), problem);
		return -ESTALE;
	}
	/* The daemon has based its limits on these. */
	said.page_bits = facts->page_bits;
	said.capacity = facts->capacity;
	*facts = said;
	/* Batches of `restore` come first. */
	TAILQ_CONCAT(&waiting, &remote->batches, entry);
	remote->restoring = true;
	remote->restore(remote->restore_data);
	remote->restoring = false;
	TAILQ_CONCAT(&remote->batches, &waiting, entry);
	remote->sending = TAILQ_FIRST(&remote->batches);
	remote->greeted = true;
	return 0;
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
	/* Batches that concerned only the last keeper. `done` may change the list, so the search begins again. */
	do {
		TAILQ_FOREACH(batch, &remote->batches, entry)
			if (batch->restores || concerns_deposits(batch))
				break;
		if (batch)
			batch_cancel(remote, batch);
	} while (batch);
	/* The others are sent again from their first call on. */
	TAILQ_FOREACH(batch, &remote->batches, entry) {
		for (size_t i = 0; i < batch->answered; i++)
			if (message_op(batch->calls[i].op)->gives_fd)
				batch->calls[i].fd = fd_close(batch->calls[i].fd);
		batch->sent = 0;
		batch->answered = 0;
	}
}

static int remote_take_message(struct remote *remote)
{
	struct message_packet *message = &remote->message;
	struct kernel_facts said;

	if (message->header.kind == MESSAGE_ANSWERS && remote->greeted)
		return remote_take_answers(remote);
	if (message->header.kind == MESSAGE_READY && !remote->greeted)
		return remote_greet(remote);
	if (message->header.kind != MESSAGE_FAILED || !message_get_facts(message, &said))
		return -EPROTO;
	string_copy(remote->kernel.facts.note, sizeof(said.note), said.note);
	return -ECONNREFUSED;
}

/* 1; 0 if there is none; or a negative errno after which the keeper is not read any more. */
static int remote_take_packet(struct remote *remote)
{
	int r = message_receive(remote->kernel.fd, &remote->message);

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r > 0)
		r = remote_take_message(remote);
	else if (r == 0)
		r = -ECONNRESET;
	fdset_deinit(&remote->message.fds);
	return r < 0 ? r : 1;
}

static int remote_dispatch(struct kernel *kernel)
{
	struct remote *remote = remote_of(kernel);
	unsigned left = PACKETS_MAX;
	int r = 1;

	if (kernel->stalled && clock_ms() >= remote->retry_at) {
		remote_unstall(remote);
		if (remote_send(remote) < 0)
			remote->failed = -ECONNRESET;
	}
	/* The last packet that is due is usually the last that there is: the loop finds any other. */
	while (left-- > 0 && r > 0 && !remote->cancelled && remote->failed == 0) {
		r = remote_take_packet(remote);
		if (r > 0 && remote_send(remote) < 0)
			r = -ECONNRESET;
		remote->failed = MIN(r, 0);
		left = MIN(left, (unsigned)remote->packets);
	}
	return remote->failed;
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
};

int remote_new(int socket, struct kernel **ret, char why[WIRE_SENTENCE_MAX + 1])
{
	_cleanup_(freep) struct remote *remote = calloc(1, sizeof(*remote));
	struct pollfd ask = { .fd = socket, .events = POLLIN };
	int r;

	if (!remote)
		return -ENOMEM;
	remote->kernel = (struct kernel){ .ops = &remote_ops, .fd = socket };
	TAILQ_INIT(&remote->batches);
	TAILQ_INIT(&remote->held);
	do
		r = poll(&ask, 1, READY_TIMEOUT);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	r = remote_take_packet(remote);
	if (r == -ECONNREFUSED)
		string_copy(why, WIRE_SENTENCE_MAX + 1, remote->kernel.facts.note);
	if (r <= 0)
		return r < 0 ? r : -EAGAIN;
	*ret = &steal_pointer(remote)->kernel;
	return 0;
}
