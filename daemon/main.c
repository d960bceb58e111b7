/* SPDX-License-Identifier: GPL-2.0-or-later */

/* argv → struct options → struct daemon. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "daemon/daemon.h"
#include "daemon/policy/policy.h"
#include "daemon/process/log.h"
#include "daemon/process/loop.h"
#include "daemon/process/unprivileged.h"
#include "kernel/service.h"

/*
 * Forks, and returns in the child, with a pipe. The parent waits for a byte on the pipe and exits: so the command that started the
 * daemon ends when the sockets listen, or with the exit status of a daemon that failed.
 */
static int go_to_background(void)
{
	int ready[2], status;
	char byte;
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0) {
		close(ready[0]);
		setsid();
		return ready[1];
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) == 1)
		_exit(EXIT_SUCCESS);
	_exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
}

static void write_ready(int fd)
{
	if (fd >= 0 && write(fd, "\n", 1) < 0)
		log_warning("can't report readiness on fd %d: %s", fd, strerror(errno));
}

static void leave_terminal(const struct options *options)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const char *policy = options->policy;

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
	/* Not if a relative path is needed later: to remove the sockets' files, or to read or copy the policy. */
	while (policy && *policy == '/') {
		policy = strchr(policy, ':');
		if (policy)
			policy++;
	}
	if (*options->socket == '/' && *options->control_socket == '/' && !policy &&
	    (!options->state_directory || *options->state_directory == '/') && chdir("/") < 0)
		log_warning("can't leave the current directory: %s", strerror(errno));
}

/* With an error in the policy it prints nothing; the units then put "no" in its place. */
static int print_native(const struct options *options)
{
	static const char *const words[] = { "no", "yes", "insist" };
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	_cleanup_(problems_deinit) struct problems problems = { 0 };
	const int r = policy_load(options->policy, NULL, &problems, &policy);

	if (r != 0)
		return EX_CONFIG;
	puts(words[policy_native(policy)]);
	return EXIT_SUCCESS;
}

static int daemon_start(const struct options *options, int background, pid_t parent)
{
	struct daemon *daemon;
	int r;

	r = daemon_new(options, &daemon);
	/* A restart by the supervisor would fail again until the files are changed. */
	if (r == POLICY_E_WRONG) {
		log_error(
			"the daemon does not start with an error in the policy; 'userevctl policy check' shows the same");
		return EX_CONFIG;
	}
	/* Other errors have been logged already. */
	if (r == -ENOMEM)
		log_error("can't start: out of memory");
	if (r < 0)
		return EXIT_FAILURE;
	/* A change of the user has cleared that signal, and the parent may have exited before. */
	if (options->exit_with_parent && prctl(PR_SET_PDEATHSIG, SIGTERM) < 0) {
		log_error("can't be notified of the parent's end: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	if (options->exit_with_parent && getppid() != parent)
		raise(SIGTERM);
	log_info("%s backend, listening on %s", backend_name(daemon->registry.kernel->facts.backend),
		 daemon->options.socket);
	write_ready(options->ready_fd);
	if (background >= 0) {
		log_open(options->log_level, true);
		write_ready(background);
		fd_close(background);
		leave_terminal(options);
	}
	systemd_say_ready(&daemon->systemd);
	r = daemon_run(daemon);
	service_notify("STOPPING=1", NULL, 0);
	daemon_free(daemon);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	pid_t parent = getppid();
	struct options options;
	int background = -1, status = options_parse(argc, argv, &options);

	if (status >= 0)
		return status;
	if (options.print_native)
		return print_native(&options);
	log_open(options.log_level, false);
	loop_init();
	signal(SIGPIPE, SIG_IGN);
	unprivileged_hide();
	/* systemd and other supervisors track the process that they started. */
	if (!options.foreground && !options.exit_with_parent && !getenv("NOTIFY_SOCKET") && !getenv("INVOCATION_ID") &&
	    !getenv("LISTEN_FDS")) {
		background = go_to_background();
		if (background < 0) {
			log_error("can't go to the background: %s", strerror(-background));
			return EXIT_FAILURE;
		}
	}
	return daemon_start(&options, background, parent);
}
