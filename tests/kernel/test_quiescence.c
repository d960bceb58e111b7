/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/kernel/user_events.h"

/*
 * When has the last record of a disabled event been written? Not when the write to "enable" returns: a writer on another CPU may
 * still be in its system call. All have been written after an RCU grace period, for which membarrier() waits.
 */

enum { WRITERS = 6, ROUNDS = 12, WARM_UP_US = 20000, REST_US = 50000, CPUS_MAX = 64 };

struct hammer {
	int data;
	atomic_bool ends;
	pthread_t writer[WRITERS];
};

static void *write_on(void *argument)
{
	struct hammer *hammer = argument;

	while (!atomic_load(&hammer->ends))
		write_value(hammer->data, 0);
	return NULL;
}

static void begin(struct hammer *hammer)
{
	for (size_t i = 0; i < WRITERS; i++)
		ck_assert_int_eq(pthread_create(&hammer->writer[i], NULL, write_on, hammer), 0);
}

static void end(struct hammer *hammer)
{
	atomic_store(&hammer->ends, true);
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(hammer->writer[i], NULL);
}

/* The records in all CPUs' buffers, overwritten records included. */
static unsigned long records_so_far(void)
{
	unsigned long sum = 0;

	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		char path[128], text[1024];
		unsigned long entries = 0, overrun = 0;

		snprintf(path, sizeof(path), TRACEFS "/per_cpu/cpu%d/stats", cpu);
		if (access(path, R_OK) < 0)
			break;
		read_file(path, text, sizeof(text));
		ck_assert_int_eq(sscanf(text, "entries: %lu overrun: %lu", &entries, &overrun), 2);
		sum += entries + overrun;
	}
	return sum;
}

/* Whether a record has been written since. */
static bool more_come(void)
{
	unsigned long before = records_so_far();

	usleep(REST_US);
	return records_so_far() != before;
}

TEST(membarrier_waits_for_last_record_of_disabled_event)
{
	_cleanup_(machine_leave) struct machine machine = machine_enter();
	struct hammer hammer = { .data = machine.data };

	ck_assert_int_eq(join(machine.data, machine.text), 0);
	begin(&hammer);
	for (int i = 0; i < ROUNDS; i++) {
		switch_event(machine.event, true);
		usleep(WARM_UP_US);
		ck_assert(eventually(more_come()));
		switch_event(machine.event, false);
		ck_assert_int_eq(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), 0);
		ck_assert(!more_come());
	}
	end(&hammer);
}
END_TEST

PROMISES("quiescence", EITHER(membarrier_waits_for_last_record_of_disabled_event))
