/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <ev.h>

/*
 * Calls `look` every so many seconds, until `look` stops the timer. Does nothing while the timer runs. The timer begins as zeros, and may
 * still run when the loop is destroyed. An interval that it has already stays: tests set one.
 */
static inline void timer_repeat(struct ev_loop *loop, ev_timer *timer, void (*look)(struct ev_loop *, ev_timer *, int),
				double interval)
{
	if (ev_is_active(timer))
		return;
	ev_timer_init(timer, look, 0., timer->repeat > 0. ? timer->repeat : interval);
	ev_timer_again(loop, timer);
}
