/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What does userev_emit() cost beside a writev() that somebody wrote by hand, who has the index, the file and the layout? Both
 * go to data files of the same broker; the records of both are the same.
 */

#include <sys/uio.h>

#include "tests/bench/bench.h"

/* So few at a time that an embedded daemon has room for them. */
enum { FEW = 64, BLOCKS = 125 };

USEREV_EVENT(bench, typed, (u32, turn), (u64, cost), (string, name));

static int stream = -1;
static uint32_t index_on_stream;

static double emit_typed(void)
{
	double begin = now();

	for (uint32_t i = 0; i < FEW; i++)
		userev_emit(bench_typed, i, 7, "a name");
	return now() - begin;
}

static double write_by_hand(void)
{
	struct {
		uint32_t index, turn;
		uint64_t cost;
		uint32_t place;
	} __attribute__((packed)) head = { .index = index_on_stream, .cost = 7 };
	const char *name = "a name";
	double begin = now();

	for (uint32_t i = 0; i < FEW; i++) {
		struct iovec record[] = { { &head, sizeof(head) }, { (void *)(uintptr_t)name, strlen(name) + 1 } };

		head.turn = i;
		head.place = (uint32_t)record[1].iov_len << 16;
		if (writev(stream, record, 2) < 0)
			fail("writev");
	}
	return now() - begin;
}

/* The two in turn, block by block. */
static void round_of(struct side *ours, struct side *theirs, unsigned blocks, bool with_pauses)
{
	double our_time[BLOCKS], their_time[BLOCKS];

	for (unsigned i = 0; i < blocks; i++) {
		our_time[i] = emit_typed();
		if (with_pauses)
			usleep(300);
		their_time[i] = write_by_hand();
		if (with_pauses)
			usleep(300);
	}
	side_add(ours, median(our_time, blocks) * 1e3 / FEW);
	side_add(theirs, median(their_time, blocks) * 1e3 / FEW);
}

static void switch_event(const struct broker *broker, bool on)
{
	if (has_user_events())
		direct_switch("bench_typed", on);
	else
		broker_switch(broker, "bench_typed", on);
}

static void compare(const struct broker *broker)
{
	static char description[1][NAME_BYTES] = { "bench_typed u32 turn; u64 cost; __rel_loc char[] name" };
	struct side ours = { .name = "userev_emit" }, theirs = { .name = "writev by hand" };
	unsigned rounds = pick(21, 7);

	ask_broker(connect_to_broker(broker), description, 1, &stream, &index_on_stream);
	switch_event(broker, true);
	if (!userev_on(bench_typed) || stream < 0)
		fail("bench_typed is not on");
	for (unsigned i = 0; i < rounds; i++)
		round_of(&ours, &theirs, BLOCKS, !has_user_events());
	report("a record with a number, another and a string", "ns", &ours, &theirs, 1.03);
	switch_event(broker, false);
}

/* Declared events are registered before main(), so the daemon starts first, and the program gets its socket in the environment. */
int main(int argc, char **argv)
{
	struct broker broker;
	pid_t pid;

	if (argc == 1) {
		broker_start(&broker, NULL, no_limits);
		setenv("USEREV_SOCKET", broker.socket, 1);
		setenv("USEREV_WAIT", "60000", 1);
		pid = fork();
		if (pid == 0) {
			execl(argv[0], argv[0], broker.socket, broker.control, NULL);
			_exit(127);
		}
		finish(pid, 0);
		broker_stop(&broker);
		return EXIT_SUCCESS;
	}
	snprintf(broker.socket, sizeof(broker.socket), "%s", argv[1]);
	snprintf(broker.control, sizeof(broker.control), "%s", argv[2]);
	compare(&broker);
	return EXIT_SUCCESS;
}
