/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * systemd passes fds from 3 on, with names (LISTEN_FDS, LISTEN_FDNAMES), and receives notifications on a datagram socket (NOTIFY_SOCKET).
 * These are a few lines without libsystemd, which is a third of an idle daemon's memory, with the libraries that it needs.
 */

#include "kernel/service.h"

#include <fcntl.h>
#include <sys/un.h>

#include "protocol/base/number.h"
#include "protocol/transport.h"

enum { FIRST_FD = 3, FDS_MAX = 1024 };

static enum number_result read_variable(const char *name, uint64_t most, uint64_t *ret)
{
	const char *text = getenv(name);

	return text ? number_parse(text, strlen(text), most, ret) : NUMBER_NONE;
}

/* Children inherit the environment, so it names the process that it is for. */
static bool is_for_us(const char *variable)
{
	uint64_t pid;

	return read_variable(variable, INT32_MAX, &pid) == NUMBER_GOOD && pid == (uint64_t)getpid();
}

int service_take_fds(service_take *take, void *data)
{
	const char *given = getenv("LISTEN_FDNAMES");
	_cleanup_(freep) char *copy = NULL;
	char *names;
	uint64_t n = 0;
	int r = 0;

	if (is_for_us("LISTEN_PID")) {
		copy = strdup(given ? given : "");
		r = !copy ? -ENOMEM : read_variable("LISTEN_FDS", FDS_MAX, &n) == NUMBER_TOO_LARGE ? -E2BIG : 0;
	}
	names = copy;
	for (int fd = FIRST_FD; fd < FIRST_FD + (int)n; fd++) {
		const char *name = strsep(&names, ":");

		if (r == 0 && !name)
			r = -EINVAL;
		if (r == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			r = -errno;
		if (r == 0)
			r = take(data, fd, name);
		else
			fd_close(fd);
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return r < 0 ? r : (int)n;
}

int service_notify(const char *text, const int *fds, size_t n)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address;
	socklen_t length;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (!path)
		return -ENOTCONN;
	r = transport_address(path, &address, &length);
	if (r < 0)
		return r;
	/* An abstract address: its first byte is a zero, and it ends without one. */
	if (*path == '@') {
		address.sun_path[0] = '\0';
		length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, length) < 0)
		return -errno;
	return transport_send(fd, text, strlen(text), fds, n, 0);
}

bool service_has_watchdog(uint64_t *ret_microseconds)
{
	return (!getenv("WATCHDOG_PID") || is_for_us("WATCHDOG_PID")) &&
	       read_variable("WATCHDOG_USEC", UINT64_MAX - 1, ret_microseconds) == NUMBER_GOOD && *ret_microseconds > 0;
}
