/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A private daemon: in a new directory that only this user may enter, and in a session of its own, so that ^C at the terminal
 * reaches the traced program and not the daemon. It ends when userevctl ends, also if userevctl is killed.
 */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "client/userevctl/run.h"

enum { TIMEOUT_MS = 10000 };

/* USEREVD, or the daemon of the same build tree or installation, or the one in PATH. */
static void private_find_daemon(char *ret, size_t size)
{
	static const char *const beside[] = { "userevd", "../sbin/userevd" };
	const char *named = getenv("USEREVD");
	const bool is_named = named && named[0];
	char directory[PATH_MAX] = "", *slash;

	if (!is_named && readlink("/proc/self/exe", directory, sizeof(directory) - 1) < 0)
		directory[0] = '\0';
	slash = strrchr(directory, '/');
	for (size_t i = 0; slash && i < ARRAY_SIZE(beside); i++) {
		int n = snprintf(ret, size, "%.*s/%s", (int)(slash - directory), directory, beside[i]);

		if (n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
			return;
	}
	snprintf(ret, size, "%s", is_named ? named : "userevd");
}

pid_t private_fork(const struct ctl *ctl)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (ctl->sigpipe_was_default)
			signal(SIGPIPE, SIG_DFL);
		sigprocmask(SIG_SETMASK, &ctl->signal_mask, NULL);
	}
	return pid;
}

/* In the new process. An error of exec goes into the pipe, where the daemon writes one byte. */
static _Noreturn void become_daemon(const struct private_daemon *daemon, const char *program, bool quiet, int ready)
{
	/* By these variables a supervisor speaks to userevctl itself. */
	static const char *const supervisors[] = { "NOTIFY_SOCKET", "LISTEN_FDS",    "LISTEN_PID", "LISTEN_FDNAMES",
						   "WATCHDOG_PID",  "WATCHDOG_USEC", "FDSTORE",	   "INVOCATION_ID" };
	char socket[128], control[128], ready_fd[32];
	const char *arguments[] = {
		program,
		socket,
		control,
		ready_fd,
		"--backend=embedded",
		"--policy=", /* the machine's policy does not apply */
		"--foreground",
		"--exit-with-parent",
		"--ring-size=16M",
		"--max-events=32767",
		quiet ? "--log-level=err" : "--log-level=warning",
		NULL,
	};
	int null = open("/dev/null", O_RDWR), error;

	snprintf(socket, sizeof(socket), "--socket=%s", daemon->socket);
	snprintf(control, sizeof(control), "--control-socket=%s", daemon->control_socket);
	snprintf(ready_fd, sizeof(ready_fd), "--ready-fd=%d", ready);
	for (size_t i = 0; i < ARRAY_SIZE(supervisors); i++)
		unsetenv(supervisors[i]);
	setsid();
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (null > STDERR_FILENO)
		close(null);
	fcntl(ready, F_SETFD, 0);
	execvp(program, (char *const *)arguments);
	error = errno;
	_exit(write(ready, &error, sizeof(error)) < 0 ? EXIT_RUN_CANNOT : EXIT_RUN_FAILED);
}

static int wait_ready(int ready, int signals)
{
	struct pollfd wanted[] = { { .fd = ready, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	int n, error, number = 0;

	while (number == 0 || number == SIGCHLD) {
		n = poll(wanted, ARRAY_SIZE(wanted), TIMEOUT_MS);
		if (n == 0 || (n < 0 && errno != EINTR))
			return n == 0 ? -ETIMEDOUT : -errno;
		if (n > 0 && wanted[0].revents) {
			ssize_t size = read(ready, &error, sizeof(error));

			return size == 1 ? 0 : size == sizeof(error) ? -error : -ESRCH;
		}
		number = signals_next(signals);
	}
	return number;
}

int private_start(const struct ctl *ctl, struct private_daemon *daemon, bool quiet, int signals)
{
	const char *under = getenv("TMPDIR");
	char program[PATH_MAX];
	int ends[2] = { -1, -1 }, r;

	/* The path of a socket is short. */
	if (!under || under[0] != '/' || strlen(under) > 40)
		under = "/tmp";
	snprintf(daemon->directory, sizeof(daemon->directory), "%s/userevctl-XXXXXX", under);
	if (!mkdtemp(daemon->directory)) {
		r = -errno;
		daemon->directory[0] = '\0';
		ctl_error("cannot make a directory in %s: %s. Set TMPDIR to a writable directory.", under,
			  strerror(-r));
		return r;
	}
	snprintf(daemon->socket, sizeof(daemon->socket), "%s/socket", daemon->directory);
	snprintf(daemon->control_socket, sizeof(daemon->control_socket), "%s/control", daemon->directory);
	private_find_daemon(program, sizeof(program));
	daemon->pid = pipe2(ends, O_CLOEXEC) < 0 ? -1 : private_fork(ctl);
	if (daemon->pid == 0)
		become_daemon(daemon, program, quiet, ends[1]);
	r = daemon->pid < 0 ? -errno : 0;
	fd_close(ends[1]);
	if (r == 0)
		r = wait_ready(ends[0], signals);
	fd_close(ends[0]);
	if (r == -ENOENT)
		ctl_error("cannot find userevd%s. Install it, or set USEREVD=PATH.",
			  strchr(program, '/') ? " at the path in USEREVD" : " beside userevctl or in PATH");
	else if (r == -ESRCH)
		ctl_error("%s ended at once. Is it userevd, of this version (%s)?", program, VERSION);
	else if (r < 0)
		ctl_error("cannot start %s: %s.", program, strerror(-r));
	if (r != 0)
		private_end(daemon);
	return r;
}

void private_end(struct private_daemon *daemon)
{
	const struct timespec moment = { .tv_nsec = 5000000 };
	const struct dirent *entry;
	DIR *directory;

	if (daemon->pid > 0)
		kill(daemon->pid, SIGTERM);
	for (int waited = 0; daemon->pid > 0 && waitpid(daemon->pid, NULL, WNOHANG) == 0; waited += 5) {
		if (waited == TIMEOUT_MS)
			kill(daemon->pid, SIGKILL);
		nanosleep(&moment, NULL);
	}
	daemon->pid = 0;
	if (!daemon->directory[0])
		return;
	directory = opendir(daemon->directory);
	while (directory && (entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	if (rmdir(daemon->directory) < 0 && errno != ENOENT)
		ctl_error("cannot remove %s: %s.", daemon->directory, strerror(errno));
	daemon->directory[0] = '\0';
}
