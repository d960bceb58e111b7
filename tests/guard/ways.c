/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/guard/ways.h"

#include <grp.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/guard/stand_in.h"
#include "tests/suite.h"

enum { NOBODY = 1000, NO_SUCH_PROGRAMS = 253, CANNOT = 254 };

unsigned kernel_manner(void)
{
	return access("/proc/sys/kernel/user_events_max", F_OK) < 0 ? MANNER_STATUS_PAGE : 0;
}

static int carry_out(void *data)
{
	const struct call *call = data;

	return attempt(call->fd, call->operation, kernel_manner() | call->manner, call->event);
}

static int become_nobody(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return -1;
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int duplicate(void *data)
{
	struct call call = *(const struct call *)data;
	int error;

	call.fd = fcntl(call.fd, F_DUPFD_CLOEXEC, 100);
	error = carry_out(&call);
	close(call.fd);
	return error;
}

/* --- another program --- */

static int execute(const char *program, const struct call *call)
{
	const char *build = getenv("B");
	char path[4096], fd[16], operation[16], manner[16];

	snprintf(path, sizeof(path), "%s/tests/%s", build ? build : "build", program);
	snprintf(fd, sizeof(fd), "%d", call->fd);
	snprintf(operation, sizeof(operation), "%d", (int)call->operation);
	snprintf(manner, sizeof(manner), "%u", call->manner | kernel_manner());
	fcntl(call->fd, F_SETFD, 0);
	execl(path, program, fd, operation, manner, call->event, NULL);
	return errno == ENOEXEC ? NO_SUCH_PROGRAMS : CANNOT;
}

static int execute_wide(void *data)
{
	return execute("guard_caller", data);
}

static int execute_narrow(void *data)
{
	return execute("guard_caller32", data);
}

bool runs_narrow_programs(void)
{
#ifdef __x86_64__
	struct call call = { .fd = STDIN_FILENO, .operation = UNREGISTER, .event = "" };
	int status = 0;
	pid_t pid = fork();

	/* This is not in a test, and asserts nothing. */
	if (pid == 0)
		_exit(execute_narrow(&call));
	return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) != NO_SUCH_PROGRAMS;
#else
	return false; /* arm64's compiler builds no 32-bit programs */
#endif
}

/* --- the other calls that a 64-bit kernel may have: filters have to know them all --- */

#ifdef __x86_64__
static int narrow_call(void *data)
{
	enum { NARROW_IOCTL = 54 };
	const struct call *call = data;
	unsigned number = (unsigned)attempt_number(call->operation, 0);
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(NARROW_IOCTL), "b"(call->fd), "c"(number),
			   "d"(attempt_argument(call->operation, kernel_manner(), call->event))
			 : "memory", "r8", "r9", "r10", "r11");
	return r < 0 ? (int)-r : 0;
}

static int x32_call(void *data)
{
	enum { X32_IOCTL = 0x40000000 + 514 };
	const struct call *call = data;
	void *argument = attempt_argument(call->operation, kernel_manner(), call->event);

	return syscall(X32_IOCTL, call->fd, attempt_number(call->operation, 0), argument) < 0 ? errno : 0;
}
#endif

/* --- another thread, another open file --- */

static void *thread_main(void *data)
{
	return (void *)(intptr_t)carry_out(data);
}

static int threaded(void *call)
{
	pthread_t thread;
	void *error = NULL;

	ck_assert_int_eq(pthread_create(&thread, NULL, thread_main, call), 0);
	pthread_join(thread, &error);
	return (int)(intptr_t)error;
}

static int reopened(void *data)
{
	struct call call = *(const struct call *)data;
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", call.fd);
	call.fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_msg(call.fd >= 0, "%s: %s", path, strerror(errno));
	error = carry_out(&call);
	close(call.fd);
	return error;
}

/* --- another process, and another user --- */

static int receive_as_nobody(void *data)
{
	int socket = *(int *)data, fd;
	struct call call;

	if (become_nobody() < 0)
		return CANNOT;
	fd = receive_packet(socket, &call, sizeof(call));
	call.fd = fd;
	return carry_out(&call);
}

static int relayed(void *data)
{
	const struct call *call = data;
	int sockets[2], error;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	send_packet(sockets[0], call, sizeof(*call), call->fd);
	error = run_in_child(receive_as_nobody, &sockets[1]);
	close(sockets[0]);
	close(sockets[1]);
	return error;
}

static int stolen_from_parent(void *data)
{
	struct call *call = data;
	int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);

	call->fd = (int)syscall(SYS_pidfd_getfd, parent, call->fd, 0);
	return call->fd < 0 ? CANNOT : carry_out(call);
}

static int as_nobody(void *data)
{
	return become_nobody() < 0 ? CANNOT : carry_out(data);
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	fd_close(fd);
	return done;
}

static int as_namespace_root(void *data)
{
	if (become_nobody() < 0 || unshare(CLONE_NEWUSER) < 0 || !write_file("/proc/self/setgroups", "deny") ||
	    !write_file("/proc/self/uid_map", "0 1000 1") || !write_file("/proc/self/gid_map", "0 1000 1") ||
	    setresuid(0, 0, 0) < 0)
		return CANNOT;
	return carry_out(data);
}

static int in_other_cgroup(void *data)
{
	cgroup_make("guard-other-cgroup");
	cgroup_enter("guard-other-cgroup");
	return carry_out(data);
}

/* As a container without a user namespace of its own: process 1 of another pid namespace, as the host's root. */
static int in_container(void *data)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP) < 0)
		return CANNOT;
	return run_in_child(carry_out, data);
}

static int reopened_in_container(void *data)
{
	return unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP) < 0 ? CANNOT : reopened(data);
}

/* --- io_uring: has commands for files, but a data file has none --- */

static int submit(int ring, const struct io_uring_params *parameters, const struct io_uring_sqe *command)
{
	const int protection = PROT_READ | PROT_WRITE;
	size_t entries_size = parameters->sq_entries * sizeof(*command);
	struct io_uring_sqe *entries = mmap(NULL, entries_size, protection, MAP_SHARED, ring, IORING_OFF_SQES);
	uint8_t *submissions = mmap(NULL, 4096, protection, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	uint8_t *completions = mmap(NULL, 4096, protection, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	const struct io_uring_cqe *completion;
	uint32_t one = 1, zero = 0;
	int result;

	ck_assert(entries != MAP_FAILED && submissions != MAP_FAILED && completions != MAP_FAILED);
	entries[0] = *command;
	memcpy(submissions + parameters->sq_off.array, &zero, sizeof(zero));
	memcpy(submissions + parameters->sq_off.tail, &one, sizeof(one));
	ck_assert_int_eq(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0), 1);
	completion = (const void *)(completions + parameters->cq_off.cqes);
	result = completion->res;
	munmap(entries, entries_size);
	munmap(submissions, 4096);
	munmap(completions, 4096);
	return result;
}

static int by_io_uring(void *data)
{
	const struct call *call = data;
	struct io_uring_params parameters = { 0 };
	struct io_uring_sqe command = { .opcode = IORING_OP_URING_CMD, .fd = call->fd };
	int ring = (int)syscall(SYS_io_uring_setup, 2, &parameters), result;

	if (ring < 0)
		return errno == ENOSYS ? EOPNOTSUPP : errno;
	command.cmd_op = (uint32_t)attempt_number(call->operation, 0);
	command.addr = (uintptr_t)attempt_argument(call->operation, kernel_manner(), call->event);
	result = submit(ring, &parameters, &command);
	close(ring);
	return -result;
}

const struct way ways[] = {
	{ .name = "plainly", .act = carry_out },
	{ .name = "with high bits in the command",
	  .act = carry_out,
	  .manner = MANNER_HIGH_BITS,
	  .nothing_to_change = true },
	{ .name = "from a 32-bit program", .act = execute_narrow, .in_child = true, .narrow = true },
	{ .name = "from a 32-bit program with 64-bit numbers",
	  .act = execute_narrow,
	  .in_child = true,
	  .manner = MANNER_WIDE_NUMBERS,
	  .narrow = true,
	  .ioctls_only = true },
#ifdef __x86_64__
	{ .name = "by the 32-bit call of a 64-bit program", .act = narrow_call, .narrow = true, .ioctls_only = true },
	{ .name = "by the call of the x32 ABI", .act = x32_call, .ioctls_only = true, .never = ENOSYS },
#endif
	{ .name = "through a duplicate", .act = duplicate },
	{ .name = "after a fork", .act = carry_out, .in_child = true },
	{ .name = "after an exec", .act = execute_wide, .in_child = true },
	{ .name = "from a thread", .act = threaded },
	{ .name = "through /proc/self/fd", .act = reopened, .other_file = true },
	{ .name = "relayed by a socket", .act = relayed, .nobody = true },
	{ .name = "taken from another process", .act = stolen_from_parent, .in_child = true },
	{ .name = "as another user", .act = as_nobody, .in_child = true, .nobody = true },
	{ .name = "as root of a user namespace", .act = as_namespace_root, .in_child = true, .nobody = true },
	{ .name = "as root in another cgroup", .act = in_other_cgroup, .in_child = true },
	{ .name = "as root in a container", .act = in_container, .in_child = true },
	{ .name = "as root in a container, through /proc/self/fd",
	  .act = reopened_in_container,
	  .in_child = true,
	  .other_file = true },
	{ .name = "by io_uring", .act = by_io_uring, .ioctls_only = true, .never = EOPNOTSUPP },
};
const size_t n_ways = ARRAY_SIZE(ways);

int try_way(const struct way *way, int fd, enum operation operation, const char *event)
{
	struct call call = { .fd = fd, .operation = operation, .manner = way->manner, .event = event };

	return way->in_child ? run_in_child(way->act, &call) : way->act(&call);
}

int unguarded_answer(const struct way *way, enum operation operation)
{
	if (way->never)
		return way->never;
	if (way->narrow && operation < IOCTLS)
		return ENOTTY;
	if (operation == DELETE_FOREIGN)
		return EBUSY;
	if (operation == UNREGISTER)
		return kernel_manner() & MANNER_STATUS_PAGE ? ENOTTY : ENOENT;
	if (way->nobody && (operation == CHMOD || operation == CHOWN))
		return EPERM;
	return 0;
}
