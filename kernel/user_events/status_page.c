/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "kernel/uapi.h"
#include "kernel/user_events/format.h"
#include "kernel/user_events/stream.h"
#include "kernel/user_events/user_events.h"
#include "protocol/base/text.h"

/*
 * Linux 5.18 to 6.3: the kernel has one page, and every tenant gets it. Nothing has to be held for its bits, so there are no
 * enablers. (All of this file can go when no supported machine runs such a kernel.)
 *
 * That kernel lets an event with other fields join one of the same name, and never deletes any: both are left to us.
 */

static int page_new(struct user_events *user_events, struct event_page *page)
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

static int register_on(int file, const struct holding *holding, uint32_t *ret_bit, uint32_t *ret_index)
{
	return user_events_answer(register_text(file, holding->text, ret_bit, ret_index));
}

static int witness(int file, const char *name, uint32_t *ret_index)
{
	uint32_t bit;

	return register_text(file, name, &bit, ret_index);
}

/*
 * What a tracer uses can't be deleted: it is tried again until nobody does. (What somebody else has registered meanwhile
 * goes, too, when he has gone: it was made by us.)
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

static void set_timer(struct user_events *user_events)
{
	const unsigned pause = user_events->left_behind.pause;
	const time_t every = pause > 0 ? pause : SLIST_EMPTY(&user_events->unwanted) ? 0 : RETRY_SECONDS;

	timerfd_settime(user_events->timer, 0,
			&(struct itimerspec){ .it_interval.tv_sec = every, .it_value.tv_sec = every }, NULL);
}

static void keep_for_later(struct user_events *user_events, const char *name)
{
	struct unwanted *unwanted = malloc(sizeof(*unwanted) + strlen(name) + 1);

	if (!unwanted)
		return; /* then it stays: a bit of the kernel's is lost */
	memcpy(unwanted->name, name, strlen(name) + 1);
	SLIST_INSERT_HEAD(&user_events->unwanted, unwanted, entry);
	set_timer(user_events);
}

static void forget(struct user_events *user_events, struct unwanted *unwanted)
{
	SLIST_REMOVE(&user_events->unwanted, unwanted, unwanted, entry);
	free(unwanted);
	set_timer(user_events);
}

/* Witnesses of a keeper that has ended: each goes when its file does. (Where another keeper lives it asks for its own, too.) */
static void find_witnesses(struct user_events *user_events)
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
		keep_for_later(user_events, name);
	}
	fclose(list);
}

/* Whether it is there only because it could not be deleted yet. It is wanted again. */
static bool take_back(struct user_events *user_events, const char *name)
{
	struct unwanted *unwanted;

	SLIST_FOREACH(unwanted, &user_events->unwanted, entry)
	{
		if (!streq(unwanted->name, name))
			continue;
		forget(user_events, unwanted);
		return true;
	}
	return false;
}

static void delete_unwanted(struct user_events *user_events)
{
	struct unwanted *unwanted, *next;

	/* They are on, so that they can't. */
	if (user_events->left_behind.instance >= 0)
		return;
	for (unwanted = SLIST_FIRST(&user_events->unwanted); unwanted; unwanted = next) {
		next = SLIST_NEXT(unwanted, entry);
		if (delete_event(user_events, unwanted->name))
			forget(user_events, unwanted);
	}
}

static void name_of(const struct holding *holding, char ret[WIRE_DESCRIPTION_MAX + 1])
{
	string_copy(ret, WIRE_DESCRIPTION_MAX + 1, holding->text);
	ret[strcspn(ret, " ")] = '\0';
}

/* What was there before us is not ours to delete. */
static void remove_holding(struct user_events *user_events, struct holding *holding)
{
	char name[WIRE_DESCRIPTION_MAX + 1];

	name_of(holding, name);
	if (holding->foreign && !user_events->ending)
		left_behind_forget(user_events, name);
	if (holding->foreign)
		return;
	if (!delete_event(user_events, name))
		keep_for_later(user_events, name);
}

static void remove_all(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		remove_holding(user_events, holdings[i]);
}

/* Before: so that nothing is left on the stream. After: since others may have made it in between. */
static int place_one(struct user_events *user_events, struct event_stream *stream, struct slot *slot)
{
	struct holding *holding = slot->holding;
	char name[WIRE_DESCRIPTION_MAX + 1];
	bool was_there;
	int r;

	r = format_compare(user_events->mounts.tracefs, holding->text);
	if (r == FORMAT_OTHER)
		return KERNEL_E_NAME_TAKEN;
	if (r < 0)
		return r;
	was_there = r == FORMAT_SAME;
	r = register_on(stream->fd, holding, &holding->bit, &slot->index);
	if (r != 0)
		return r;
	stream_note_index(stream, slot->index);
	name_of(holding, name);
	holding->foreign = was_there && !take_back(user_events, name);
	left_behind_record(user_events, name, !holding->foreign);
	r = format_compare(user_events->mounts.tracefs, holding->text);
	if (r < 0)
		remove_holding(user_events, holding);
	return r == FORMAT_OTHER ? KERNEL_E_NAME_TAKEN : MIN(r, 0);
}

/*
 * The kernel has it all the time, under the bit that is said. (Whether somebody else had made it is forgotten with the last
 * keeper: it is deleted as ours, if nobody uses it then.)
 */
static int adopt_one(struct user_events *user_events, int file, const struct holding *holding)
{
	uint32_t bit = 0, index;
	int r = format_compare(user_events->mounts.tracefs, holding->text);

	if (r < 0)
		return r;
	if (r != FORMAT_SAME)
		return KERNEL_E_NO_SUCH;
	r = register_on(file, holding, &bit, &index);
	return r == 0 && bit != holding->bit ? KERNEL_E_NO_SUCH : r;
}

static void place(struct user_events *user_events, struct placement *placement)
{
	left_behind_settle(user_events);
	for (size_t i = 0; i < placement->n; i++)
		placement->results[i] = placement->file < 0
						? place_one(user_events, placement->stream, placement->slots[i])
						: adopt_one(user_events, placement->file, placement->slots[i]->holding);
	TAILQ_INSERT_TAIL(&user_events->answered, placement, entry);
}

static int join(struct user_events *user_events _unused_, struct event_stream *stream, const struct holding *holding,
		uint32_t *ret_index)
{
	uint32_t bit = 0;
	int r = register_on(stream->fd, holding, &bit, ret_index);

	if (r != 0)
		return r;
	/* Deleted behind our back by somebody who holds a stream, and made anew: our clients look at the wrong bit. */
	return bit == holding->bit ? 0 : -ESTALE;
}

static int dispatch(struct user_events *user_events)
{
	uint64_t expired;
	const ssize_t n = read(user_events->timer, &expired, sizeof(expired));

	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n > 0 && user_events->left_behind.pause > 0) {
		left_behind_look(user_events, keep_for_later);
		set_timer(user_events);
	}
	delete_unwanted(user_events);
	return 0;
}

/* A keeper that finds nobody to go on with has come after all of them were killed. */
static void disowned(struct user_events *user_events)
{
	left_behind_begin(user_events, keep_for_later);
	set_timer(user_events);
	delete_unwanted(user_events);
}

static void deinit(struct user_events *user_events)
{
	left_behind_deinit(user_events);
	delete_unwanted(user_events);
	while (!SLIST_EMPTY(&user_events->unwanted))
		forget(user_events, SLIST_FIRST(&user_events->unwanted));
	user_events->timer = fd_close(user_events->timer);
}

static uint32_t maximum(const struct user_events *user_events _unused_)
{
	return WIRE_PAGE_BITS - 1;
}

static const struct user_events_abi abi = {
	.page_new = page_new,
	.place = place,
	.join = join,
	.witness = witness,
	.forget_witness = keep_for_later,
	.remove = remove_all,
	.maximum = maximum,
	.disowned = disowned,
	.dispatch = dispatch,
	.deinit = deinit,
};

int status_page_init(struct user_events *user_events, const struct kernel_limits *limits)
{
	struct kernel_facts *facts = &user_events->kernel.facts;
	struct text note = text_make(facts->note, sizeof(facts->note));
	struct epoll_event event = { .events = EPOLLIN };

	user_events->abi = &abi;
	left_behind_init(user_events, user_events->mounts.pages);
	/* Read-only, as is the mount: a client could make a writable map of anything else, and change what everybody looks at. */
	user_events->status = openat(user_events->mounts.pages_read_only, "user_events_status", O_RDONLY | O_CLOEXEC);
	if (user_events->status < 0)
		return -errno;
	user_events->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (user_events->timer < 0 || epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, user_events->timer, &event) < 0)
		return -errno;
	find_witnesses(user_events);
	facts->shared_page = true;
	facts->page_bits = WIRE_PAGE_BITS; /* whatever was asked for: the bits are the kernel's choice */
	facts->capacity = maximum(user_events);
	if (limits->capacity)
		facts->capacity = MIN(facts->capacity, limits->capacity);
	text_printf(
		&note,
		"before Linux 6.4 all tenants share one page: each sees which bits are on, can list all events, and can "
		"delete those that nobody uses");
	return 0;
}
