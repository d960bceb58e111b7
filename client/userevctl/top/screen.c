/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * The terminal belongs to the shell. While top has it, it is without echo and line editing, on its other screen, without a
 * cursor and without wrapping. Signals that would end or stop top come through a signalfd, so that the terminal is always
 * restored first.
 *
 * A key of one character is one byte; the arrows and their like are ESC [ … or ESC O …, which come in one read().
 */

#include <ctype.h>
#include <poll.h>

#include "client/userevctl/top/top.h"

enum { WRITE_TIMEOUT_MS = 1000 };

#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

int top_key_take(const char **bytes, const char *end)
{
	const char *first = *bytes + 2, *last = first;

	/* A letter, or the key Esc alone. */
	if (**bytes != '\033' || end - *bytes < 3 || !strchr("[O", (*bytes)[1]))
		return tolower((unsigned char)*(*bytes)++);
	while (last + 1 < end && (*last < '@' || *last > '~'))
		last++;
	*bytes = last + 1;
	return last == first || (last == first + 1 && *last == '~') ? KEY_SEQUENCE + *first : 0;
}

static struct top_screen *entered;

void top_screen_leave(struct top_screen *screen)
{
	sigset_t before;

	if (!entered)
		return;
	top_screen_write(screen, LEAVE, strlen(LEAVE));
	/* In the background SIGTTOU would stop top here; blocked, it does not. */
	before = signals_mask(SIG_BLOCK, SIGNALS(SIGTTOU));
	tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->saved);
	sigprocmask(SIG_SETMASK, &before, NULL);
	entered = NULL;
}

/* Also if memory is short, which ends the program anywhere. */
static void leave_at_exit(void)
{
	top_screen_leave(entered);
}

int top_screen_open(struct top_screen *screen, int out)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);

	*screen = (struct top_screen){ .out = out };
	/* A shell that starts top in the background has the terminal in modes of its own, which must not be saved. */
	if (front > 0 && front != getpgrp())
		raise(SIGTTOU);
	if (tcgetattr(STDIN_FILENO, &screen->saved) < 0)
		return -errno;
	screen->signals = signals_take(SIGNALS(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH));
	if (screen->signals < 0)
		return -errno;
	atexit(leave_at_exit);
	return 0;
}

void top_screen_enter(struct top_screen *screen)
{
	struct termios modes = screen->saved;

	modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	modes.c_iflag &= ~(tcflag_t)IXON;
	modes.c_cc[VMIN] = 1;
	modes.c_cc[VTIME] = 0;
	/* In the background this stops top, until it is in the foreground. */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
	top_screen_write(screen, ENTER, strlen(ENTER));
	entered = screen;
}

void top_screen_stop(struct top_screen *screen)
{
	sigset_t before;

	top_screen_leave(screen);
	raise(SIGTSTP);
	before = signals_mask(SIG_UNBLOCK, SIGNALS(SIGTSTP));
	sigprocmask(SIG_SETMASK, &before, NULL);
	top_screen_enter(screen);
}

int top_screen_write(const struct top_screen *screen, const char *text, size_t size)
{
	struct pollfd writable = { .fd = screen->out, .events = POLLOUT };

	while (size > 0) {
		ssize_t n = write(screen->out, text, size);

		/* Another program on the terminal may have made it non-blocking. */
		if (n < 0 && errno != EINTR && (errno != EAGAIN || poll(&writable, 1, WRITE_TIMEOUT_MS) <= 0))
			return -errno;
		text += MAX(n, 0);
		size -= (size_t)MAX(n, 0);
	}
	return 0;
}
