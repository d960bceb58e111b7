/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * enable --tenant for events that are on for all tenants or for none: foreign ones, and all before Linux 6.4. Programs of all tenants write,
 * and the kernel records those threads that an event's filter names. A filter is at most a page long.
 */

#include <dirent.h>
#include <stdio.h>

#include "client/userevctl/tracing/only.h"
#include "client/userevctl/tracing/tracefs.h"
#include "daemon/identity/cgroup.h"
#include "daemon/policy/glob.h"

enum { FILTER_MAX = 4000 };

/* Also at the beginning of a filter that threads_end() removes. */
#define CONDITION "common_pid == "

static struct cgroups cgroups;

/* Whether a pattern matches the cgroup, or one around it. */
static bool pattern_has(const struct silence_pattern *silenced, const char *cgroup)
{
	char path[WIRE_TENANT_MAX + 1], room[2 * WIRE_TENANT_MAX + 2], *slash;
	struct pattern pattern;

	if (silenced->flags & SILENCE_OF_PROCESS)
		return cgroup_is_inside(cgroup, silenced->text);
	if (pattern_parse(silenced->text, room, &pattern))
		return false;
	string_copy(path, sizeof(path), cgroup);
	do {
		if (pattern_matches(&pattern, path, path_depth(path)))
			return true;
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	} while (*path);
	return false;
}

static bool thread_is_wanted(pid_t pid, const struct silence_patterns *patterns)
{
	char cgroup[WIRE_TENANT_MAX + 1];

	if (cgroup_of_process(&cgroups, pid, cgroup, sizeof(cgroup)) < 0)
		return false;
	for (size_t i = 0; i < patterns->n; i++)
		if (pattern_has(&patterns->at[i], cgroup))
			return true;
	return false;
}

/* The filter has the threads' ids as processes see them that are in the first pid namespace, as we should be. */
static void add_threads(struct text *filter, pid_t pid, uint64_t *threads)
{
	char path[64];
	struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (*entry->d_name < '0' || *entry->d_name > '9')
			continue;
		text_printf(filter, "%s" CONDITION "%s", *threads > 0 ? " || " : "", entry->d_name);
		++*threads;
	}
	closedir(directory);
}

int threads_condition(struct only *only, struct text *filter)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	if (!proc || (!*cgroups.root && cgroups_find(NULL, &cgroups) < 0)) {
		ctl_error("--tenant: /proc is not there, or shows no cgroups.");
		if (proc)
			closedir(proc);
		return EXIT_REFUSED;
	}
	while ((entry = readdir(proc))) {
		const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 0 && thread_is_wanted(pid, &only->patterns))
			add_threads(filter, pid, &only->threads);
	}
	closedir(proc);
	if (only->threads == 0) {
		ctl_error("--tenant: a filter has to name the tenant's threads, and it has none now.");
		return EXIT_REFUSED;
	}
	if (filter->cut) {
		ctl_error("--tenant: a filter has to name the tenant's threads, and %s too many for one.",
			  plural(only->threads, "is", "are").text);
		return EXIT_REFUSED;
	}
	return EXIT_DONE;
}

int threads_begin(struct tracing *tracing, const char *pattern, struct only *only)
{
	char buffer[FILTER_MAX];
	struct text filter = text_make(buffer, sizeof(buffer));
	int r;

	only->threads = 0;
	r = threads_condition(only, &filter);
	for (const struct event *event = NULL; r == EXIT_DONE && (event = tracing_next(tracing, event));) {
		if (!event->system || !only_is_shared(tracing, event) ||
		    (pattern && !tracing_matches(tracing, pattern, event)))
			continue;
		r = tracefs_set_condition(NULL, event, "filter", buffer);
		if (r == CONDITION_REFUSED)
			return EXIT_REFUSED;
		r = r < 0 ? tracefs_explain("set filters", r) : EXIT_DONE;
	}
	return r;
}

int threads_end(struct tracing *tracing)
{
	int r = EXIT_DONE;

	for (const struct event *event = NULL; r == EXIT_DONE && (event = tracing_next(tracing, event));) {
		_cleanup_(freep) char *filter =
			event->system && only_is_shared(tracing, event)
				? tracefs_event_file_read(NULL, event->system, event->shown, "filter", NULL)
				: NULL;

		if (!filter || strncmp(filter, CONDITION, strlen(CONDITION)) != 0)
			continue;
		r = tracefs_write_event_file(NULL, event, "filter", "0");
		r = r < 0 ? tracefs_explain("remove filters", r) : EXIT_DONE;
	}
	return r;
}
