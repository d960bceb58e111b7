/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/embedded.h"

#include <stdio.h>
#include <sys/epoll.h>

#include "kernel/rpc/message.h"

/*
 * The backend for a kernel without user_events, or a daemon that was not started by root: the daemon takes the kernel's part. A stream
 * is a socket pair with one end for the client. The daemon switches events on and off (tracer.c); it checks records of events that are
 * on, and keeps them (source.c).
 *
 * A stream serves one client: all holders of the fd share its flags, its queue and shutdown(), so one client could make others block,
 * lose records or fall silent.
 */

static struct embedded *embedded_of(struct kernel *kernel)
{
	return container_of(kernel, struct embedded, kernel);
}

static void embedded_free_page(struct embedded *embedded, struct embedded_page *page)
{
	HASH_DELETE(by_number, embedded->pages, page);
	page_deinit(&page->page, &embedded->files);
	free(page);
}

static int embedded_page_new(struct embedded *embedded, struct kernel_call *call, const struct target *target)
{
	const size_t length = strlen(call->text);
	_cleanup_(fd_closep) int fd = -1;
	struct embedded_page *page;
	int r;

	/* Two clients of a tenant may ask for it before the first answer. */
	if (target->page)
		return -EEXIST;
	page = calloc(1, sizeof(*page) + length + 1);
	if (!page)
		return -ENOMEM;
	page->number = call->page;
	memcpy(page->tenant, call->text, length + 1);
	r = page_init(&page->page, &embedded->files, embedded->kernel.facts.page_bits, &fd);
	if (r < 0) {
		free(page);
		return r;
	}
	NUMBER_ADD(by_number, embedded->pages, number, page);
	if (!table_added()) {
		page_deinit(&page->page, &embedded->files);
		free(page);
		return -ENOMEM;
	}
	call->fd = fd_steal(&fd);
	return KERNEL_OK;
}

static int embedded_page_free(struct embedded *embedded, struct kernel_call *call _unused_, const struct target *target)
{
	if (target->page->sources > 0)
		return -EBUSY;
	embedded_free_page(embedded, target->page);
	return KERNEL_OK;
}

/* Event, holding, slot: on failure those that were made are undone. */
static int embedded_register(struct embedded *embedded, struct kernel_call *call, const struct target *target)
{
	struct source *source = target->source;
	struct description description;
	struct trace_event *event;
	struct holding *holding;
	int r;

	if (call->flags & ~(embedded->kernel.facts.flags | KERNEL_STATES))
		return KERNEL_E_UNSUPPORTED;
	if (description_parse_canonical(call->text, strlen(call->text), &description) != 0)
		return KERNEL_E_BAD_DESCRIPTION;
	r = trace_event_get(embedded, &description, &event);
	if (r != 0)
		return r;
	r = holding_get(embedded, source->page, event, call->flags & KERNEL_STATES, &holding);
	if (r != 0) {
		trace_event_tidy(embedded, event);
		return r;
	}
	r = slot_get(source, holding, &call->index);
	if (r != 0) {
		holding_tidy(embedded, holding);
		return r;
	}
	call->bit = holding->bit;
	return KERNEL_OK;
}

static int embedded_silence(struct embedded *embedded, struct kernel_call *call, const struct target *target)
{
	struct holding *holding = bits_owner(&target->page->page.bits, call->bit);

	if (!holding)
		return KERNEL_E_NO_SUCH;
	/* Records that programs wrote before are read first, once for each batch. */
	if (embedded->drained != embedded->batches)
		tracer_drain(&embedded->tracer);
	embedded->drained = embedded->batches;
	holding_set_state(embedded, holding, call->flags & KERNEL_STATES);
	return KERNEL_OK;
}

static int embedded_release(struct embedded *embedded, struct kernel_call *call, const struct target *target)
{
	struct source *source = target->source;
	struct slot *slot = slot_find(source, call->index);

	if (!slot)
		return KERNEL_E_NO_SUCH;
	/* Records that the client wrote before it released the event are read first, once for each batch. */
	if (source->batch != embedded->batches)
		source_drain(embedded, source);
	source->batch = embedded->batches;
	slot_free(embedded, source, slot);
	return KERNEL_OK;
}

static int embedded_carry_out(struct embedded *embedded, struct kernel_call *call)
{
	static const struct {
		int (*handle)(struct embedded *, struct kernel_call *, const struct target *);
		bool needs_page;
		bool needs_source;
	} handlers[KERNEL_OP_MAX_] = {
		[KERNEL_PAGE_NEW] = { .handle = embedded_page_new },
		[KERNEL_PAGE_FREE] = { .handle = embedded_page_free, .needs_page = true },
		[KERNEL_STREAM_NEW] = { .handle = source_new, .needs_page = true },
		[KERNEL_STREAM_FREE] = { .handle = source_free, .needs_source = true },
		[KERNEL_REGISTER] = { .handle = embedded_register, .needs_source = true },
		[KERNEL_RELEASE] = { .handle = embedded_release, .needs_source = true },
		[KERNEL_STILL_OPEN] = { .handle = source_still_open, .needs_source = true },
		[KERNEL_SILENCE] = { .handle = embedded_silence, .needs_page = true },
	};
	struct target target;

	if (message_op(call->op)->takes_fd)
		call->fd = fd_close(call->fd);
	/* Nothing here outlives the daemon. */
	if (call->op >= KERNEL_OP_MAX_ || !handlers[call->op].handle)
		return KERNEL_E_UNSUPPORTED;
	NUMBER_FIND(by_number, embedded->pages, call->page, target.page);
	NUMBER_FIND(by_number, embedded->sources, call->stream, target.source);
	if ((handlers[call->op].needs_page && !target.page) || (handlers[call->op].needs_source && !target.source))
		return KERNEL_E_NO_SUCH;
	return handlers[call->op].handle(embedded, call, &target);
}

static void embedded_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	embedded_of(kernel)->batches++;
	for (size_t i = 0; i < n; i++)
		calls[i].result = embedded_carry_out(embedded_of(kernel), &calls[i]);
	if (done)
		done(data, calls, n);
}

static void embedded_free(struct kernel *kernel)
{
	struct embedded *embedded = embedded_of(kernel);
	struct embedded_page *page, *next_page;

	while (embedded->sources)
		source_free(embedded, NULL, &(struct target){ .source = embedded->sources });
	HASH_ITER(by_number, embedded->pages, page, next_page)
		embedded_free_page(embedded, page);
	tracer_deinit(&embedded->tracer);
	page_files_deinit(&embedded->files);
	fd_close(embedded->directory);
	fd_close(embedded->read_only);
	fd_close(kernel->fd);
	free(embedded);
}

static const struct kernel_ops embedded_ops = {
	.submit = embedded_submit,
	.dispatch = sources_dispatch,
	.free = embedded_free,
};

/* Without the read-only mount, only the mode of a program's own fd keeps it from writing: see SECURITY.md. */
static int embedded_open_pages(struct embedded *embedded, const struct kernel_limits *limits)
{
	embedded->directory = page_directory_open(limits->pages, limits->pages_owner);
	if (embedded->directory < 0)
		return embedded->directory;
	embedded->read_only = page_directory_clone(limits->pages);
	return page_files_init(&embedded->files, embedded->directory,
			       embedded->read_only >= 0 ? embedded->read_only : embedded->directory,
			       embedded->kernel.fd);
}

int embedded_new(const struct kernel_limits *limits, struct kernel **ret)
{
	struct embedded *embedded;
	int r;

	embedded = calloc(1, sizeof(*embedded));
	if (!embedded)
		return -ENOMEM;
	embedded->kernel = (struct kernel){
		.ops = &embedded_ops,
		.facts = {
			.backend = BACKEND_EMBEDDED,
			.page_bits = limits->page_bits ? limits->page_bits : WIRE_PAGE_BITS,
			.capacity = limits->capacity ? limits->capacity : EMBEDDED_CAPACITY,
			.payload_max = WIRE_PAYLOAD_MAX,
		},
		.tracer = &embedded->tracer,
	};
	embedded->directory = -1;
	embedded->read_only = -1;
	embedded->files = PAGE_FILES_NONE;
	embedded->kernel.fd = epoll_create1(EPOLL_CLOEXEC);
	r = embedded->kernel.fd < 0 ? -errno : 0;
	if (r == 0)
		r = tracer_init(&embedded->tracer, limits->ring_bytes ? limits->ring_bytes : EMBEDDED_RING_BYTES);
	if (r < 0) {
		embedded_free(&embedded->kernel);
		return r;
	}
	r = limits->pages ? embedded_open_pages(embedded, limits) : 0;
	/* Pages without a directory end with this process. */
	if (r < 0) {
		snprintf(embedded->kernel.facts.note, sizeof(embedded->kernel.facts.note),
			 "can't use the directory for status pages: %s", strerror(-r));
		page_files_deinit(&embedded->files);
		embedded->files = PAGE_FILES_NONE;
	}
	*ret = &embedded->kernel;
	return 0;
}
