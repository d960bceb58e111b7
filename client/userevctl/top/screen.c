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
#include <termios.h>

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

static struct termios saved;
static int out; /* the input is stdin */
static bool entered;

void top_screen_leave(void)
{
	sigset_t before;

	if (!entered)
		return;
	top_screen_write(LEAVE, strlen(LEAVE));
	/* In the background SIGTTOU would stop top here; blocked, it does not. */
	before = signals_mask(SIG_BLOCK, SIGNALS(SIGTTOU));
	tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
	sigprocmask(SIG_SETMASK, &before, NULL);
	entered = false;
}

int top_screen_open(int output)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);
	int signals;

	out = output;
	/* A shell that starts top in the background has the terminal in modes of its own, which must not be saved. */
	if (front > 0 && front != getpgrp())
		raise(SIGTTOU);
	if (tcgetattr(STDIN_FILENO, &saved) < 0)
		return -errno;
	signals = signals_take(SIGNALS(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH));
	/* Also if memory is short, which ends the program anywhere. */
	atexit(top_screen_leave);
	return signals < 0 ? -errno : signals;
}

void top_screen_enter(void)
{
	struct termios modes = saved;

	modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	modes.c_iflag &= ~(tcflag_t)IXON;
	modes.c_cc[VMIN] = 1;
	modes.c_cc[VTIME] = 0;
	/* In the background this stops top, until it is in the foreground. */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
	top_screen_write(ENTER, strlen(ENTER));
	entered = true;
}

void top_screen_stop(void)
{
	sigset_t before;

	top_screen_leave();
	raise(SIGTSTP);
	before = signals_mask(SIG_UNBLOCK, SIGNALS(SIGTSTP));
	sigprocmask(SIG_SETMASK, &before, NULL);
	top_screen_enter();
}

int top_screen_write(const char *text, size_t size)
{
	struct pollfd writable = { .fd = out, .events = POLLOUT };

	while (size > 0) {
		ssize_t n = write(out, text, size);

		/* Another program on the terminal may have made it non-blocking. */
		if (n < 0 && errno != EINTR && (errno != EAGAIN || poll(&writable, 1, WRITE_TIMEOUT_MS) <= 0))
			return -errno;
		text += MAX(n, 0);
		size -= (size_t)MAX(n, 0);
	}
	return 0;
}
