/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The terminal belongs to the shell and is borrowed: without echo and line editing, on its other screen, without a cursor and
 * without wrapping. Signals that would end or stop us come through a file, so that it is always given back first.
 */

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include "client/userevctl/top/top.h"

enum { WRITE_PATIENCE_MS = 1000 }; /* for a terminal that takes nothing now */

#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static sigset_t wanted_signals(void)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		sigaddset(&set, wanted[i]);
	return set;
}

/* A shell that starts us in the background has the terminal in modes of its own: those are not what is to come back. */
static void come_to_front(int terminal)
{
	pid_t front = tcgetpgrp(terminal);

	if (front > 0 && front != getpgrp())
		raise(SIGTTOU);
}

int top_screen_open(struct top_screen *screen, int in, int out)
{
	const sigset_t set = wanted_signals();

	*screen = (struct top_screen){ .in = in, .out = out };
	come_to_front(in);
	if (tcgetattr(in, &screen->saved) < 0)
		return -errno;
	screen->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (screen->signals < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &set, &screen->mask);
	return 0;
}

/* From the background that would stop us; blocked, it does not. */
static void set_modes(const struct top_screen *screen, const struct termios *modes)
{
	sigset_t set, before;

	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	sigprocmask(SIG_BLOCK, &set, &before);
	tcsetattr(screen->in, TCSADRAIN, modes);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

void top_screen_enter(struct top_screen *screen)
{
	struct termios modes = screen->saved;

	modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	modes.c_iflag &= ~(tcflag_t)IXON;
	modes.c_cc[VMIN] = 1;
	modes.c_cc[VTIME] = 0;
	/* In the background this stops us, until we are in front. */
	tcsetattr(screen->in, TCSADRAIN, &modes);
	top_screen_write(screen, ENTER, strlen(ENTER));
	screen->entered = true;
}

static void leave(struct top_screen *screen)
{
	if (!screen->entered)
		return;
	top_screen_write(screen, LEAVE, strlen(LEAVE));
	set_modes(screen, &screen->saved);
	screen->entered = false;
}

void top_screen_stop(struct top_screen *screen)
{
	sigset_t set, before;

	leave(screen);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	top_screen_enter(screen);
}

void top_screen_close(struct top_screen *screen)
{
	leave(screen);
	screen->signals = fd_close(screen->signals);
	sigprocmask(SIG_SETMASK, &screen->mask, NULL);
}

void top_screen_size(const struct top_screen *screen, size_t *ret_columns, size_t *ret_lines)
{
	struct winsize size = { 0 };

	ioctl(screen->out, TIOCGWINSZ, &size);
	*ret_columns = size.ws_col > 0 ? size.ws_col : 80;
	*ret_lines = size.ws_row > 0 ? size.ws_row : 24;
}

/* Whoever shares the terminal may have made it non-blocking. */
static bool wait_writable(int fd)
{
	struct pollfd wanted = { .fd = fd, .events = POLLOUT };

	return poll(&wanted, 1, WRITE_PATIENCE_MS) > 0;
}

int top_screen_write(const struct top_screen *screen, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t n = write(screen->out, text, size);

		if (n < 0 && errno != EINTR && (errno != EAGAIN || !wait_writable(screen->out)))
			return -errno;
		text += MAX(n, 0);
		size -= (size_t)MAX(n, 0);
	}
	return 0;
}

int top_screen_signal(const struct top_screen *screen)
{
	struct signalfd_siginfo info;

	return read(screen->signals, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}
