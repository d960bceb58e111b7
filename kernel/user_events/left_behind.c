/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/left_behind.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "kernel/user_events/registration.h"
#include "kernel/user_events/stream.h"

/*
 * The page is the kernel's, so the only way to set its bits (see page_file.c) is to switch events on. If keeper and daemon were killed
 * together, the next keeper does that, in an instance of tracefs of its own which records nothing, and for as long as a data file of the
 * predecessor's is open: programs write, find while they do that their connection has ended, and close those files once they have
 * registered again.
 *
 * A successor's information is in empty files in the keeper's directory: one for each event in use, with "event-" before the name of
 * those that this keeper has made and "other-" before the rest; and "streams-" with the byte where a keeper's locks of data files begin
 * (stream.c). Only the keeper that has locked the directory uses it: a second one that was started by mistake changes nothing.
 */

enum { PAUSE_FIRST = 1, PAUSE_LAST = 30, NAME_BYTES = 256, PATH_BYTES = 64 };

static const char own_prefix[] = "event-", other_prefix[] = "other-", streams_prefix[] = "streams-";

static void mark_make(int directory, const char *prefix, const char *name)
{
	char file[NAME_BYTES];

	/* An event that can't be recorded is not found by a successor. */
	if (snprintf(file, sizeof(file), "%s%s", prefix, name) < (int)sizeof(file))
		fd_close(openat(directory, file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

static void mark_remove(int directory, const char *prefix, const char *name)
{
	char file[NAME_BYTES];

	if (snprintf(file, sizeof(file), "%s%s", prefix, name) < (int)sizeof(file))
		unlinkat(directory, file, 0);
}

/* Another open file, for a lock or for reading. */
static int directory_reopen(const struct user_events *user_events)
{
	return openat(user_events->left_behind.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Calls `take` for each mark with that prefix. */
static void marks_visit(struct user_events *user_events, const char *prefix,
			void (*take)(struct user_events *, const char *rest, void *), void *data)
{
	int fd = directory_reopen(user_events);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		fd_close(fd);
		return;
	}
	while ((entry = readdir(stream)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			take(user_events, entry->d_name + strlen(prefix), data);
	closedir(stream);
}

/* --- this keeper's events --- */

/* Whether this keeper has the directory. If a predecessor that is about to end still has it, the next call tries again. */
static bool directory_lock(struct user_events *user_events)
{
	struct left_behind *left_behind = &user_events->left_behind;
	const struct holding *holding;

	if (left_behind->directory < 0 || left_behind->lock >= 0)
		return left_behind->directory >= 0;
	left_behind->lock = directory_reopen(user_events);
	if (left_behind->lock >= 0 && flock(left_behind->lock, LOCK_EX | LOCK_NB) < 0)
		left_behind->lock = fd_close(left_behind->lock);
	if (left_behind->lock < 0)
		return false;
	for (holding = user_events->shared.holdings; holding; holding = holding->by_key.next) {
		char name[WIRE_DESCRIPTION_MAX + 1];

		holding_name(holding, name);
		mark_make(left_behind->directory, holding->foreign ? other_prefix : own_prefix, name);
	}
	return true;
}

void left_behind_init(struct user_events *user_events, int directory)
{
	struct left_behind *left_behind = &user_events->left_behind;

	left_behind->directory = directory;
	snprintf(left_behind->place, sizeof(left_behind->place), "%016" PRIx64, user_events->places.first);
	if (directory >= 0)
		mark_make(directory, streams_prefix, left_behind->place);
}

void left_behind_record(struct user_events *user_events, const char *name, bool ours)
{
	if (directory_lock(user_events))
		mark_make(user_events->left_behind.directory, ours ? own_prefix : other_prefix, name);
}

void left_behind_forget(struct user_events *user_events, const char *name)
{
	if (!directory_lock(user_events))
		return;
	mark_remove(user_events->left_behind.directory, own_prefix, name);
	mark_remove(user_events->left_behind.directory, other_prefix, name);
}

/* --- a predecessor's events --- */

/* Whether a data file is open whose lock is in the range from `first` on. */
static bool range_is_locked(const struct user_events *user_events, uint64_t first)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)first,
		.l_len = (off_t)RANGE_SIZE,
	};

	return fcntl(user_events->data, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

static void instance_path(const char *place, char ret[PATH_BYTES])
{
	snprintf(ret, PATH_BYTES, "instances/userevd-%s", place);
}

static void check_range(struct user_events *user_events, const char *place, void *data)
{
	const uint64_t first = strtoull(place, NULL, 16);
	char path[PATH_BYTES];

	if (first == user_events->places.first || first > INT64_MAX - RANGE_SIZE)
		return;
	/* A keeper may have been killed while it woke programs: this keeper does that, or nothing is left to wake. */
	instance_path(place, path);
	unlinkat(user_events->mounts.tracefs, path, AT_REMOVEDIR);
	if (range_is_locked(user_events, first))
		*(bool *)data = true;
	else
		mark_remove(user_events->left_behind.directory, streams_prefix, place);
}

static int write_file(int directory, const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = openat(directory, path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
}

static void switch_on(struct user_events *user_events, const char *name, void *data _unused_)
{
	char path[NAME_BYTES + PATH_BYTES];

	snprintf(path, sizeof(path), "events/user_events/%s/enable", name);
	write_file(user_events->left_behind.instance, path, "1");
}

static void remove_instance(struct user_events *user_events)
{
	char path[PATH_BYTES];

	if (user_events->left_behind.instance < 0)
		return;
	user_events->left_behind.instance = fd_close(user_events->left_behind.instance);
	instance_path(user_events->left_behind.place, path);
	if (unlinkat(user_events->mounts.tracefs, path, AT_REMOVEDIR) < 0)
		fprintf(stderr, "userevd-keeper: can't remove %s of tracefs: %s\n", path, strerror(errno));
}

static void wake_programs(struct user_events *user_events)
{
	struct left_behind *left_behind = &user_events->left_behind;
	char path[PATH_BYTES];
	int r = 0;

	instance_path(left_behind->place, path);
	if (mkdirat(user_events->mounts.tracefs, path, 0700) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0) {
		left_behind->instance = openat(user_events->mounts.tracefs, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = left_behind->instance < 0 ? -errno : 0;
	}
	if (r == 0) {
		write_file(left_behind->instance, "buffer_size_kb", "1");
		r = write_file(left_behind->instance, "tracing_on", "0");
	}
	if (r < 0) {
		fprintf(stderr,
			"userevd-keeper: can't switch on the events of a predecessor (%s): programs whose events are off don't "
			"find this keeper\n",
			strerror(-r));
		remove_instance(user_events);
		return;
	}
	marks_visit(user_events, own_prefix, switch_on, NULL);
	marks_visit(user_events, other_prefix, switch_on, NULL);
}

static void take_own(struct user_events *user_events, const char *name, void *data)
{
	(*(left_behind_taker **)data)(user_events, name);
}

void left_behind_look(struct user_events *user_events, left_behind_taker *take)
{
	struct left_behind *left_behind = &user_events->left_behind;
	bool is_open = false;

	if (left_behind->pause == 0 || !directory_lock(user_events))
		return;
	marks_visit(user_events, streams_prefix, check_range, &is_open);
	if (!left_behind->settled) {
		if (is_open)
			wake_programs(user_events);
		marks_visit(user_events, own_prefix, take_own, &take);
	}
	left_behind->settled = true;
	left_behind->pause = is_open ? MIN(left_behind->pause * 2, PAUSE_LAST) : 0;
	if (!is_open)
		remove_instance(user_events);
}

void left_behind_begin(struct user_events *user_events, left_behind_taker *take)
{
	struct left_behind *left_behind = &user_events->left_behind;

	if (left_behind->settled)
		return;
	left_behind->pause = PAUSE_FIRST;
	left_behind_look(user_events, take);
}

void left_behind_settle(struct user_events *user_events)
{
	if (user_events->left_behind.pause == 0)
		user_events->left_behind.settled = true;
}

void left_behind_deinit(struct user_events *user_events)
{
	struct left_behind *left_behind = &user_events->left_behind;

	remove_instance(user_events);
	/* A successor need not look at a range in which no program has a file. */
	if (left_behind->directory >= 0 && user_events->data >= 0 &&
	    !range_is_locked(user_events, user_events->places.first))
		mark_remove(left_behind->directory, streams_prefix, left_behind->place);
	left_behind->lock = fd_close(left_behind->lock);
}
