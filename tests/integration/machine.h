/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What there is on this machine beside the daemon: processes, and the kernel's events. */

#include "tests/suite.h"

#include <sys/types.h>

#define TRACEFS "/sys/kernel/tracing"

/* In a virtual machine of run-guest.sh: it may be changed. */
bool is_guest(void);
/* A processor of QEMU's making: a tenth of the repetitions will do. */
bool is_emulated(void);
/* False, having printed what can't be tested then, where we are not root. */
bool need_root(const char *what);
/* Built with AddressSanitizer, beside which the size of a process says little. */
bool has_sanitizer(void);
/* Of a clock that nobody sets. */
uint64_t clock_us(void);
/* How often something is done: the second with FULL in the environment; else the first, or a tenth where it is emulated. */
unsigned repetitions(unsigned in_short, unsigned in_full);

/*
 * Another process that tidies up when the test ends, in whatever way: calls `tidy` once nobody holds the leash any more.
 */
struct janitor {
	pid_t pid;
	int leash;
};
void janitor_start(struct janitor *, void (*tidy)(const char *what), const char *what);
/* It has done so when this returns. */
void janitor_end(struct janitor *);

/* Writes a file; restores what it said before with the test's end, or janitor_end(). */
void write_file(const char *path, const char *text);
void change_file(struct janitor *, const char *path, const char *text);
/* The same with its mode. */
void change_mode(struct janitor *, const char *path, mode_t mode);

/* No file is left on this machine for anybody who is not root, and so neither for the daemon nor for the keeper. Guests only. */
struct shortage {
	struct janitor janitor;
	int files[2000];
};
void shortage_begin(struct shortage *);
void shortage_end(struct shortage *);

/* One that has ended may still be there for its parent to ask after: it does not run. */
bool is_running(pid_t pid);
/* Those whose parent that is, of that name or any; how many. The first `n` of them go to `ret`. */
size_t children_of(pid_t parent, const char *comm, pid_t *ret, size_t n);
uint64_t count_fds(pid_t pid);
/* A number of /proc/PID/status: "VmRSS:". */
uint64_t proc_status(pid_t pid, const char *key, int base);

/* The names of the kernel's events, each behind a newline and before one. The caller's; NULL: it has no user_events. */
char *read_events(void);
/* One that is not in `before`: its name, or "" and false. */
bool find_new_event(const char *before, char *ret, size_t size);
/* Once nobody uses it; fine if there is none. */
void delete_event(const char *event);
/* All of those, where the kernel keeps what nobody deletes. */
void delete_new_events(const char *before);
/* The kernel's own words: the event's line in user_events_status; false where there is none. */
bool status_line(const char *event, char *ret, size_t size);
bool kernel_has(const char *event);
