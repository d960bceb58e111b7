/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * latency: counts the times between two events with the same value of a field, in the kernel. In an instance of this command's a histogram
 * of the first event keeps its time for each value, and one of the second event passes the difference to a synthetic event, which a third
 * histogram counts. No record is written for it.
 */

#include <inttypes.h>
#include <poll.h>

#include "client/userevctl/tracing/hist.h"

enum { ENTRIES = 32768, PAUSE_MS = 100 };

struct latency {
	const char *key;
	uint64_t seconds, entries;
	struct hist hist;
	const struct event *from, *to;
	struct event measured; /* the synthetic event */
};

/* The event of an argument; NULL after a message. */
static const struct event *find_event(const struct tracing *tracing, const char *argument)
{
	const struct event *event = NULL, *found = NULL;
	size_t n = 0;

	while ((event = tracing_next(tracing, event)))
		if (tracing_matches(tracing, argument, event) && event->system) {
			found = event;
			n++;
		}
	if (n != 1)
		ctl_error("latency: '%s' is %s: give two events by their names.", excerpt_of(argument).text,
			  plural(n, "event", "events").text);
	return n == 1 ? found : NULL;
}

/* An enum exit_code. */
static int add_trigger(struct tracefs_instance *instance, const struct event *event, const char *trigger)
{
	int r = tracefs_set_condition(instance, event, "trigger", trigger);

	if (r == CONDITION_REFUSED)
		return EXIT_REFUSED;
	return r > 0 ? EXIT_DONE : tracefs_explain("measure the event", r < 0 ? r : -ENOENT);
}

static int latency_begin(struct latency *latency, struct tracing *tracing)
{
	static char name[32];
	struct follower *follower = follower_new(tracing);
	char line[64], first[HIST_TRIGGER_MAX], second[2 * HIST_TRIGGER_MAX];
	int r = instance_make(&follower->instance);

	snprintf(name, sizeof(name), LATENCY_PREFIX "%d", (int)getpid());
	snprintf(line, sizeof(line), "%s u64 us", name);
	if (r == 0 && tracefs_instance_file_append(NULL, "synthetic_events", line) < 0)
		r = errno ? -errno : -EIO;
	if (r < 0)
		return tracefs_explain("make an instance and an event in tracefs", r);
	latency->measured = (struct event){ .name = name, .shown = name, .system = LATENCY_SYSTEM };
	snprintf(first, sizeof(first), "hist:keys=%s:userevctl_ts=common_timestamp.usecs:size=%" PRIu64, latency->key,
		 latency->entries);
	snprintf(
		second, sizeof(second),
		"hist:keys=%s:userevctl_us=common_timestamp.usecs-$userevctl_ts:onmatch(%s.%s).trace(%s,$userevctl_us):size=%" PRIu64,
		latency->key, latency->from->system, latency->from->shown, latency->measured.name, latency->entries);
	r = add_trigger(follower->instance, &latency->measured, LATENCY_HIST);
	if (r == EXIT_DONE)
		r = add_trigger(follower->instance, latency->from, first);
	return r == EXIT_DONE ? add_trigger(follower->instance, latency->to, second) : r;
}

static void latency_print(struct latency *latency, struct tracefs_instance *instance, const struct output *output)
{
	const struct event *from = latency->from;
	_cleanup_(freep) char *text =
		tracefs_event_file_read(instance, LATENCY_SYSTEM, latency->measured.name, "hist", NULL);
	_cleanup_(freep) char *first = tracefs_event_file_read(instance, from->system, from->shown, "hist", NULL);
	const char *dropped = first ? strstr(first, "Dropped: ") : NULL;
	char title[2 * WIRE_DESCRIPTION_MAX + 8];
	struct column columns[HIST_COLUMNS];
	struct table table = hist_table(&latency->hist, output, columns);

	snprintf(title, sizeof(title), "%s -> %s", from->shown, latency->to->shown);
	if (text)
		hist_print(&latency->hist, output, title, text, &table);
	/* Values of the field for which the first event's table had no room. */
	if (dropped)
		latency->hist.dropped += strtoull(dropped + strlen("Dropped: "), NULL, 10);
	hist_end(&latency->hist, output, &table, latency->entries);
}

static int latency_measure(struct latency *latency, struct tracing *tracing)
{
	const uint64_t deadline = ctl_now_ns() + latency->seconds * NS_PER_S;
	int r = latency_begin(latency, tracing);
	struct tracefs_instance *const instance = tracing->follower->instance;

	while (r == EXIT_DONE && !follower_stopped && ctl_now_ns() < deadline)
		poll(NULL, 0, PAUSE_MS);
	if (r == EXIT_DONE)
		latency_print(latency, instance, &tracing->ctl->output);
	/* The instance ends with its follower. */
	if (latency->measured.name) {
		hist_remove(instance, latency->to->system, latency->to->shown);
		hist_remove(instance, latency->from->system, latency->from->shown);
		hist_remove_latency(instance, getpid());
	}
	return r;
}

static int latency_run(struct ctl *ctl)
{
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	struct latency latency = { .seconds = HIST_SECONDS, .entries = ENTRIES };
	int r;

	options_read(ctl, &latency, 2, 2);
	if (!latency.key || strcspn(latency.key, ":=, ") != strlen(latency.key) ||
	    strlen(latency.key) > HIST_TRIGGER_MAX / 2) {
		ctl_error(
			"latency: give --key=FIELD, the field that both events have. See 'userevctl latency --help'.");
		return EXIT_USAGE;
	}
	latency.hist.names = (struct hist_names){ { "us" }, 1, 1 };
	r = tracing_open(ctl, TRACING_ACT, &tracing);
	if (r != EXIT_DONE)
		return r;
	if (!tracing->kernel) {
		ctl_error(
			"latency: the embedded backend has no histograms. Compare the times of 'tail --json' instead.");
		return EXIT_REFUSED;
	}
	tracing->foreign = FOREIGN_BY_NAME;
	r = names_check(tracing, false);
	if (r != EXIT_DONE)
		return r;
	latency.from = find_event(tracing, ctl->argv[0]);
	latency.to = find_event(tracing, ctl->argv[1]);
	if (!latency.from || !latency.to)
		return EXIT_REFUSED;
	r = latency_measure(&latency, tracing);
	return r;
}

COMMAND(latency, "FROM TO", "",
	OPTIONS(TEXT_ROW("key", "FIELD", struct latency, key, "the field by which they belong together"),
		NUMBER_ROW("timeout", "SECONDS", struct latency, seconds, 1, UINT32_MAX,
			   "count for this time (default 10)"),
		NUMBER_ROW("entries", "N", struct latency, entries, 128, 131072,
			   "how many values of the field to remember (default 32768)")),
	"Counts the microseconds from one event to the next one of the other, where a field\n"
	"has the same value, in the kernel's own histogram: no record is written for it, and\n"
	"other tracers notice nothing. Ctrl-C ends it earlier.");
