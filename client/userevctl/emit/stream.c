/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * emit --stdin: a record from each line. A record is written as soon as its line is complete, so that none is delayed while the
 * input pauses. For a wrong line the error is printed with the line's number, and the stream goes on.
 */

#include <poll.h>

#include "client/userevctl/emit/emit.h"

enum { LINE_MAX_BYTES = 1 << 16 }; /* the largest record, each of its bytes written as \uNNNN */

struct stream {
	struct emission *emission;
	uint64_t lines, written, untraced, lost, refused;
	size_t length; /* LINE_MAX_BYTES + 1: the line is too long */
	char line[LINE_MAX_BYTES + 1];
};

static void take_line(struct stream *stream)
{
	struct emission *emission = stream->emission;
	const char *assignments[DESCRIPTION_FIELDS_MAX + 1];
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	size_t n = 0, length = stream->length;
	int r = -E2BIG;

	stream->lines++;
	stream->length = 0;
	if (length <= LINE_MAX_BYTES) {
		stream->line[length] = '\0';
		r = emit_line_split(stream->line, length, assignments, ARRAY_SIZE(assignments), &n, &why);
	}
	if (r == 0)
		r = record_build(&emission->description, assignments, n, emission->payload, sizeof(emission->payload),
				 &emission->size, &why);
	if (r == -E2BIG)
		text_printf(&why, "it is too long");
	else if (r == -ENOSPC)
		text_printf(&why, "the record is too large for some tracers");
	if (r != 0) {
		stream->refused++;
		ctl_error("line %llu: %s.", (unsigned long long)stream->lines, sentence);
		return;
	}
	r = emission_write(emission);
	stream->lost += r < 0;
	stream->written += r > 0;
	stream->untraced += r == 0;
}

/* Until the end: 0, the signal that came, or a negative errno. */
static int read_lines(struct stream *stream, int signals)
{
	struct pollfd wanted[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = signals, .events = POLLIN },
	};
	char bytes[BUFSIZ];
	uint64_t due = 0;
	ssize_t n = -1;

	while (n != 0) {
		/* After a restart the daemon does not know the event; userev_connected() registers it again. */
		if (ctl_now_ns() >= due) {
			userev_connected(stream->emission->userev);
			due = ctl_now_ns() + NS_PER_S;
		}
		if (poll(wanted, ARRAY_SIZE(wanted), 1000) <= 0)
			continue;
		if (wanted[1].revents)
			return signals_next(signals);
		n = read(STDIN_FILENO, bytes, sizeof(bytes));
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		for (ssize_t i = 0; i < n; i++) {
			if (bytes[i] == '\n')
				take_line(stream);
			else if (stream->length <= LINE_MAX_BYTES)
				stream->line[stream->length++] = bytes[i];
		}
	}
	if (stream->length > 0)
		take_line(stream);
	return 0;
}

int emit_stream(struct emission *emission)
{
	_cleanup_(freep) struct stream *stream = must(calloc(1, sizeof(*stream)));
	const struct output *output = &emission->ctl->output;
	int signals = signals_take(SIGNALS(SIGINT, SIGTERM, SIGHUP)), r;

	stream->emission = emission;
	r = signals < 0 ? -errno : read_lines(stream, signals);
	if (r < 0)
		ctl_error("cannot read stdin: %s.", strerror(-r));
	if (output->json)
		json_print(output->file, json_text("event", emission->name), json_u64("lines", stream->lines),
			   json_u64("written", stream->written), json_u64("untraced", stream->untraced),
			   json_u64("lost", stream->lost), json_u64("refused", stream->refused));
	else if (emission->verbose || stream->lost > 0)
		ctl_note("%s: %s written, %llu not (no tracer was active), %llu lost, %llu refused.", emission->name,
			 plural(stream->written, "record", "records").text, (unsigned long long)stream->untraced,
			 (unsigned long long)stream->lost, (unsigned long long)stream->refused);
	emission->ctl->signal = MAX(r, 0);
	fd_close(signals);
	return r < 0 || stream->refused > 0 || stream->lost > 0 ? EXIT_REFUSED : EXIT_DONE;
}
