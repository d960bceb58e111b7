/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "kernel/keeper/serve.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"
#include "tests/integration/fixture.h"
#include "tests/integration/machine.h"

enum { OPTIONS_MAX = 10, PATIENCE = 30 /* seconds: loading the guard takes its time */ };

static uint8_t buffer[MESSAGE_MAX];

/* As systemd does it, but nothing else is handed over: it has root's privileges still. */
static void say_that_it_listens(void)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_FDNAMES", "keeper", 1);
}

static pid_t spawn(int socket, bool listens, const char *const *options)
{
	const char *argv[OPTIONS_MAX] = { built("userevd-keeper") };
	size_t n = 1;
	pid_t pid;

	while (options && *options && n < OPTIONS_MAX - 2)
		argv[n++] = *options++;
	/* All of them share it: what another one uses is left alone. */
	if (listens)
		argv[n++] = "--pages=/dev/shm/userevd-test-pages";
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fcntl(socket, F_DUPFD, 64), KEEPER_SOCKET);
		close_range(KEEPER_SOCKET + 1, ~0U, 0);
		if (listens)
			say_that_it_listens();
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid;
}

/* The next packet's kind, 0 at the end. The sentence of the last words is kept. */
static int receive(struct keeper *keeper, struct cursor *ret_body, struct fdset *ret_fds)
{
	struct message_header header;
	ssize_t n = transport_receive_fds(keeper->socket, buffer, sizeof(buffer), ret_fds, 0);

	ck_assert_msg(n >= 0 || n == -ECONNRESET, "the keeper says nothing: %s", strerror((int)-n));
	if (n <= 0)
		return 0;
	ck_assert(message_read(buffer, (size_t)n, &header, ret_body));
	if (header.kind == MESSAGE_FAILED)
		ck_assert(message_get_failed(*ret_body, keeper->sentence));
	return header.kind;
}

static bool hear_first_words(struct keeper *keeper)
{
	const struct timeval patience = { .tv_sec = PATIENCE };
	struct fdset fds = { 0 };
	struct cursor body;
	int kind;

	ck_assert_int_eq(setsockopt(keeper->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	kind = receive(keeper, &body, &fds);
	ck_assert_uint_eq(fds.count, 0);
	if (kind == MESSAGE_READY)
		ck_assert(message_get_ready(body, &keeper->facts));
	else
		ck_assert_msg(kind == MESSAGE_FAILED && *keeper->sentence, "it has ended without a word");
	return kind == MESSAGE_READY;
}

bool keeper_start(struct keeper *keeper, const char *const *options)
{
	int pair[2];

	*keeper = (struct keeper){ .events_before = read_events() };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	keeper->socket = pair[0];
	keeper->pid = spawn(pair[1], false, options);
	close(pair[1]);
	return hear_first_words(keeper);
}

void keeper_listen(struct keeper *keeper, const char *path, const char *const *options)
{
	struct sockaddr_un address;
	socklen_t length;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	*keeper = (struct keeper){ .events_before = read_events(), .path = path };
	unlink(path);
	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(fd, 8), 0);
	keeper->pid = spawn(fd, true, options);
	close(fd);
	keeper->socket = -1;
}

bool keeper_connect(struct keeper *keeper)
{
	struct sockaddr_un address;
	socklen_t length;

	fd_close(keeper->socket);
	keeper->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(transport_address(keeper->path, &address, &length), 0);
	ck_assert_int_eq(connect(keeper->socket, (struct sockaddr *)&address, length), 0);
	return hear_first_words(keeper);
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
	struct packet packet = packet_make(buffer, sizeof(buffer));

	int fds[MESSAGE_FDS_MAX];
	size_t n_fds = 0;

	ck_assert_uint_eq(message_put_calls(&packet, calls, n), n);
	for (size_t i = 0; i < n; i++)
		if (message_op_takes_fd(calls[i].op) && calls[i].fd >= 0)
			fds[n_fds++] = calls[i].fd;
	ck_assert_int_eq(transport_send(keeper->socket, packet.data, packet.size, fds, n_fds, 0), 0);
}

bool keeper_hear(struct keeper *keeper, struct kernel_call *calls, size_t n)
{
	struct fdset fds = { 0 };
	struct cursor body;
	size_t next = 0;

	if (receive(keeper, &body, &fds) != MESSAGE_ANSWERS)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool has_fd;

		ck_assert(message_next_answer(&body, &calls[i], &has_fd));
		ck_assert(has_fd == (calls[i].result == KERNEL_OK && message_op_gives_fd(calls[i].op)));
		calls[i].fd = has_fd ? fdset_steal(&fds, next++) : -1;
	}
	ck_assert(cursor_done(&body));
	ck_assert_uint_eq(next, fds.count);
	return true;
}

bool keeper_ask(struct keeper *keeper, struct kernel_call *calls, size_t n)
{
	keeper_say(keeper, calls, n);
	return keeper_hear(keeper, calls, n);
}

void keeper_send(const struct keeper *keeper, const void *packet, size_t size, int fd)
{
	ck_assert_int_eq(transport_send(keeper->socket, packet, size, &fd, fd >= 0, 0), 0);
}

void keeper_expect_the_end(struct keeper *keeper)
{
	struct fdset fds = { 0 };
	struct cursor body;

	*keeper->sentence = '\0';
	ck_assert_int_eq(receive(keeper, &body, &fds), MESSAGE_FAILED);
	ck_assert_str_ne(keeper->sentence, "");
	ck_assert_int_eq(receive(keeper, &body, &fds), 0);
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
