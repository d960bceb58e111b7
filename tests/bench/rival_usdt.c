/* SPDX-License-Identifier: GPL-2.0-or-later */

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "tests/bench/rival.h"

/* What turns the probe on counts it up. */
__extension__ unsigned short userevd_bench_turned_semaphore __attribute__((section(".probes")));

void __attribute__((noinline, aligned(64))) rival_usdt(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		if (__builtin_expect(*(volatile unsigned short *)&userevd_bench_turned_semaphore, 0))
			DTRACE_PROBE2(userevd_bench, turned, i, 7);
		__asm__ __volatile__("" ::: "memory");
	}
}
