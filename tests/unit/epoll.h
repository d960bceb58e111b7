/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A kernel that watches no more fds (max_user_watches) while the test says so: epoll_ctl() is this program's own. */

#include <stdbool.h>

extern bool epoll_is_full;
