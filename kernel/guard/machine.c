/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "kernel/guard/loader.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "kernel/privileges.h"

enum { NOT_SUPPORTED_BY_KERNEL = 524 }; /* the kernel's ENOTSUPP, which <errno.h> does not have */

int guard_machine_has_bpf(struct text *why)
{
	const uint64_t needed = CAPABILITY(CAP_BPF) | CAPABILITY(CAP_PERFMON), held = privileges_held();

	if (syscall(SYS_bpf, -1, NULL, 0) < 0 && errno == ENOSYS) {
		text_printf(why, "this kernel has no BPF (CONFIG_BPF_SYSCALL=y)");
		return -EOPNOTSUPP;
	}
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
		text_printf(why, "this kernel doesn't describe its types for BPF: there is no /sys/kernel/btf/vmlinux "
				 "(CONFIG_DEBUG_INFO_BTF=y)");
		return -EOPNOTSUPP;
	}
	if ((held & needed) != needed && !(held & CAPABILITY(CAP_SYS_ADMIN))) {
		text_printf(why,
			    "no permission to load BPF programs (CAP_BPF and CAP_PERFMON); run userevd-guard as root");
		return -EPERM;
	}
	return 0;
}

void guard_machine_drop_privileges(void)
{
	const uint64_t held = privileges_held();
	uint64_t keep = CAPABILITY(CAP_BPF) | CAPABILITY(CAP_PERFMON);

	/* A container may have only CAP_SYS_ADMIN, which was enough before Linux 5.8. */
	if ((held & keep) != keep)
		keep |= CAPABILITY(CAP_SYS_ADMIN);
	(void)privileges_keep(keep & held);
}

/* Whether the file shows `choice`, brackets included. */
static bool has_chosen(const char *path, const char *choice)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[MAX(n, 0)] = '\0';
	return strstr(text, choice);
}

bool guard_machine_is_preemptible(void)
{
	static const char dynamic[] = "/sys/kernel/debug/sched/preempt";
	struct utsname name;

	if (uname(&name) < 0 || !strstr(name.version, " PREEMPT"))
		return false;
	/* PREEMPT_DYNAMIC: the mode may have been chosen at boot. */
	return !has_chosen(dynamic, "(none)") && !has_chosen(dynamic, "(voluntary)");
}

void guard_machine_explain_refusal(int error, struct text *why)
{
	if (has_chosen("/sys/kernel/security/lockdown", "[confidentiality]"))
		text_printf(why, "the kernel is locked down (confidentiality): no BPF program may read its memory");
	else if (error == -EPERM)
		text_printf(why,
			    "the kernel lets this process load no BPF programs, though it has CAP_BPF and CAP_PERFMON "
			    "(a user namespace? seccomp?)");
	else if (error == -ESRCH)
		text_printf(
			why,
			"this kernel has no security hooks that BPF programs can be attached to (CONFIG_SECURITY=y)");
	else if (error == -NOT_SUPPORTED_BY_KERNEL)
		text_printf(why, "this kernel can't attach BPF programs to its functions (CONFIG_FUNCTION_TRACER=y, "
				 "CONFIG_BPF_JIT=y)");
	else
		text_printf(why, "the kernel doesn't take the guard: %s; --verbose tells more", strerror(-error));
}
