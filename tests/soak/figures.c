/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Growth is told by medians, of the first third and of the last: one odd moment is none, and what a process takes once and keeps
 * is there in the first third already.
 */

#include "tests/soak/figures.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * malloc() keeps up to twice the largest piece that it ever gave: of the keeper's, what it needs for a moment when a daemon takes
 * another one's place. The ledger is written anew when a quarter of a MiB of it holds no more. The kernel has caches, and frees
 * cgroups when it likes. Whatever is leaked every time is more than this soon.
 */
enum { DAEMON_BOUND_KB = 192, KEEPER_BOUND_KB = 2 << 10, LEDGER_BOUND = 512 << 10, SLAB_BOUND_KB = 32 << 10 };

/* Before that many rounds a process may still be about to take what it then keeps. */
enum { MANY_ROUNDS = 24 };

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

/* Where the daemon has one, which it has where a keeper can keep it. */
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

static uint64_t count_kernel_events(void)
{
	_cleanup_(freep) char *names = read_events();
	uint64_t n = 0;

	for (const char *at = names; at && (at = strchr(at, '\n')); at++)
		n++;
	return n > 0 ? n - 1 : 0;
}

/* Then nobody else uses its memory. */
static bool kernel_is_ours(void)
{
	return access("/run/guest", F_OK) == 0;
}

static uint64_t read_slab(void)
{
	FILE *file = kernel_is_ours() ? fopen("/proc/meminfo", "re") : NULL;
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
	*ret = (struct figures){
		.daemon_kb = memory_of(pair->daemon),
		.keeper_kb = pair->keeper ? memory_of_keeper(pair->keeper) : 0,
		.fds = tally->fds,
		.keeper_fds = tally->keeper_fds,
		.ledger = ledger_of(pair->daemon),
		.kernel_events = count_kernel_events(),
		.slab_kb = read_slab(),
	};
}

void figures_print_head(void)
{
	printf("figures: seconds rounds daemon_kB keeper_kB fds keeper_fds events ledger_bytes kernel_events slab_kB\n");
	fflush(stdout);
}

void figures_print(const struct figures *at)
{
	printf("figures: %7" PRIu64 " %6" PRIu64 " %9" PRIu64 " %9" PRIu64 " %3" PRIu64 " %10" PRIu64 " %6" PRIu64
	       " %12" PRIu64 " %13" PRIu64 " %7" PRIu64 "\n",
	       at->seconds, at->round, at->daemon_kb, at->keeper_kb, at->fds, at->keeper_fds, at->events, at->ledger,
	       at->kernel_events, at->slab_kb);
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

/* Of the number at that offset in each of n figures. */
static uint64_t median(const struct figures *figures, size_t n, size_t offset)
{
	_cleanup_(freep) uint64_t *numbers = calloc(n, sizeof(*numbers));

	ck_assert_ptr_nonnull(numbers);
	for (size_t i = 0; i < n; i++)
		memcpy(&numbers[i], (const char *)&figures[i] + offset, sizeof(*numbers));
	qsort(numbers, n, sizeof(*numbers), compare);
	return numbers[n / 2];
}

static void expect_no_growth(const struct series *series, const char *what, size_t offset, uint64_t bound)
{
	size_t third = series->n / 3;
	uint64_t first, last;

	ck_assert_uint_ge(series->n, SERIES_MIN);
	if (series->n < MANY_ROUNDS)
		bound *= 2;
	first = median(series->figures, third, offset);
	last = median(series->figures + series->n - third, third, offset);
	printf("%s: %" PRIu64 " → %" PRIu64 " in %zu rounds\n", what, first, last, series->n);
	ck_assert_msg(last <= first + bound, "%s has grown from %" PRIu64 " to %" PRIu64 " in %zu rounds", what, first,
		      last, series->n);
}

/* What AddressSanitizer keeps so that nobody gets it again would be growth. */
static bool can_judge_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
	return false;
#else
	return true;
#endif
}

void series_expect_no_growth(const struct series *series, bool same_daemon, bool same_keeper)
{
	expect_no_growth(series, "the ledger (bytes)", offsetof(struct figures, ledger), LEDGER_BOUND);
	if (same_daemon && can_judge_memory())
		expect_no_growth(series, "the daemon's memory (kB)", offsetof(struct figures, daemon_kb),
				 DAEMON_BOUND_KB);
	if (same_keeper && can_judge_memory())
		expect_no_growth(series, "the keeper's memory (kB)", offsetof(struct figures, keeper_kb),
				 KEEPER_BOUND_KB);
	if (kernel_is_ours())
		expect_no_growth(series, "the kernel's memory (kB)", offsetof(struct figures, slab_kb), SLAB_BOUND_KB);
}
