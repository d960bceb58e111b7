/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A pid alone is no identity: it may end and be given to somebody else between any two of our calls. So we hold a pidfd
 * while we read /proc/PID/cgroup, and believe what we read only if the process behind that pidfd still lives afterwards:
 * as long as it does, nobody else can have had its pid.
 *
 * With SO_PEERPIDFD (Linux 6.5) the pidfd is that of whoever connected. Before, it comes from pidfd_open() on the pid of
 * SO_PEERCRED, and a pid that was reused before that call cannot be told from the real one.
 */

#include "daemon/identity/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* newer than Debian 12's headers */
#endif

enum { UID_MAP_BYTES = 4096 }; /* the kernel's lines have 33; more than a hundred of them is a map that nobody makes */

static int refusal_of(int error)
{
	switch (error) {
	case ESRCH:
	case ENODATA:
		return PEER_E_GONE;
	case EACCES:
	case EPERM:
	case ENOENT:
		return PEER_E_HIDDEN;
	default:
		return -error;
	}
}

/* The peer's pidfd into `ret`; 0, PEER_E_… or a negative errno. */
static int open_pidfd(int socket, pid_t pid, int *ret)
{
	socklen_t size = sizeof(*ret);
	int fd = -1;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) < 0) {
		/* EINVAL: the peer was reaped already; ENOPROTOOPT: a kernel before 6.5. */
		if (errno == EINVAL)
			return PEER_E_GONE;
		if (errno != ENOPROTOOPT)
			return refusal_of(errno);
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		/* EINVAL: it is just being reaped, and leads no threads any more; or its number is a thread's by now. */
		if (fd < 0)
			return errno == EINVAL ? PEER_E_GONE : refusal_of(errno);
	}
	*ret = fd;
	return 0;
}

/* A pidfd becomes readable when its process has ended. */
static bool has_ended(int pidfd)
{
	struct pollfd poll_for = { .fd = pidfd, .events = POLLIN };

	return poll(&poll_for, 1, 0) != 0;
}

void peer_comm(pid_t pid, char *ret, size_t size)
{
	char name[64];
	_cleanup_(fd_closep) int fd = -1;
	ssize_t n = -1;

	snprintf(name, sizeof(name), "/proc/%d/comm", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, ret, size - 1);
	if (n <= 0) {
		string_copy(ret, size, "unknown");
		return;
	}
	ret[ret[n - 1] == '\n' ? n - 1 : n] = '\0';
}

/* Its first thread has ended and others live on: on a v1 host that one's cgroup says nothing any more. */
static int check_first_thread(pid_t pid)
{
	char name[64], text[1024];
	_cleanup_(fd_closep) int fd = -1;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return strstr(text, "\nState:\tZ") ? -ENODATA : 0;
}

/* Lines of "inside outside count". Empty: it is still to be written; outside -1: a uid that ours has no name for. */
bool peer_map_has_root(const char *uid_map)
{
	unsigned outside, count;
	const char *line = uid_map;

	if (!*line)
		return true;
	for (; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (sscanf(line, "%*u %u %u", &outside, &count) != 2 || outside == UINT32_MAX ||
		    (outside == 0 && count > 0))
			return true;
	return false;
}

/* Which user namespace that is only who may trace it could ask; its map anybody can read. What can't be read is taken for ours. */
static bool may_be_root(pid_t pid)
{
	char name[64], text[UID_MAP_BYTES];
	_cleanup_(fd_closep) int fd = -1;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/uid_map", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0 || (size_t)n == sizeof(text) - 1)
		return true;
	text[n] = '\0';
	return peer_map_has_root(text);
}

/* 0, PEER_E_… or a negative errno. */
static int find_cgroup(pid_t pid, int pidfd, const struct cgroups *cgroups, char *ret, size_t size)
{
	int r = cgroup_of_process(cgroups, pid, ret, size);

	if (r == -ENODATA)
		return PEER_E_NOWHERE;
	if (r == 0 && *cgroups->controller)
		r = check_first_thread(pid);
	/* No such file, although it lives: /proc hides it from us. */
	if (r == -ESRCH && !has_ended(pidfd))
		return PEER_E_HIDDEN;
	return r < 0 ? refusal_of(-r) : 0;
}

bool peer_can_be_looked_up(void)
{
	char pid[16] = "";

	return readlink("/proc/self", pid, sizeof(pid) - 1) > 0 && strtol(pid, NULL, 10) == getpid();
}

static int get_credentials(int socket, struct peer *ret)
{
	struct ucred credentials;
	socklen_t size = sizeof(credentials);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
		return -errno;
	*ret = (struct peer){ .pid = credentials.pid, .uid = credentials.uid };
	return 0;
}

int peer_identify_admin(int socket, struct peer *ret)
{
	int r = get_credentials(socket, ret);

	if (r == 0)
		peer_comm(ret->pid, ret->comm, sizeof(ret->comm));
	return r;
}

int peer_identify(int socket, const struct cgroups *cgroups, bool ask_for_root, struct peer *ret)
{
	_cleanup_(fd_closep) int pidfd = -1;
	struct peer peer = { 0 };
	int r;

	r = get_credentials(socket, &peer);
	if (r < 0)
		return r;
	/* 0: a process outside of our pid namespace. */
	if (peer.pid <= 0)
		return PEER_E_HIDDEN;
	r = open_pidfd(socket, peer.pid, &pidfd);
	if (r != 0)
		return r;
	if (has_ended(pidfd))
		return PEER_E_GONE;

	r = find_cgroup(peer.pid, pidfd, cgroups, peer.cgroup, sizeof(peer.cgroup));
	if (r != 0)
		return r;
	peer_comm(peer.pid, peer.comm, sizeof(peer.comm));
	peer.may_be_root = !ask_for_root || may_be_root(peer.pid);
	if (has_ended(pidfd))
		return PEER_E_GONE;
	*ret = peer;
	return 0;
}
