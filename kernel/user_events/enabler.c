/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/user_events/enabler.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "protocol/base/cursor.h"
#include "protocol/base/table.h"
#include "protocol/fdset.h"
#include "protocol/transport.h"

struct mapped_page {
	uint32_t number;
	uint8_t *memory;
	UT_hash_handle by_number;
};

struct enabler {
	int socket;
	struct mapped_page *pages;
	struct fdset fds; /* of the request that is served */
	uint8_t request[ENABLER_PACKET_MAX];
};

static struct mapped_page *find_page(struct enabler *enabler, uint32_t number)
{
	struct mapped_page *page;

	NUMBER_FIND(by_number, enabler->pages, number, page);
	return page;
}

static int add_page(struct enabler *enabler, uint32_t number, uint8_t *memory)
{
	struct mapped_page *page = calloc(1, sizeof(*page));

	if (!page)
		return -ENOMEM;
	page->number = number;
	page->memory = memory;
	NUMBER_ADD(by_number, enabler->pages, number, page);
	if (table_added())
		return 0;
	free(page);
	return -ENOMEM;
}

/* Locked: the kernel writes to it when it likes, and must never have to wait for it. */
static int map_page(struct enabler *enabler, uint32_t number)
{
	_cleanup_(fd_closep) int fd = fdset_steal(&enabler->fds, 0);
	void *memory;
	int r;

	if (fd < 0 || find_page(enabler, number))
		return -EINVAL;
	memory = mmap(NULL, WIRE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	r = mlock(memory, WIRE_PAGE_BYTES) < 0 ? -errno : add_page(enabler, number, memory);
	if (r < 0)
		munmap(memory, WIRE_PAGE_BYTES);
	return r;
}

static int unmap_page(struct enabler *enabler, uint32_t number)
{
	struct mapped_page *page = find_page(enabler, number);

	if (!page)
		return -EINVAL;
	HASH_DELETE(by_number, enabler->pages, page);
	munmap(page->memory, WIRE_PAGE_BYTES);
	free(page);
	return 0;
}

/* The kernel sets a bit in a 64-bit word of the machine's own order; a page's bits are counted byte by byte. */
static void place_bit(const struct mapped_page *page, uint32_t bit, uint64_t *ret_address, uint8_t *ret_bit)
{
	*ret_address = (uint64_t)(uintptr_t)(page->memory + bit / 64 * 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	*ret_bit = (uint8_t)(bit % 64);
#else
	*ret_bit = (uint8_t)((7 - bit % 64 / 8) * 8 + bit % 8);
#endif
}

static int register_item(struct enabler *enabler, const struct mapped_page *page, const struct enabler_item *item,
			 const char *text, uint32_t *ret_index)
{
	struct uapi_register asked = {
		.size = sizeof(asked),
		.enable_size = 8,
		.flags = item->flags,
		.description = (uint64_t)(uintptr_t)text,
	};
	uint64_t address;

	if (item->bit == 0 || item->bit >= WIRE_PAGE_BITS)
		return -EINVAL;
	place_bit(page, item->bit, &address, &asked.enable_bit);
	asked.enable_address = address;
	if (ioctl(enabler->fds.fd[0], UAPI_IOCTL_REGISTER, &asked) < 0)
		return -errno;
	*ret_index = asked.index;
	return 0;
}

static int remove_item(struct enabler *enabler, const struct mapped_page *page, const struct enabler_item *item)
{
	struct uapi_unregister asked = { .size = sizeof(asked) };
	uint64_t address;

	if (item->bit == 0 || item->bit >= WIRE_PAGE_BITS)
		return -EINVAL;
	place_bit(page, item->bit, &address, &asked.disable_bit);
	asked.disable_address = address;
	/* Any file will do: it is our address space that is looked through. */
	return ioctl(enabler->fds.fd[0], UAPI_IOCTL_UNREGISTER, &asked) < 0 ? -errno : 0;
}

static struct enabler_answer serve_item(struct enabler *enabler, const struct enabler_request *request,
					const struct mapped_page *page, struct cursor *body)
{
	struct enabler_answer answer = { .result = -EPROTO };
	char text[UAPI_DESCRIPTION_BYTES];
	struct enabler_item item;
	const char *from;

	cursor_get(body, &item, sizeof(item));
	from = cursor_take(body, (size_t)item.text_length + padding(item.text_length));
	if (!from || item.text_length >= sizeof(text))
		return answer;
	memcpy(text, from, item.text_length);
	text[item.text_length] = '\0';
	answer.result = request->kind == ENABLER_REGISTER ? register_item(enabler, page, &item, text, &answer.index)
							  : remove_item(enabler, page, &item);
	return answer;
}

static void serve_items(struct enabler *enabler, const struct enabler_request *request, struct cursor *body,
			struct enabler_answer *answers)
{
	const struct mapped_page *page = find_page(enabler, request->page);

	for (uint32_t i = 0; i < request->count; i++) {
		if (page && enabler->fds.count == 1)
			answers[i] = serve_item(enabler, request, page, body);
		else
			answers[i] = (struct enabler_answer){ .result = -EINVAL };
	}
}

/* How many answers. */
static uint32_t serve(struct enabler *enabler, struct cursor body, struct enabler_answer *answers)
{
	struct enabler_request request;

	cursor_get(&body, &request, sizeof(request));
	switch (request.kind) {
	case ENABLER_MAP:
		answers[0] = (struct enabler_answer){ .result = map_page(enabler, request.page) };
		return 1;
	case ENABLER_UNMAP:
		answers[0] = (struct enabler_answer){ .result = unmap_page(enabler, request.page) };
		return 1;
	case ENABLER_REGISTER:
	case ENABLER_REMOVE:
		if (request.count == 0 || request.count > ENABLER_BATCH_MAX)
			break;
		serve_items(enabler, &request, &body, answers);
		return request.count;
	}
	answers[0] = (struct enabler_answer){ .result = -EPROTO };
	return 1;
}

int enabler_run(int socket)
{
	static struct enabler enabler;
	struct enabler_answer answers[ENABLER_BATCH_MAX];

	enabler.socket = socket;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		ssize_t n = transport_receive_fds(socket, enabler.request, sizeof(enabler.request), &enabler.fds, 0);
		uint32_t count;

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
		count = serve(&enabler, cursor_make(enabler.request, (size_t)n), answers);
		/* The stream was lent: it lives as long as its clients keep it, and not as long as we do. */
		fdset_deinit(&enabler.fds);
		if (transport_send(socket, answers, count * sizeof(answers[0]), NULL, 0, 0) < 0)
			return EXIT_FAILURE;
	}
}
