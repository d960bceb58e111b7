/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* libev's loop, where the kernel refuses something. */

struct ev_loop;

/* What libev does where it can't go on: before the first loop. */
void loop_init(void);

/* One for the whole process; NULL where there is none to be had that can be woken. */
struct ev_loop *loop_new(void);
