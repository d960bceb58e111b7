/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/registry/pages.h"

#include <endian.h>
#include <sys/mman.h>

#include "daemon/limits.h"
#include "daemon/process/timer.h"
#include "daemon/registry/event.h"
#include "daemon/registry/holder.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/tenant.h"

/*
 * The kernel sets and clears the bits of a page without notification. For clients that watch, a timer compares the page with
 * its last state; it runs only while there are such clients. The daemon reports the bits of the page, and never relies on
 * them.
 */

enum { WORDS = WIRE_PAGE_BYTES / sizeof(uint64_t) };

struct page_view {
	const uint64_t *now; /* little-endian */
	uint64_t before[WORDS];
};

static struct page_view *page_view_new(int fd)
{
	struct page_view *view = malloc(sizeof(*view));
	void *memory = view ? mmap(NULL, WIRE_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (memory == MAP_FAILED) {
		free(view);
		return NULL;
	}
	view->now = memory;
	memcpy(view->before, memory, WIRE_PAGE_BYTES);
	return view;
}

bool pages_event_is_on(const struct event *event)
{
	const struct grant *grant = LIST_FIRST(&event->grants);
	uint8_t byte = 0;

	/* Where an admin keeps the bit off for some tenants, others show it. */
	while (grant && (grant->bit == 0 || grant->state & KERNEL_SILENT))
		grant = LIST_NEXT(grant, in_event);
	return grant && pread(grant->tenant->page_fd, &byte, 1, grant->bit / 8) == 1 && byte >> grant->bit % 8 & 1;
}

void pages_bit_changed(void *data, uint32_t page, uint32_t bit)
{
	struct registry *registry = data;
	struct tenant *tenant = tenant_by_number(registry, page);
	struct holder *holder;

	if (!tenant)
		return;
	LIST_FOREACH(holder, &tenant->holders, in_tenant)
		if (holder->known.watching && lease_by_bit(holder, bit))
			registry->changed(holder, bit);
}

static void on_pages(struct ev_loop *loop, ev_timer *w, int events _unused_)
{
	struct registry *registry = container_of(w, struct registry, w_pages);
	bool any = false;

	for (struct tenant *tenant = registry->tenants; tenant; tenant = tenant->by_number.next) {
		if (!tenant->view)
			continue;
		any = true;
		for (uint32_t at = 0; at < WORDS; at++) {
			uint64_t now = __atomic_load_n(&tenant->view->now[at], __ATOMIC_RELAXED);
			uint64_t changed = le64toh(now ^ tenant->view->before[at]);

			tenant->view->before[at] = now;
			for (; changed != 0; changed &= changed - 1)
				pages_bit_changed(registry, tenant->number,
						  at * 64 + (uint32_t)__builtin_ctzll(changed));
		}
	}
	if (!any)
		ev_timer_stop(loop, w);
}

void pages_watch(struct holder *holder, bool on)
{
	struct registry *registry = holder->registry;
	struct tenant *tenant = holder->tenant;
	const struct holder *watching;

	holder->known.watching = on;
	holder_enter(holder);
	if (registry->kernel->facts.backend == BACKEND_EMBEDDED)
		return;
	LIST_FOREACH(watching, &tenant->holders, in_tenant)
		if (watching->known.watching)
			break;
	if (!watching) {
		if (tenant->view)
			munmap((void *)(uintptr_t)tenant->view->now, WIRE_PAGE_BYTES);
		free(tenant->view);
		tenant->view = NULL;
		return;
	}
	/* Without memory there are no notifications; clients still read the page itself. */
	if (!tenant->view)
		tenant->view = page_view_new(tenant->page_fd);
	if (tenant->view)
		timer_repeat(registry->loop, &registry->w_pages, on_pages, PAGES_INTERVAL);
}
