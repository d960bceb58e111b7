/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/ledger/ledger.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "protocol/base/array.h"

/*
 * The file is divided into blocks, and each block into slots of one size. A struck slot is used again by the next entry of that size,
 * so the file is never rewritten; a block without entries becomes a hole.
 *
 * The daemon may be killed between two instructions. A slot counts while its kind is not 0: that is written after everything else,
 * and cleared before anything else. An entry that takes the place of an earlier one gets a slot of its own; a reader that finds both
 * takes either, since the thing was just changing from one state to the other, and nobody was told of it.
 */

enum {
	UNIT = sizeof(uint64_t), /* of places: a slot begins at a multiple of it */
	MARKS_MIN = 4,		 /* words */
	MARKS_MAX = 512,	 /* words */
};

static const char magic[8] = "userevdL";

struct ledger_block {
	size_t at;	/* in the file */
	unsigned size;	/* the index of its slots' size */
	unsigned n;	/* entries */
	uint32_t slot;	/* bytes of a slot */
	uint32_t fresh; /* the first slot that was never used, from the block's beginning */
	uint64_t free;	/* the place of a free slot before that, which has the place of another in `a`; 0: none */
	LIST_ENTRY(ledger_block) entry; /* while it has room */
};

static struct ledger_entry *entry_at(const struct ledger *ledger, uint64_t place)
{
	return (void *)(ledger->memory + place * UNIT);
}

/* --- blocks --- */

static bool block_has_room(const struct ledger_block *block)
{
	return block->free || block->fresh + block->slot <= LEDGER_BLOCK;
}

static int ledger_grow(struct ledger *ledger)
{
	size_t size = MAX(ledger->size * 2, (size_t)LEDGER_BLOCK * 4);
	void *memory;

	if (size / UNIT > UINT32_MAX)
		return -EFBIG;
	if (ftruncate(ledger->fd, (off_t)size) < 0)
		return -errno;
	memory = ledger->memory ? mremap(ledger->memory, ledger->size, size, MREMAP_MAYMOVE)
				: mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	ledger->memory = memory;
	ledger->size = size;
	return 0;
}

/* At the end of the file. NULL: the ledger has failed. */
static struct ledger_block *block_add(struct ledger *ledger)
{
	struct ledger_block **blocks = array_grow(ledger->blocks, ledger->n_blocks, sizeof(struct ledger_block *));
	struct ledger_block *block = calloc(1, sizeof(*block));

	ledger->failed = blocks && block ? 0 : -ENOMEM;
	ledger->blocks = blocks ? blocks : ledger->blocks;
	if (ledger->failed == 0 && (ledger->n_blocks + 1) * LEDGER_BLOCK > ledger->size)
		ledger->failed = ledger_grow(ledger);
	if (ledger->failed < 0) {
		free(block);
		return NULL;
	}
	block->at = ledger->n_blocks * LEDGER_BLOCK;
	blocks[ledger->n_blocks++] = block;
	return block;
}

/* A block with room for an entry of so many bytes. NULL: the ledger has failed. */
static struct ledger_block *block_find(struct ledger *ledger, size_t bytes)
{
	struct ledger_block *block;
	uint32_t slot = (uint32_t)MIN((bytes + 15) / 16 * 16, (size_t)128);
	unsigned size = (slot - (uint32_t)sizeof(struct ledger_entry)) / 16;

	for (; slot < bytes; slot *= 2)
		size++;
	if (!LIST_EMPTY(&ledger->room[size]))
		return LIST_FIRST(&ledger->room[size]);
	block = LIST_FIRST(&ledger->holes);
	if (block)
		LIST_REMOVE(block, entry);
	else
		block = block_add(ledger);
	if (!block)
		return NULL;
	block->size = size;
	block->slot = slot;
	/* The header is before the first slot. */
	block->fresh = block->at == 0 ? sizeof(struct ledger_header) : 0;
	block->free = 0;
	LIST_INSERT_HEAD(&ledger->room[size], block, entry);
	return block;
}

/* The last block with room for its size stays: the next entry needs it. */
static void block_tidy(struct ledger *ledger, struct ledger_block *block)
{
	const off_t at = (off_t)block->at;

	if (block->n > 0 || block->at == 0 ||
	    (LIST_FIRST(&ledger->room[block->size]) == block && !LIST_NEXT(block, entry)))
		return;
	if (fallocate(ledger->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, LEDGER_BLOCK) < 0) {
		ledger->failed = -errno;
		return;
	}
	LIST_REMOVE(block, entry);
	LIST_INSERT_HEAD(&ledger->holes, block, entry);
}

/* --- writing --- */

int ledger_new(struct ledger **ret)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));
	struct ledger_header *header;
	int r = 0;

	if (!ledger)
		return -ENOMEM;
	ledger->fd = memfd_create("userevd-ledger", MFD_CLOEXEC);
	r = ledger->fd < 0 ? -errno : ledger_grow(ledger);
	if (!ledger->memory) {
		ledger_free(ledger);
		return r;
	}
	header = (void *)ledger->memory;
	header->version = LEDGER_VERSION;
	memcpy(header->magic, magic, sizeof(magic));
	*ret = ledger;
	return 0;
}

struct ledger *ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return NULL;
	for (size_t i = 0; i < ledger->n_blocks; i++)
		free(ledger->blocks[i]);
	free(ledger->blocks);
	if (ledger->memory)
		munmap(ledger->memory, ledger->size);
	fd_close(ledger->fd);
	free(ledger);
	return NULL;
}

/* Behind everything that was written before, and before everything that is written next. */
static void entry_set_kind(struct ledger_entry *entry, uint32_t kind)
{
	atomic_signal_fence(memory_order_seq_cst);
	__atomic_store_n(&entry->kind, kind, __ATOMIC_RELAXED);
	atomic_signal_fence(memory_order_seq_cst);
}

static uint32_t slot_take(struct ledger *ledger, struct ledger_block *block)
{
	uint64_t place = block->free;

	if (place != 0) {
		block->free = entry_at(ledger, place)->a;
	} else {
		place = (block->at + block->fresh) / UNIT;
		block->fresh += block->slot;
	}
	block->n++;
	if (!block_has_room(block))
		LIST_REMOVE(block, entry);
	return (uint32_t)place;
}

static void slot_strike(struct ledger *ledger, uint32_t place)
{
	struct ledger_block *block = ledger->blocks[(size_t)place * UNIT / LEDGER_BLOCK];
	struct ledger_entry *entry = entry_at(ledger, place);

	entry_set_kind(entry, 0);
	if (!block_has_room(block))
		LIST_INSERT_HEAD(&ledger->room[block->size], block, entry);
	entry->a = block->free;
	block->free = place;
	block->n--;
	block_tidy(ledger, block);
}

void ledger_enter(struct ledger *ledger, uint32_t *place, uint16_t kind, uint64_t a, uint64_t b, const void *data,
		  size_t size, const char *text)
{
	const size_t length = strlen(text);
	struct ledger_block *block = NULL;
	const uint32_t before = *place;
	struct ledger_entry *to;

	if (ledger && ledger->failed == 0)
		block = block_find(ledger, sizeof(*to) + size + length);
	if (!block)
		return;
	*place = slot_take(ledger, block);
	to = entry_at(ledger, *place);
	to->size = block->slot;
	to->data_size = (uint32_t)(size + length);
	to->a = a;
	to->b = b;
	memcpy(to + 1, data, size);
	memcpy((uint8_t *)(to + 1) + size, text, length);
	entry_set_kind(to, kind);
	if (before != 0)
		slot_strike(ledger, before);
}

void ledger_become(struct ledger *ledger, uint32_t place, uint16_t kind, uint64_t word)
{
	struct ledger_entry *entry;

	if (!ledger || ledger->failed < 0)
		return;
	entry = entry_at(ledger, place);
	memcpy(entry + 1, &word, sizeof(word));
	entry_set_kind(entry, kind);
}

void ledger_mark(struct ledger *ledger, uint32_t *place, uint16_t kind, uint64_t a, uint64_t b, uint32_t bit, bool on)
{
	static uint64_t grown[MARKS_MAX];
	const uint32_t word = bit / 64;
	const struct ledger_entry *before;
	size_t n = MARKS_MIN;
	uint64_t *words;

	/* Only a program that registers thousands of events on its file itself gets a lease there. It is lost in a restart. */
	if (!ledger || ledger->failed < 0 || word >= MARKS_MAX)
		return;
	before = *place != 0 ? entry_at(ledger, *place) : NULL;
	/* Room for bits: four words at first, then twice as many. */
	if (!before || word >= before->data_size / sizeof(uint64_t)) {
		while (n <= word)
			n *= 2;
		memset(grown, 0, n * sizeof(grown[0]));
		if (before)
			memcpy(grown, before + 1, before->data_size);
		ledger_enter(ledger, place, kind, a, b, grown, n * sizeof(grown[0]), "");
	}

	if (ledger->failed < 0)
		return;
	words = (uint64_t *)(entry_at(ledger, *place) + 1);
	/* At once: the daemon may be killed between two instructions. */
	__atomic_store_n(&words[word], (words[word] & ~(UINT64_C(1) << bit % 64)) | (uint64_t)on << bit % 64,
			 __ATOMIC_RELAXED);
}

void ledger_strike(struct ledger *ledger, uint32_t *place)
{
	if (ledger && *place != 0 && ledger->failed == 0)
		slot_strike(ledger, *place);
	*place = 0;
}

/* --- reading: nothing in the file is trusted --- */

static int item_compare(const void *left, const void *right)
{
	const struct ledger_entry *one = ((const struct ledger_item *)left)->entry;
	const struct ledger_entry *other = ((const struct ledger_item *)right)->entry;
	const uint64_t keys[][2] = { { one->kind, other->kind }, { one->a, other->a }, { one->b, other->b } };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

/* The entries in the order of the file: their number, or -EBADMSG. */
static ssize_t items_fill(struct ledger_item *items, const uint8_t *memory, size_t size)
{
	const struct ledger_entry *entry;
	ssize_t n = 0;

	for (size_t at = sizeof(struct ledger_header); at < size && size - at >= sizeof(*entry);) {
		entry = (const void *)(memory + at);
		if (entry->size == 0) {
			at += LEDGER_BLOCK - at % LEDGER_BLOCK;
			continue;
		}
		if (entry->size < sizeof(*entry) || entry->size > size - at || entry->size % UNIT != 0 ||
		    entry->data_size > entry->size - sizeof(*entry))
			return -EBADMSG;
		if (entry->kind != 0)
			items[n++].entry = entry;
		at += entry->size;
	}
	return n;
}

int ledger_parse(const uint8_t *memory, size_t size, struct ledger_image *ret)
{
	const struct ledger_header *header = (const void *)memory;
	_cleanup_(freep) struct ledger_item *items = NULL;
	size_t unique = 0;
	ssize_t n;

	if (size < sizeof(*header) || memcmp(header->magic, magic, sizeof(magic)) != 0 ||
	    header->version != LEDGER_VERSION)
		return -EBADMSG;
	items = calloc(size / sizeof(struct ledger_entry), sizeof(*items));
	if (!items)
		return -ENOMEM;
	n = items_fill(items, memory, size);
	if (n < 0)
		return (int)n;
	qsort(items, (size_t)n, sizeof(*items), item_compare);
	for (ssize_t i = 0; i < n; i++)
		if (i + 1 == n || item_compare(&items[i], &items[i + 1]) != 0)
			items[unique++] = items[i];
	*ret = (struct ledger_image){ .items = steal_pointer(items), .n = unique };
	return 0;
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
	if (r < 0) {
		munmap(memory, size);
		return r;
	}
	ret->memory = memory;
	ret->size = size;
	return 0;
}

void ledger_image_deinit(struct ledger_image *image)
{
	if (image->memory)
		munmap(image->memory, image->size);
	free(image->items);
	*image = (struct ledger_image){ 0 };
}

struct ledger_item *ledger_find(const struct ledger_image *image, uint32_t kind, uint64_t a, uint64_t b)
{
	const struct ledger_entry wanted = { .kind = kind, .a = a, .b = b };

	return bsearch(&(struct ledger_item){ .entry = &wanted }, image->items, image->n, sizeof(*image->items),
		       item_compare);
}

bool ledger_is_marked(const struct ledger_entry *entry, uint32_t bit)
{
	uint64_t word;

	if (bit / 64 >= entry->data_size / sizeof(word))
		return false;
	memcpy(&word, (const uint64_t *)(entry + 1) + bit / 64, sizeof(word));
	return word >> bit % 64 & 1;
}

void ledger_get(const struct ledger_entry *entry, void *ret, size_t size)
{
	size_t known = MIN(size, (size_t)entry->data_size);

	memcpy(ret, entry + 1, known);
	memset((uint8_t *)ret + known, 0, size - known);
}
