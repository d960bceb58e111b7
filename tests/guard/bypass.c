/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/guard/bypass.h"

#include "tests/guard/stand_in.h"
#include "tests/suite.h"

const char *const operation_names[OPERATIONS] = {
	[REGISTER_NEW] = "REG of a new event",
	[REGISTER_FOREIGN] = "REG of another's event",
	[DELETE_FOREIGN] = "DEL",
	[UNREGISTER] = "UNREG",
	[UNLOCK] = "unlocking",
	[CHMOD] = "fchmod",
	[CHOWN] = "fchown",
};

struct bypass bypasses[BYPASSES_MAX];
int n_bypasses;
int n_ioctl_bypasses;

static bool is_possible(const struct way *way, enum operation operation)
{
	if (way->narrow && !runs_narrow_programs())
		return false;
	return (operation < IOCTLS || !way->ioctls_only) && (operation <= UNLOCK || !way->nothing_to_change);
}

void bypasses_list(void)
{
	n_bypasses = n_ioctl_bypasses = 0;
	for (int operation = 0; operation < OPERATIONS; operation++) {
		for (size_t i = 0; i < n_ways; i++) {
			if (!is_possible(&ways[i], (enum operation)operation))
				continue;
			bypasses[n_bypasses++] = (struct bypass){ &ways[i], (enum operation)operation };
			n_ioctl_bypasses += operation < IOCTLS;
		}
	}
}

static int register_foreign(void *data)
{
	return attempt(*(int *)data, REGISTER_NEW, kernel_manner(), FOREIGN);
}

int make_foreign_event(void)
{
	int fd = open("/sys/kernel/tracing/user_events_data", O_WRONLY | O_CLOEXEC);

	/* In a child: an enabler of ours would hold the event as well. */
	ck_assert_int_eq(run_in_child(register_foreign, &fd), 0);
	return fd;
}

int try_bypass(const struct bypass *bypass, int fd, char *ret_event, size_t size)
{
	snprintf(ret_event, size, "guard_new_%d", (int)getpid());
	return try_way(bypass->way, fd, bypass->operation, bypass->operation == REGISTER_NEW ? ret_event : FOREIGN);
}

bool event_exists(const char *event)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/user_events/%s", event);
	return access(path, F_OK) == 0;
}
