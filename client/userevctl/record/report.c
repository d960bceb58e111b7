/* SPDX-License-Identifier: GPL-2.0-or-later */

/* report: shows a recording. */

#include "client/userevctl/ctl.h"
#include "client/userevctl/record/recording.h"

enum { FLUSH_RECORDS = 256 };

struct report {
	struct record_sink sink; /* first */
	struct ctl *ctl;
	struct record_view view;
	const char *format; /* NULL: as tail */
	const char *directory;
	const char *filter, *since; /* NULL: none */
	struct reading *reading;
	struct timeline *timeline; /* NULL: another format; the same of: */
	struct ctf *ctf;
	uint64_t missed; /* of all events and tenants */
	bool comparable; /* a record has all fields of the filter */
};

static bool report_put(struct record_sink *sink, const struct taken_record *record)
{
	struct report *report = (struct report *)sink;

	if (report->ctf)
		ctf_put(report->ctf, record);
	else
		timeline_put(report->timeline, record);
	return true;
}

static void report_missed(struct record_sink *sink, uint64_t missed)
{
	struct report *report = (struct report *)sink;

	if (report->ctf)
		ctf_missed(report->ctf, missed);
	else
		timeline_missed(report->timeline, missed);
}

static int explain_fault(const char *path, int fault)
{
	if (fault == READING_EMPTY)
		ctl_error("%s: nothing has been recorded in this file.", path);
	else if (fault == READING_OTHER_PROGRAM)
		ctl_error(
			"%s: this is not a recording of 'userevctl record' on such a machine. Try 'trace-cmd report %s'.",
			path, path);
	else if (fault == READING_NONE)
		ctl_error("%s: this is no recording.", path);
	else
		ctl_error("cannot read %s: %s.", path, strerror(-fault));
	return fault == -EACCES || fault == -EPERM ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
}

static bool is_wanted(struct report *report, const struct taken_record *record)
{
	const struct ctl *ctl = report->ctl;
	bool named = ctl->argc == 1, comparable = false, matches = true;

	for (int i = 1; i < ctl->argc && !named; i++)
		named = name_matches(ctl->argv[i], record->name);
	if (named && report->filter)
		matches = record_filter_matches(report->filter, record, &comparable);
	report->comparable |= comparable;
	return named && matches;
}

/* 0 or a negative errno: of reading, which has been explained, or of the output. */
static int report_records(struct report *report, int *ret_exit)
{
	struct record_view *view = &report->view;
	struct taken_record record;
	uint64_t missed;
	int r = 0;

	while (!record_view_done(view) && (r = reading_next(report->reading, &record, &missed)) > 0) {
		report->missed += missed;
		if (missed > 0)
			record_view_missed(view, missed);
		else if (is_wanted(report, &record))
			record_view_put(view, &record);
		/* For a reader that has gone. */
		if (view->records % FLUSH_RECORDS == 0 && output_flush(&report->ctl->output) < 0)
			break;
	}
	if (r < 0)
		*ret_exit = explain_fault(report->ctl->argv[0], r);
	return r;
}

/* Of a recording that was read to its end: what is not in it. */
static int report_faults(const struct report *report)
{
	const struct totals totals = reading_totals(report->reading);
	const uint64_t missing = reading_missing(report->reading), damaged = reading_damaged(report->reading);
	const char *path = report->ctl->argv[0];

	if (report->filter && !report->comparable && report->view.records == 0)
		ctl_note("userevctl: report: no record has all the fields of the filter, and of its types.");
	if (!totals.ended)
		ctl_note("userevctl: %s: the recorder was killed, or is still recording: later records are not in it.",
			 path);
	if (totals.lost > report->missed)
		ctl_note("userevctl: %s: %s missing at the end, because the recorder could not write.", path,
			 plural(totals.lost - report->missed, "record is", "records are").text);
	if (missing > 0)
		ctl_error("%s: the file is too short: %s missing.", path, plural(missing, "byte is", "bytes are").text);
	if (damaged > 0)
		ctl_error("%s: %s damaged, and records are missing there.", path,
			  plural(damaged, "page is", "pages are").text);
	return missing > 0 || damaged > 0 ? EXIT_REFUSED : EXIT_DONE;
}

/* 0 or a negative errno. */
static int begin_format(struct report *report)
{
	const char *format = report->format ? report->format : "text";
	int r = 0;

	if (streq(format, "text"))
		return 0;
	report->view.sink = &report->sink;
	if (streq(format, "ctf"))
		r = ctf_begin(report->directory, &report->ctf);
	else
		report->timeline = timeline_begin(report->ctl->output.file);
	return r;
}

static int report_all(struct report *report)
{
	int r, exit_code = EXIT_DONE, error;

	r = reading_open(report->ctl->argv[0], &report->reading);
	if (r != 0)
		return explain_fault(report->ctl->argv[0], r);
	error = begin_format(report);
	if (error == 0) {
		r = report_records(report, &exit_code);
		if (report->timeline)
			timeline_end(report->timeline);
		error = report->ctf ? ctf_end(report->ctf) : 0;
	}
	if (error < 0) {
		ctl_error("cannot write to %s: %s.", report->directory, strerror(-error));
		exit_code = error == -EACCES || error == -EPERM ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
	} else if (r == 0 && !record_view_done(&report->view)) {
		exit_code = report_faults(report);
	}
	reading_free(report->reading);
	return exit_code;
}

static int report_run(struct ctl *ctl)
{
	struct report report = { .sink = { report_put, report_missed, NULL }, .ctl = ctl };
	const char *expected, *at;

	options_read(ctl, &report, 1, INT32_MAX);
	if ((report.format && streq(report.format, "ctf")) != (report.directory != NULL)) {
		ctl_error("report: --format=ctf and --output=DIR belong together.");
		return EXIT_USAGE;
	}
	expected = report.filter ? record_filter_check(report.filter, &at) : NULL;
	if (expected) {
		ctl_error("report: the filter needs %s at '%s'.", expected, excerpt_of(at).text);
		return EXIT_USAGE;
	}
	if (!record_view_set_since(&report.view, "report", report.since))
		return EXIT_USAGE;
	report.view.output = &ctl->output;
	return report_all(&report);
}

static const char *const formats[] = { "text", "perfetto", "ctf", NULL };
COMMAND(report, "FILE [EVENT...]", "show what record has written",
	OPTIONS(VALUE_ROW("format", "FORMAT", OPTION_WORD, struct report, format, .words = formats,
			  .help = "text; perfetto: JSON for the viewers of Perfetto and\n"
				  "Chrome; ctf: for babeltrace2 and Trace Compass"),
		TEXT_ROW("output", "DIR", struct report, directory, "the directory of ctf, which is made"),
		TEXT_ROW("filter", "FILTER", struct report, filter,
			 "only matching records: a filter of the kernel's, as 'us > 1000'"),
		TEXT_ROW("since", "TIME", struct report, since,
			 "only records since then: 5m ago, 12:34, '2026-11-26 12:34:56'"),
		TEXT_ROW("tenant", "TENANT", struct report, view.tenant,
			 "only records of tenants with this name or path"),
		NUMBER_ROW("count", "N", struct report, view.most, 1, UINT64_MAX, "end after N records")),
	"Shows the records of a file of 'userevctl record', as tail does: those of the named\n"
	"events (patterns too), or of all.");
