/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/guard/native_program.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kernel/privileges.h"
#include "kernel/uapi.h"
#include "protocol/transport.h"
#include "tests/guard/stand_in.h"
#include "tests/suite.h"

#define NATIVE_FILE  "/run/test-native/user_events_data"
#define TRACEFS_FILE "/sys/kernel/tracing/user_events_data"

enum deed {
	DO_OPEN,
	DO_CLOSE,
	DO_REGISTER,
	DO_REGISTER_ABSENT,
	DO_REGISTER_AT,
	DO_UNREGISTER,
	DO_DELETE,
	DO_LOCK,
	DO_CHMOD,
	DO_REOPEN,
	DO_FORK,
	DO_RACE,
	DO_REPEAT,
	DO_REGISTER_32,
	DO_RING,
	DO_CHURN,
	DO_OPEN_TRACEFS,
	DO_EXEC,
	DO_THREAD,
	DO_GIVE,
	DO_TAKE
};
enum { FILES = 8, WORDS = 65536 };

struct order {
	enum deed deed;
	unsigned file, word, flags;
	uint64_t enable_address, description;
	char text[UAPI_DESCRIPTION_BYTES + 8];
	char other[UAPI_DESCRIPTION_BYTES];
};

const char *native_file = NATIVE_FILE;

uint64_t native_mount(void)
{
	struct stat status;
	int fd;

	ck_assert(mkdir("/run/test-native", 0755) == 0 || errno == EEXIST);
	/* A failed test has left it behind. */
	while (umount2(NATIVE_FILE, MNT_DETACH) == 0)
		;
	fd = open(NATIVE_FILE, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_msg(mount(TRACEFS_FILE, NATIVE_FILE, NULL, MS_BIND, NULL) == 0, "%s", strerror(errno));
	ck_assert_int_eq(stat(NATIVE_FILE, &status), 0);
	ck_assert_int_eq(chmod(TRACEFS_FILE, 0666), 0);
	return status.st_ino;
}

void native_unmount(void)
{
	chmod(TRACEFS_FILE, 0640);
	ck_assert_int_eq(umount2(NATIVE_FILE, MNT_DETACH), 0);
	ck_assert_int_eq(unlink(NATIVE_FILE), 0);
	ck_assert_int_eq(rmdir("/run/test-native"), 0);
}

uint64_t native_cgroup(const char *cgroup)
{
	struct stat status;
	char path[128];

	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", cgroup);
	ck_assert_int_eq(stat(path, &status), 0);
	return status.st_ino;
}

/* --- the program --- */

static int files[FILES] = { -1, -1, -1, -1, -1, -1, -1, -1 };
static uint64_t words[WORDS];

static int do_register(int fd, uint64_t at, uint64_t description, unsigned flags)
{
	struct uapi_register words_of = { .size = sizeof(words_of),
					  .enable_size = 4,
					  .flags = (uint16_t)flags,
					  .enable_address = at,
					  .description = description };

	return ioctl(fd, UAPI_IOCTL_REGISTER, &words_of) < 0 ? errno : 0;
}

static int do_unregister(int fd, unsigned word)
{
	struct uapi_unregister words_of = { .size = sizeof(words_of), .disable_address = (uintptr_t)&words[word] };

	return ioctl(fd, UAPI_IOCTL_UNREGISTER, &words_of) < 0 ? errno : 0;
}

static int register_absent(const struct order *order)
{
	int memory = memfd_create("description", MFD_CLOEXEC), r = errno;
	char *at;

	if (memory < 0 || write(memory, order->text, sizeof(order->text)) < 0)
		return r;
	at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, memory, 0);
	r = do_register(files[order->file], (uintptr_t)&words[order->word], (uintptr_t)at, 0);
	munmap(at, 4096);
	close(memory);
	return r;
}

static volatile bool race_over;
static char raced[UAPI_DESCRIPTION_BYTES] __attribute__((aligned(64)));

/* Each name stays for a while, which changes: of two stores in a row nobody would see the first one. */
static void *flip(void *data)
{
	const struct order *order = data;
	cpu_set_t others;

	/* Where there is another processor. */
	CPU_ZERO(&others);
	CPU_SET(1, &others);
	(void)sched_setaffinity(0, sizeof(others), &others);
	for (unsigned turn = 0; !race_over; turn++) {
		__atomic_store_n(&raced[0], turn % 2 ? order->other[0] : order->text[0], __ATOMIC_SEQ_CST);
		for (unsigned i = 0; i < turn / 2 % 97 * 8; i++)
			__asm__ volatile("" ::: "memory");
	}
	return NULL;
}

/* The descriptions differ in their first letter. */
static int race(struct order *order)
{
	pthread_t thread;
	int r = 0;

	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	(void)sched_setaffinity(0, sizeof(first), &first);
	race_over = false;
	memcpy(raced, order->text, sizeof(raced));
	if (pthread_create(&thread, NULL, flip, order) != 0)
		return EAGAIN;
	for (unsigned i = 0; i < order->flags; i++) {
		int fd = open(native_file, O_WRONLY | O_CLOEXEC);

		r = do_register(fd, (uintptr_t)&words[0], (uintptr_t)raced, 0);
		if (r == 0)
			do_unregister(fd, 0);
		close(fd);
	}
	race_over = true;
	pthread_join(thread, NULL);
	return r;
}

static int fork_idler(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	return pid < 0 ? errno : 0;
}

/* The same event at many addresses. */
static int register_often(const struct order *order)
{
	int error = 0;

	for (unsigned i = 0; i < order->flags && error == 0; i++)
		error = do_register(files[order->file], (uintptr_t)&words[i], (uintptr_t)order->text, 0);
	return error;
}

/* By the entry that the kernel has for 32-bit programs, which 64-bit programs of x86 may take. */
static int register_32(const struct order *order)
{
#ifdef __x86_64__
	enum { IOCTL_32 = 54 };
	struct uapi_register *low =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	char *text = (char *)(low + 1);
	long r;

	if (low == MAP_FAILED)
		return errno;
	*low = (struct uapi_register){ .size = sizeof(*low),
				       .enable_size = 4,
				       .enable_address = (uintptr_t)low + 4096,
				       .description = (uintptr_t)text };
	memcpy(text, order->text, UAPI_DESCRIPTION_BYTES);
	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(IOCTL_32), "b"(files[order->file]), "c"(UAPI_IOCTL_REGISTER), "d"(low)
			 : "memory", "r8", "r9", "r10", "r11");
	return r < 0 ? (int)-r : 0;
#else
	(void)order;
	return ENOTTY;
#endif
}

/* As a command that io_uring passes on to the file. */
static int register_by_ring(const struct order *order)
{
	struct io_uring_params parameters = { 0 };
	const int ring = (int)syscall(SYS_io_uring_setup, 1, &parameters);
	uint8_t *queues, *slots;
	struct io_uring_sqe *entry;
	const struct io_uring_cqe *result;

	if (ring < 0)
		return errno;
	queues = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	slots = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	if (queues == MAP_FAILED || slots == MAP_FAILED)
		return errno;
	entry = (struct io_uring_sqe *)(void *)slots;
	*entry = (struct io_uring_sqe){ .opcode = IORING_OP_URING_CMD, .fd = files[order->file] };
	*(uint64_t *)(void *)((uint8_t *)entry + offsetof(struct io_uring_sqe, off)) = (uint32_t)UAPI_IOCTL_REGISTER;
	++*(uint32_t *)(void *)(queues + parameters.sq_off.tail);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return errno;
	result = (const struct io_uring_cqe *)(const void *)(queues + parameters.cq_off.cqes);
	close(ring);
	return -result->res;
}

/* A child that registers new events, and known ones, and closes the file, until this program has ended. */
static int churn(const struct order *order)
{
	pid_t parent = getpid(), pid = fork();

	for (unsigned i = 0; pid == 0; i++) {
		char text[UAPI_DESCRIPTION_BYTES];
		const int fd = open(native_file, O_WRONLY | O_CLOEXEC);

		if (i == 0)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		snprintf(text, sizeof(text), order->text, i % 4);
		(void)do_register(fd, (uintptr_t)&words[i % 4], (uintptr_t)text, 0);
		if (i % 3 != 0)
			do_unregister(fd, i % 4);
		close(fd);
		usleep(1000);
	}
	return pid < 0 ? errno : 0;
}

/* Another program, which has a copy of the file and does nothing with it until this one has ended. */
static int exec_idler(const struct order *order)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent && dup(files[order->file]) >= 0)
			execlp("sleep", "sleep", "600", NULL);
		_exit(127);
	}
	return pid < 0 ? errno : 0;
}

static void *register_here(void *data)
{
	const struct order *order = data;

	return (void *)(intptr_t)do_register(files[order->file], (uintptr_t)&words[order->word], (uintptr_t)order->text,
					     0);
}

/* In a thread that has ended when this returns. */
static int register_in_thread(struct order *order)
{
	pthread_t thread;
	void *error;

	if (pthread_create(&thread, NULL, register_here, order) != 0)
		return EAGAIN;
	pthread_join(thread, &error);
	return (int)(intptr_t)error;
}

static int open_tracefs(void)
{
	return open(TRACEFS_FILE, O_WRONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static int fail_with(int r)
{
	return r < 0 ? errno : 0;
}

static int carry_out(struct order *order)
{
	int *file = &files[order->file];
	char path[64];

	switch (order->deed) {
	case DO_OPEN:
		*file = open(native_file, O_WRONLY | O_CLOEXEC);
		return fail_with(*file);
	case DO_CLOSE:
		return fail_with(close(*file));
	case DO_REGISTER:
		return do_register(*file, (uintptr_t)&words[order->word], (uintptr_t)order->text, order->flags);
	case DO_REGISTER_ABSENT:
		return register_absent(order);
	case DO_REGISTER_AT:
		return do_register(*file, order->enable_address, order->description, 0);
	case DO_UNREGISTER:
		return do_unregister(files[0], order->word);
	case DO_DELETE:
		return fail_with(ioctl(*file, UAPI_IOCTL_DELETE, order->text));
	case DO_LOCK:
		return fail_with(flock(*file, LOCK_EX | LOCK_NB));
	case DO_CHMOD:
		return fail_with(fchmod(*file, 0600));
	case DO_REOPEN:
		snprintf(path, sizeof(path), "/proc/self/fd/%d", *file);
		files[order->word] = open(path, O_WRONLY | O_CLOEXEC);
		return fail_with(files[order->word]);
	case DO_FORK:
		return fork_idler();
	case DO_RACE:
		return race(order);
	case DO_REPEAT:
		return register_often(order);
	case DO_REGISTER_32:
		return register_32(order);
	case DO_RING:
		return register_by_ring(order);
	case DO_CHURN:
		return churn(order);
	case DO_OPEN_TRACEFS:
		return open_tracefs();
	case DO_EXEC:
		return exec_idler(order);
	case DO_THREAD:
		return register_in_thread(order);
	case DO_GIVE:
	case DO_TAKE:
		break;
	}
	return 0;
}

/* Root of a user namespace of its own. */
static int become_root_of_namespace(void)
{
	static const struct {
		const char *path, *text;
	} maps[] = { { "/proc/self/setgroups", "deny" },
		     { "/proc/self/gid_map", "0 1000 1" },
		     { "/proc/self/uid_map", "0 1000 1" } };

	/* Otherwise these files are root's. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		const int fd = open(maps[i].path, O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, maps[i].text, strlen(maps[i].text)) < 0)
			return -errno;
		close(fd);
	}
	return 0;
}

static _Noreturn void live(int socket, const char *cgroup, enum native_user user)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cgroup_enter(cgroup);
	if (user != NATIVE_ROOT && privileges_become(1000, 1000) < 0)
		_exit(1);
	if (user == NATIVE_ROOT_OF_NAMESPACE && become_root_of_namespace() < 0)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		struct order order;
		int fd = receive_packet(socket, &order, sizeof(order)), error;

		if (order.deed == DO_TAKE)
			files[order.file] = fd;
		error = carry_out(&order);
		send_packet(socket, &error, sizeof(error), order.deed == DO_GIVE ? files[order.file] : -1);
	}
}

void native_start(struct native_program *program, const char *cgroup)
{
	native_start_as(program, cgroup, NATIVE_USER);
}

void native_start_as(struct native_program *program, const char *cgroup, enum native_user user)
{
	int sockets[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	cgroup_make(cgroup);
	program->pid = fork();
	if (program->pid == 0) {
		close(sockets[0]);
		live(sockets[1], cgroup, user);
	}
	close(sockets[1]);
	program->socket = sockets[0];
}

void native_end(struct native_program *program)
{
	kill(program->pid, SIGKILL);
	waitpid(program->pid, NULL, 0);
	close(program->socket);
}

static int tell(struct native_program *program, const struct order *order, int fd, int *ret_fd)
{
	struct fdset fds = { 0 };
	int error = -1, given;

	send_packet(program->socket, order, sizeof(*order), fd);
	if (transport_receive_fds(program->socket, &error, sizeof(error), &fds, 0) != (ssize_t)sizeof(error))
		return -1; /* it was killed */
	given = fdset_steal(&fds, 0);
	if (ret_fd)
		*ret_fd = given;
	else if (given >= 0)
		close(given);
	return error;
}

static int tell_text(struct native_program *program, struct order order, const char *text)
{
	string_copy(order.text, sizeof(order.text), text);
	return tell(program, &order, -1, NULL);
}

int native_open(struct native_program *program, unsigned file)
{
	return tell_text(program, (struct order){ .deed = DO_OPEN, .file = file }, "");
}

int native_close(struct native_program *program, unsigned file)
{
	return tell_text(program, (struct order){ .deed = DO_CLOSE, .file = file }, "");
}

int native_register(struct native_program *program, unsigned file, unsigned word, const char *description,
		    unsigned flags)
{
	return tell_text(program, (struct order){ .deed = DO_REGISTER, .file = file, .word = word, .flags = flags },
			 description);
}

int native_register_absent(struct native_program *program, unsigned file, unsigned word, const char *description)
{
	return tell_text(program, (struct order){ .deed = DO_REGISTER_ABSENT, .file = file, .word = word },
			 description);
}

int native_register_at(struct native_program *program, unsigned file, uint64_t enable_address, uint64_t description)
{
	return tell_text(program,
			 (struct order){ .deed = DO_REGISTER_AT,
					 .file = file,
					 .enable_address = enable_address,
					 .description = description },
			 "");
}

int native_unregister(struct native_program *program, unsigned word)
{
	return tell_text(program, (struct order){ .deed = DO_UNREGISTER, .word = word }, "");
}

int native_delete(struct native_program *program, unsigned file, const char *name)
{
	return tell_text(program, (struct order){ .deed = DO_DELETE, .file = file }, name);
}

int native_lock(struct native_program *program, unsigned file)
{
	return tell_text(program, (struct order){ .deed = DO_LOCK, .file = file }, "");
}

int native_chmod(struct native_program *program, unsigned file)
{
	return tell_text(program, (struct order){ .deed = DO_CHMOD, .file = file }, "");
}

int native_reopen(struct native_program *program, unsigned file, unsigned ret)
{
	return tell_text(program, (struct order){ .deed = DO_REOPEN, .file = file, .word = ret }, "");
}

int native_fork(struct native_program *program)
{
	return tell_text(program, (struct order){ .deed = DO_FORK }, "");
}

int native_register_often(struct native_program *program, unsigned file, unsigned n, const char *description)
{
	return tell_text(program, (struct order){ .deed = DO_REPEAT, .file = file, .flags = n }, description);
}

int native_register_32(struct native_program *program, unsigned file, const char *description)
{
	return tell_text(program, (struct order){ .deed = DO_REGISTER_32, .file = file }, description);
}

int native_register_by_ring(struct native_program *program, unsigned file)
{
	return tell_text(program, (struct order){ .deed = DO_RING, .file = file }, "");
}

int native_churn(struct native_program *program, const char *format)
{
	return tell_text(program, (struct order){ .deed = DO_CHURN }, format);
}

int native_exec(struct native_program *program, unsigned file)
{
	return tell_text(program, (struct order){ .deed = DO_EXEC, .file = file }, "");
}

int native_register_in_thread(struct native_program *program, unsigned file, unsigned word, const char *description)
{
	return tell_text(program, (struct order){ .deed = DO_THREAD, .file = file, .word = word }, description);
}

int native_open_tracefs(struct native_program *program)
{
	return tell_text(program, (struct order){ .deed = DO_OPEN_TRACEFS }, "");
}

int native_race(struct native_program *program, unsigned rounds, const char *allowed, const char *forbidden)
{
	struct order order = { .deed = DO_RACE, .flags = rounds };

	string_copy(order.other, sizeof(order.other), forbidden);
	return tell_text(program, order, allowed);
}

void native_take(struct native_program *program, unsigned file, int fd)
{
	const struct order order = { .deed = DO_TAKE, .file = file };

	ck_assert_int_eq(tell(program, &order, fd, NULL), 0);
}

void native_pass(struct native_program *from, unsigned file, struct native_program *to, unsigned ret)
{
	struct order order = { .deed = DO_GIVE, .file = file };
	int fd = -1;

	ck_assert_int_eq(tell(from, &order, -1, &fd), 0);
	native_take(to, ret, fd);
	close(fd);
}
