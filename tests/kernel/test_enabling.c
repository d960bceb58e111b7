/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <sys/mman.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* Bits that the kernel sets in the memory of a process. */

enum { PAGE_BYTES = 4096 };

struct page {
	int fd;
	uint64_t *words;
};

static struct page page_make(void)
{
	struct page page = { .fd = memfd_create("page", MFD_CLOEXEC) };

	ck_assert_int_eq(ftruncate(page.fd, PAGE_BYTES), 0);
	page.words = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd, 0);
	ck_assert_ptr_ne(page.words, MAP_FAILED);
	return page;
}

static void page_free(struct page *page)
{
	munmap(page->words, PAGE_BYTES);
	fd_closep(&page->fd);
}

/* Read through a read-only mapping of the file. */
static int first_word(const struct page *page)
{
	const uint64_t *words = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, page->fd, 0);

	return words == MAP_FAILED ? -errno : (int)words[0];
}

TEST(bit_in_shared_page_is_seen_by_other_processes)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(page_free) struct page page = page_make();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(enable(stream, machine.text, page.words, 3), 0);
	ck_assert_uint_eq(page.words[0], 0);
	switch_event(machine.event, true);
	ck_assert_uint_eq(page.words[0], 1 << 3);
	ck_assert_int_eq(as(UNPRIVILEGED, first_word(&page)), 1 << 3);
	switch_event(machine.event, false);
	ck_assert_uint_eq(page.words[0], 0);
	ck_assert_int_eq(as(UNPRIVILEGED, first_word(&page)), 0);
	ck_assert_int_eq(disable(stream, page.words, 3), 0);
}
END_TEST

TEST(words_of_64_bits_make_a_page_of_little_endian_bits)
{
	static const unsigned bits[] = { 1, 7, 8, 63, 64, 65, 1000, 32766, 32767 };
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(page_free) struct page page = page_make();
	uint8_t expected[PAGE_BYTES] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(bits); i++) {
		ck_assert_int_eq(enable(machine.data, machine.text, &page.words[bits[i] / 64], bits[i] % 64), 0);
		expected[bits[i] / 8] |= (uint8_t)(1 << bits[i] % 8);
	}
	switch_event(machine.event, true);
	ck_assert_mem_eq(page.words, expected, PAGE_BYTES);
	for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
		ck_assert_int_eq(disable(machine.data, &page.words[bits[i] / 64], bits[i] % 64), 0);
	memset(expected, 0, sizeof(expected));
	ck_assert_mem_eq(page.words, expected, PAGE_BYTES);
}
END_TEST

TEST(the_other_bits_of_a_word_are_let_alone)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	uint64_t word = 0xaaaaaaaaaaaaaaaa;

	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), 0);
	ck_assert_uint_eq(word, 0xaaaaaaaaaaaaaaaa);
	switch_event(machine.event, true);
	ck_assert_uint_eq(word, 0xaaaaaaaaaaaaaaab);
	switch_event(machine.event, false);
	ck_assert_uint_eq(word, 0xaaaaaaaaaaaaaaaa);
}
END_TEST

TEST(enabled_event_has_its_bit_set_after_registering)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	uint64_t words[2] = { 0, 1 };

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(enable(machine.data, machine.text, &words[0], 0), 0);
	ck_assert_uint_eq(words[0], 1);
	/* The bit of an event that is off is cleared. */
	ck_assert_int_eq(enable(machine.data, machine.other_text, &words[1], 0), 1);
	ck_assert_uint_eq(words[1], 0);
}
END_TEST

TEST(a_bit_of_an_address_is_taken_once)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	uint64_t words[2] = { 0 };

	ck_assert_int_eq(enable(stream, machine.text, &words[0], 5), 0);
	ck_assert_int_eq(enable(stream, machine.text, &words[0], 5), -EADDRINUSE);
	ck_assert_int_eq(enable(stream, machine.other_text, &words[0], 5), -EADDRINUSE);
	ck_assert_int_eq(enable(machine.data, machine.other_text, &words[0], 5), -EADDRINUSE);
	ck_assert(!event_exists(machine.other));
	ck_assert_int_eq(enable(stream, machine.text, &words[0], 6), 0);
	ck_assert_int_eq(enable(stream, machine.text, &words[1], 5), 0);
	ck_assert_int_eq(disable(stream, &words[0], 5), 0);
	ck_assert_int_eq(enable(stream, machine.other_text, &words[0], 5), 1);
}
END_TEST

TEST(unregistering_clears_the_bit_and_the_others_stay)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	uint64_t words[2] = { 0 };

	ck_assert_int_eq(enable(machine.data, machine.text, &words[0], 0), 0);
	ck_assert_int_eq(enable(machine.data, machine.text, &words[1], 0), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(disable(machine.data, &words[0], 0), 0);
	ck_assert_uint_eq(words[0], 0);
	ck_assert_uint_eq(words[1], 1);
	switch_event(machine.event, false);
	switch_event(machine.event, true);
	ck_assert_uint_eq(words[0], 0);
	ck_assert_uint_eq(words[1], 1);
}
END_TEST

TEST(unregistering_an_unknown_bit_is_enoent)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	uint64_t word = 0;

	ck_assert_int_eq(disable(machine.data, &word, 0), -ENOENT);
	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), 0);
	ck_assert_int_eq(disable(machine.data, &word, 1), -ENOENT);
	ck_assert_int_eq(disable(machine.data, &word, 0), 0);
	ck_assert_int_eq(disable(machine.data, &word, 0), -ENOENT);
}
END_TEST

TEST(any_data_file_will_do_to_unregister)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	uint64_t word = 0;

	ck_assert_int_eq(enable(stream, machine.text, &word, 0), 0);
	fd_closep(&stream);
	switch_event(machine.event, true);
	ck_assert_uint_eq(word, 1);
	ck_assert_int_eq(disable(machine.data, &word, 0), 0);
	ck_assert_uint_eq(word, 0);
}
END_TEST

TEST(scratch_bit_adds_reference_and_index_to_other_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int first = data_open(O_WRONLY);
	_cleanup_(fd_closep) int second = data_open(O_WRONLY);
	uint64_t word = 0, scratch = 0;

	ck_assert_int_eq(enable(first, machine.text, &word, 0), 0);
	ck_assert_int_eq(enable(second, machine.other_text, &scratch, 0), 0);
	ck_assert_int_eq(enable(second, machine.text, &scratch, 1), 1);
	ck_assert_int_eq(disable(second, &scratch, 1), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(second, 1), 4);
	ck_assert_uint_eq(count_records(machine.event), 1);
	ck_assert_int_eq(disable(first, &word, 0), 0);
	fd_closep(&first);
	let_the_kernel_catch_up(&machine);
	ck_assert_int_eq(write_value(second, 1), 4);
	ck_assert_uint_eq(count_records(machine.event), 2);
}
END_TEST

/* Registers a bit of the page. 0 or a negative errno. */
static int hold(const struct machine *machine, const struct page *page)
{
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	return enable(stream, machine->text, page->words, 3);
}

TEST(successor_updates_bits_in_page_of_dead_process)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(page_free) struct page page = page_make();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(as(ROOT, hold(&machine, &page)), 0);
	ck_assert_uint_eq(page.words[0], 1 << 3);
	switch_event(machine.event, false);
	ck_assert_uint_eq(page.words[0], 1 << 3); /* its process has exited, so the kernel cannot clear the bit */
	ck_assert_int_eq(as(ROOT, hold(&machine, &page)), 0);
	ck_assert_uint_eq(page.words[0], 0);
	switch_event(machine.event, true);
	ck_assert_uint_eq(page.words[0], 0);
	ck_assert_int_eq(enable(machine.data, machine.text, page.words, 3), 0);
	ck_assert_uint_eq(page.words[0], 1 << 3);
	ck_assert_int_eq(disable(machine.data, page.words, 3), 0);
}
END_TEST

TEST(kept_stream_registers_again_with_same_index)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(page_free) struct page page = page_make();
	_cleanup_(fd_closep) int stream = data_open(O_WRONLY);

	ck_assert_int_eq(as(ROOT, enable(stream, machine.other_text, page.words, 1)), 0);
	ck_assert_int_eq(as(ROOT, enable(stream, machine.text, page.words, 2)), 1);
	switch_event(machine.event, true);
	ck_assert_uint_eq(page.words[0], 0);
	ck_assert_int_eq(enable(stream, machine.text, page.words, 2), 1);
	ck_assert_uint_eq(page.words[0], 1 << 2);
	ck_assert_int_eq(enable(stream, machine.other_text, page.words, 1), 0);
	ck_assert_uint_eq(page.words[0], 1 << 2);
	ck_assert_int_eq(write_value(stream, 1), 4);
	ck_assert_int_eq(disable(stream, page.words, 1), 0);
	ck_assert_int_eq(disable(stream, page.words, 2), 0);
}
END_TEST

TEST(nothing_that_would_be_an_enabler_is_known)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	uint64_t word = 0;

	/* A longer struct, with a nonzero byte behind the known layout. */
	ck_assert_int_eq(enable(machine.data, machine.text, &word, 0), -E2BIG);
	ck_assert_int_eq(disable(machine.data, &word, 0), -ENOTTY);
	ck_assert(!event_exists(machine.event));
}
END_TEST

PROMISES("enabling", ENABLE_ADDRESS(bit_in_shared_page_is_seen_by_other_processes),
	 ENABLE_ADDRESS(words_of_64_bits_make_a_page_of_little_endian_bits),
	 ENABLE_ADDRESS(the_other_bits_of_a_word_are_let_alone),
	 ENABLE_ADDRESS(enabled_event_has_its_bit_set_after_registering),
	 ENABLE_ADDRESS(a_bit_of_an_address_is_taken_once),
	 ENABLE_ADDRESS(unregistering_clears_the_bit_and_the_others_stay),
	 ENABLE_ADDRESS(unregistering_an_unknown_bit_is_enoent), ENABLE_ADDRESS(any_data_file_will_do_to_unregister),
	 ENABLE_ADDRESS(scratch_bit_adds_reference_and_index_to_other_file),
	 ENABLE_ADDRESS(successor_updates_bits_in_page_of_dead_process),
	 ENABLE_ADDRESS(kept_stream_registers_again_with_same_index),
	 STATUS_PAGE(nothing_that_would_be_an_enabler_is_known))
