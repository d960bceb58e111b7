/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <unistd.h>

#include "kernel/user_events/look.h"
#include "tests/suite.h"

/* Only invalid values: a kernel with this setting would take a valid one. */
TEST(maximum_that_no_kernel_can_hold_is_refused)
{
	ck_assert_int_eq(look_set_maximum(0), -ERANGE);
	ck_assert_int_eq(look_set_maximum(KERNEL_EVENTS_MAX + 1), -ERANGE);
	ck_assert_int_eq(look_set_maximum(UINT32_MAX), -ERANGE);
	/* Within the range it is the kernel that refuses. */
	if (access("/proc/sys/kernel/user_events_max", F_OK) < 0) {
		ck_assert_int_eq(look_set_maximum(1), -ENOENT);
		ck_assert_int_eq(look_set_maximum(KERNEL_EVENTS_MAX), -ENOENT);
	}
}
