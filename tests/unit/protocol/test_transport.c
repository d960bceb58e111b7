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

/* Ours is as the daemon's end is. */
#define PAIR(name) _cleanup_(pair_deinit) struct pair name = pair_new(true)

/* What transport_send() would never do. */
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

static bool is_same_file(int one, int other)
{
	struct stat first, second;

	ck_assert_int_eq(fstat(one, &first), 0);
	ck_assert_int_eq(fstat(other, &second), 0);
	return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

TEST(a_packet_arrives_whole_and_alone)
{
	struct transport_from from;
	char buffer[16];
	PAIR(pair);

	ck_assert_int_eq(transport_send(pair.theirs, "first", 5, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_send(pair.theirs, "second", 6, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 5);
	ck_assert_mem_eq(buffer, "first", 5);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 6);
	ck_assert_mem_eq(buffer, "second", 6);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), -EAGAIN);
}

TEST(empty_packet_differs_from_the_end)
{
	struct transport_from from;
	char buffer[16];
	PAIR(pair);

	ck_assert_int_eq(transport_send(pair.theirs, "", 0, NULL, 0, 0), 0);
	pair.theirs = fd_close(pair.theirs);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 0);
	ck_assert(from.known);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 0);
	ck_assert(!from.known);
}

TEST(fds_arrive_in_order_as_close_on_exec_copies)
{
	struct fdset fds;
	char buffer[16];
	int file[2];
	PAIR(pair);

	ck_assert_int_eq(pipe2(file, 0), 0);
	ck_assert_int_eq(transport_send(pair.ours, "x", 1, file, 2, 0), 0);
	ck_assert_int_eq(transport_receive_fds(pair.theirs, buffer, sizeof(buffer), &fds, 0), 1);
	ck_assert_uint_eq(fds.count, 2);
	for (size_t i = 0; i < fds.count; i++) {
		ck_assert_int_ne(fds.fd[i], file[i]);
		ck_assert(is_same_file(fds.fd[i], file[i]));
		ck_assert_int_eq(fcntl(fds.fd[i], F_GETFD), FD_CLOEXEC);
	}
	/* Reading and writing end are not the same file description. */
	ck_assert_int_eq(fcntl(fds.fd[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_eq(fcntl(fds.fd[1], F_GETFL) & O_ACCMODE, O_WRONLY);
	fdset_deinit(&fds);
	close(file[0]);
	close(file[1]);
}

TEST(eight_fds_are_sent_at_most)
{
	static const int many[WIRE_FDS_MAX + 1];
	struct fdset fds;
	char buffer[16];
	PAIR(pair);
	int before = count_open_fds();

	ck_assert_int_eq(transport_send(pair.ours, "x", 1, many, WIRE_FDS_MAX + 1, 0), -EINVAL);
	ck_assert_int_eq(transport_send(pair.ours, "x", 1, many, WIRE_FDS_MAX, 0), 0);
	ck_assert_int_eq(transport_receive_fds(pair.theirs, buffer, sizeof(buffer), &fds, 0), 1);
	ck_assert_uint_eq(fds.count, WIRE_FDS_MAX);
	fdset_deinit(&fds);

	send_many_fds(pair.ours, WIRE_FDS_MAX + 1);
	ck_assert_int_eq(transport_receive_fds(pair.theirs, buffer, sizeof(buffer), &fds, 0), -EPROTO);
	ck_assert_uint_eq(fds.count, 0);
	send_many_fds(pair.ours, FDS_OF_A_PACKET);
	ck_assert_int_eq(transport_receive_fds(pair.theirs, buffer, sizeof(buffer), &fds, 0), -EPROTO);
	ck_assert_int_eq(count_open_fds(), before);
}

static void expect_no_fds_taken(bool credentials, size_t n)
{
	_cleanup_(pair_deinit) struct pair pair = pair_new(credentials);
	int before = count_open_fds();
	struct transport_from from;
	char buffer[16];

	send_many_fds(pair.theirs, n);
	ck_assert_int_eq(transport_send(pair.theirs, "next", 4, NULL, 0, 0), 0);
	/* However often: it stays where it is. */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), -EPROTO);
	ck_assert_int_eq(count_open_fds(), before);
}

TEST(a_receiver_that_takes_no_fds_gets_none_and_says_so)
{
	static const size_t numbers[] = { 1, 2, 4, 5, FDS_OF_A_PACKET };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		expect_no_fds_taken(true, numbers[i]);
}

/* Then there is room where the credentials would be. */
TEST(fds_are_refused_without_credentials)
{
	static const size_t numbers[] = { 1, 2, 4, 5, FDS_OF_A_PACKET };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		expect_no_fds_taken(false, numbers[i]);
}

/* As kernels before 6.16 are; since then there is nothing to wait for, since no fd can be sent. */
TEST(refused_fds_do_not_block_receiver)
{
	struct transport_from from;
	char buffer[16];
	time_t began;
	int peer;
	PAIR(pair);

	ck_assert_int_eq(transport_send(pair.theirs, "first", 5, NULL, 0, 0), 0);
	peer = lingerer_send(pair.theirs, "second", 6);
	began = seconds_now();
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 5);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), -EPROTO);
	ck_assert(did_not_linger(began));
	/* So that the test does not have to, either. */
	close(peer);
}

TEST(new_kernel_refuses_fds)
{
	struct transport_from from;
	char buffer[16];
	PAIR(pair);

	ck_assert_int_eq(transport_send(pair.theirs, "x", 1, (int[]){ 0 }, 1, 0), 0);
	ck_assert_int_eq(transport_refuse_fds(pair.ours), 0);
	if (!transport_fds_are_refused)
		return;
	ck_assert_int_eq(transport_send(pair.theirs, "x", 1, (int[]){ 0 }, 1, 0), -EPERM);
	ck_assert_int_eq(transport_send(pair.theirs, "next", 4, NULL, 0, 0), 0);
	/* What was sent before it was refused is seen, and goes. */
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), -EPROTO);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 4);
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

TEST(a_receiver_out_of_fds_says_so_and_takes_none)
{
	struct fdset fds;
	char buffer[16];
	PAIR(pair);
	int r;

	ck_assert_int_eq(transport_send(pair.ours, "x", 1, (int[]){ 0, 1, 2 }, 3, 0), 0);
	limit_fds((rlim_t)lowest_free_fd() + 1);
	r = (int)transport_receive_fds(pair.theirs, buffer, sizeof(buffer), &fds, 0);
	limit_fds(RLIM_INFINITY);
	ck_assert_int_eq(r, -EPROTO);
	ck_assert_uint_eq(fds.count, 0);
}

TEST(or_takes_the_first_and_knows_that_there_were_more)
{
	struct fdset fds;
	char buffer[16];
	bool lost;
	PAIR(pair);

	for (size_t room = 0; room <= 3; room++) {
		int r, first = lowest_free_fd();

		ck_assert_int_eq(transport_send(pair.ours, "x", 1, (int[]){ 0, 1, 2 }, 3, 0), 0);
		limit_fds((rlim_t)first + room);
		r = (int)transport_receive_first_fds(pair.theirs, buffer, sizeof(buffer), &fds, &lost, 0);
		limit_fds(RLIM_INFINITY);
		ck_assert_int_eq(r, 1);
		ck_assert_uint_eq(fds.count, room);
		ck_assert_int_eq(lost, room < 3);
		fdset_deinit(&fds);
	}
	ck_assert_int_eq(transport_send(pair.ours, "x", 1, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_receive_first_fds(pair.theirs, buffer, sizeof(buffer), &fds, &lost, 0), 1);
	ck_assert(!lost);
}

TEST(truncated_packet_has_no_fds)
{
	const int many[WIRE_FDS_MAX] = { 0 };
	struct fdset fds;
	char buffer[2];
	bool lost;
	PAIR(pair);
	int before = count_open_fds();

	send_many_fds(pair.ours, WIRE_FDS_MAX + 1);
	ck_assert_int_eq(transport_receive_first_fds(pair.theirs, (char[16]){ 0 }, 16, &fds, &lost, 0), -EPROTO);
	ck_assert_uint_eq(fds.count, 0);
	ck_assert_int_eq(transport_send(pair.ours, "123", 3, many, WIRE_FDS_MAX, 0), 0);
	ck_assert_int_eq(transport_receive_first_fds(pair.theirs, buffer, sizeof(buffer), &fds, &lost, 0), -EMSGSIZE);
	ck_assert_uint_eq(fds.count, 0);
	ck_assert_int_eq(transport_send(pair.ours, "12", 2, many, WIRE_FDS_MAX, 0), 0);
	ck_assert_int_eq(transport_receive_first_fds(pair.theirs, buffer, sizeof(buffer), &fds, &lost, 0), 2);
	ck_assert_uint_eq(fds.count, WIRE_FDS_MAX);
	ck_assert(!lost);
	fdset_deinit(&fds);
	ck_assert_int_eq(count_open_fds(), before);
}

TEST(packet_has_maximum_size)
{
	struct transport_from from;
	struct fdset fds;
	char buffer[8];
	PAIR(pair);

	ck_assert_int_eq(transport_send(pair.theirs, "12345678", 8, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 8);
	ck_assert_int_eq(transport_send(pair.theirs, "123456789", 9, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), -EMSGSIZE);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), -EAGAIN);

	ck_assert_int_eq(transport_send(pair.ours, "12345678", 8, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_receive_fds(pair.theirs, buffer, sizeof(buffer), &fds, 0), 8);
	ck_assert_int_eq(transport_send(pair.ours, "123456789", 9, (int[]){ 0 }, 1, 0), 0);
	ck_assert_int_eq(transport_receive_fds(pair.theirs, buffer, sizeof(buffer), &fds, 0), -EMSGSIZE);
	ck_assert_uint_eq(fds.count, 0);
}

TEST(each_packet_says_who_sent_it)
{
	struct transport_from from;
	char buffer[16];
	pid_t child;
	PAIR(pair);

	ck_assert_int_eq(transport_send(pair.theirs, "x", 1, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 1);
	ck_assert(from.known);
	ck_assert_int_eq(from.pid, getpid());
	ck_assert_uint_eq(from.uid, getuid());

	child = fork();
	if (child == 0)
		_exit(transport_send(pair.theirs, "x", 1, NULL, 0, 0) == 0 ? 0 : 1);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 1);
	ck_assert(from.known);
	ck_assert_int_eq(from.pid, child);
	ck_assert_uint_eq(from.uid, getuid());
}

TEST(without_credentials_the_sender_is_unknown)
{
	_cleanup_(pair_deinit) struct pair pair = pair_new(false);
	struct transport_from from = { .known = true };
	char buffer[16];

	ck_assert_int_eq(transport_send(pair.theirs, "x", 1, NULL, 0, 0), 0);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 1);
	ck_assert(!from.known);
}

TEST(a_full_queue_is_eagain_and_not_a_wait)
{
	static const char packet[4096];
	struct transport_from from;
	char buffer[sizeof(packet)];
	unsigned sent = 0;
	int r;
	PAIR(pair);

	while ((r = transport_send(pair.ours, packet, sizeof(packet), NULL, 0, MSG_DONTWAIT)) == 0)
		ck_assert_uint_lt(sent++, 10000);
	ck_assert_int_eq(r, -EAGAIN);
	ck_assert_uint_gt(sent, 0);
	while (sent-- > 0)
		ck_assert_int_eq(transport_receive(pair.theirs, buffer, sizeof(buffer), &from), sizeof(packet));
	ck_assert_int_eq(transport_receive(pair.theirs, buffer, sizeof(buffer), &from), -EAGAIN);
	ck_assert_int_eq(transport_send(pair.ours, packet, sizeof(packet), NULL, 0, MSG_DONTWAIT), 0);
}

/* A signal would end this test: nobody ignores it here. */
TEST(gone_peer_is_epipe_without_signal)
{
	struct transport_from from = { 0 };
	struct fdset fds;
	char buffer[16];
	PAIR(pair);

	ck_assert_ptr_eq((void *)signal(SIGPIPE, SIG_DFL), (void *)SIG_DFL);
	ck_assert_int_eq(transport_send(pair.theirs, "last", 4, NULL, 0, 0), 0);
	pair.theirs = fd_close(pair.theirs);
	ck_assert_int_eq(transport_send(pair.ours, "x", 1, NULL, 0, 0), -EPIPE);
	ck_assert_int_eq(transport_send(pair.ours, "x", 1, (int[]){ 0 }, 1, 0), -EPIPE);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 4);
	ck_assert_int_eq(transport_receive(pair.ours, buffer, sizeof(buffer), &from), 0);
	ck_assert_int_eq(transport_receive_fds(pair.ours, buffer, sizeof(buffer), &fds, 0), 0);
}

TEST(other_fd_is_an_error)
{
	struct transport_from from;
	struct fdset fds = { .count = 7 };
	char buffer[16];

	ck_assert_int_eq(transport_send(-1, "x", 1, NULL, 0, 0), -EBADF);
	ck_assert_int_eq(transport_receive(-1, buffer, sizeof(buffer), &from), -EBADF);
	ck_assert_int_eq(transport_receive_fds(-1, buffer, sizeof(buffer), &fds, 0), -EBADF);
	ck_assert_uint_eq(fds.count, 7);
}

TEST(an_address_has_107_bytes_and_not_108_and_not_none)
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
	/* Which would be an abstract address, that has no permissions. */
	ck_assert_int_eq(transport_address("", &address, &length), -ENAMETOOLONG);
	ck_assert_int_eq(transport_address("/a", &address, &length), 0);
	ck_assert_uint_eq(length, offsetof(struct sockaddr_un, sun_path) + 3);
}
