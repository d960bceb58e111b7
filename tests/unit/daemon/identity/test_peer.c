/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A process that ends while the daemon identifies it. tests/integration/test_identity.c has whole connections. */

#include "daemon/identity/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/suite.h"

static pid_t peer;
/* The peer ends when its file of this name is opened. */
static const char *last_file;
static unsigned cgroups_read;
/* Whether ioctl() answers PIDFD_GET_INFO; how often it was asked, and has answered. */
static unsigned kernel_tells, asked, answered;

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
	cgroups_read += slash && streq(slash, "/cgroup");
	if (last_file && slash && streq(slash + 1, last_file))
		end_peer();
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;
	long r = -1;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	asked++;
	errno = ENOTTY;
	if (kernel_tells)
		r = syscall(SYS_ioctl, fd, request, argument);
	answered += r == 0;
	return (int)r;
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

static struct cgroups cgroups;

static int identify(bool ask_for_root, struct peer *ret)
{
	_cleanup_(fd_closep) int fd = connection_of_peer();

	if (!*cgroups.root)
		ck_assert_int_eq(cgroups_find(NULL, &cgroups), 0);
	return peer_identify(fd, &cgroups, ask_for_root, ret);
}

static bool kernel_has_pidfd_info(void)
{
	struct peer found;

	ck_assert_int_eq(identify(false, &found), 0);
	end_peer();
	if (answered == 0)
		printf("not possible here: the cgroup's id from PIDFD_GET_INFO, before Linux 6.13\n");
	return answered > 0;
}

TEST(peer_that_lives_is_identified)
{
	for (kernel_tells = 0; kernel_tells < 2; kernel_tells++) {
		struct peer found = { 0 };

		ck_assert_int_eq(identify(true, &found), 0);
		ck_assert_int_eq(found.pid, peer);
		ck_assert_uint_eq(found.uid, geteuid());
		ck_assert_int_eq(*found.cgroup->path, '/');
		ck_assert_uint_eq(found.cgroup->id, cgroup_id(&cgroups, found.cgroup->path));
		end_peer();
	}
}

/* At each file: afterwards another process could have its pid. */
TEST(peer_that_ends_meanwhile_is_gone)
{
	static const char *const files[] = { "cgroup", "uid_map" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct peer found = { 0 };

		last_file = files[i];
		ck_assert_int_eq(identify(true, &found), PEER_E_GONE);
		ck_assert_int_eq(found.pid, 0);
	}
}

TEST(cgroup_is_read_where_the_kernel_does_not_tell)
{
	struct peer found;

	for (unsigned i = 1; i < 4; i++) {
		ck_assert_int_eq(identify(false, &found), 0);
		ck_assert_uint_eq(cgroups_read, i);
		end_peer();
	}
	ck_assert_uint_eq(asked, 1);
}

TEST(known_cgroup_is_not_read_again)
{
	struct peer found, again;

	kernel_tells = 1;
	if (!kernel_has_pidfd_info())
		return;
	ck_assert_int_eq(identify(false, &found), 0);
	ck_assert_uint_eq(cgroups_read, 1);
	end_peer();
	/* Of another file system's ids. */
	string_copy(cgroups.controller, sizeof(cgroups.controller), "name=elsewhere");
	ck_assert_int_eq(identify(false, &again), PEER_E_NOWHERE);
	end_peer();
	cgroups.controller[0] = '\0';
	ck_assert_int_eq(identify(true, &again), 0);
	ck_assert_ptr_eq(again.cgroup, found.cgroup);
	ck_assert_uint_eq(cgroups_read, 2);
	end_peer();
	last_file = "uid_map";
	ck_assert_int_eq(identify(true, &again), PEER_E_GONE);
}

TEST(peer_of_a_known_cgroup_that_ended_is_gone)
{
	_cleanup_(fd_closep) int fd = -1;
	struct peer found;

	kernel_tells = 1;
	if (!kernel_has_pidfd_info())
		return;
	fd = connection_of_peer();
	end_peer();
	ck_assert_int_eq(peer_identify(fd, &cgroups, false, &found), PEER_E_GONE);
}

TEST(name_of_a_peer_that_ended_is_unknown)
{
	_cleanup_(fd_closep) int fd = connection_of_peer();
	char own[16] = "", comm[16];

	ck_assert_int_eq(prctl(PR_GET_NAME, own), 0);
	peer_comm(fd, peer, comm, sizeof(comm));
	ck_assert_str_eq(comm, own);
	last_file = "comm";
	for (unsigned i = 0; i < 2; i++) {
		peer_comm(fd, peer, comm, sizeof(comm));
		ck_assert_str_eq(comm, "unknown");
	}
}
