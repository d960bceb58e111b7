/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * emit --stdin: a record from each line.
 *
 * Each is written as soon as its line is there, so nothing waits in a buffer of ours when the input pauses. A line that is
 * wrong is said with its number, and the next one is tried.
 */

#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>

#include "client/userevctl/emit/emit.h"

enum {
	LINE_MAX_BYTES = 1 << 16, /* the largest record, each of its bytes written as \uNNNN */
	LOOK_SECONDS = 1,	  /* for a daemon that has gone, or come back */
};

struct stream {
	struct emission *emission;
	int signal_fd;
	int signal; /* by which it was ended; 0: it was not */
	time_t looked_at;
	uint64_t lines;
	uint64_t written;
	uint64_t untraced;
	uint64_t lost;
	uint64_t refused;
	bool skipping; /* the rest of a line that is too long */
	size_t length;
	char buffer[LINE_MAX_BYTES + 1];
};

static void refuse_line(struct stream *stream, const char *sentence)
{
	stream->refused++;
	ctl_error("line %llu: %s.", (unsigned long long)stream->lines, sentence);
}

static void write_built(struct stream *stream)
{
	struct emission *emission = stream->emission;
	ssize_t written = 0;

	if (userev_enabled(&emission->event))
		written = userev_write(&emission->event, emission->payload, emission->size);
	if (written < 0)
		stream->lost++;
	else if (written > 0 || (emission->size == 0 && userev_enabled(&emission->event)))
		stream->written++;
	else
		stream->untraced++;
}

static void emit_line(struct stream *stream, char *line, size_t length)
{
	const char *assignments[DESCRIPTION_FIELDS_MAX + 1];
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	size_t n = 0;
	int r;

	stream->lines++;
	line[length] = '\0';
	r = emit_line_split(line, length, assignments, ARRAY_SIZE(assignments), &n, &why);
	if (r == 0)
		r = emission_build(stream->emission, assignments, n, &why);
	if (r == 0)
		write_built(stream);
	else if (r == -ENOSPC)
		refuse_line(stream, "the record is too large for some tracers");
	else
		refuse_line(stream, sentence);
}

static void skip_long_line(struct stream *stream)
{
	if (!stream->skipping) {
		stream->lines++;
		refuse_line(stream, "it is too long");
	}
	stream->skipping = true;
	stream->length = 0;
}

/* All lines that are whole; the rest of the next one goes to the front. */
static void take_lines(struct stream *stream)
{
	char *at = stream->buffer, *end = stream->buffer + stream->length, *newline;

	while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
		if (!stream->skipping)
			emit_line(stream, at, (size_t)(newline - at));
		stream->skipping = false;
		at = newline + 1;
	}
	stream->length = (size_t)(end - at);
	memmove(stream->buffer, at, stream->length);
	if (stream->length == LINE_MAX_BYTES)
		skip_long_line(stream);
}

static void take_last_line(struct stream *stream)
{
	if (stream->length > 0 && !stream->skipping)
		emit_line(stream, stream->buffer, stream->length);
}

/* A daemon that was started again doesn't know our event. */
static void look_for_daemon(struct stream *stream)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec - stream->looked_at < LOOK_SECONDS)
		return;
	stream->looked_at = now.tv_sec;
	userev_connected(stream->emission->userev);
}

static void take_signal(struct stream *stream)
{
	struct signalfd_siginfo info;

	if (read(stream->signal_fd, &info, sizeof(info)) == sizeof(info))
		stream->signal = (int)info.ssi_signo;
}

/* 1: there is something to read, or the end; 0: not yet; or a negative errno. */
static int wait_for_input(struct stream *stream)
{
	struct pollfd wanted[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				   { .fd = stream->signal_fd, .events = POLLIN } };

	look_for_daemon(stream);
	if (poll(wanted, ARRAY_SIZE(wanted), LOOK_SECONDS * 1000) < 0)
		return errno == EINTR ? 0 : -errno;
	if (wanted[1].revents)
		take_signal(stream);
	return wanted[0].revents && stream->signal == 0;
}

/* 1: go on; 0: the end; or a negative errno. */
static int read_some(struct stream *stream)
{
	int ready = wait_for_input(stream);
	ssize_t n;

	if (ready <= 0)
		return ready < 0 ? ready : stream->signal == 0;
	n = read(STDIN_FILENO, stream->buffer + stream->length, LINE_MAX_BYTES - stream->length);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : -errno;
	stream->length += (size_t)n;
	take_lines(stream);
	return n > 0;
}

static int read_all(struct stream *stream)
{
	int r;

	do
		r = read_some(stream);
	while (r > 0);
	if (r == 0 && stream->signal == 0)
		take_last_line(stream);
	if (r < 0)
		ctl_error("cannot read stdin: %s.", strerror(-r));
	return r < 0 || stream->refused > 0 || stream->lost > 0 ? EXIT_REFUSED : EXIT_DONE;
}

static void report_json(const struct stream *stream)
{
	const struct {
		const char *key;
		uint64_t count;
	} counts[] = {
		{ "lines", stream->lines }, { "written", stream->written }, { "untraced", stream->untraced },
		{ "lost", stream->lost },   { "refused", stream->refused },
	};
	const char *name = emission_name(stream->emission);
	struct json json = { .file = stream->emission->ctl->output.file };

	json_begin(&json, '{');
	json_key(&json, "event", 5);
	json_string(&json, name, strlen(name));
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		json_key(&json, counts[i].key, strlen(counts[i].key));
		json_u64(&json, counts[i].count);
	}
	json_end(&json, '}');
	putc('\n', json.file);
}

static void report(const struct stream *stream)
{
	const struct emission *emission = stream->emission;

	if (emission->ctl->json)
		report_json(stream);
	else if (emission->verbose || stream->lost > 0)
		ctl_note("%s: %s written, %llu not, since nobody traced it, %llu lost, %llu refused.",
			 emission_name(emission), plural(stream->written, "record", "records").text,
			 (unsigned long long)stream->untraced, (unsigned long long)stream->lost,
			 (unsigned long long)stream->refused);
}

static int open_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int emit_stream(struct emission *emission)
{
	_cleanup_(freep) struct stream *stream = calloc(1, sizeof(*stream));
	int r;

	if (!stream) {
		ctl_error("out of memory.");
		return EXIT_REFUSED;
	}
	stream->emission = emission;
	stream->signal_fd = open_signals();
	r = read_all(stream);
	fd_close(stream->signal_fd);
	report(stream);
	if (stream->signal > 0)
		ctl_end_by(emission->ctl, stream->signal);
	return r;
}
