/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does a tracer take to turn an event on that 1,000 programs hold, and from then until the first record is in a reader? Beside
 * events that the programs registered themselves. As root, in a guest.
 */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "tests/bench/bench.h"

enum {
	PAUSE = 50,	 /* µs between two tests of an event that is off */
	TIMEOUT = 10000, /* ms for its first record */
};

static struct broker broker;
static char names[1][NAME_BYTES];

static void by_kernel(int prepared _unused_, unsigned number _unused_)
{
	direct_register_all(direct_open(), names, 1);
}

static void by_broker(int prepared _unused_, unsigned number _unused_)
{
	ask_broker(connect_to_broker(&broker), names, 1, NULL, NULL);
}

static void hold_and_switch(struct side *side, unsigned n, unsigned times, void (*work)(int, unsigned))
{
	struct programs programs = { .n = n, .work = work };

	make_names(names, 1);
	programs_start(&programs);
	programs_run(&programs);
	for (unsigned i = 0; i < times; i++) {
		side_add(side, direct_switch(name_of(names[0]), true));
		direct_switch(name_of(names[0]), false);
	}
	programs_stop(&programs);
	broker_settle(&broker);
}

static void compare(unsigned n)
{
	struct side ours = { .name = "broker" }, theirs = { .name = "registered directly" };
	unsigned rounds = pick(3, 1), times = pick(7, 3);
	char question[96];

	for (unsigned i = 0; i < rounds; i++) {
		hold_and_switch(&ours, n, times, by_broker);
		hold_and_switch(&theirs, n, times, by_kernel);
	}
	snprintf(question, sizeof(question), "turning on an event that %u programs hold", n);
	report(question, "us", &ours, &theirs, 1);
	point("switch", ours.name, n, median(ours.value, ours.n));
	point("switch", theirs.name, n, median(theirs.value, theirs.n));
}

/* --- the first record --- */

struct payload {
	uint32_t turn;
	uint64_t cost;
} __attribute__((packed));

static int ready; /* the emitting program writes a byte to it */

/* Write a record as soon as the event is on, and again when it was off. */
static _Noreturn void emit_by_library(void)
{
	struct payload payload = { .cost = 7 };
	struct userev_event event = { 0 };

	broker_register(broker_open(&broker), &event, names, 1);
	if (write(ready, "r", 1) != 1)
		fail("pipe");
	for (;; usleep(PAUSE))
		if (userev_enabled(&event))
			userev_write(&event, &payload, sizeof(payload));
}

static _Noreturn void emit_directly(void)
{
	static volatile uint32_t word;
	struct payload payload = { .cost = 7 };
	int data = direct_open();
	uint32_t index = direct_register(data, names[0], (uint32_t *)(uintptr_t)&word);
	const struct iovec record[] = { { &index, sizeof(index) }, { &payload, sizeof(payload) } };

	if (write(ready, "r", 1) != 1)
		fail("pipe");
	for (;; usleep(PAUSE))
		/* Before 6.4 there is no word, and a record of an event that is off is taken and lost. EBADF: it was turned off since. */
		if ((word || has_status_page()) && writev(data, record, 2) < 0 && errno != EBADF)
			fail("writev");
}

static pid_t start_emitter(void (*emit)(void))
{
	int ends[2];
	pid_t pid;
	char byte;

	if (pipe(ends) < 0)
		fail("pipe");
	ready = ends[1];
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		emit();
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		fail("the emitting program");
	close(ends[0]);
	return pid;
}

static void switch_by_tracefs(bool on)
{
	direct_switch(name_of(names[0]), on);
}

static void switch_by_userevctl(bool on)
{
	broker_switch(&broker, name_of(names[0]), on);
}

/* From the switch until the reader has a record. */
static double first_record(void (*turn)(bool on))
{
	struct pollfd reader = { .events = POLLIN };
	char path[64], text[4096];
	double begin;

	snprintf(path, sizeof(path), "%s/trace", tracefs);
	write_text(path, "");
	snprintf(path, sizeof(path), "%s/trace_pipe", tracefs);
	reader.fd = open(path, O_RDONLY | O_CLOEXEC);
	begin = now();
	turn(true);
	if (poll(&reader, 1, TIMEOUT) != 1 || read(reader.fd, text, sizeof(text)) <= 0)
		fail(path);
	begin = now() - begin;
	turn(false);
	close(reader.fd);
	return begin;
}

static void first_records(struct side *side, void (*emit)(void), void (*turn)(bool on))
{
	pid_t emitter;

	make_names(names, 1);
	emitter = start_emitter(emit);
	for (unsigned i = 0; i < pick(9, 5); i++)
		side_add(side, first_record(turn));
	finish(emitter, SIGKILL);
	broker_settle(&broker);
}

static void compare_first_records(void)
{
	struct side ours = { .name = "broker" }, theirs = { .name = "registered directly" };
	struct side by_tool = { .name = "userevctl enable" };

	first_records(&ours, emit_by_library, switch_by_tracefs);
	first_records(&theirs, emit_directly, switch_by_tracefs);
	report("from turning an event on until its first record is in trace_pipe", "us", &ours, &theirs, 1.05);
	first_records(&by_tool, emit_by_library, switch_by_userevctl);
	report("from turning an event on until its first record is in trace_pipe", "us", &by_tool, &theirs, 0);
}

int main(void)
{
	raise_limits(FILES);
	broker_start(&broker);
	compare_first_records();
	compare(1);
	compare(pick(100, 200));
	if (pick(1, 0))
		compare(1000);
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
