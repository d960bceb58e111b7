/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/user_events.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include "kernel/probe.h"
#include "kernel/rpc/message.h"
#include "kernel/user_events/inheritance.h"
#include "kernel/user_events/look.h"
#include "kernel/user_events/placement.h"
#include "kernel/user_events/stream.h"
#include "protocol/base/text.h"
#include "protocol/event/description.h"

/*
 * The kernel's calls, carried out one after the other, but for what the kernel takes long for: placement.c.
 */

static struct user_events *user_events_of(struct kernel *kernel)
{
	return container_of(kernel, struct user_events, kernel);
}

struct event_page *user_events_find_page(const struct user_events *user_events, uint32_t number)
{
	struct event_page *page;

	NUMBER_FIND(by_number, user_events->pages, number, page);
	return page;
}

struct event_stream *user_events_find_stream(const struct user_events *user_events, uint32_t number)
{
	struct event_stream *stream;

	NUMBER_FIND(by_number, user_events->streams, number, stream);
	return stream;
}

int user_events_answer(int error)
{
	switch (error) {
	case -EADDRINUSE:
		return KERNEL_E_NAME_TAKEN;
	case -EMFILE: /* user_events_max */
	case -ENODEV: /* all numbers of event types are taken */
		return KERNEL_E_FULL;
	case -EINVAL:
	case -E2BIG:
		return KERNEL_E_BAD_DESCRIPTION;
	case -EPERM: /* persistent, and we may not */
		return KERNEL_E_UNSUPPORTED;
	default:
		return error;
	}
}

struct event_page *user_events_page_make(struct user_events *user_events, uint32_t number)
{
	struct event_page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->number = number;
	page->id = user_events->next_page++;
	page->fd = -1;
	page->client_fd = -1;
	page->known = true;
	LIST_INIT(&page->maps);
	bits_init(&page->bits, user_events->kernel.facts.page_bits);
	return page;
}

int user_events_page_unmake(struct user_events *user_events, struct event_page *page, int error)
{
	page_file_free(&user_events->files, page->fd);
	fd_close(page->client_fd);
	free(page);
	return error;
}

int user_events_page_add(struct user_events *user_events, struct event_page *page)
{
	NUMBER_ADD(by_number, user_events->pages, number, page);
	return table_added() ? 0 : user_events_page_unmake(user_events, page, -ENOMEM);
}

static int on_page_new(struct user_events *user_events, struct kernel_call *call)
{
	_cleanup_(fd_closep) int copy = -1;
	struct event_page *page;
	int r;

	if (user_events_find_page(user_events, call->page))
		return -EEXIST;
	page = user_events_page_make(user_events, call->page);
	if (!page)
		return -ENOMEM;
	r = user_events->abi->page_new(user_events, page);
	if (r < 0)
		return user_events_page_unmake(user_events, page, r);
	copy = fcntl(page->client_fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return user_events_page_unmake(user_events, page, -errno);
	r = user_events_page_add(user_events, page);
	if (r < 0)
		return r;
	call->fd = fd_steal(&copy);
	return KERNEL_OK;
}

void user_events_page_free(struct user_events *user_events, struct event_page *page)
{
	if (!page->disowned)
		HASH_DELETE(by_number, user_events->pages, page);
	page->disowned = true;
	if (page->streams == 0)
		user_events_page_unmake(user_events, page, 0);
}

static int on_page_free(struct user_events *user_events, struct kernel_call *call)
{
	struct event_page *page = user_events_find_page(user_events, call->page);

	if (!page)
		return KERNEL_E_NO_SUCH;
	if (page->streams > page->disowned_streams)
		return -EBUSY;
	user_events_page_free(user_events, page);
	return KERNEL_OK;
}

struct event_stream *user_events_stream_add(struct user_events *user_events, uint32_t number, struct event_page *page,
					    uint64_t lock)
{
	struct event_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->number = number;
	stream->page = page;
	stream->fd = -1;
	stream->lock = lock;
	stream->known = true;
	NUMBER_ADD(by_number, user_events->streams, number, stream);
	if (!table_added()) {
		free(stream);
		return NULL;
	}
	page->streams++;
	page->known = true;
	return stream;
}

/* The clients' copy leaves, ours stays: to register more on it. */
static int on_stream_new(struct user_events *user_events, struct kernel_call *call)
{
	struct event_page *page = user_events_find_page(user_events, call->page);
	_cleanup_(fd_closep) int fd = -1, copy = -1;
	struct event_stream *stream;
	int r;

	if (!page)
		return KERNEL_E_NO_SUCH;
	if (user_events_find_stream(user_events, call->stream))
		return -EEXIST;
	r = stream_open(user_events, &call->number, &fd);
	if (r < 0)
		return r;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	stream = user_events_stream_add(user_events, call->stream, page, call->number);
	if (!stream)
		return -ENOMEM;
	stream->fd = fd_steal(&fd);
	call->fd = fd_steal(&copy);
	return KERNEL_OK;
}

/* On the page of the kernel, which all share, all of them stand together. */
static struct event_page *book_of(struct user_events *user_events, struct event_page *page)
{
	return user_events->kernel.facts.shared_page ? &user_events->shared : page;
}

static void holding_free(struct holding *holding)
{
	HASH_DELETE(by_key, holding->page->holdings, holding);
	free(holding);
}

static void slot_free(struct event_stream *stream, struct slot *slot)
{
	HASH_DELETE(by_holding, stream->slots, slot);
	slot->holding->slots--;
	free(slot);
}

/* Those that only this stream has had: as many as go at once. */
static size_t free_slots(struct event_stream *stream, struct holding **ret_unused)
{
	size_t n = 0;

	while (stream->slots && n < AT_ONCE) {
		struct holding *holding = stream->slots->holding;

		slot_free(stream, stream->slots);
		if (holding->slots == 0)
			ret_unused[n++] = holding;
	}
	return n;
}

/* It is nowhere to be found any more. */
static void stream_end(struct user_events *user_events, struct event_stream *stream)
{
	struct holding *unused[AT_ONCE];
	struct event_page *page = stream->page;
	size_t n;

	/* Before its events are let go of, so that the kernel has already done so where ours was the last copy. */
	stream->fd = fd_close(stream->fd);
	while ((n = free_slots(stream, unused)) > 0) {
		user_events->abi->remove(user_events, unused, n);
		for (size_t i = 0; i < n; i++)
			holding_free(unused[i]);
	}
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
	stream->page->disowned_streams--;
	stream_end(user_events, stream);
}

static int on_stream_free(struct user_events *user_events, struct kernel_call *call)
{
	struct event_stream *stream = user_events_find_stream(user_events, call->stream);

	if (!stream)
		return KERNEL_E_NO_SUCH;
	user_events_stream_free(user_events, stream);
	return KERNEL_OK;
}

/* The daemon has made it canonical, and is not believed. */
static bool is_canonical(const char *text)
{
	static struct description description; /* large */
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));

	return description_parse(text, strlen(text), &description, &why) == 0 && streq(description.canonical, text);
}

static size_t make_key(const struct kernel_call *call, char key[WIRE_DESCRIPTION_MAX + 3])
{
	/* Of another name altogether: events of many formats share theirs. */
	key[0] = call->flags & KERNEL_MULTI_FORMAT ? 'm' : 's';
	string_copy(key + 1, WIRE_DESCRIPTION_MAX + 2, call->text);
	return strlen(key);
}

static struct holding *holding_make(struct event_page *page, const struct kernel_call *call, const char *key,
				    size_t length)
{
	struct holding *holding = calloc(1, sizeof(*holding) + length + 1);

	if (!holding)
		return NULL;
	holding->page = page;
	holding->flags = call->flags;
	if (call->op == KERNEL_ADOPT)
		holding->bit = call->bit;
	memcpy(holding->key, key, length + 1);
	holding->text = holding->key + 1;
	HASH_ADD_KEYPTR(by_key, page->holdings, holding->key, length, holding);
	if (!table_added()) {
		free(holding);
		return NULL;
	}
	return holding;
}

static struct slot *slot_make(struct event_stream *stream, struct holding *holding)
{
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return NULL;
	slot->holding = holding;
	NUMBER_ADD(by_holding, stream->slots, holding, slot);
	if (!table_added()) {
		free(slot);
		return NULL;
	}
	holding->slots++;
	return slot;
}

/* `number`: whether another program has registered on the stream, too. */
static void answer(struct kernel_call *call, const struct event_stream *stream, const struct slot *slot)
{
	call->bit = slot->holding->bit;
	call->index = slot->index;
	call->number = call->op == KERNEL_REGISTER && stream->stranger;
	call->result = KERNEL_OK;
}

/* What a stream has from another keeper. */
static void know_index(struct event_stream *stream, uint32_t index)
{
	stream->next_index = MAX(stream->next_index, index + 1);
	stream->settled = MAX(stream->settled, stream->next_index);
}

void user_events_placed(struct event_stream *stream, struct slot *slot, struct kernel_call *call)
{
	slot->holding->placed = true;
	if (call->op == KERNEL_ADOPT)
		know_index(stream, slot->index);
	answer(call, stream, slot);
}

static void holding_withdraw(struct user_events *user_events, struct holding *holding)
{
	if (user_events->abi->give_place)
		user_events->abi->give_place(user_events, holding);
	holding_free(holding);
}

void user_events_not_placed(struct user_events *user_events, struct event_stream *stream, struct slot *slot)
{
	struct holding *holding = slot->holding;

	slot_free(stream, slot);
	holding_withdraw(user_events, holding);
}

static int place_on(struct user_events *user_events, struct submission *submission, struct event_stream *stream,
		    struct kernel_call *call, struct holding *holding)
{
	struct slot *slot = slot_make(stream, holding);
	int r;

	if (!slot)
		return -ENOMEM;
	if (call->op == KERNEL_ADOPT)
		slot->index = call->index;
	r = placement_add(user_events, submission, stream, slot, call);
	if (r < 0)
		slot_free(stream, slot);
	return r;
}

static int place(struct user_events *user_events, struct submission *submission, struct event_stream *stream,
		 struct kernel_call *call, const char *key, size_t length)
{
	struct holding *holding = holding_make(book_of(user_events, stream->page), call, key, length);
	int r = holding ? 0 : -ENOMEM;

	if (r == 0 && user_events->abi->take_place)
		r = user_events->abi->take_place(user_events, stream->page, holding);
	if (r != 0) {
		if (holding)
			holding_free(holding);
		return r;
	}
	r = place_on(user_events, submission, stream, call, holding);
	if (r < 0)
		holding_withdraw(user_events, holding);
	return r;
}

static int join(struct user_events *user_events, struct event_stream *stream, struct holding *holding,
		struct slot **ret)
{
	struct slot *slot = slot_make(stream, holding);
	int r;

	if (!slot)
		return -ENOMEM;
	r = user_events->abi->join(user_events, stream, holding, &slot->index);
	if (r != 0) {
		slot_free(stream, slot);
		return r;
	}
	stream_note_index(stream, slot->index);
	stream_check_indexes(stream);
	*ret = slot;
	return 0;
}

static int on_register(struct user_events *, struct submission *, struct kernel_call *);

static void finish_all(struct user_events *user_events, struct submission *submission)
{
	placements_send(user_events, submission);
	placements_finish(user_events);
}

static int join_or_find(struct user_events *user_events, struct event_stream *stream, struct holding *holding,
			struct kernel_call *call)
{
	struct slot *slot;
	int r;

	NUMBER_FIND(by_holding, stream->slots, holding, slot);
	if (!slot) {
		r = join(user_events, stream, holding, &slot);
		if (r != 0)
			return r;
	}
	answer(call, stream, slot);
	return KERNEL_OK;
}

/* The stream has had the event from another keeper. */
static int adopt_or_find(struct event_stream *stream, struct holding *holding, struct kernel_call *call)
{
	struct slot *slot;

	NUMBER_FIND(by_holding, stream->slots, holding, slot);
	if (holding->bit != call->bit || (slot && slot->index != call->index))
		return -EEXIST;
	if (!slot) {
		slot = slot_make(stream, holding);
		if (!slot)
			return -ENOMEM;
		slot->index = call->index;
		know_index(stream, slot->index);
	}
	answer(call, stream, slot);
	return KERNEL_OK;
}

static int register_event(struct user_events *user_events, struct submission *submission, struct event_stream *stream,
			  struct kernel_call *call)
{
	struct event_page *page = book_of(user_events, stream->page);
	char key[WIRE_DESCRIPTION_MAX + 3];
	size_t length = make_key(call, key);
	struct holding *holding;

	HASH_FIND(by_key, page->holdings, key, length, holding);
	if (!holding)
		return place(user_events, submission, stream, call, key, length);
	if (holding->placed)
		return call->op == KERNEL_ADOPT ? adopt_or_find(stream, holding, call)
						: join_or_find(user_events, stream, holding, call);
	/* Asked for by somebody else just now, or twice in one batch. */
	finish_all(user_events, submission);
	return on_register(user_events, submission, call);
}

static int on_register(struct user_events *user_events, struct submission *submission, struct kernel_call *call)
{
	struct event_stream *stream = user_events_find_stream(user_events, call->stream);

	if (!stream)
		return KERNEL_E_NO_SUCH;
	if (call->op == KERNEL_REGISTER && stream->fd < 0)
		return -EBADF;
	if (call->op == KERNEL_ADOPT &&
	    (call->bit == 0 || call->bit >= user_events->kernel.facts.page_bits || call->index >= INT32_MAX))
		return -EINVAL;
	if (call->flags & ~user_events->kernel.facts.flags)
		return KERNEL_E_UNSUPPORTED;
	if (!is_canonical(call->text))
		return KERNEL_E_BAD_DESCRIPTION;
	return register_event(user_events, submission, stream, call);
}

/* There is no way to take a reference back from a file. */
static int on_release(struct user_events *user_events, struct kernel_call *call)
{
	const struct event_stream *stream = user_events_find_stream(user_events, call->stream);

	return stream && call->index < stream->next_index ? KERNEL_E_LINGERS : KERNEL_E_NO_SUCH;
}

static int on_still_open(struct user_events *user_events, struct kernel_call *call)
{
	struct event_stream *stream = user_events_find_stream(user_events, call->stream);

	if (!stream)
		return KERNEL_E_NO_SUCH;
	stream->known = true;
	stream->page->known = true;
	if (call->index == KERNEL_UNGUARDED)
		stream_leave_witness(user_events, stream);
	stream->fd = fd_close(stream->fd);
	if (!stream_is_open(user_events, stream))
		return KERNEL_E_GONE;
	return stream->stranger ? KERNEL_E_STRANGER : KERNEL_OK;
}

static int on_clean(struct user_events *user_events, struct kernel_call *call)
{
	const struct event_stream *stream = user_events_find_stream(user_events, call->stream);

	if (!stream || stream->fd < 0)
		return KERNEL_E_NO_SUCH;
	return stream_is_clean(stream) ? KERNEL_OK : KERNEL_E_STRANGER;
}

static int on_look(struct user_events *user_events, struct kernel_call *call)
{
	call->bit = user_events->abi->maximum(user_events);
	call->number = user_events->witnesses;
	return user_events->list < 0 ? user_events->list : look_count_events(user_events->list, &call->index);
}

static int on_set_maximum(struct user_events *user_events _unused_, struct kernel_call *call)
{
	return look_set_maximum(call->index);
}

/* What is made anew has nothing to do with what is under way, nor has a copy. */
static bool has_to_wait(enum kernel_op op)
{
	return op != KERNEL_PAGE_NEW && op != KERNEL_STREAM_NEW && op != KERNEL_PAGE_ADOPT &&
	       op != KERNEL_STREAM_ADOPT && op != KERNEL_PAGE_FETCH && op != KERNEL_STREAM_FETCH;
}

static int carry_out(struct user_events *user_events, struct submission *submission, struct kernel_call *call)
{
	static int (*const handlers[])(struct user_events *, struct kernel_call *) = {
		[KERNEL_PAGE_NEW] = on_page_new,
		[KERNEL_PAGE_FREE] = on_page_free,
		[KERNEL_STREAM_NEW] = on_stream_new,
		[KERNEL_STREAM_FREE] = on_stream_free,
		[KERNEL_RELEASE] = on_release,
		[KERNEL_STILL_OPEN] = on_still_open,
		[KERNEL_CLEAN] = on_clean,
		[KERNEL_LOOK] = on_look,
		[KERNEL_SET_MAXIMUM] = on_set_maximum,
		[KERNEL_PAGE_FETCH] = on_page_fetch,
		[KERNEL_STREAM_FETCH] = on_stream_fetch,
		[KERNEL_DISOWN] = on_disown,
		[KERNEL_PAGE_ADOPT] = on_page_adopt,
		[KERNEL_STREAM_ADOPT] = on_stream_adopt,
	};

	if (call->op == KERNEL_REGISTER || call->op == KERNEL_ADOPT)
		return on_register(user_events, submission, call);
	/* Who keeps what is deposited has not asked us. */
	if ((size_t)call->op >= ARRAY_SIZE(handlers) || !handlers[call->op])
		return KERNEL_E_UNSUPPORTED;
	if (has_to_wait(call->op))
		finish_all(user_events, submission);
	return handlers[call->op](user_events, call);
}

static void prepare(struct user_events *user_events)
{
	if (user_events->under_way == 0 && user_events->abi->prepare)
		user_events->abi->prepare(user_events);
}

static void user_events_submit(struct kernel *kernel, struct kernel_call *calls, size_t n, kernel_done *done,
			       void *data)
{
	struct user_events *user_events = user_events_of(kernel);
	struct submission submission = { .calls = calls, .n = n, .done = done, .data = data };

	for (size_t i = 0; i < n; i++) {
		calls[i].result = carry_out(user_events, &submission, &calls[i]);
		if (message_op_takes_fd(calls[i].op))
			calls[i].fd = fd_close(calls[i].fd);
	}
	submission_end(user_events, &submission);
	prepare(user_events);
}

/* All that was asked is done, whoever is still there to hear of it. */
static void user_events_cancel(struct kernel *kernel)
{
	placements_finish(user_events_of(kernel));
}

static int user_events_dispatch(struct kernel *kernel)
{
	struct user_events *user_events = user_events_of(kernel);
	bool is_due = inheritance_is_due(user_events);
	int r = user_events->abi->dispatch(user_events);

	page_files_dispatch(&user_events->files);
	placements_settle(user_events);
	/* Else the next time. */
	if (is_due && user_events->under_way == 0)
		inheritance_look(user_events);
	prepare(user_events);
	return r;
}

static void user_events_orphan(struct kernel *kernel)
{
	inheritance_orphan(user_events_of(kernel));
}

/* Records go past us. */
static bool user_events_page_stats(struct kernel *kernel _unused_, uint32_t page _unused_,
				   struct kernel_page_stats *ret _unused_)
{
	return false;
}

static void user_events_free(struct kernel *kernel)
{
	struct user_events *user_events = user_events_of(kernel);

	user_events->ending = true;
	placements_finish(user_events);
	while (user_events->streams)
		user_events_stream_free(user_events, user_events->streams);
	while (!TAILQ_EMPTY(&user_events->disowned))
		user_events_disowned_free(user_events, TAILQ_FIRST(&user_events->disowned));
	while (user_events->pages)
		user_events_page_free(user_events, user_events->pages);
	/* First: the keeper's own lock must not look like a program's. */
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
	fd_close(kernel->fd);
	free(user_events);
}

static const struct kernel_ops user_events_ops = {
	.submit = user_events_submit,
	.cancel = user_events_cancel,
	.dispatch = user_events_dispatch,
	.free = user_events_free,
	.page_stats = user_events_page_stats,
	.orphan = user_events_orphan,
};

static int init(struct user_events *user_events, enum wire_backend backend, const struct kernel_limits *limits)
{
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
	/* Without it others' events are not known, and all else is as well as with it. */
	user_events->list = look_open(user_events->mounts.tracefs);
	r = inheritance_init(user_events);
	if (r == 0)
		r = page_files_init(&user_events->files, user_events->mounts.pages, user_events->mounts.pages_read_only,
				    user_events->kernel.fd);
	if (r < 0)
		return r;
	return backend == BACKEND_STATUS_PAGE ? status_page_init(user_events, limits)
					      : enable_address_init(user_events, limits);
}

int user_events_new(enum wire_backend backend, const struct mounts *mounts, const struct kernel_limits *limits,
		    struct kernel **ret)
{
	struct user_events *user_events = calloc(1, sizeof(*user_events));
	int r;

	if (!user_events)
		return -ENOMEM;
	user_events->kernel = (struct kernel){
		.ops = &user_events_ops,
		.facts = {
			.backend = (uint16_t)backend,
			.name = backend_name((uint16_t)backend),
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
	user_events->mounts = *mounts;
	user_events->files = PAGE_FILES_NONE;
	user_events->left_behind = (struct left_behind){ .directory = -1, .lock = -1, .instance = -1 };
	LIST_INIT(&user_events->enablers);
	TAILQ_INIT(&user_events->answered);
	TAILQ_INIT(&user_events->disowned);
	r = init(user_events, backend, limits);
	if (r < 0) {
		user_events_free(&user_events->kernel);
		return r;
	}
	*ret = &user_events->kernel;
	return 0;
}
