/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A daemon of our own: in a fresh directory that only we may enter, in a session of its own, so that ^C at the terminal
 * reaches the program that is traced and not its tracer. It ends when we do, whatever ends us.
 */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "client/userevctl/ctl.h"

extern char **environ;

enum {
	READY_FD = 3, /* in the daemon */
	PATIENCE_MS = 10000,
	ARGUMENTS_MAX = 16,
};

/* Where the daemon stands in a build tree, in an installed one, and anywhere else. */
static bool find_daemon(char *ret, size_t size)
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

/* What a supervisor told us is not meant for a daemon of our own. */
static bool is_for_us_alone(const char *variable)
{
	static const char *const names[] = { "NOTIFY_SOCKET=", "LISTEN_FDS=",	 "LISTEN_PID=", "LISTEN_FDNAMES=",
					     "WATCHDOG_PID=",  "WATCHDOG_USEC=", "FDSTORE=",	"INVOCATION_ID=" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static char **daemon_environment(void)
{
	size_t count = 0, kept = 0;
	char **environment;

	while (environ[count])
		count++;
	environment = calloc(count + 1, sizeof(*environment));
	for (size_t i = 0; environment && i < count; i++)
		if (!is_for_us_alone(environ[i]))
			environment[kept++] = environ[i];
	return environment;
}

static int make_directory(struct private_daemon *daemon)
{
	const char *under = getenv("TMPDIR");

	/* Sockets' paths are short. */
	if (!under || under[0] != '/' || strlen(under) > 40)
		under = "/tmp";
	snprintf(daemon->directory, sizeof(daemon->directory), "%s/userevctl-XXXXXX", under);
	if (!mkdtemp(daemon->directory)) {
		int error = errno;

		ctl_error("cannot make a directory in %s: %s. Set TMPDIR to one that can be written.", under,
			  strerror(error));
		daemon->directory[0] = '\0';
		return -error;
	}
	snprintf(daemon->socket, sizeof(daemon->socket), "%s/socket", daemon->directory);
	snprintf(daemon->control_socket, sizeof(daemon->control_socket), "%s/control", daemon->directory);
	return 0;
}

static int set_attributes(posix_spawnattr_t *attributes, const struct spawn_state *state)
{
	sigset_t defaults;

	sigemptyset(&defaults);
	if (state->sigpipe_was_default)
		sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_setsigmask(attributes, &state->mask);
	posix_spawnattr_setsigdefault(attributes, &defaults);
	return posix_spawnattr_setflags(attributes,
					POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
}

static int spawn_daemon(struct private_daemon *daemon, const struct spawn_state *state, const char *program, bool quiet,
			int ready)
{
	char socket[128], control[128];
	const char *arguments[ARGUMENTS_MAX] = {
		program,
		socket,
		control,
		"--backend=embedded",
		"--policy=", /* the machine's is not for this */
		"--foreground",
		"--ready-fd=3",
		"--exit-with-parent",
		"--ring-size=16M",
		"--max-events=32767",
		quiet ? "--log-level=err" : "--log-level=warning",
	};
	_cleanup_(freep) char **environment = daemon_environment();
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r;

	if (!environment)
		return -ENOMEM;
	snprintf(socket, sizeof(socket), "--socket=%s", daemon->socket);
	snprintf(control, sizeof(control), "--control-socket=%s", daemon->control_socket);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ready, READY_FD);
	posix_spawnattr_init(&attributes);
	r = set_attributes(&attributes, state);
	if (r == 0)
		r = posix_spawnp(&daemon->pid, program, &actions, &attributes, (char **)arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		daemon->pid = 0;
	return -r;
}

/* Until it listens. */
static int wait_ready(int ready, int stop_fd)
{
	struct pollfd wanted[] = { { .fd = ready, .events = POLLIN }, { .fd = stop_fd, .events = POLLIN } };
	char byte;
	int n;

	do
		n = poll(wanted, ARRAY_SIZE(wanted), PATIENCE_MS);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	if (wanted[0].revents)
		return read(ready, &byte, 1) == 1 ? 0 : -ESRCH;
	return -EINTR;
}

static int start(struct private_daemon *daemon, const struct spawn_state *state, bool quiet, int stop_fd)
{
	_cleanup_(fd_closep) int ready = -1;
	char program[PATH_MAX];
	bool found = find_daemon(program, sizeof(program));
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	ready = ends[0];
	r = spawn_daemon(daemon, state, program, quiet, ends[1]);
	close(ends[1]);
	if (r == -ENOENT)
		ctl_error("cannot find userevd%s. Install it, or say where it is with USEREVD=PATH.",
			  found ? " where USEREVD says" : " beside userevctl or in PATH");
	else if (r < 0)
		ctl_error("cannot start %s: %s.", program, strerror(-r));
	if (r < 0)
		return r;
	r = wait_ready(ready, stop_fd);
	if (r == -ESRCH)
		ctl_error("%s ended at once. Is it userevd, of this version (%s)?", program, VERSION);
	else if (r < 0 && r != -EINTR)
		ctl_error("%s did not become ready: %s.", program, strerror(-r));
	return r;
}

int private_start(struct private_daemon *daemon, const struct spawn_state *state, bool quiet, int stop_fd)
{
	int r;

	r = make_directory(daemon);
	if (r < 0)
		return r;
	r = start(daemon, state, quiet, stop_fd);
	if (r < 0)
		private_end(daemon);
	return r;
}

static bool has_ended(pid_t pid, int patience_ms)
{
	const struct timespec moment = { .tv_nsec = 5000000 };

	for (int waited = 0; waitpid(pid, NULL, WNOHANG) == 0; waited += 5) {
		if (waited >= patience_ms)
			return false;
		nanosleep(&moment, NULL);
	}
	return true;
}

static void remove_directory(const char *path)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	if (rmdir(path) < 0 && errno != ENOENT)
		ctl_error("cannot remove %s: %s.", path, strerror(errno));
}

void private_end(struct private_daemon *daemon)
{
	if (daemon->pid > 0) {
		kill(daemon->pid, SIGTERM);
		if (!has_ended(daemon->pid, PATIENCE_MS)) {
			kill(daemon->pid, SIGKILL);
			waitpid(daemon->pid, NULL, 0);
		}
		daemon->pid = 0;
	}
	if (daemon->directory[0])
		remove_directory(daemon->directory);
	daemon->directory[0] = '\0';
}
