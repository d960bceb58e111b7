/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/serve.h"

#include <poll.h>
#include <sys/socket.h>

#include "kernel/keeper/deposit.h"
#include "kernel/rpc/message.h"
#include "kernel/user_events/allocate.h"

/*
 * A packet of calls comes in, is carried out, and its answers go back before the next is read. The daemon faces untrusted clients, so the
 * keeper does not trust it: an invalid packet is refused with a sentence, none of it is carried out, and the connection ends. Deposits do
 * not concern the kernel and are carried out here, in their turn.
 */

enum { RETRY_MS = 20 }; /* after ETOOMANYREFS */

struct keeper {
	int socket;
	struct kernel *kernel;	 /* the answers are in the calls when kernel_submit() returns */
	struct deposit_box *box; /* or NULL */
	bool stalled;		 /* too many fds are in flight: the answers wait */
	size_t n;
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	char texts[MESSAGE_MAX]; /* shorter than the packet that contained them */
	struct message_packet message;
};

void keeper_refuse(int socket, const char *sentence)
{
	struct kernel_facts facts = { 0 };

	string_copy(facts.note, WIRE_SENTENCE_MAX + 1, sentence);
	message_send_facts(socket, MESSAGE_FAILED, &facts);
}

static void keeper_forget_calls(struct keeper *keeper)
{
	for (size_t i = 0; i < keeper->n; i++)
		fd_close(keeper->calls[i].fd);
	keeper->n = 0;
	keeper->stalled = false;
}

static void keeper_answer(struct keeper *keeper)
{
	int r = message_send(keeper->socket, keeper->message.packet, MESSAGE_ANSWERS, keeper->calls, keeper->n);

	/* The kernel counts fds in flight for all programs of a user, so other programs can leave no room. */
	keeper->stalled = r == -ETOOMANYREFS;
	if (keeper->stalled)
		return;
	/*
	 * Usually the daemon has gone, but what it has sent is still carried out. After a lost answer it would take the next answer for
	 * it, so any error ends the connection.
	 */
	if (r < 0)
		shutdown(keeper->socket, SHUT_RDWR);
	keeper_forget_calls(keeper);
}

/* False: the message is invalid, or has not the fds that its calls announce. */
static bool keeper_read(struct keeper *keeper)
{
	struct message_packet *message = &keeper->message;
	char *text = keeper->texts;
	size_t back = 0;

	if (message->header.kind != MESSAGE_CALLS || message->header.count == 0 ||
	    message->header.count > MESSAGE_CALLS_MAX)
		return false;
	for (; keeper->n < message->header.count; keeper->n++) {
		struct kernel_call *call = &keeper->calls[keeper->n];

		if (!message_next_call(message, call, &text))
			return false;
		back += message_op(call->op)->gives_fd;
	}
	return back <= MESSAGE_FDS_MAX && message_is_done(message);
}

/* Carries out deposits, which do not concern the kernel, and submits the calls between them together. */
static void keeper_carry_out(struct keeper *keeper)
{
	size_t from = 0;

	for (size_t i = 0; i < keeper->n; i++) {
		struct kernel_call *call = &keeper->calls[i];

		/* A call with a result lacks its fd. */
		if (call->result == 0 && !(keeper->box && deposit_carry_out(keeper->box, call)))
			continue;
		kernel_submit(keeper->kernel, keeper->calls + from, i - from, NULL, NULL);
		from = i + 1;
	}
	kernel_submit(keeper->kernel, keeper->calls + from, keeper->n - from, NULL, NULL);
}

/* 1, 0 at the end, or a negative errno. */
static int keeper_receive(struct keeper *keeper)
{
	int r = message_receive(keeper->socket, &keeper->message);
	bool good;

	/* ECONNRESET comes once, from a daemon that has gone without reading all answers; what it has sent is still there. */
	if (r == -EAGAIN || r == -EINTR || r == -ECONNRESET)
		return 1;
	if (r <= 0 && r != -EMSGSIZE && r != -EPROTO)
		return 0;
	good = r > 0 && keeper_read(keeper);
	fdset_deinit(&keeper->message.fds);
	if (!good) {
		keeper_refuse(keeper->socket, "the keeper got an invalid packet, and ends the connection");
		return -EPROTO;
	}
	keeper_carry_out(keeper);
	keeper_answer(keeper);
	return 1;
}

static int keeper_loop(struct keeper *keeper)
{
	int r = 1;

	while (r > 0) {
		struct pollfd ask[] = {
			{ .fd = keeper->socket, .events = keeper->stalled ? 0 : POLLIN },
			{ .fd = keeper->kernel->fd, .events = POLLIN },
		};

		if (poll(ask, ARRAY_SIZE(ask), keeper->stalled ? RETRY_MS : -1) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (ask[1].revents) {
			r = kernel_dispatch(keeper->kernel);
			if (r < 0)
				return r;
			r = 1;
		}
		/* No POLLIN was asked for if answers wait, so the daemon that waited for them has gone. */
		if (ask[0].revents) {
			keeper_forget_calls(keeper);
			r = keeper_receive(keeper);
		} else if (keeper->stalled) {
			keeper_answer(keeper);
		}
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
	keeper_forget_calls(keeper);
	free(keeper);
	return r;
}
