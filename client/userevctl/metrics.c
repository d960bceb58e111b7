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

enum { HTTP_REQUEST_MAX = 8192, HTTP_SECONDS = 20 };

/* Up to the empty line. False: it is too long, or ends before. */
static bool http_read(char request[HTTP_REQUEST_MAX])
{
	size_t length = 0;

	while (length < HTTP_REQUEST_MAX - 1) {
		const ssize_t n = read(STDIN_FILENO, request + length, HTTP_REQUEST_MAX - 1 - length);

		if (n <= 0)
			return false;
		length += (size_t)n;
		request[length] = '\0';
		if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n"))
			return true;
	}
	return false;
}

static void http_answer(FILE *file, const char *status, const char *type, const char *body, size_t length, bool is_head)
{
	fprintf(file, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status,
		type, length);
	if (!is_head)
		fwrite(body, 1, length, file);
}

static void http_refuse(FILE *file, const char *status, const char *sentence)
{
	http_answer(file, status, "text/plain; charset=utf-8", sentence, strlen(sentence), false);
}

/* One request, from the socket that is our input and output: for a unit with Accept=yes. */
static int http_serve(struct ctl *ctl)
{
	char request[HTTP_REQUEST_MAX], method[8], target[256];
	_cleanup_(freep) char *body = NULL;
	FILE *file = ctl->output.file, *memory;
	size_t length = 0;
	int r;

	/* A scraper that does not ask, or does not read, ends this program. */
	alarm(HTTP_SECONDS);
	if (!http_read(request) || sscanf(request, "%7[A-Z] %255[^ \r\n] HTTP/1.", method, target) != 2) {
		http_refuse(file, "400 Bad Request", "This is no request of HTTP/1.1.\n");
		return EXIT_DONE;
	}
	target[strcspn(target, "?")] = '\0';
	if (!streq(method, "GET") && !streq(method, "HEAD")) {
		http_refuse(file, "405 Method Not Allowed\r\nAllow: GET, HEAD", "There is only GET.\n");
		return EXIT_DONE;
	}
	if (!streq(target, "/metrics")) {
		http_refuse(file, "404 Not Found", "The metrics of userevd are at /metrics.\n");
		return EXIT_DONE;
	}
	memory = must(open_memstream(&body, &length));
	r = metrics_print(ctl, memory);
	if (fclose(memory) != 0 || r != EXIT_DONE) {
		http_refuse(file, "503 Service Unavailable",
			    "The daemon does not answer; see the journal of this unit.\n");
		return r == EXIT_DONE ? EXIT_REFUSED : r;
	}
	http_answer(file, "200 OK",
		    strcasestr(request, "application/openmetrics-text")
			    ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			    : "text/plain; version=0.0.4; charset=utf-8",
		    body, length, streq(method, "HEAD"));
	return EXIT_DONE;
}

struct metrics_options {
	const char *path;
	bool http;
};

static int metrics_run(struct ctl *ctl)
{
	struct metrics_options options = { 0 };

	options_read(ctl, &options, 0, 0);
	if (options.http && options.path) {
		ctl_error("--http answers on the standard output; leave out --output.");
		return EXIT_USAGE;
	}
	if (options.http)
		return http_serve(ctl);
	return options.path ? replace_file(ctl, options.path) : metrics_print(ctl, ctl->output.file);
}

COMMAND(metrics, "", "all counters, as text for Prometheus",
	OPTIONS(TEXT_ROW("output", "FILE", struct metrics_options, path, "replace this file, atomically"),
		FLAG_ROW("http", struct metrics_options, http,
			 "answer one request of HTTP, for userevd-metrics.socket")),
	"Prints the daemon's counters as OpenMetrics text. userevd-metrics.socket serves them to\n"
	"Prometheus on a loopback port:\n"
	"    systemctl enable --now userevd-metrics.socket\n"
	"With --output=FILE.prom, run by a timer, it feeds the textfile collector of\n"
	"Prometheus's node exporter.");
