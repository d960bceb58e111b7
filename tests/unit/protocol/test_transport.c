/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "protocol/transport.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/linger.h"

enum { FDS_OF_A_PACKET = 253 }; /* the kernel's SCM_MAX_FD */

struct pair {
	int ours;
	int theirs;
};

static struct pair pair_new(bool credentials)
{
	int fd[2], on = credentials;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	ck_assert_int_eq(setsockopt(fd[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	return (struct pair){ .ours = fd[0], .theirs = fd[1] };
}

static void pair_deinit(struct pair *pair)
{
	pair->ours = fd_close(pair->ours);
	pair->theirs = fd_close(pair->theirs);
}

/* `ours` has the daemon's socket options. */
#define PAIR(name) _cleanup_(pair_deinit) struct pair name = pair_new(true)

/* More fds than transport_send() accepts. */
static void send_many_fds(int socket, size_t n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * FDS_OF_A_PACKET)] = { 0 };
	struct iovec iov = { .iov_base = (char[]){ "fds" }, .iov_len = 3 };
	struct cmsghdr *header = (struct cmsghdr *)(void *)control;
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(sizeof(int) * n),
	};

	*header = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof(int) * n),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(header) + i * sizeof(int), &(int){ STDERR_FILENO }, sizeof(int));
	ck_assert_int_eq(sendmsg(socket, &message, 0), 3);
}

static struct transport_from from;
static struct fdset fds;
static char buffer[16];
#define LONGEST	 "1234567890123456" /* as long as the buffer */
#define TOO_LONG LONGEST "7"
static bool lost;

static void send_text(int socket, const char *text)
{
	ck_assert_int_eq(transport_send(socket, text, strlen(text), NULL, 0, 0), 0);
}

static int send_fds(int socket, const char *text, size_t n)
{
	static const int many[WIRE_FDS_MAX + 1];

	return transport_send(socket, text, strlen(text), many, n, 0);
}

static ssize_t receive(int socket)
{
	return transport_receive(socket, buffer, sizeof(buffer), &from);
}

static ssize_t receive_fds(int socket)
{
	return transport_receive_fds(socket, buffer, sizeof(buffer), &fds, 0);
}

static ssize_t receive_first_fds(int socket)
{
	return transport_receive_first_fds(socket, buffer, sizeof(buffer), &fds, &lost, 0);
}

TEST(packets_arrive_whole_until_the_end)
{
	static const char *const texts[] = { "first", "second", "", LONGEST };
	PAIR(pair);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		send_text(pair.theirs, texts[i]);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		ck_assert_int_eq(receive(pair.ours), (ssize_t)strlen(texts[i]));
		ck_assert_mem_eq(buffer, texts[i], strlen(texts[i]));
		ck_assert(from.known);
	}
	ck_assert_int_eq(receive(pair.ours), -EAGAIN);
	pair.theirs = fd_close(pair.theirs);
	ck_assert_int_eq(receive(pair.ours), 0);
	ck_assert(!from.known);
}

TEST(fds_arrive_in_order_as_close_on_exec_copies)
{
	struct stat sent, received;
	int file[2];
	PAIR(pair);

	ck_assert_int_eq(pipe2(file, 0), 0);
	ck_assert_int_eq(transport_send(pair.ours, "x", 1, file, 2, 0), 0);
	ck_assert_int_eq(receive_fds(pair.theirs), 1);
	ck_assert_uint_eq(fds.count, 2);
	for (size_t i = 0; i < fds.count; i++) {
		ck_assert_int_ne(fds.fd[i], file[i]);
		ck_assert(fstat(file[i], &sent) == 0 && fstat(fds.fd[i], &received) == 0);
		ck_assert(sent.st_dev == received.st_dev && sent.st_ino == received.st_ino);
		ck_assert_int_eq(fcntl(fds.fd[i], F_GETFD), FD_CLOEXEC);
	}
	/* Reading and writing end are not the same file description. */
	ck_assert_int_eq(fcntl(fds.fd[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_eq(fcntl(fds.fd[1], F_GETFL) & O_ACCMODE, O_WRONLY);
	fdset_deinit(&fds);
	close(file[0]);
	close(file[1]);
}

TEST(packet_has_at_most_eight_fds)
{
	PAIR(pair);
	int before = count_open_fds();

	ck_assert_int_eq(send_fds(pair.ours, "x", WIRE_FDS_MAX + 1), -EINVAL);
	ck_assert_int_eq(send_fds(pair.ours, "x", WIRE_FDS_MAX), 0);
	ck_assert_int_eq(receive_fds(pair.theirs), 1);
	ck_assert_uint_eq(fds.count, WIRE_FDS_MAX);
	fdset_deinit(&fds);

	send_many_fds(pair.ours, WIRE_FDS_MAX + 1);
	ck_assert_int_eq(receive_fds(pair.theirs), -EPROTO);
	ck_assert_uint_eq(fds.count, 0);
	send_many_fds(pair.ours, FDS_OF_A_PACKET);
	ck_assert_int_eq(receive_fds(pair.theirs), -EPROTO);
	ck_assert_int_eq(count_open_fds(), before);
}

/* Without credentials a fd would fit in their place. */
TEST(fds_are_refused_and_not_taken)
{
	static const size_t numbers[] = { 1, 2, 4, 5, FDS_OF_A_PACKET };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(numbers); i++) {
		_cleanup_(pair_deinit) struct pair pair = pair_new(i % 2);
		int before = count_open_fds();

		send_many_fds(pair.theirs, numbers[i / 2]);
		send_text(pair.theirs, "next");
		/* The packet stays in the queue. */
		for (int j = 0; j < 3; j++)
			ck_assert_int_eq(receive(pair.ours), -EPROTO);
		ck_assert_int_eq(count_open_fds(), before);
	}
}

/* Kernels from 6.16 on refuse fds to their sender, so nothing is left to close. */
TEST(refused_fds_do_not_block_receiver)
{
	time_t began;
	int peer;
	PAIR(pair);

	send_text(pair.theirs, "first");
	peer = lingerer_send(pair.theirs, "second", 6);
	began = seconds_now();
	ck_assert_int_eq(receive(pair.ours), 5);
	ck_assert_int_eq(receive(pair.ours), -EPROTO);
	ck_assert(did_not_linger(began));
	close(peer);
}

TEST(new_kernel_refuses_fds)
{
	PAIR(pair);

	ck_assert_int_eq(send_fds(pair.theirs, "x", 1), 0);
	ck_assert_int_eq(transport_refuse_fds(pair.ours), 0);
	if (!transport_fds_are_refused)
		return;
	ck_assert_int_eq(send_fds(pair.theirs, "x", 1), -EPERM);
	send_text(pair.theirs, "next");
	/* The first packet was sent before its fd was refused. */
	ck_assert_int_eq(receive(pair.ours), -EPROTO);
	ck_assert_int_eq(receive(pair.ours), 4);
	transport_fds_are_refused = false;
	ck_assert_int_eq(transport_refuse_fds(-1), -EBADF);
	ck_assert(!transport_fds_are_refused);
}

static void limit_fds(rlim_t number)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = MIN(number, limit.rlim_max);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Receives the packet with room for so many fds. */
static int receive_within(ssize_t (*receive_some)(int socket), int socket, size_t room)
{
	int r;

	limit_fds((rlim_t)lowest_free_fd() + room);
	r = (int)receive_some(socket);
	limit_fds(RLIM_INFINITY);
	return r;
}

TEST(receiver_takes_no_fds_or_the_first)
{
	PAIR(pair);

	for (size_t room = 0; room <= 3; room++) {
		ck_assert_int_eq(send_fds(pair.ours, "x", 3), 0);
		ck_assert_int_eq(receive_within(receive_fds, pair.theirs, room), room < 3 ? -EPROTO : 1);
		ck_assert_uint_eq(fds.count, room < 3 ? 0 : 3);
		fdset_deinit(&fds);
		ck_assert_int_eq(send_fds(pair.ours, "x", 3), 0);
		ck_assert_int_eq(receive_within(receive_first_fds, pair.theirs, room), 1);
		ck_assert_uint_eq(fds.count, room);
		ck_assert_int_eq(lost, room < 3);
		fdset_deinit(&fds);
	}
	send_text(pair.ours, "x");
	ck_assert_int_eq(receive_first_fds(pair.theirs), 1);
	ck_assert(!lost);
}

TEST(truncated_packet_has_no_fds)
{
	PAIR(pair);
	int before = count_open_fds();

	send_many_fds(pair.ours, WIRE_FDS_MAX + 1);
	ck_assert_int_eq(receive_first_fds(pair.theirs), -EPROTO);
	ck_assert_int_eq(send_fds(pair.ours, TOO_LONG, WIRE_FDS_MAX), 0);
	ck_assert_int_eq(receive_first_fds(pair.theirs), -EMSGSIZE);
	ck_assert_uint_eq(fds.count, 0);
	ck_assert_int_eq(send_fds(pair.ours, LONGEST, WIRE_FDS_MAX), 0);
	ck_assert_int_eq(receive_first_fds(pair.theirs), sizeof(buffer));
	ck_assert_uint_eq(fds.count, WIRE_FDS_MAX);
	ck_assert(!lost);
	fdset_deinit(&fds);
	ck_assert_int_eq(count_open_fds(), before);
}

TEST(packet_has_maximum_size)
{
	PAIR(pair);

	send_text(pair.theirs, TOO_LONG);
	ck_assert_int_eq(receive(pair.ours), -EMSGSIZE);
	ck_assert_int_eq(receive(pair.ours), -EAGAIN);
	send_text(pair.ours, LONGEST);
	ck_assert_int_eq(receive_fds(pair.theirs), sizeof(buffer));
	send_text(pair.ours, TOO_LONG);
	ck_assert_int_eq(receive_fds(pair.theirs), -EMSGSIZE);
}

TEST(each_packet_has_its_sender)
{
	_cleanup_(pair_deinit) struct pair anonymous = pair_new(false);
	pid_t child;
	PAIR(pair);

	child = fork();
	if (child == 0)
		_exit(transport_send(pair.theirs, "x", 1, NULL, 0, 0) == 0 ? 0 : 1);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	send_text(pair.theirs, "x");
	for (int own = 0; own <= 1; own++) {
		ck_assert_int_eq(receive(pair.ours), 1);
		ck_assert(from.known);
		ck_assert_int_eq(from.pid, own ? getpid() : child);
		ck_assert_uint_eq(from.uid, getuid());
	}
	/* Without credentials the sender is unknown. */
	send_text(anonymous.theirs, "x");
	ck_assert_int_eq(receive(anonymous.ours), 1);
	ck_assert(!from.known);
}

/* SIGPIPE would end this test. */
TEST(gone_peer_is_epipe_without_signal)
{
	PAIR(pair);

	ck_assert_ptr_eq((void *)signal(SIGPIPE, SIG_DFL), (void *)SIG_DFL);
	send_text(pair.theirs, "last");
	pair.theirs = fd_close(pair.theirs);
	ck_assert_int_eq(transport_send(pair.ours, "x", 1, NULL, 0, 0), -EPIPE);
	ck_assert_int_eq(send_fds(pair.ours, "x", 1), -EPIPE);
	ck_assert_int_eq(receive(pair.ours), 4);
	ck_assert_int_eq(receive(pair.ours), 0);
	ck_assert_int_eq(receive_fds(pair.ours), 0);
}

TEST(other_fd_is_an_error)
{
	ck_assert_int_eq(transport_send(-1, "x", 1, NULL, 0, 0), -EBADF);
	ck_assert_int_eq(receive(-1), -EBADF);
	ck_assert_int_eq(receive_fds(-1), -EBADF);
}

TEST(address_has_1_to_107_bytes)
{
	struct sockaddr_un address = { 0 };
	char path[110] = "";
	socklen_t length = 0;

	memset(path, 'x', 108);
	ck_assert_int_eq(transport_address(path, &address, &length), -ENAMETOOLONG);
	path[107] = '\0';
	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(address.sun_family, AF_UNIX);
	ck_assert_str_eq(address.sun_path, path);
	ck_assert_uint_eq(length, sizeof(address));
	/* An abstract address has no permissions. */
	ck_assert_int_eq(transport_address("", &address, &length), -ENAMETOOLONG);
	ck_assert_int_eq(transport_address("/a", &address, &length), 0);
	ck_assert_uint_eq(length, offsetof(struct sockaddr_un, sun_path) + 3);
}
