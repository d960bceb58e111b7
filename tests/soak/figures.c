/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Growth shows in the medians of the first third and of the last: a single outlier doesn't count, and memory that a process takes once
 * and keeps is there in the first third already.
 */

#include "tests/soak/figures.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/integration/kernel_events.h"

/* With fewer rounds a process may still be about to take memory that it then keeps. */
enum { MANY_ROUNDS = 24 };

/*
 * malloc() keeps up to twice the largest piece that it ever gave: of the keeper's, the memory for the moment in which one daemon replaces
 * another. The ledger keeps a free block of 16 KiB for each size of its entries. The kernel has caches, and frees
 * cgroups when it likes. A leak in each round exceeds these bounds soon.
 */
static const struct {
	const char *name;
	int width;
	uint64_t may_grow; /* 0: not judged */
} all[FIGURES] = {
	[SECONDS] = { "seconds", 7, 0 },
	[ROUNDS] = { "rounds", 6, 0 },
	[DAEMON_KB] = { "daemon_kB", 9, 192 },
	[KEEPER_KB] = { "keeper_kB", 9, 2 << 10 },
	[FDS] = { "fds", 3, 0 },
	[KEEPER_FDS] = { "keeper_fds", 10, 0 },
	[EVENTS] = { "events", 6, 0 },
	[LEDGER_BYTES] = { "ledger_bytes", 12, 512 << 10 },
	[KERNEL_EVENTS] = { "kernel_events", 13, 0 },
	[SLAB_KB] = { "slab_kB", 7, 32 << 10 },
};

static uint64_t memory_of(pid_t pid)
{
	return proc_status(pid, "RssAnon:", 10) + proc_status(pid, "RssShmem:", 10);
}

static uint64_t memory_of_keeper(pid_t keeper)
{
	pid_t enablers[64];
	uint64_t sum = memory_of(keeper);
	size_t n = MIN(children_of(keeper, NULL, enablers, ARRAY_SIZE(enablers)), ARRAY_SIZE(enablers));

	for (size_t i = 0; i < n; i++)
		sum += memory_of(enablers[i]);
	return sum;
}

/* A daemon without a keeper has none. */
static uint64_t ledger_of(pid_t daemon)
{
	char directory[64], path[sizeof(directory) + NAME_MAX + 1], target[64];
	const struct dirent *entry;
	struct stat status;
	uint64_t size = 0;
	DIR *fds;

	snprintf(directory, sizeof(directory), "/proc/%d/fd", (int)daemon);
	fds = opendir(directory);
	while (fds && (entry = readdir(fds))) {
		ssize_t length;

		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		target[MAX(length, 0)] = '\0';
		if (strstr(target, "memfd:userevd-ledger") && stat(path, &status) == 0)
			size += (uint64_t)status.st_blocks * 512;
	}
	if (fds)
		closedir(fds);
	return size;
}

static uint64_t read_slab(void)
{
	FILE *file = is_guest() ? fopen("/proc/meminfo", "re") : NULL;
	char line[128];
	uint64_t kb = 0;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "SUnreclaim: %" SCNu64, &kb);
	if (file)
		fclose(file);
	return kb;
}

void figures_take(const struct pair *pair, const struct tally *tally, struct figures *ret)
{
	_cleanup_(freep) char *events = read_events();

	*ret = (struct figures){ {
		[DAEMON_KB] = memory_of(pair->daemon),
		[KEEPER_KB] = pair->keeper ? memory_of_keeper(pair->keeper) : 0,
		[FDS] = tally->fds,
		[KEEPER_FDS] = tally->keeper_fds,
		[LEDGER_BYTES] = ledger_of(pair->daemon),
		[KERNEL_EVENTS] = count_events(events),
		[SLAB_KB] = read_slab(),
	} };
}

void figures_print(const struct figures *figures)
{
	printf("figures:");
	for (size_t i = 0; i < FIGURES; i++)
		if (figures)
			printf(" %*" PRIu64, all[i].width, figures->number[i]);
		else
			printf(" %s", all[i].name);
	printf("\n");
	fflush(stdout);
}

void series_add(struct series *series, const struct figures *figures)
{
	series->figures = realloc(series->figures, (series->n + 1) * sizeof(*figures));
	ck_assert_ptr_nonnull(series->figures);
	series->figures[series->n++] = *figures;
}

void series_deinit(struct series *series)
{
	free(series->figures);
	*series = (struct series){ 0 };
}

static int compare(const void *a, const void *b)
{
	const uint64_t *one = a, *another = b;

	return *one < *another ? -1 : *one > *another;
}

static uint64_t median(const struct figures *figures, size_t n, enum figure figure)
{
	_cleanup_(freep) uint64_t *numbers = calloc(n, sizeof(*numbers));

	ck_assert_ptr_nonnull(numbers);
	for (size_t i = 0; i < n; i++)
		numbers[i] = figures[i].number[figure];
	qsort(numbers, n, sizeof(*numbers), compare);
	return numbers[n / 2];
}

static void expect_no_growth(const struct series *series, enum figure figure)
{
	uint64_t first, last, bound = all[figure].may_grow;
	size_t third = series->n / 3;

	ck_assert_uint_ge(series->n, SERIES_MIN);
	if (series->n < MANY_ROUNDS)
		bound *= 2;
	first = median(series->figures, third, figure);
	last = median(series->figures + series->n - third, third, figure);
	printf("%s: %" PRIu64 " → %" PRIu64 " in %zu rounds\n", all[figure].name, first, last, series->n);
	ck_assert_msg(last <= first + bound, "%s has grown from %" PRIu64 " to %" PRIu64 " in %zu rounds",
		      all[figure].name, first, last, series->n);
}

void series_expect_no_growth(const struct series *series, bool same_daemon, bool same_keeper)
{
	expect_no_growth(series, LEDGER_BYTES);
	/* AddressSanitizer keeps memory that was freed. */
	if (same_daemon && !has_sanitizer())
		expect_no_growth(series, DAEMON_KB);
	if (same_keeper && !has_sanitizer())
		expect_no_growth(series, KEEPER_KB);
	if (is_guest())
		expect_no_growth(series, SLAB_KB);
}
