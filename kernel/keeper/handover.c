/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/handover.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "protocol/transport.h"

/*
 * ExecStartPre= has root's privileges for as long as it takes to make the mounts and to load the guard; ExecStart= has none
 * from its first instruction on. What the first has made reaches the second by systemd's file descriptor store. Both sides are
 * a few lines, so that root's program needs no library for them.
 */

enum { FIRST_FD = 3, HANDED_MAX = 16 };

static const char tracefs_name[] = "tracefs", pages_name[] = "pages", read_only_name[] = "pages-read-only",
		  outcome_name[] = "outcome", listener_name[] = "keeper";

/* What becomes of it as text: a letter, and a sentence. */
enum { GUARDED = '+', UNGUARDED = '-', FAILED = '!' };

void preparation_deinit(struct preparation *preparation)
{
	fd_close(preparation->mounts.tracefs);
	fd_close(preparation->mounts.pages);
	fd_close(preparation->mounts.pages_read_only);
	*preparation = PREPARATION_NONE;
}

static int notify(const char *text, const int *fds, size_t n_fds)
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
	/* The other kind, for which the first byte is a zero. */
	if (*path == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address,
		    *path == '@' ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)) : length) < 0)
		return -errno;
	return transport_send(fd, text, strlen(text), fds, n_fds, 0);
}

/* In the place of what may be there of an earlier start. It is no socket that could be polled. */
static int put(const char *name, int fd)
{
	char text[128];
	int r;

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s\n", name);
	r = notify(text, NULL, 0);
	if (r < 0 || fd < 0)
		return r;
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s\n", name);
	return notify(text, &fd, 1);
}

/*
 * Opened once more in another way: where the kernel has no kcmp(), systemd takes two descriptors of one directory for the
 * same, and keeps the first.
 */
static int put_read_only(int pages)
{
	_cleanup_(fd_closep) int fd = pages < 0 ? -1 : openat(pages, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (pages >= 0 && fd < 0)
		return -errno;
	return put(read_only_name, fd);
}

static int put_outcome(const struct preparation *preparation)
{
	_cleanup_(fd_closep) int fd = memfd_create("outcome", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (*preparation->failure)
		dprintf(fd, "%c%s", FAILED, preparation->failure);
	else if (preparation->guarded)
		dprintf(fd, "%c", GUARDED);
	else
		dprintf(fd, "%c%s", UNGUARDED, preparation->no_guard);
	return put(outcome_name, fd);
}

int handover_put(const struct preparation *preparation)
{
	int r;

	r = put(tracefs_name, preparation->mounts.tracefs);
	if (r == 0)
		r = put(pages_name, preparation->mounts.pages);
	if (r == 0)
		r = put_read_only(preparation->mounts.pages_read_only);
	return r < 0 ? r : put_outcome(preparation);
}

static int read_outcome(int fd, struct preparation *ret)
{
	char text[WIRE_SENTENCE_MAX + 2];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return n < 0 ? -errno : -ENODATA;
	text[n] = '\0';
	ret->guarded = *text == GUARDED;
	if (*text == FAILED)
		string_copy(ret->failure, sizeof(ret->failure), text + 1);
	else
		string_copy(ret->no_guard, sizeof(ret->no_guard), text + 1);
	return 0;
}

/* Whatever nobody has a use for is closed. */
static int take_one(int given, const char *name, int *listener, struct preparation *preparation)
{
	_cleanup_(fd_closep) int fd = given;
	int *slot = streq(name, listener_name)	  ? listener
		    : streq(name, tracefs_name)	  ? &preparation->mounts.tracefs
		    : streq(name, pages_name)	  ? &preparation->mounts.pages
		    : streq(name, read_only_name) ? &preparation->mounts.pages_read_only
						  : NULL;

	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	if (streq(name, outcome_name))
		return read_outcome(fd, preparation);
	if (slot && *slot < 0)
		*slot = fd_steal(&fd);
	return 0;
}

static int count_handed(void)
{
	const char *process = getenv("LISTEN_PID"), *number = getenv("LISTEN_FDS");
	long n;

	if (!process || !number || strtol(process, NULL, 10) != getpid())
		return 0;
	n = strtol(number, NULL, 10);
	return n < 0 || n > HANDED_MAX ? -E2BIG : (int)n;
}

int handover_take(int *ret_listener, struct preparation *ret)
{
	const char *said = getenv("LISTEN_FDNAMES");
	_cleanup_(freep) char *copy = strdup(said ? said : "");
	struct preparation preparation = PREPARATION_NONE;
	int listener = -1, n = count_handed(), r = 0;
	char *names = copy;

	if (!copy)
		return -ENOMEM;
	if (n <= 0)
		return n < 0 ? n : -ENOENT;
	for (int i = 0; i < n && r == 0; i++) {
		const char *name = strsep(&names, ":");

		r = name ? take_one(FIRST_FD + i, name, &listener, &preparation) : -EINVAL;
	}
	if (r == 0 && listener < 0)
		r = -ENOENT;
	if (r < 0) {
		fd_close(listener);
		preparation_deinit(&preparation);
		return r;
	}
	*ret_listener = listener;
	*ret = preparation;
	return 0;
}
