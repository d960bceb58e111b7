/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * How long does it take from the first of 10,000 records until all are there as text, and how much of a processor? By userevctl
 * tail, by trace-cmd record and report, and by perf record and script. As root, in a guest.
 */

#include <signal.h>

#include "tests/bench/bench.h"

enum { RECORDS = 10000, PATIENCE = 60, SETTLE = 1000000 };

static struct broker broker;
static struct userev_event event;
static char names[1][NAME_BYTES];
static char system_and_name[NAME_BYTES + 32], output[128], data_file[128], count[32], control[128];
static unsigned records;

/* One of a tracer's programs. */
struct tool {
	const char *name;
	const char *const *record;
	int end;		 /* by this signal; 0: by itself, when it has seen all */
	const char *const *show; /* NULL: it has done that */
};

static void emit_all(void)
{
	struct {
		uint32_t turn;
		uint64_t cost;
	} __attribute__((packed)) payload = { .cost = 7 };

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
	for (unsigned i = 0; i < PATIENCE * 1000 && userev_enabled(&event) != on; i++)
		usleep(1000);
	if (userev_enabled(&event) != on)
		fail("the event is not switched");
}

/* Microseconds until all is there, and of a processor. */
static void trace_with(const struct tool *tool, struct side *time, struct side *processor, unsigned *ret_lost)
{
	pid_t pid = start(tool->record, output);
	double begin, busy;

	wait_until(true);
	/* Some turn the event on first, and only then have somewhere to put its records. */
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

static void compare_all(void)
{
	const char *const tail[] = {
		built("userevctl"), control, "tail", count, "--timeout=60", name_of(names[0]), NULL
	};
	const char *const trace_cmd[] = { "trace-cmd", "record", "-q", "-e", system_and_name, "-o", data_file, NULL };
	const char *const trace_cmd_show[] = { "trace-cmd", "report", "-i", data_file, NULL };
	const char *const perf[] = { "perf", "record", "-q", "-a", "-e", system_and_name, "-o", data_file, NULL };
	const char *const perf_show[] = { "perf", "script", "-i", data_file, NULL };
	const struct tool ours = { "userevctl tail", tail, 0, NULL };

	compare(&ours, &(struct tool){ "trace-cmd record, report", trace_cmd, SIGINT, trace_cmd_show });
	if (pick(1, 0))
		compare(&ours, &(struct tool){ "perf record, script", perf, SIGINT, perf_show });
}

int main(void)
{
	broker_start(&broker, NULL, no_limits);
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
