/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A private daemon: in a new directory that only this user may enter, and in a session of its own, so that ^C at the terminal
 * reaches the traced program and not the daemon. It ends when userevctl ends, also if userevctl is killed.
 */

#include "client/userevctl/private.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "protocol/base/array.h"

extern char **environ;

enum { READY_FD = 3 /* in the daemon */, TIMEOUT_MS = 10000 };

/* USEREVD, or the daemon of the same build tree or installation, or the one in PATH. Whether it has been found. */
static bool private_find_daemon(char *ret, size_t size)
{
	static const char *const beside[] = { "userevd", "../daemon/userevd", "../sbin/userevd" };
	const char *named = getenv("USEREVD");
	char directory[PATH_MAX];
	ssize_t length;
	char *slash;

	if (named && named[0]) {
		snprintf(ret, size, "%s", named);
		return true;
	}
	length = readlink("/proc/self/exe", directory, sizeof(directory) - 1);
	directory[MAX(length, (ssize_t)0)] = '\0';
	slash = strrchr(directory, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && i < ARRAY_SIZE(beside); i++) {
		int n = snprintf(ret, size, "%s/%s", directory, beside[i]);

		if (n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
			return true;
	}
	snprintf(ret, size, "userevd");
	return false;
}

/* Without the variables by which a supervisor speaks to userevctl itself. */
static char **daemon_environment(void)
{
	static const char *const ours[] = { "NOTIFY_SOCKET=", "LISTEN_FDS=",	"LISTEN_PID=", "LISTEN_FDNAMES=",
					    "WATCHDOG_PID=",  "WATCHDOG_USEC=", "FDSTORE=",    "INVOCATION_ID=" };
	char **environment = NULL;
	size_t n = 0;

	for (char **variable = environ; *variable; variable++) {
		size_t i = 0;

		while (i < ARRAY_SIZE(ours) && strncmp(*variable, ours[i], strlen(ours[i])) != 0)
			i++;
		environment = must(array_grow(environment, n, sizeof(*environment)));
		if (i == ARRAY_SIZE(ours))
			environment[n++] = *variable;
	}
	environment = must(array_grow(environment, n, sizeof(*environment)));
	environment[n] = NULL;
	return environment;
}

int private_spawn(const struct ctl *ctl, pid_t *ret, char *const *arguments, char *const *environment,
		  const posix_spawn_file_actions_t *actions, short flags)
{
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int r;

	sigemptyset(&defaults);
	if (ctl->sigpipe_was_default)
		sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &ctl->signal_mask);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, (short)(flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
	r = posix_spawnp(ret, arguments[0], actions, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	if (r != 0)
		*ret = 0;
	return r;
}

static int spawn_daemon(const struct ctl *ctl, struct private_daemon *daemon, const char *program, bool quiet,
			int ready)
{
	char socket[128], control[128];
	const char *arguments[] = {
		program,
		socket,
		control,
		"--backend=embedded",
		"--policy=", /* the machine's policy does not apply */
		"--foreground",
		"--ready-fd=3",
		"--exit-with-parent",
		"--ring-size=16M",
		"--max-events=32767",
		quiet ? "--log-level=err" : "--log-level=warning",
		NULL,
	};
	_cleanup_(freep) char **environment = daemon_environment();
	posix_spawn_file_actions_t actions;
	int r;

	snprintf(socket, sizeof(socket), "--socket=%s", daemon->socket);
	snprintf(control, sizeof(control), "--control-socket=%s", daemon->control_socket);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ready, READY_FD);
	r = private_spawn(ctl, &daemon->pid, (char *const *)arguments, environment, &actions, POSIX_SPAWN_SETSID);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int wait_ready(int ready, int stop_fd)
{
	struct pollfd wanted[] = { { .fd = ready, .events = POLLIN }, { .fd = stop_fd, .events = POLLIN } };
	char byte;
	int n;

	do
		n = poll(wanted, ARRAY_SIZE(wanted), TIMEOUT_MS);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	if (wanted[0].revents)
		return read(ready, &byte, 1) == 1 ? 0 : -ESRCH;
	return -EINTR;
}

/* Explains its errors. */
static int private_make_directory(struct private_daemon *daemon)
{
	const char *under = getenv("TMPDIR");

	/* The path of a socket is short. */
	if (!under || under[0] != '/' || strlen(under) > 40)
		under = "/tmp";
	snprintf(daemon->directory, sizeof(daemon->directory), "%s/userevctl-XXXXXX", under);
	if (!mkdtemp(daemon->directory)) {
		int error = errno;

		daemon->directory[0] = '\0';
		ctl_error("cannot make a directory in %s: %s. Set TMPDIR to a writable directory.", under,
			  strerror(error));
		return -error;
	}
	snprintf(daemon->socket, sizeof(daemon->socket), "%s/socket", daemon->directory);
	snprintf(daemon->control_socket, sizeof(daemon->control_socket), "%s/control", daemon->directory);
	return 0;
}

int private_start(const struct ctl *ctl, struct private_daemon *daemon, bool quiet, int stop_fd)
{
	char program[PATH_MAX];
	bool found = private_find_daemon(program, sizeof(program));
	int ends[2] = { -1, -1 }, r = private_make_directory(daemon);

	if (r < 0)
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		r = -errno;
	if (r == 0)
		r = spawn_daemon(ctl, daemon, program, quiet, ends[1]);
	fd_close(ends[1]);
	if (r == -ENOENT)
		ctl_error("cannot find userevd%s. Install it, or set USEREVD=PATH.",
			  found ? " at the path in USEREVD" : " beside userevctl or in PATH");
	else if (r < 0)
		ctl_error("cannot start %s: %s.", program, strerror(-r));
	if (r == 0) {
		r = wait_ready(ends[0], stop_fd);
		if (r == -ESRCH)
			ctl_error("%s ended at once. Is it userevd, of this version (%s)?", program, VERSION);
		else if (r < 0 && r != -EINTR)
			ctl_error("%s did not become ready: %s.", program, strerror(-r));
	}
	fd_close(ends[0]);
	if (r < 0)
		private_end(daemon);
	return r;
}

static void private_kill(pid_t pid)
{
	const struct timespec moment = { .tv_nsec = 5000000 };

	kill(pid, SIGTERM);
	for (int waited = 0; waitpid(pid, NULL, WNOHANG) == 0; waited += 5) {
		if (waited >= TIMEOUT_MS) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
			return;
		}
		nanosleep(&moment, NULL);
	}
}

void private_end(struct private_daemon *daemon)
{
	const struct dirent *entry;
	DIR *directory;

	if (daemon->pid > 0)
		private_kill(daemon->pid);
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
