/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/embedded/embedded.h"

#include <stdio.h>
#include <sys/epoll.h>

#include "kernel/rpc/message.h"

/*
 * The backend for a machine whose kernel has no user_events, or a user who is not root: the daemon itself is the kernel's
 * part. A stream is a socket pair, of which the client writes to one end; whether an event is on is ours to say
 * (tracer.c), and a record that comes in for one that is on is checked and kept (source.c).
 *
 * A stream serves one client: the fd's flags, its queue and shutdown() are shared by all who hold it, so that one could
 * make the others block, lose records or fall silent.
 */

static struct embedded *embedded_of(struct kernel *kernel)
{
	return container_of(kernel, struct embedded, kernel);
}

static struct embedded_page *find_page(struct embedded *embedded, uint32_t number)
{
	struct embedded_page *page;

	NUMBER_FIND(by_number, embedded->pages, number, page);
	return page;
}

static struct source *find_source(struct embedded *embedded, uint32_t number)
{
	struct source *source;

	NUMBER_FIND(by_number, embedded->sources, number, source);
	return source;
}

static void free_page(struct embedded *embedded, struct embedded_page *page)
{
	page_deinit(&page->page, &embedded->files);
	free(page);
}

static int make_page(struct embedded *embedded, uint32_t number, const char *tenant, int *ret_fd)
{
	_cleanup_(freep) struct embedded_page *page = NULL;
	_cleanup_(fd_closep) int fd = -1;
	size_t length = strlen(tenant);
	int r;

	if (length > WIRE_TENANT_MAX)
		return -ENAMETOOLONG;
	page = calloc(1, sizeof(*page) + length + 1);
	if (!page)
		return -ENOMEM;
	page->number = number;
	memcpy(page->tenant, tenant, length + 1);
	r = page_init(&page->page, &embedded->files, embedded->kernel.facts.page_bits, &fd);
	if (r < 0)
		return r;
	NUMBER_ADD(by_number, embedded->pages, number, page);
	if (!table_added()) {
		page_deinit(&page->page, &embedded->files);
		return -ENOMEM;
	}
	steal_pointer(page);
	*ret_fd = fd_steal(&fd);
	return 0;
}

static int on_page_new(struct embedded *embedded, struct kernel_call *call)
{
	if (find_page(embedded, call->page))
		return -EEXIST;
	return make_page(embedded, call->page, call->text, &call->fd);
}

static int on_page_free(struct embedded *embedded, struct kernel_call *call)
{
	struct embedded_page *page = find_page(embedded, call->page);

	if (!page)
		return KERNEL_E_NO_SUCH;
	if (page->sources > 0)
		return -EBUSY;
	HASH_DELETE(by_number, embedded->pages, page);
	free_page(embedded, page);
	return KERNEL_OK;
}

static int on_stream_new(struct embedded *embedded, struct kernel_call *call)
{
	struct embedded_page *page = find_page(embedded, call->page);

	if (!page)
		return KERNEL_E_NO_SUCH;
	if (find_source(embedded, call->stream))
		return -EEXIST;
	return source_new(embedded, call->stream, page, &call->fd);
}

static int on_stream_free(struct embedded *embedded, struct kernel_call *call)
{
	struct source *source = find_source(embedded, call->stream);

	if (!source)
		return KERNEL_E_NO_SUCH;
	source_free(embedded, source);
	return KERNEL_OK;
}

/* Event, holding, slot: each that fails undoes those before it. */
static int register_event(struct embedded *embedded, struct source *source, const struct description *description,
			  struct slot **ret)
{
	struct trace_event *event;
	struct holding *holding;
	int r;

	r = trace_event_get(embedded, description, &event);
	if (r != 0)
		return r;
	r = holding_get(embedded, source->page, event, &holding);
	if (r != 0) {
		trace_event_tidy(embedded, event);
		return r;
	}
	r = slot_get(embedded, source, holding, ret);
	if (r != 0)
		holding_tidy(embedded, holding);
	return r;
}

static int on_register(struct embedded *embedded, struct kernel_call *call)
{
	struct source *source = find_source(embedded, call->stream);
	char sentence[WIRE_SENTENCE_MAX];
	struct text why = text_make(sentence, sizeof(sentence));
	struct description description;
	struct slot *slot;
	int r;

	if (!source)
		return KERNEL_E_NO_SUCH;
	if (call->flags & ~embedded->kernel.facts.flags)
		return KERNEL_E_UNSUPPORTED;
	if (description_parse(call->text, strlen(call->text), &description, &why) != 0)
		return KERNEL_E_BAD_DESCRIPTION;
	r = register_event(embedded, source, &description, &slot);
	if (r != 0)
		return r;
	call->bit = slot->of.holding->bit;
	call->index = slot->index;
	return KERNEL_OK;
}

static int on_release(struct embedded *embedded, struct kernel_call *call)
{
	struct source *source = find_source(embedded, call->stream);

	if (!source || !roster_find(&source->slots, call->index))
		return KERNEL_E_NO_SUCH;
	/* What the client wrote before it released the event is to be seen; what it writes meanwhile need not be. */
	if (source->batch != embedded->batches)
		source_drain(embedded, source);
	source->batch = embedded->batches;
	slot_free(embedded, roster_find(&source->slots, call->index));
	return KERNEL_OK;
}

static int on_still_open(struct embedded *embedded, struct kernel_call *call)
{
	struct source *source = find_source(embedded, call->stream);

	if (!source)
		return KERNEL_E_NO_SUCH;
	return source_still_open(embedded, source) ? KERNEL_OK : KERNEL_E_GONE;
}

static int carry_out(struct embedded *embedded, struct kernel_call *call)
{
	static int (*const handlers[])(struct embedded *, struct kernel_call *) = {
		[KERNEL_PAGE_NEW] = on_page_new,     [KERNEL_PAGE_FREE] = on_page_free,
		[KERNEL_STREAM_NEW] = on_stream_new, [KERNEL_STREAM_FREE] = on_stream_free,
		[KERNEL_REGISTER] = on_register,     [KERNEL_RELEASE] = on_release,
		[KERNEL_STILL_OPEN] = on_still_open,
	};

	/* Nothing here outlives the daemon. */
	if (call->op >= KERNEL_DEPOSIT && call->op < KERNEL_OP_MAX_) {
		if (message_op_takes_fd(call->op))
			call->fd = fd_close(call->fd);
		return KERNEL_E_UNSUPPORTED;
	}
	if ((size_t)call->op >= ARRAY_SIZE(handlers) || !handlers[call->op])
		return -EINVAL;
	return handlers[call->op](embedded, call);
}

static void embedded_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done, void *data)
{
	embedded_of(kernel)->batches++;
	for (size_t i = 0; i < n; i++)
		calls[i].result = carry_out(embedded_of(kernel), &calls[i]);
	if (done)
		done(data, calls, n);
}

static int embedded_dispatch(struct kernel *kernel)
{
	return sources_dispatch(embedded_of(kernel));
}

static bool embedded_page_stats(struct kernel *kernel, uint32_t number, struct kernel_page_stats *ret)
{
	struct embedded_page *page = find_page(embedded_of(kernel), number);

	if (page)
		*ret = page->stats;
	return page != NULL;
}

static void embedded_free(struct kernel *kernel)
{
	struct embedded *embedded = embedded_of(kernel);
	struct embedded_page *page = embedded->pages, *next_page;
	struct source *source, *next_source;

	HASH_ITER(by_number, embedded->sources, source, next_source)
		source_free(embedded, source);
	HASH_CLEAR(by_number, embedded->pages);
	for (; page; page = next_page) {
		next_page = page->by_number.next;
		free_page(embedded, page);
	}
	tracer_deinit(&embedded->tracer);
	page_files_deinit(&embedded->files);
	fd_close(embedded->directory);
	fd_close(embedded->read_only);
	fd_close(kernel->fd);
	free(embedded);
}

static const struct kernel_ops embedded_ops = {
	.submit = embedded_submit,
	.dispatch = embedded_dispatch,
	.free = embedded_free,
	.page_stats = embedded_page_stats,
};

/* Where the mount can't be had, what can't be written is each program's own opening alone: see SECURITY.md. */
static int open_directory(struct embedded *embedded, const struct kernel_limits *limits)
{
	embedded->directory = page_directory_open(limits->pages, limits->pages_owner);
	if (embedded->directory < 0)
		return embedded->directory;
	embedded->read_only = page_directory_clone(limits->pages);
	return page_files_init(&embedded->files, embedded->directory,
			       embedded->read_only >= 0 ? embedded->read_only : embedded->directory,
			       embedded->kernel.fd);
}

/* What can't be had is done without: then pages end with this process. */
static void open_pages(struct embedded *embedded, const struct kernel_limits *limits)
{
	int r = limits->pages ? open_directory(embedded, limits) : 0;

	if (r == 0)
		return;
	snprintf(embedded->kernel.facts.note, sizeof(embedded->kernel.facts.note),
		 "can't use the directory for status pages: %s", strerror(-r));
	page_files_deinit(&embedded->files);
	embedded->files = PAGE_FILES_NONE;
}

static struct kernel_facts facts_of(const struct kernel_limits *limits)
{
	return (struct kernel_facts){
		.backend = BACKEND_EMBEDDED,
		.name = "embedded",
		.page_bits = limits->page_bits ? limits->page_bits : WIRE_PAGE_BITS,
		.capacity = limits->capacity ? limits->capacity : EMBEDDED_CAPACITY,
		.payload_max = WIRE_PAYLOAD_MAX,
	};
}

int embedded_new(const struct kernel_limits *limits, struct kernel **ret)
{
	_cleanup_(freep) struct embedded *embedded = NULL;
	int r;

	if (limits->page_bits > WIRE_PAGE_BITS)
		return -EINVAL;
	embedded = calloc(1, sizeof(*embedded));
	if (!embedded)
		return -ENOMEM;
	embedded->kernel = (struct kernel){
		.ops = &embedded_ops,
		.facts = facts_of(limits),
		.tracer = &embedded->tracer,
	};
	embedded->directory = -1;
	embedded->read_only = -1;
	embedded->files = PAGE_FILES_NONE;
	r = tracer_init(&embedded->tracer, limits->ring_bytes ? limits->ring_bytes : EMBEDDED_RING_BYTES);
	if (r < 0)
		return r;
	embedded->kernel.fd = epoll_create1(EPOLL_CLOEXEC);
	if (embedded->kernel.fd < 0) {
		r = -errno;
		embedded_free(&steal_pointer(embedded)->kernel);
		return r;
	}
	open_pages(embedded, limits);
	*ret = &steal_pointer(embedded)->kernel;
	return 0;
}
