/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/ctl.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/signalfd.h>
#include <time.h>

void ctl_print(const char *prefix, const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fputs(prefix, stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	putc('\n', stderr);
}

void *must(void *memory)
{
	if (memory)
		return memory;
	ctl_error("out of memory.");
	exit(EXIT_REFUSED);
}

uint64_t ctl_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

int ctl_output_failed(int error)
{
	if (error == -EPIPE)
		return EXIT_DONE;
	ctl_error("cannot write the output: %s.", strerror(-error));
	return EXIT_REFUSED;
}

int ctl_finish(struct ctl *ctl)
{
	int r = output_flush(&ctl->output);

	return r < 0 ? ctl_output_failed(r) : EXIT_DONE;
}

static sigset_t signal_set(const int *signals)
{
	sigset_t set;

	sigemptyset(&set);
	while (*signals)
		sigaddset(&set, *signals++);
	return set;
}

sigset_t signals_mask(int how, const int *signals)
{
	sigset_t set = signal_set(signals), before;

	sigprocmask(how, &set, &before);
	return before;
}

int signals_take(const int *signals)
{
	sigset_t set = signal_set(signals);

	signals_mask(SIG_BLOCK, signals);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int signals_next(int fd)
{
	struct signalfd_siginfo info;

	return read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

void ctl_end_by_signal(struct ctl *ctl)
{
	struct pollfd writable = { .fd = fileno(ctl->output.file), .events = POLLOUT };

	if (poll(&writable, 1, 0) > 0 && writable.revents == POLLOUT)
		output_flush(&ctl->output);
	signal(ctl->signal, SIG_DFL);
	signals_mask(SIG_UNBLOCK, SIGNALS(ctl->signal));
	raise(ctl->signal);
}
