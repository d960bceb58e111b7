/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/ledger/ledger.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/suite.h"

enum { KIND = 7, OTHER_KIND, MARKS, ASKED, GRANTED, NUMBERS = 40, TEXT_MAX = 3000, BITS = 600, ROUNDS = 20000 };

static void ledger_freep(struct ledger **ledger)
{
	*ledger = ledger_free(*ledger);
}

#define LEDGER(name) _cleanup_(ledger_freep) struct ledger *name = make()
#define IMAGE(name)  _cleanup_(ledger_image_deinit) struct ledger_image name = { 0 }

static struct ledger *make(void)
{
	struct ledger *ledger;

	ck_assert_int_eq(ledger_new(&ledger), 0);
	return ledger;
}

static const struct ledger_entry *find(const struct ledger_image *image, uint32_t kind, uint64_t a, uint64_t b)
{
	const struct ledger_item *item = ledger_find(image, kind, a, b);

	return item ? item->entry : NULL;
}

static void expect_text(const struct ledger_image *image, uint16_t kind, uint64_t a, uint64_t b, const char *text)
{
	const struct ledger_entry *entry = find(image, kind, a, b);

	ck_assert_ptr_nonnull(entry);
	ck_assert_uint_eq(entry->data_size, strlen(text));
	ck_assert_mem_eq(entry + 1, text, strlen(text));
}

static void enter(struct ledger *ledger, uint32_t *place, uint64_t a, uint64_t b, const char *text)
{
	ledger_enter(ledger, place, KIND, a, b, text, strlen(text), "");
}

static size_t used_bytes(const struct ledger *ledger)
{
	struct stat status;

	ck_assert_int_eq(fstat(ledger->fd, &status), 0);
	return (size_t)status.st_blocks * 512;
}

TEST(entry_may_have_a_text_behind_its_data)
{
	const uint64_t data = 0x0102030405060708;
	uint32_t place = 0;
	uint64_t found;
	LEDGER(ledger);
	IMAGE(image);

	ledger_enter(ledger, &place, KIND, 1, 0, &data, sizeof(data), "a text");
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	ck_assert_uint_eq(image.items[0].entry->data_size, sizeof(data) + 6);
	ledger_get(image.items[0].entry, &found, sizeof(found));
	ck_assert_uint_eq(found, data);
	ck_assert_mem_eq((const uint8_t *)(image.items[0].entry + 1) + sizeof(data), "a text", 6);
}

TEST(things_are_in_order_of_kind_and_number)
{
	uint32_t place[2][6] = { 0 };
	LEDGER(ledger);
	IMAGE(image);

	for (uint64_t i = 5; i > 0; i--) {
		enter(ledger, &place[0][i], i, 0, "");
		ledger_enter(ledger, &place[1][i], OTHER_KIND, i, 0, "", 0, "");
	}
	enter(ledger, &place[0][4], 4, 0, "later");
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	ck_assert_uint_eq(image.n, 10);
	for (uint64_t i = 0; i < 10; i++) {
		ck_assert_uint_eq(image.items[i].entry->kind, i < 5 ? KIND : OTHER_KIND);
		ck_assert_uint_eq(image.items[i].entry->a, 1 + i % 5);
		ck_assert_ptr_null(image.items[i].thing);
	}
}

/* Such indexes come from a program that registers thousands of events on its file itself. They must not end the ledger of all tenants. */
TEST(marks_of_huge_indexes_are_left_out)
{
	uint32_t place = 0;
	LEDGER(ledger);

	ledger_mark(ledger, &place, MARKS, 1, 1, 64900, true);
	ck_assert_uint_eq(place, 0);
	ledger_mark(ledger, &place, MARKS, 1, 1, 7, true);
	ledger_mark(ledger, &place, MARKS, 1, 1, 64900, true);
	ck_assert_int_eq(ledger->failed, 0);
	ck_assert_uint_ne(place, 0);
}

TEST(short_data_is_filled_with_zeros)
{
	uint32_t place = 0;
	uint8_t data[8];
	LEDGER(ledger);
	IMAGE(image);

	enter(ledger, &place, 1, 0, "abcd");
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	memset(data, 0xff, sizeof(data));
	ledger_get(find(&image, KIND, 1, 0), data, sizeof(data));
	ck_assert_mem_eq(data, "abcd\0\0\0\0", sizeof(data));
	memset(data, 0xff, sizeof(data));
	ledger_get(find(&image, KIND, 1, 0), data, 2);
	ck_assert_mem_eq(data, "ab\xff\xff", 4);
}

/* --- files that are no ledger --- */

static int read_bytes(const void *bytes, size_t size)
{
	_cleanup_(fd_closep) int fd = memfd_create("bytes", MFD_CLOEXEC);
	IMAGE(image);

	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	return ledger_read(fd, &image);
}

TEST(file_that_is_no_ledger_is_refused)
{
	struct ledger_header header = { .magic = "userevdL", .version = LEDGER_VERSION };

	ck_assert_int_eq(read_bytes("", 0), -EBADMSG);
	ck_assert_int_eq(read_bytes(&header, sizeof(header) - 1), -EBADMSG);
	ck_assert_int_eq(read_bytes(&header, sizeof(header)), 0);
	for (uint32_t version = 0; version < 2 * LEDGER_VERSION; version++) {
		header.version = version;
		ck_assert_int_eq(read_bytes(&header, sizeof(header)), version == LEDGER_VERSION ? 0 : -EBADMSG);
	}
	header.version = LEDGER_VERSION;
	header.magic[7] = 'l';
	ck_assert_int_eq(read_bytes(&header, sizeof(header)), -EBADMSG);
}

/* A part of the entries would restore the wrong state. */
TEST(damaged_entry_makes_the_ledger_invalid)
{
	const struct ledger_entry sound = { .size = 48, .kind = KIND, .data_size = 16 };
	struct {
		struct ledger_header header;
		struct ledger_entry entry;
		uint8_t data[16];
		struct ledger_entry end;
	} file = { { .magic = "userevdL", .version = LEDGER_VERSION }, sound, "", { 0 } };
	static const uint32_t sizes[] = { 1, 24, 31, 33, 44, 49, 88, 1 << 20, UINT32_MAX };

	ck_assert_int_eq(read_bytes(&file, sizeof(file)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		file.entry.size = sizes[i];
		ck_assert_int_eq(read_bytes(&file, sizeof(file)), -EBADMSG);
	}
	file.entry = sound;
	file.entry.data_size = 17;
	ck_assert_int_eq(read_bytes(&file, sizeof(file)), -EBADMSG);
	file.entry = sound;
	ck_assert_int_eq(read_bytes(&file, sizeof(file) - sizeof(file.end) - 8), -EBADMSG);
}

/* --- histories --- */

static unsigned any(unsigned below)
{
	static unsigned seed = 4711;

	seed = seed * 1103515245 + 12345;
	return seed / 65536 % below;
}

/* Things of three sorts with the same numbers: texts; bits; and things that are asked for, and then granted. */
struct model {
	uint32_t place[NUMBERS], marks_place[NUMBERS], asked_place[NUMBERS];
	bool there[NUMBERS], asked[NUMBERS];
	char text[NUMBERS][TEXT_MAX];
	bool marks[NUMBERS][BITS];
	uint64_t granted[NUMBERS]; /* 0: not yet */
};

/* Mostly short texts, some so long that a block has four of them. */
static void text_step(struct model *model, struct ledger *ledger, unsigned i)
{
	static const unsigned sizes[] = { 40, 40, 40, 90, 400, TEXT_MAX };
	unsigned size = sizes[any(ARRAY_SIZE(sizes))];

	model->there[i] = any(3) != 0;
	memset(model->text[i], 'a' + (int)any(26), sizeof(model->text[i]));
	model->text[i][any(size)] = '\0';
	if (!model->there[i])
		ledger_strike(ledger, &model->place[i]);
	else
		enter(ledger, &model->place[i], i / 2, i % 2, model->text[i]);
}

static void mark_step(struct model *model, struct ledger *ledger, unsigned i)
{
	unsigned bit = any(BITS);

	model->marks[i][bit] = !model->marks[i][bit];
	ledger_mark(ledger, &model->marks_place[i], MARKS, i, i, bit, model->marks[i][bit]);
}

static void asked_step(struct model *model, struct ledger *ledger, unsigned i)
{
	static const uint64_t none;

	if (model->asked[i] && model->granted[i] == 0) {
		model->granted[i] = 1 + any(1000);
		ledger_become(ledger, model->asked_place[i], GRANTED, model->granted[i]);
		return;
	}
	if (model->asked[i])
		ledger_strike(ledger, &model->asked_place[i]);
	else
		ledger_enter(ledger, &model->asked_place[i], ASKED, i, i, &none, sizeof(none), "");
	model->asked[i] = !model->asked[i];
	model->granted[i] = 0;
}

static void model_step(struct model *model, struct ledger *ledger)
{
	static void (*const steps[])(struct model *, struct ledger *, unsigned) = { text_step, mark_step, asked_step };
	unsigned i = any(NUMBERS);

	steps[any(ARRAY_SIZE(steps))](model, ledger, i);
}

static bool image_has_text(const struct ledger_image *image, const struct model *model, unsigned i)
{
	const struct ledger_entry *entry = find(image, KIND, i / 2, i % 2);

	if (!entry || !model->there[i])
		return !entry && !model->there[i];
	return entry->data_size == strlen(model->text[i]) && memcmp(entry + 1, model->text[i], entry->data_size) == 0;
}

static bool image_has_marks(const struct ledger_image *image, const struct model *model, unsigned i)
{
	const struct ledger_entry *entry = find(image, MARKS, i, i);

	for (unsigned bit = 0; bit < BITS; bit++)
		if ((entry && ledger_is_marked(entry, bit)) != model->marks[i][bit])
			return false;
	return true;
}

static bool image_has_asked(const struct ledger_image *image, const struct model *model, unsigned i)
{
	const struct ledger_entry *asked = find(image, ASKED, i, i);
	const struct ledger_entry *granted = find(image, GRANTED, i, i);
	uint64_t word = 0;

	if (granted)
		ledger_get(granted, &word, sizeof(word));
	return word == model->granted[i] && (asked != NULL) == (model->asked[i] && word == 0);
}

static bool image_is(const struct ledger_image *image, const struct model *model)
{
	for (unsigned i = 0; i < NUMBERS; i++)
		if (!image_has_text(image, model, i) || !image_has_marks(image, model, i) ||
		    !image_has_asked(image, model, i))
			return false;
	return true;
}

TEST(slots_are_used_again)
{
	static struct model model;
	size_t largest = 0;
	LEDGER(ledger);

	for (unsigned i = 0; i < ROUNDS; i++) {
		IMAGE(image);

		model_step(&model, ledger);
		ck_assert_int_eq(ledger->failed, 0);
		largest = MAX(largest, used_bytes(ledger));
		if (any(100) > 0)
			continue;
		ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
		ck_assert(image_is(&image, &model));
	}
	/* Twice as much as all entries with the longest texts, at most. */
	ck_assert_uint_lt(largest, (size_t)2 * NUMBERS * (4096 + 256));
}

TEST(memory_of_struck_entries_comes_back)
{
	enum { MANY = 30000 };
	static uint32_t place[MANY], more[MANY];
	uint32_t one = 0;
	size_t before;
	LEDGER(ledger);
	IMAGE(image);

	enter(ledger, &one, 1, 1, "stays");
	before = used_bytes(ledger);
	for (unsigned i = 0; i < MANY; i++) {
		enter(ledger, &place[i], i, 2, "an event of some fields u32 one; u64 two; char three[16]");
		enter(ledger, &more[i], i, 3, "a lease");
	}
	ck_assert_uint_gt(used_bytes(ledger), (size_t)MANY * 100);
	ck_assert_uint_lt(used_bytes(ledger), (size_t)MANY * 160);
	for (unsigned i = 0; i < MANY; i++) {
		ledger_strike(ledger, &place[i]);
		ledger_strike(ledger, &more[i]);
	}
	/* A block for each of the three sizes, and the block with the header. */
	ck_assert_uint_le(used_bytes(ledger), before + (size_t)3 * LEDGER_BLOCK);
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	ck_assert_uint_eq(image.n, 1);
	expect_text(&image, KIND, 1, 1, "stays");
	/* The holes are filled first. */
	before = ledger->n_blocks;
	for (unsigned i = 0; i < MANY; i++)
		enter(ledger, &place[i], i, 2, "an event of some fields u32 one; u64 two; char three[16]");
	ck_assert_uint_eq(ledger->n_blocks, before);
}

/* --- killed at any time --- */

enum { STEPS = 150 };

static _Noreturn void be_killed(struct ledger *ledger, unsigned *step)
{
	static struct model model;

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	for (; *step < STEPS; __atomic_add_fetch(step, 1, __ATOMIC_RELAXED))
		model_step(&model, ledger);
	_exit(0);
}

static bool stops_again(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return false;
	return ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0;
}

/*
 * After each instruction of another process that enters and strikes, the ledger has the state before the call, or the state after it:
 * nothing in between.
 */
TEST(ledger_is_whole_after_each_instruction)
{
	static struct model before, after;
	unsigned *step = mmap(NULL, sizeof(*step), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long changes = 0;
	LEDGER(ledger);
	LEDGER(own);
	_cleanup_(freep) uint8_t *last = NULL;
	uint32_t place[NUMBERS] = { 0 };
	unsigned now = 0;
	pid_t child;

	/* So that the file need not grow. */
	memset(before.text[0], 'x', TEXT_MAX - 1);
	for (unsigned i = 0; i < NUMBERS; i++)
		enter(ledger, &place[i], i, i, before.text[0]);
	for (unsigned i = 0; i < NUMBERS; i++)
		ledger_strike(ledger, &place[i]);
	last = malloc(ledger->size);
	memcpy(last, ledger->memory, ledger->size);
	child = fork();
	if (child == 0)
		be_killed(ledger, step);
	model_step(&after, own);
	while (stops_again(child)) {
		if (memcmp(last, ledger->memory, ledger->size) == 0 && *step == now)
			continue;
		memcpy(last, ledger->memory, ledger->size);
		for (; now < *step && now < STEPS; now++) {
			before = after;
			model_step(&after, own);
		}
		IMAGE(image);

		ck_assert_int_eq(ledger_parse(last, ledger->size, &image), 0);
		ck_assert(image_is(&image, &before) || image_is(&image, &after));
		changes++;
	}
	ck_assert_uint_eq(*step, STEPS);
	ck_assert_uint_gt(changes, 2 * STEPS);
	munmap(step, sizeof(*step));
}
