/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/keeper/handover.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "kernel/service.h"

/*
 * ExecStartPre= has root's privileges while it makes the mounts and loads the guard; ExecStart= never has any. The mounts reach it
 * through systemd's file descriptor store.
 */

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

/* Replaces an entry of an earlier start. FDPOLL=0: these are not sockets, and can't be polled. */
static int handover_store(const char *name, int fd)
{
	char text[128];
	int r;

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s\n", name);
	r = service_notify(text, NULL, 0);
	if (r < 0 || fd < 0)
		return r;
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s\n", name);
	return service_notify(text, &fd, 1);
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

struct taken {
	int listener;
	struct preparation preparation;
};

/* Closes an fd with an unknown name. */
static int handover_take_one(void *data, int given, const char *name)
{
	_cleanup_(fd_closep) int fd = given;
	struct taken *taken = data;
	struct mounts *mounts = &taken->preparation.mounts;
	int *slot = streq(name, listener_name)	  ? &taken->listener
		    : streq(name, tracefs_name)	  ? &mounts->tracefs
		    : streq(name, pages_name)	  ? &mounts->pages
		    : streq(name, read_only_name) ? &mounts->pages_read_only
						  : NULL;

	if (streq(name, outcome_name))
		return read_outcome(fd, &taken->preparation);
	if (slot && *slot < 0)
		*slot = fd_steal(&fd);
	return 0;
}

int handover_take(int *ret_listener, struct preparation *ret)
{
	struct taken taken = { .listener = -1, .preparation = PREPARATION_NONE };
	int r = service_take_fds(handover_take_one, &taken);

	if (r >= 0 && taken.listener < 0)
		r = -ENOENT;
	if (r < 0) {
		fd_close(taken.listener);
		preparation_deinit(&taken.preparation);
		return r;
	}
	*ret_listener = taken.listener;
	*ret = taken.preparation;
	return 0;
}
