/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Signals end a tail in an orderly way: its instance is ours to remove. */

#include "client/userevctl/tracing/tail.h"

volatile sig_atomic_t tail_stopped;

static int stop_fd = -1;
static const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static struct sigaction before[ARRAY_SIZE(stopping)];

static void on_signal(int number)
{
	int saved = errno;
	uint64_t one = 1;

	tail_stopped = number;
	if (write(stop_fd, &one, sizeof(one)) < 0)
		errno = saved;
	errno = saved;
}

/* Without SA_RESTART: a write that waits for a reader ends, too. What was ignored stays so. */
void tail_signals_catch(int eventfd)
{
	struct sigaction action = { .sa_handler = on_signal };

	stop_fd = eventfd;
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		if (sigaction(stopping[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
			sigaction(stopping[i], &action, NULL);
}

void tail_signals_release(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(stopping) && stop_fd >= 0; i++)
		sigaction(stopping[i], &before[i], NULL);
	stop_fd = -1;
}
