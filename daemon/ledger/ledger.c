/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/ledger/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/*
 * The writer may be killed between two instructions, so an entry counts once its size is written, which is last. The reader
 * trusts nothing: an incomplete or damaged entry ends the file.
 */

enum { FIRST_BYTES = 64 << 10 };

static const char magic[8] = "userevdL";

static size_t size_with(size_t data)
{
	return sizeof(struct ledger_entry) + (data + 7) / 8 * 8;
}

/* Not secret: it detects torn entries, not forged ones. */
uint32_t ledger_check(const struct ledger_entry *entry)
{
	size_t size = size_with(entry->data_size);
	const uint8_t *at = (const uint8_t *)&entry->kind, *end = (const uint8_t *)entry + size;
	uint64_t sum = size;

	for (; at < end; at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 29;
	}
	return (uint32_t)(sum ^ sum >> 32);
}

/* The end is always an entry without a size. */
int ledger_make_room(struct ledger *ledger, size_t end)
{
	size_t size = ledger->size;
	void *memory;

	while (size < end + sizeof(struct ledger_entry))
		size *= 2;
	if (size == ledger->size)
		return 0;
	if (ftruncate(ledger->fd, (off_t)size) < 0)
		return -errno;
	memory = mremap(ledger->memory, ledger->size, size, MREMAP_MAYMOVE);
	if (memory == MAP_FAILED)
		return -errno;
	ledger->memory = memory;
	ledger->size = size;
	return 0;
}

int ledger_new(struct ledger **ret)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));
	struct ledger_header *header;
	int r = 0;

	if (!ledger)
		return -ENOMEM;
	ledger->memory = MAP_FAILED;
	ledger->size = FIRST_BYTES;
	ledger->fd = memfd_create("userevd-ledger", MFD_CLOEXEC);
	if (ledger->fd < 0 || ftruncate(ledger->fd, (off_t)ledger->size) < 0)
		r = -errno;
	if (r == 0)
		ledger->memory = mmap(NULL, ledger->size, PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, 0);
	if (r == 0 && ledger->memory == MAP_FAILED)
		r = -errno;
	if (r < 0) {
		ledger_free(ledger);
		return r;
	}
	header = (void *)ledger->memory;
	*header = (struct ledger_header){ .version = LEDGER_VERSION, .start = sizeof(*header) };
	memcpy(header->magic, magic, sizeof(magic));
	ledger->start = ledger->used = sizeof(*header);
	*ret = ledger;
	return 0;
}

struct ledger *ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return NULL;
	ledger_rewriting_free(ledger);
	if (ledger->memory != MAP_FAILED)
		munmap(ledger->memory, ledger->size);
	fd_close(ledger->fd);
	free(ledger);
	return NULL;
}

static void ledger_append(struct ledger *ledger, struct ledger_entry entry, const void *data)
{
	size_t size = size_with(entry.data_size);
	struct ledger_entry *to;

	if (ledger->failed == 0)
		ledger_make_way(ledger, ledger->used + size);
	if (ledger->failed == 0)
		ledger->failed = ledger_make_room(ledger, ledger->used + size);
	if (ledger->failed < 0)
		return;
	/* The file is zero behind the end. */
	to = (void *)(ledger->memory + ledger->used);
	*to = entry;
	if (entry.data_size > 0)
		memcpy(to + 1, data, entry.data_size);
	to->check = ledger_check(to);
	__atomic_store_n(&to->size, (uint32_t)size, __ATOMIC_RELEASE);
	ledger->used += size;
}

void ledger_enter(struct ledger *ledger, uint16_t kind, uint64_t a, uint64_t b, const void *data, size_t size)
{
	if (ledger)
		ledger_append(ledger,
			      (struct ledger_entry){ .kind = kind, .data_size = (uint32_t)size, .a = a, .b = b }, data);
}

void ledger_enter_text(struct ledger *ledger, uint16_t kind, uint64_t a, const void *data, size_t size,
		       const char *text)
{
	static uint8_t buffer[LEDGER_DATA_MAX];
	size_t length = strlen(text);

	if (!ledger)
		return;
	memcpy(buffer, data, size);
	memcpy(buffer + size, text, length);
	ledger_enter(ledger, kind, a, 0, buffer, size + length);
}

void ledger_strike(struct ledger *ledger, uint16_t kind, uint64_t a, uint64_t b)
{
	if (ledger)
		ledger_append(ledger, (struct ledger_entry){ .kind = kind, .struck = 1, .a = a, .b = b }, NULL);
}

/* --- reading --- */

static struct ledger_thing *image_find(const struct ledger_image *image, uint16_t kind, uint64_t a, uint64_t b)
{
	const struct ledger_key key = { .kind = kind, .a = a, .b = b };
	struct ledger_thing *thing;

	HASH_FIND(by_key, image->things, &key, sizeof(key), thing);
	return thing;
}

static void image_forget(struct ledger_image *image, struct ledger_thing *thing)
{
	HASH_DELETE(by_key, image->things, thing);
	free(thing->data);
	free(thing);
}

static int image_take(struct ledger_image *image, const struct ledger_entry *entry)
{
	struct ledger_thing *thing = image_find(image, entry->kind, entry->a, entry->b);
	void *data;

	if (entry->struck) {
		if (thing)
			image_forget(image, thing);
		return 0;
	}
	data = malloc(entry->data_size + 1);
	if (data && !thing) {
		thing = calloc(1, sizeof(*thing));
		if (thing) {
			thing->key = (struct ledger_key){ .kind = entry->kind, .a = entry->a, .b = entry->b };
			HASH_ADD(by_key, image->things, key, sizeof(thing->key), thing);
		}
		if (thing && !table_added()) {
			free(thing);
			thing = NULL;
		}
	}
	if (!data || !thing) {
		free(data);
		return -ENOMEM;
	}
	memcpy(data, entry + 1, entry->data_size);
	free(thing->data);
	thing->data = data;
	thing->size = entry->data_size;
	return 0;
}

const struct ledger_entry *ledger_entry_at(const uint8_t *memory, size_t size, size_t at)
{
	const struct ledger_entry *entry = (const void *)(memory + at);

	if (size - at < sizeof(*entry) || entry->size < sizeof(*entry) || entry->size > size - at ||
	    entry->data_size > LEDGER_DATA_MAX || entry->size != size_with(entry->data_size))
		return NULL;
	return entry->check == ledger_check(entry) ? entry : NULL;
}

int ledger_parse(const uint8_t *memory, size_t size, struct ledger_image *ret)
{
	const struct ledger_entry *entry;
	struct ledger_image image = { 0 };
	struct ledger_header header;
	int r = 0;

	if (size < sizeof(header))
		return -EBADMSG;
	memcpy(&header, memory, sizeof(header));
	if (memcmp(header.magic, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (header.version > LEDGER_VERSION)
		return -EPROTONOSUPPORT;
	if (header.start < sizeof(header) || header.start > size || header.start % sizeof(uint64_t) != 0)
		return -EBADMSG;
	for (size_t at = header.start; r == 0 && (entry = ledger_entry_at(memory, size, at)); at += entry->size)
		r = image_take(&image, entry);
	if (r < 0)
		ledger_image_deinit(&image);
	else
		*ret = image;
	return r;
}

int ledger_read(int fd, struct ledger_image *ret)
{
	struct stat status;
	void *memory;
	size_t size;
	int r;

	if (fstat(fd, &status) < 0)
		return -errno;
	size = (size_t)status.st_size;
	if (size == 0)
		return -EBADMSG;
	memory = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	r = ledger_parse(memory, size, ret);
	munmap(memory, size);
	return r;
}

void ledger_image_deinit(struct ledger_image *image)
{
	while (image->things)
		image_forget(image, image->things);
}

const struct ledger_thing *ledger_find(const struct ledger_image *image, uint16_t kind, uint64_t a, uint64_t b)
{
	return image_find(image, kind, a, b);
}

const struct ledger_thing *ledger_next(const struct ledger_image *image, uint16_t kind,
				       const struct ledger_thing *after)
{
	const struct ledger_thing *thing = after ? after->by_key.next : image->things;

	while (thing && thing->key.kind != kind)
		thing = thing->by_key.next;
	return thing;
}

void ledger_get(const struct ledger_thing *thing, void *ret, size_t size)
{
	size_t known = MIN(size, thing->size);

	memcpy(ret, thing->data, known);
	memset((uint8_t *)ret + known, 0, size - known);
}
