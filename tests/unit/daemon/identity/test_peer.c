/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A process that ends while the daemon identifies it. tests/integration/test_identity.c has whole connections. */

#include "daemon/identity/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/suite.h"

static pid_t peer;
/* The peer ends when its file of this name is opened. */
static const char *last_file;

static void end_peer(void)
{
	kill(peer, SIGKILL);
	while (waitpid(peer, NULL, 0) < 0 && errno == EINTR)
		;
}

int open(const char *path, int flags, ...)
{
	const char *slash = strrchr(path, '/');
	va_list arguments;
	mode_t mode = 0;

	if (flags & O_CREAT) {
		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	if (last_file && slash && streq(slash + 1, last_file))
		end_peer();
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* The daemon's end of a connection of another process. */
static int connection_of_peer(void)
{
	_cleanup_(fd_closep) int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char directory[64], path[80];
	struct sockaddr_un address;
	socklen_t length;
	int fd;

	make_temporary_directory(directory, sizeof(directory));
	snprintf(path, sizeof(path), "%s/s", directory);
	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(bind(listener, (const struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	peer = fork();
	ck_assert_int_ge(peer, 0);
	if (peer == 0) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (connect(fd, (const struct sockaddr *)&address, length) == 0)
			pause();
		_exit(EXIT_FAILURE);
	}
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	unlink(path);
	rmdir(directory);
	return fd;
}

static int identify(struct peer *ret)
{
	_cleanup_(fd_closep) int fd = connection_of_peer();
	struct cgroups cgroups;

	ck_assert_int_eq(cgroups_find(NULL, &cgroups), 0);
	return peer_identify(fd, &cgroups, true, ret);
}

TEST(peer_that_lives_is_identified)
{
	struct peer found = { 0 };

	ck_assert_int_eq(identify(&found), 0);
	ck_assert_int_eq(found.pid, peer);
	ck_assert_uint_eq(found.uid, geteuid());
	ck_assert_int_eq(*found.cgroup, '/');
	end_peer();
}

/* At each file: afterwards another process could have its pid. */
TEST(peer_that_ends_meanwhile_is_gone)
{
	static const char *const files[] = { "cgroup", "comm", "uid_map" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct peer found = { 0 };

		last_file = files[i];
		ck_assert_int_eq(identify(&found), PEER_E_GONE);
		ck_assert_int_eq(found.pid, 0);
	}
}
