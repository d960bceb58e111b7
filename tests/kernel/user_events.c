/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/kernel/user_events.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/kernel/people.h"

#define OURS "promise_"

enum { ENABLERS_MAX = 64, TESTS_MAX = 64 };

static enum abi abi;

/* The registrations of this process, by address and bit. */
static struct {
	const void *address;
	unsigned bit;
} enablers[ENABLERS_MAX];
static size_t n_enablers;

int data_open(int mode)
{
	int fd = open(TRACEFS "/user_events_data", mode | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "user_events_data: %s", strerror(errno));
	return fd;
}

int register_raw(int data, const void *request)
{
	return ioctl(data, UAPI_IOCTL_REGISTER, request) < 0 ? -errno : 0;
}

int delete_event(int data, const char *name)
{
	return ioctl(data, UAPI_IOCTL_DELETE, name) < 0 ? -errno : 0;
}

static int register_at(int data, const char *text, uint16_t flags, const void *address, unsigned bit)
{
	struct uapi_register request = {
		.size = sizeof(request),
		.enable_bit = (uint8_t)bit,
		.enable_size = 8,
		.flags = flags,
		.enable_address = (uint64_t)(uintptr_t)address,
		.description = (uint64_t)(uintptr_t)text,
		.index = UINT32_MAX,
	};
	int r = register_raw(data, &request);

	return r < 0 ? r : (int)request.index;
}

static int unregister_at(int data, const void *address, unsigned bit)
{
	struct uapi_unregister request = {
		.size = sizeof(request),
		.disable_bit = (uint8_t)bit,
		.disable_address = (uint64_t)(uintptr_t)address,
	};

	return ioctl(data, UAPI_IOCTL_UNREGISTER, &request) < 0 ? -errno : 0;
}

int enable_with(int data, const char *text, uint16_t flags, const void *address, unsigned bit)
{
	int index = register_at(data, text, flags, address, bit);

	if (index >= 0) {
		ck_assert_uint_lt(n_enablers, ENABLERS_MAX);
		enablers[n_enablers].address = address;
		enablers[n_enablers++].bit = bit;
	}
	return index;
}

int enable(int data, const char *text, const void *address, unsigned bit)
{
	return enable_with(data, text, 0, address, bit);
}

int disable(int data, const void *address, unsigned bit)
{
	int r = unregister_at(data, address, bit);

	for (size_t i = 0; r == 0 && i < n_enablers; i++) {
		if (enablers[i].address == address && enablers[i].bit == bit) {
			enablers[i] = enablers[--n_enablers];
			break;
		}
	}
	return r;
}

int register_for_bit(int data, const char *text, uint32_t *ret_bit)
{
	struct uapi_register_status request = {
		.size = sizeof(request),
		.description = (uint64_t)(uintptr_t)text,
		.index = UINT32_MAX,
	};
	int r = register_raw(data, &request);

	if (r < 0)
		return r;
	*ret_bit = request.bit;
	return (int)request.index;
}

static int join_with_scratch(int data, const char *text)
{
	uint64_t scratch = 0;
	int index = register_at(data, text, 0, &scratch, 0), r;

	if (index < 0)
		return index;
	r = unregister_at(data, &scratch, 0);
	return r < 0 ? r : index;
}

int join(int data, const char *text)
{
	uint32_t bit;

	return abi == ABI_STATUS_PAGE ? register_for_bit(data, text, &bit) : join_with_scratch(data, text);
}

int write_record(int data, int index, const void *payload, size_t size)
{
	struct iovec iov[] = {
		{ .iov_base = &index, .iov_len = UAPI_INDEX_BYTES },
		{ .iov_base = (void *)(uintptr_t)payload, .iov_len = size },
	};
	ssize_t n = writev(data, iov, ARRAY_SIZE(iov));

	return n < 0 ? -errno : (int)n - UAPI_INDEX_BYTES;
}

int write_value(int data, int index)
{
	static const uint32_t value = 0x600df00d;

	return write_record(data, index, &value, sizeof(value));
}

static enum abi find_abi(void)
{
	static const char text[] = OURS "abi";
	_cleanup_(fd_closep) int data = open(TRACEFS "/user_events_data", O_RDWR | O_CLOEXEC);
	uint32_t bit;

	if (data < 0)
		return 0;
	if (join_with_scratch(data, text) >= 0)
		return ABI_ENABLE_ADDRESS;
	if (register_for_bit(data, text, &bit) < 0)
		return 0;
	fd_closep(&data);
	data = open(TRACEFS "/user_events_data", O_RDWR | O_CLOEXEC);
	return delete_event(data, text) == 0 ? ABI_STATUS_PAGE : 0;
}

/* In another process: a process that has registered an event behaves differently afterwards. */
static enum abi find_abi_elsewhere(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit((int)find_abi());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? (enum abi)WEXITSTATUS(status) : 0;
}

enum abi abi_of_this_kernel(void)
{
	if (!abi)
		abi = find_abi_elsewhere();
	return abi;
}

int keep_promises(const char *suite, const struct promise *promises, size_t n)
{
	const TTest *tests[TESTS_MAX];
	size_t kept = 0;

	if (n > TESTS_MAX || !abi_of_this_kernel()) {
		fprintf(stderr, "These tests want root and a kernel with user_events, with " TRACEFS " mounted\n");
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < n; i++)
		if (promises[i].abis & (int)abi)
			tests[kept++] = promises[i].test;
	return run_suite(suite, tests, kept);
}

/* The lines of user_events_status about events of these tests. False if there is none. */
static bool each_of_ours(void (*then)(const char *name, void *data), void *data)
{
	FILE *status = fopen(TRACEFS "/user_events_status", "re");
	char line[640];
	bool any = false;

	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status)) {
		const char *name = strstr(line, OURS);

		if (!name)
			continue;
		line[strcspn(line, " \n")] = '\0';
		any = true;
		if (then)
			then(name, data);
	}
	fclose(status);
	return any;
}

static bool any_left(void)
{
	return each_of_ours(NULL, NULL);
}

/* A multi-format event is deleted by its name without the number. */
static void delete_one(const char *name, void *machine)
{
	char whole[64];

	string_copy(whole, sizeof(whole), name);
	whole[strcspn(whole, ".")] = '\0';
	delete_event(((struct machine *)machine)->data, whole);
}

static void switch_off(const char *name, void *machine _unused_)
{
	char path[192];

	event_path(name, "enable", path, sizeof(path));
	write_file(path, "0");
}

static bool swept(struct machine *machine)
{
	each_of_ours(switch_off, NULL);
	each_of_ours(delete_one, machine);
	return !any_left();
}

static void clear_trace(void)
{
	int fd = open(TRACEFS "/trace", O_WRONLY | O_TRUNC | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

struct machine machine_enter(void)
{
	struct machine machine = { .abi = abi, .data = data_open(O_RDWR) };

	ck_assert_msg(eventually(swept(&machine)), "events of an earlier test can't be deleted");
	ck_assert_int_eq(write_file(TRACEFS "/tracing_on", "1"), 0);
	clear_trace();
	snprintf(machine.event, sizeof(machine.event), OURS "%d", getpid());
	snprintf(machine.text, sizeof(machine.text), "%s u32 value", machine.event);
	snprintf(machine.other, sizeof(machine.other), OURS "too_%d", getpid());
	snprintf(machine.other_text, sizeof(machine.other_text), "%s u32 value", machine.other);
	return machine;
}

void machine_leave(struct machine *machine)
{
	/* The test's registrations on it. */
	machine->data = fd_close(machine->data);
	machine->data = data_open(O_RDWR);
	while (n_enablers > 0)
		ck_assert_int_eq(disable(machine->data, enablers[0].address, enablers[0].bit), 0);
	each_of_ours(switch_off, NULL);
	if (abi == ABI_STATUS_PAGE)
		each_of_ours(delete_one, machine);
	ck_assert_msg(eventually(!any_left()), "an event of the test is still there");
	machine->data = fd_close(machine->data);
}

/* Registers in another process, which exits afterwards. */
static int tick(const char *name)
{
	uint64_t word = 0;
	int index = enable(data_open(O_WRONLY), name, &word, 0);

	return index < 0 ? index : event_exists(name);
}

/* The references of an exited process take longest: a second process's references go after the first's. */
void let_the_kernel_catch_up(struct machine *machine)
{
	char name[64];

	if (machine->abi == ABI_STATUS_PAGE)
		return; /* the older ABI works synchronously */
	snprintf(name, sizeof(name), "%s_clock", machine->event);
	ck_assert_int_eq(as(ROOT, tick(name)), 1);
	ck_assert(eventually(!event_exists(name)));
}
