/* SPDX-License-Identifier: GPL-2.0-or-later */

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/rival_lttng_events.h"

#include <signal.h>

#include "tests/bench/bench.h"
#include "tests/bench/rival.h"

static pid_t session_daemon;

void __attribute__((noinline, aligned(64))) rival_lttng(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		lttng_ust_tracepoint(userevd_bench, turned, i, 7);
		__asm__ __volatile__("" ::: "memory");
	}
}

static bool lttng(const char *a, const char *b, const char *c, const char *d)
{
	const char *argv[] = { "lttng", "--no-sessiond", a, b, c, d, NULL };

	return run(argv);
}

static bool eventually(bool (*is_so)(void))
{
	for (unsigned i = 0; i < 1200; i++) {
		if (is_so())
			return true;
		usleep(50000);
	}
	return false;
}

static bool is_listening(void)
{
	return lttng("list", NULL, NULL, NULL);
}

static bool is_on(void)
{
	return lttng_ust_tracepoint_enabled(userevd_bench, turned);
}

bool rival_lttng_start(void)
{
	const char *argv[] = { "lttng-sessiond", "--no-kernel", "--quiet", NULL };

	session_daemon = start(argv, NULL);
	return eventually(is_listening) && lttng("create", "userevd-bench", "--snapshot", NULL) &&
	       lttng("enable-event", "--userspace", "userevd_bench:turned", NULL) && lttng("start", NULL, NULL, NULL) &&
	       eventually(is_on);
}

void rival_lttng_stop(void)
{
	lttng("destroy", "userevd-bench", NULL, NULL);
	finish(session_daemon, SIGTERM);
}
