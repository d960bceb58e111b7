/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The machine beside the daemon: processes and files. */

#include "tests/suite.h"

#include <sys/resource.h>
#include <sys/types.h>

#define TRACEFS "/sys/kernel/tracing"

/*
 * Processes that a test starts may assert, too. check would count that as the test's: here a failed assertion is printed, and ends the
 * process with EXIT_FAILURE.
 */
#define _mark_point	  assertion_reached
#define _ck_assert_failed assertion_failed
void assertion_reached(const char *file, int line);
_Noreturn void assertion_failed(const char *file, int line, const char *what, const char *format, ...) _printf_(4, 5);
/* Called in a process that was forked by other means than start_process(). */
void become_child(void);

/* A line of the file has both texts. */
bool file_has_line(const char *path, const char *one, const char *other);
/* In a virtual machine of run-guest.sh: it may be changed. */
bool is_guest(void);
/* An emulated processor, with which a tenth of the repetitions is enough. */
bool is_emulated(void);
/* Prints that the test, or a part of it, needs something that this machine doesn't have. False. */
bool not_possible(const char *what);
/* False, and the same, unless the test runs as root. */
bool need_root(const char *what);
/* Built with AddressSanitizer, beside which the size of a process says little. */
bool has_sanitizer(void);
/* Of the monotonic clock. */
uint64_t clock_us(void);
/* Processor time of a process, in seconds. */
double cpu_seconds(pid_t pid);
/* How often something is done: the second with FULL in the environment; else the first, or a tenth where it is emulated. */
unsigned repetitions(unsigned in_short, unsigned in_full);

/* Zeroed memory that processes share which are forked later. */
void *share_memory(size_t size);
/* Forks; the child (0) is killed when the test ends. */
pid_t start_process(void);
/* Waits for its end, which has to be exit status 0. */
void await_success(pid_t pid);
void kill_process(pid_t pid);

/*
 * A process that tidies up when the test ends, in any way: it calls `tidy` once the leash is closed.
 */
struct janitor {
	pid_t pid;
	int leash;
};
void janitor_start(struct janitor *, void (*tidy)(const char *what), const char *what);
/* Tidies up now. */
void janitor_end(struct janitor *);

/* Writes a file; the second restores its contents at the test's end, or with janitor_end(). */
void write_file(const char *path, const char *text);
void change_file(struct janitor *, const char *path, const char *text);
/* The same with its mode. */
void change_mode(struct janitor *, const char *path, mode_t mode);

/* Only root can open files on this machine, so neither the daemon nor the keeper can. Guests only. */
struct shortage {
	struct janitor janitor;
	int files[2000];
};
void shortage_begin(struct shortage *);
void shortage_end(struct shortage *);

/* False for a zombie. */
bool is_running(pid_t pid);
/* The number of that process's children, of that name or any. The first `n` of them go to `ret`. */
size_t children_of(pid_t parent, const char *comm, pid_t *ret, size_t n);
uint64_t count_fds(pid_t pid);
/* The number of its free fd before which n others are free. */
unsigned free_fd_of(pid_t pid, unsigned n);
/* As many connections as were asked for, or as a process may have here. Raises the limit. */
unsigned most_connections(unsigned wanted);
/* Both limits of the test's fds, and of the processes that it starts. */
void limit_fds(rlim_t number);
/* Sets the soft limit of its fds, at most to the hard limit. */
void limit_fds_of(pid_t pid, rlim_t number);
/* A number of /proc/PID/status: "VmRSS:". */
uint64_t proc_status(pid_t pid, const char *key, int base);
/* Of an open file's bytes: 0 or a negative errno. */
int change_lock(int fd, short type, uint64_t from, uint64_t n);
