/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Rows are lines of words with tabs between them:
 *
 *	row QUESTION UNIT OURS MEDIAN LEAST MOST THEIRS MEDIAN LEAST MOST AIM
 *	missing QUESTION OTHER WHY
 *	point PLOT SERIES X Y
 *	note SENTENCE
 */

#include "tests/bench/bench.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

void fail(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

unsigned pick(unsigned all, unsigned when_quick)
{
	const char *quick = getenv("QUICK");

	return quick && *quick ? when_quick : all;
}

double counted(double aim)
{
	return getenv("COUNTING") ? aim : 0;
}

void side_add(struct side *side, double value)
{
	if (side->n == ROUNDS_MAX)
		fail("too many rounds");
	side->value[side->n++] = value;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

double quantile(double *values, size_t n, double part)
{
	qsort(values, n, sizeof(*values), compare);
	return values[(size_t)((double)(n - 1) * part)];
}

double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void print_side(struct side *side)
{
	double middle;

	if (!side || side->n == 0) {
		printf("\t\t\t\t");
		return;
	}
	middle = median(side->value, side->n);
	printf("\t%s\t%.6g\t%.6g\t%.6g", side->name, middle, side->value[0], side->value[side->n - 1]);
}

void report(const char *question, const char *unit, struct side *ours, struct side *theirs, double aim)
{
	printf("row\t%s\t%s", question, unit);
	print_side(ours);
	print_side(theirs);
	printf("\t%g\n", aim);
	fflush(stdout);
}

void report_value(const char *question, const char *unit, const char *name, double value, double aim)
{
	struct side side = { .name = name };

	side_add(&side, value);
	report(question, unit, &side, NULL, aim);
}

void report_missing(const char *question, const char *other, const char *why)
{
	printf("missing\t%s\t%s\t%s\n", question, other, why);
	fflush(stdout);
}

void point(const char *plot, const char *series, double x, double y)
{
	printf("point\t%s\t%s\t%.6g\t%.6g\n", plot, series, x, y);
	fflush(stdout);
}

void note(const char *format, ...)
{
	va_list arguments;

	printf("note\t");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

static void redirect(const char *output)
{
	int fd = open(output ? output : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0644);

	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
}

pid_t start(const char *const *argv, const char *output)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	redirect(output);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

double finish(pid_t pid, int signal)
{
	struct rusage usage = { 0 };

	if (signal)
		kill(pid, signal);
	if (wait4(pid, NULL, 0, &usage) != pid)
		fail("wait4");
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

bool run(const char *const *argv)
{
	pid_t pid = start(argv, NULL);
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

const char *built(const char *name)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - NAME_BYTES);

	path[n > 0 ? n : 0] = '\0';
	*strrchr(path, '/') = '\0';
	snprintf(strrchr(path, '/'), NAME_BYTES, "/%s", name);
	return path;
}

void make_names(char (*names)[NAME_BYTES], unsigned n)
{
	static unsigned unique;

	unique++;
	for (unsigned i = 0; i < n; i++)
		snprintf(names[i], NAME_BYTES, "bench_%u_%u_%u u32 a; u64 b", (unsigned)getpid(), unique, i);
}

const char *name_of(const char *description)
{
	static char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(description, " "), description);
	return name;
}

bool raise_limits(unsigned files)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur >= files;
}
