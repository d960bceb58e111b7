/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/user_events.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "kernel/rpc/message.h"
#include "kernel/uapi.h"
#include "kernel/user_events/allocate.h"
#include "kernel/user_events/inheritance.h"
#include "kernel/user_events/look.h"
#include "kernel/user_events/native.h"
#include "kernel/user_events/registration.h"
#include "kernel/user_events/silence.h"
#include "kernel/user_events/stream.h"

/* Carries out the daemon's calls one after the other, but new events together: see registration.c. */

static struct user_events *user_events_of(struct kernel *kernel)
{
	return container_of(kernel, struct user_events, kernel);
}

/* --- pages --- */

struct event_page *user_events_page_add(struct user_events *user_events, uint32_t number)
{
	struct event_page *page = keeper_allocate(sizeof(*page));

	page->number = number;
	page->id = user_events->next_page++;
	page->fd = -1;
	page->client_fd = -1;
	page->known = true;
	bits_init(&page->bits, user_events->kernel.facts.page_bits);
	NUMBER_ADD(by_number, user_events->pages, number, page);
	table_check_added();
	return page;
}

void user_events_page_free(struct user_events *user_events, struct event_page *page)
{
	if (!page->disowned)
		HASH_DELETE(by_number, user_events->pages, page);
	page->disowned = true;
	if (page->streams > 0)
		return;
	page_file_free(&user_events->files, page->fd);
	fd_close(page->client_fd);
	bits_deinit(&page->bits);
	free(page);
}

static int on_page_new(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	struct event_page *page;
	int r;

	if (target->page)
		return -EEXIST;
	page = user_events_page_add(user_events, call->page);
	r = user_events->abi->page_new(user_events, page);
	if (r == 0)
		r = kernel_give_copy(call, page->client_fd);
	if (r < 0)
		user_events_page_free(user_events, page);
	return r;
}

static int on_page_free(struct user_events *user_events, struct kernel_call *call _unused_, const struct target *target)
{
	user_events_page_free(user_events, target->page);
	return KERNEL_OK;
}

/* --- streams --- */

struct event_stream *user_events_stream_add(struct user_events *user_events, uint32_t number, struct event_page *page,
					    uint64_t lock, int fd)
{
	struct event_stream *stream = keeper_allocate(sizeof(*stream));

	stream->number = number;
	stream->page = page;
	stream->fd = fd;
	stream->lock = lock;
	stream->known = true;
	NUMBER_ADD(by_number, user_events->streams, number, stream);
	table_check_added();
	page->streams++;
	page->known = true;
	return stream;
}

/* The clients get a copy; ours stays for further registrations. */
static int on_stream_new(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	if (target->stream)
		return -EEXIST;
	r = stream_file_open(user_events, &call->number, &fd);
	if (r == 0)
		r = kernel_give_copy(call, fd);
	if (r == 0)
		user_events_stream_add(user_events, call->stream, target->page, call->number, fd_steal(&fd));
	return r;
}

/* The stream is in no table or list any more. */
static void stream_end(struct user_events *user_events, struct event_stream *stream)
{
	struct event_page *page = stream->page;

	/* Before its events: if this is the last copy the kernel has then already dropped the file's references. */
	stream->fd = fd_close(stream->fd);
	registrations_free(user_events, stream);
	stream_forget_witness(user_events, stream);
	free(stream);
	page->streams--;
	if (page->disowned)
		user_events_page_free(user_events, page);
}

void user_events_stream_free(struct user_events *user_events, struct event_stream *stream)
{
	HASH_DELETE(by_number, user_events->streams, stream);
	stream_end(user_events, stream);
}

void user_events_disowned_free(struct user_events *user_events, struct event_stream *stream)
{
	TAILQ_REMOVE(&user_events->disowned, stream, in_disowned);
	stream_end(user_events, stream);
}

static int on_stream_free(struct user_events *user_events, struct kernel_call *call _unused_,
			  const struct target *target)
{
	user_events_stream_free(user_events, target->stream);
	return KERNEL_OK;
}

/* The kernel has no way to take a single reference back from a file. */
static int on_release(struct user_events *user_events _unused_, struct kernel_call *call, const struct target *target)
{
	return call->index < target->stream->next_index ? KERNEL_E_LINGERS : KERNEL_E_NO_SUCH;
}

static int on_still_open(struct user_events *user_events, struct kernel_call *call, const struct target *target)
{
	struct event_stream *stream = target->stream;

	stream->known = true;
	stream->page->known = true;
	if (call->index == KERNEL_UNGUARDED)
		stream_leave_witness(user_events, stream);
	stream->fd = fd_close(stream->fd);
	if (!stream_is_open(user_events, stream))
		return KERNEL_E_GONE;
	return stream->self_registered ? KERNEL_E_SELF_REGISTERED : KERNEL_OK;
}

static int on_clean(struct user_events *user_events _unused_, struct kernel_call *call _unused_,
		    const struct target *target)
{
	if (target->stream->fd < 0)
		return KERNEL_E_NO_SUCH;
	return stream_is_clean(target->stream) ? KERNEL_OK : KERNEL_E_SELF_REGISTERED;
}

static int on_look(struct user_events *user_events, struct kernel_call *call, const struct target *target _unused_)
{
	call->bit = user_events->kernel.facts.shared_page ? WIRE_PAGE_BITS - 1 : look_maximum();
	call->number = user_events->witnesses;
	return look_count_events(user_events->list, &call->index);
}

static int on_set_maximum(struct user_events *user_events _unused_, struct kernel_call *call,
			  const struct target *target _unused_)
{
	return look_set_maximum(call->index);
}

/* The kernel refuses to delete an event that any program or tracer uses, so the daemon need not be trusted with names. */
static int on_delete(struct user_events *user_events, struct kernel_call *call, const struct target *target _unused_)
{
	if (ioctl(user_events->data, UAPI_IOCTL_DELETE, call->text) == 0)
		return KERNEL_OK;
	switch (errno) {
	case ENOENT:
		return KERNEL_E_NO_SUCH;
	case EBUSY:
		return KERNEL_E_IN_USE;
	case EPERM:
		return KERNEL_E_UNSUPPORTED;
	default:
		return -errno;
	}
}

static int carry_out(struct user_events *user_events, struct kernel_call *call)
{
	static const struct {
		int (*handle)(struct user_events *, struct kernel_call *, const struct target *);
		bool needs_page;
		bool needs_stream;
	} handlers[KERNEL_OP_MAX_] = {
		[KERNEL_PAGE_NEW] = { on_page_new },
		[KERNEL_PAGE_FREE] = { on_page_free, .needs_page = true },
		[KERNEL_STREAM_NEW] = { on_stream_new, .needs_page = true },
		[KERNEL_STREAM_FREE] = { on_stream_free, .needs_stream = true },
		[KERNEL_REGISTER] = { on_register, .needs_stream = true },
		[KERNEL_RELEASE] = { on_release, .needs_stream = true },
		[KERNEL_STILL_OPEN] = { on_still_open, .needs_stream = true },
		[KERNEL_CLEAN] = { on_clean, .needs_stream = true },
		[KERNEL_LOOK] = { on_look },
		[KERNEL_SET_MAXIMUM] = { on_set_maximum },
		[KERNEL_PAGE_FETCH] = { on_page_fetch, .needs_page = true },
		[KERNEL_STREAM_FETCH] = { on_stream_fetch, .needs_stream = true },
		[KERNEL_DISOWN] = { on_disown },
		[KERNEL_PAGE_ADOPT] = { on_page_adopt },
		[KERNEL_STREAM_ADOPT] = { on_stream_adopt, .needs_page = true },
		[KERNEL_ADOPT] = { on_register, .needs_stream = true },
		[KERNEL_DELETE] = { on_delete },
		[KERNEL_SILENCE] = { on_silence, .needs_page = true },
		[KERNEL_NATIVE] = { on_native },
		[KERNEL_NATIVE_ALLOW] = { on_native_allow },
	};
	struct target target;

	/* The keeper carries out deposits itself. */
	if (call->op >= KERNEL_OP_MAX_ || !handlers[call->op].handle)
		return KERNEL_E_UNSUPPORTED;
	if (handlers[call->op].handle != on_register)
		registrations_send(user_events);
	if (handlers[call->op].handle != on_silence)
		silences_send(user_events);
	NUMBER_FIND(by_number, user_events->pages, call->page, target.page);
	NUMBER_FIND(by_number, user_events->streams, call->stream, target.stream);
	if ((handlers[call->op].needs_page && !target.page) || (handlers[call->op].needs_stream && !target.stream))
		return KERNEL_E_NO_SUCH;
	return handlers[call->op].handle(user_events, call, &target);
}

static void user_events_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done,
			       void *data)
{
	struct user_events *user_events = user_events_of(kernel);

	for (size_t i = 0; i < n; i++) {
		calls[i].result = carry_out(user_events, &calls[i]);
		if (message_op(calls[i].op)->takes_fd)
			calls[i].fd = fd_close(calls[i].fd);
	}
	registrations_send(user_events);
	silences_send(user_events);
	if (done)
		done(data, calls, n);
}

static int user_events_dispatch(struct kernel *kernel)
{
	struct user_events *user_events = user_events_of(kernel);
	uint64_t expired;

	page_files_dispatch(&user_events->files);
	if (read(user_events->disowned_timer, &expired, sizeof(expired)) == sizeof(expired))
		inheritance_look(user_events);
	return user_events->abi->dispatch(user_events);
}

static void user_events_free(struct kernel *kernel)
{
	struct user_events *user_events = user_events_of(kernel);

	user_events->ending = true;
	while (user_events->streams)
		user_events_stream_free(user_events, user_events->streams);
	while (!TAILQ_EMPTY(&user_events->disowned))
		user_events_disowned_free(user_events, TAILQ_FIRST(&user_events->disowned));
	while (user_events->pages)
		user_events_page_free(user_events, user_events->pages);
	/* Before deinit(): the keeper's own lock must not be taken for a program's. */
	fd_close(user_events->places.fd);
	if (user_events->abi)
		user_events->abi->deinit(user_events);
	fd_close(user_events->data);
	fd_close(user_events->list);
	fd_close(user_events->status);
	fd_close(user_events->disowned_timer);
	page_files_deinit(&user_events->files);
	fd_close(user_events->mounts.tracefs);
	fd_close(user_events->mounts.pages);
	fd_close(user_events->mounts.pages_read_only);
	fd_close(user_events->mounts.native);
	fd_close(kernel->fd);
	free(user_events);
}

static const struct kernel_ops user_events_ops = {
	.submit = user_events_submit,
	.dispatch = user_events_dispatch,
	.free = user_events_free,
	.orphan = inheritance_orphan,
};

static int user_events_init(struct user_events *user_events, enum wire_backend backend,
			    const struct kernel_limits *limits)
{
	struct kernel_facts *facts = &user_events->kernel.facts;
	struct epoll_event event = { .events = EPOLLIN };
	int r;

	user_events->kernel.fd = epoll_create1(EPOLL_CLOEXEC);
	if (user_events->kernel.fd < 0)
		return -errno;
	user_events->data = data_file_open(&user_events->mounts);
	if (user_events->data < 0)
		return user_events->data;
	r = places_init(user_events);
	if (r < 0)
		return r;
	/* Without it, foreign events can't be counted; everything else works. */
	user_events->list = openat(user_events->mounts.tracefs, "user_events_status", O_RDONLY | O_CLOEXEC);
	user_events->disowned_timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (user_events->disowned_timer < 0 ||
	    epoll_ctl(user_events->kernel.fd, EPOLL_CTL_ADD, user_events->disowned_timer, &event) < 0)
		return -errno;
	r = page_files_init(&user_events->files, user_events->mounts.pages, user_events->mounts.pages_read_only,
			    user_events->kernel.fd);
	if (r < 0)
		return r;
	facts->capacity = backend == BACKEND_STATUS_PAGE ? WIRE_PAGE_BITS - 1 : look_maximum();
	if (limits->capacity)
		facts->capacity = MIN(facts->capacity, limits->capacity);
	return backend == BACKEND_STATUS_PAGE ? status_page_init(user_events)
					      : enable_address_init(user_events, limits);
}

int user_events_new(enum wire_backend backend, const struct mounts *mounts, const struct kernel_limits *limits,
		    struct kernel **ret)
{
	struct user_events *user_events = keeper_allocate(sizeof(*user_events));
	int r;

	user_events->kernel = (struct kernel){
		.ops = &user_events_ops,
		.facts = {
			.backend = (uint16_t)backend,
			.page_bits = limits->page_bits ? limits->page_bits : WIRE_PAGE_BITS,
			.payload_max = WIRE_PAYLOAD_MAX,
		},
		.fd = -1,
	};
	user_events->data = -1;
	user_events->places.fd = -1;
	user_events->list = -1;
	user_events->status = -1;
	user_events->timer = -1;
	user_events->disowned_timer = -1;
	user_events->shared.fd = -1;
	user_events->spawner.fd = -1;
	user_events->mounts = *mounts;
	user_events->files = PAGE_FILES_NONE;
	user_events->instance = -1;
	snprintf(user_events->no_native, sizeof(user_events->no_native), "%s",
		 limits->no_native ? limits->no_native : "");
	LIST_INIT(&user_events->enablers);
	TAILQ_INIT(&user_events->disowned);
	r = user_events_init(user_events, backend, limits);
	if (r < 0) {
		user_events_free(&user_events->kernel);
		return r;
	}
	*ret = &user_events->kernel;
	return 0;
}
