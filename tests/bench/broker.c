/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The daemon in a directory of its own: bare, with a keeper that it starts itself; or as installed, as systemd starts both. */

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "protocol/transport.h"
#include "tests/bench/bench.h"

enum {
	NOBODY = 65534,
	FIRST_FD = 3,
	ARGUMENTS_MAX = 24,
	BACKLOG = 4096,
	FAMILY_MAX = 256,
	FDS_MAX = 16,
	ATTEMPTS = 5,
	REST = 2000
};

static const char keeper_cgroup[] = "/system.slice/userevd-keeper.service";

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
	if (streq(argv[0], "valgrind")) {
		/* Callgrind warns of system calls that it does not know. */
		if (!freopen("/dev/null", "w", stderr))
			_exit(127);
	}
	execvp(argv[0], argv);
	_exit(127);
}

/* The embedded backend in place of the kernel's would be a wrong figure: a slow start fails, and is repeated. */
static const char *backend_of(const struct broker *broker)
{
	if (broker->backend || !has_user_events())
		return broker->backend ? broker->backend : "auto";
	return has_status_page() ? "status-page" : "enable-address";
}

static void make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC) < 0)
		fail("pipe");
}

/* The daemon starts its keeper itself. */
static void start_bare(struct broker *broker)
{
	char *argv[ARGUMENTS_MAX] = { 0 };
	int ends[2];

	make_pipe(ends);
	add_program(broker, argv, "userevd");
	add(argv, "--socket=%s", broker->socket);
	add(argv, "--control-socket=%s", broker->control);
	add(argv, "--policy=%s", broker->directory);
	add(argv, "--ready-fd=%d", ends[1]);
	add(argv, "--backend=%s", backend_of(broker));
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
	broker->ready = ends[0];
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

/* In the new process: these fds become 3, 4, …, with these names; the last one may have none. */
static void pass_fds(const int *fds, unsigned n, const char *names, unsigned n_names)
{
	int moved[FDS_MAX];
	char text[32];

	for (unsigned i = 0; i < n; i++)
		moved[i] = fcntl(fds[i], F_DUPFD, 64);
	for (unsigned i = 0; i < n; i++)
		dup2(moved[i], FIRST_FD + (int)i);
	close_range(FIRST_FD + n, ~0U, 0);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("LISTEN_PID", text, 1);
	snprintf(text, sizeof(text), "%u", n_names);
	setenv("LISTEN_FDS", text, 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

/* The unit's ExecStartPre=, which passes fds to systemd's store. Adds these, and their names. */
static unsigned prepare_keeper(const struct broker *broker, int *fds, char *names, size_t size)
{
	int store = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	char path[128], text[256];
	struct fdset passed = { 0 };
	bool has_ended = false;
	unsigned n = 0;
	socklen_t length;
	ssize_t got;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/notify", broker->directory);
	transport_address(path, &address, &length);
	if (bind(store, (struct sockaddr *)&address, length) < 0)
		fail(path);
	pid = fork();
	if (pid == 0) {
		enter_cgroup(keeper_cgroup);
		setenv("NOTIFY_SOCKET", path, 1);
		execl(built("userevd-keeper"), "userevd-keeper", "--prepare", "--guard=prefer",
		      broker->native ? "--native=yes" : "--native=no", NULL);
		_exit(127);
	}
	/* The socket holds ten messages, so they are read while it writes. */
	for (;;) {
		has_ended |= waitpid(pid, NULL, WNOHANG) == pid;
		got = transport_receive_fds(store, text, sizeof(text) - 1, &passed, MSG_DONTWAIT);
		if (got <= 0 && has_ended)
			break;
		if (got <= 0) {
			usleep(REST);
			continue;
		}
		text[got] = '\0';
		if (passed.count > 0) {
			const char *name = strstr(text, "FDNAME=") + strlen("FDNAME=");

			fds[n++] = fdset_steal(&passed, 0);
			snprintf(names + strlen(names), size - strlen(names), ":%.*s", (int)strcspn(name, "\n"), name);
		}
		fdset_deinit(&passed);
	}
	close(store);
	return n;
}

static void start_keeper(struct broker *broker)
{
	char *argv[ARGUMENTS_MAX] = { 0 }, names[128] = "keeper";
	int fds[FDS_MAX] = { listen_at(broker->keeper_socket, 0600, 0) };
	unsigned n = 1;

	if (chown(broker->keeper_socket, NOBODY, NOBODY) < 0)
		fail(broker->keeper_socket);
	/* systemd-tmpfiles makes it. */
	mkdir("/run/userevd-keeper", 0755);
	mkdir("/run/userevd-keeper/pages", 0755);
	if (broker->native &&
	    !run((const char *const[]){ built("userevd-keeper"), "--mount-native", "--native=yes", NULL }))
		fail("userevd-keeper --mount-native");
	n += prepare_keeper(broker, fds + 1, names, sizeof(names));
	add_program(broker, argv, "userevd-keeper");
	add(argv, "--hold=60");
	broker->keeper = fork();
	if (broker->keeper == 0) {
		enter_cgroup(keeper_cgroup);
		pass_fds(fds, n, names, n);
		become(argv);
	}
	broker->keepers = fds[0];
	for (unsigned i = 1; i < n; i++)
		close(fds[i]);
}

void broker_start_daemon(struct broker *broker)
{
	char *argv[ARGUMENTS_MAX] = { 0 };
	int ends[2];

	make_pipe(ends);
	add_program(broker, argv, "userevd");
	add(argv, "--foreground");
	add(argv, "--log-level=err");
	add(argv, "--keeper-socket=%s", broker->keeper_socket);
	add(argv, "--policy=%s", broker->directory);
	add(argv, "--ready-fd=%d", FIRST_FD + 2);
	add(argv, "--backend=%s", backend_of(broker));
	if (broker->option)
		add(argv, "%s", broker->option);
	broker->daemon = fork();
	if (broker->daemon == 0) {
		const int fds[] = { broker->clients, broker->controls, ends[1] };

		pass_fds(fds, 3, "clients:control", 2);
		if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			fail("setuid");
		become(argv);
	}
	close(ends[1]);
	if (broker->ready > 0)
		close(broker->ready);
	broker->ready = ends[0];
}

/* Where the clock of instructions jumps while the guest reads a program's file, a timeout may pass. */
static void try_to_start(struct broker *broker)
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

void broker_start(struct broker *broker)
{
	char byte;

	for (unsigned i = 0; i < ATTEMPTS; i++) {
		try_to_start(broker);
		if (read(broker->ready, &byte, 1) == 1)
			return;
		broker_stop(broker);
	}
	fail("the daemon did not start");
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
	close(broker->ready);
	broker->ready = 0;
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
