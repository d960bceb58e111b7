/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/left_behind.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "kernel/user_events/stream.h"
#include "kernel/user_events/user_events.h"
#include "protocol/base/text.h"

/*
 * The page is the kernel's, so nobody can set its bits (page_file.c) but by switching events on. After keeper and daemon were
 * killed at once the next keeper does just that, in an instance of tracefs of its own which records nothing, and for as long as any
 * data file of the predecessor's is open: programs write, look at their connection while they do, find that it is gone, and close
 * those files once they have claimed everything anew.
 *
 * What a successor has to know are empty files in the keeper's directory: a name for each event in use, "event-" in front of
 * those that this keeper has made and "other-" of the rest; and "streams-" with the place where each keeper's locks of data files
 * begin (stream.c). All of them are the business of the keeper that has locked the directory: one that is started by mistake
 * beside it changes nothing.
 */

enum { PAUSE_FIRST = 1, PAUSE_LAST = 30, NAME_BYTES = 256 };

static const char own_prefix[] = "event-", other_prefix[] = "other-", streams_prefix[] = "streams-";

typedef void entry_taker(struct user_events *, const char *rest, void *data);

static void make_mark(int directory, const char *prefix, const char *name)
{
	char file[NAME_BYTES];

	/* What can't be recorded is not found again. */
	if (snprintf(file, sizeof(file), "%s%s", prefix, name) < (int)sizeof(file))
		fd_close(openat(directory, file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

static void remove_mark(int directory, const char *prefix, const char *name)
{
	char file[NAME_BYTES];

	if (snprintf(file, sizeof(file), "%s%s", prefix, name) < (int)sizeof(file))
		unlinkat(directory, file, 0);
}

/* Each with that prefix. */
static void walk(struct user_events *user_events, const char *prefix, entry_taker *take, void *data)
{
	int fd = openat(user_events->left_behind.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

/* --- this keeper's --- */

static void record_all(struct user_events *user_events)
{
	const struct holding *holding;

	for (holding = user_events->shared.holdings; holding; holding = holding->by_key.next) {
		char name[WIRE_DESCRIPTION_MAX + 1];

		string_copy(name, sizeof(name), holding->text);
		name[strcspn(name, " ")] = '\0';
		make_mark(user_events->left_behind.directory, holding->foreign ? other_prefix : own_prefix, name);
	}
}

/* A predecessor that is about to end may have it still: then the next time. */
static bool has_directory(struct user_events *user_events)
{
	struct left_behind *left_behind = &user_events->left_behind;

	if (left_behind->directory < 0 || left_behind->lock >= 0)
		return left_behind->directory >= 0;
	left_behind->lock = openat(left_behind->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (left_behind->lock >= 0 && flock(left_behind->lock, LOCK_EX | LOCK_NB) < 0)
		left_behind->lock = fd_close(left_behind->lock);
	if (left_behind->lock >= 0)
		record_all(user_events);
	return left_behind->lock >= 0;
}

struct place_text {
	char text[20];
};

static struct place_text place_text(uint64_t place)
{
	struct place_text text;

	snprintf(text.text, sizeof(text.text), "%016llx", (unsigned long long)place);
	return text;
}

static struct place_text own_place(const struct user_events *user_events)
{
	return place_text(user_events->places.first);
}

void left_behind_note_ranges(struct user_events *user_events)
{
	const struct places *places = &user_events->places;

	for (uint64_t place = places->first; user_events->left_behind.directory >= 0 && place < places->end;
	     place += RANGE_SIZE)
		make_mark(user_events->left_behind.directory, streams_prefix, place_text(place).text);
}

void left_behind_init(struct user_events *user_events, int directory)
{
	user_events->left_behind.directory = directory;
	left_behind_note_ranges(user_events);
}

void left_behind_record(struct user_events *user_events, const char *name, bool ours)
{
	if (has_directory(user_events))
		make_mark(user_events->left_behind.directory, ours ? own_prefix : other_prefix, name);
}

void left_behind_forget(struct user_events *user_events, const char *name)
{
	if (!has_directory(user_events))
		return;
	remove_mark(user_events->left_behind.directory, own_prefix, name);
	remove_mark(user_events->left_behind.directory, other_prefix, name);
}

/* --- a predecessor's --- */

static bool is_any_open(const struct user_events *user_events, uint64_t first)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)first,
		.l_len = (off_t)RANGE_SIZE,
	};

	return fcntl(user_events->data, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

static void instance_path(const char *place, char ret[64])
{
	snprintf(ret, 64, "instances/userevd-%s", place);
}

static void look_at_streams(struct user_events *user_events, const char *place, void *data)
{
	const uint64_t first = strtoull(place, NULL, 16);
	char path[64];

	if ((first >= user_events->places.first && first < user_events->places.end) || first > INT64_MAX - RANGE_SIZE)
		return;
	/* A keeper that was killed while it did this: what it switched on is for this keeper to switch on, or is over. */
	instance_path(place, path);
	unlinkat(user_events->mounts.tracefs, path, AT_REMOVEDIR);
	if (is_any_open(user_events, first))
		*(bool *)data = true;
	else
		remove_mark(user_events->left_behind.directory, streams_prefix, place);
}

static bool is_predecessors_open(struct user_events *user_events)
{
	bool any = false;

	walk(user_events, streams_prefix, look_at_streams, &any);
	return any;
}

static int write_text(int directory, const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = openat(directory, path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
}

static void switch_on(struct user_events *user_events, const char *name, void *data _unused_)
{
	char path[NAME_BYTES + 64];

	snprintf(path, sizeof(path), "events/user_events/%s/enable", name);
	write_text(user_events->left_behind.instance, path, "1");
}

static int make_instance(struct user_events *user_events)
{
	char path[64];

	instance_path(own_place(user_events).text, path);
	if (mkdirat(user_events->mounts.tracefs, path, 0700) < 0 && errno != EEXIST)
		return -errno;
	user_events->left_behind.instance =
		openat(user_events->mounts.tracefs, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (user_events->left_behind.instance < 0)
		return -errno;
	write_text(user_events->left_behind.instance, "buffer_size_kb", "1");
	return write_text(user_events->left_behind.instance, "tracing_on", "0");
}

static void remove_instance(struct user_events *user_events)
{
	char path[64];

	if (user_events->left_behind.instance < 0)
		return;
	user_events->left_behind.instance = fd_close(user_events->left_behind.instance);
	instance_path(own_place(user_events).text, path);
	if (unlinkat(user_events->mounts.tracefs, path, AT_REMOVEDIR) < 0)
		fprintf(stderr, "userevd-keeper: can't remove the instance userevd-%s of tracefs: %s\n",
			own_place(user_events).text, strerror(errno));
}

static void switch_all_on(struct user_events *user_events)
{
	const int r = make_instance(user_events);

	if (r < 0) {
		fprintf(stderr,
			"userevd-keeper: can't switch on what a predecessor left behind (%s): programs whose events are off "
			"don't find this one\n",
			strerror(-r));
		remove_instance(user_events);
		return;
	}
	walk(user_events, own_prefix, switch_on, NULL);
	walk(user_events, other_prefix, switch_on, NULL);
}

static void take_own(struct user_events *user_events, const char *name, void *data)
{
	(*(left_behind_taker **)data)(user_events, name);
}

void left_behind_look(struct user_events *user_events, left_behind_taker *take)
{
	struct left_behind *left_behind = &user_events->left_behind;
	bool is_open;

	if (left_behind->pause == 0 || !has_directory(user_events))
		return;
	is_open = is_predecessors_open(user_events);
	if (!left_behind->settled) {
		if (is_open)
			switch_all_on(user_events);
		walk(user_events, own_prefix, take_own, &take);
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
	const struct places *places = &user_events->places;

	remove_instance(user_events);
	/* A range in which no program has a file any more need not be looked at. */
	for (uint64_t place = places->first;
	     left_behind->directory >= 0 && user_events->data >= 0 && place < places->end; place += RANGE_SIZE)
		if (!is_any_open(user_events, place))
			remove_mark(left_behind->directory, streams_prefix, place_text(place).text);
	left_behind->lock = fd_close(left_behind->lock);
}
