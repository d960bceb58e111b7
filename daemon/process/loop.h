/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* libev's loop, with answers to its errors. */

struct ev_loop;

/* Before the first loop. */
void loop_init(void);
/* One for the whole process. NULL after a line in the log. */
struct ev_loop *loop_new(void);
