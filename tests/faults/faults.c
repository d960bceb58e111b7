/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A library to be preloaded, which makes calls of the C library fail, or delays them. Faults and counts are in a file ($FAULTS) that this
 * library and the test (plan.py) map, so a fault can be lifted, and calls counted, while the program runs. A program shares the file with
 * its children.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include "protocol/base/base.h"

/* Functions that are called as they are unless they fail: the type, the name, the parameters, the arguments, the result of a failure. */
/* clang-format off */
#define ORDINARY(_) \
	_(int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags), (fd, address, length, flags), -1) \
	_(int, access, (const char *path, int mode), (path, mode), -1) \
	_(int, bind, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), -1) \
	_(int, chdir, (const char *path), (path), -1) \
	_(int, chmod, (const char *path, mode_t mode), (path, mode), -1) \
	_(int, chown, (const char *path, uid_t user, gid_t group), (path, user, group), -1) \
	_(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags), -1) \
	_(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), -1) \
	_(void *, dlopen, (const char *path, int flags), (path, flags), NULL) \
	_(int, dup2, (int from, int to), (from, to), -1) \
	_(int, dup3, (int from, int to, int flags), (from, to, flags), -1) \
	_(int, epoll_create, (int size), (size), -1) \
	_(int, epoll_create1, (int flags), (flags), -1) \
	_(int, epoll_pwait, (int epoll, struct epoll_event *events, int n, int timeout, const sigset_t *mask), \
	  (epoll, events, n, timeout, mask), -1) \
	_(int, epoll_wait, (int epoll, struct epoll_event *events, int n, int timeout), (epoll, events, n, timeout), -1) \
	_(int, eventfd, (unsigned count, int flags), (count, flags), -1) \
	_(int, faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags), -1) \
	_(int, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length), -1) \
	_(int, fchmod, (int fd, mode_t mode), (fd, mode), -1) \
	_(int, fchmodat, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags), -1) \
	_(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), -1) \
	_(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL) \
	_(DIR *, fdopendir, (int fd), (fd), NULL) \
	_(int, flock, (int fd, int how), (fd, how), -1) \
	_(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL) \
	_(pid_t, fork, (void), (), -1) \
	_(int, fsconfig, (int fd, unsigned command, const char *key, const void *value, int aux), (fd, command, key, value, aux), -1) \
	_(int, fsmount, (int fd, unsigned flags, unsigned attributes), (fd, flags, attributes), -1) \
	_(int, fsopen, (const char *name, unsigned flags), (name, flags), -1) \
	_(int, fstat, (int fd, struct stat *ret), (fd, ret), -1) \
	_(int, fstatat, (int at, const char *path, struct stat *ret, int flags), (at, path, ret, flags), -1) \
	_(int, fstatfs, (int fd, struct statfs *ret), (fd, ret), -1) \
	_(int, fstatvfs, (int fd, struct statvfs *ret), (fd, ret), -1) \
	_(int, fsync, (int fd), (fd), -1) \
	_(int, ftruncate, (int fd, off_t size), (fd, size), -1) \
	_(ssize_t, getrandom, (void *buffer, size_t size, unsigned flags), (buffer, size, flags), -1) \
	_(int, getrlimit, (__rlimit_resource_t which, struct rlimit *ret), (which, ret), -1) \
	_(int, getsockopt, (int fd, int level, int option, void *ret, socklen_t *size), (fd, level, option, ret, size), -1) \
	_(int, getsockname, (int fd, struct sockaddr *ret, socklen_t *length), (fd, ret, length), -1) \
	_(ssize_t, getxattr, (const char *path, const char *name, void *ret, size_t size), (path, name, ret, size), -1) \
	_(int, kill, (pid_t pid, int number), (pid, number), -1) \
	_(int, linkat, (int from, const char *path, int to, const char *name, int flags), (from, path, to, name, flags), -1) \
	_(int, listen, (int fd, int backlog), (fd, backlog), -1) \
	_(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence), -1) \
	_(int, lstat, (const char *path, struct stat *ret), (path, ret), -1) \
	_(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1) \
	_(int, mkdir, (const char *path, mode_t mode), (path, mode), -1) \
	_(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), -1) \
	_(int, mlock, (const void *address, size_t size), (address, size), -1) \
	_(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset), (at, size, protection, flags, fd, offset), MAP_FAILED) \
	_(int, mount, (const char *from, const char *to, const char *type, unsigned long flags, const void *data), (from, to, type, flags, data), -1) \
	_(int, mount_setattr, (int at, const char *path, unsigned flags, struct mount_attr *attributes, size_t size), (at, path, flags, attributes, size), -1) \
	_(int, move_mount, (int from, const char *from_path, int to, const char *to_path, unsigned flags), (from, from_path, to, to_path, flags), -1) \
	_(int, open_tree, (int at, const char *path, unsigned flags), (at, path, flags), -1) \
	_(DIR *, opendir, (const char *path), (path), NULL) \
	_(int, pipe, (int ret[2]), (ret), -1) \
	_(int, pipe2, (int ret[2], int flags), (ret, flags), -1) \
	_(int, poll, (struct pollfd *fds, nfds_t n, int timeout), (fds, n, timeout), -1) \
	_(int, posix_spawn, (pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const *argv, char *const *environment), (ret, path, actions, attributes, argv, environment), errno) \
	_(int, posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t *actions, int from, int to), (actions, from, to), errno) \
	_(int, posix_spawn_file_actions_addopen, (posix_spawn_file_actions_t *actions, int fd, const char *path, int flags, mode_t mode), (actions, fd, path, flags, mode), errno) \
	_(int, posix_spawn_file_actions_init, (posix_spawn_file_actions_t *actions), (actions), errno) \
	_(int, posix_spawnp, (pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, char *const *argv, char *const *environment), (ret, path, actions, attributes, argv, environment), errno) \
	_(ssize_t, pread, (int fd, void *buffer, size_t size, off_t offset), (fd, buffer, size, offset), -1) \
	_(ssize_t, pwrite, (int fd, const void *buffer, size_t size, off_t offset), (fd, buffer, size, offset), -1) \
	_(int, pthread_create, (pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *data), (ret, attributes, run, data), errno) \
	_(struct dirent *, readdir, (DIR *directory), (directory), NULL) \
	_(ssize_t, readlink, (const char *path, char *buffer, size_t size), (path, buffer, size), -1) \
	_(char *, realpath, (const char *path, char *ret), (path, ret), NULL) \
	_(ssize_t, recv, (int fd, void *buffer, size_t size, int flags), (fd, buffer, size, flags), -1) \
	_(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1) \
	_(int, renameat, (int from, const char *path, int to, const char *name), (from, path, to, name), -1) \
	_(int, rmdir, (const char *path), (path), -1) \
	_(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags), -1) \
	_(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1) \
	_(int, setgroups, (size_t n, const gid_t *groups), (n, groups), -1) \
	_(int, setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved), -1) \
	_(int, setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved), -1) \
	_(int, setrlimit, (__rlimit_resource_t which, const struct rlimit *limit), (which, limit), -1) \
	_(pid_t, setsid, (void), (), -1) \
	_(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t size), (fd, level, option, value, size), -1) \
	_(int, shutdown, (int fd, int how), (fd, how), -1) \
	_(int, signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags), -1) \
	_(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1) \
	_(int, socketpair, (int domain, int type, int protocol, int ret[2]), (domain, type, protocol, ret), -1) \
	_(int, stat, (const char *path, struct stat *ret), (path, ret), -1) \
	_(int, statfs, (const char *path, struct statfs *ret), (path, ret), -1) \
	_(int, statx, (int at, const char *path, int flags, unsigned mask, struct statx *ret), (at, path, flags, mask, ret), -1) \
	_(int, timer_create, (clockid_t clock, struct sigevent *event, timer_t *ret), (clock, event, ret), -1) \
	_(int, timer_settime, (timer_t timer, int flags, const struct itimerspec *to, struct itimerspec *ret), (timer, flags, to, ret), -1) \
	_(int, inotify_init1, (int flags), (flags), -1) \
	_(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask), -1) \
	_(int, timerfd_create, (int clock, int flags), (clock, flags), -1) \
	_(int, timerfd_settime, (int fd, int flags, const struct itimerspec *to, struct itimerspec *ret), (fd, flags, to, ret), -1) \
	_(int, unlink, (const char *path), (path), -1) \
	_(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), -1) \
	_(int, setns, (int fd, int type), (fd, type), -1) \
	_(int, unshare, (int flags), (flags), -1) \
	_(pid_t, waitpid, (pid_t pid, int *ret, int options), (pid, ret, options), -1) \
	_(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), -1)
/* Functions with a body of their own below. */
#define OTHERS(_) \
	_(calloc) _(clone) _(epoll_ctl) _(fcntl) _(getline) _(getpwnam) _(ioctl) _(malloc) _(mremap) _(open) _(openat) _(prctl) _(read) _(realloc) \
	_(syscall) _(write)
/* clang-format on */

#define NUMBER_OF(name)			    NUMBER_##name,
#define NUMBER_OF_ORDINARY(type, name, ...) NUMBER_##name,
enum function { ORDINARY(NUMBER_OF_ORDINARY) OTHERS(NUMBER_OF) FUNCTIONS_MAX };

#define NAME_OF(name)			  #name,
#define NAME_OF_ORDINARY(type, name, ...) #name,
static const char *const names[] = { ORDINARY(NAME_OF_ORDINARY) OTHERS(NAME_OF) };

enum { NAME_MAX_BYTES = 40, WHERE_BYTES = 64 };

struct counted {
	char name[NAME_MAX_BYTES];
	_Atomic uint64_t calls;
};

/* plan.py has the same. */
struct plan {
	uint64_t first; /* of the function's calls, counted from 1, the first that fails; 0: none does */
	uint64_t last;
	_Atomic uint64_t failed;    /* number of failed calls */
	_Atomic uint64_t points;    /* calls of the first process, without those for memory */
	uint64_t interrupted_point; /* the signal comes before that call; 0: no signal */
	int32_t function;
	int32_t error;
	uint32_t delay;		     /* maximum before each call, in microseconds; 0: none */
	_Atomic uint32_t randomness; /* seeded by the test */
	uint32_t functions;
	int32_t signal;
	_Atomic int32_t process; /* the first */
	int32_t padding;
	char where[WHERE_BYTES]; /* caller of the first call that failed */
	struct counted counted[FUNCTIONS_MAX];
};

static struct plan *plan;
/* This thread is in a part of the C library that must not fail. */
static _Thread_local bool spared __attribute__((tls_model("initial-exec")));

/* The real functions of ASan or the C library, without dlsym(), which may allocate. */
#ifdef BEHIND_ASAN
#define REAL_MEMORY(function) __interceptor_##function
#else
#define REAL_MEMORY(function) __libc_##function
#endif

void *REAL_MEMORY(malloc)(size_t size);
void *REAL_MEMORY(calloc)(size_t n, size_t size);
void *REAL_MEMORY(realloc)(void *old, size_t size);

/* Writes "userevd+0x1234", for addr2line. */
static void note_caller(const void *caller)
{
	Dl_info info;

	if (!dladdr(caller, &info))
		return;
	snprintf(plan->where, sizeof(plan->where), "%s+%#zx", strrchr(info.dli_fname, '/') + 1,
		 (size_t)((const char *)caller - (const char *)info.dli_fbase));
}

/* Pseudo-random numbers, the same for the same seed. */
static uint32_t next_random(void)
{
	uint32_t x = atomic_fetch_add(&plan->randomness, 0x9e3779b9U);

	x = (x ^ x >> 16) * 0x85ebca6bU;
	x = (x ^ x >> 13) * 0xc2b2ae35U;
	return x ^ x >> 16;
}

/* Half of the calls are not delayed, so that others overtake them. */
static void delay(void)
{
	uint32_t random = next_random();
	struct timespec pause = { .tv_nsec = (random >> 1) % plan->delay * 1000L };

	if (random & 1)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static bool is_memory(enum function function)
{
	return function == NUMBER_malloc || function == NUMBER_calloc || function == NUMBER_realloc;
}

/* A delay and a signal may come between any two calls. */
static void meet(enum function function)
{
	int before = errno;

	if (!plan || spared || is_memory(function))
		return;
	if (plan->delay)
		delay();
	if (getpid() == plan->process && atomic_fetch_add(&plan->points, 1) + 1 == plan->interrupted_point)
		raise(plan->signal);
	errno = before;
}

/* Whether this call fails; then errno is set. */
static bool fails(enum function function, const void *caller)
{
	uint64_t n;

	if (!plan || spared)
		return false;
	meet(function);
	n = atomic_fetch_add(&plan->counted[function].calls, 1) + 1;
	if ((int32_t)function != plan->function || plan->first == 0 || n < plan->first || n > plan->last)
		return false;
	if (atomic_fetch_add(&plan->failed, 1) == 0)
		note_caller(caller);
	errno = plan->error;
	return true;
}

#define FAILS(name) fails(NUMBER_##name, __builtin_return_address(0))

/* The function that this library overrides. */
#define REAL(name)                                                                                                     \
	({                                                                                                             \
		static __typeof__(&(name)) real_;                                                                      \
		if (!real_)                                                                                            \
			*(void **)(&real_) = dlsym(RTLD_NEXT, #name);                                                  \
		real_;                                                                                                 \
	})

#define PUBLIC __attribute__((visibility("default")))

#define FAULTABLE(type, name, parameters, arguments, failure)                                                          \
	PUBLIC type name parameters                                                                                    \
	{                                                                                                              \
		if (FAILS(name))                                                                                       \
			return failure;                                                                                \
		return REAL(name) arguments;                                                                           \
	}

ORDINARY(FAULTABLE)

/* Functions with other names. */
#undef getline
PUBLIC ssize_t __getdelim(char **line, size_t *size, int end, FILE *file)
{
	return FAILS(getline) ? -1 : REAL(__getdelim)(line, size, end, file);
}

PUBLIC int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));
PUBLIC int fstat64(int fd, struct stat64 *ret) __attribute__((alias("fstat")));
PUBLIC int fstatvfs64(int fd, struct statvfs64 *ret) __attribute__((alias("fstatvfs")));
PUBLIC int fstatfs64(int fd, struct statfs64 *ret) __attribute__((alias("fstatfs")));
PUBLIC void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
	__attribute__((alias("mmap")));

/* The optional argument, as long as a register; harmless if there is none. */
#define NEXT_ARGUMENT(last)                                                                                            \
	({                                                                                                             \
		va_list arguments_;                                                                                    \
		long argument_;                                                                                        \
		va_start(arguments_, last);                                                                            \
		argument_ = va_arg(arguments_, long);                                                                  \
		va_end(arguments_);                                                                                    \
		argument_;                                                                                             \
	})

PUBLIC int fcntl(int fd, int command, ...)
{
	return FAILS(fcntl) ? -1 : REAL(fcntl)(fd, command, NEXT_ARGUMENT(command));
}

PUBLIC int clone(int (*run)(void *), void *stack, int flags, void *data, ...)
{
	return FAILS(clone) ? -1 : REAL(clone)(run, stack, flags, data);
}

PUBLIC int ioctl(int fd, unsigned long request, ...)
{
	return FAILS(ioctl) ? -1 : REAL(ioctl)(fd, request, NEXT_ARGUMENT(request));
}

PUBLIC int open(const char *path, int flags, ...)
{
	return FAILS(open) ? -1 : REAL(open)(path, flags, NEXT_ARGUMENT(flags));
}

PUBLIC int openat(int at, const char *path, int flags, ...)
{
	return FAILS(openat) ? -1 : REAL(openat)(at, path, flags, NEXT_ARGUMENT(flags));
}

PUBLIC void *mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
	return FAILS(mremap) ? MAP_FAILED : REAL(mremap)(old, old_size, size, flags, NEXT_ARGUMENT(flags));
}

/* Only files fail: libev does not expect errors of pipes and eventfds. */
static bool is_file(int fd)
{
	struct stat status;

	return REAL(fstat)(fd, &status) == 0 && S_ISREG(status.st_mode);
}

PUBLIC ssize_t read(int fd, void *buffer, size_t size)
{
	if (!is_file(fd))
		meet(NUMBER_read);
	else if (FAILS(read))
		return -1;
	return REAL(read)(fd, buffer, size);
}

/* Hardened programs call this. */
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
PUBLIC ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	return read(fd, buffer, MIN(size, room));
}

PUBLIC ssize_t write(int fd, const void *data, size_t size)
{
	if (!is_file(fd))
		meet(NUMBER_write);
	else if (FAILS(write))
		return -1;
	return REAL(write)(fd, data, size);
}

/* Only additions fail. */
PUBLIC int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	int r = REAL(epoll_ctl)(epoll, op, fd, event), error;

	if (r < 0 || op != EPOLL_CTL_ADD || !FAILS(epoll_ctl))
		return r;
	error = errno;
	REAL(epoll_ctl)(epoll, EPOLL_CTL_DEL, fd, NULL);
	errno = error;
	return -1;
}

/* Crashes without memory: glibc 2.36, nss_database_check_reload_and_get(). */
PUBLIC struct passwd *getpwnam(const char *name)
{
	struct passwd *user;

	if (FAILS(getpwnam))
		return NULL;
	spared = true;
	user = REAL(getpwnam)(name);
	spared = false;
	return user;
}

#ifdef BEHIND_ASAN
/* ASan calls it at the start of each thread, and can't handle a failure. */
PUBLIC int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
	int r;

	spared = true;
	r = REAL(pthread_getattr_np)(thread, attributes);
	spared = false;
	return r;
}
#endif

struct rest {
	long argument[6];
};

#define NEXT_ARGUMENTS(last)                                                                                           \
	({                                                                                                             \
		struct rest rest_;                                                                                     \
		va_list arguments_;                                                                                    \
		va_start(arguments_, last);                                                                            \
		for (size_t i_ = 0; i_ < ARRAY_SIZE(rest_.argument); i_++)                                             \
			rest_.argument[i_] = va_arg(arguments_, long);                                                 \
		va_end(arguments_);                                                                                    \
		rest_;                                                                                                 \
	})

PUBLIC int prctl(int option, ...)
{
	struct rest rest = NEXT_ARGUMENTS(option);

	if (FAILS(prctl))
		return -1;
	return REAL(prctl)(option, rest.argument[0], rest.argument[1], rest.argument[2], rest.argument[3]);
}

PUBLIC long syscall(long number, ...)
{
	struct rest rest = NEXT_ARGUMENTS(number);

	/* Never in any kernel. */
	if (number != SYS_getpid && FAILS(syscall))
		return -1;
	return REAL(syscall)(number, rest.argument[0], rest.argument[1], rest.argument[2], rest.argument[3],
			     rest.argument[4], rest.argument[5]);
}

PUBLIC void *malloc(size_t size)
{
	return FAILS(malloc) ? NULL : REAL_MEMORY(malloc)(size);
}

PUBLIC void *calloc(size_t n, size_t size)
{
	return FAILS(calloc) ? NULL : REAL_MEMORY(calloc)(n, size);
}

PUBLIC void *realloc(void *old, size_t size)
{
	return FAILS(realloc) ? NULL : REAL_MEMORY(realloc)(old, size);
}

/* The C library and ASan have these call what is behind us. */
PUBLIC void *reallocarray(void *old, size_t n, size_t size)
{
	return realloc(old, n * size);
}

PUBLIC char *strndup(const char *text, size_t most)
{
	size_t length = strnlen(text, most);
	char *copy = FAILS(malloc) ? NULL : REAL_MEMORY(malloc)(length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

PUBLIC char *strdup(const char *text)
{
	return strndup(text, SIZE_MAX);
}

/* Calls before this neither fail nor count. */
__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTS");
	struct plan *mapped;
	int fd = path ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	mapped = REAL(mmap)(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED)
		return;
	for (size_t i = 0; i < FUNCTIONS_MAX; i++)
		memcpy(mapped->counted[i].name, names[i], strlen(names[i]) + 1);
	mapped->functions = FUNCTIONS_MAX;
	atomic_compare_exchange_strong(&mapped->process, &(int32_t){ 0 }, getpid());
	plan = mapped;
}
