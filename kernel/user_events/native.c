/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/native.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Opened once more, it has the same mount, and nothing is registered on it. */
static int native_reopen(int file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int copy(int file)
{
	const int fd = fcntl(file, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static int native_tell_reason(const struct user_events *user_events)
{
	int fd = memfd_create("reason", MFD_CLOEXEC);

	if (fd < 0 || write(fd, user_events->no_native, strlen(user_events->no_native)) < 0)
		return -errno;
	return fd;
}

int on_native(struct user_events *user_events, struct kernel_call *call, const struct target *target _unused_)
{
	const struct mounts *mounts = &user_events->mounts;
	int r;

	if (call->index == KERNEL_NATIVE_REASON)
		r = native_tell_reason(user_events);
	else if (mounts->native < 0)
		return KERNEL_E_UNSUPPORTED;
	else if (call->index == KERNEL_NATIVE_FILE)
		r = native_reopen(mounts->native);
	else if (call->index < NATIVE_FILES)
		r = copy(mounts->native_files[call->index]);
	else
		return -EINVAL;
	if (r < 0)
		return r;
	call->fd = r;
	return KERNEL_OK;
}

int on_native_allow(struct user_events *user_events, struct kernel_call *call, const struct target *target _unused_)
{
	if (user_events->mounts.native < 0)
		return KERNEL_E_UNSUPPORTED;
	return fchmodat(user_events->mounts.tracefs, "user_events_data", call->index ? 0666 : 0640, 0) < 0 ? -errno
													   : KERNEL_OK;
}
