/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "kernel/uapi.h"
#include "kernel/user_events/allocate.h"
#include "kernel/user_events/format.h"
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

static int register_text(int file, const char *text, uint32_t *ret_bit, uint32_t *ret_index)
{
	struct uapi_register_status asked = {
		.size = sizeof(asked),
		.description = (uint64_t)(uintptr_t)text,
	};

	if (ioctl(file, UAPI_IOCTL_REGISTER, &asked) < 0)
		return -errno;
	*ret_bit = asked.bit;
	*ret_index = asked.index;
	return 0;
}

static int status_join(int file, const char *text, uint16_t flags _unused_, uint32_t bit, uint32_t *ret_index)
{
	uint32_t now = 0;
	int r = registration_answer(register_text(file, text, &now, ret_index));

	/* A program with a stream has deleted the event, and it was registered again: our clients look at the wrong bit. */
	return r == 0 && bit != 0 && now != bit ? -ESTALE : r;
}

/*
 * An event can't be deleted while a tracer uses it, so the keeper tries again. (If another program has registered the same event
 * meanwhile, it is deleted when that program has ended: the keeper has made it.)
 */

enum { RETRY_SECONDS = 1 };

struct unwanted {
	SLIST_ENTRY(unwanted) entry;
	char name[];
};

/* True when it has gone. */
static bool delete_event(struct user_events *user_events, const char *name)
{
	if (ioctl(user_events->data, UAPI_IOCTL_DELETE, name) < 0 && errno != ENOENT)
		return false;
	left_behind_forget(user_events, name);
	return true;
}

static void unwanted_set_timer(struct user_events *user_events)
{
	const unsigned pause = user_events->left_behind.pause;
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
	char line[WIRE_DESCRIPTION_MAX];
	int copy = user_events->list < 0 ? -1 : fcntl(user_events->list, F_DUPFD_CLOEXEC, 0);
	FILE *list = copy < 0 ? NULL : fdopen(copy, "r");

	if (!list) {
		fd_close(copy);
		return;
	}
	rewind(list);
	while (fgets(line, sizeof(line), list)) {
		char name[WITNESS_SIZE], digits[WITNESS_DIGITS + 1];

		if (sscanf(line, "%*u:" WITNESS_PREFIX "%32[0-9a-f]", digits) != 1 || strlen(digits) != WITNESS_DIGITS)
			continue;
		snprintf(name, sizeof(name), WITNESS_PREFIX "%s", digits);
		unwanted_add(user_events, name);
	}
	fclose(list);
}

/* Whether the event exists only because it could not be deleted yet. It is wanted again. */
static bool unwanted_take_back(struct user_events *user_events, const char *name)
{
	struct unwanted *unwanted;

	SLIST_FOREACH(unwanted, &user_events->unwanted, entry)
	{
		if (!streq(unwanted->name, name))
			continue;
		unwanted_free(user_events, unwanted);
		return true;
	}
	return false;
}

static void unwanted_delete(struct user_events *user_events)
{
	struct unwanted *unwanted, *next;

	/* Its events are on, so they can't be deleted. */
	if (user_events->left_behind.instance >= 0)
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
		left_behind_forget(user_events, name);
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
	bool was_there;
	int r;

	r = format_compare(user_events->mounts.tracefs, holding->text);
	if (r == FORMAT_OTHER)
		return KERNEL_E_NAME_TAKEN;
	if (r < 0)
		return r;
	was_there = r == FORMAT_SAME;
	r = registration_answer(register_text(stream->fd, holding->text, &holding->bit, index));
	if (r != 0)
		return r;
	stream_note_index(stream, *index);
	holding_name(holding, name);
	holding->foreign = was_there && !unwanted_take_back(user_events, name);
	left_behind_record(user_events, name, !holding->foreign);
	r = format_compare(user_events->mounts.tracefs, holding->text);
	if (r < 0)
		status_remove_one(user_events, holding);
	return r == FORMAT_OTHER ? KERNEL_E_NAME_TAKEN : MIN(r, 0);
}

/*
 * The kernel still has the event, under the bit that the daemon has given. (Whether another program had made it was forgotten with the
 * last keeper: it is deleted like ours, if no program uses it then.)
 */
static int status_adopt_one(struct user_events *user_events, int file, const struct holding *holding)
{
	uint32_t index;
	int r = format_compare(user_events->mounts.tracefs, holding->text);

	if (r < 0)
		return r;
	if (r != FORMAT_SAME)
		return KERNEL_E_NO_SUCH;
	r = status_join(file, holding->text, 0, holding->bit, &index);
	return r == -ESTALE ? KERNEL_E_NO_SUCH : r;
}

static void status_place(struct user_events *user_events, struct placement *placement, int file)
{
	left_behind_settle(user_events);
	for (size_t i = 0; i < placement->n; i++)
		placement->calls[i]->result =
			file == placement->stream->fd
				? status_place_one(user_events, placement->stream, placement->holdings[i])
				: status_adopt_one(user_events, file, placement->holdings[i]);
}

static int status_dispatch(struct user_events *user_events)
{
	uint64_t expired;
	const ssize_t n = read(user_events->timer, &expired, sizeof(expired));

	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n > 0 && user_events->left_behind.pause > 0) {
		left_behind_look(user_events, unwanted_add);
		unwanted_set_timer(user_events);
	}
	unwanted_delete(user_events);
	return 0;
}

/* A keeper whose daemon goes on with nothing was started after all its predecessors were killed. */
static void status_disowned(struct user_events *user_events)
{
	left_behind_begin(user_events, unwanted_add);
	unwanted_set_timer(user_events);
	unwanted_delete(user_events);
}

static void status_deinit(struct user_events *user_events)
{
	left_behind_deinit(user_events);
	unwanted_delete(user_events);
	while (!SLIST_EMPTY(&user_events->unwanted))
		unwanted_free(user_events, SLIST_FIRST(&user_events->unwanted));
	user_events->timer = fd_close(user_events->timer);
}

static uint32_t status_maximum(const struct user_events *user_events _unused_)
{
	return WIRE_PAGE_BITS - 1;
}

static const struct user_events_abi status_page_abi = {
	.page_new = status_page_new,
	.place = status_place,
	.join = status_join,
	.forget_witness = unwanted_add,
	.remove = status_remove,
	.maximum = status_maximum,
	.disowned = status_disowned,
	.dispatch = status_dispatch,
	.deinit = status_deinit,
};

int status_page_init(struct user_events *user_events, const struct kernel_limits *limits)
{
	struct kernel_facts *facts = &user_events->kernel.facts;
	struct text note = text_make(facts->note, sizeof(facts->note));
	struct epoll_event event = { .events = EPOLLIN };

	user_events->abi = &status_page_abi;
	left_behind_init(user_events, user_events->mounts.pages);
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
	facts->capacity = status_maximum(user_events);
	if (limits->capacity)
		facts->capacity = MIN(facts->capacity, limits->capacity);
	text_printf(
		&note,
		"before Linux 6.4 all tenants share one page: each sees which bits are on, can list all events, and can "
		"delete those that no program uses");
	return 0;
}
