/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * What does a record of an event that is on cost, by libuserev and by the program's own writev(), through the file that the broker
 * passed? Beside a writev() to a file that the program opened and registered on itself, trace_marker, lttng-ust, and a uprobe on
 * an empty function. As root, in a guest.
 */

#include <fcntl.h>
#include <sys/uio.h>

#include "tests/bench/bench.h"
#include "tests/bench/rival.h"

/* At a time, and so often in a round, of which the median counts: on a busy machine other programs run in between. */
enum { RECORDS = 100, TIMES = 80 };

struct payload {
	uint32_t turn;
	uint64_t cost;
} __attribute__((packed));

static struct broker broker;
static struct userev_event event;
static int data, passed = -1, marker;
static uint32_t index_on_data, index_on_passed;

static double each(double begin)
{
	return (now() - begin) * 1e3 / RECORDS;
}

static double write_brokered(void)
{
	struct payload payload = { .cost = 7 };
	double begin = now();

	for (payload.turn = 0; payload.turn < RECORDS; payload.turn++)
		if (userev_write(&event, &payload, sizeof(payload)) != sizeof(payload))
			fail("userev_write");
	return each(begin);
}

/* As programs do it: index and payload are separate. */
static double write_to(int fd, uint32_t index)
{
	struct payload payload = { .cost = 7 };
	const struct iovec record[] = { { &index, sizeof(index) }, { &payload, sizeof(payload) } };
	double begin = now();

	for (payload.turn = 0; payload.turn < RECORDS; payload.turn++)
		if (writev(fd, record, 2) != sizeof(index) + sizeof(payload))
			fail("writev");
	return each(begin);
}

static double write_directly(void)
{
	return write_to(data, index_on_data);
}

static double write_to_passed(void)
{
	return write_to(passed, index_on_passed);
}

static double write_marker(void)
{
	double begin = now();

	for (uint32_t turn = 0; turn < RECORDS; turn++) {
		char text[48];
		int size = snprintf(text, sizeof(text), "turn=%u cost=%d", turn, 7);

		if (write(marker, text, (size_t)size) != size)
			fail("trace_marker");
	}
	return each(begin);
}

static void __attribute__((noinline)) probed(uint32_t turn, uint64_t cost)
{
	__asm__ __volatile__("" ::"r"(turn), "r"(cost) : "memory");
}

static double hit_probe(void)
{
	double begin = now();

	for (uint32_t turn = 0; turn < RECORDS; turn++)
		probed(turn, 7);
	return each(begin);
}

static double hit_lttng(void)
{
	double begin = now();

	rival_lttng(RECORDS);
	return each(begin);
}

/* The function's offset in our file. */
static unsigned long place_of(void (*function)(uint32_t, uint64_t))
{
	unsigned long from, to, offset, at = (unsigned long)(uintptr_t)function;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && at >= from && at < to) {
			fclose(maps);
			return at - from + offset;
		}
	fail("/proc/self/maps");
}

static bool probe(bool on)
{
	static const char definitions[] = "/sys/kernel/tracing/uprobe_events";
	static const char enable[] = "/sys/kernel/tracing/events/userevd_bench/probed/enable";
	char text[4224], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (access(definitions, F_OK) != 0)
		return false;
	self[n > 0 ? n : 0] = '\0';
	snprintf(text, sizeof(text), "p:userevd_bench/probed %s:0x%lx turn=%%di:u32 cost=%%si:u64", self,
		 place_of(probed));
	if (on)
		write_text(definitions, text);
	write_text(enable, on ? "1" : "0");
	if (!on)
		write_text(definitions, "");
	return true;
}

/* Each begins every other time, because the second finds warmer caches. */
static void compare(const char *question, const char *our_name, double (*ours)(void), const char *name,
		    double (*theirs)(void), double aim)
{
	struct side our_side = { .name = our_name }, their_side = { .name = name };
	unsigned rounds = pick(11, 5), times = pick(TIMES, TIMES / 4);
	double our_time[TIMES], their_time[TIMES];

	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < times; i++) {
			if (i % 2)
				our_time[i] = ours();
			their_time[i] = theirs();
			if (i % 2 == 0)
				our_time[i] = ours();
		}
		side_add(&our_side, median(our_time, times));
		side_add(&their_side, median(their_time, times));
	}
	report(question, "ns", &our_side, &their_side, aim);
}

static void compare_library(const char *name, double (*theirs)(void), double aim)
{
	compare("a record of an event that is on", "libuserev", write_brokered, name, theirs, aim);
}

static void prepare(void)
{
	static char names[1][NAME_BYTES];
	static uint32_t word;
	char path[64];

	snprintf(path, sizeof(path), "%s/trace_marker", tracefs);
	marker = open(path, O_WRONLY | O_CLOEXEC);
	make_names(names, 1);
	broker_register(broker_open(&broker), &event, names, 1);
	ask_broker(connect_to_broker(&broker), names, 1, &passed, &index_on_passed);
	data = direct_open();
	index_on_data = direct_register(data, names[0], &word);
	direct_switch(name_of(names[0]), true);
}

int main(void)
{
	broker_start(&broker);
	prepare();
	compare("a record by a writev of the program", "writev to the passed file", write_to_passed,
		"writev to its own file", write_directly, 1.02);
	compare_library("writev to its own file", write_directly, 0.86);
	compare_library("trace_marker", write_marker, 0);
	if (probe(true)) {
		compare_library("uprobe", hit_probe, 0);
		probe(false);
	} else
		report_missing("a record of an event that is on", "uprobe", "this kernel has no uprobe_events");
	/* Its start takes a while. */
	if (pick(1, 0) && rival_lttng_start()) {
		compare_library("lttng-ust", hit_lttng, 0);
		rival_lttng_stop();
	} else {
		report_missing("a record of an event that is on", "lttng-ust",
			       pick(0, 1) ? "not with QUICK" : "lttng-sessiond does not start here");
	}
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
