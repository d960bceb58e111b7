/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/ledger/ledger.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/suite.h"

enum { KIND = 7, OTHER_KIND = 8, NUMBERS = 40, ROUNDS = 20000 };

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

static unsigned count(const struct ledger_image *image)
{
	return HASH_CNT(by_key, image->things);
}

static void expect_text(const struct ledger_image *image, uint16_t kind, uint64_t a, uint64_t b, const char *text)
{
	const struct ledger_thing *thing = ledger_find(image, kind, a, b);

	ck_assert_ptr_nonnull(thing);
	ck_assert_uint_eq(thing->size, strlen(text));
	ck_assert_mem_eq(thing->data, text, strlen(text));
}

static void enter(struct ledger *ledger, uint64_t a, uint64_t b, const char *text)
{
	ledger_enter(ledger, KIND, a, b, text, strlen(text));
}

TEST(last_entry_counts_until_it_is_struck)
{
	LEDGER(ledger);
	IMAGE(image);

	enter(ledger, 1, 0, "one");
	enter(ledger, 2, 0, "two");
	enter(ledger, 2, 1, "another two");
	enter(ledger, 1, 0, "one, corrected");
	enter(ledger, 3, 0, "three");
	ledger_enter(ledger, OTHER_KIND, 2, 0, NULL, 0);
	ledger_strike(ledger, KIND, 3, 0);
	ledger_strike(ledger, KIND, 4, 0);
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	ck_assert_uint_eq(count(&image), 4);
	expect_text(&image, KIND, 1, 0, "one, corrected");
	expect_text(&image, KIND, 2, 0, "two");
	expect_text(&image, KIND, 2, 1, "another two");
	expect_text(&image, OTHER_KIND, 2, 0, "");
	ck_assert_ptr_null(ledger_find(&image, KIND, 3, 0));
}

TEST(things_are_listed_by_kind_in_their_order)
{
	const struct ledger_thing *thing = NULL;
	LEDGER(ledger);
	IMAGE(image);

	for (uint64_t i = 5; i > 0; i--) {
		enter(ledger, i, 0, "");
		ledger_enter(ledger, OTHER_KIND, i, 0, NULL, 0);
	}
	enter(ledger, 4, 0, "later");
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	for (uint64_t i = 5; i > 0; i--) {
		thing = ledger_next(&image, KIND, thing);
		ck_assert_uint_eq(thing->key.a, i);
	}
	ck_assert_ptr_null(ledger_next(&image, KIND, thing));
}

TEST(null_ledger_is_ignored)
{
	ledger_enter(NULL, KIND, 1, 2, "x", 1);
	ledger_strike(NULL, KIND, 1, 2);
	ck_assert(!ledger_tidy(NULL));
}

TEST(short_data_is_filled_with_zeros)
{
	uint8_t data[8];
	LEDGER(ledger);
	IMAGE(image);

	enter(ledger, 1, 0, "abcd");
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	memset(data, 0xff, sizeof(data));
	ledger_get(ledger_find(&image, KIND, 1, 0), data, sizeof(data));
	ck_assert_mem_eq(data, "abcd\0\0\0\0", sizeof(data));
	memset(data, 0xff, sizeof(data));
	ledger_get(ledger_find(&image, KIND, 1, 0), data, 2);
	ck_assert_mem_eq(data, "ab\xff\xff", 4);
}

TEST(truncated_file_has_all_complete_entries)
{
	static const char *const texts[] = { "",	 "a",	      "seven..",
					     "eight...", "nine.....", "an entry that is longer than all" };
	size_t ends[ARRAY_SIZE(texts) + 1];
	LEDGER(ledger);

	ends[0] = ledger->used;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		enter(ledger, i, 0, texts[i]);
		ends[i + 1] = ledger->used;
	}
	for (size_t cut = ledger->used; cut >= ends[0]; cut--) {
		_cleanup_(fd_closep) int fd = memfd_create("cut", MFD_CLOEXEC);
		size_t whole = 0;
		IMAGE(image);

		while (whole < ARRAY_SIZE(texts) && ends[whole + 1] <= cut)
			whole++;
		ck_assert_int_eq(write(fd, ledger->memory, cut), (ssize_t)cut);
		ck_assert_int_eq(ledger_read(fd, &image), 0);
		ck_assert_uint_eq(count(&image), whole);
		for (size_t i = 0; i < whole; i++)
			expect_text(&image, KIND, i, 0, texts[i]);
	}
}

/* The daemon was killed while it wrote: the rest of the entry is zero. */
TEST(torn_entry_is_ignored)
{
	size_t begin, end;
	LEDGER(ledger);

	enter(ledger, 1, 0, "the first one");
	begin = ledger->used;
	enter(ledger, 2, 0, "the second one, which is torn");
	end = ledger->used;
	for (size_t at = begin; at < end; at++) {
		uint8_t copy[256] = { 0 };
		_cleanup_(fd_closep) int fd = memfd_create("torn", MFD_CLOEXEC);
		IMAGE(image);

		ck_assert_uint_le(end, sizeof(copy));
		memcpy(copy, ledger->memory, at);
		ck_assert_int_eq(write(fd, copy, sizeof(copy)), sizeof(copy));
		ck_assert_int_eq(ledger_read(fd, &image), 0);
		/* If only zeros are missing, the entry is complete. */
		if (memcmp(copy, ledger->memory, end) != 0)
			ck_assert_uint_eq(count(&image), 1);
		expect_text(&image, KIND, 1, 0, "the first one");
	}
}

TEST(flipped_bit_ends_the_file)
{
	size_t begin, end;
	LEDGER(ledger);

	enter(ledger, 1, 0, "the first one");
	begin = ledger->used;
	enter(ledger, 2, 0, "the second one");
	end = ledger->used;
	for (size_t bit = begin * 8; bit < end * 8; bit++) {
		IMAGE(image);

		ledger->memory[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
		ck_assert_uint_eq(count(&image), 1);
		ledger->memory[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static int read_bytes(const void *bytes, size_t size)
{
	_cleanup_(fd_closep) int fd = memfd_create("bytes", MFD_CLOEXEC);
	IMAGE(image);

	ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
	return ledger_read(fd, &image);
}

TEST(file_that_is_no_ledger_is_refused)
{
	struct ledger_header header = { .magic = "userevdL", .version = LEDGER_VERSION, .start = sizeof(header) };

	ck_assert_int_eq(read_bytes("", 0), -EBADMSG);
	ck_assert_int_eq(read_bytes(&header, sizeof(header) - 1), -EBADMSG);
	ck_assert_int_eq(read_bytes(&header, sizeof(header)), 0);
	header.start = sizeof(header) + 8;
	ck_assert_int_eq(read_bytes(&header, sizeof(header)), -EBADMSG);
	header.start = sizeof(header) - 8;
	ck_assert_int_eq(read_bytes(&header, sizeof(header)), -EBADMSG);
	header.start = sizeof(header);
	header.magic[7] = 'l';
	ck_assert_int_eq(read_bytes(&header, sizeof(header)), -EBADMSG);
}

TEST(newer_version_has_an_errno_of_its_own)
{
	struct ledger_header header = { .magic = "userevdL", .version = LEDGER_VERSION + 1, .start = sizeof(header) };

	ck_assert_int_eq(read_bytes(&header, sizeof(header)), -EPROTONOSUPPORT);
	header.version = 0;
	ck_assert_int_eq(read_bytes(&header, sizeof(header)), 0);
}

/* --- rewriting --- */

static unsigned any(unsigned below)
{
	static unsigned seed = 4711;

	seed = seed * 1103515245 + 12345;
	return seed / 65536 % below;
}

struct model {
	bool there[NUMBERS];
	char text[NUMBERS][400];
};

static void step(struct ledger *ledger, struct model *model)
{
	unsigned i = any(NUMBERS);

	if (any(3) == 0) {
		ledger_strike(ledger, KIND, i, i);
		model->there[i] = false;
		return;
	}
	memset(model->text[i], 'a' + (int)any(26), sizeof(model->text[i]));
	model->text[i][any(sizeof(model->text[i]))] = '\0';
	model->text[i][sizeof(model->text[i]) - 1] = '\0';
	enter(ledger, i, i, model->text[i]);
	model->there[i] = true;
}

static void expect_model(const struct ledger *ledger, const struct model *model)
{
	unsigned n = 0;
	IMAGE(image);

	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	for (unsigned i = 0; i < NUMBERS; i++) {
		if (!model->there[i])
			continue;
		expect_text(&image, KIND, i, i, model->text[i]);
		n++;
	}
	ck_assert_uint_eq(count(&image), n);
}

static size_t used_blocks(const struct ledger *ledger)
{
	struct stat status;

	ck_assert_int_eq(fstat(ledger->fd, &status), 0);
	return (size_t)status.st_blocks * 512;
}

/* In a random history the file has the same content after each piece, for a daemon that starts then. */
TEST(rewriting_keeps_content_and_file_small)
{
	static struct model model;
	unsigned rewritten = 0;
	size_t largest = 0;
	LEDGER(ledger);

	for (unsigned i = 0; i < ROUNDS; i++) {
		const bool before = ledger->rewriting;

		step(ledger, &model);
		ck_assert_int_eq(ledger->failed, 0);
		if (any(4) > 0)
			continue;
		ledger_tidy(ledger);
		ck_assert_int_eq(ledger->failed, 0);
		rewritten += before && !ledger->rewriting;
		if (ledger->rewriting || any(100) == 0)
			expect_model(ledger, &model);
		largest = MAX(largest, used_blocks(ledger));
	}
	expect_model(ledger, &model);
	ck_assert_uint_gt(rewritten, 10);
	ck_assert_uint_lt(largest, (size_t)8 * LEDGER_SPARE);
	ck_assert_uint_lt(ledger->size, (size_t)16 * LEDGER_SPARE);
	while (ledger_tidy(ledger))
		;
	ck_assert_uint_lt(used_blocks(ledger), (size_t)4 * LEDGER_SPARE);
}

TEST(rewriting_keeps_the_order_of_things)
{
	static const uint64_t order[] = { 5, 3, 2, 1, 4 };
	const struct ledger_thing *thing = NULL;
	LEDGER(ledger);
	IMAGE(image);

	for (unsigned i = 5; i > 0; i--)
		enter(ledger, i, 0, "once");
	ledger_strike(ledger, KIND, 4, 0);
	enter(ledger, 3, 0, "again");
	enter(ledger, 4, 0, "anew");
	for (unsigned i = 0; i < 3 * LEDGER_SPARE / 32; i++)
		enter(ledger, 5, 0, "often");
	ck_assert(ledger_tidy(ledger));
	while (ledger_tidy(ledger))
		;
	ck_assert_uint_lt(ledger->used - ledger->start, 1000);
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	for (size_t i = 0; i < 5; i++) {
		thing = ledger_next(&image, KIND, thing);
		ck_assert_uint_eq(thing->key.a, order[i]);
	}
	expect_text(&image, KIND, 3, 0, "again");
	expect_text(&image, KIND, 4, 0, "anew");
}

/* A piece is some hundred entries, however long the ledger is. */
TEST(rewriting_a_million_things_takes_many_pieces)
{
	enum { THINGS = 1000000 };
	struct timespec before, after;
	double longest = 0., all = 0.;
	unsigned pieces = 0;
	bool more;
	LEDGER(ledger);
	IMAGE(image);

	for (unsigned turn = 0; turn < 3; turn++)
		for (uint64_t i = 0; i < THINGS; i++)
			ledger_enter(ledger, KIND, i, i / 7, &i, sizeof(i));
	do {
		size_t blocks = used_blocks(ledger);

		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
		more = ledger_tidy(ledger);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
		double took = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;

		longest = MAX(longest, took);
		all += took;
		pieces++;
		ck_assert_uint_le(used_blocks(ledger), blocks + (64 << 10));
		ledger_enter(ledger, OTHER_KIND, pieces % 100, 0, "busy", 4);
	} while (more);
	printf("a million things were rewritten in %u pieces, %.0f ms of a processor in all; the longest took %.2f\n",
	       pieces, all * 1e3, longest * 1e3);
	ck_assert_uint_gt(pieces, 1000);
	ck_assert_int_eq(ledger->failed, 0);
	ck_assert_uint_lt(ledger->used - ledger->start, (size_t)THINGS * 48);
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	ck_assert_uint_eq(count(&image), THINGS + 100);
}

/* The entries reach the new place: this rewrite is given up, and the next rewrite succeeds. */
TEST(rewriting_gives_way_to_new_entries)
{
	enum { OLD = 3 * LEDGER_SPARE / 48, MUCH = 20 * LEDGER_SPARE / 48 };
	uint64_t others = 0;
	LEDGER(ledger);
	IMAGE(image);

	for (uint64_t i = 0; i < OLD; i++)
		ledger_enter(ledger, KIND, i, 0, &i, sizeof(i));
	for (unsigned pieces = 1; ledger->rewriting || pieces == 1; pieces++) {
		for (uint64_t i = 0; i < MUCH && pieces % 30 == 0; i++, others++)
			ledger_enter(ledger, OTHER_KIND, others, 0, &i, sizeof(i));
		ledger_tidy(ledger);
	}
	ck_assert_uint_gt(others, 0);
	while (ledger_tidy(ledger))
		;
	ck_assert_int_eq(ledger->failed, 0);
	ck_assert_int_eq(ledger_read(ledger->fd, &image), 0);
	ck_assert_uint_eq(count(&image), OLD + others);
}

TEST(copy_of_the_fd_sees_the_rewritten_ledger)
{
	_cleanup_(fd_closep) int copy = -1;
	LEDGER(ledger);
	IMAGE(image);

	copy = dup(ledger->fd);
	for (unsigned i = 0; i < 3 * LEDGER_SPARE / 32; i++)
		enter(ledger, 1, 0, "again and again");
	ck_assert(ledger_tidy(ledger));
	while (ledger_tidy(ledger))
		;
	enter(ledger, 2, 0, "after that");
	ck_assert_int_eq(ledger_read(copy, &image), 0);
	ck_assert_uint_eq(count(&image), 2);
	expect_text(&image, KIND, 1, 0, "again and again");
	expect_text(&image, KIND, 2, 0, "after that");
}
