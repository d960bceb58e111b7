/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does it take from the first of 10,000 records until all are there as text, and how much of a processor? By userevctl
 * tail, by trace-cmd record and report, and by perf record and script. And how many records a second can tail show, beside the text
 * of the kernel itself (trace_pipe)? And what does userevctl record cost, and lose, beside trace-cmd record? As root, in a guest.
 */

#include <signal.h>

#include "tests/bench/bench.h"

enum { RECORDS = 10000, TIMEOUT = 60, SETTLE = 1000000, SUSTAINED = 3000000, RECORDING = 1000000 };

static struct broker broker;
static struct userev_event event;
static char names[1][NAME_BYTES];
static char system_and_name[NAME_BYTES + 32], output[128], data_file[128], count[32], control[128];
static unsigned records;

/* One of a tracer's programs. */
struct tool {
	const char *name;
	const char *const *record;
	int end;		 /* signal; 0: it ends by itself after all records */
	const char *const *show; /* NULL: the first has shown them */
};

struct payload {
	uint32_t turn;
	uint64_t cost;
} __attribute__((packed));

static void emit_all(void)
{
	struct payload payload = { .cost = 7 };

	for (payload.turn = 0; payload.turn < records; payload.turn++)
		userev_write(&event, &payload, sizeof(payload));
}

static unsigned lines_of(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[512];
	unsigned n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, name_of(names[0])) != NULL;
	if (file)
		fclose(file);
	return n;
}

static void wait_until(bool on)
{
	for (unsigned i = 0; i < TIMEOUT * 1000 && userev_enabled(&event) != on; i++)
		usleep(1000);
	if (userev_enabled(&event) != on)
		fail("the event is not switched");
}

/* The time until all are there, and the processor time. */
static void trace_with(const struct tool *tool, struct side *time, struct side *processor, unsigned *ret_lost)
{
	pid_t pid = start(tool->record, output);
	double begin, busy;

	wait_until(true);
	/* Some tools turn the event on first, and make their buffers then. */
	usleep(SETTLE);
	begin = now();
	emit_all();
	busy = finish(pid, tool->end);
	if (tool->show)
		busy += finish(start(tool->show, output), 0);
	side_add(time, now() - begin);
	side_add(processor, busy);
	*ret_lost = records - lines_of(output);
	wait_until(false);
	unlink(output);
	unlink(data_file);
}

static void compare(const struct tool *ours, const struct tool *theirs)
{
	struct side our_time = { .name = ours->name }, our_processor = { .name = ours->name };
	struct side time = { .name = theirs->name }, processor = { .name = theirs->name };
	unsigned rounds = pick(3, 1), we_lost = 0, they_lost = 0;
	char question[96];

	for (unsigned i = 0; i < rounds; i++) {
		trace_with(ours, &our_time, &our_processor, &we_lost);
		trace_with(theirs, &time, &processor, &they_lost);
	}
	snprintf(question, sizeof(question), "%u records, until they are there as text", records);
	report(question, "us", &our_time, &time, 1);
	report("... time on a processor", "us", &our_processor, &processor, 1);
	if (we_lost || they_lost)
		note("of %u records %s has not shown %u, and %s %u", records, ours->name, we_lost, theirs->name,
		     they_lost);
}

/* Emits for some seconds as fast as possible. Microseconds for each record that the tool has shown. */
static double sustained(const char *const *argv, double *ret_processor, unsigned *ret_lost)
{
	struct payload payload = { .cost = 7 };
	pid_t pid = start(argv, output);
	double begin, took;
	unsigned shown;

	wait_until(true);
	usleep(SETTLE);
	begin = now();
	for (; now() - begin < SUSTAINED; payload.turn++)
		userev_write(&event, &payload, sizeof(payload));
	took = now() - begin;
	/* It may show the rest, but not in this time. */
	shown = lines_of(output);
	*ret_processor = finish(pid, SIGTERM) / MAX(lines_of(output), 1U);
	*ret_lost = payload.turn - MIN(lines_of(output), payload.turn);
	unlink(output);
	return took / MAX(shown, 1U);
}

static void compare_sustained(const char *const *tail)
{
	const char *const pipe[] = { "cat", "/sys/kernel/tracing/trace_pipe", NULL };
	struct side ours = { .name = "userevctl tail" }, theirs = { .name = "cat trace_pipe" };
	struct side our_processor = ours, their_processor = theirs;
	double processor;
	unsigned we_lost = 0, they_lost = 0;

	for (unsigned i = 0; i < pick(3, 1); i++) {
		side_add(&ours, sustained(tail, &processor, &we_lost));
		side_add(&our_processor, processor);
		wait_until(false);
		direct_switch(name_of(names[0]), true);
		side_add(&theirs, sustained(pipe, &processor, &they_lost));
		side_add(&their_processor, processor);
		direct_switch(name_of(names[0]), false);
	}
	report("records without a pause: per record that is shown", "us", &ours, &theirs, 0);
	report("... time on a processor", "us", &our_processor, &their_processor, 0);
	note("userevctl tail shows %.0f records a second; it lost %u in the last %u s, cat trace_pipe %u",
	     1e6 / median(ours.value, ours.n), we_lost, SUSTAINED / 1000000, they_lost);
}

struct recorder {
	const char *const *record, *const *show; /* `show` on `data_file` */
	struct side processor;
	double lost; /* of thousand */
};

/* As many records as fit into a second, without a pause, into a file. */
static void record_with(struct recorder *recorder)
{
	struct payload payload = { .cost = 7 };
	const pid_t pid = start(recorder->record, output);
	double begin, busy;
	unsigned shown;

	wait_until(true);
	usleep(SETTLE);
	for (begin = now(); now() - begin < RECORDING; payload.turn++)
		userev_write(&event, &payload, sizeof(payload));
	busy = finish(pid, SIGINT);
	finish(start(recorder->show, output), 0);
	shown = lines_of(output);
	side_add(&recorder->processor, busy / MAX(shown, 1U));
	recorder->lost = 1000.0 * (payload.turn - MIN(shown, payload.turn)) / payload.turn;
	wait_until(false);
	unlink(output);
}

static void compare_recorders(struct recorder *ours, struct recorder *theirs)
{
	struct side our_report = { .name = "userevctl report" }, their_report = { .name = "trace-cmd report" };

	for (unsigned i = 0; i < pick(3, 1); i++) {
		record_with(theirs);
		unlink(data_file);
		record_with(ours);
		/* trace-cmd opens that file, too. */
		side_add(&our_report, finish(start(ours->show, output), 0));
		side_add(&their_report, finish(start(theirs->show, output), 0));
		unlink(data_file);
		unlink(output);
	}
	report("records without a pause into a file: time on a processor for each", "us", &ours->processor,
	       &theirs->processor, 1);
	report("... and that file as text: time on a processor", "us", &our_report, &their_report, 1);
	note("of thousand records userevctl record lost %.0f in the last second, trace-cmd record %.0f", ours->lost,
	     theirs->lost);
}

static void compare_all(void)
{
	const char *const record[] = {
		built("userevctl"), control, "record", "-o", data_file, name_of(names[0]), NULL
	};
	const char *const show[] = { built("userevctl"), "report", data_file, NULL };
	const char *const tail[] = {
		built("userevctl"), control, "tail", count, "--timeout=60", name_of(names[0]), NULL
	};
	const char *const trace_cmd[] = { "trace-cmd", "record", "-q", "-e", system_and_name, "-o", data_file, NULL };
	const char *const trace_cmd_show[] = { "trace-cmd", "report", "-i", data_file, NULL };
	const char *const perf[] = { "perf", "record", "-q", "-a", "-e", system_and_name, "-o", data_file, NULL };
	const char *const perf_show[] = { "perf", "script", "-i", data_file, NULL };
	const char *const tail_on[] = { tail[0], control, "tail", name_of(names[0]), NULL };
	const struct tool ours = { "userevctl tail", tail, 0, NULL };

	compare(&ours, &(struct tool){ "trace-cmd record, report", trace_cmd, SIGINT, trace_cmd_show });
	if (pick(1, 0))
		compare(&ours, &(struct tool){ "perf record, script", perf, SIGINT, perf_show });
	compare_recorders(
		&(struct recorder){ .record = record, .show = show, .processor = { .name = "userevctl record" } },
		&(struct recorder){
			.record = trace_cmd, .show = trace_cmd_show, .processor = { .name = "trace-cmd record" } });
	compare_sustained(tail_on);
}

int main(void)
{
	broker_start(&broker);
	records = pick(RECORDS, RECORDS / 5);
	make_names(names, 1);
	broker_register(broker_open(&broker), &event, names, 1);
	snprintf(system_and_name, sizeof(system_and_name), "user_events:%s", name_of(names[0]));
	snprintf(output, sizeof(output), "%s.output", broker.directory);
	snprintf(data_file, sizeof(data_file), "%s.data", broker.directory);
	snprintf(count, sizeof(count), "--count=%u", records);
	snprintf(control, sizeof(control), "--control-socket=%s", broker.control);
	compare_all();
	broker_stop(&broker);
	return EXIT_SUCCESS;
}
