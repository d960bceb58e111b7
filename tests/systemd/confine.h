/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * For daemons and keepers that tests start by hand: from the moment on at which nothing more is done that takes root's privileges,
 * and which for a unit is its beginning, they are under the filters of their units.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#define NATIVE 0xc000003e
#else
#define NATIVE 0xc00000b7
#endif

#define LOAD(what)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
/* Whether it goes on with the next, or leaves out so many. */
#define IF_EQUAL(value, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, otherwise)
#define ALLOW(number)		   IF_EQUAL(number, 1), RETURN(SECCOMP_RET_ALLOW)

/* SystemCallArchitectures=native, and what stands between this and RETURN(SECCOMP_RET_KILL_PROCESS) is allowed. */
#define BEGIN_ALLOWED                                                                                                  \
	LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr)

/* From here on. A program that gets SIGUSR2 then calls what no unit allows: so a test sees that it is killed. */
void confine(const struct sock_filter *allowed, size_t n);
