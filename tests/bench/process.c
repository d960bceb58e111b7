/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Processes as the kernel accounts for them. */

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/bench/bench.h"

double process_time(pid_t pid)
{
	struct timespec spent;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) < 0)
		return 0;
	return (double)spent.tv_sec * 1e6 + (double)spent.tv_nsec / 1e3;
}

static double number_in(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	char line[256];
	double number = 0;

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			number = strtod(line + strlen(key), NULL);
	if (file)
		fclose(file);
	return number;
}

double process_status(pid_t pid, const char *key)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return number_in(path, key);
}

double process_share(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	return number_in(path, "Pss:");
}

double process_wake_ups(pid_t pid)
{
	char path[320];
	struct dirent *entry;
	double sum = 0;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	while (threads && (entry = readdir(threads))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, entry->d_name);
		if (*entry->d_name != '.')
			sum += number_in(path, "voluntary_ctxt_switches:");
	}
	if (threads)
		closedir(threads);
	return sum;
}

static bool is_in(const pid_t *pids, unsigned n, pid_t pid)
{
	for (unsigned i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

unsigned process_family(pid_t *pids, unsigned n, unsigned most)
{
	struct dirent *entry;
	unsigned before;
	DIR *all;

	do {
		before = n;
		all = opendir("/proc");
		while (all && (entry = readdir(all)) && n < most) {
			pid_t pid = atoi(entry->d_name);

			if (pid > 0 && !is_in(pids, n, pid) && is_in(pids, n, (pid_t)process_status(pid, "PPid:")))
				pids[n++] = pid;
		}
		if (all)
			closedir(all);
	} while (n > before);
	return n;
}

void process_pin(pid_t pid, int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	if (sched_setaffinity(pid, sizeof(set), &set) < 0)
		fail("sched_setaffinity");
}

void enter_cgroup(const char *path)
{
	char place[256] = "/sys/fs/cgroup", processes[288];

	for (const char *end = path; *end; path = end) {
		end = path + 1 + strcspn(path + 1, "/");
		strncat(place, path, (size_t)(end - path));
		if (mkdir(place, 0755) < 0 && errno != EEXIST)
			fail(place);
	}
	snprintf(processes, sizeof(processes), "%s/cgroup.procs", place);
	write_text(processes, "0");
}
