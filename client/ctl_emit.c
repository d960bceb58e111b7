/* SPDX-License-Identifier: GPL-2.0-or-later */

/* emit: one record from a shell script, through the same library as any program's. */

#include "client/ctl.h"
#include "client/userev.h"
#include "protocol/record.h"

struct record {
	struct description description;
	uint8_t payload[WIRE_PAYLOAD_MAX];
	size_t size;
};

static int build(struct ctl *ctl, struct record *ret)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	r = description_parse(ctl->argv[0], strlen(ctl->argv[0]), &ret->description, &why);
	if (r == 0)
		r = record_build(&ret->description, (const char *const *)ctl->argv + 1, (size_t)ctl->argc - 1,
				 ret->payload, sizeof(ret->payload), &ret->size, &why);
	if (r == 0)
		return EXIT_DONE;
	if (r == -ENOSPC)
		ctl_error("the record is too large: at most %d bytes reach every tracer.", WIRE_PAYLOAD_MAX);
	else
		ctl_error("%s.", sentence);
	return EXIT_REFUSED;
}

static int explain_connection(const char *path, int error)
{
	switch (error) {
	case -ENOENT:
	case -ENOTDIR:
	case -ECONNREFUSED:
		ctl_error("no daemon listens at %s. 'userevctl doctor' tells what is missing.", path);
		return EXIT_NO_DAEMON;
	case -EACCES:
	case -EPERM:
		ctl_error("user %u may not connect to %s. 'userevctl doctor' tells what is missing.", geteuid(), path);
		return EXIT_NOT_PERMITTED;
	case -ETIMEDOUT:
		ctl_error("the daemon at %s does not answer. Look what it does: 'journalctl -u userevd'.", path);
		return EXIT_REFUSED;
	case -EPROTO:
		ctl_error("the daemon at %s refused the connection: %s.", path, make_safe(userev_refusal()).text);
		return EXIT_REFUSED;
	default:
		ctl_error("cannot connect to %s: %s.", path, strerror(-error));
		return EXIT_REFUSED;
	}
}

static int explain_refusal(int error)
{
	struct safe_string sentence = make_safe(userev_refusal());

	ctl_error("the event was refused: %s.", sentence.text[0] ? sentence.text : strerror(-error));
	return error == -EACCES ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
}

/* Exit code; `ret_written` is whether anybody traces the event and has got the record. */
static int write_record(const struct userev_event *event, const struct record *record, bool *ret_written)
{
	ssize_t written;

	if (!userev_enabled(event)) {
		*ret_written = false;
		return EXIT_DONE;
	}
	written = userev_write(event, record->payload, record->size);
	*ret_written = written > 0 || (written == 0 && record->size == 0);
	if (written >= 0)
		return EXIT_DONE;
	if (written == -EAGAIN)
		ctl_error("the record is lost: the daemon's queue is full. Try again.");
	else if (written == -E2BIG)
		ctl_error("the record is lost: its %s are more than every tracer can hold.",
			  plural(record->size, "byte", "bytes").text);
	else
		ctl_error("the record is lost: %s.", strerror((int)-written));
	return EXIT_REFUSED;
}

static void report(struct ctl *ctl, const struct userev_event *event, const struct record *record, bool written)
{
	const char *name = userev_event_name(event);
	struct json json = { .file = ctl->output.file };

	name = name ? name : ctl->argv[0];
	if (!ctl->json) {
		ctl_note(written ? "%s: written, %s." : "%s: not written, since nobody traces it (%s).", name,
			 plural(record->size, "byte", "bytes").text);
		return;
	}
	json_begin(&json, '{');
	json_key(&json, "event", 5);
	json_string(&json, name, strlen(name));
	json_key(&json, "bytes", 5);
	json_u64(&json, record->size);
	json_key(&json, "written", 7);
	json_bool(&json, written);
	json_end(&json, '}');
	putc('\n', json.file);
}

static int emit(struct ctl *ctl, struct userev *userev, const struct record *record, bool verbose)
{
	struct userev_event event = { 0 };
	bool written;
	int r;

	r = userev_connected(userev);
	if (r < 0)
		return explain_connection(greet_socket(ctl), r);
	r = userev_register(userev, &event, ctl->argv[0], 0);
	if (r < 0)
		return explain_refusal(r);
	r = write_record(&event, record, &written);
	if (r == EXIT_DONE && (verbose || ctl->json))
		report(ctl, &event, record, written);
	userev_release(userev, &event);
	return r == EXIT_DONE ? ctl_finish(ctl) : r;
}

static int emit_run(struct ctl *ctl)
{
	_cleanup_(freep) struct record *record = calloc(1, sizeof(*record));
	struct userev *userev;
	const char *value;
	bool verbose = false;
	int r;

	while (ctl_next_option(ctl, &value) != 0)
		verbose = true;
	ctl_expect_arguments(ctl, 1, INT32_MAX);
	if (!record) {
		ctl_error("out of memory.");
		return EXIT_REFUSED;
	}
	r = build(ctl, record);
	if (r != EXIT_DONE)
		return r;
	userev = userev_open(ctl->socket, 0);
	if (!userev)
		return explain_connection(greet_socket(ctl), -errno);
	r = emit(ctl, userev, record, verbose);
	userev_close(userev);
	return r;
}

static const struct ctl_option emit_options[] = {
	{ "verbose", NULL, "say whether somebody traces the event", 1 },
	{ 0 },
};

const struct command command_emit = {
	.name = "emit",
	.arguments = "DESCRIPTION FIELD=VALUE...",
	.summary = "write one record, from a shell script",
	.help = "Registers the event and writes one record, if somebody traces it; that nobody\n"
		"does is no error. Fields that are not named are zero or empty. Numbers may be\n"
		"decimal, 0x... or 0...; structs and arrays of numbers are hex bytes.\n"
		"\n"
		"  userevctl emit 'saved u32 status; __rel_loc char[] path' status=0 path=/home",
	.options = emit_options,
	.run = emit_run,
};
