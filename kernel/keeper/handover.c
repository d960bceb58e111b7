/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/handover.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "protocol/base/number.h"
#include "protocol/transport.h"

/*
 * ExecStartPre= has root's privileges while it makes the mounts and loads the guard; ExecStart= never has any. The mounts reach it
 * through systemd's file descriptor store. Each side is a few lines, so root's program needs no library for this.
 */

enum { FIRST_FD = 3, HANDED_MAX = 16 };

static const char tracefs_name[] = "tracefs", pages_name[] = "pages", read_only_name[] = "pages-read-only",
		  outcome_name[] = "outcome", listener_name[] = "keeper";

/* The outcome is text: a letter, and a sentence. */
enum { GUARDED = '+', UNGUARDED = '-', FAILED = '!' };

void preparation_deinit(struct preparation *preparation)
{
	fd_close(preparation->mounts.tracefs);
	fd_close(preparation->mounts.pages);
	fd_close(preparation->mounts.pages_read_only);
	*preparation = PREPARATION_NONE;
}

static int handover_notify(const char *text, const int *fds, size_t n_fds)
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
	/* An abstract address, whose first byte is a zero. */
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

/* Replaces an entry of an earlier start. FDPOLL=0: these are not sockets, and can't be polled. */
static int handover_store(const char *name, int fd)
{
	char text[128];
	int r;

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s\n", name);
	r = handover_notify(text, NULL, 0);
	if (r < 0 || fd < 0)
		return r;
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s\n", name);
	return handover_notify(text, &fd, 1);
}

int handover_put(const struct preparation *preparation)
{
	const struct mounts *mounts = &preparation->mounts;
	_cleanup_(fd_closep) int outcome = memfd_create("outcome", MFD_CLOEXEC), read_only = -1;
	int r;

	if (outcome < 0)
		return -errno;
	/*
	 * Reopened with other flags: if the kernel has no kcmp(), systemd takes two descriptors of one directory for the same one, and
	 * keeps only the first.
	 */
	if (mounts->pages_read_only >= 0) {
		read_only = openat(mounts->pages_read_only, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (read_only < 0)
			return -errno;
	}
	if (*preparation->failure)
		dprintf(outcome, "%c%s", FAILED, preparation->failure);
	else if (preparation->guarded)
		dprintf(outcome, "%c", GUARDED);
	else
		dprintf(outcome, "%c%s", UNGUARDED, preparation->no_guard);
	r = handover_store(tracefs_name, mounts->tracefs);
	if (r == 0)
		r = handover_store(pages_name, mounts->pages);
	if (r == 0)
		r = handover_store(read_only_name, read_only);
	return r == 0 ? handover_store(outcome_name, outcome) : r;
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

/* Closes an fd with an unknown name. */
static int handover_take_one(int given, const char *name, int *listener, struct preparation *preparation)
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

int handover_take(int *ret_listener, struct preparation *ret)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS"), *all = getenv("LISTEN_FDNAMES");
	_cleanup_(freep) char *copy = NULL;
	struct preparation preparation = PREPARATION_NONE;
	uint64_t process, n;
	int listener = -1, r = 0;
	char *names;

	if (!pid || !count || number_parse(pid, strlen(pid), INT32_MAX, &process) != NUMBER_GOOD ||
	    process != (uint64_t)getpid())
		return -ENOENT;
	if (number_parse(count, strlen(count), HANDED_MAX, &n) != NUMBER_GOOD)
		return -E2BIG;
	names = copy = strdup(all ? all : "");
	if (!copy)
		return -ENOMEM;
	for (int i = 0; i < (int)n && r == 0; i++) {
		const char *name = strsep(&names, ":");

		r = name ? handover_take_one(FIRST_FD + i, name, &listener, &preparation) : -EINVAL;
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
