/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <dirent.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "kernel/uapi.h"
#include "kernel/user_events/allocate.h"
#include "kernel/user_events/format.h"
#include "kernel/user_events/look.h"
#include "kernel/user_events/registration.h"
#include "kernel/user_events/stream.h"
#include "protocol/base/text.h"

/*
 * Linux 5.18 to 6.3: the kernel has one page, which every tenant gets, and sets its bits without enablers. (This file can go when no
 * supported machine runs such a kernel.)
 *
 * This kernel neither compares the fields of two events of one name nor deletes events. The keeper does both.
 */

static int status_page_new(struct user_events *user_events, struct event_page *page)
{
	page->client_fd = fcntl(user_events->status, F_DUPFD_CLOEXEC, 0);
	return page->client_fd < 0 ? -errno : 0;
}

static int status_join(int file, const char *text, uint16_t flags _unused_, uint32_t *bit, uint32_t *ret_index)
{
	struct uapi_register_status asked = {
		.size = sizeof(asked),
		.description = (uint64_t)(uintptr_t)text,
	};

	if (ioctl(file, UAPI_IOCTL_REGISTER, &asked) < 0)
		return registration_answer(-errno);
	/* A program with a stream has deleted the event, and it was registered again: our clients look at the wrong bit. */
	if (*bit != 0 && *bit != asked.bit)
		return -ESTALE;
	*bit = asked.bit;
	*ret_index = asked.index;
	return 0;
}

/*
 * A successor's information is in empty files in the keeper's directory, one for each event in use, with "event-" before the name of
 * those that this keeper has made and "other-" before the rest.
 */

enum { RETRY_SECONDS = 1, PAUSE_FIRST = 1, PAUSE_LAST = 30, NAME_BYTES = 256, PATH_BYTES = 64 };

static const char own_prefix[] = "event-", other_prefix[] = "other-";

/* An event that can't be recorded is not found by a successor. */
static void mark_change(const struct user_events *user_events, const char *prefix, const char *name, bool make)
{
	char file[NAME_BYTES];

	if (snprintf(file, sizeof(file), "%s%s", prefix, name) >= (int)sizeof(file))
		return;
	if (make)
		fd_close(openat(user_events->mounts.pages, file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
	else
		unlinkat(user_events->mounts.pages, file, 0);
}

static void forget_event(const struct user_events *user_events, const char *name)
{
	mark_change(user_events, own_prefix, name, false);
	mark_change(user_events, other_prefix, name, false);
}

/* --- events that are to be deleted --- */

/*
 * An event can't be deleted while a tracer uses it, so the keeper tries again. (If another program has registered the same event
 * meanwhile, it is deleted when that program has ended: the keeper has made it.)
 */

struct unwanted {
	SLIST_ENTRY(unwanted) entry;
	char name[];
};

/* True when it has gone. */
static bool delete_event(struct user_events *user_events, const char *name)
{
	if (ioctl(user_events->data, UAPI_IOCTL_DELETE, name) < 0 && errno != ENOENT)
		return false;
	forget_event(user_events, name);
	return true;
}

static void unwanted_set_timer(struct user_events *user_events)
{
	const unsigned pause = user_events->pause;
	const time_t every = pause > 0 ? pause : SLIST_EMPTY(&user_events->unwanted) ? 0 : RETRY_SECONDS;

	timerfd_settime(user_events->timer, 0,
			&(struct itimerspec){ .it_interval.tv_sec = every, .it_value.tv_sec = every }, NULL);
}

static void unwanted_add(struct user_events *user_events, const char *name)
{
	struct unwanted *unwanted = keeper_allocate(sizeof(*unwanted) + strlen(name) + 1);

	memcpy(unwanted->name, name, strlen(name) + 1);
	SLIST_INSERT_HEAD(&user_events->unwanted, unwanted, entry);
	unwanted_set_timer(user_events);
}

static void unwanted_free(struct user_events *user_events, struct unwanted *unwanted)
{
	SLIST_REMOVE(&user_events->unwanted, unwanted, unwanted, entry);
	free(unwanted);
	unwanted_set_timer(user_events);
}

/* Witnesses of a keeper that has ended are deleted when their files are closed. (Another keeper that is running deletes its own as well.) */
static void unwanted_find_witnesses(struct user_events *user_events)
{
	FILE *list = look_list(user_events->list);
	char line[WIRE_DESCRIPTION_MAX];

	while (list && fgets(line, sizeof(line), list)) {
		char name[WITNESS_SIZE], digits[WITNESS_DIGITS + 1];

		if (sscanf(line, "%*u:" WITNESS_PREFIX "%32[0-9a-f]", digits) != 1 || strlen(digits) != WITNESS_DIGITS)
			continue;
		snprintf(name, sizeof(name), WITNESS_PREFIX "%s", digits);
		unwanted_add(user_events, name);
	}
	if (list)
		fclose(list);
}

static void unwanted_delete(struct user_events *user_events)
{
	struct unwanted *unwanted, *next;

	/* Its events are on, so they can't be deleted. */
	if (user_events->instance >= 0)
		return;
	for (unwanted = SLIST_FIRST(&user_events->unwanted); unwanted; unwanted = next) {
		next = SLIST_NEXT(unwanted, entry);
		if (delete_event(user_events, unwanted->name))
			unwanted_free(user_events, unwanted);
	}
}

/* An event that existed before is not ours to delete. */
static void status_remove_one(struct user_events *user_events, struct holding *holding)
{
	char name[WIRE_DESCRIPTION_MAX + 1];

	holding_name(holding, name);
	if (holding->foreign && !user_events->ending)
		forget_event(user_events, name);
	if (holding->foreign)
		return;
	if (!delete_event(user_events, name))
		unwanted_add(user_events, name);
}

static void status_remove(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		status_remove_one(user_events, holdings[i]);
}

/* The fields are compared before, so a refused event leaves nothing on the stream; and after, since another program may have made it. */
static int status_place_one(struct user_events *user_events, struct event_stream *stream, struct holding *holding)
{
	uint32_t *index = &holding->first.index;
	char name[WIRE_DESCRIPTION_MAX + 1];
	struct unwanted *unwanted;
	bool was_there;
	int r;

	r = format_compare(user_events->mounts.tracefs, holding->text);
	if (r == FORMAT_OTHER)
		return KERNEL_E_NAME_TAKEN;
	if (r < 0)
		return r;
	was_there = r == FORMAT_SAME;
	r = status_join(stream->fd, holding->text, 0, &holding->bit, index);
	if (r != 0)
		return r;
	stream_note_index(stream, *index);
	holding_name(holding, name);
	unwanted = was_there ? SLIST_FIRST(&user_events->unwanted) : NULL;
	while (unwanted && !streq(unwanted->name, name))
		unwanted = SLIST_NEXT(unwanted, entry);
	holding->foreign = was_there && !unwanted;
	/* It existed only because it could not be deleted yet, and is wanted again. */
	if (unwanted)
		unwanted_free(user_events, unwanted);
	mark_change(user_events, holding->foreign ? other_prefix : own_prefix, name, true);
	r = format_compare(user_events->mounts.tracefs, holding->text);
	if (r < 0)
		status_remove_one(user_events, holding);
	return r == FORMAT_OTHER ? KERNEL_E_NAME_TAKEN : MIN(r, 0);
}

/*
 * The kernel still has the event, under the bit that the daemon has given. (Whether another program had made it was forgotten with the
 * last keeper: it is deleted like ours, if no program uses it then.)
 */
static int status_adopt_one(struct user_events *user_events, int file, struct holding *holding)
{
	uint32_t index;
	int r = format_compare(user_events->mounts.tracefs, holding->text);

	if (r < 0)
		return r;
	if (r != FORMAT_SAME)
		return KERNEL_E_NO_SUCH;
	r = status_join(file, holding->text, 0, &holding->bit, &index);
	return r == -ESTALE ? KERNEL_E_NO_SUCH : r;
}

static void status_place(struct user_events *user_events, struct placement *placement, int file)
{
	/* The daemon goes on with events of a predecessor, or has new ones. */
	user_events->settled = true;
	for (size_t i = 0; i < placement->n; i++)
		placement->calls[i]->result =
			file == placement->stream->fd
				? status_place_one(user_events, placement->stream, placement->holdings[i])
				: status_adopt_one(user_events, file, placement->holdings[i]);
}

/* --- a predecessor's events --- */

/*
 * The page is the kernel's, so the only way to set its bits (see page_file.c) is to switch events on. If keeper and daemon were killed
 * together, the next keeper does that, in an instance of tracefs of its own which records nothing, and for as long as a data file of the
 * predecessor's is open: programs write, find while they do that their connection has ended, and close those files once they have
 * registered again. A data file with a lock (stream.c) that is not this keeper's counts as the predecessor's.
 */

/* Calls `take` for each mark with that prefix. */
static void marks_visit(struct user_events *user_events, const char *prefix,
			void (*take)(struct user_events *, const char *name))
{
	int fd = openat(user_events->mounts.pages, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		fd_close(fd);
		return;
	}
	while ((entry = readdir(stream)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			take(user_events, entry->d_name + strlen(prefix));
	closedir(stream);
}

/* The same for each keeper with this directory: a predecessor may have been killed while it woke programs. */
static void instance_path(const struct user_events *user_events, char ret[PATH_BYTES])
{
	struct stat status = { 0 };

	(void)fstat(user_events->mounts.pages, &status);
	snprintf(ret, PATH_BYTES, "instances/userevd-%llu", (unsigned long long)status.st_ino);
}

static int write_file(int directory, const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = openat(directory, path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
}

static void switch_on(struct user_events *user_events, const char *name)
{
	char path[NAME_BYTES + PATH_BYTES];

	snprintf(path, sizeof(path), "events/user_events/%s/enable", name);
	write_file(user_events->instance, path, "1");
}

static void remove_instance(struct user_events *user_events)
{
	char path[PATH_BYTES];

	user_events->instance = fd_close(user_events->instance);
	instance_path(user_events, path);
	if (unlinkat(user_events->mounts.tracefs, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
		fprintf(stderr, "userevd-keeper: can't remove %s of tracefs: %s\n", path, strerror(errno));
}

static void wake_programs(struct user_events *user_events)
{
	char path[PATH_BYTES];
	int r = 0;

	instance_path(user_events, path);
	if (mkdirat(user_events->mounts.tracefs, path, 0700) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0) {
		user_events->instance = openat(user_events->mounts.tracefs, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = user_events->instance < 0 ? -errno : 0;
	}
	if (r == 0) {
		write_file(user_events->instance, "buffer_size_kb", "1");
		r = write_file(user_events->instance, "tracing_on", "0");
	}
	if (r < 0) {
		fprintf(stderr,
			"userevd-keeper: can't switch on the events of a predecessor (%s): programs whose events are off don't "
			"find this keeper\n",
			strerror(-r));
		remove_instance(user_events);
		return;
	}
	marks_visit(user_events, own_prefix, switch_on);
	marks_visit(user_events, other_prefix, switch_on);
}

/* At the first time all events that the predecessor has made become unwanted. */
static void look_for_predecessor(struct user_events *user_events)
{
	const uint64_t first = user_events->places.first;
	const bool is_open = range_is_locked(user_events, 0, first) ||
			     range_is_locked(user_events, first + RANGE_SIZE, INT64_MAX - first - RANGE_SIZE);

	if (!user_events->settled) {
		if (is_open)
			wake_programs(user_events);
		marks_visit(user_events, own_prefix, unwanted_add);
	}
	user_events->settled = true;
	user_events->pause = is_open ? MIN(MAX(user_events->pause * 2, PAUSE_FIRST), PAUSE_LAST) : 0;
	if (!is_open)
		remove_instance(user_events);
	unwanted_set_timer(user_events);
}

static int status_dispatch(struct user_events *user_events)
{
	uint64_t expired;
	const ssize_t n = read(user_events->timer, &expired, sizeof(expired));

	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n > 0 && user_events->pause > 0)
		look_for_predecessor(user_events);
	unwanted_delete(user_events);
	return 0;
}

/* A keeper whose daemon goes on with nothing was started after all its predecessors were killed. */
static void status_disowned(struct user_events *user_events)
{
	if (!user_events->settled)
		look_for_predecessor(user_events);
	unwanted_delete(user_events);
}

static void status_deinit(struct user_events *user_events)
{
	if (user_events->instance >= 0)
		remove_instance(user_events);
	unwanted_delete(user_events);
	while (!SLIST_EMPTY(&user_events->unwanted))
		unwanted_free(user_events, SLIST_FIRST(&user_events->unwanted));
	user_events->timer = fd_close(user_events->timer);
}

static const struct user_events_abi status_page_abi = {
	.page_new = status_page_new,
	.place = status_place,
	.join = status_join,
	.forget_witness = unwanted_add,
	.remove = status_remove,
	.disowned = status_disowned,
	.dispatch = status_dispatch,
	.deinit = status_deinit,
};

int status_page_init(struct user_events *user_events)
{
	struct kernel_facts *facts = &user_events->kernel.facts;
	struct text note = text_make(facts->note, sizeof(facts->note));
	struct epoll_event event = { .events = EPOLLIN };

	user_events->abi = &status_page_abi;
	/* Read-only, like the mount: otherwise a client could map it writable, and change the page of all tenants. */
	user_events->status = openat(user_events->mounts.pages_read_only, "user_events_status", O_RDONLY | O_CLOEXEC);
	if (user_events->status < 0)
		return -errno;
	user_events->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (user_events->timer < 0 || epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, user_events->timer, &event) < 0)
		return -errno;
	unwanted_find_witnesses(user_events);
	facts->shared_page = true;
	facts->page_bits = WIRE_PAGE_BITS; /* without a limit: the kernel chooses the bits */
	text_printf(
		&note,
		"before Linux 6.4 all tenants share one page: each sees which bits are on, can list all events, and can "
		"delete those that no program uses");
	return 0;
}
