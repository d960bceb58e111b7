/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/stream.h"

#include <fcntl.h>

#include "kernel/uapi.h"

/*
 * Nothing tells how many copies of an open file there are, but a lock that belongs to the open file lives exactly as long as
 * the last of them. Each stream has a byte of the data file to itself; all open files of the machine share these bytes, so
 * every keeper begins at a place of its own.
 */

int data_file_open(const struct mounts *mounts)
{
	int fd = openat(mounts->tracefs, "user_events_data", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static struct flock lock_at(uint64_t place)
{
	return (struct flock){
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)place,
		.l_len = 1,
	};
}

int stream_open(struct user_events *user_events, uint64_t place, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = data_file_open(&user_events->mounts);
	struct flock lock = lock_at(place);

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
		return -errno;
	*ret_fd = fd_steal(&fd);
	return 0;
}

bool stream_is_open(const struct user_events *user_events, uint64_t place)
{
	struct flock lock = lock_at(place);

	/* If it can't be asked, it is charged. */
	return fcntl(user_events->data, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

bool stream_is_clean(const struct event_stream *stream)
{
	/* An index that the file doesn't have is ENOENT; any event would want more than no payload, or would be off. */
	return write(stream->fd, &stream->next_index, UAPI_INDEX_BYTES) < 0 && errno == ENOENT;
}
