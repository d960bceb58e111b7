/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/process/loop.h"

#include <ev.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "tests/suite.h"
#include "tests/unit/epoll.h"

TEST(loop_without_room_for_its_own_fd_is_not_made)
{
	pid_t child = fork();
	int status;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		loop_init();
		epoll_is_full = true;
		loop_new();
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, "%#x", (unsigned)status);
}

static unsigned refusals;

static void on_refused(struct ev_loop *loop, ev_io *w, int events)
{
	ck_assert_int_ne(events & EV_ERROR, 0);
	refusals++;
	ev_io_set(w, w->fd, EV_WRITE);
	ev_io_start(loop, w);
}

static void on_end(struct ev_loop *loop, ev_timer *w _unused_, int events _unused_)
{
	ev_break(loop, EVBREAK_ALL);
}

TEST(watcher_that_is_refused_is_called_at_once)
{
	struct ev_loop *loop = loop_new();
	ev_timer timer;
	ev_io refused;

	epoll_is_full = true;
	ev_io_init(&refused, on_refused, STDERR_FILENO, EV_WRITE);
	ev_io_start(loop, &refused);
	ev_timer_init(&timer, on_end, 3., 0.);
	ev_timer_start(loop, &timer);
	ev_run(loop, 0);
	ck_assert_uint_gt(refusals, 2);
	ev_io_stop(loop, &refused);
	ev_loop_destroy(loop);
}

/* The daemon's clients are watched so. */
TEST(events_of_others_are_passed_on)
{
	struct ev_loop *loop = loop_new();
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = LOOP_EVENT_TAG | (uintptr_t)loop };
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	epoll_is_full = false;
	ck_assert_int_eq(epoll_ctl(loop_epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert(loop_next_event(&event));
	ck_assert_ptr_eq((struct ev_loop *)(uintptr_t)event.data.u64, loop);
	ck_assert_uint_eq(event.events, EPOLLIN);
	ck_assert(!loop_next_event(&event));
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert(!loop_next_event(&event));
	close(ends[0]);
	close(ends[1]);
	ev_loop_destroy(loop);
}
