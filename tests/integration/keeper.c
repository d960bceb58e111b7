/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/keeper.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/integration/fixture.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/raw.h"

enum { TIMEOUT_MS = 30000 /* loading the guard takes its time */ };

static struct message_packet packet;

/* Receives a packet: its kind, or 0 at the end. A sentence is kept. */
static int receive(struct keeper *keeper)
{
	struct pollfd ask = { .fd = keeper->socket, .events = POLLIN };
	struct kernel_facts facts;
	int r;

	ck_assert_msg(poll(&ask, 1, TIMEOUT_MS) == 1, "the keeper sends nothing");
	r = message_receive(keeper->socket, &packet);
	ck_assert_msg(r >= 0 || r == -ECONNRESET, "invalid packet: %s", strerror(-r));
	if (r <= 0)
		return 0;
	if (packet.header.kind == MESSAGE_FAILED) {
		ck_assert(message_get_facts(&packet, &facts));
		string_copy(keeper->sentence, sizeof(keeper->sentence), facts.note);
	}
	return packet.header.kind;
}

static bool receive_facts(struct keeper *keeper)
{
	int kind = receive(keeper);

	ck_assert_uint_eq(packet.fds.count, 0);
	if (kind == MESSAGE_READY)
		ck_assert(message_get_facts(&packet, &keeper->facts));
	else
		ck_assert_msg(kind == MESSAGE_FAILED && *keeper->sentence, "it has ended without a sentence");
	return kind == MESSAGE_READY;
}

bool keeper_start(struct keeper *keeper, const char *const *options)
{
	int pair[2];

	*keeper = (struct keeper){ .events_before = read_events() };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	keeper->socket = pair[0];
	keeper->pid = start_program("userevd-keeper", NULL, options, &pair[1], 1, NULL);
	close(pair[1]);
	return receive_facts(keeper);
}

void keeper_listen(struct keeper *keeper, const char *path, const char *const *options)
{
	int fd;

	unlink(path);
	fd = raw_listen(path, 0);
	*keeper = (struct keeper){ .events_before = read_events(), .path = path, .socket = -1 };
	keeper->pid = start_program("userevd-keeper", NULL, options, &fd, 1, "keeper");
	close(fd);
}

bool keeper_connect(struct keeper *keeper)
{
	fd_close(keeper->socket);
	keeper->socket = raw_try_to_connect(keeper->path, 0);
	ck_assert_int_ge(keeper->socket, 0);
	return receive_facts(keeper);
}

void keeper_kill(struct keeper *keeper)
{
	ck_assert_int_eq(kill(keeper->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(keeper->pid, NULL, 0), keeper->pid);
	keeper->socket = fd_close(keeper->socket);
	free(keeper->events_before);
}

bool need_keeper(struct keeper *keeper, const char *const *options)
{
	if (keeper_start(keeper, options))
		return true;
	printf("not possible here: %s\n", keeper->sentence);
	ck_assert_int_ne(keeper_stop(keeper), 0);
	return false;
}

void keeper_say(struct keeper *keeper, const struct kernel_call *calls, size_t n)
{
	static uint8_t room[MESSAGE_MAX];

	ck_assert_int_eq(message_send(keeper->socket, room, MESSAGE_CALLS, calls, n), (int)n);
}

bool keeper_hear(struct keeper *keeper, struct kernel_call *calls, size_t n)
{

	if (receive(keeper) != MESSAGE_ANSWERS)
		return false;
	for (size_t i = 0; i < n; i++) {
		calls[i].fd = -1;
		ck_assert(message_next_answer(&packet, &calls[i]));
	}
	ck_assert(message_is_done(&packet));
	return true;
}

bool keeper_ask(struct keeper *keeper, struct kernel_call *calls, size_t n)
{
	keeper_say(keeper, calls, n);
	return keeper_hear(keeper, calls, n);
}

void keeper_send(const struct keeper *keeper, const void *bytes, size_t size, int fd)
{
	ck_assert_int_eq(transport_send(keeper->socket, bytes, size, &fd, fd >= 0, 0), 0);
}

void keeper_expect_the_end(struct keeper *keeper)
{
	*keeper->sentence = '\0';
	ck_assert_int_eq(receive(keeper), MESSAGE_FAILED);
	ck_assert_str_ne(keeper->sentence, "");
	ck_assert_int_eq(receive(keeper), 0);
}

int keeper_stop(struct keeper *keeper)
{
	char event[640];
	int status;

	fd_close(keeper->socket);
	ck_assert_int_eq(waitpid(keeper->pid, &status, 0), keeper->pid);
	if (keeper->path)
		unlink(keeper->path);
	ck_assert_msg(WIFEXITED(status), "the keeper ended with status %#x", (unsigned)status);
	ck_assert_msg(!keeper->events_before ||
			      eventually(!find_new_event(keeper->events_before, event, sizeof(event))),
		      "the kernel still has %s", event);
	free(keeper->events_before);
	return WEXITSTATUS(status);
}

struct kernel_call page_new(uint32_t page)
{
	return (struct kernel_call){ .op = KERNEL_PAGE_NEW, .page = page, .text = "/tenant" };
}

struct kernel_call stream_new(uint32_t stream, uint32_t page)
{
	return (struct kernel_call){ .op = KERNEL_STREAM_NEW, .stream = stream, .page = page };
}

struct kernel_call register_on(uint32_t stream, const char *description)
{
	return (struct kernel_call){ .op = KERNEL_REGISTER, .stream = stream, .text = description };
}

int keeper_do(struct keeper *keeper, struct kernel_call call)
{
	ck_assert_msg(keeper_ask(keeper, &call, 1), "%s", keeper->sentence);
	fd_close(call.fd);
	return call.result;
}
