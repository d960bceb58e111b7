/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * run: a daemon of our own around one program, whose records we show. The events are switched on by a TAIL session
 * before the program starts, so that its first record is seen; and after its end a SYNC tells when its last one has
 * been.
 *
 * The program keeps its stdin, stdout and stderr, its process group and its signals. We take signals as data, so that
 * nothing ends us before the daemon and its directory are gone.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "client/userevctl/ctl.h"

extern char **environ;

enum { OPTION_OUTPUT = 1, OPTION_EVENTS, OPTION_QUIET, OPTION_FULL };
enum run_state { RUNNING, SYNCING, OVER };

#define WAIT_MS "60000" /* longer than any machine takes to answer; the wait ends at once when the daemon does */

struct run {
	struct ctl *ctl;
	const char *patterns[WIRE_BATCH_MAX];
	size_t n_patterns;
	const char *output_path;
	bool quiet;
	bool full;

	struct output output;
	struct record_view view;
	int output_error;
	struct spawn_state spawn;
	int signals; /* fd */
	struct private_daemon daemon;
	struct control *control; /* NULL once the daemon is gone */
	enum run_state state;
	pid_t pid; /* the command's; 0 once it has ended */
	int status;
	uint64_t lost, bad;
};

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static void read_options(struct ctl *ctl, struct run *run)
{
	const char *value;
	int option;

	while ((option = ctl_next_option(ctl, &value)) != 0) {
		switch (option) {
		case OPTION_OUTPUT:
			run->output_path = value;
			break;
		case OPTION_EVENTS:
			if (run->n_patterns == ARRAY_SIZE(run->patterns)) {
				ctl_error("at most %zu --events.", ARRAY_SIZE(run->patterns));
				exit(EXIT_USAGE);
			}
			run->patterns[run->n_patterns++] = value;
			break;
		case OPTION_QUIET:
			run->quiet = true;
			break;
		case OPTION_FULL:
			run->full = true;
			break;
		}
	}
	if (run->n_patterns == 0)
		run->patterns[run->n_patterns++] = "*";
	ctl_expect_arguments(ctl, 1, INT32_MAX);
}

/* Lines are written whole, so that they do not break into the program's own. */
static int open_output(struct run *run)
{
	int fd = run->output_path ? open(run->output_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
				  : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!file) {
		ctl_error("cannot write to %s: %s.", run->output_path ? run->output_path : "stderr", strerror(errno));
		fd_close(fd);
		return -errno;
	}
	setvbuf(file, NULL, _IOFBF, WIRE_PACKET_MAX);
	output_init(&run->output, file, run->ctl->colour, run->ctl->width);
	run->output.json = run->ctl->json;
	run->output.full = run->full;
	run->view.output = &run->output;
	return 0;
}

static int watch_signals(struct run *run, bool children)
{
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		sigaddset(&mask, stopping[i]);
	if (children)
		sigaddset(&mask, SIGCHLD);
	run->signals = signalfd(run->signals, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signals < 0 ? -errno : 0;
}

/* Before anything is there that would have to be removed. */
static int block_signals(struct run *run)
{
	sigset_t mask;

	run->spawn.sigpipe_was_default = run->ctl->sigpipe_was_default;
	/* Whoever ignores it has children that nobody can wait for. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		sigaddset(&mask, stopping[i]);
	sigprocmask(SIG_BLOCK, &mask, &run->spawn.mask);
	return watch_signals(run, false);
}

static int take_packet(struct run *run)
{
	struct message message;
	int r;

	r = control_receive(run->control, CONTROL_PATIENCE_MS, &message);
	if (r < 0)
		return r;
	if (message.kind == KIND_SYNCED) {
		run->state = OVER;
		return 0;
	}
	if (message.kind != KIND_ROWS)
		return -EBADMSG;
	r = record_view_rows(&run->view, message.body);
	if (r == -EBADMSG)
		return r;
	/* That nobody reads the records is no reason to stop the program. */
	if (r < 0 && run->output_error == 0)
		run->output_error = r;
	return 0;
}

/* From its first answer on, every event that will be registered is on. */
static int start_tail(struct run *run)
{
	const char *path = run->daemon.control_socket;
	int r;

	r = control_open(path, &run->control);
	if (r == 0)
		r = control_ask_strings(run->control, KIND_TAIL, 0, run->patterns, run->n_patterns);
	if (r == 0)
		r = take_packet(run);
	if (r < 0)
		control_explain(path, r, run->control);
	return r;
}

/* The daemon is there, so a program waits for its answers, and prints refusals, unless the user wants otherwise. */
static int set_environment(const struct run *run)
{
	const struct {
		const char *name, *value;
		int overwrite;
	} variables[] = {
		{ "USEREV_SOCKET", run->daemon.socket, 1 },
		{ "USEREV_CONTROL_SOCKET", run->daemon.control_socket, 1 },
		{ "USEREV_WAIT", WAIT_MS, 0 },
		{ "USEREV_DEBUG", run->quiet ? "0" : "refused", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (setenv(variables[i].name, variables[i].value, variables[i].overwrite) < 0)
			return -ENOMEM;
	return 0;
}

/* An enum exit_code, EXIT_DONE where it runs. */
static int start_command(struct run *run)
{
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int r;

	if (set_environment(run) < 0)
		return EXIT_RUN_FAILED;
	sigemptyset(&defaults);
	if (run->spawn.sigpipe_was_default)
		sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &run->spawn.mask);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawnp(&run->pid, run->ctl->argv[0], NULL, &attributes, run->ctl->argv, environ);
	posix_spawnattr_destroy(&attributes);
	if (r == 0)
		return EXIT_DONE;
	run->pid = 0;
	ctl_error("cannot run %s: %s.", run->ctl->argv[0], strerror(r));
	return r == ENOENT ? EXIT_RUN_NOT_FOUND : EXIT_RUN_CANNOT;
}

static void lose_daemon(struct run *run, const char *why)
{
	if (run->state == OVER || !run->control)
		return;
	ctl_error("the daemon around it ended (%s): later records are lost.", why);
	run->control = control_free(run->control);
	if (run->state == SYNCING)
		run->state = OVER;
}

static void begin_sync(struct run *run)
{
	run->state = SYNCING;
	if (!run->control)
		run->state = OVER;
	else if (control_ask(run->control, KIND_SYNC) < 0)
		lose_daemon(run, "no connection");
}

static void reap(struct run *run)
{
	if (run->pid > 0 && waitpid(run->pid, &run->status, WNOHANG) == run->pid)
		run->pid = 0;
	/* What it has sent before is still to be read: the connection's end tells when that is over. */
	if (run->daemon.pid > 0 && waitpid(run->daemon.pid, NULL, WNOHANG) == run->daemon.pid)
		run->daemon.pid = 0;
}

static void on_signal(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(run);
		else if (run->pid == 0)
			run->state = OVER;
		else if (info.ssi_code != SI_KERNEL) /* the terminal's has reached it already */
			kill(run->pid, (int)info.ssi_signo);
	}
}

static void turn(struct run *run)
{
	struct pollfd wanted[] = {
		{ .fd = run->signals, .events = POLLIN },
		{ .fd = run->control ? run->control->fd : -1, .events = POLLIN },
	};
	int n = poll(wanted, ARRAY_SIZE(wanted), run->state == SYNCING ? CONTROL_PATIENCE_MS : -1);
	int r;

	if (n == 0) {
		lose_daemon(run, "it does not answer");
		return;
	}
	if (n < 0)
		return;
	if (wanted[1].revents) {
		r = take_packet(run);
		if (r < 0)
			lose_daemon(run, strerror(-r));
	}
	if (wanted[0].revents)
		on_signal(run);
	if (run->state == RUNNING && run->pid == 0)
		begin_sync(run);
}

/* What the daemon counted besides what it showed. */
static void count_losses(struct run *run)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };

	run->lost = run->view.missed;
	if (!run->control || control_open(run->daemon.control_socket, &control) < 0 ||
	    control_ask(control, KIND_STATUS) < 0 || control_next_row(control, &row) <= 0)
		return;
	run->lost += row_get_u64(row, "lost") + row_get_u64(row, "too_big");
	run->bad = row_get_u64(row, "bad");
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void summarise(struct run *run)
{
	char bad[64] = "";

	if (run->output_error < 0 && run->output_error != -EPIPE)
		ctl_error("cannot write to %s: %s. Records are missing there.",
			  run->output_path ? run->output_path : "stderr", strerror(-run->output_error));
	if (run->quiet)
		return;
	if (run->bad > 0)
		snprintf(bad, sizeof(bad), ", %" PRIu64 " bad", run->bad);
	if (!run->ctl->json) {
		ctl_note("userevctl: %s, %" PRIu64 " lost%s", plural(run->view.records, "record", "records").text,
			 run->lost, bad);
		return;
	}
	fprintf(run->output.file,
		"{\"records\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"bad\":%" PRIu64 ",\"exit_status\":%d}\n",
		run->view.records, run->lost, run->bad, exit_status(run->status));
}

static int run_command(struct run *run)
{
	int r;

	if (start_tail(run) < 0)
		return EXIT_RUN_FAILED;
	if (watch_signals(run, true) < 0)
		return EXIT_RUN_FAILED;
	r = start_command(run);
	if (r != EXIT_DONE)
		return r;
	while (run->state != OVER)
		turn(run);
	count_losses(run);
	summarise(run);
	return exit_status(run->status);
}

static int pending_signal(const struct run *run)
{
	struct signalfd_siginfo info;

	return read(run->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : SIGINT;
}

static int run_with_daemon(struct run *run)
{
	int r;

	r = private_start(&run->daemon, &run->spawn, run->quiet, run->signals);
	if (r == -EINTR)
		return 128 + pending_signal(run);
	if (r < 0)
		return EXIT_RUN_FAILED;
	r = run_command(run);
	run->control = control_free(run->control);
	private_end(&run->daemon);
	return r;
}

static int run_run(struct ctl *ctl)
{
	struct run run = { .ctl = ctl, .signals = -1 };
	int r;

	read_options(ctl, &run);
	if (open_output(&run) < 0)
		return EXIT_RUN_FAILED;
	r = block_signals(&run) < 0 ? EXIT_RUN_FAILED : run_with_daemon(&run);
	record_view_deinit(&run.view);
	fclose(run.output.file);
	fd_close(run.signals);
	return r;
}

static const struct ctl_option run_options[] = {
	{ "output", "FILE", "records go there instead of stderr", OPTION_OUTPUT },
	{ "events", "GLOB", "only events of these names; may be given again", OPTION_EVENTS },
	{ "quiet", NULL, "no summary, and no warning of the daemon", OPTION_QUIET },
	{ "full", NULL, "do not shorten tenants on a terminal", OPTION_FULL },
	{ 0 },
};

const struct command command_run = {
	.name = "run",
	.arguments = "[--] COMMAND...",
	.summary = "with a daemon of its own: show its records",
	.help = "Starts a private daemon, switches all events on, runs COMMAND, and shows each of\n"
		"its records on stderr. Needs no privilege and no running daemon, and leaves\n"
		"nothing behind. The exit status is COMMAND's, or 128 and the number of the\n"
		"signal that ended it; 125 when the daemon could not be started, 126 when COMMAND\n"
		"could not, 127 when there is no COMMAND.",
	.options = run_options,
	.stops_at_argument = true,
	.run = run_run,
};
