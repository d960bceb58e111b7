/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A pid alone is no identity: the process may exit, and its pid be reused, between two calls. So the daemon holds a pidfd while it
 * reads /proc/PID/cgroup, and uses the result only if the process of that pidfd still lives afterwards: until then its pid cannot
 * have been reused.
 *
 * SO_PEERPIDFD (Linux 6.5) is the pidfd of the process that connected. Before, the pidfd comes from pidfd_open() on the pid of
 * SO_PEERCRED, and a pid that was reused before that call goes unnoticed.
 *
 * PIDFD_GET_INFO (Linux 6.13) gives the id of the process's cgroup2. /proc is read only for the path of an id that is not known yet.
 */

#include "daemon/identity/peer.h"

#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* newer than Debian 12's headers */
#endif

/* Of Linux 6.13, newer than Debian 12's headers. */
struct pidfd_info_request {
	uint64_t mask;
	uint64_t cgroup_id;
	uint32_t ids[11];
	int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info_request) == 64, "the first version of struct pidfd_info");
#define GET_PIDFD_INFO _IOWR(0xFF, 11, struct pidfd_info_request)

enum {
	INFO_OF_CGROUP = 1 << 2,
	UID_MAP_LINE = 33,
	UID_MAP_BYTES = 100 * UID_MAP_LINE, /* more than any real map, and less than the kernel gives in one read */
};

static int peer_refusal_of(int error)
{
	if (error == ESRCH || error == ENODATA)
		return PEER_E_GONE;
	return error == EACCES || error == EPERM || error == ENOENT ? PEER_E_HIDDEN : -error;
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

int peer_comm(int socket, pid_t pid, char *ret, size_t size)
{
	_cleanup_(fd_closep) int pidfd = -1;
	int r = peer_open_pidfd(socket, pid, &pidfd);
	ssize_t n = r == 0 ? proc_read(pid, "comm", ret, size) : MIN(r, 0);

	if (n <= 0 || pidfd_has_exited(pidfd))
		string_copy(ret, size, "unknown");
	else if (ret[n - 1] == '\n')
		ret[n - 1] = '\0';
	return n == -EMFILE || n == -ENFILE || n == -ENOMEM ? (int)n : 0;
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

/* Its cgroup, if the kernel tells the id and that is known already; otherwise NULL. */
static struct cgroup *peer_known_cgroup(int pidfd, struct cgroups *cgroups)
{
	static bool is_missing;
	struct pidfd_info_request info = { .mask = INFO_OF_CGROUP };

	/* Where the hierarchy is systemd's own of v1, the ids are of another file system. */
	if (is_missing || *cgroups->controller)
		return NULL;
	if (ioctl(pidfd, GET_PIDFD_INFO, &info) == 0)
		return info.mask & INFO_OF_CGROUP ? cgroup_known(cgroups, info.cgroup_id) : NULL;
	is_missing = errno != ESRCH;
	return NULL;
}

/* 0, PEER_E_… or a negative errno. Where the first thread has exited and others live on, its cgroup of a v1 host is meaningless. */
static int peer_read_cgroup(pid_t pid, int pidfd, struct cgroups *cgroups, struct cgroup **ret)
{
	char status[1024], path[PATH_MAX];
	int r = cgroup_of_process(cgroups, pid, path, sizeof(path));

	if (r == 0 && *cgroups->controller) {
		r = (int)MIN(proc_read(pid, "status", status, sizeof(status)), 0);
		if (r == 0 && strstr(status, "\nState:\tZ"))
			return PEER_E_GONE;
	}
	if (r == 0)
		r = cgroup_get(cgroups, path, ret);
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

int peer_identify_admin(int socket, struct peer *ret)
{
	struct ucred credentials;
	socklen_t size = sizeof(credentials);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
		return -errno;
	*ret = (struct peer){ .pid = credentials.pid, .uid = credentials.uid, .may_be_root = true };
	return 0;
}

int peer_identify(int socket, struct cgroups *cgroups, bool ask_for_root, struct peer *ret)
{
	_cleanup_(fd_closep) int pidfd = -1;
	struct peer peer = { 0 };
	char uid_map[UID_MAP_BYTES];
	ssize_t n;
	int r;

	r = peer_identify_admin(socket, &peer);
	if (r < 0)
		return r;
	/* 0: a process outside of the daemon's pid namespace. */
	if (peer.pid <= 0)
		return PEER_E_HIDDEN;
	r = peer_open_pidfd(socket, peer.pid, &pidfd);
	if (r != 0)
		return r;
	peer.cgroup = peer_known_cgroup(pidfd, cgroups);
	if (!peer.cgroup)
		r = peer_read_cgroup(peer.pid, pidfd, cgroups, &peer.cgroup);
	if (r != 0)
		return r;
	/* Anybody can read the map, but not compare user namespaces. A map that cannot be read counts as the host's. */
	n = ask_for_root ? proc_read(peer.pid, "uid_map", uid_map, sizeof(uid_map)) : -1;
	if (n >= 0 && (size_t)n < sizeof(uid_map) - UID_MAP_LINE)
		peer.may_be_root = peer_map_has_root(uid_map);
	if (pidfd_has_exited(pidfd))
		return PEER_E_GONE;
	*ret = peer;
	return 0;
}
