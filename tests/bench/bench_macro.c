/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What does userev_emit() cost beside a writev() by hand, of a program that has index, file and layout? Both write the same records to
 * data files of the same broker.
 */

#include <sys/uio.h>

#include "tests/bench/bench.h"

/* An embedded daemon has room for so many at a time. */
enum { FEW = 64, BLOCKS = 125 };

USEREV_EVENT(bench, numbers, (u32, turn), (u64, cost));
USEREV_EVENT(bench, typed, (u32, turn), (u64, cost), (string, name));

/* The same event twice. */
struct record {
	const char *name;
	char description[1][NAME_BYTES];
	double (*emit)(void);
	double (*write_by_hand)(void);
};

static int stream;
static uint32_t index_on_stream;

static double emit_numbers(void)
{
	double begin = now();

	for (uint32_t i = 0; i < FEW; i++)
		userev_emit(bench_numbers, i, 7);
	return now() - begin;
}

static double emit_typed(void)
{
	double begin = now();

	for (uint32_t i = 0; i < FEW; i++)
		userev_emit(bench_typed, i, 7, "a name");
	return now() - begin;
}

static double write_numbers(void)
{
	struct {
		uint32_t turn;
		uint64_t cost;
	} __attribute__((packed)) payload = { .cost = 7 };
	const struct iovec record[] = { { &index_on_stream, sizeof(index_on_stream) }, { &payload, sizeof(payload) } };
	double begin = now();

	for (payload.turn = 0; payload.turn < FEW; payload.turn++)
		if (writev(stream, record, 2) < 0)
			fail("writev");
	return now() - begin;
}

static double write_typed(void)
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

static struct record records[] = {
	{ "a record with two numbers", { "bench_numbers u32 turn; u64 cost" }, emit_numbers, write_numbers },
	{ "a record with two numbers and a string",
	  { "bench_typed u32 turn; u64 cost; __rel_loc char[] name" },
	  emit_typed,
	  write_typed },
};

/* The two in turn, block by block. */
static void round_of(const struct record *record, struct side *ours, struct side *theirs, bool with_pauses)
{
	double our_time[BLOCKS], their_time[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++) {
		our_time[i] = record->emit();
		if (with_pauses)
			usleep(300);
		their_time[i] = record->write_by_hand();
		if (with_pauses)
			usleep(300);
	}
	side_add(ours, median(our_time, BLOCKS) * 1e3 / FEW);
	side_add(theirs, median(their_time, BLOCKS) * 1e3 / FEW);
}

static void switch_event(const struct broker *broker, const char *name, bool on)
{
	if (has_user_events())
		direct_switch(name, on);
	else
		broker_switch(broker, name, on);
}

static void compare(const struct broker *broker, struct record *record)
{
	struct side ours = { .name = "userev_emit" }, theirs = { .name = "writev by hand" };
	const char *name = name_of(record->description[0]);
	unsigned rounds = pick(21, 7);

	stream = -1;
	ask_broker(connect_to_broker(broker), record->description, 1, &stream, &index_on_stream);
	switch_event(broker, name, true);
	if (stream < 0)
		fail("no data file");
	for (unsigned i = 0; i < rounds; i++)
		round_of(record, &ours, &theirs, !has_user_events());
	report(record->name, "ns", &ours, &theirs, counted(1) ? 0.84 : 1.03);
	switch_event(broker, name, false);
}

/* Declared events are registered before main(), so the daemon starts first, and then this program again. */
int main(int argc, char **argv)
{
	struct broker broker = { 0 };
	pid_t pid;

	if (argc == 1) {
		broker_start(&broker);
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
	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		compare(&broker, &records[i]);
	return EXIT_SUCCESS;
}
