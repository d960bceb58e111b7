/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon in a directory of its own: bare, with a keeper that it starts itself; or as installed, as systemd starts both. */

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "protocol/transport.h"
#include "tests/bench/bench.h"

enum { NOBODY = 65534, FIRST_FD = 3, ARGUMENTS_MAX = 24, BACKLOG = 4096, FAMILY_MAX = 256, REST = 2000 };

const char no_limits[] = "[Daemon]\nDefaultMaxConnections=infinity\n[/**]\nMaxEvents=32700\n";

bool has_user_events(void)
{
	return access("/sys/kernel/tracing/user_events_data", F_OK) == 0;
}

/* --- starting and ending --- */

static void make_directory(struct broker *broker)
{
	char path[128];

	snprintf(broker->directory, sizeof(broker->directory), "/tmp/userevd-bench-XXXXXX");
	if (!mkdtemp(broker->directory) || chmod(broker->directory, broker->counted ? 0777 : 0755) < 0)
		fail(broker->directory);
	snprintf(broker->socket, sizeof(broker->socket), "%s/clients", broker->directory);
	snprintf(broker->control, sizeof(broker->control), "%s/control", broker->directory);
	snprintf(broker->keeper_socket, sizeof(broker->keeper_socket), "%s/keeper", broker->directory);
	snprintf(path, sizeof(path), "%s/bench.conf", broker->directory);
	write_text(path, broker->policy ? broker->policy : no_limits);
	/* One tenant may have almost all events, because it is the only one. */
	if (access("/proc/sys/kernel/user_events_max", W_OK) == 0)
		write_text("/proc/sys/kernel/user_events_max", "64900");
}

/* Arguments are never freed. */
__attribute__((format(printf, 2, 3))) static void add(char **argv, const char *format, ...)
{
	va_list arguments;

	while (*argv)
		argv++;
	va_start(arguments, format);
	if (vasprintf(argv, format, arguments) < 0)
		fail("vasprintf");
	va_end(arguments);
}

static void add_program(const struct broker *broker, char **argv, const char *name)
{
	if (broker->counted) {
		add(argv, "valgrind");
		add(argv, "--quiet");
		add(argv, "--tool=callgrind");
		add(argv, "--callgrind-out-file=%s/counts.%%p", broker->directory);
	}
	add(argv, "%s", built(name));
}

static _Noreturn void become(char *const *argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Callgrind warns of system calls that it does not know. */
	if (streq(argv[0], "valgrind") && !freopen("/dev/null", "w", stderr))
		_exit(127);
	execvp(argv[0], argv);
	_exit(127);
}

/* The daemon starts its keeper itself. */
static void start_bare(struct broker *broker)
{
	char *argv[ARGUMENTS_MAX] = { 0 }, byte;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		fail("pipe");
	add_program(broker, argv, "userevd");
	add(argv, "--socket=%s", broker->socket);
	add(argv, "--control-socket=%s", broker->control);
	add(argv, "--policy=%s", broker->directory);
	add(argv, "--ready-fd=%d", ends[1]);
	add(argv, "--backend=%s", broker->backend ? broker->backend : "auto");
	add(argv, "--foreground");
	add(argv, "--exit-with-parent");
	add(argv, "--log-level=err");
	if (geteuid() == 0)
		add(argv, "--user=nobody");
	broker->daemon = fork();
	if (broker->daemon == 0) {
		fcntl(ends[1], F_SETFD, 0);
		become(argv);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		fail("the daemon did not start");
	close(ends[0]);
}

static int listen_at(const char *path, mode_t mode, int pass_credentials)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	transport_address(path, &address, &length);
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &pass_credentials, sizeof(int));
	if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, BACKLOG) < 0 || chmod(path, mode) < 0)
		fail(path);
	return fd;
}

/* In the new process: these fds become 3, 4, …, with these names. */
static void pass_listeners(const int *fds, unsigned n, const char *names)
{
	char text[32];
	int moved[2];

	for (unsigned i = 0; i < n; i++)
		moved[i] = fcntl(fds[i], F_DUPFD, 64);
	for (unsigned i = 0; i < n; i++)
		dup2(moved[i], FIRST_FD + (int)i);
	close_range(FIRST_FD + n, ~0U, 0);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("LISTEN_PID", text, 1);
	setenv("LISTEN_FDS", n == 1 ? "1" : "2", 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

static void start_keeper(struct broker *broker)
{
	char *argv[ARGUMENTS_MAX] = { 0 };

	broker->keepers = listen_at(broker->keeper_socket, 0600, 0);
	if (chown(broker->keeper_socket, NOBODY, NOBODY) < 0)
		fail(broker->keeper_socket);
	/* systemd-tmpfiles makes it. */
	mkdir("/run/userevd-keeper", 0755);
	mkdir("/run/userevd-keeper/pages", 0755);
	add_program(broker, argv, "userevd-keeper");
	add(argv, "--guard=prefer");
	add(argv, "--hold=60");
	broker->keeper = fork();
	if (broker->keeper == 0) {
		pass_listeners(&broker->keepers, 1, "keeper");
		become(argv);
	}
}

void broker_start_daemon(struct broker *broker)
{
	const int fds[] = { broker->clients, broker->controls };
	char *argv[ARGUMENTS_MAX] = { 0 };

	add_program(broker, argv, "userevd");
	add(argv, "--foreground");
	add(argv, "--log-level=err");
	add(argv, "--keeper-socket=%s", broker->keeper_socket);
	add(argv, "--policy=%s", broker->directory);
	if (broker->option)
		add(argv, "%s", broker->option);
	broker->daemon = fork();
	if (broker->daemon == 0) {
		pass_listeners(fds, 2, "clients:control");
		if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			fail("setuid");
		become(argv);
	}
}

void broker_start(struct broker *broker)
{
	make_directory(broker);
	if (!broker->installed) {
		start_bare(broker);
		return;
	}
	broker->clients = listen_at(broker->socket, 0666, 1);
	broker->controls = listen_at(broker->control, 0600, 1);
	start_keeper(broker);
	broker_start_daemon(broker);
}

static pid_t end(pid_t pid)
{
	if (pid > 0)
		finish(pid, SIGTERM);
	return 0;
}

void broker_stop(struct broker *broker)
{
	const char *const remove[] = { "rm", "-rf", broker->directory, NULL };

	broker->daemon = end(broker->daemon);
	broker->keeper = end(broker->keeper);
	if (broker->installed) {
		close(broker->clients);
		close(broker->controls);
		close(broker->keepers);
	}
	run(remove);
}

/* --- its processes --- */

unsigned broker_processes(const struct broker *broker, pid_t *ret, unsigned most)
{
	ret[0] = broker->daemon;
	ret[1] = broker->keeper;
	return process_family(ret, broker->keeper ? 2 : 1, most);
}

double broker_time(const struct broker *broker)
{
	pid_t pids[FAMILY_MAX];
	unsigned n = broker_processes(broker, pids, FAMILY_MAX);
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += process_time(pids[i]);
	return sum;
}

void broker_rest(const struct broker *broker)
{
	double before = -1, spent = broker_time(broker);

	/* Sleeps last, because a process that was busy is preempted sooner. */
	for (;;) {
		usleep(REST);
		if (spent == before)
			break;
		before = spent;
		spent = broker_time(broker);
	}
}

static double take_count(const struct broker *broker, pid_t pid)
{
	char path[128], line[256];
	double count = 0;
	FILE *file;

	kill(pid, SIGCONT);
	finish(pid, 0);
	snprintf(path, sizeof(path), "%s/counts.%d", broker->directory, (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "totals: %lf", &count) == 1)
			break;
	if (file)
		fclose(file);
	if (count == 0)
		fail("callgrind");
	return count;
}

/* SIGQUIT ends them without any work; both are stopped first, so that neither sees the other's end. */
void broker_count(struct broker *broker, double *ret_daemon, double *ret_keeper)
{
	broker_rest(broker);
	kill(broker->daemon, SIGSTOP);
	kill(broker->keeper, SIGSTOP);
	kill(broker->daemon, SIGQUIT);
	kill(broker->keeper, SIGQUIT);
	*ret_daemon = take_count(broker, broker->daemon);
	*ret_keeper = take_count(broker, broker->keeper);
	broker->daemon = broker->keeper = 0;
}

void broker_empty(const struct broker *broker)
{
	int fd = connect_to_broker(broker);

	while (query_broker(fd).events > 0)
		usleep(20000);
	close(fd);
	broker_rest(broker);
}

void broker_settle(const struct broker *broker)
{
	broker_empty(broker);
	if (has_user_events())
		direct_settle();
}

void broker_switch(const struct broker *broker, const char *name, bool on)
{
	char control[128];
	const char *argv[] = { built("userevctl"), control, on ? "enable" : "disable", name, NULL };

	snprintf(control, sizeof(control), "--control-socket=%s", broker->control);
	if (!run(argv))
		fail("userevctl");
}

static void note_lines(FILE *file)
{
	char line[256];

	while (fgets(line, sizeof(line), file))
		if (strstr(line, "Backend: ") || strstr(line, "Guard: "))
			note("%.*s", (int)strcspn(line + strspn(line, " "), "\n"), line + strspn(line, " "));
}

void broker_describe(const struct broker *broker)
{
	char control[128], path[128];
	const char *argv[] = { built("userevctl"), control, "status", NULL };
	FILE *file;

	snprintf(control, sizeof(control), "--control-socket=%s", broker->control);
	snprintf(path, sizeof(path), "%s.status", broker->directory);
	finish(start(argv, path), 0);
	file = fopen(path, "re");
	if (!file)
		return;
	note_lines(file);
	fclose(file);
	unlink(path);
}
