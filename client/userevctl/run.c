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

#include "client/userevctl/run.h"

#define WAIT_MS "60000" /* longer than any machine takes to answer; the wait ends at once when the daemon does */

/* In the new process. */
static _Noreturn void become_command(const struct run *run)
{
	char *const *arguments = run->ctl->argv;
	int error;

	/* Programs wait for the answers of this daemon, and print refusals, unless the user has set that differently. */
	setenv("USEREV_SOCKET", run->daemon.socket, 1);
	setenv("USEREV_CONTROL_SOCKET", run->daemon.control_socket, 1);
	setenv("USEREV_WAIT", WAIT_MS, 0);
	setenv("USEREV_DEBUG", run->quiet ? "0" : "refused", 0);
	execvp(arguments[0], arguments);
	error = errno;
	ctl_error("cannot run %s: %s.", arguments[0], strerror(error));
	_exit(error == ENOENT ? EXIT_RUN_NOT_FOUND : EXIT_RUN_CANNOT);
}

static void lose_daemon(struct run *run, const char *why)
{
	ctl_error("the private daemon ended (%s): later records are lost.", why);
	run->control = control_free(run->control);
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
			run->control = control_free(run->control);
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
	int n = poll(wanted, ARRAY_SIZE(wanted), run->syncing ? CONTROL_TIMEOUT_MS : -1);

	if (n == 0)
		lose_daemon(run, "it does not answer");
	if (n <= 0)
		return;
	if (wanted[1].revents) {
		/* The program goes on although its records may have no reader any more. */
		int r = record_view_take(&run->view, run->control);

		if (r < 0)
			lose_daemon(run, strerror(-r));
		else if (!run->control->more)
			run->control = control_free(run->control);
	}
	if (wanted[0].revents)
		run_on_signal(run);
	if (run->pid > 0 || !run->control || run->syncing)
		return;
	run->syncing = true;
	if (control_ask(run->control, KIND_SYNC) < 0)
		lose_daemon(run, "no connection");
}

/* The daemon reads what programs have lost before their connections end. One that goes on is not waited for. */
static struct cursor last_status(const char *path)
{
	enum { LOOKS = 50, PAUSE_MS = 10 };
	struct cursor row = { 0 };

	for (unsigned i = 0; i < LOOKS; i++) {
		free((void *)row.at);
		row = (struct cursor){ 0 };
		if (control_ask_status(path, CONTROL_TIMEOUT_MS, &row) < 0 || row_get_u64(row, "connections") == 0)
			break;
		poll(NULL, 0, PAUSE_MS);
	}
	return row;
}

/* With a daemon: an exit status. */
static int run_command(struct run *run)
{
	const char *path = run->daemon.control_socket;
	struct cursor row = { 0 };
	int r = control_request(path, KIND_TAIL, 0, run->patterns.text, run->patterns.n, &run->control);

	/* From the first answer on, every event that is registered is on. */
	if (r == 0)
		r = record_view_take(&run->view, run->control);
	if (r < 0) {
		control_explain(path, r);
		return EXIT_RUN_FAILED;
	}
	run->pid = private_fork(run->ctl);
	if (run->pid == 0)
		become_command(run);
	if (run->pid < 0) {
		ctl_error("cannot run %s: %s.", run->ctl->argv[0], strerror(errno));
		return EXIT_RUN_CANNOT;
	}
	while (run->pid > 0 || run->control)
		run_turn(run);
	/* With the records that the daemon counted but did not send. */
	if (run->daemon.pid > 0)
		row = last_status(path);
	run->lost = run->view.missed + row_get_u64(row, "lost") + row_get_u64(row, "too_big");
	run->bad = row_get_u64(row, "bad");
	run->complete = true;
	free((void *)row.at);
	return WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status) : WEXITSTATUS(run->status);
}

int run_program(struct run *run)
{
	int r;

	if (run->patterns.n == 0)
		run->patterns.text[run->patterns.n++] = "*";
	/* If it is ignored, children cannot be waited for. */
	signal(SIGCHLD, SIG_DFL);
	run->signals = signals_take(SIGNALS(SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT));
	r = run->signals < 0 ? -errno : private_start(run->ctl, &run->daemon, run->quiet, run->signals);
	if (r == 0)
		r = run_command(run);
	else
		r = r < 0 ? EXIT_RUN_FAILED : 128 + r;
	control_free(run->control);
	private_end(&run->daemon);
	fd_close(run->signals);
	return r;
}

static int run_run(struct ctl *ctl)
{
	struct run run = { .ctl = ctl };
	const struct record_view *view = &run.view;
	const char *path;
	char note[64] = "";
	FILE *file;
	int fd, r;

	options_read(ctl, &run, 1, INT32_MAX);
	path = run.output_path ? run.output_path : "stderr";
	fd = run.output_path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
			     : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!file) {
		ctl_error("cannot write to %s: %s.", path, strerror(errno));
		fd_close(fd);
		return EXIT_RUN_FAILED;
	}
	/* Whole lines, so that they do not break into those of the program. */
	setvbuf(file, NULL, _IOFBF, WIRE_PACKET_MAX);
	run.output = ctl->output;
	output_open(&run.output, file);
	run.view.output = &run.output;
	r = run_program(&run);
	if (run.bad > 0)
		snprintf(note, sizeof(note), ", %" PRIu64 " bad", run.bad);
	if (run.complete && view->output_error < 0 && view->output_error != -EPIPE)
		ctl_error("cannot write to %s: %s. Records are missing there.", path, strerror(-view->output_error));
	if (run.complete && !run.quiet && run.output.json)
		json_print(file, json_u64("records", view->records), json_u64("lost", run.lost),
			   json_u64("bad", run.bad), json_u64("exit_status", (unsigned)r));
	else if (run.complete && !run.quiet)
		ctl_note("userevctl: %s, %" PRIu64 " lost%s", plural(view->records, "record", "records").text, run.lost,
			 note);
	fclose(file);
	return r;
}

COMMAND(run, "[--] COMMAND...", "run a program and show its records",
	OPTIONS(TEXT_ROW("output", "FILE", struct run, output_path, "write records there instead of to stderr"),
		VALUE_ROW("events", "GLOB", OPTION_TEXTS, struct run, patterns,
			  .help = "only events with matching names; repeatable"),
		FLAG_ROW("quiet", struct run, quiet, "no summary, and no warnings of the daemon")),
	"Starts a private daemon, switches all events on, runs COMMAND, and shows each of\n"
	"its records on stderr. Needs no privilege and no running daemon, and leaves\n"
	"nothing behind. The exit status is that of COMMAND, or 128 plus the number of the\n"
	"signal that ended it; 125 if the daemon cannot be started, 126 if COMMAND cannot\n"
	"be started, 127 if COMMAND does not exist.",
	.stops_at_argument = true);
