/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* libev's loop, with answers to its errors. */

struct ev_loop;

/* Before the first loop. */
void loop_init(void);
/* One for the whole process, which exits after a line in the log where it can't have a loop. */
struct ev_loop *loop_new(void);
