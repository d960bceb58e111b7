/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Giving up root's privileges; each test runs in a process of its own. */

#include "daemon/process/unprivileged.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "tests/suite.h"

static void do_nothing(void *data _unused_)
{
}

TEST(janitor_has_no_copies_of_fds_from_the_start)
{
	const struct user nobody = { 65534, 65534 };
	struct janitor janitor;
	struct pollfd ask;
	cpu_set_t one;
	int ends[2];

	if (geteuid() != 0)
		return;
	/* On one processor, with a lower priority, the new process runs only while this one waits. */
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){ .sched_priority = 1 });
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_eq(unprivileged_become(&nobody, &janitor, do_nothing, NULL), 0);
	close(ends[1]);
	ask = (struct pollfd){ .fd = ends[0], .events = POLLIN };
	ck_assert_int_eq(poll(&ask, 1, 0), 1);
	ck_assert_int_eq(ask.revents, POLLHUP);
	close(ends[0]);
	ck_assert(janitor_end(&janitor));
}

int main(void)
{
	return run_all_tests();
}
