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

static const char outcome_name[] = "outcome";

enum { READ_ONLY = 2, LISTENER = 8, FILES };

static const struct {
	const char *name;
	size_t member;
} files[FILES] = {
	{ "tracefs", offsetof(struct preparation, mounts.tracefs) },
	{ "pages", offsetof(struct preparation, mounts.pages) },
	[READ_ONLY] = { "pages-read-only", offsetof(struct preparation, mounts.pages_read_only) },
	{ "native", offsetof(struct preparation, mounts.native) },
	{ "native-shared", offsetof(struct preparation, mounts.native_files[NATIVE_SHARED]) },
	{ "native-notes", offsetof(struct preparation, mounts.native_files[NATIVE_NOTES]) },
	{ "native-list", offsetof(struct preparation, mounts.native_files[NATIVE_LIST]) },
	{ "native-sweep", offsetof(struct preparation, mounts.native_files[NATIVE_SWEEP]) },
	[LISTENER] = { "keeper", offsetof(struct preparation, listener) }, /* from systemd */
};

static int *file_of(const struct preparation *preparation, size_t i)
{
	return (int *)((uintptr_t)preparation + files[i].member);
}

void preparation_deinit(struct preparation *preparation)
{
	for (size_t i = 0; i < FILES; i++)
		fd_close(*file_of(preparation, i));
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
	_cleanup_(fd_closep) int outcome = memfd_create(outcome_name, MFD_CLOEXEC), read_only = -1;
	int r = 0;

	if (outcome < 0 || write(outcome, preparation, sizeof(*preparation)) != sizeof(*preparation))
		return -errno;
	/*
	 * Reopened with other flags: if the kernel has no kcmp(), systemd takes two descriptors of one directory for the same one, and
	 * keeps only the first.
	 */
	if (preparation->mounts.pages_read_only >= 0) {
		read_only = openat(preparation->mounts.pages_read_only, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (read_only < 0)
			return -errno;
	}
	for (size_t i = 0; i < LISTENER && r == 0; i++)
		r = handover_store(files[i].name, i == READ_ONLY ? read_only : *file_of(preparation, i));
	return r == 0 ? handover_store(outcome_name, outcome) : r;
}

/* Closes an fd with an unknown name. */
static int handover_take_one(void *data, int given, const char *name)
{
	_cleanup_(fd_closep) int fd = given;
	struct preparation outcome, *ret = data;

	if (streq(name, outcome_name)) {
		if (pread(fd, &outcome, sizeof(outcome), 0) != sizeof(outcome))
			return -ENODATA;
		/* The same program has written it, but its fds have other numbers here. */
		outcome.listener = ret->listener;
		outcome.mounts = ret->mounts;
		*ret = outcome;
		return 0;
	}
	for (size_t i = 0; i < FILES && fd >= 0; i++)
		if (streq(name, files[i].name) && *file_of(data, i) < 0)
			*file_of(data, i) = fd_steal(&fd);
	return 0;
}

int handover_take(struct preparation *ret)
{
	int r;

	*ret = PREPARATION_NONE;
	r = service_take_fds(handover_take_one, ret);
	if (r >= 0 && ret->listener < 0)
		r = -ENOENT;
	if (r < 0)
		preparation_deinit(ret);
	return MIN(r, 0);
}
