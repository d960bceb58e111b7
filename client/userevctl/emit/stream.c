/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * emit --stdin: a record from each line. A record is written as soon as its line is complete, so that none is delayed while the
 * input pauses. For a wrong line the error is printed with the line's number, and the stream goes on.
 */

#include <poll.h>

#include "client/userevctl/emit/emit.h"

enum {
	LINE_MAX_BYTES = 1 << 16, /* the largest record, each of its bytes written as \uNNNN */
	LOOK_SECONDS = 1,	  /* between two checks whether the daemon has gone or come back */
};

struct stream {
	struct emission *emission;
	int signal_fd;
	int signal;	    /* that ended the stream; 0: none */
	uint64_t looked_at; /* ns */
	uint64_t lines;
	uint64_t written;
	uint64_t untraced;
	uint64_t lost;
	uint64_t refused;
	bool skipping; /* the rest of a line that is too long */
	size_t length;
	char buffer[LINE_MAX_BYTES + 1];
};

static void stream_refuse(struct stream *stream, const char *sentence)
{
	stream->refused++;
	ctl_error("line %llu: %s.", (unsigned long long)stream->lines, sentence);
}

static void emit_line(struct stream *stream, char *line, size_t length)
{
	struct emission *emission = stream->emission;
	const char *assignments[DESCRIPTION_FIELDS_MAX + 1];
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	size_t n = 0;
	int r;

	stream->lines++;
	line[length] = '\0';
	r = emit_line_split(line, length, assignments, ARRAY_SIZE(assignments), &n, &why);
	if (r == 0)
		r = emission_build(emission, assignments, n, &why);
	if (r == -ENOSPC)
		stream_refuse(stream, "the record is too large for some tracers");
	else if (r != 0)
		stream_refuse(stream, sentence);
	if (r != 0)
		return;
	r = emission_write(emission);
	stream->lost += r < 0;
	stream->written += r > 0;
	stream->untraced += r == 0;
}

/* All complete lines; the beginning of the next line moves to the front of the buffer. */
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
	if (stream->length < LINE_MAX_BYTES)
		return;
	if (!stream->skipping) {
		stream->lines++;
		stream_refuse(stream, "it is too long");
	}
	stream->skipping = true;
	stream->length = 0;
}

/* 1: go on; 0: the end; or a negative errno. */
static int read_some(struct stream *stream)
{
	struct pollfd wanted[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				   { .fd = stream->signal_fd, .events = POLLIN } };
	uint64_t now = ctl_now_ns();
	ssize_t n;

	/* After a restart the daemon does not know the event; userev_connected() registers it again. */
	if (now - stream->looked_at >= LOOK_SECONDS * NS_PER_S) {
		stream->looked_at = now;
		userev_connected(stream->emission->userev);
	}
	if (poll(wanted, ARRAY_SIZE(wanted), LOOK_SECONDS * 1000) < 0)
		return errno == EINTR ? 1 : -errno;
	stream->signal = signals_next(stream->signal_fd);
	if (!wanted[0].revents || stream->signal > 0)
		return stream->signal == 0;
	n = read(STDIN_FILENO, stream->buffer + stream->length, LINE_MAX_BYTES - stream->length);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : -errno;
	stream->length += (size_t)n;
	take_lines(stream);
	return n > 0;
}

static void stream_report(const struct stream *stream)
{
	const struct emission *emission = stream->emission;
	const struct output *output = &emission->ctl->output;
	const char *name = emission_name(emission);

	if (output->json)
		json_print(output->file, json_text("event", name), json_u64("lines", stream->lines),
			   json_u64("written", stream->written), json_u64("untraced", stream->untraced),
			   json_u64("lost", stream->lost), json_u64("refused", stream->refused));
	else if (emission->verbose || stream->lost > 0)
		ctl_note("%s: %s written, %llu not (no tracer was active), %llu lost, %llu refused.", name,
			 plural(stream->written, "record", "records").text, (unsigned long long)stream->untraced,
			 (unsigned long long)stream->lost, (unsigned long long)stream->refused);
}

int emit_stream(struct emission *emission)
{
	_cleanup_(freep) struct stream *stream = must(calloc(1, sizeof(*stream)));
	int r;

	stream->emission = emission;
	stream->signal_fd = signals_take(SIGNALS(SIGINT, SIGTERM, SIGHUP));
	do
		r = read_some(stream);
	while (r > 0);
	if (r == 0 && stream->signal == 0 && stream->length > 0 && !stream->skipping)
		emit_line(stream, stream->buffer, stream->length);
	if (r < 0)
		ctl_error("cannot read stdin: %s.", strerror(-r));
	fd_close(stream->signal_fd);
	stream_report(stream);
	if (stream->signal > 0)
		ctl_end_by(emission->ctl, stream->signal);
	return r < 0 || stream->refused > 0 || stream->lost > 0 ? EXIT_REFUSED : EXIT_DONE;
}
