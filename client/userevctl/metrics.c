/* SPDX-License-Identifier: GPL-2.0-or-later */

/* metrics: the daemon's counters, for a monitoring system. */

#include <fcntl.h>
#include <sys/stat.h>

#include "client/userevctl/ctl.h"

static int metrics_print(struct ctl *ctl, FILE *file)
{
	_cleanup_(control_freep) struct control *control = NULL;
	struct cursor row = { 0 };
	struct row_field text;
	int r = control_request(ctl->control_socket, KIND_METRICS, 0, NULL, 0, &control);

	while (r >= 0 && (r = control_next_row(control, &row)) > 0)
		if (row_find(row, "text", &text))
			fwrite(text.value, 1, text.length, file);
	return r < 0 ? control_explain(ctl->control_socket, r) : EXIT_DONE;
}

/* A reader finds the old text or the new text, never a part of either. */
static int replace_file(struct ctl *ctl, const char *path)
{
	_cleanup_(freep) char *temporary = NULL;
	int fd = asprintf(&temporary, "%s.XXXXXX", path) >= 0 ? mkostemp(temporary, O_CLOEXEC) : -1;
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
	int r = file ? metrics_print(ctl, file) : EXIT_DONE;
	mode_t mask = umask(0);
	/* The mode of an ordinary new file: another user reads it. */
	bool written = file && fchmod(fd, 0666 & ~mask) == 0 && !ferror(file);

	umask(mask);
	if (file)
		written &= fclose(file) == 0;
	if (r == EXIT_DONE && written && rename(temporary, path) == 0)
		return EXIT_DONE;
	if (r == EXIT_DONE)
		ctl_error("cannot write %s: %s.", excerpt_of(path).text, strerror(errno));
	if (fd >= 0)
		unlink(temporary);
	return r == EXIT_DONE ? EXIT_REFUSED : r;
}

static int metrics_run(struct ctl *ctl)
{
	const char *path = NULL;

	options_read(ctl, &path, 0, 0);
	return path ? replace_file(ctl, path) : metrics_print(ctl, ctl->output.file);
}

COMMAND(metrics, "", "all counters, as text for Prometheus",
	OPTIONS({ .name = "output", .argument = "FILE", .kind = OPTION_TEXT, .help = "replace this file, atomically" }),
	"Prints the daemon's counters as OpenMetrics text. With --output=FILE.prom, run by\n"
	"a timer, it feeds the textfile collector of Prometheus's node exporter.");
