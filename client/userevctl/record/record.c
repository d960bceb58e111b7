/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * record: a tail whose records go to a file. With a command it is `run`, whose records go to a file: a private daemon records the
 * first record of the shortest program, while in tracefs an event cannot be switched on before a program has registered it.
 */

#include <inttypes.h>
#include <limits.h>
#include <poll.h>

#include "client/userevctl/record/recording.h"
#include "client/userevctl/run.h"
#include "client/userevctl/tracing/own.h"
#include "client/userevctl/tracing/tracing.h"

enum { PROGRESS_MS = 500, GATHER_MS = 20 };

struct recorder {
	struct record_sink sink; /* first */
	struct ctl *ctl;
	struct tracing *tracing;
	struct record_view view;
	char *const *command; /* NULL: none */
	const char *path, *filter;
	uint64_t max_time, max_size; /* s and bytes; 0: no limit */
	uint64_t keep;		     /* older files, each of that size; 0: the recording ends at its size */
	bool wait, foreign, own, compress;

	struct recording *recording; /* NULL: the next file could not be made */
	struct totals before;	     /* of the files before this one */
	int error;
	uint64_t deadline; /* ns on the monotonic clock; UINT64_MAX: none */
	uint64_t shown;	   /* ns: when the progress was shown */
	bool is_shown;
};

static struct totals record_totals(const struct recorder *recorder)
{
	struct totals totals = recorder->before;

	if (recorder->recording) {
		const struct totals now = recording_totals(recorder->recording);

		totals.records += now.records;
		totals.lost += now.lost;
		totals.bytes += now.bytes;
	}
	return totals;
}

static int record_close(struct recorder *recorder)
{
	struct totals totals;
	const int r = recording_end(recorder->recording, &totals);

	recorder->recording = NULL;
	recorder->before.records += totals.records;
	recorder->before.lost += totals.lost;
	recorder->before.bytes += totals.bytes;
	return r;
}

/* FILE becomes FILE.1, and so on, and a new FILE is begun: 0 or a negative errno. */
static int record_rotate(struct recorder *recorder)
{
	char from[PATH_MAX], to[PATH_MAX];
	int r = record_close(recorder);

	for (uint64_t i = recorder->keep; r == 0 && i > 0; i--) {
		snprintf(to, sizeof(to), "%s.%" PRIu64, recorder->path, i);
		snprintf(from, sizeof(from), "%s.%" PRIu64, recorder->path, i - 1);
		if (rename(i > 1 ? from : recorder->path, to) < 0 && errno != ENOENT)
			r = -errno;
	}
	return r < 0 ? r
		     : recording_create(recorder->path, recorder->max_size, recorder->compress, &recorder->recording);
}

static bool record_put(struct record_sink *sink, const struct taken_record *record)
{
	struct recorder *recorder = (struct recorder *)sink;

	/* A tail ends by itself, with the records from before. */
	if (recorder->command && recorder->deadline != UINT64_MAX && ctl_now_ns() >= recorder->deadline)
		return false;
	if (recorder->recording && recording_put(recorder->recording, record))
		return true;
	if (recorder->recording && recorder->keep == 0)
		return false;
	if (recorder->recording)
		recorder->error = record_rotate(recorder);
	if (recorder->recording)
		return recording_put(recorder->recording, record);
	recorder->before.lost++;
	return true;
}

static void record_missed(struct record_sink *sink, uint64_t missed)
{
	struct recorder *recorder = (struct recorder *)sink;

	if (recorder->recording)
		recording_missed(recorder->recording, missed);
	else
		recorder->before.lost += missed;
}

static void show_progress(struct recorder *recorder)
{
	const struct totals totals = record_totals(recorder);
	const uint64_t now = ctl_now_ns(), deadline = recorder->deadline;

	if (recorder->command || recorder->ctl->output.json || !isatty(STDERR_FILENO) ||
	    now - recorder->shown < PROGRESS_MS * NS_PER_MS)
		return;
	recorder->shown = now;
	recorder->is_shown = true;
	fprintf(stderr, "\r%s, %s, %.1f MB", plural(totals.records, "record", "records").text,
		plural(totals.lost, "lost", "lost").text, (double)totals.bytes / 1e6);
	if (deadline != UINT64_MAX)
		fprintf(stderr, ", %s left", humane_duration((deadline - MIN(now, deadline)) / NS_PER_S).text);
	fprintf(stderr, "\033[K");
	fflush(stderr);
}

static void record_flush(struct record_sink *sink)
{
	struct recorder *recorder = (struct recorder *)sink;

	if (recorder->recording && recorder->error == 0)
		recorder->error = recording_flush(recorder->recording);
	show_progress(recorder);
}

static int record_create(struct recorder *recorder)
{
	const int r = recording_create(recorder->path, recorder->max_size, recorder->compress, &recorder->recording);

	if (r == 0)
		return EXIT_DONE;
	if (r == -EBUSY)
		ctl_error("another userevctl records to %s. Choose another --output.", recorder->path);
	else if (r == -ESPIPE)
		ctl_error("--output=%s is no file: a recording is written in several places at a time.",
			  recorder->path);
	else
		ctl_error("cannot write to %s: %s.", recorder->path, strerror(-r));
	return r == -EACCES || r == -EPERM ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
}

/* Closes the file, and says what is in it. False: some records could not be written. */
static bool record_finish(struct recorder *recorder)
{
	FILE *file = recorder->command ? stderr : recorder->ctl->output.file;
	const int closed = recorder->recording ? record_close(recorder) : 0;
	const int r = recorder->error < 0 ? recorder->error : closed;
	const struct totals totals = recorder->before;

	if (recorder->is_shown)
		fprintf(stderr, "\r\033[K");
	if (r < 0)
		ctl_error("cannot write to %s: %s. What was recorded before can be read.", recorder->path,
			  strerror(-r));
	if (recorder->ctl->output.json)
		json_print(file, json_text("file", recorder->path), json_u64("records", totals.records),
			   json_u64("lost", totals.lost), json_u64("bytes", totals.bytes));
	else
		ctl_note("userevctl: %s, %s, %.1f MB in %s", plural(totals.records, "record", "records").text,
			 plural(totals.lost, "lost", "lost").text, (double)totals.bytes / 1e6, recorder->path);
	return r == 0;
}

/* Until there is something to read, or a signal; false: the recording is over. */
static bool await_records(struct recorder *recorder, int signals)
{
	const struct tracing *tracing = recorder->tracing;
	struct pollfd wanted[] = {
		{ .fd = signals, .events = POLLIN },
		{ .fd = tracing->fd, .events = POLLIN },
	};
	uint64_t now, until;

	show_progress(recorder);
	/* A wake-up for each record would cost more than the record: some gather first. */
	if (poll(wanted, 1, GATHER_MS) > 0)
		return false;
	now = ctl_now_ns();
	until = MIN(MIN(recorder->deadline, tracing->due > 0 ? tracing->due : UINT64_MAX),
		    now + PROGRESS_MS * NS_PER_MS);
	if (tracing->busy || until <= now)
		return now < recorder->deadline;
	return (poll(wanted, ARRAY_SIZE(wanted), (int)((until - now) / NS_PER_MS + 1)) >= 0 || errno == EINTR) &&
	       wanted[0].revents == 0 && ctl_now_ns() < recorder->deadline;
}

static int record_events(struct recorder *recorder)
{
	_cleanup_(fd_closep) int signals = -1;
	struct tracing *tracing;
	int r;

	if (own_tail_is_wanted(recorder->ctl, recorder->own))
		r = own_tail_open(recorder->ctl, "record",
				  recorder->view.tenant ? "--tenant"
				  : recorder->filter	? "--filter"
				  : recorder->foreign	? "--foreign"
							: NULL,
				  &recorder->tracing);
	else
		r = tracing_open(recorder->ctl, TRACING_ACT, &recorder->tracing);
	if (r != EXIT_DONE)
		return r;
	tracing = recorder->tracing;
	tracing->foreign = recorder->foreign || tracing->no_daemon ? FOREIGN_ALL : FOREIGN_NEVER;
	tracing->filter = recorder->filter;
	tracing->only_while.tenant = recorder->view.tenant;
	if (!recorder->wait && !tracing->own)
		r = names_check(tracing, true);
	if (r == EXIT_DONE)
		r = record_create(recorder);
	if (r != EXIT_DONE)
		return r;
	/* A signal ends the recording, not userevctl. */
	signals = signals_take(SIGNALS(SIGINT, SIGTERM, SIGHUP, SIGQUIT));
	r = tail_begin(tracing, 0);
	while (r == EXIT_DONE && !tracing->over && recorder->error == 0 && !record_view_done(&recorder->view) &&
	       await_records(recorder, signals))
		r = tail_read(tracing, &recorder->view);
	/* Records that cannot be written are counted. */
	if (r == EXIT_DONE && !tracing->over && !record_view_done(&recorder->view))
		r = tail_end(tracing, &recorder->view);
	return record_finish(recorder) ? r : EXIT_REFUSED;
}

/* The arguments are the events, and the command's are behind them. */
static int record_program(struct recorder *recorder)
{
	struct run run = { .ctl = recorder->ctl, .view = recorder->view };
	int r;

	if (recorder->filter) {
		ctl_error("--filter: with a COMMAND there are no filters. Select fields of 'report --json' instead.");
		return EXIT_USAGE;
	}
	for (int i = 0; i < recorder->ctl->argc && i < OPTION_TEXTS_MAX; i++)
		run.patterns.text[run.patterns.n++] = recorder->ctl->argv[i];
	r = record_create(recorder);
	if (r != EXIT_DONE)
		return EXIT_RUN_FAILED;
	recorder->ctl->argv = (char **)recorder->command;
	r = run_program(&run);
	if (run.lost > run.view.missed)
		record_missed(&recorder->sink, run.lost - run.view.missed);
	return record_finish(recorder) || r != 0 ? r : EXIT_RUN_FAILED;
}

/* The words behind "--" are a command, which has options of its own. */
static char *const *take_command(struct ctl *ctl)
{
	for (int i = 1; i < ctl->argc; i++) {
		if (!streq(ctl->argv[i], "--"))
			continue;
		ctl->argc = i;
		ctl->argv[i] = NULL;
		return &ctl->argv[i + 1];
	}
	return NULL;
}

static int record_run(struct ctl *ctl)
{
	struct recorder recorder = {
		.sink = { record_put, record_missed, record_flush },
		.ctl = ctl,
		.path = "trace.dat",
		.command = take_command(ctl),
	};
	int r;

	options_read(ctl, &recorder, 0, INT32_MAX);
	if (recorder.command && !recorder.command[0]) {
		ctl_error("record: behind -- a command is missing. See 'userevctl record --help'.");
		return EXIT_USAGE;
	}
	if (recorder.keep > 0 && recorder.max_size == 0) {
		ctl_error("record: --keep=N needs --max-size=BYTES, the size of each file.");
		return EXIT_USAGE;
	}
	recorder.view.output = &ctl->output;
	recorder.view.sink = &recorder.sink;
	recorder.deadline = recorder.max_time > 0 ? ctl_now_ns() + recorder.max_time * NS_PER_S : UINT64_MAX;
	if (recorder.command)
		return record_program(&recorder);
	r = record_events(&recorder);
	tracing_free(recorder.tracing);
	return r;
}

COMMAND(record, "[EVENT...] [-- COMMAND]", "write records to a file",
	OPTIONS(VALUE_ROW("output", "FILE", OPTION_TEXT, struct recorder, path, .help = "default: trace.dat",
			  .letter = 'o'),
		NUMBER_ROW("max-time", "SECONDS", struct recorder, max_time, 1, UINT32_MAX, "end after this time"),
		VALUE_ROW("max-size", "BYTES", OPTION_SIZE, struct recorder, max_size, .least = 65536,
			  .most = INT64_MAX, .help = "end with so many bytes of records; also 500K or 20M"),
		NUMBER_ROW("keep", "N", struct recorder, keep, 1, 9999,
			   "at that size go on with another file, and keep N older ones: FILE.1 ..."),
		FLAG_ROW("compress", struct recorder, compress, "the records take less room; trace-cmd needs its zstd"),
		NUMBER_ROW("count", "N", struct recorder, view.most, 1, UINT64_MAX, "end after N records"),
		TEXT_ROW("tenant", "TENANT", struct recorder, view.tenant,
			 "only records of tenants with this name or path"),
		TEXT_ROW("filter", "FILTER", struct recorder, filter,
			 "only records for which this is true, as with tail"),
		FLAG_ROW("wait", struct recorder, wait, "for events that no program holds yet"),
		FLAG_ROW("foreign", struct recorder, foreign, "also events made without the daemon"),
		FLAG_ROW("own", struct recorder, own, "only this container's own events, as with tail")),
	"Writes records to a file, which 'userevctl report', trace-cmd and KernelShark read.\n"
	"The events are those of tail. Ctrl-C ends it. Whatever ends it, what has been\n"
	"recorded can be read.\n"
	"With a COMMAND it records what this program emits, from its first record on, as\n"
	"'run' does, and the exit status is that of COMMAND.");
