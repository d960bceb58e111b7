/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the benchmarks have in common. */

#include <stdio.h>
#include <time.h>

#include "protocol/base.h"

static inline void fail(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

/* In microseconds. */
static inline double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static inline int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* Sorts them. */
static inline double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}
