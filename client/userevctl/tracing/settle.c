/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The kernel takes the switch of an event back without waiting for those who are under way: a write() looks up its tracers and
 * calls them with preemption disabled, as a reader of RCU (user_events_write_core()), and on another CPU it may have looked up
 * ours just before they were taken away. What waits for all of those is a grace period. (perf waits for one by itself when it
 * ends, and so does an instance that is removed.)
 */

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "client/userevctl/tracing/tracefs.h"

/*
 * This is synchronize_rcu(), since Linux 4.3. There is none with nohz_full, and seccomp filters may not know it; the end of an
 * instance has the same grace period in it, and costs a directory for each event of the kernel.
 */
static bool membarrier_waits(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

static int make_and_remove_instance(void)
{
	struct tracefs_instance *instance;
	char name[64];
	int r = 0;

	snprintf(name, sizeof(name), "userevctl-%d", (int)getpid());
	errno = 0;
	instance = tracefs_instance_create(name);
	if (!instance || tracefs_instance_destroy(instance) < 0)
		r = errno ? -errno : -EIO;
	tracefs_instance_free(instance);
	return r;
}

int tracefs_settle(struct tracing *tracing _unused_)
{
	int r = membarrier_waits() ? 0 : make_and_remove_instance();

	return r == 0 ? EXIT_DONE : tracefs_explain("wait for the last records", r);
}
