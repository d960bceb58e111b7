/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The same program with an event; it also prints the time when the event is registered. */

#include <time.h>
#include <unistd.h>

#include "client/userev.h"

USEREV_EVENT(bench, declared, (u32, turn), (u64, cost));

int main(void)
{
	struct timespec time[2];

	clock_gettime(CLOCK_MONOTONIC, &time[0]);
	while (!userev_event_name(USEREV_EVENT_OF(bench_declared)))
		if (userev_poll(NULL, -1) < 0)
			usleep(1000);
	clock_gettime(CLOCK_MONOTONIC, &time[1]);
	return write(STDOUT_FILENO, time, sizeof(time)) != sizeof(time);
}
