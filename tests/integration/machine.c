/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/integration/fixture.h"

static bool is_child;

#undef _mark_point
#undef _ck_assert_failed

void become_child(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	is_child = true;
}

void assertion_reached(const char *file, int line)
{
	if (!is_child)
		_mark_point(file, line);
}

void assertion_failed(const char *file, int line, const char *what, const char *format, ...)
{
	char message[1024] = "";
	va_list arguments;

	va_start(arguments, format);
	if (format)
		vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (!is_child)
		_ck_assert_failed(file, line, what, *message ? "%s" : NULL, message);
	fprintf(stderr, "%s:%d: process %d: %s %s\n", file, line, (int)getpid(), what, message);
	_exit(EXIT_FAILURE);
}

#define _mark_point	  assertion_reached
#define _ck_assert_failed assertion_failed

bool file_has_line(const char *path, const char *one, const char *other)
{
	FILE *file = fopen(path, "re");
	char line[512];
	bool has = false;

	while (file && !has && fgets(line, sizeof(line), file))
		has = strstr(line, one) && strstr(line, other);
	if (file)
		fclose(file);
	return has;
}

/* Not by statfs(), which may return the type that the share has on the host. */
bool is_guest(void)
{
	return file_has_line("/proc/self/mounts", " /run/guest ", " 9p ");
}

bool is_emulated(void)
{
	return file_has_line("/proc/cpuinfo", "model name", "QEMU");
}

bool not_possible(const char *what)
{
	printf("not possible here: %s\n", what);
	return false;
}

bool need_root(const char *what)
{
	return geteuid() == 0 || not_possible(what);
}

void *share_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

pid_t start_process(void)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		become_child();
	return pid;
}

void await_success(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "process %d ended with %#x", (int)pid, (unsigned)status);
}

void kill_process(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

bool has_sanitizer(void)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#else
	return false;
#endif
}

uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

double cpu_seconds(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	ck_assert_int_eq(clock_getcpuclockid(pid, &clock), 0);
	ck_assert_int_eq(clock_gettime(clock, &time), 0);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

unsigned repetitions(unsigned in_short, unsigned in_full)
{
	if (getenv("FULL"))
		return in_full;
	return is_emulated() ? (in_short + 9) / 10 : in_short;
}

/* A process group of its own: check kills that of a test that takes too long. */
static void wait_and_tidy(int leash, void (*tidy)(const char *what), const char *what)
{
	char byte;

	setsid();
	dup2(leash, STDIN_FILENO);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
		;
	tidy(what);
	_exit(EXIT_SUCCESS);
}

void janitor_start(struct janitor *janitor, void (*tidy)(const char *what), const char *what)
{
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	janitor->pid = fork();
	ck_assert_int_ge(janitor->pid, 0);
	if (janitor->pid == 0) {
		close(ends[1]);
		wait_and_tidy(ends[0], tidy, what);
	}
	close(ends[0]);
	janitor->leash = ends[1];
}

void janitor_end(struct janitor *janitor)
{
	close(janitor->leash);
	ck_assert_int_eq(waitpid(janitor->pid, NULL, 0), janitor->pid);
}

void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	ck_assert_msg(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
		      strerror(errno));
	close(fd);
}

/* The path of "PATH=TEXT"; the text in `ret`. */
static const char *split(const char *what, const char **ret)
{
	static char path[256];

	snprintf(path, sizeof(path), "%.*s", (int)strcspn(what, "="), what);
	*ret = strchr(what, '=') + 1;
	return path;
}

static void restore_file(const char *what)
{
	const char *text, *path = split(what, &text);

	write_file(path, text);
}

void change_file(struct janitor *janitor, const char *path, const char *text)
{
	char before[512];
	int length = snprintf(before, sizeof(before), "%s=", path), fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, before + length, sizeof(before) - (size_t)length - 1);

	ck_assert_msg(n > 0, "%s: %s", path, strerror(errno));
	before[length + n] = '\0';
	close(fd);
	janitor_start(janitor, restore_file, before);
	write_file(path, text);
}

static void restore_mode(const char *what)
{
	const char *mode, *path = split(what, &mode);

	chmod(path, (mode_t)strtoul(mode, NULL, 8));
}

void change_mode(struct janitor *janitor, const char *path, mode_t mode)
{
	struct stat status;
	char before[512];

	ck_assert_int_eq(stat(path, &status), 0);
	snprintf(before, sizeof(before), "%s=%o", path, status.st_mode & 07777);
	janitor_start(janitor, restore_mode, before);
	ck_assert_int_eq(chmod(path, mode), 0);
}

/* Enough to exceed the error of the machine's number of open files, which is summed over the processors only now and then. */
static void open_files(int *fds, size_t n)
{
	limit_fds(n + 1000);
	for (size_t i = 0; i < n; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(fds[i], 0);
	}
}

/*
 * Half of the files that are open on this machine, as the new maximum. It limits all processes without root's capability, also the daemon
 * and the keeper; root is refused only sockets, when more than twice as many are open.
 */
static void too_few_files(char *ret, size_t size)
{
	unsigned long n = 0;
	FILE *file = fopen("/proc/sys/fs/file-nr", "re");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fscanf(file, "%lu", &n), 1);
	fclose(file);
	snprintf(ret, size, "%lu", n / 2);
}

void shortage_begin(struct shortage *shortage)
{
	char number[32];

	open_files(shortage->files, ARRAY_SIZE(shortage->files));
	too_few_files(number, sizeof(number));
	change_file(&shortage->janitor, "/proc/sys/fs/file-max", number);
}

void shortage_end(struct shortage *shortage)
{
	janitor_end(&shortage->janitor);
	for (size_t i = 0; i < ARRAY_SIZE(shortage->files); i++)
		close(shortage->files[i]);
}

/* False if it is gone. */
static bool read_process(const char *pid, char *ret_comm, size_t size, char *ret_state, pid_t *ret_parent)
{
	char path[300], line[512] = "", *name, *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	name = fgets(line, sizeof(line), file) ? strchr(line, '(') : NULL;
	end = strrchr(line, ')');
	fclose(file);
	if (!name || !end || sscanf(end + 1, " %c %d", ret_state, ret_parent) != 2)
		return false;
	snprintf(ret_comm, size, "%.*s", (int)(end - name - 1), name + 1);
	return true;
}

bool is_running(pid_t pid)
{
	char number[16], comm[32], state;
	pid_t parent;

	snprintf(number, sizeof(number), "%d", (int)pid);
	return read_process(number, comm, sizeof(comm), &state, &parent) && state != 'Z';
}

size_t children_of(pid_t parent, const char *comm, pid_t *ret, size_t n)
{
	DIR *directory = opendir("/proc");
	const struct dirent *entry;
	char found_comm[32], state;
	pid_t found_parent;
	size_t count = 0;

	ck_assert_ptr_nonnull(directory);
	while ((entry = readdir(directory))) {
		if (*entry->d_name < '0' || *entry->d_name > '9' ||
		    !read_process(entry->d_name, found_comm, sizeof(found_comm), &state, &found_parent) ||
		    found_parent != parent || (comm && !streq(comm, found_comm)))
			continue;
		if (count < n)
			ret[count] = (pid_t)strtol(entry->d_name, NULL, 10);
		count++;
	}
	closedir(directory);
	return count;
}

uint64_t proc_status(pid_t pid, const char *key, int base)
{
	char path[64], line[256];
	uint64_t number = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			number = strtoull(line + strlen(key), NULL, base);
	fclose(file);
	return number;
}

uint64_t count_fds(pid_t pid)
{
	char path[64];
	uint64_t count = 0;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	directory = opendir(path);
	ck_assert_ptr_nonnull(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static bool is_open(pid_t pid, unsigned fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)pid, fd);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

unsigned free_fd_of(pid_t pid, unsigned n)
{
	unsigned fd = 0;

	while (is_open(pid, fd) || n-- > 0)
		fd++;
	return fd;
}

void limit_fds_of(pid_t pid, rlim_t number)
{
	struct rlimit limit;

	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = MIN(number, limit.rlim_max);
	ck_assert_int_eq(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

void limit_fds(rlim_t number)
{
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ number, number }), 0);
}

unsigned most_connections(unsigned wanted)
{
	enum { MARGIN = 256 };
	struct rlimit limit;

	limit_fds_of(0, RLIM_INFINITY);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return (unsigned)MIN((rlim_t)wanted, limit.rlim_cur - MARGIN);
}

int change_lock(int fd, short type, uint64_t from, uint64_t n)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)n };

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}
