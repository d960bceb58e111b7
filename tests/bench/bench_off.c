/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What does an event cost that is off? Loops that differ only in the test. run.py lets callgrind count the instructions of each, in
 * a run with one argument, the number of turns.
 */

#include "tests/bench/bench.h"
#include "tests/bench/rival.h"

/* Turns in each of five loops, of which the shortest counts: a disturbance only makes it longer. Fewer where the clock counts. */
enum { TIMES = 4000000, TIMES_COUNTED = 10000, BEST_OF = 5 };

USEREV_EVENT(bench, turned, (u32, turn), (u64, cost));

static volatile uint32_t word;
static uint64_t costs;

/* Must not be called while the event is off. */
static uint64_t __attribute__((noinline)) cost(void)
{
	return ++costs;
}

#define LOOP(name, test)                                                                                               \
	void __attribute__((noinline, aligned(64))) name(uint32_t times);                                              \
	void __attribute__((noinline, aligned(64))) name(uint32_t times)                                               \
	{                                                                                                              \
		for (uint32_t i = 0; i < times; i++) {                                                                 \
			test;                                                                                          \
			__asm__ __volatile__("" ::: "memory");                                                         \
		}                                                                                                      \
	}

#define EIGHT(test)                                                                                                    \
	test;                                                                                                          \
	test;                                                                                                          \
	test;                                                                                                          \
	test;                                                                                                          \
	test;                                                                                                          \
	test;                                                                                                          \
	test;                                                                                                          \
	test

LOOP(loop_empty, (void)i)
LOOP(loop_word, if (__builtin_expect(word, 0)) cost())
LOOP(loop_event, userev_emit(bench_turned, i, cost()))
/* In a loop of one test the loop's end hides a load. */
LOOP(loop_eight_words, EIGHT(if (__builtin_expect(word, 0)) cost()))
LOOP(loop_eight_events, EIGHT(userev_emit(bench_turned, i, cost())))

static void (*const loops[])(uint32_t) = { loop_event, loop_word,	  rival_lttng,	   rival_usdt,
					   loop_empty, loop_eight_events, loop_eight_words };

static double turn(void (*loop)(uint32_t))
{
	const uint32_t times = counted(1) > 0 ? TIMES_COUNTED : TIMES;
	double best = 0;

	for (unsigned i = 0; i < BEST_OF; i++) {
		double begin = now(), took;

		loop(times);
		took = (now() - begin) * 1e3 / times;
		if (i == 0 || took < best)
			best = took;
	}
	return best;
}

int main(int argc, char **argv)
{
	struct side side[] = { { .name = "userev_emit" },	  { .name = "enable word" }, { .name = "lttng-ust" },
			       { .name = "USDT with semaphore" }, { .name = "empty loop" },  { .name = "userev_emit" },
			       { .name = "enable word" } };
	unsigned rounds = pick(25, 7);

	/* There is no daemon here, and the library must not look for one. */
	userev_seal(NULL);
	if (argc > 1) {
		for (size_t i = 0; i < ARRAY_SIZE(loops); i++)
			loops[i]((uint32_t)strtoul(argv[1], NULL, 10));
		return EXIT_SUCCESS;
	}
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < ARRAY_SIZE(loops); i++)
			side_add(&side[i], turn(loops[i]));
	/* A load more: an instruction of seven, but no time. */
	report("test of an event that is off, in a loop", "ns", &side[0], &side[1], counted(1) > 0 ? 1.2 : 1.05);
	for (size_t i = 2; i < 5; i++)
		report("test of an event that is off, in a loop", "ns", &side[0], &side[i], 0);
	report("test of an event that is off, eight in a row: all", "ns", &side[5], &side[6], 1.3);
	return costs != 0;
}
