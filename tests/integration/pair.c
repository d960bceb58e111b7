/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/pair.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/integration/machine.h"
#include "tests/integration/raw.h"

enum { NOBODY = 65534, FIRST_FD = 3 };

static int listen_at(const char *path, mode_t mode, int pass_credentials)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &pass_credentials, sizeof(int)), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(fd, 4096), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
	return fd;
}

/* The child's fds from 3 on, with these names. */
static void hand_over(const int *fds, size_t n, const char *names)
{
	char text[32];
	int moved[4];

	for (size_t i = 0; i < n; i++)
		moved[i] = fcntl(fds[i], F_DUPFD, 64);
	for (size_t i = 0; i < n; i++)
		dup2(moved[i], FIRST_FD + (int)i);
	close_range(FIRST_FD + (unsigned)n, ~0U, 0);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("LISTEN_PID", text, 1);
	snprintf(text, sizeof(text), "%zu", n);
	setenv("LISTEN_FDS", text, 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

static pid_t spawn(const struct pair *pair, const char *program, const char *const *options, const int *fds, size_t n,
		   const char *names)
{
	const char *path = built(program), *argv[16] = { path };
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid > 0)
		return pid;
	for (size_t i = 0; options[i]; i++)
		argv[i + 1] = options[i];
	dup2(open(pair->fixture.log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	hand_over(fds, n, names);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(path, (char *const *)(uintptr_t)argv);
	_exit(127);
}

void pair_start_keeper(struct pair *pair)
{
	const char *const options[] = { pair->guard, "--hold=60", NULL };

	pair->keeper = spawn(pair, "userevd-keeper", options, &pair->keepers, 1, "keeper");
}

void pair_start_daemon(struct pair *pair)
{
	char keeper[128], policy[96];
	const char *const options[] = {
		"--foreground", "--log-level=debug", "--user=nobody", "--backend=auto", keeper, policy, NULL
	};
	const int fds[] = { pair->clients, pair->control };

	snprintf(keeper, sizeof(keeper), "--keeper-socket=%s", pair->keeper_socket);
	snprintf(policy, sizeof(policy), "--policy=%s", pair->fixture.directory);
	pair->daemon = spawn(pair, "userevd", options, fds, ARRAY_SIZE(fds), "clients:control");
	pair->fixture.pid = pair->daemon;
}

static void end(pid_t *pid, int signal)
{
	ck_assert_int_gt(*pid, 0);
	ck_assert_int_eq(kill(*pid, signal), 0);
	ck_assert_int_eq(waitpid(*pid, NULL, 0), *pid);
	*pid = 0;
}

void pair_end_daemon(struct pair *pair, int signal)
{
	end(&pair->daemon, signal);
}

void pair_end_keeper(struct pair *pair, int signal)
{
	end(&pair->keeper, signal);
}

void pair_wait(struct pair *pair)
{
	status_number(&pair->fixture, "connections");
}

static void read_backend(void *data, struct cursor row)
{
	struct fixture *fixture = data;
	char name[32], guard[8];

	row_get_string(row, "backend", name, sizeof(name));
	row_get_string(row, "guard", guard, sizeof(guard));
	fixture->backend = streq(name, "enable-address") ? BACKEND_ENABLE_ADDRESS
			   : streq(name, "status-page")	 ? BACKEND_STATUS_PAGE
							 : BACKEND_EMBEDDED;
	fixture->guarded = streq(guard, "on");
}

static void show_log(const struct fixture *fixture)
{
	FILE *file = fopen(fixture->log, "re");
	char line[1024];

	while (file && fgets(line, sizeof(line), file))
		fprintf(stderr, "    %s", line);
	if (file)
		fclose(file);
}

bool pair_start(struct pair *pair, const char *guard)
{
	struct fixture *fixture = &pair->fixture;
	int control;

	*pair = (struct pair){ .guard = guard };
	*fixture = (struct fixture){ .events_before = read_events() };
	if (!fixture->events_before) {
		printf("not on this kernel: a restart\n");
		return false;
	}
	/* A keeper that makes its own mounts makes one on /tmp. */
	snprintf(fixture->directory, sizeof(fixture->directory), "/run/userevd-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(fixture->directory));
	ck_assert_int_eq(chmod(fixture->directory, 0755), 0);
	snprintf(fixture->socket, sizeof(fixture->socket), "%s/userevd.sock", fixture->directory);
	snprintf(fixture->control, sizeof(fixture->control), "%s/control.sock", fixture->directory);
	snprintf(fixture->log, sizeof(fixture->log), "%s/log", fixture->directory);
	snprintf(fixture->policy, sizeof(fixture->policy), "%s/policy.conf", fixture->directory);
	snprintf(pair->keeper_socket, sizeof(pair->keeper_socket), "%s/keeper.sock", fixture->directory);
	fixture_write_policy(fixture, "");
	pair->clients = listen_at(fixture->socket, 0666, 1);
	pair->control = listen_at(fixture->control, 0600, 1);
	pair->keepers = listen_at(pair->keeper_socket, 0600, 0);
	ck_assert_int_eq(chown(pair->keeper_socket, NOBODY, NOBODY), 0);
	pair_start_keeper(pair);
	pair_start_daemon(pair);
	control = raw_connect(fixture->control);
	ck_assert_uint_eq(raw_rows(control, KIND_STATUS, 0, NULL, read_backend, fixture), 0);
	close(control);
	if (fixture->backend == BACKEND_EMBEDDED)
		show_log(fixture);
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
		show_log(fixture);
		ck_abort_msg("the kernel still has %s", event);
	}
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
