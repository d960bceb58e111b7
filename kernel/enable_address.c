/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>

#include "kernel/stream.h"
#include "kernel/uapi.h"
#include "kernel/user_events.h"

/*
 * Linux 6.4 and later: the kernel sets a bit in the memory of whoever registered. Our pages are mapped by the enablers'
 * processes, which register what is new on a page; for the stream on which that is done, this is all there is to it. Other
 * streams join with a scratch word: registered and taken back at once, it leaves the event's reference and index on the file.
 */

enum {
	/* "About": event types are numbered together with all of the kernel's own. */
	KERNEL_EVENTS_MAX = 64900,
	/* So often, and so long, for an event to be gone that was let go of. */
	SETTLE_TIMES = 5,
	SETTLE_MS = 10,
};

static uint64_t scratch;

static int page_new(struct user_events *user_events, struct event_page *page, int *ret_fd)
{
	return page_file_new(&user_events->mounts, &page->fd, ret_fd);
}

static void page_free(struct user_events *user_events _unused_, struct event_page *page)
{
	page->fd = fd_close(page->fd);
}

static void refuse_from(struct slot *const *slots, size_t from, size_t n, int result, int *results)
{
	for (size_t i = from; i < n; i++) {
		results[i] = result;
		slots[i]->holding->map = NULL;
	}
}

/* As many of them as one process has room for; how many. */
static size_t take_places(struct page_map *map, struct event_page *page, struct slot *const *slots, size_t n,
			  uint32_t room, int *results)
{
	size_t i;

	for (i = 0; i < n && i < room; i++) {
		results[i] = bits_take(&page->bits, &slots[i]->holding->bit);
		if (results[i] != 0)
			break;
		enablers_add(map, slots[i]->holding);
	}
	return i;
}

static void undo_place(struct user_events *user_events, struct event_page *page, struct holding *holding)
{
	enablers_remove(user_events, holding, false);
	bits_give(&page->bits, holding->bit);
}

/*
 * The kernel lets go of an event a little after the last file that had it was closed; until then its name is taken. Waited
 * for once, after something was let go of: not for everybody who asks for a name that is another's.
 */
static void try_again(struct user_events *user_events, struct page_map *map, struct event_stream *stream,
		      struct slot *const *slots, size_t n, int *results)
{
	for (unsigned waited = 0; waited < SETTLE_TIMES && user_events->settling; waited++) {
		bool taken = false;

		for (size_t i = 0; i < n; i++)
			taken |= results[i] == -EADDRINUSE;
		if (!taken)
			return;
		usleep(SETTLE_MS * 1000);
		for (size_t i = 0; i < n; i++)
			if (results[i] == -EADDRINUSE)
				enablers_register(user_events, map, stream->fd, slots + i, 1, results + i);
	}
	user_events->settling = false;
}

static void place(struct user_events *user_events, struct event_stream *stream, struct slot *const *slots, size_t n,
		  int *results)
{
	struct event_page *page = stream->page;

	for (size_t done = 0; done < n;) {
		struct page_map *map;
		size_t taken;
		int r = enablers_find_room(user_events, page, &map);

		if (r < 0) {
			refuse_from(slots, done, n, r, results);
			return;
		}
		taken = take_places(map, page, slots + done, n - done, enablers_room(map), results + done);
		if (taken == 0) {
			enablers_tidy(user_events, map);
			refuse_from(slots, done, n, results[done], results);
			return;
		}
		enablers_register(user_events, map, stream->fd, slots + done, taken, results + done);
		try_again(user_events, map, stream, slots + done, taken, results + done);
		for (size_t i = done; i < done + taken; i++) {
			results[i] = user_events_answer(results[i]);
			if (results[i] != 0)
				undo_place(user_events, page, slots[i]->holding);
		}
		done += taken;
	}
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

static void remove_holding(struct user_events *user_events, struct holding *holding)
{
	struct event_page *page = holding->page;

	user_events->settling = true;
	enablers_remove(user_events, holding, true);
	bits_give(&page->bits, holding->bit);
}

static const struct user_events_abi abi = {
	.page_new = page_new,
	.page_free = page_free,
	.place = place,
	.join = join,
	.remove = remove_holding,
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

static uint32_t read_maximum(void)
{
	FILE *file = fopen("/proc/sys/kernel/user_events_max", "re");
	unsigned maximum = KERNEL_EVENTS_MAX;

	if (file && fscanf(file, "%u", &maximum) != 1)
		maximum = KERNEL_EVENTS_MAX;
	if (file)
		fclose(file);
	return MIN(maximum, (unsigned)KERNEL_EVENTS_MAX);
}

int enable_address_init(struct user_events *user_events, const struct kernel_limits *limits)
{
	struct kernel_facts *facts = &user_events->kernel.facts;

	user_events->abi = &abi;
	facts->capacity = read_maximum();
	if (limits->capacity)
		facts->capacity = MIN(facts->capacity, limits->capacity);
	if (knows_flag(user_events, UAPI_PERSIST) && limits->persist)
		facts->flags |= KERNEL_PERSIST;
	if (knows_flag(user_events, UAPI_MULTI_FORMAT))
		facts->flags |= KERNEL_MULTI_FORMAT;
	enablers_prepare(user_events);
	return 0;
}
