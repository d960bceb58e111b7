/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/fake_kernel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include "kernel/rpc/message.h"

struct fake fake;
uint16_t kernel_offers = REGISTER_PERSIST | REGISTER_MULTI_FORMAT;

static size_t find_page(uint32_t number)
{
	for (size_t i = 0; i < PAGES; i++)
		if (fake.page[i] == number)
			return i;
	return PAGES;
}

struct fake_stream *find_stream(uint32_t number)
{
	for (size_t i = 0; i < STREAMS; i++)
		if (fake.stream[i].there && fake.stream[i].number == number)
			return &fake.stream[i];
	return NULL;
}

static bool is_of_event(const struct fake_slot *slot, const char *text, uint16_t flags)
{
	return slot->there && !((slot->flags ^ flags) & REGISTER_MULTI_FORMAT) && streq(slot->text, text);
}

static int on_page_new(struct kernel_call *call)
{
	size_t i = find_page(0);

	if (find_page(call->page) < PAGES)
		return -EEXIST;
	if (i == PAGES)
		return -ENOMEM;
	fake.page_fd[i] = memfd_create("page", MFD_CLOEXEC);
	if (fake.page_fd[i] < 0 || ftruncate(fake.page_fd[i], WIRE_PAGE_BYTES) < 0)
		return -errno;
	fake.page[i] = call->page;
	call->fd = fcntl(fake.page_fd[i], F_DUPFD_CLOEXEC, 0);
	return KERNEL_OK;
}

static int on_page_free(struct kernel_call *call)
{
	size_t page = find_page(call->page);

	if (page == PAGES)
		return KERNEL_E_NO_SUCH;
	for (size_t i = 0; i < STREAMS; i++)
		if (fake.stream[i].there && fake.stream[i].page == call->page)
			return -EBUSY;
	fake.page[page] = 0;
	fake.page_fd[page] = fd_close(fake.page_fd[page]);
	return KERNEL_OK;
}

static int on_stream_new(struct kernel_call *call)
{
	struct fake_stream *stream = fake.stream;
	int ends[2];

	if (find_page(call->page) == PAGES)
		return KERNEL_E_NO_SUCH;
	if (find_stream(call->stream))
		return -EEXIST;
	while (stream->there)
		if (++stream == fake.stream + STREAMS)
			return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	*stream = (struct fake_stream){
		.there = true,
		.number = call->stream,
		.page = call->page,
		.ours = ends[1],
		.watch = ends[0],
		.wanted = true,
	};
	call->fd = fcntl(ends[1], F_DUPFD_CLOEXEC, fake.guard ? GUARDED_FDS : 0);
	return KERNEL_OK;
}

static int on_stream_free(struct kernel_call *call)
{
	struct fake_stream *stream = find_stream(call->stream);

	if (!stream)
		return KERNEL_E_NO_SUCH;
	fd_close(stream->ours);
	fd_close(stream->watch);
	stream->there = false;
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].stream == call->stream)
			fake.slot[i].there = false;
	return KERNEL_OK;
}

/* The page's bit of the event, or the first above all in use. */
static uint32_t bit_of(const struct kernel_call *call, uint32_t page)
{
	uint32_t bit = 1;

	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].page == page && is_of_event(&fake.slot[i], call->text, call->flags))
			return fake.slot[i].bit;
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && fake.slot[i].page == page)
			bit = MAX(bit, fake.slot[i].bit + 1);
	return bit;
}

static int on_silence(struct kernel_call *call)
{
	int r = KERNEL_E_NO_SUCH;

	for (size_t i = 0; i < SLOTS; i++) {
		if (!fake.slot[i].there || fake.slot[i].page != call->page || fake.slot[i].bit != call->bit)
			continue;
		fake.slot[i].silent = call->flags & KERNEL_SILENT;
		r = KERNEL_OK;
	}
	return r;
}

/* The last call counts. */
static int note_silence(const struct kernel_call *call, uint32_t page)
{
	return on_silence(&(struct kernel_call){ .page = page, .bit = call->bit, .flags = call->flags });
}

static int on_register(struct kernel_call *call)
{
	struct fake_stream *stream = find_stream(call->stream);
	struct fake_slot *slot = fake.slot;

	if (!stream)
		return KERNEL_E_NO_SUCH;
	if (stream->ours < 0)
		return -EBADF;
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].stream == call->stream && is_of_event(&fake.slot[i], call->text, call->flags)) {
			call->bit = fake.slot[i].bit;
			call->index = fake.slot[i].index;
			return note_silence(call, stream->page);
		}
	while (slot->there)
		if (++slot == fake.slot + SLOTS)
			return KERNEL_E_FULL;
	call->bit = bit_of(call, stream->page);
	call->index = stream->next_index++;
	call->number = stream->jumps;
	*slot = (struct fake_slot){
		.there = true,
		.stream = call->stream,
		.page = stream->page,
		.bit = call->bit,
		.index = call->index,
		.flags = call->flags & ~KERNEL_SILENT,
	};
	string_copy(slot->text, sizeof(slot->text), call->text);
	return note_silence(call, stream->page);
}

static int on_still_open(struct kernel_call *call)
{
	struct fake_stream *stream = find_stream(call->stream);
	struct pollfd ask = { .events = POLLIN };

	if (!stream)
		return KERNEL_E_NO_SUCH;
	stream->ours = fd_close(stream->ours);
	ask.fd = stream->watch;
	poll(&ask, 1, 0);
	if (ask.revents & POLLHUP)
		return KERNEL_E_GONE;
	return stream->self_registered && call->index == KERNEL_UNGUARDED ? KERNEL_E_SELF_REGISTERED : KERNEL_OK;
}

/* Several slots may have the same event. */
static bool is_first(const struct fake_slot *slot)
{
	for (const struct fake_slot *other = fake.slot; other < slot; other++)
		if (is_of_event(other, slot->text, slot->flags))
			return false;
	return slot->there;
}

static int on_look(struct kernel_call *call)
{
	call->bit = script.kernel->facts.capacity;
	call->index = fake.foreign;
	for (size_t i = 0; i < SLOTS; i++)
		call->index += is_first(&fake.slot[i]);
	return KERNEL_OK;
}

static int on_clean(struct kernel_call *call)
{
	const struct fake_stream *stream = find_stream(call->stream);

	if (!stream || stream->ours < 0)
		return KERNEL_E_NO_SUCH;
	return stream->self_registered ? KERNEL_E_SELF_REGISTERED : KERNEL_OK;
}

struct fake_deposit *find_deposit(uint64_t number)
{
	for (size_t i = 0; i < DEPOSITS; i++)
		if (fake.deposit[i].there && fake.deposit[i].number == number)
			return &fake.deposit[i];
	return NULL;
}

static void withdraw(struct fake_deposit *deposit)
{
	deposit->there = false;
	deposit->fd = fd_close(deposit->fd);
}

static int on_deposit(struct kernel_call *call)
{
	struct fake_deposit *deposit = find_deposit(call->number);

	if (deposit)
		withdraw(deposit);
	else
		deposit = fake.deposit;
	while (deposit->there)
		if (++deposit == fake.deposit + DEPOSITS)
			return -ENOMEM;
	if (call->fd < 0)
		abort();
	*deposit = (struct fake_deposit){ .there = true, .wanted = true, .number = call->number, .fd = call->fd };
	call->fd = -1;
	return KERNEL_OK;
}

static int on_withdraw(struct kernel_call *call)
{
	struct fake_deposit *deposit = find_deposit(call->number);

	if (!deposit)
		return KERNEL_E_NO_SUCH;
	withdraw(deposit);
	return KERNEL_OK;
}

static int on_deposited(struct kernel_call *call)
{
	struct fake_deposit *deposit = find_deposit(call->number);

	if (!deposit)
		return KERNEL_E_NO_SUCH;
	deposit->wanted = true;
	call->fd = fcntl(deposit->fd, F_DUPFD_CLOEXEC, 0);
	return KERNEL_OK;
}

static int on_page_fetch(struct kernel_call *call)
{
	size_t i = find_page(call->page);

	if (call->page == 0 || i == PAGES)
		return KERNEL_E_NO_SUCH;
	call->fd = fcntl(fake.page_fd[i], F_DUPFD_CLOEXEC, 0);
	return KERNEL_OK;
}

static int on_stream_fetch(struct kernel_call *call)
{
	struct fake_stream *stream = find_stream(call->stream);

	if (!stream)
		return KERNEL_E_NO_SUCH;
	stream->wanted = true;
	if (stream->ours < 0)
		return KERNEL_E_GONE;
	call->fd = fcntl(stream->ours, F_DUPFD_CLOEXEC, fake.guard ? GUARDED_FDS : 0);
	return KERNEL_OK;
}

static int on_disown(struct kernel_call *call _unused_)
{
	for (size_t i = 0; i < STREAMS; i++)
		if (fake.stream[i].there && !fake.stream[i].wanted)
			on_stream_free(&(struct kernel_call){ .stream = fake.stream[i].number });
	for (size_t i = 0; i < DEPOSITS; i++)
		if (fake.deposit[i].there && !fake.deposit[i].wanted)
			withdraw(&fake.deposit[i]);
	return KERNEL_OK;
}

static int on_delete(struct kernel_call *call)
{
	const size_t length = strlen(call->text);

	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && strncmp(fake.slot[i].text, call->text, length) == 0 &&
		    fake.slot[i].text[length] == ' ')
			return KERNEL_E_IN_USE;
	return KERNEL_OK;
}

static int on_release(struct kernel_call *call)
{
	return find_stream(call->stream) ? KERNEL_E_LINGERS : KERNEL_E_NO_SUCH;
}

static int fake_carry_out(struct kernel_call *call)
{
	static int (*const handlers[KERNEL_OP_MAX_])(struct kernel_call *) = {
		[KERNEL_PAGE_NEW] = on_page_new,
		[KERNEL_PAGE_FREE] = on_page_free,
		[KERNEL_STREAM_NEW] = on_stream_new,
		[KERNEL_STREAM_FREE] = on_stream_free,
		[KERNEL_REGISTER] = on_register,
		[KERNEL_RELEASE] = on_release,
		[KERNEL_STILL_OPEN] = on_still_open,
		[KERNEL_CLEAN] = on_clean,
		[KERNEL_LOOK] = on_look,
		[KERNEL_DEPOSIT] = on_deposit,
		[KERNEL_WITHDRAW] = on_withdraw,
		[KERNEL_DEPOSITED] = on_deposited,
		[KERNEL_PAGE_FETCH] = on_page_fetch,
		[KERNEL_STREAM_FETCH] = on_stream_fetch,
		[KERNEL_DISOWN] = on_disown,
		[KERNEL_DELETE] = on_delete,
		[KERNEL_SILENCE] = on_silence,
	};

	return handlers[call->op] ? handlers[call->op](call) : -EINVAL;
}

/* The call's fd is taken in any case. */
static int run_out_of_memory(struct kernel_call *call)
{
	if (message_op(call->op)->takes_fd)
		call->fd = fd_close(call->fd);
	return -ENOMEM;
}

static void fake_submit(struct kernel *kernel _unused_, struct kernel_call *calls, size_t n, kernel_done *done _unused_,
			void *data _unused_)
{
	for (size_t i = 0; i < n; i++)
		calls[i].result = fake.out_of_memory >> calls[i].op & 1 ? run_out_of_memory(&calls[i])
									: fake_carry_out(&calls[i]);
	if (done)
		done(data, calls, n);
}

static int fake_dispatch(struct kernel *kernel)
{
	return fake.carrier->dispatch(kernel);
}

static void forget_all(void)
{
	for (size_t i = 0; i < STREAMS; i++)
		if (fake.stream[i].there)
			on_stream_free(&(struct kernel_call){ .stream = fake.stream[i].number });
	for (size_t i = 0; i < PAGES; i++)
		if (fake.page[i])
			on_page_free(&(struct kernel_call){ .page = fake.page[i] });
	for (size_t i = 0; i < DEPOSITS; i++)
		if (fake.deposit[i].there)
			withdraw(&fake.deposit[i]);
}

static void fake_free(struct kernel *kernel)
{
	if (!fake.keeps)
		forget_all();
	fake.carrier->free(kernel);
}

const struct kernel_ops fake_ops = {
	.submit = fake_submit,
	.dispatch = fake_dispatch,
	.free = fake_free,
};

unsigned count_fake_streams(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < STREAMS; i++)
		n += fake.stream[i].there;
	return n;
}

unsigned count_fake_slots(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < SLOTS; i++)
		n += fake.slot[i].there;
	return n;
}

unsigned count_deposits(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < DEPOSITS; i++)
		n += fake.deposit[i].there;
	return n;
}

struct fake_stream *stream_of(const struct end *end)
{
	struct fake_stream *stream = find_stream(end->heard.message.stream[0]);

	ck_assert_ptr_nonnull(stream);
	return stream;
}

const struct fake_slot *find_slot(uint32_t stream, uint32_t index, uint32_t bit, const char *text)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && fake.slot[i].stream == stream && fake.slot[i].index == index &&
		    fake.slot[i].bit == bit && streq(fake.slot[i].text, text))
			return &fake.slot[i];
	return NULL;
}

const struct fake_slot *find_event(const char *text)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && streq(fake.slot[i].text, text))
			return &fake.slot[i];
	return NULL;
}

void expect_kernel_has(unsigned streams, unsigned slots)
{
	ck_assert_uint_eq(count_fake_streams(), streams);
	ck_assert_uint_eq(count_fake_slots(), slots);
}

unsigned count_calls(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(script.asked); i++)
		n += script.asked[i];
	return n;
}
