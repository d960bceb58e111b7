/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/uapi.h"
#include "kernel/user_events/enablers.h"
#include "kernel/user_events/registration.h"
#include "protocol/base/clock.h"

/*
 * Linux 6.4 and later: the kernel sets a bit in the memory of the process that registered. Enabler processes map our pages and register
 * each new event of a page; for the stream on which they do that, nothing else is needed. Further streams join with a scratch word:
 * registering it and unregistering it at once leaves the event's reference and index on the file.
 *
 * The kernel frees an event a little after its last reference, and its name is taken until then. REGISTER answers that the name is
 * settling, and the daemon asks again: the keeper never waits. For a name that was not removed here, which a foreign event has,
 * REGISTER refuses at once.
 */

enum {
	/* The names that were removed last; each has one entry, by its hash, and may be displaced. */
	REMOVED_MAX = 1024,
	/* So long the kernel may still have the event. */
	SETTLE_MS = 1000,
};

static uint64_t scratch;

/* By the hash of their keys. */
static struct removed_name {
	uint32_t hash;
	int64_t ms; /* when; 0: never */
} removed[REMOVED_MAX];

static int address_page_new(struct user_events *user_events, struct event_page *page)
{
	return page_file_new(&user_events->files, &page->fd, &page->client_fd);
}

static int address_take_place(struct user_events *user_events, struct event_page *page, struct holding *holding)
{
	int r;

	if (holding->bit == 0)
		r = bits_take(&page->bits, &holding->bit);
	else
		r = bits_take_this(&page->bits, holding->bit) ? 0 : -EEXIST;
	if (r != 0)
		return r;
	r = bits_set_owner(&page->bits, holding->bit, holding) ? 0 : -ENOMEM;
	if (r == 0)
		r = enablers_add(user_events, holding);
	if (r < 0)
		bits_give(&page->bits, holding->bit);
	/* A trace of the tenant's own is no reason to refuse an event. */
	else if (holding->state & KERNEL_TRACES && page_file_trace(page->fd, holding->bit, holding->state) < 0)
		holding->state &= (uint16_t)~KERNEL_TRACES;
	return r;
}

static void address_give_place(struct user_events *user_events, struct holding *holding)
{
	if (holding->state & KERNEL_TRACES)
		page_file_trace(holding->page->fd, holding->bit, 0);
	enablers_remove(user_events, holding);
	bits_give(&holding->page->bits, holding->bit);
}

static void address_place(struct user_events *user_events _unused_, struct placement *placement, int file)
{
	enablers_register(placement, file);
	for (size_t i = 0; i < placement->n; i++) {
		const uint32_t hash = placement->holdings[i]->by_key.hashv;
		const struct removed_name *name = &removed[hash % REMOVED_MAX];
		int *result = &placement->calls[i]->result;

		if (*result == -EADDRINUSE && name->ms != 0 && name->hash == hash && clock_ms() - name->ms < SETTLE_MS)
			*result = KERNEL_E_SETTLING;
		else
			*result = registration_answer(*result);
	}
}

static int address_join(int file, const char *text, uint16_t flags, uint32_t *bit _unused_, uint32_t *ret_index)
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

	if (ioctl(file, UAPI_IOCTL_REGISTER, &asked) < 0 || ioctl(file, UAPI_IOCTL_UNREGISTER, &taken_back) < 0)
		return registration_answer(-errno);
	*ret_index = asked.index;
	return 0;
}

static void address_remove(struct user_events *user_events, struct holding *const *holdings, size_t n)
{
	enablers_clear(user_events, holdings, n);
	for (size_t i = 0; i < n; i++) {
		const uint32_t hash = holdings[i]->by_key.hashv;

		removed[hash % REMOVED_MAX] = (struct removed_name){ .hash = hash, .ms = clock_ms() };
		address_give_place(user_events, holdings[i]);
	}
}

static const struct user_events_abi enable_address_abi = {
	.page_new = address_page_new,
	.take_place = address_take_place,
	.give_place = address_give_place,
	.place = address_place,
	.join = address_join,
	.silence = enablers_silence,
	.remove = address_remove,
	.dispatch = enablers_dispatch,
	.deinit = enablers_free,
};

/* The kernel checks the flags before the address, and the address before the name, so this registers nothing. */
static bool kernel_knows_flag(const struct user_events *user_events, uint16_t flag)
{
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = sizeof(scratch),
		.flags = flag,
		.enable_address = UINT64_MAX - 7, /* in no program */
	};

	return ioctl(user_events->data, UAPI_IOCTL_REGISTER, &asked) < 0 && errno == EFAULT;
}

int enable_address_init(struct user_events *user_events, const struct kernel_limits *limits)
{
	struct kernel_facts *facts = &user_events->kernel.facts;

	user_events->abi = &enable_address_abi;
	if (kernel_knows_flag(user_events, UAPI_PERSIST) && limits->persist)
		facts->flags |= REGISTER_PERSIST;
	if (kernel_knows_flag(user_events, UAPI_MULTI_FORMAT))
		facts->flags |= REGISTER_MULTI_FORMAT;
	return enablers_start(user_events);
}
