/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * enable and disable. After an event is switched off, records of it can still come from two sources. Another tracer may want
 * it: disable --wait looks until none does. And a write() may have found the event on, but not have recorded yet, on any CPU:
 * tracing_settle() waits for those.
 */

#include <time.h>

#include "client/userevctl/tracing/kept.h"
#include "client/userevctl/tracing/only.h"
#include "client/userevctl/tracing/users.h"

enum { LOOK_MS = 50, NOTE_MS = 2000 };

struct switching {
	bool wait;
	bool foreign;
	bool keep, kept;
	uint64_t timeout; /* s, for other tracers to end; 0: no limit */
	struct option_list tenants;
};

static void note_still_on(const struct tracing *tracing, const struct event *event, const char *end)
{
	char buffer[1024];
	struct text list = text_make(buffer, sizeof(buffer));

	users_put(event, &list);
	if (list.length == 0)
		text_printf(&list, tracing->kernel ? "another tracer" : "another 'userevctl tail'");
	ctl_note("userevctl: '%s' is still on, for %s%s", safe_string(event->shown).text, buffer, end);
}

/* When this returns EXIT_DONE, no record of the events comes any more. */
static int wait_until_off(struct tracing *tracing, uint64_t timeout_ms)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000L };

	for (uint64_t waited = 0;; waited += LOOK_MS) {
		const struct event *event = NULL;
		int r = tracing_look(tracing);

		if (r != EXIT_DONE)
			return r;
		while ((event = tracing_next(tracing, event)) && !event->on)
			;
		if (!event)
			return tracing_settle(tracing);
		if (timeout_ms > 0 && waited >= timeout_ms) {
			note_still_on(tracing, event, ".");
			return EXIT_REFUSED;
		}
		if (waited == NOTE_MS)
			note_still_on(tracing, event, ": waiting for its end.");
		nanosleep(&pause, NULL);
	}
}

/* Those of the file that are for some tenants alone. */
static int begin_kept(struct tracing *tracing, const struct kept *kept)
{
	int r = EXIT_DONE;

	for (int i = 0; i < kept->n && r == EXIT_DONE; i++) {
		_cleanup_(only_deinit) struct only only = { 0 };

		if (!kept->tenants[i])
			continue;
		silence_patterns_add(&only.patterns, kept->tenants[i], 0);
		r = only_begin(tracing, kept->names[i], &only);
	}
	return r;
}

/* Before the events are switched on. */
static int begin_only(struct tracing *tracing, const struct switching *switching, const struct kept *kept,
		      struct only *only)
{
	int r = EXIT_DONE;

	if (switching->kept)
		return begin_kept(tracing, kept);
	if (switching->tenants.n == 0)
		return EXIT_DONE;
	r = only_find(tracing, switching->tenants.text, switching->tenants.n, switching->keep, only);
	return r == EXIT_DONE ? only_begin(tracing, NULL, only) : r;
}

static int switch_run(struct ctl *ctl)
{
	_cleanup_(only_deinit) struct only only = { 0 };
	_cleanup_(tracing_freep) struct tracing *tracing = NULL;
	_cleanup_(kept_deinit) struct kept kept = { 0 };
	const bool on = ctl->command == &command_enable;
	struct switching switching = { 0 };
	uint64_t events = 0;
	int r;

	options_read(ctl, &switching, 0, INT32_MAX);
	ctl_expect_arguments(ctl, !switching.kept, switching.kept ? 0 : INT32_MAX);
	r = on ? EXIT_DONE : kept_change(ctl, false, NULL);
	if (r == EXIT_DONE)
		r = tracing_open(ctl, TRACING_ACT, &tracing);
	if (r != EXIT_DONE)
		return r;
	tracing->foreign = switching.foreign ? FOREIGN_BY_NAME : FOREIGN_NEVER;
	/* Nothing is switched unless every name is known. */
	r = switching.kept ? kept_look(&kept, tracing) : names_check(tracing, false);
	/* No name would be all events. */
	if (r == EXIT_DONE && tracing->n_patterns > 0)
		r = begin_only(tracing, &switching, &kept, &only);
	if (r == EXIT_DONE && tracing->n_patterns > 0)
		r = tracing_turn(tracing, on, &events);
	if (r == EXIT_DONE && switching.tenants.n == 0 && !switching.kept)
		r = only_end(tracing);
	if (r == EXIT_DONE && switching.keep)
		r = kept_change(ctl, true, &only.answer);
	if (r == EXIT_DONE && switching.wait)
		r = wait_until_off(tracing, switching.timeout * 1000);
	if (r != EXIT_DONE)
		return r;
	if (switching.tenants.n > 0)
		only_print(tracing, events, &only);
	else if (ctl->output.json)
		json_print(ctl->output.file, json_u64("events", events), json_bool("on", on));
	else
		fprintf(ctl->output.file, "%s %s.\n", plural(events, "event is", "events are").text, on ? "on" : "off");
	return EXIT_DONE;
}

#define FOREIGN_ROW FLAG_ROW("foreign", struct switching, foreign, "also events made without the daemon, by full name")

COMMAND_BY(enable, switch_run, "EVENT...", "switch events on and off, or delete them",
	   OPTIONS(FLAG_ROW("keep", struct switching, keep, "also at each boot from now on"),
		   FLAG_ROW("kept", struct switching, kept, "those of --keep, as at boot, instead of EVENT..."),
		   VALUE_ROW("tenant", "TENANT", OPTION_TEXTS, struct switching, tenants,
			     .help = "for programs of this tenant alone, a name, pattern of paths, or pid"),
		   FOREIGN_ROW),
	   "Switches events on: programs write their records from now on. EVENT is a name\n"
	   "or a pattern with *, ? and [...]. Nothing is switched if one of them matches no\n"
	   "event. At boot --keep reaches events that are declared, see userevctl(1).");

COMMAND_BY(disable, switch_run, "EVENT...", "",
	   OPTIONS(FLAG_ROW("wait", struct switching, wait, "return when no record of them comes any more"),
		   NUMBER_ROW("timeout", "SECONDS", struct switching, timeout, 1, UINT32_MAX,
			      "how long to wait for other tracers"),
		   FOREIGN_ROW),
	   "Switches events off again, also for the next boot. An event that a 'userevctl tail'\n"
	   "or another tracer uses stays on until that ends. --wait waits for it, and for records\n"
	   "that are being written at this moment: afterwards no record of them comes any more.");
