/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/serve.h"

#include <poll.h>
#include <sys/socket.h>

#include "kernel/keeper/deposit.h"
#include "kernel/rpc/message.h"
#include "kernel/user_events/allocate.h"

/*
 * Packets of calls come in, and their answers go back in the same order. The keeper reads the next packet while the kernel is busy
 * with those before. The daemon faces untrusted clients, so the keeper does not trust it: an invalid packet is refused with a
 * sentence, none of it is carried out, and the connection ends. Deposits do not concern the kernel and are carried out here, in
 * their turn.
 */

enum {
	PACKETS_MAX = 16, /* not answered; more wait in the socket */
	RETRY_MS = 20,	  /* after ETOOMANYREFS */
};

/* A packet that is not answered. */
struct work {
	struct keeper *keeper;
	size_t under_way; /* submissions that the kernel has not answered, and one until everything is submitted */
	size_t n;
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char texts[MESSAGE_MAX]; /* shorter than the packet that contained them */
};

struct keeper {
	int socket;
	struct kernel *kernel;
	struct deposit_box *box; /* or NULL */
	bool stalled;		 /* too many fds are in flight: the oldest answer waits, and all behind it */
	size_t first;		 /* the oldest */
	size_t n;
	struct work work[PACKETS_MAX]; /* a ring */
	struct message_packet message; /* received last */
};

void keeper_refuse(int socket, const char *sentence)
{
	struct kernel_facts facts = { 0 };

	string_copy(facts.note, WIRE_SENTENCE_MAX + 1, sentence);
	message_send_facts(socket, MESSAGE_FAILED, &facts);
}

static void work_close_fds(struct work *work)
{
	for (size_t i = 0; i < work->n; i++)
		work->calls[i].fd = fd_close(work->calls[i].fd);
}

static void keeper_answer(struct keeper *keeper)
{
	keeper->stalled = false;
	while (keeper->n > 0 && keeper->work[keeper->first].under_way == 0) {
		struct work *work = &keeper->work[keeper->first];
		int r = message_send(keeper->socket, keeper->message.packet, MESSAGE_ANSWERS, work->calls, work->n);

		/* The kernel counts fds in flight for all programs of a user, so other programs can leave no room. */
		keeper->stalled = r == -ETOOMANYREFS;
		if (keeper->stalled)
			return;
		/* Usually the daemon has gone. After a lost answer the daemon would take the next answer for it, so any error ends the connection. */
		if (r < 0)
			shutdown(keeper->socket, SHUT_RDWR);
		work_close_fds(work);
		keeper->first = (keeper->first + 1) % PACKETS_MAX;
		keeper->n--;
	}
}

static void work_on_done(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct work *work = data;

	if (--work->under_way == 0)
		keeper_answer(work->keeper);
}

/* False: the message is invalid, or has not the fds that its calls announce. */
static bool work_read(struct work *work, struct message_packet *message)
{
	char *text = work->texts;
	size_t back = 0;

	work->n = 0;
	if (message->header.kind != MESSAGE_CALLS || message->header.count == 0 ||
	    message->header.count > MESSAGE_CALLS_MAX)
		return false;
	for (; work->n < message->header.count; work->n++) {
		struct kernel_call *call = &work->calls[work->n];

		if (!message_next_call(message, call, &text))
			return false;
		back += message_op(call->op)->gives_fd;
	}
	return back <= MESSAGE_FDS_MAX && message_is_done(message);
}

static void work_submit(struct work *work, size_t from, size_t n)
{
	if (n == 0)
		return;
	work->under_way++;
	kernel_submit(work->keeper->kernel, work->calls + from, n, work_on_done, work);
}

/* Carries out deposits, which do not concern the kernel, and submits the calls between them together. */
static void work_carry_out(struct work *work)
{
	struct deposit_box *box = work->keeper->box;
	size_t from = 0;

	work->under_way = 1;
	for (size_t i = 0; i < work->n; i++) {
		struct kernel_call *call = &work->calls[i];

		/* A call with a result lacks its fd. */
		if (call->result == 0 && !(box && deposit_carry_out(box, call)))
			continue;
		work_submit(work, from, i - from);
		from = i + 1;
	}
	work_submit(work, from, work->n - from);
	work_on_done(work, work->calls, work->n);
}

/* 1, 0 at the end, or a negative errno. */
static int keeper_receive(struct keeper *keeper)
{
	struct work *work = &keeper->work[(keeper->first + keeper->n) % PACKETS_MAX];
	int r = message_receive(keeper->socket, &keeper->message);
	bool good;

	if (r == -EAGAIN || r == -EINTR)
		return 1;
	if (r <= 0 && r != -EMSGSIZE && r != -EPROTO)
		return 0;
	work->keeper = keeper;
	work->n = 0;
	good = r > 0 && work_read(work, &keeper->message);
	message_deinit(&keeper->message);
	if (!good) {
		work_close_fds(work);
		/* Earlier packets are answered first. */
		kernel_cancel(keeper->kernel);
		keeper_refuse(keeper->socket, "the keeper got an invalid packet, and ends the connection");
		return -EPROTO;
	}
	keeper->n++;
	work_carry_out(work);
	return 1;
}

static int keeper_loop(struct keeper *keeper)
{
	int r = 1;

	while (r > 0) {
		const bool is_full = keeper->n == PACKETS_MAX;
		struct pollfd ask[] = {
			{ .fd = keeper->socket, .events = is_full ? 0 : POLLIN },
			{ .fd = keeper->kernel->fd, .events = POLLIN },
		};

		if (poll(ask, ARRAY_SIZE(ask), keeper->stalled ? RETRY_MS : -1) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (keeper->stalled)
			keeper_answer(keeper);
		if (ask[1].revents) {
			r = kernel_dispatch(keeper->kernel);
			if (r < 0)
				return r;
			r = 1;
		}
		if (!ask[0].revents)
			continue;
		/* No POLLIN was asked for, so the daemon has gone. */
		if (is_full)
			return 0;
		r = keeper_receive(keeper);
	}
	return r;
}

int keeper_serve(int socket, struct kernel *kernel, struct deposit_box *box)
{
	struct keeper *keeper = keeper_allocate(sizeof(*keeper));
	struct kernel_facts facts = kernel->facts;
	int r = 0;

	keeper->socket = socket;
	keeper->kernel = kernel;
	keeper->box = box;
	facts.deposits = box != NULL;
	if (message_send_facts(socket, MESSAGE_READY, &facts) == 0)
		r = keeper_loop(keeper);
	/* Calls that are under way are carried out, although no daemon reads the answers. */
	kernel_cancel(kernel);
	for (; keeper->n > 0; keeper->n--) {
		work_close_fds(&keeper->work[keeper->first]);
		keeper->first = (keeper->first + 1) % PACKETS_MAX;
	}
	free(keeper);
	return r;
}
