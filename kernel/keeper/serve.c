/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/serve.h"

#include <poll.h>
#include <sys/socket.h>

#include "kernel/keeper/deposit.h"
#include "kernel/rpc/message.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"

/*
 * Packets of calls come, and their answers go back in the same order. The next packet is read while the kernel is busy with
 * those before. The daemon faces strangers, so it is checked as a stranger: what makes no sense is refused in words, nothing of
 * it is done, and nothing that it asks later. What it deposits is no business of the kernel's, and is taken here, in its turn.
 */

enum {
	PACKETS_MAX = 16, /* that are not answered; more wait in the socket */
	MEMORY_PAUSE_US = 10000,
	MEMORY_TRIES = 500,
	LATER_MS = 20, /* after ETOOMANYREFS */
};

struct work {
	struct keeper *keeper;
	size_t under_way; /* what the kernel was asked of it and has not answered, and one until all has been asked */
	size_t n;
	struct kernel_call calls[MESSAGE_CALLS_MAX];
	bool has_fd[MESSAGE_CALLS_MAX];
	char texts[MESSAGE_MAX]; /* less than the packet that they came in */
};

struct keeper {
	int socket;
	struct kernel *kernel;
	struct deposit_box *box; /* or NULL */
	bool stalled;		 /* too many fds are in flight: the oldest answer waits, and all behind it */
	size_t first;		 /* the oldest of those that are under way */
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

static int say_ready(struct keeper *keeper)
{
	struct packet packet = packet_make(keeper->packet, sizeof(keeper->packet));
	struct kernel_facts facts = keeper->kernel->facts;

	facts.deposits = keeper->box;
	message_put_ready(&packet, &facts);
	return transport_send(keeper->socket, packet.data, packet.size, NULL, 0, 0);
}

static int try_to_send_answers(struct keeper *keeper, const struct kernel_call *calls, size_t n)
{
	struct packet packet = packet_make(keeper->packet, sizeof(keeper->packet));
	int fds[MESSAGE_FDS_MAX];
	size_t n_fds = 0;

	message_put_answers(&packet, calls, n);
	for (size_t i = 0; i < n; i++)
		if (calls[i].fd >= 0)
			fds[n_fds++] = calls[i].fd;
	return transport_send(keeper->socket, packet.data, packet.size, fds, n_fds, 0);
}

/* It has to go: what is not answered, the next answer would be taken for. Memory comes back; but the daemon is waiting. */
static int send_when_there_is_memory(struct keeper *keeper, const struct kernel_call *calls, size_t n)
{
	int r = try_to_send_answers(keeper, calls, n);

	for (unsigned tries = 1; tries < MEMORY_TRIES && (r == -ENOMEM || r == -ENOBUFS); tries++) {
		usleep(MEMORY_PAUSE_US);
		r = try_to_send_answers(keeper, calls, n);
	}
	return r;
}

/* False: not now. Fds in flight are counted for all programs of a user, so others' can leave no room for ours. */
static bool send_answers(struct keeper *keeper, struct kernel_call *calls, size_t n)
{
	int r = send_when_there_is_memory(keeper, calls, n);

	if (r == -ETOOMANYREFS)
		return false;
	/* Ordinarily it has gone, or is about to: the next look at the socket will show. Whatever it is, it is the end. */
	if (r < 0)
		shutdown(keeper->socket, SHUT_RDWR);
	for (size_t i = 0; i < n; i++)
		calls[i].fd = fd_close(calls[i].fd);
	return true;
}

static void answer_what_is_done(struct keeper *keeper)
{
	keeper->stalled = false;
	while (keeper->n > 0 && keeper->work[keeper->first].under_way == 0) {
		struct work *work = &keeper->work[keeper->first];

		keeper->stalled = !send_answers(keeper, work->calls, work->n);
		if (keeper->stalled)
			return;
		keeper->first = (keeper->first + 1) % PACKETS_MAX;
		keeper->n--;
	}
}

static void on_done(void *data, struct kernel_call *calls _unused_, size_t n _unused_)
{
	struct work *work = data;

	if (--work->under_way == 0)
		answer_what_is_done(work->keeper);
}

/* `ret_fds`: how many it says that it brings. */
static bool read_calls(const struct message_header *header, struct cursor body, struct work *ret, size_t *ret_fds)
{
	char *text = ret->texts;
	size_t there = 0, back = 0;

	if (header->kind != MESSAGE_CALLS || header->count == 0 || header->count > MESSAGE_CALLS_MAX)
		return false;
	for (size_t i = 0; i < header->count; i++) {
		if (!message_next_call(&body, &ret->calls[i], text, &ret->has_fd[i]))
			return false;
		text += strlen(text) + 1;
		there += ret->has_fd[i];
		back += message_op_gives_fd(ret->calls[i].op);
	}
	ret->n = header->count;
	*ret_fds = there;
	return there <= MESSAGE_FDS_MAX && back <= MESSAGE_FDS_MAX && cursor_done(&body);
}

/* What has come in `keeper->packet`, and nothing but that. */
static bool read_packet(struct keeper *keeper, size_t size, const struct fdset *fds, bool fds_lost, struct work *ret)
{
	struct message_header header;
	struct cursor body;
	size_t said;

	if (!message_read(keeper->packet, size, &header, &body) || !read_calls(&header, body, ret, &said))
		return false;
	return fds_lost ? fds->count < said : fds->count == said;
}

/* All of them or, where one was lost, none: nobody knows which that was. */
static void give_fds(struct work *work, struct fdset *fds, bool fds_lost)
{
	size_t next = 0;

	for (size_t i = 0; i < work->n && !fds_lost; i++)
		if (work->has_fd[i])
			work->calls[i].fd = fdset_steal(fds, next++);
}

/* What the kernel need not hear of. */
static bool is_ours(const struct work *work, size_t i)
{
	return (work->has_fd[i] && work->calls[i].fd < 0) || (work->keeper->box && deposit_is_op(work->calls[i].op));
}

static void answer_ourselves(struct work *work, size_t i)
{
	if (work->has_fd[i] && work->calls[i].fd < 0)
		work->calls[i].result = -EMFILE;
	else
		deposit_carry_out(work->keeper->box, &work->calls[i]);
}

static void ask_kernel(struct work *work, size_t from, size_t n)
{
	struct keeper *keeper = work->keeper;

	for (size_t i = from; i < from + n; i++)
		if (keeper->box && work->calls[i].op == KERNEL_DISOWN)
			deposit_disown(keeper->box);
	work->under_way++;
	kernel_submit(keeper->kernel, work->calls + from, n, on_done, work);
}

static void carry_out(struct work *work)
{
	size_t n;

	work->under_way = 1;
	for (size_t i = 0; i < work->n; i += MAX(n, (size_t)1)) {
		for (n = 0; i + n < work->n && !is_ours(work, i + n); n++)
			;
		if (n > 0)
			ask_kernel(work, i, n);
		else
			answer_ourselves(work, i);
	}
	on_done(work, work->calls, work->n);
}

/* There is room for one. */
static struct work *next_work(struct keeper *keeper)
{
	struct work *work = &keeper->work[(keeper->first + keeper->n) % PACKETS_MAX];

	work->keeper = keeper;
	return work;
}

/* 1, 0 at the end, or a negative errno. */
static int serve_packet(struct keeper *keeper)
{
	_cleanup_(fdset_deinit) struct fdset fds = { 0 };
	struct work *work = next_work(keeper);
	bool lost = false;
	ssize_t n;

	n = transport_receive_first_fds(keeper->socket, keeper->packet, sizeof(keeper->packet), &fds, &lost,
					MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EINTR)
		return 1;
	if (n == 0 || (n < 0 && n != -EMSGSIZE && n != -EPROTO))
		return 0;
	if (n < 0 || !read_packet(keeper, (size_t)n, &fds, lost, work)) {
		/* What was asked before that is answered first. */
		kernel_cancel(keeper->kernel);
		keeper_refuse(keeper->socket, "the keeper was asked for something that makes no sense, and hangs up");
		return -EPROTO;
	}
	give_fds(work, &fds, lost);
	keeper->n++;
	carry_out(work);
	return 1;
}

static bool is_full(const struct keeper *keeper)
{
	return keeper->n == PACKETS_MAX;
}

static int serve(struct keeper *keeper)
{
	int r;

	/* Gone already. */
	if (say_ready(keeper) < 0)
		return 0;
	for (;;) {
		struct pollfd ask[] = {
			{ .fd = keeper->socket, .events = is_full(keeper) ? 0 : POLLIN },
			{ .fd = keeper->kernel->fd, .events = POLLIN },
		};

		if (poll(ask, ARRAY_SIZE(ask), keeper->stalled ? LATER_MS : -1) < 0 && errno != EINTR)
			return -errno;
		if (keeper->stalled)
			answer_what_is_done(keeper);
		if (ask[1].revents) {
			r = kernel_dispatch(keeper->kernel);
			if (r < 0)
				return r;
		}
		if (!ask[0].revents)
			continue;
		/* The daemon has gone: nothing else is told of without being asked for. */
		if (is_full(keeper))
			kernel_cancel(keeper->kernel);
		if (is_full(keeper))
			return 0;
		r = serve_packet(keeper);
		if (r <= 0)
			return r;
	}
}

static void drop_answers(struct keeper *keeper)
{
	for (; keeper->n > 0; keeper->n--) {
		struct work *work = &keeper->work[keeper->first];

		for (size_t i = 0; i < work->n; i++)
			work->calls[i].fd = fd_close(work->calls[i].fd);
		keeper->first = (keeper->first + 1) % PACKETS_MAX;
	}
}

int keeper_serve(int socket, struct kernel *kernel, struct deposit_box *box)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	int r;

	if (!keeper)
		return -ENOMEM;
	keeper->socket = socket;
	keeper->kernel = kernel;
	keeper->box = box;
	r = serve(keeper);
	/* Whatever is still under way is ours: nobody hears the answers, but all of it is done. */
	kernel_cancel(kernel);
	drop_answers(keeper);
	free(keeper);
	return r;
}
