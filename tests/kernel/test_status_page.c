/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* The kernel's only status page, and which processes may write to it. */

enum { PAGE_BYTES = 4096, LAST = PAGE_BYTES - 1 };

static const enum who everybody[] = { ROOT, UNPRIVILEGED, NAMESPACE_ROOT };

static int status_open(int mode)
{
	int fd = open(TRACEFS "/user_events_status", mode | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "user_events_status: %s", strerror(errno));
	return fd;
}

static uint8_t *map(int fd, int protection)
{
	void *page = mmap(NULL, PAGE_BYTES, protection, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

static bool is_set(const uint8_t *page, uint32_t bit)
{
	return page[bit / 8] >> bit % 8 & 1;
}

TEST(the_status_file_cannot_be_mapped)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);

	ck_assert_ptr_null(map(status, PROT_READ));
	ck_assert_int_eq(errno, ENODEV);
}
END_TEST

TEST(the_bit_of_an_event_is_set_while_it_is_on)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);
	const uint8_t *page = map(status, PROT_READ);
	uint32_t bit = 0, other = 0;

	ck_assert_ptr_nonnull(page);
	ck_assert_int_eq(register_for_bit(machine.data, machine.text, &bit), 0);
	ck_assert_int_eq(register_for_bit(machine.data, machine.other_text, &other), 1);
	ck_assert(!is_set(page, bit));
	switch_event(machine.event, true);
	ck_assert(is_set(page, bit));
	ck_assert(!is_set(page, other));
	switch_event(machine.event, false);
	ck_assert(!is_set(page, bit));
}
END_TEST

static int seen_from_elsewhere(int status, uint32_t bit)
{
	const uint8_t *page = map(status, PROT_READ);

	return page ? is_set(page, bit) : -errno;
}

TEST(all_holders_of_the_file_share_one_page)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);
	uint32_t bit = 0;

	ck_assert_int_eq(register_for_bit(machine.data, machine.text, &bit), 0);
	switch_event(machine.event, true);
	for (size_t i = 0; i < ARRAY_SIZE(everybody); i++)
		ck_assert_int_eq(as(everybody[i], seen_from_elsewhere(status, bit)), 1);
}
END_TEST

TEST(the_page_is_one_page_exactly)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);

	ck_assert_ptr_eq(mmap(NULL, 2 * PAGE_BYTES, PROT_READ, MAP_SHARED, status, 0), MAP_FAILED);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(status_number("Max: "), PAGE_BYTES * 8);
}
END_TEST

TEST(bits_are_assigned_from_the_lowest_but_never_bit_0)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);
	const uint8_t *page = map(status, PROT_READ);
	uint32_t bit = 0, other = 0;

	ck_assert_int_eq(register_for_bit(stream, machine.text, &bit), 0);
	ck_assert_uint_eq(bit, 1);
	ck_assert_int_eq(register_for_bit(machine.data, machine.other_text, &other), 0);
	ck_assert_uint_eq(other, 2);
	switch_event(machine.event, true);
	switch_event(machine.other, true);
	ck_assert_uint_eq(page[0], 1 << 1 | 1 << 2);
	switch_event(machine.event, false);
	fd_closep(&stream);
	ck_assert_int_eq(delete_event(machine.data, machine.event), 0);
	/* The bit of a deleted event is free for another event. */
	ck_assert_int_eq(register_for_bit(machine.data, machine.text, &bit), 1);
	ck_assert_uint_eq(bit, 1);
}
END_TEST

static int writable(int status)
{
	return map(status, PROT_READ | PROT_WRITE) ? 0 : -errno;
}

static int made_writable(int status)
{
	uint8_t *page = map(status, PROT_READ);

	if (!page)
		return -1000;
	return mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE) < 0 ? -errno : 0;
}

static int written_by_debugger(int status)
{
	uint8_t *page = map(status, PROT_READ);
	int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	if (!page || memory < 0)
		return -1000;
	return pwrite(memory, "x", 1, (off_t)(uintptr_t)(page + LAST)) < 0 ? -errno : 0;
}

static int written(int status)
{
	return write(status, "x", 1) < 0 ? -errno : 0;
}

TEST(read_only_status_file_has_no_writable_page)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);
	const uint8_t *page = map(status, PROT_READ);

	for (size_t i = 0; i < ARRAY_SIZE(everybody); i++) {
		ck_assert_int_eq(as(everybody[i], writable(status)), -EACCES);
		ck_assert_int_eq(as(everybody[i], made_writable(status)), -EACCES);
		ck_assert_int_eq(as(everybody[i], written_by_debugger(status)), -EIO);
		ck_assert_int_eq(as(everybody[i], written(status)), -EBADF);
		ck_assert_uint_eq(page[LAST], 0);
	}
}
END_TEST

/* Overwrites the bits of the last possible events. */
static int overwrite(int status)
{
	uint8_t *page = map(status, PROT_READ | PROT_WRITE);

	if (!page)
		return -errno;
	page[LAST] = 0x5a;
	return 0;
}

static int make_writable_and_overwrite(int status)
{
	uint8_t *page = map(status, PROT_READ);

	if (!page || mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	page[LAST] = 0xa5;
	return 0;
}

TEST(writable_status_file_lets_anyone_write_the_page)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDWR);
	uint8_t *page = map(status, PROT_READ | PROT_WRITE);

	ck_assert_ptr_nonnull(page);
	ck_assert_int_eq(as(UNPRIVILEGED, overwrite(status)), 0);
	ck_assert_uint_eq(page[LAST], 0x5a);
	ck_assert_int_eq(as(UNPRIVILEGED, make_writable_and_overwrite(status)), 0);
	ck_assert_uint_eq(page[LAST], 0xa5);
	page[LAST] = 0;
}
END_TEST

static int reopened(int status, int mode)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", status);
	return open(path, mode | O_CLOEXEC) < 0 ? -errno : 0;
}

TEST(only_root_reopens_a_status_file_for_writing)
{
	_cleanup_(machine_leave) struct machine machine _unused_ = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);

	ck_assert_int_eq(as(UNPRIVILEGED, reopened(status, O_RDWR)), -EACCES);
	ck_assert_int_eq(as(NAMESPACE_ROOT, reopened(status, O_RDWR)), -EACCES);
	ck_assert_int_eq(as(ROOT, reopened(status, O_RDWR)), 0);
}
END_TEST

static int sees(int status, const char *name)
{
	char text[4096];
	ssize_t n = pread(status, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	return strstr(text, name) != NULL;
}

/* An fd of user_events_status, passed for its page, can also be read: it lists the events of all tenants. */
TEST(holder_of_status_file_reads_every_name)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int status = status_open(O_RDONLY);

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(as(UNPRIVILEGED, sees(status, machine.event)), 1);
	ck_assert_int_eq(as(NAMESPACE_ROOT, sees(status, machine.event)), 1);
	ck_assert_int_eq(as(UNPRIVILEGED, sees(status, machine.other)), 0);
}
END_TEST

PROMISES("status page", ENABLE_ADDRESS(the_status_file_cannot_be_mapped),
	 STATUS_PAGE(the_bit_of_an_event_is_set_while_it_is_on), STATUS_PAGE(all_holders_of_the_file_share_one_page),
	 STATUS_PAGE(the_page_is_one_page_exactly), STATUS_PAGE(bits_are_assigned_from_the_lowest_but_never_bit_0),
	 STATUS_PAGE(read_only_status_file_has_no_writable_page),
	 STATUS_PAGE(writable_status_file_lets_anyone_write_the_page),
	 STATUS_PAGE(only_root_reopens_a_status_file_for_writing), EITHER(holder_of_status_file_reads_every_name))
