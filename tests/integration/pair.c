/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/pair.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/limits.h"
#include "protocol/transport.h"
#include "tests/integration/kernel_events.h"
#include "tests/integration/machine.h"
#include "tests/integration/raw.h"

enum { NOBODY = 65534 };

static int listen_at(const char *path, mode_t mode, int pass_credentials)
{
	int fd = raw_listen(path, 0);

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &pass_credentials, sizeof(int)), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
	return fd;
}

void pair_start_keeper(struct pair *pair)
{
	const char *const options[] = { pair->guard, "--hold=60", pair->native, NULL };

	pair->keeper = start_program("userevd-keeper", pair->fixture.log, options, &pair->keepers, 1, "keeper");
}

void pair_start_daemon(struct pair *pair)
{
	char keeper[128], policy[96];
	const char *options[] = { "--foreground",   "--log-level=debug", keeper,	   policy,
				  pair->options[0], pair->options[1],	 pair->options[2], NULL };
	const int fds[] = { pair->clients, pair->control };

	snprintf(keeper, sizeof(keeper), "--keeper-socket=%s", pair->keeper_socket);
	snprintf(policy, sizeof(policy), "--policy=%s", pair->fixture.directory);
	pair->daemon =
		start_program(pair->program, pair->fixture.log, options, fds, ARRAY_SIZE(fds), "clients:control");
	pair->fixture.pid = pair->daemon;
}

static int end(pid_t *pid, int signal)
{
	int status;

	ck_assert_int_gt(*pid, 0);
	ck_assert_int_eq(kill(*pid, signal), 0);
	ck_assert_int_eq(waitpid(*pid, &status, 0), *pid);
	*pid = 0;
	return status;
}

enum { SOCKETS_MAX = 4096, CONNECTED = 3 };

/* The inodes of the sockets of a process. */
static size_t list_sockets(pid_t process, unsigned long ret[SOCKETS_MAX])
{
	const struct dirent *entry;
	char path[64], link[64];
	size_t n = 0;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)process);
	fds = opendir(path);
	while (fds && (entry = readdir(fds)) && n < SOCKETS_MAX) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, link, sizeof(link) - 1);

		link[MAX(length, 0)] = '\0';
		n += sscanf(link, "socket:[%lu]", &ret[n]) == 1;
	}
	if (fds)
		closedir(fds);
	return n;
}

/* The keeper has a copy of each connection on the clients' socket. */
static bool all_are_deposited(const struct pair *pair)
{
	static unsigned long kept[SOCKETS_MAX];
	const size_t n = list_sockets(pair->keeper, kept);
	FILE *sockets = fopen("/proc/net/unix", "re");
	char line[512], path[256];
	unsigned long inode;
	unsigned state;
	bool all = true;

	while (fgets(line, sizeof(line), sockets)) {
		size_t i = 0;

		if (sscanf(line, "%*s %*s %*s %*s %*s %x %lu %255s", &state, &inode, path) < 3 || state != CONNECTED ||
		    !streq(path, pair->fixture.socket))
			continue;
		while (i < n && kept[i] != inode)
			i++;
		all = all && i < n;
	}
	fclose(sockets);
	return all;
}

/* For a while: a client that waits for an answer is not deposited. */
static void await_deposits(const struct pair *pair)
{
	usleep((useconds_t)(4 * DEFER_INTERVAL * 1e6));
	for (unsigned i = 0; i < 100 && pair->keeper > 0 && !all_are_deposited(pair); i++)
		usleep((useconds_t)(DEFER_INTERVAL * 1e6));
}

/*
 * A daemon that is killed loses the connections that it has not deposited: a busy machine needs longer than usual for that. After
 * SIGTERM the exit status must be 0; a sanitizer's finding would change it.
 */
void pair_end_daemon(struct pair *pair, int signal)
{
	int status;

	if (signal != SIGTERM && !pair->at_once)
		await_deposits(pair);
	status = end(&pair->daemon, signal);

	if (signal != SIGTERM || status == 0)
		return;
	fixture_print_log(&pair->fixture);
	ck_abort_msg("the daemon ended with status %#x", (unsigned)status);
}

void pair_restart_daemon(struct pair *pair, int signal)
{
	pair_end_daemon(pair, signal);
	pair_start_daemon(pair);
}

void pair_end_keeper(struct pair *pair, int signal)
{
	end(&pair->keeper, signal);
}

void pair_wait(struct pair *pair)
{
	status_number(&pair->fixture, "connections");
}

/* Everything except the processes. */
static void prepare(struct pair *pair)
{
	struct fixture *fixture = &pair->fixture;

	fixture_prepare(fixture, "");
	snprintf(pair->keeper_socket, sizeof(pair->keeper_socket), "%s/keeper.sock", fixture->directory);
	pair->clients = listen_at(fixture->socket, 0666, 1);
	pair->control = listen_at(fixture->control, 0600, 1);
	pair->keepers = listen_at(pair->keeper_socket, 0600, 0);
}

static void put_away(struct pair *pair)
{
	struct fixture *fixture = &pair->fixture;

	close(pair->clients);
	close(pair->control);
	close(pair->keepers);
	unlink(fixture->socket);
	unlink(fixture->control);
	unlink(fixture->log);
	unlink(fixture->policy);
	unlink(pair->keeper_socket);
	ck_assert_int_eq(rmdir(fixture->directory), 0);
	free(fixture->events_before);
}

void pair_start_embedded(struct pair *pair)
{
	*pair = (struct pair){ .program = "userevd", .options = { "--backend=embedded", "--ring-size=64K" } };
	prepare(pair);
	pair_start_daemon(pair);
	fixture_read_backend(&pair->fixture);
	ck_assert_int_eq(pair->fixture.backend, BACKEND_EMBEDDED);
}

bool pair_start(struct pair *pair, const char *guard)
{
	struct fixture *fixture = &pair->fixture;

	*pair = (struct pair){ .guard = guard, .program = "userevd", .options = { "--backend=auto", "--user=nobody" } };
	prepare(pair);
	if (!fixture->events_before) {
		put_away(pair);
		return not_possible("a restart, without user_events in the kernel");
	}
	ck_assert_int_eq(chown(pair->keeper_socket, NOBODY, NOBODY), 0);
	pair_start_keeper(pair);
	pair_start_daemon(pair);
	fixture_read_backend(fixture);
	if (fixture->backend == BACKEND_EMBEDDED)
		fixture_print_log(fixture);
	ck_assert_int_ne(fixture->backend, BACKEND_EMBEDDED);
	return true;
}

void pair_stop(struct pair *pair)
{
	struct fixture *fixture = &pair->fixture;
	char event[640] = "";

	tracer_stop(&fixture->tracer);
	if (pair->daemon)
		pair_end_daemon(pair, SIGTERM);
	if (pair->keeper)
		pair_end_keeper(pair, SIGTERM);
	if (fixture->backend == BACKEND_STATUS_PAGE)
		delete_new_events(fixture->events_before);
	if (!eventually(!find_new_event(fixture->events_before, event, sizeof(event)))) {
		fixture_print_log(fixture);
		ck_abort_msg("the kernel still has %s", event);
	}
	put_away(pair);
}

void pair_run(const char *guard, void (*test)(struct pair *, struct fixture *))
{
	struct pair pair;

	if (!pair_start(&pair, guard))
		return;
	test(&pair, &pair.fixture);
	await_status(&pair.fixture, "charges=0");
	pair_stop(&pair);
}
