/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A pid alone is no identity: the process may exit, and its pid be reused, between two calls. So the daemon holds a pidfd while it
 * reads /proc/PID/cgroup, and uses the result only if the process of that pidfd still lives afterwards: until then its pid cannot
 * have been reused.
 *
 * SO_PEERPIDFD (Linux 6.5) is the pidfd of the process that connected. Before, the pidfd comes from pidfd_open() on the pid of
 * SO_PEERCRED, and a pid that was reused before that call goes unnoticed.
 */

#include "daemon/identity/peer.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* newer than Debian 12's headers */
#endif

enum { UID_MAP_BYTES = 4096 }; /* a hundred lines of 33 bytes: more than any real map */

static int peer_refusal_of(int error)
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
static int peer_open_pidfd(int socket, pid_t pid, int *ret)
{
	socklen_t size = sizeof(*ret);
	int fd = -1;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) < 0) {
		/* EINVAL: the peer has been reaped; ENOPROTOOPT: a kernel before 6.5. */
		if (errno == EINVAL)
			return PEER_E_GONE;
		if (errno != ENOPROTOOPT)
			return peer_refusal_of(errno);
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		/* EINVAL: the process is being reaped, or a thread has its pid now. */
		if (fd < 0)
			return errno == EINVAL ? PEER_E_GONE : peer_refusal_of(errno);
	}
	*ret = fd;
	return 0;
}

/* A pidfd becomes readable when its process has exited. */
static bool pidfd_has_exited(int pidfd)
{
	struct pollfd poll_for = { .fd = pidfd, .events = POLLIN };

	return poll(&poll_for, 1, 0) != 0;
}

void peer_comm(pid_t pid, char *ret, size_t size)
{
	ssize_t n = proc_read(pid, "comm", ret, size);

	if (n <= 0)
		string_copy(ret, size, "unknown");
	else if (ret[n - 1] == '\n')
		ret[n - 1] = '\0';
}

/* Lines of "inside outside count". An empty map is still to be written; outside -1 is a uid that the daemon's namespace does not map. */
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

/*
 * 0, PEER_E_… or a negative errno. Where the first thread has exited and others live on, its cgroup of a v1 host is meaningless.
 */
static int peer_find_cgroup(pid_t pid, int pidfd, const struct cgroups *cgroups, char *ret, size_t size)
{
	char status[1024];
	int r = cgroup_of_process(cgroups, pid, ret, size);

	if (r == 0 && *cgroups->controller) {
		r = (int)MIN(proc_read(pid, "status", status, sizeof(status)), 0);
		if (r == 0 && strstr(status, "\nState:\tZ"))
			return PEER_E_GONE;
	}
	if (r == -ENODATA)
		return PEER_E_NOWHERE;
	/* The file is missing although the process lives: /proc hides it from the daemon. */
	if (r == -ESRCH && !pidfd_has_exited(pidfd))
		return PEER_E_HIDDEN;
	return r < 0 ? peer_refusal_of(-r) : 0;
}

bool peer_can_be_looked_up(void)
{
	char pid[16] = "";

	return readlink("/proc/self", pid, sizeof(pid) - 1) > 0 && strtol(pid, NULL, 10) == getpid();
}

static int peer_get_credentials(int socket, struct peer *ret)
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
	int r = peer_get_credentials(socket, ret);

	if (r == 0)
		peer_comm(ret->pid, ret->comm, sizeof(ret->comm));
	return r;
}

int peer_identify(int socket, const struct cgroups *cgroups, bool ask_for_root, struct peer *ret)
{
	_cleanup_(fd_closep) int pidfd = -1;
	struct peer peer = { 0 };
	char uid_map[UID_MAP_BYTES];
	ssize_t n;
	int r;

	r = peer_get_credentials(socket, &peer);
	if (r < 0)
		return r;
	/* 0: a process outside of the daemon's pid namespace. */
	if (peer.pid <= 0)
		return PEER_E_HIDDEN;
	r = peer_open_pidfd(socket, peer.pid, &pidfd);
	if (r != 0)
		return r;
	if (pidfd_has_exited(pidfd))
		return PEER_E_GONE;

	r = peer_find_cgroup(peer.pid, pidfd, cgroups, peer.cgroup, sizeof(peer.cgroup));
	if (r != 0)
		return r;
	peer_comm(peer.pid, peer.comm, sizeof(peer.comm));
	/* Anybody can read the map, but not compare user namespaces. A map that cannot be read counts as the host's. */
	n = ask_for_root ? proc_read(peer.pid, "uid_map", uid_map, sizeof(uid_map)) : -1;
	peer.may_be_root = n < 0 || (size_t)n == sizeof(uid_map) - 1 || peer_map_has_root(uid_map);
	if (pidfd_has_exited(pidfd))
		return PEER_E_GONE;
	*ret = peer;
	return 0;
}
