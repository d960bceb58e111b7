/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The bytes of the data file on which streams have their locks, and programs that lock them. The data file is an ordinary file here. */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "kernel/user_events/stream.h"
#include "tests/suite.h"

enum { STREAMS = 64 };

static char directory[64];

static void keeper_begin(struct user_events *keeper)
{
	*keeper = (struct user_events){ .mounts.tracefs = open(directory, O_PATH | O_CLOEXEC) };
	keeper->data = data_file_open(&keeper->mounts);
	ck_assert_int_ge(keeper->data, 0);
	ck_assert_int_eq(places_init(keeper), 0);
}

static void keeper_end(struct user_events *keeper)
{
	fd_close(keeper->mounts.tracefs);
	fd_close(keeper->data);
	fd_close(keeper->places.fd);
}

static void begin(struct user_events *keeper)
{
	char path[96];

	make_temporary_directory(directory, sizeof(directory));
	snprintf(path, sizeof(path), "%s/user_events_data", directory);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	keeper_begin(keeper);
}

static void end(struct user_events *keeper)
{
	char path[96];

	keeper_end(keeper);
	snprintf(path, sizeof(path), "%s/user_events_data", directory);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}

/* 0, or the negative errno. */
static int change_lock(int fd, short type, uint64_t from, uint64_t n)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)n };

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static int open_holder(const struct user_events *keeper)
{
	int fd = data_file_open(&keeper->mounts);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Locks everything except the bytes that have a lock. */
static void lock_all(int fd, uint64_t from, uint64_t until)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)from,
		.l_len = (off_t)(until - from),
	};

	if (from == until || change_lock(fd, F_WRLCK, from, until - from) == 0)
		return;
	ck_assert_int_eq(fcntl(fd, F_OFD_GETLK, &lock), 0);
	lock_all(fd, from, MAX((uint64_t)lock.l_start, from));
	lock_all(fd, MIN((uint64_t)(lock.l_start + lock.l_len), until), until);
}

static void expect_stream(struct user_events *keeper, int *ret, uint64_t *ret_place)
{
	ck_assert_int_eq(stream_file_open(keeper, ret_place, ret), 0);
	ck_assert(range_is_locked(keeper, *ret_place, 1));
}

TEST(stream_has_lock_until_last_copy_is_closed)
{
	struct user_events keeper;
	uint64_t one, other;
	int fd[2], copy;

	begin(&keeper);
	expect_stream(&keeper, &fd[0], &one);
	expect_stream(&keeper, &fd[1], &other);
	ck_assert_uint_ne(one, other);
	copy = dup(fd[0]);
	close(fd[0]);
	ck_assert(range_is_locked(&keeper, one, 1));
	close(copy);
	ck_assert(!range_is_locked(&keeper, one, 1));
	ck_assert(range_is_locked(&keeper, other, 1));
	close(fd[1]);
	end(&keeper);
}

TEST(locked_free_bytes_do_not_prevent_streams)
{
	struct user_events keeper;
	uint64_t place[STREAMS];
	int fd[STREAMS], holder;

	begin(&keeper);
	expect_stream(&keeper, &fd[0], &place[0]);
	holder = open_holder(&keeper);
	lock_all(holder, 0, INT64_MAX);
	for (unsigned i = 1; i < STREAMS; i++)
		expect_stream(&keeper, &fd[i], &place[i]);
	for (unsigned i = 0; i < STREAMS; i++) {
		close(fd[i]);
		ck_assert(!range_is_locked(&keeper, place[i], 1));
	}
	close(holder);
	end(&keeper);
}

TEST(stream_whose_byte_was_taken_gets_a_free_one)
{
	struct user_events keeper;
	uint64_t place;
	int fd, holder;

	begin(&keeper);
	holder = open_holder(&keeper);
	place = keeper.places.next;
	ck_assert_int_eq(change_lock(keeper.places.fd, F_UNLCK, place, 10), 0);
	ck_assert_int_eq(change_lock(holder, F_WRLCK, place, 10), 0);
	expect_stream(&keeper, &fd, &place);
	close(fd);
	ck_assert(!range_is_locked(&keeper, place, 1));
	close(holder);
	end(&keeper);
}

/* By a program that waited for the end of the last keeper. */
TEST(keeper_works_without_range_if_all_is_locked)
{
	struct user_events keeper;
	uint64_t place;
	int fd, holder;

	begin(&keeper);
	holder = open_holder(&keeper);
	keeper_end(&keeper);
	ck_assert_int_eq(change_lock(holder, F_WRLCK, 0, 0), 0);
	keeper_begin(&keeper);
	ck_assert_int_eq(stream_file_open(&keeper, &place, &fd), 0);
	close(fd);
	/* With a guard there is no witness instead. */
	keeper.kernel.facts.guarded = true;
	ck_assert_int_eq(stream_file_open(&keeper, &place, &fd), -EAGAIN);
	close(holder);
	expect_stream(&keeper, &fd, &place);
	close(fd);
	end(&keeper);
}

TEST(two_keepers_have_places_of_their_own)
{
	struct user_events keeper, other;
	uint64_t place[2];
	int fd[2];

	begin(&keeper);
	keeper_begin(&other);
	ck_assert_uint_ne(keeper.places.first, other.places.first);
	for (unsigned i = 0; i < STREAMS; i++) {
		expect_stream(&keeper, &fd[0], &place[0]);
		expect_stream(&other, &fd[1], &place[1]);
		ck_assert_uint_ne(place[0], place[1]);
		close(fd[0]);
		close(fd[1]);
	}
	keeper_end(&other);
	end(&keeper);
}

/* For each question about a lock the kernel walks all locks of the file. */
TEST(keepers_lock_stays_one_piece)
{
	struct user_events keeper;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	uint64_t place;
	int fd;

	begin(&keeper);
	for (unsigned i = 0; i < STREAMS; i++) {
		expect_stream(&keeper, &fd, &place);
		close(fd);
	}
	ck_assert_int_eq(fcntl(keeper.data, F_OFD_GETLK, &lock), 0);
	ck_assert_uint_eq((uint64_t)lock.l_start, keeper.places.next);
	ck_assert_uint_eq((uint64_t)(lock.l_start + lock.l_len), keeper.places.first + RANGE_SIZE);
	end(&keeper);
}

/* --- indexes --- */

/* An index that the stream has had means that the event was registered on it before. */
TEST(skipped_index_means_self_registered)
{
	struct event_stream stream = { .fd = -1 };
	static const uint32_t ours[] = { 0, 1, 0, 2 };

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		stream_note_index(&stream, ours[i]);
	ck_assert_uint_eq(stream.next_index, 3);
	ck_assert(!stream.self_registered);
	stream_note_index(&stream, 4);
	ck_assert(stream.self_registered);
}
