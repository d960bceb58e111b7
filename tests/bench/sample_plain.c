/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A program for bench_declared: prints the time when main() begins. */

#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return write(STDOUT_FILENO, &time, sizeof(time)) != sizeof(time);
}
