/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "kernel/uapi.h"

/*
 * The kernel does not tell how many copies of an open file exist, but a lock that belongs to the open file (F_OFD_SETLK) lives exactly
 * as long as the last copy. Each stream has one byte of the data file for its lock. All open files of the machine share these bytes, so
 * each keeper has a range of its own, and locks the part of it that no stream has had yet: other programs with a data file can't take
 * the bytes of the next streams. A byte is used once, so this lock stays contiguous. Between the keeper's unlocking of a byte and the
 * stream's locking, another program may take it; then the stream gets the next byte.
 *
 * Without a guard, holders of a data file can unlock a byte, or lock those of streams that have ended. So a stream that begins to linger
 * unguarded gets a witness: an event with a random name and without any other reference. The kernel refuses to delete it while a copy
 * of the file is open.
 */

enum { TRIES = 16 };

int data_file_open(const struct mounts *mounts)
{
	int fd = openat(mounts->tracefs, "user_events_data", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int set_lock(int fd, short type, uint64_t from, uint64_t n)
{
	struct flock lock = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)from,
		.l_len = (off_t)n,
	};

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static int draw_random(void *ret, size_t size)
{
	return getrandom(ret, size, 0) == (ssize_t)size ? 0 : -EIO;
}

/* The range is random: a program that could foresee it could lock it. If another program has locked any of it, it stays unlocked. */
int places_init(struct user_events *user_events)
{
	struct places *places = &user_events->places;
	int r;

	places->fd = data_file_open(&user_events->mounts);
	r = places->fd < 0 ? places->fd : draw_random(&places->first, sizeof(places->first));
	if (r < 0)
		return r;
	places->first = places->first >> 2 & ~(RANGE_SIZE - 1);
	places->next = places->first;
	r = set_lock(places->fd, F_WRLCK, places->first, RANGE_SIZE);
	return r == -EAGAIN ? 0 : r;
}

int stream_file_open(struct user_events *user_events, uint64_t *ret_place, int *ret_fd)
{
	_cleanup_(fd_closep) int fd = data_file_open(&user_events->mounts);
	struct places *places = &user_events->places;
	int r = -EAGAIN;

	if (fd < 0)
		return fd;
	for (unsigned tries = 0; tries < TRIES && r == -EAGAIN; tries++) {
		*ret_place = places->next++;
		r = set_lock(places->fd, F_UNLCK, *ret_place, 1);
		if (r == 0)
			r = set_lock(fd, F_WRLCK, *ret_place, 1);
	}
	/* Unguarded, its witness will do. */
	if (r < 0 && (r != -EAGAIN || user_events->kernel.facts.guarded))
		return r;
	*ret_fd = fd_steal(&fd);
	return 0;
}

bool range_is_locked(const struct user_events *user_events, uint64_t from, uint64_t n)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)n };

	/* If the kernel can't tell, the stream goes on being charged. */
	return n > 0 && (fcntl(user_events->data, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK);
}

bool stream_has_lock(const struct user_events *user_events, int file, uint64_t place)
{
	return range_is_locked(user_events, place, 1) ||
	       (!user_events->kernel.facts.guarded && set_lock(file, F_WRLCK, place, 1) == 0);
}

void stream_leave_witness(struct user_events *user_events, struct event_stream *stream)
{
	uint64_t number[2];
	uint32_t bit = 0, index;

	if (stream->fd < 0 || draw_random(number, sizeof(number)) < 0)
		return;
	snprintf(stream->witness, sizeof(stream->witness), WITNESS_PREFIX "%016" PRIx64 "%016" PRIx64, number[0],
		 number[1]);
	if (user_events->abi->join(stream->fd, stream->witness, 0, &bit, &index) != 0) {
		*stream->witness = '\0';
		return;
	}
	user_events->witnesses++;
	stream_note_index(stream, index);
}

/* Deletes the witness if the kernel allows that: then no copy of the file is open. */
static bool witness_is_gone(struct user_events *user_events, struct event_stream *stream)
{
	if (ioctl(user_events->data, UAPI_IOCTL_DELETE, stream->witness) < 0 && errno != ENOENT)
		return false;
	*stream->witness = '\0';
	user_events->witnesses--;
	return true;
}

bool stream_is_open(struct user_events *user_events, struct event_stream *stream)
{
	if (*stream->witness)
		return !witness_is_gone(user_events, stream);
	/* Unguarded, the lock may be another file's. */
	return range_is_locked(user_events, stream->lock, 1);
}

void stream_forget_witness(struct user_events *user_events, struct event_stream *stream)
{
	if (!*stream->witness || witness_is_gone(user_events, stream))
		return;
	user_events->witnesses--;
	if (user_events->abi->forget_witness)
		user_events->abi->forget_witness(user_events, stream->witness);
}

/* The kernel numbers a file's events from 0 on, so a gap is an event of another program. */
void stream_note_index(struct event_stream *stream, uint32_t index)
{
	stream->self_registered |= index > stream->next_index;
	stream->next_index = MAX(stream->next_index, index + 1);
}

bool stream_is_clean(const struct event_stream *stream)
{
	if (stream->self_registered)
		return false;
	/* For an index that the file doesn't have the kernel returns ENOENT; for an event EINVAL or EBADF. */
	return write(stream->fd, &stream->next_index, UAPI_INDEX_BYTES) < 0 && errno == ENOENT;
}
