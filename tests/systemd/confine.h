/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Daemons and keepers of tests enter the filters of their units as soon as they need root's privileges no more. For a unit that is the
 * start of its process.
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
/* The filter goes on with the next instruction, or skips so many. */
#define IF_EQUAL(value, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, otherwise)
#define ALLOW(number)		   IF_EQUAL(number, 1), RETURN(SECCOMP_RET_ALLOW)

/* SystemCallArchitectures=native. The calls between this and RETURN(SECCOMP_RET_KILL_PROCESS) are allowed. */
#define BEGIN_ALLOWED                                                                                                  \
	LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr)

/* After SIGUSR2 the program makes a call that no unit allows, and is killed: a test looks for that. */
void confine(const struct sock_filter *allowed, size_t n);
