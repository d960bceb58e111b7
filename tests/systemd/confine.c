/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * SystemCallFilter= depends on systemd's version, and comes from systemd itself (unit_syscalls.sh). The other settings of our units that
 * make filters are here, with systemd's errnos: programs may expect a refusal, as the C library does if there is no clone3().
 */

#include "tests/systemd/confine.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "protocol/base/base.h"

#define LOAD_LOW(n)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define ANSWER(number) RETURN(SECCOMP_RET_ERRNO | (number))

#define REFUSE(number, answer) LOAD(nr), IF_EQUAL(number, 1), ANSWER(answer)
/* If the n-th argument is not that value. */
#define REFUSE_OTHERS(number, n, value, answer)                                                                        \
	LOAD(nr), IF_EQUAL(number, 3), LOAD_LOW(n), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0), ANSWER(answer)
/* If it has all of those bits. */
#define REFUSE_BITS(number, n, bits)                                                                                   \
	LOAD(nr), IF_EQUAL(number, 4), LOAD_LOW(n), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits), IF_EQUAL(bits, 1),      \
		ANSWER(EPERM)
/* If it has any of them. */
#define REFUSE_ANY(number, n, bits)                                                                                    \
	LOAD(nr), IF_EQUAL(number, 3), LOAD_LOW(n), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), ANSWER(EPERM)

#define NAMESPACES                                                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static const struct sock_filter refused[] = {
	/* RestrictAddressFamilies=AF_UNIX */
	REFUSE_OTHERS(SYS_socket, 0, AF_UNIX, EAFNOSUPPORT),
	/* RestrictNamespaces=yes; what is behind a pointer can't be looked at */
	REFUSE(SYS_clone3, ENOSYS),
	REFUSE_ANY(SYS_clone, 0, NAMESPACES),
	REFUSE_ANY(SYS_unshare, 0, NAMESPACES),
	REFUSE(SYS_setns, EPERM),
	/* RestrictSUIDSGID=yes */
	REFUSE_ANY(SYS_fchmod, 1, S_ISUID | S_ISGID),
	REFUSE_ANY(SYS_fchmodat, 2, S_ISUID | S_ISGID),
	REFUSE_ANY(SYS_mkdirat, 2, S_ISUID | S_ISGID),
	REFUSE_ANY(SYS_mknodat, 2, S_ISUID | S_ISGID),
	REFUSE(SYS_openat2, ENOSYS),
#ifdef SYS_chmod
	REFUSE_ANY(SYS_chmod, 1, S_ISUID | S_ISGID),
	REFUSE_ANY(SYS_mkdir, 1, S_ISUID | S_ISGID),
	REFUSE_ANY(SYS_mknod, 1, S_ISUID | S_ISGID),
#endif
	/* LockPersonality=yes */
	REFUSE_OTHERS(SYS_personality, 0, 0, EPERM),
	/* MemoryDenyWriteExecute=yes */
	REFUSE_BITS(SYS_mmap, 2, PROT_WRITE | PROT_EXEC),
	REFUSE_BITS(SYS_mprotect, 2, PROT_EXEC),
	REFUSE_BITS(SYS_pkey_mprotect, 2, PROT_EXEC),
	REFUSE_BITS(SYS_shmat, 2, SHM_EXEC),
	RETURN(SECCOMP_RET_ALLOW),
};

static void load(const struct sock_filter *filter, size_t n)
{
	struct sock_fprog program = { .len = (unsigned short)n, .filter = (struct sock_filter *)(uintptr_t)filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0)
		return;
	fprintf(stderr, "can't confine this program: %s\n", strerror(errno));
	_exit(EXIT_FAILURE);
}

/* Harmless without a filter. */
static void call_what_is_forbidden(int signal _unused_)
{
	syscall(SYS_swapoff, NULL); /* NOLINT(bugprone-signal-handler,cert-sig30-c): nothing but that call */
}

void confine(const struct sock_filter *allowed, size_t n)
{
	signal(SIGUSR2, call_what_is_forbidden);
	load(refused, ARRAY_SIZE(refused));
	load(allowed, n);
}
