/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/serve.h"

#include <poll.h>
#include <sys/socket.h>

#include "kernel/keeper/deposit.h"
#include "kernel/rpc/message.h"
#include "kernel/user_events/allocate.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"

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
	bool has_fd[MESSAGE_CALLS_MAX];
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
	uint8_t packet[MESSAGE_MAX];
};

void keeper_refuse(int socket, const char *sentence)
{
	uint8_t buffer[sizeof(struct message_header) + sizeof(uint32_t) + WIRE_SENTENCE_MAX + 4];
	struct packet packet = packet_make(buffer, sizeof(buffer));

	message_put_failed(&packet, sentence);
	transport_send(socket, packet.data, packet.size, NULL, 0, 0);
}

static void work_close_fds(struct work *work)
{
	for (size_t i = 0; i < work->n; i++)
		work->calls[i].fd = fd_close(work->calls[i].fd);
}

/* False: not now. The kernel counts fds in flight for all programs of a user, so other programs can leave no room. */
static bool work_answer(struct work *work)
{
	struct keeper *keeper = work->keeper;
	struct packet packet = packet_make(keeper->packet, sizeof(keeper->packet));
	int fds[MESSAGE_FDS_MAX], r;
	size_t n_fds = 0;

	message_put_answers(&packet, work->calls, work->n);
	for (size_t i = 0; i < work->n; i++)
		if (work->calls[i].fd >= 0)
			fds[n_fds++] = work->calls[i].fd;
	r = transport_send(keeper->socket, packet.data, packet.size, fds, n_fds, 0);
	if (r == -ETOOMANYREFS)
		return false;
	/* Usually the daemon has gone; without this answer the next one would be taken for it, so any error ends the connection. */
	if (r < 0)
		shutdown(keeper->socket, SHUT_RDWR);
	work_close_fds(work);
	return true;
}

static void keeper_answer(struct keeper *keeper)
{
	keeper->stalled = false;
	while (keeper->n > 0 && keeper->work[keeper->first].under_way == 0) {
		keeper->stalled = !work_answer(&keeper->work[keeper->first]);
		if (keeper->stalled)
			return;
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

/* Reads the packet in `keeper->packet`. False: it is invalid, or has not the fds that its calls announce. */
static bool work_read(struct work *work, size_t size, const struct fdset *fds, bool fds_lost)
{
	struct message_header header;
	char *text = work->texts;
	size_t there = 0, back = 0;
	struct cursor body;

	if (!message_read(work->keeper->packet, size, &header, &body) || header.kind != MESSAGE_CALLS ||
	    header.count == 0 || header.count > MESSAGE_CALLS_MAX)
		return false;
	work->n = header.count;
	for (size_t i = 0; i < work->n; i++) {
		if (!message_next_call(&body, &work->calls[i], text, &work->has_fd[i]))
			return false;
		text += strlen(text) + 1;
		there += work->has_fd[i];
		back += message_op_gives_fd(work->calls[i].op);
	}
	return there <= MESSAGE_FDS_MAX && back <= MESSAGE_FDS_MAX && cursor_done(&body) &&
	       (fds_lost ? fds->count < there : fds->count == there);
}

static void work_submit(struct work *work, size_t from, size_t n)
{
	if (n == 0)
		return;
	work->under_way++;
	kernel_submit(work->keeper->kernel, work->calls + from, n, work_on_done, work);
}

/* Carries out deposits, and submits the calls between them together. */
static void work_carry_out(struct work *work)
{
	struct deposit_box *box = work->keeper->box;
	size_t from = 0;

	work->under_way = 1;
	for (size_t i = 0; i < work->n; i++) {
		struct kernel_call *call = &work->calls[i];
		const bool lacks_fd = work->has_fd[i] && call->fd < 0;

		if (box && call->op == KERNEL_DISOWN)
			deposit_disown(box);
		if (!lacks_fd && !(box && deposit_is_op(call->op)))
			continue;
		work_submit(work, from, i - from);
		from = i + 1;
		if (lacks_fd)
			call->result = -EMFILE;
		else
			deposit_carry_out(box, call);
	}
	work_submit(work, from, work->n - from);
	work_on_done(work, work->calls, work->n);
}

/* 1, 0 at the end, or a negative errno. */
static int keeper_receive(struct keeper *keeper)
{
	struct work *work = &keeper->work[(keeper->first + keeper->n) % PACKETS_MAX];
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	bool fds_lost = false;
	size_t next = 0;
	ssize_t n;

	work->keeper = keeper;
	n = transport_receive_first_fds(keeper->socket, keeper->packet, sizeof(keeper->packet), &fds, &fds_lost,
					MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EINTR)
		return 1;
	if (n == 0 || (n < 0 && n != -EMSGSIZE && n != -EPROTO))
		return 0;
	if (n < 0 || !work_read(work, (size_t)n, &fds, fds_lost)) {
		/* Earlier packets are answered first. */
		kernel_cancel(keeper->kernel);
		keeper_refuse(keeper->socket, "the keeper got an invalid packet, and ends the connection");
		return -EPROTO;
	}
	/* If an fd was lost nobody knows whose it was, so all calls with an fd fail. */
	for (size_t i = 0; i < work->n && !fds_lost; i++)
		if (work->has_fd[i])
			work->calls[i].fd = fdset_steal(&fds, next++);
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
	struct packet packet = packet_make(keeper->packet, sizeof(keeper->packet));
	struct kernel_facts facts = kernel->facts;
	int r = 0;

	keeper->socket = socket;
	keeper->kernel = kernel;
	keeper->box = box;
	facts.deposits = box;
	message_put_ready(&packet, &facts);
	if (transport_send(socket, packet.data, packet.size, NULL, 0, 0) == 0)
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
