/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>

#include "kernel/look.h"
#include "kernel/stream.h"
#include "kernel/uapi.h"
#include "kernel/user_events.h"

/*
 * Linux 6.4 and later: the kernel sets a bit in the memory of whoever registered. Our pages are mapped by the enablers'
 * processes, which register what is new on a page; for the stream on which that is done, this is all there is to it. Other
 * streams join with a scratch word: registered and taken back at once, it leaves the event's reference and index on the file.
 */

enum {
	/* So often, and so long, for an event to be gone that was let go of. */
	SETTLE_TIMES = 5,
	SETTLE_MS = 10,
};

static uint64_t scratch;

static int page_new(struct user_events *user_events, struct event_page *page)
{
	return page_file_new(&user_events->files, &page->fd, &page->client_fd);
}

static int take_bit(struct event_page *page, struct holding *holding)
{
	if (holding->bit == 0)
		return bits_take(&page->bits, &holding->bit);
	return bits_take_this(&page->bits, holding->bit) ? 0 : -EEXIST;
}

static int take_place(struct user_events *user_events, struct event_page *page, struct holding *holding)
{
	struct page_map *map;
	int r = enablers_find_room(user_events, page, &map);

	if (r < 0)
		return r;
	r = take_bit(page, holding);
	if (r != 0) {
		enablers_tidy(user_events, map);
		return r;
	}
	enablers_add(map, holding);
	return 0;
}

static void give_place(struct user_events *user_events, struct holding *holding)
{
	enablers_remove(user_events, holding);
	bits_give(&holding->page->bits, holding->bit);
}

/*
 * The kernel lets go of an event a little after the last file that had it was closed; until then its name is taken. Waited
 * for once, after something was let go of: not for everybody who asks for a name that is another's.
 */
static void try_again(struct user_events *user_events, struct placement *placement)
{
	for (unsigned waited = 0; waited < SETTLE_TIMES && user_events->settling; waited++) {
		bool taken = false;

		for (size_t i = 0; i < placement->n; i++)
			taken |= placement->results[i] == -EADDRINUSE;
		if (!taken)
			return;
		usleep(SETTLE_MS * 1000);
		for (size_t i = 0; i < placement->n; i++)
			if (placement->results[i] == -EADDRINUSE)
				enablers_register_again(user_events, placement, i);
	}
	user_events->settling = false;
}

static void settle(struct user_events *user_events, struct placement *placement)
{
	try_again(user_events, placement);
	for (size_t i = 0; i < placement->n; i++)
		placement->results[i] = user_events_answer(placement->results[i]);
}

static int join(struct user_events *user_events _unused_, struct event_stream *stream, const struct holding *holding,
		uint32_t *ret_index)
{
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = sizeof(scratch),
		.flags = holding->flags,
		.enable_address = (uint64_t)(uintptr_t)&scratch,
		.description = (uint64_t)(uintptr_t)holding->text,
	};
	const struct uapi_unregister taken_back = {
		.size = sizeof(taken_back),
		.disable_address = (uint64_t)(uintptr_t)&scratch,
	};

	if (ioctl(stream->fd, UAPI_IOCTL_REGISTER, &asked) < 0)
		return user_events_answer(-errno);
	if (ioctl(stream->fd, UAPI_IOCTL_UNREGISTER, &taken_back) < 0)
		return -errno;
	*ret_index = asked.index;
	return 0;
}

static void remove_all(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	user_events->settling = true;
	enablers_clear(user_events, holdings, n);
	for (size_t i = 0; i < n; i++)
		give_place(user_events, holdings[i]);
}

static uint32_t maximum(const struct user_events *user_events _unused_)
{
	return MIN(look_maximum(KERNEL_EVENTS_MAX), (uint32_t)KERNEL_EVENTS_MAX);
}

static const struct user_events_abi abi = {
	.page_new = page_new,
	.take_place = take_place,
	.give_place = give_place,
	.place = enablers_register,
	.settle = settle,
	.wait = enablers_wait,
	.join = join,
	.remove = remove_all,
	.maximum = maximum,
	.prepare = enablers_prepare,
	.dispatch = enablers_dispatch,
	.deinit = enablers_free,
};

/* Flags are looked at before the address, and the address before the name: nothing is made. */
static bool knows_flag(const struct user_events *user_events, uint16_t flag)
{
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = sizeof(scratch),
		.flags = flag,
		.enable_address = UINT64_MAX - 7, /* never a program's */
	};

	return ioctl(user_events->data, UAPI_IOCTL_REGISTER, &asked) < 0 && errno == EFAULT;
}

int enable_address_init(struct user_events *user_events, const struct kernel_limits *limits)
{
	struct kernel_facts *facts = &user_events->kernel.facts;

	user_events->abi = &abi;
	facts->capacity = maximum(user_events);
	if (limits->capacity)
		facts->capacity = MIN(facts->capacity, limits->capacity);
	if (knows_flag(user_events, UAPI_PERSIST) && limits->persist)
		facts->flags |= KERNEL_PERSIST;
	if (knows_flag(user_events, UAPI_MULTI_FORMAT))
		facts->flags |= KERNEL_MULTI_FORMAT;
	return enablers_init(user_events);
}
