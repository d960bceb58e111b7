/* SPDX-License-Identifier: GPL-2.0-or-later */

/* metrics: what the daemon counts, for a monitoring system. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/userevctl/ctl.h"

static int print_text(struct ctl *ctl, FILE *file)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	struct row_field text;
	int r;

	r = ctl_open_control(ctl, &control);
	if (r != EXIT_DONE)
		return r;
	r = control_ask(control, KIND_METRICS);
	while (r >= 0 && (r = control_next_row(control, &row)) > 0)
		if (row_find(row, "text", &text))
			fwrite(text.value, 1, text.length, file);
	return r < 0 ? control_explain(ctl->control_socket, r, control) : EXIT_DONE;
}

/* With the rights that a file has which is simply made: another user reads it. */
static FILE *make_file(char *template)
{
	mode_t mask = umask(0);
	int fd = mkostemp(template, O_CLOEXEC);

	umask(mask);
	if (fd < 0)
		return NULL;
	fchmod(fd, 0666 & ~mask);
	return fdopen(fd, "w");
}

static int cannot_write(const char *path)
{
	ctl_error("cannot write %s: %s.", ctl_shown(path).text, strerror(errno));
	return EXIT_REFUSED;
}

/* Whoever reads the file finds the old text or the new one, and never half of either. */
static int replace_file(struct ctl *ctl, const char *path)
{
	_cleanup_(freep) char *temporary = NULL;
	FILE *file;
	bool failed;
	int r;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return cannot_write(path);
	file = make_file(temporary);
	if (!file)
		return cannot_write(path);
	r = print_text(ctl, file);
	failed = ferror(file);
	failed |= fclose(file) != 0;
	if (r == EXIT_DONE && (failed || rename(temporary, path) < 0))
		r = cannot_write(path);
	if (r != EXIT_DONE)
		unlink(temporary);
	return r;
}

static int metrics_run(struct ctl *ctl)
{
	const char *value, *path = NULL;
	int r;

	while (ctl_next_option(ctl, &value) != 0)
		path = value;
	ctl_expect_arguments(ctl, 0, 0);
	if (path)
		return replace_file(ctl, path);
	r = print_text(ctl, ctl->output.file);
	return r == EXIT_DONE ? ctl_finish(ctl) : r;
}

static const struct ctl_option metrics_options[] = {
	{ "output", "FILE", "replace this file, all at once", 1 },
	{ 0 },
};

const struct command command_metrics = {
	.name = "metrics",
	.arguments = "",
	.summary = "all numbers, as text for Prometheus",
	.help = "Prints what the daemon counts as OpenMetrics text. With --output=FILE.prom, run\n"
		"by a timer, it is for the textfile collector of Prometheus's node exporter.",
	.options = metrics_options,
	.run = metrics_run,
};
