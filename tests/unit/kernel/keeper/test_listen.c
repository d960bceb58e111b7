/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/listen.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/suite.h"

static char directory[64], path[80];
static int next_fds[2]; /* of a socket and of its lock, which stays open as long as the process */

static void close_fds(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(next_fds); i++)
		close(next_fds[i]);
}

/* For each test. */
static void begin(void)
{
	make_temporary_directory(directory, sizeof(directory));
	snprintf(path, sizeof(path), "%s/keeper.sock", directory);
	for (size_t i = 0; i < ARRAY_SIZE(next_fds); i++)
		next_fds[i] = dup(STDOUT_FILENO);
	close_fds();
}

static void end(void)
{
	close_fds();
	remove_directory(directory);
}

/* What another process gets: a lock does not exclude the process that has it. */
static int listen_elsewhere(void)
{
	const pid_t child = fork();
	int fd = -1, status;

	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(-keeper_listen(path, geteuid(), &fd));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void expect_connection(void)
{
	struct sockaddr_un address;
	socklen_t length;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, length), 0);
	close(fd);
}

TEST(socket_is_its_owners_alone)
{
	const uid_t owner = geteuid() == 0 ? 1234 : geteuid();
	struct stat status;
	int fd = -1;

	begin();
	ck_assert_int_eq(keeper_listen(path, owner, &fd), 0);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq(status.st_uid, owner);
	ck_assert_uint_eq(status.st_mode, S_IFSOCK | 0600);
	expect_connection();
	end();
}

TEST(second_keeper_does_not_listen)
{
	int fd = -1;

	begin();
	ck_assert_int_eq(keeper_listen(path, geteuid(), &fd), 0);
	ck_assert_int_eq(listen_elsewhere(), -EADDRINUSE);
	expect_connection();
	end();
}

TEST(next_keeper_listens)
{
	int fd = -1;

	begin();
	ck_assert_int_eq(listen_elsewhere(), 0);
	ck_assert_int_eq(keeper_listen(path, geteuid(), &fd), 0);
	expect_connection();
	end();
}

TEST(wrong_path_is_an_error)
{
	char wrong[256];
	int fd = -1;

	begin();
	snprintf(wrong, sizeof(wrong), "%s/no/such", directory);
	ck_assert_int_eq(keeper_listen(wrong, 0, &fd), -ENOENT);
	memset(wrong, 'a', sizeof(wrong) - 1);
	wrong[sizeof(wrong) - 1] = '\0';
	ck_assert_int_lt(keeper_listen(wrong, 0, &fd), 0);
	ck_assert_int_eq(fd, -1);
	end();
}
