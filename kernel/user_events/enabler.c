/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/enabler.h"

#include <sys/mman.h>

#include "kernel/user_events/allocate.h"
#include "protocol/base/cursor.h"
#include "protocol/transport.h"

struct mapped_page {
	uint32_t number;
	uint32_t items; /* that are registered, with or without an enabler */
	uint8_t *memory;
	UT_hash_handle by_number;
};

struct enabler {
	struct mapped_page *pages;
	struct fdset fds; /* of the current request */
	uint8_t request[ENABLER_PACKET_MAX];
};

static struct mapped_page *enabler_find_page(const struct enabler *enabler, uint32_t number)
{
	struct mapped_page *page;

	NUMBER_FIND(by_number, enabler->pages, number, page);
	return page;
}

/* Finds the page, or maps it: locked in memory, since the kernel writes to it at any time, and must never have to wait for it. */
static struct mapped_page *enabler_get_page(struct enabler *enabler, uint32_t number, int *ret_error)
{
	struct mapped_page *page = enabler_find_page(enabler, number);
	void *memory;

	if (page)
		return page;
	*ret_error = -EINVAL;
	if (enabler->fds.count != 2)
		return NULL;
	memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, enabler->fds.fd[1], 0);
	if (memory == MAP_FAILED || mlock(memory, WIRE_PAGE_BYTES) < 0) {
		*ret_error = -errno;
		if (memory != MAP_FAILED)
			munmap(memory, WIRE_PAGE_BYTES);
		return NULL;
	}
	page = keeper_allocate(sizeof(*page));
	page->number = number;
	page->memory = memory;
	NUMBER_ADD(by_number, enabler->pages, number, page);
	table_check_added();
	return page;
}

static void enabler_tidy_page(struct enabler *enabler, struct mapped_page *page)
{
	if (page->items > 0)
		return;
	HASH_DELETE(by_number, enabler->pages, page);
	munmap(page->memory, WIRE_PAGE_BYTES);
	free(page);
}

static uint64_t word_of(const struct mapped_page *page, uint32_t bit)
{
	return (uint64_t)(uintptr_t)(page->memory + bit / 64 * 8);
}

/* The kernel sets a bit in a 64-bit word of the machine's own order; a page's bits are counted byte by byte. */
static uint8_t bit_in_word(uint32_t bit)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint8_t)(bit % 64);
#else
	return (uint8_t)((7 - bit % 64 / 8) * 8 + bit % 8);
#endif
}

/* As the kernel does it. */
static void bit_keep(const struct mapped_page *page, uint32_t bit, bool on)
{
	uint8_t *byte = page->memory + bit / 8;
	const uint8_t mask = (uint8_t)(1u << bit % 8);

	if (on)
		__atomic_fetch_or(byte, mask, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(byte, (uint8_t)~mask, __ATOMIC_SEQ_CST);
}

/* On the stream alone: only the file gets a reference. The word is unregistered before the kernel has to look at it again. */
static int enabler_join(const struct enabler *enabler, struct uapi_register *asked)
{
	static uint64_t scratch;
	const struct uapi_unregister taken_back = {
		.size = sizeof(taken_back),
		.disable_address = (uint64_t)(uintptr_t)&scratch,
	};

	asked->enable_address = (uint64_t)(uintptr_t)&scratch;
	if (ioctl(enabler->fds.fd[0], UAPI_IOCTL_REGISTER, asked) < 0 ||
	    ioctl(enabler->fds.fd[0], UAPI_IOCTL_UNREGISTER, &taken_back) < 0)
		return -errno;
	return 0;
}

static int enabler_register(struct enabler *enabler, enum enabler_kind kind, const struct enabler_item *item,
			    const char *text, uint32_t *ret_index)
{
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = 8,
		.flags = item->flags & (uint16_t) ~(ENABLER_OFF | ENABLER_ON),
		.description = (uint64_t)(uintptr_t)text,
	};
	struct mapped_page *page;
	int r = -ENOENT;

	page = kind == ENABLER_REGISTER ? enabler_get_page(enabler, item->page, &r)
					: enabler_find_page(enabler, item->page);
	if (!page)
		return r;
	if (item->flags & (ENABLER_OFF | ENABLER_ON)) {
		r = enabler_join(enabler, &asked);
		if (r == 0)
			bit_keep(page, item->bit, item->flags & ENABLER_ON);
	} else {
		asked.enable_bit = bit_in_word(item->bit);
		asked.enable_address = word_of(page, item->bit);
		r = ioctl(enabler->fds.fd[0], UAPI_IOCTL_REGISTER, &asked) < 0 ? -errno : 0;
	}
	page->items += kind == ENABLER_REGISTER && r == 0;
	enabler_tidy_page(enabler, page);
	if (r == 0)
		*ret_index = asked.index;
	return r;
}

/* The kernel searches our address space, whichever data file it is. -ENOENT: the item has no enabler. */
static int kernel_unregister(const struct enabler *enabler, const struct mapped_page *page, uint32_t bit)
{
	const struct uapi_unregister asked = {
		.size = sizeof(asked),
		.disable_bit = bit_in_word(bit),
		.disable_address = word_of(page, bit),
	};

	return ioctl(enabler->fds.fd[0], UAPI_IOCTL_UNREGISTER, &asked) < 0 ? -errno : 0;
}

/* Changes the page as the copy has been changed since. */
static void page_repeat(struct mapped_page *page, const void *before, const void *copy)
{
	uint64_t *words = (uint64_t *)(void *)page->memory;

	for (size_t i = 0; i < WIRE_PAGE_BYTES / sizeof(*words); i++) {
		const uint64_t now = ((const uint64_t *)copy)[i], changed = now ^ ((const uint64_t *)before)[i];

		if (changed & now)
			__atomic_fetch_or(&words[i], changed & now, __ATOMIC_SEQ_CST);
		if (changed & ~now)
			__atomic_fetch_and(&words[i], ~(changed & ~now), __ATOMIC_SEQ_CST);
	}
}

/*
 * The kernel switches the bit off with its enabler, and a program that looks at it in that moment would lose a record of the machine's
 * tracers. So the kernel finds other memory at the page's address meanwhile. What it changes there for other events is repeated on the
 * page. (An event would have to be switched twice within these microseconds to be repeated wrongly.)
 */
static int unregister_unseen(const struct enabler *enabler, struct mapped_page *page, uint32_t bit)
{
	static _Alignas(uint64_t) uint8_t before[WIRE_PAGE_BYTES];
	void *copy =
		mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	/* The same memory at a second address, to be moved back. */
	void *same = mremap(page->memory, 0, WIRE_PAGE_BYTES, MREMAP_MAYMOVE);
	int r = -ENOMEM;

	if (copy != MAP_FAILED && same != MAP_FAILED) {
		memcpy(copy, same, WIRE_PAGE_BYTES);
		memcpy(before, copy, WIRE_PAGE_BYTES);
		if (mremap(copy, 0, WIRE_PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, page->memory) != MAP_FAILED) {
			bit_keep(page, bit, before[bit / 8] & 1u << bit % 8);
			r = kernel_unregister(enabler, page, bit);
			if (mremap(same, WIRE_PAGE_BYTES, WIRE_PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
				   page->memory) == MAP_FAILED)
				abort();
			mlock(page->memory, WIRE_PAGE_BYTES);
			same = MAP_FAILED;
			bit_keep(&(struct mapped_page){ .memory = copy }, bit, before[bit / 8] & 1u << bit % 8);
			page_repeat(page, before, copy);
		}
	}
	if (same != MAP_FAILED)
		munmap(same, WIRE_PAGE_BYTES);
	if (copy != MAP_FAILED)
		munmap(copy, WIRE_PAGE_BYTES);
	return r == -ENOMEM ? kernel_unregister(enabler, page, bit) : r;
}

static int enabler_unregister(struct enabler *enabler, enum enabler_kind kind, const struct enabler_item *item)
{
	struct mapped_page *page = enabler_find_page(enabler, item->page);
	int r;

	if (!page)
		return -ENOENT;
	r = kind == ENABLER_KEEP_ON ? unregister_unseen(enabler, page, item->bit)
				    : kernel_unregister(enabler, page, item->bit);
	/* The kernel leaves the bit of an item without an enabler alone. */
	if (r == 0 || r == -ENOENT)
		bit_keep(page, item->bit, kind == ENABLER_KEEP_ON);
	/* A page with an enabler that the kernel has kept must stay: another page at its address would have that enabler's bit. */
	page->items -= kind == ENABLER_REMOVE && (r == 0 || r == -ENOENT);
	enabler_tidy_page(enabler, page);
	return r;
}

static struct enabler_answer enabler_serve_item(struct enabler *enabler, enum enabler_kind kind, struct cursor *body)
{
	struct enabler_answer answer = { .result = -EPROTO };
	char text[UAPI_DESCRIPTION_BYTES];
	struct enabler_item item;
	const char *from;

	cursor_get(body, &item, sizeof(item));
	from = cursor_take(body, (size_t)item.text_length + padding(item.text_length));
	if (!from || item.text_length >= sizeof(text) || item.bit == 0 || item.bit >= WIRE_PAGE_BITS)
		return answer;
	memcpy(text, from, item.text_length);
	text[item.text_length] = '\0';
	if (kind == ENABLER_REGISTER || kind == ENABLER_RESUME)
		answer.result = enabler_register(enabler, kind, &item, text, &answer.index);
	else
		answer.result = enabler_unregister(enabler, kind, &item);
	return answer;
}

int enabler_run(int socket)
{
	static struct enabler enabler;
	struct enabler_answer answers[ENABLER_BATCH_MAX];

	for (;;) {
		ssize_t n = transport_receive_fds(socket, enabler.request, sizeof(enabler.request), &enabler.fds, 0);
		struct enabler_request request;
		struct cursor body;
		uint32_t count = 0;

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
		body = cursor_make(enabler.request, (size_t)n);
		cursor_get(&body, &request, sizeof(request));
		/* Without an answer for an invalid request. */
		if (request.count <= ENABLER_BATCH_MAX && enabler.fds.count > 0)
			for (; count < request.count; count++)
				answers[count] = enabler_serve_item(&enabler, request.kind, &body);
		/* The stream was lent: it lives as long as its clients have it, not as long as this process. */
		fdset_deinit(&enabler.fds);
		if (count == 0 || transport_send(socket, answers, count * sizeof(answers[0]), NULL, 0, 0) < 0)
			return EXIT_FAILURE;
	}
}
