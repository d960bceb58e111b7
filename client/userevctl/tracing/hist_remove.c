/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Removes histograms, which hold their events in an instance. */

#include "client/userevctl/tracing/hist.h"

void hist_remove(struct tracefs_instance *instance, const char *system, const char *event)
{
	_cleanup_(freep) char *text = tracefs_event_file_read(instance, system, event, "trigger", NULL);
	char *rest = text;

	/* "hist:keys=… [active]"; without a trigger the file has a comment. */
	for (char *line; (line = strsep(&rest, "\n"));) {
		const char *state = strstr(line, " [");
		_cleanup_(freep) char *command = NULL;

		if (strncmp(line, "hist:", strlen("hist:")) != 0 || !state)
			continue;
		must(asprintf(&command, "!%.*s", (int)(state - line), line) > 0 ? command : NULL);
		tracefs_event_file_append(instance, system, event, "trigger", command);
	}
}

void hist_remove_latency(struct tracefs_instance *instance, pid_t pid)
{
	char event[32], command[sizeof(event) + 1];

	snprintf(event, sizeof(event), LATENCY_PREFIX "%d", (int)pid);
	snprintf(command, sizeof(command), "!%s", event);
	tracefs_event_file_append(instance, LATENCY_SYSTEM, event, "trigger", "!" LATENCY_HIST);
	tracefs_instance_file_append(NULL, "synthetic_events", command);
}

void hists_remove(struct tracefs_instance *instance, pid_t pid)
{
	static const char *const systems[] = { "user_events", "user_events_multi" };

	/* The histogram of one event may use a variable of another's, which goes in the second pass. */
	for (size_t i = 0; i < 2 * ARRAY_SIZE(systems); i++) {
		const char *system = systems[i % ARRAY_SIZE(systems)];
		char **events = tracefs_system_events(NULL, system);

		for (char **one = events; one && *one; one++)
			hist_remove(instance, system, *one);
		tracefs_list_free(events);
	}
	hist_remove_latency(instance, pid);
}
