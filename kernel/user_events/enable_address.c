/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <time.h>

#include "kernel/uapi.h"
#include "kernel/user_events/look.h"
#include "kernel/user_events/stream.h"
#include "kernel/user_events/user_events.h"

/*
 * Linux 6.4 and later: the kernel sets a bit in the memory of whoever registered. Our pages are mapped by the enablers'
 * processes, which register what is new on a page; for the stream on which that is done, this is all there is to it. Other
 * streams join with a scratch word: registered and taken back at once, it leaves the event's reference and index on the file.
 */

enum {
	/* Names that were removed last; each has one place, by its hash, and may be displaced. */
	REMOVED_MAX = 1024,
	/* So long after that the kernel may still have the event. */
	SETTLE_MS = 1000,
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
 * The kernel frees an event a little after its last reference has ended, and until then its name is taken. REGISTER then
 * answers at once that the name is about to be free, and the daemon asks again: the keeper never waits. A name that others'
 * events hold is not among those that were removed here, and is refused at once.
 */

static struct removed {
	uint32_t hash;
	uint32_t ms; /* when; 0: none */
} removed[REMOVED_MAX];

static uint32_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint32_t)now.tv_sec * 1000 + (uint32_t)(now.tv_nsec / 1000000);
}

/* FNV-1a, of the name in front of the fields. */
static uint32_t hash_name(const char *description)
{
	uint32_t hash = 2166136261;

	for (; *description && *description != ' '; description++)
		hash = (hash ^ (uint8_t)*description) * 16777619;
	return hash;
}

static void note_removed(const char *description)
{
	uint32_t hash = hash_name(description);

	removed[hash % REMOVED_MAX] = (struct removed){ .hash = hash, .ms = now_ms() };
}

static bool was_just_removed(const char *description)
{
	uint32_t hash = hash_name(description);
	const struct removed *found = &removed[hash % REMOVED_MAX];

	return found->ms != 0 && found->hash == hash && now_ms() - found->ms < SETTLE_MS;
}

static void settle(struct user_events *user_events _unused_, struct placement *placement)
{
	for (size_t i = 0; i < placement->n; i++) {
		if (placement->results[i] == -EADDRINUSE && was_just_removed(placement->slots[i]->holding->text))
			placement->results[i] = KERNEL_E_SETTLING;
		else
			placement->results[i] = user_events_answer(placement->results[i]);
	}
}

static int join_file(int file, const char *text, uint16_t flags, uint32_t *ret_index)
{
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = sizeof(scratch),
		.flags = flags,
		.enable_address = (uint64_t)(uintptr_t)&scratch,
		.description = (uint64_t)(uintptr_t)text,
	};
	const struct uapi_unregister taken_back = {
		.size = sizeof(taken_back),
		.disable_address = (uint64_t)(uintptr_t)&scratch,
	};

	if (ioctl(file, UAPI_IOCTL_REGISTER, &asked) < 0)
		return -errno;
	if (ioctl(file, UAPI_IOCTL_UNREGISTER, &taken_back) < 0)
		return -errno;
	*ret_index = asked.index;
	return 0;
}

static int join(struct user_events *user_events _unused_, struct event_stream *stream, const struct holding *holding,
		uint32_t *ret_index)
{
	return user_events_answer(join_file(stream->fd, holding->text, holding->flags, ret_index));
}

static int witness(int file, const char *name, uint32_t *ret_index)
{
	return join_file(file, name, 0, ret_index);
}

static void remove_all(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	enablers_clear(user_events, holdings, n);
	for (size_t i = 0; i < n; i++) {
		note_removed(holdings[i]->text);
		give_place(user_events, holdings[i]);
	}
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
	.witness = witness,
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
