/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "protocol/text.h"
#include "tests/integration/raw.h"

enum { OPTIONS_MAX = 24 };

/* The tests are in build/tests/, the programs in build/. */
const char *built(const char *name)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	ck_assert_int_gt(n, 0);
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	snprintf(strrchr(path, '/'), sizeof(path) - strlen(path), "/%s", name);
	return path;
}

static pid_t spawn_daemon(const struct fixture *fixture, const char *const *options, int ready)
{
	char socket[128], control[128], ready_option[32];
	const char *argv[OPTIONS_MAX] = { built("userevd"),    socket,	       control,
					  ready_option,	       "--foreground", "--log-level=debug",
					  "--exit-with-parent" };
	size_t n = 7;
	pid_t pid;

	snprintf(socket, sizeof(socket), "--socket=%s", fixture->socket);
	snprintf(control, sizeof(control), "--control-socket=%s", fixture->control);
	snprintf(ready_option, sizeof(ready_option), "--ready-fd=%d", ready);
	while (options && *options && n < OPTIONS_MAX - 1)
		argv[n++] = *options++;

	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		int log = open(fixture->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
		fcntl(ready, F_SETFD, 0);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid;
}

static void print_log(const struct fixture *fixture)
{
	FILE *file = fopen(fixture->log, "re");
	char line[1024];

	while (file && fgets(line, sizeof(line), file))
		fprintf(stderr, "    daemon: %s", line);
	if (file)
		fclose(file);
}

void fixture_start(struct fixture *fixture, const char *const *options)
{
	char byte = 0;
	int ready[2];

	*fixture = (struct fixture){ 0 };
	make_temporary_directory(fixture->directory, sizeof(fixture->directory));
	/* Other users' clients are tested too. */
	ck_assert_int_eq(chmod(fixture->directory, 0755), 0);
	snprintf(fixture->socket, sizeof(fixture->socket), "%s/userevd.sock", fixture->directory);
	snprintf(fixture->control, sizeof(fixture->control), "%s/control.sock", fixture->directory);
	snprintf(fixture->log, sizeof(fixture->log), "%s/log", fixture->directory);

	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	fixture->pid = spawn_daemon(fixture, options, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || byte != '\n') {
		print_log(fixture);
		ck_abort_msg("the daemon did not start");
	}
	close(ready[0]);
	tally_take(fixture, &fixture->before);
}

void fixture_abandon(struct fixture *fixture)
{
	unlink(fixture->log);
	unlink(fixture->socket);
	unlink(fixture->control);
	rmdir(fixture->directory);
}

void fixture_stop(struct fixture *fixture)
{
	char difference[256];
	bool settled = tally_settles(fixture, &fixture->before, difference, sizeof(difference));
	int status = -1;

	ck_assert_int_eq(kill(fixture->pid, SIGTERM), 0);
	ck_assert_int_eq(waitpid(fixture->pid, &status, 0), fixture->pid);
	if (!settled || status != 0)
		print_log(fixture);
	ck_assert_msg(access(fixture->socket, F_OK) < 0, "the daemon left its socket behind");
	fixture_abandon(fixture);
	ck_assert_msg(settled, "the daemon did not come back to what it was: %s", difference);
	ck_assert_msg(status == 0, "the daemon ended with status %#x", (unsigned)status);
}

int run_command(const struct fixture *fixture, char *output, size_t size, const char *const *argv)
{
	int out[2], status;
	size_t length = 0;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		if (fixture) {
			setenv("USEREV_SOCKET", fixture->socket, 1);
			setenv("USEREV_CONTROL_SOCKET", fixture->control, 1);
		}
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(out[1]);
	while (length < size - 1 && (n = read(out[0], output + length, size - 1 - length)) > 0)
		length += (size_t)n;
	output[length] = '\0';
	close(out[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static uint64_t count_fds(pid_t pid)
{
	char path[64];
	uint64_t count = 0;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	directory = opendir(path);
	ck_assert_ptr_nonnull(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void read_status(void *data, struct cursor row)
{
	struct tally *tally = data;

	*tally = (struct tally){
		.connections = row_get_u64(row, "connections"),
		.tenants = row_get_u64(row, "tenants"),
		.events = row_get_u64(row, "events"),
		.leases = row_get_u64(row, "leases"),
		.lingering = row_get_u64(row, "lingering"),
		.streams = row_get_u64(row, "streams"),
		.charges = row_get_u64(row, "charges"),
	};
}

void tally_take(const struct fixture *fixture, struct tally *ret)
{
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, KIND_STATUS, 0, NULL, read_status, ret), 0);
	/* Counted while our own connection is there, so that it is the same each time. */
	ret->fds = count_fds(fixture->pid);
	close(control);
}

void tally_compare(const struct tally *before, const struct tally *after, char *ret, size_t size)
{
	const struct {
		const char *name;
		uint64_t before, after;
	} rows[] = {
		{ "fds", before->fds, after->fds },
		{ "connections", before->connections, after->connections },
		{ "tenants", before->tenants, after->tenants },
		{ "events", before->events, after->events },
		{ "leases", before->leases, after->leases },
		{ "lingering", before->lingering, after->lingering },
		{ "streams", before->streams, after->streams },
		{ "charges", before->charges, after->charges },
	};
	struct text text = text_make(ret, size);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].before != rows[i].after)
			text_printf(&text, "%s%s %" PRIu64 " → %" PRIu64, text.length ? ", " : "", rows[i].name,
				    rows[i].before, rows[i].after);
}

static bool tally_is(const struct fixture *fixture, const struct tally *before, char *ret, size_t size)
{
	struct tally now;

	tally_take(fixture, &now);
	tally_compare(before, &now, ret, size);
	return *ret == '\0';
}

bool tally_settles(const struct fixture *fixture, const struct tally *before, char *ret, size_t size)
{
	return eventually(tally_is(fixture, before, ret, size));
}

struct number_wanted {
	const char *event; /* NULL: whichever comes first */
	const char *key;
	bool found;
	uint64_t number;
};

static void read_number(void *data, struct cursor row)
{
	struct number_wanted *wanted = data;
	char name[256];

	row_get_string(row, "event", name, sizeof(name));
	if (wanted->found || (wanted->event && !streq(name, wanted->event)))
		return;
	wanted->found = true;
	wanted->number = row_get_u64(row, wanted->key);
}

static uint64_t ask_number(const struct fixture *fixture, uint16_t kind, const char *event, const char *key)
{
	struct number_wanted wanted = { .event = event, .key = key };
	int control = raw_connect(fixture->control);

	ck_assert_uint_eq(raw_rows(control, kind, 0, NULL, read_number, &wanted), 0);
	close(control);
	return wanted.number;
}

uint64_t status_number(const struct fixture *fixture, const char *key)
{
	return ask_number(fixture, KIND_STATUS, NULL, key);
}

uint64_t tenant_number(const struct fixture *fixture, const char *key)
{
	return ask_number(fixture, KIND_TENANTS, NULL, key);
}

uint64_t event_number(const struct fixture *fixture, const char *event, const char *key)
{
	return ask_number(fixture, KIND_EVENTS, event, key);
}

uint64_t trace(const struct fixture *fixture, const char *pattern, bool on)
{
	const char *const patterns[] = { pattern, NULL };
	struct number_wanted wanted = { .key = "events" };
	int control = raw_connect(fixture->control);

	raw_rows(control, KIND_TRACE, on ? TRACE_ON : 0, patterns, read_number, &wanted);
	close(control);
	return wanted.number;
}
