/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * run: a private daemon around one program, and its records on stderr. A TAIL session switches the events on before the
 * program starts, so that its first record is shown; after its end a SYNC request is answered behind its last record.
 *
 * The program keeps its stdin, stdout and stderr, its process group and its signals. userevctl receives signals through a
 * signalfd, so that no signal ends it before the daemon and its directory are gone.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "client/userevctl/private.h"
#include "client/userevctl/tracing/record.h"

extern char **environ;

enum run_state { RUN_RUNNING, RUN_SYNCING, RUN_OVER };

#define WAIT_MS "60000" /* longer than any machine takes to answer; the wait ends at once when the daemon does */

struct run_patterns {
	const char *pattern[WIRE_BATCH_MAX];
	size_t n;
};

struct run {
	struct ctl *ctl;
	struct run_patterns patterns;
	const char *output_path;
	bool quiet;

	struct output output;
	struct record_view view;
	int output_error;
	int signals; /* fd */
	struct private_daemon daemon;
	struct control *control; /* NULL once the daemon is gone */
	enum run_state state;
	pid_t pid; /* the command's; 0 once it has ended */
	int status;
	uint64_t lost, bad;
};

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static void run_take_pattern(const struct ctl_option *option _unused_, const char *value, void *variable)
{
	struct run_patterns *patterns = variable;

	if (patterns->n == ARRAY_SIZE(patterns->pattern)) {
		ctl_error("at most %zu --events.", ARRAY_SIZE(patterns->pattern));
		exit(EXIT_USAGE);
	}
	patterns->pattern[patterns->n++] = value;
}

static int open_output(struct run *run)
{
	const char *path = run->output_path;
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
		      : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!file) {
		ctl_error("cannot write to %s: %s.", path ? path : "stderr", strerror(errno));
		fd_close(fd);
		return -errno;
	}
	/* Whole lines, so that they do not break into those of the program. */
	setvbuf(file, NULL, _IOFBF, WIRE_PACKET_MAX);
	run->output = run->ctl->output;
	output_open(&run->output, file);
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

static int run_take_packet(struct run *run)
{
	struct message message;
	int r;

	r = control_receive(run->control, CONTROL_TIMEOUT_MS, &message);
	if (r < 0)
		return r;
	if (message.kind == KIND_SYNCED) {
		run->state = RUN_OVER;
		return 0;
	}
	if (message.kind != KIND_ROWS)
		return -EBADMSG;
	r = record_view_rows(&run->view, message.body);
	if (r == -EBADMSG)
		return r;
	/* The program goes on although its records have no reader. */
	if (r < 0 && run->output_error == 0)
		run->output_error = r;
	return 0;
}

/* An enum exit_code. */
static int start_command(struct run *run)
{
	/* Programs wait for the answers of this daemon, and print refusals, unless the user has set that differently. */
	const struct {
		const char *name, *value;
		int overwrite;
	} variables[] = {
		{ "USEREV_SOCKET", run->daemon.socket, 1 },
		{ "USEREV_CONTROL_SOCKET", run->daemon.control_socket, 1 },
		{ "USEREV_WAIT", WAIT_MS, 0 },
		{ "USEREV_DEBUG", run->quiet ? "0" : "refused", 0 },
	};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (setenv(variables[i].name, variables[i].value, variables[i].overwrite) < 0)
			return EXIT_RUN_FAILED;
	r = private_spawn(run->ctl, &run->pid, run->ctl->argv, environ, NULL, 0);
	if (r == 0)
		return EXIT_DONE;
	ctl_error("cannot run %s: %s.", run->ctl->argv[0], strerror(r));
	return r == ENOENT ? EXIT_RUN_NOT_FOUND : EXIT_RUN_CANNOT;
}

static void lose_daemon(struct run *run, const char *why)
{
	if (run->state == RUN_OVER || !run->control)
		return;
	ctl_error("the private daemon ended (%s): later records are lost.", why);
	run->control = control_free(run->control);
	if (run->state == RUN_SYNCING)
		run->state = RUN_OVER;
}

static void run_on_signal(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			if (run->pid > 0 && waitpid(run->pid, &run->status, WNOHANG) == run->pid)
				run->pid = 0;
			/* The packets that the daemon has sent are still to be read, up to the end of the connection. */
			if (run->daemon.pid > 0 && waitpid(run->daemon.pid, NULL, WNOHANG) == run->daemon.pid)
				run->daemon.pid = 0;
		} else if (run->pid == 0) {
			run->state = RUN_OVER;
		} else if (info.ssi_code != SI_KERNEL) { /* a signal of the terminal has reached it already */
			kill(run->pid, (int)info.ssi_signo);
		}
	}
}

static void run_turn(struct run *run)
{
	struct pollfd wanted[] = {
		{ .fd = run->signals, .events = POLLIN },
		{ .fd = run->control ? run->control->fd : -1, .events = POLLIN },
	};
	int n = poll(wanted, ARRAY_SIZE(wanted), run->state == RUN_SYNCING ? CONTROL_TIMEOUT_MS : -1);

	if (n == 0)
		lose_daemon(run, "it does not answer");
	if (n <= 0)
		return;
	if (wanted[1].revents) {
		int r = run_take_packet(run);

		if (r < 0)
			lose_daemon(run, strerror(-r));
	}
	if (wanted[0].revents)
		run_on_signal(run);
	if (run->state != RUN_RUNNING || run->pid != 0)
		return;
	run->state = run->control ? RUN_SYNCING : RUN_OVER;
	if (run->control && control_ask(run->control, KIND_SYNC) < 0)
		lose_daemon(run, "no connection");
}

/* Records that the daemon counted but did not send. */
static void count_losses(struct run *run)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };

	run->lost = run->view.missed;
	if (!run->control || control_open(run->daemon.control_socket, &control) < 0 ||
	    control_ask_row(control, KIND_STATUS, &row) <= 0)
		return;
	run->lost += row_get_u64(row, "lost") + row_get_u64(row, "too_big");
	run->bad = row_get_u64(row, "bad");
}

static void summarise(struct run *run, int exit_status)
{
	struct json json = { .file = run->output.file };
	char bad[64] = "";

	if (run->output_error < 0 && run->output_error != -EPIPE)
		ctl_error("cannot write to %s: %s. Records are missing there.",
			  run->output_path ? run->output_path : "stderr", strerror(-run->output_error));
	if (run->quiet)
		return;
	if (run->bad > 0)
		snprintf(bad, sizeof(bad), ", %" PRIu64 " bad", run->bad);
	if (!run->output.json) {
		ctl_note("userevctl: %s, %" PRIu64 " lost%s", plural(run->view.records, "record", "records").text,
			 run->lost, bad);
		return;
	}
	json_begin(&json, '{');
	json_put_u64(&json, "records", run->view.records);
	json_put_u64(&json, "lost", run->lost);
	json_put_u64(&json, "bad", run->bad);
	json_put_u64(&json, "exit_status", (unsigned)exit_status);
	json_end_line(&json, '}');
}

static int run_command(struct run *run)
{
	const char *path = run->daemon.control_socket;
	int r = control_open(path, &run->control);

	/* From the first answer on, every event that is registered is on. */
	if (r == 0)
		r = control_ask_strings(run->control, KIND_TAIL, 0, run->patterns.pattern, run->patterns.n);
	if (r == 0)
		r = run_take_packet(run);
	if (r < 0) {
		control_explain(path, r, run->control);
		return EXIT_RUN_FAILED;
	}
	if (watch_signals(run, true) < 0)
		return EXIT_RUN_FAILED;
	r = start_command(run);
	if (r != EXIT_DONE)
		return r;
	while (run->state != RUN_OVER)
		run_turn(run);
	count_losses(run);
	r = WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status) : WEXITSTATUS(run->status);
	summarise(run, r);
	return r;
}

static int run_with_daemon(struct run *run)
{
	struct signalfd_siginfo info;
	sigset_t mask;
	int r;

	/* If it is ignored, children cannot be waited for. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++)
		sigaddset(&mask, stopping[i]);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	if (watch_signals(run, false) < 0)
		return EXIT_RUN_FAILED;
	r = private_start(run->ctl, &run->daemon, run->quiet, run->signals);
	if (r == -EINTR)
		return 128 + (read(run->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo
											       : SIGINT);
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

	options_read(ctl, &run, 1, INT32_MAX);
	if (run.patterns.n == 0)
		run.patterns.pattern[run.patterns.n++] = "*";
	if (open_output(&run) < 0)
		return EXIT_RUN_FAILED;
	r = run_with_daemon(&run);
	record_view_deinit(&run.view);
	fclose(run.output.file);
	fd_close(run.signals);
	return r;
}

static const struct ctl_option run_options[] = {
	OPTION("output", "FILE", "write records there instead of to stderr", option_text,
	       .offset = offsetof(struct run, output_path)),
	OPTION("events", "GLOB", "only events with matching names; repeatable", run_take_pattern,
	       .offset = offsetof(struct run, patterns)),
	OPTION("quiet", NULL, "no summary, and no warnings of the daemon", option_flag,
	       .offset = offsetof(struct run, quiet)),
	OPTION_FULL("do not shorten tenants on a terminal"),
	{ 0 },
};

const struct command command_run = {
	.name = "run",
	.arguments = "[--] COMMAND...",
	.summary = "run a program and show its records",
	.help = "Starts a private daemon, switches all events on, runs COMMAND, and shows each of\n"
		"its records on stderr. Needs no privilege and no running daemon, and leaves\n"
		"nothing behind. The exit status is that of COMMAND, or 128 plus the number of the\n"
		"signal that ended it; 125 if the daemon cannot be started, 126 if COMMAND cannot\n"
		"be started, 127 if COMMAND does not exist.",
	.options = run_options,
	.stops_at_argument = true,
	.run = run_run,
};
