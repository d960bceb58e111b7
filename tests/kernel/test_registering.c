/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/kernel/people.h"
#include "tests/kernel/user_events.h"

/* The layouts of registrations, and which registrations the kernel refuses. */

enum { PAGE_BYTES = 4096 };

union request {
	struct uapi_register enable_address;
	struct uapi_register_status status_page;
	uint8_t bytes[PAGE_BYTES + 1];
};

static uint64_t word;

/* A valid registration of the machine's event. */
static size_t fill(const struct machine *machine, union request *request)
{
	*request = (union request){ 0 };
	if (machine->abi == ABI_STATUS_PAGE) {
		request->status_page.size = sizeof(request->status_page);
		request->status_page.description = (uint64_t)(uintptr_t)machine->text;
		return sizeof(request->status_page);
	}
	request->enable_address.size = sizeof(request->enable_address);
	request->enable_address.enable_size = 8;
	request->enable_address.enable_address = (uint64_t)(uintptr_t)&word;
	request->enable_address.description = (uint64_t)(uintptr_t)machine->text;
	return sizeof(request->enable_address);
}

static int register_with_size(const struct machine *machine, uint32_t size, uint8_t last)
{
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	union request request;
	uint64_t kept = word;
	int r;

	fill(machine, &request);
	memcpy(&request, &size, sizeof(size)); /* `size` is the first member of both layouts */
	if (last)
		request.bytes[size - 1] = last;
	r = register_raw(stream, &request);
	if (r == 0 && machine->abi == ABI_ENABLE_ADDRESS)
		ck_assert_int_eq(disable(stream, &word, 0), 0);
	word = kept;
	return r;
}

TEST(size_below_layout_or_above_a_page_is_refused)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	union request request;
	uint32_t size = (uint32_t)fill(&machine, &request);

	ck_assert_int_eq(register_with_size(&machine, 0, 0), -EINVAL);
	ck_assert_int_eq(register_with_size(&machine, size - 1, 0), -EINVAL);
	ck_assert_int_eq(register_with_size(&machine, PAGE_BYTES + 1, 0), -E2BIG);
	ck_assert_int_eq(register_with_size(&machine, size, 0), 0);
}
END_TEST

TEST(bytes_behind_the_layout_must_be_zero)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	union request request;
	uint32_t size = (uint32_t)fill(&machine, &request);

	ck_assert_int_eq(register_with_size(&machine, size + 1, 0), 0);
	ck_assert_int_eq(register_with_size(&machine, PAGE_BYTES, 0), 0);
	ck_assert_int_eq(register_with_size(&machine, size + 1, 1), -E2BIG);
	ck_assert_int_eq(register_with_size(&machine, PAGE_BYTES, 1), -E2BIG);
}
END_TEST

/* kernel/probe.c tells them apart by this. */
TEST(each_abi_refuses_28_zero_bytes_in_a_way_of_its_own)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	union request request = { .enable_address.size = sizeof(struct uapi_register) };

	ck_assert_int_eq(register_raw(machine.data, &request), machine.abi == ABI_ENABLE_ADDRESS ? -EINVAL : -EFAULT);
	ck_assert_int_eq(status_number("Active: "), 0);
}
END_TEST

TEST(a_null_pointer_is_a_fault)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	/* The daemon tests the guard with this call. */
	ck_assert_int_eq(register_raw(machine.data, NULL), -EFAULT);
	ck_assert_int_eq(delete_event(machine.data, NULL), -EFAULT);
	ck_assert_int_eq(ioctl(machine.data, UAPI_IOCTL_UNREGISTER, NULL), -1);
	ck_assert_int_eq(errno, machine.abi == ABI_ENABLE_ADDRESS ? EFAULT : ENOTTY);
}
END_TEST

TEST(sysctl_and_mode_of_status_file_show_the_abi)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	struct stat status;

	ck_assert_int_eq(stat(TRACEFS "/user_events_status", &status), 0);
	ck_assert_int_eq(status.st_mode & 0777, machine.abi == ABI_ENABLE_ADDRESS ? 0440 : 0640);
	ck_assert_int_eq(access("/proc/sys/kernel/user_events_max", F_OK), machine.abi == ABI_ENABLE_ADDRESS ? 0 : -1);
	ck_assert_int_eq(stat(TRACEFS "/user_events_data", &status), 0);
	ck_assert_int_eq(status.st_mode & 0777, 0640);
}
END_TEST

TEST(ioctl_numbers_are_these)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_uint_eq(UAPI_IOCTL_REGISTER, 0xC0082A00);
	ck_assert_uint_eq(UAPI_IOCTL_DELETE, 0x40082A01);
	ck_assert_uint_eq(UAPI_IOCTL_UNREGISTER, 0x40082A02);
	for (unsigned number = 0; number < 8; number++) {
		ck_assert_int_eq(ioctl(machine.data, _IO('*', number), 0), -1);
		ck_assert_int_eq(errno, ENOTTY);
		ck_assert_int_eq(ioctl(machine.data, _IOWR('*', number, int), 0), -1);
		ck_assert_int_eq(errno, ENOTTY);
	}
}
END_TEST

/* The kernel looks at the lower 32 bits of the command only, so a filter that compares 64 bits can be bypassed. */
TEST(high_bits_in_the_command_are_ignored)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	ck_assert_int_eq(ioctl(machine.data, 1UL << 32 | UAPI_IOCTL_DELETE, "promise_no_such"), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(ioctl(machine.data, 1UL << 32 | UAPI_IOCTL_REGISTER, NULL), -1);
	ck_assert_int_eq(errno, EFAULT);
}
END_TEST

TEST(there_is_no_unregistering)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(disable(machine.data, &word, 0), -ENOTTY);
}
END_TEST

static int register_changed(const struct machine *machine, void (*change)(struct uapi_register *))
{
	union request request;
	int r;

	fill(machine, &request);
	change(&request.enable_address);
	r = register_raw(machine->data, &request);
	if (r == 0)
		ck_assert_int_eq(disable(machine->data, &word, 0), 0);
	return r;
}

static void unknown_flag(struct uapi_register *request)
{
	request->flags = 1 << 2;
}

static void last_flag(struct uapi_register *request)
{
	request->flags = 1 << 15;
}

static void no_size(struct uapi_register *request)
{
	request->enable_size = 0;
}

static void odd_size(struct uapi_register *request)
{
	request->enable_size = 2;
}

static void bit_beyond_the_word(struct uapi_register *request)
{
	request->enable_bit = 64;
}

static void bit_beyond_half_a_word(struct uapi_register *request)
{
	request->enable_size = 4;
	request->enable_bit = 32;
}

static void not_aligned(struct uapi_register *request)
{
	request->enable_address += 4;
}

static void half_a_word(struct uapi_register *request)
{
	request->enable_size = 4;
}

static void nothing(struct uapi_register *request _unused_)
{
}

TEST(a_registration_is_checked_before_anything_is_made)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(register_changed(&machine, unknown_flag), -EINVAL);
	ck_assert_int_eq(register_changed(&machine, last_flag), -EINVAL);
	ck_assert_int_eq(register_changed(&machine, no_size), -EINVAL);
	ck_assert_int_eq(register_changed(&machine, odd_size), -EINVAL);
	ck_assert_int_eq(register_changed(&machine, bit_beyond_the_word), -EINVAL);
	ck_assert_int_eq(register_changed(&machine, bit_beyond_half_a_word), -EINVAL);
	ck_assert_int_eq(register_changed(&machine, not_aligned), -EINVAL);
	ck_assert(!event_exists(machine.event));
	ck_assert_int_eq(register_changed(&machine, half_a_word), 0);
	ck_assert_int_eq(register_changed(&machine, nothing), 0);
}
END_TEST

/* So a daemon that counts indexes must avoid this case. */
TEST(unwritable_address_is_enomem_and_file_has_event)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int stream = data_open(O_RDWR);
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_assert_int_eq(enable(stream, machine.text, page, 1), -ENOMEM);
	ck_assert(event_exists(machine.event));
	ck_assert_int_eq(write_value(stream, 0), -EBADF);
	ck_assert_int_eq(join(stream, machine.other_text), 1);
	ck_assert_int_eq(munmap(page, PAGE_BYTES), 0);
}
END_TEST

TEST(indexes_count_from_zero_on_each_file)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int first = data_open(O_RDWR);
	_cleanup_(fd_closep) int second = data_open(O_RDWR);

	ck_assert_int_eq(join(first, machine.text), 0);
	ck_assert_int_eq(join(first, machine.other_text), 1);
	ck_assert_int_eq(join(first, machine.text), 0);
	ck_assert_int_eq(join(second, machine.other_text), 0);
	ck_assert_int_eq(join(second, machine.text), 1);
	ck_assert_int_eq(join(second, machine.other_text), 0);
}
END_TEST

TEST(file_opened_read_only_or_write_only_may_register)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	_cleanup_(fd_closep) int reading = data_open(O_RDONLY);
	_cleanup_(fd_closep) int writing = data_open(O_WRONLY);

	ck_assert_int_eq(join(reading, machine.text), 0);
	ck_assert_int_eq(join(writing, machine.text), 0);
	switch_event(machine.event, true);
	ck_assert_int_eq(write_value(writing, 0), 4);
	ck_assert_int_eq(write_value(reading, 0), -EBADF);
	ck_assert_uint_eq(count_records(machine.event), 1);
}
END_TEST

/* The calls of a keeper. Returns the number of the step that failed. */
static int serve(const struct machine *machine)
{
	_cleanup_(fd_closep) int stream = open(TRACEFS "/user_events_data", O_WRONLY | O_CLOEXEC);
	_cleanup_(fd_closep) int status = open(TRACEFS "/user_events_status", O_RDONLY | O_CLOEXEC);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (stream < 0 || status < 0 || page == MAP_FAILED)
		return 1;
	if (mlock(page, PAGE_BYTES) < 0)
		return 2;
	if (fcntl(stream, F_OFD_SETLK, &lock) < 0)
		return 3;
	if (join(stream, machine->text) != 0)
		return 4;
	if (machine->abi == ABI_ENABLE_ADDRESS &&
	    (enable(stream, machine->text, page, 1) != 0 || disable(stream, page, 1) != 0))
		return 5;
	fd_closep(&stream);
	return machine->abi == ABI_STATUS_PAGE && delete_event(machine->data, machine->event) != 0 ? 6 : 0;
}

TEST(root_without_capabilities_can_be_a_keeper)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();

	ck_assert_int_eq(as(POWERLESS_ROOT, serve(&machine)), 0);
	ck_assert_int_eq(as(UNPRIVILEGED, serve(&machine)), 1);
}
END_TEST

PROMISES("registering", EITHER(size_below_layout_or_above_a_page_is_refused),
	 EITHER(bytes_behind_the_layout_must_be_zero), EITHER(each_abi_refuses_28_zero_bytes_in_a_way_of_its_own),
	 EITHER(a_null_pointer_is_a_fault), EITHER(sysctl_and_mode_of_status_file_show_the_abi),
	 EITHER(ioctl_numbers_are_these), EITHER(high_bits_in_the_command_are_ignored),
	 STATUS_PAGE(there_is_no_unregistering), ENABLE_ADDRESS(a_registration_is_checked_before_anything_is_made),
	 ENABLE_ADDRESS(unwritable_address_is_enomem_and_file_has_event), EITHER(indexes_count_from_zero_on_each_file),
	 EITHER(file_opened_read_only_or_write_only_may_register), EITHER(root_without_capabilities_can_be_a_keeper))
