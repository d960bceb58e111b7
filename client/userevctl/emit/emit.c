/* SPDX-License-Identifier: GPL-2.0-or-later */

/* emit: one record from a shell script, through the same library as any program's; or many, see ctl_emit_stream.c. */

#include "client/userevctl/emit/emit.h"

enum { OPTION_VERBOSE = 1, OPTION_STDIN, OPTION_REQUIRE };

#define WAIT_MS "10000" /* for a daemon that is there and busy */

int emission_build(struct emission *emission, const char *const *assignments, size_t n, struct text *why)
{
	return record_build(&emission->description, assignments, n, emission->payload, sizeof(emission->payload),
			    &emission->size, why);
}

static int build(struct emission *emission, bool from_stdin)
{
	const struct ctl *ctl = emission->ctl;
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	r = description_parse(ctl->argv[0], strlen(ctl->argv[0]), &emission->description, &why);
	if (r == 0 && !from_stdin)
		r = emission_build(emission, (const char *const *)ctl->argv + 1, (size_t)ctl->argc - 1, &why);
	if (r == 0)
		return EXIT_DONE;
	if (r == -ENOSPC)
		ctl_error("the record is too large: at most %d bytes reach every tracer.", WIRE_PAYLOAD_MAX);
	else
		ctl_error("%s.", sentence);
	return EXIT_REFUSED;
}

static int explain_connection(const struct ctl *ctl, int error)
{
	const char *path = greet_socket(ctl);

	switch (error) {
	case -ENOENT:
	case -ENOTDIR:
	case -ECONNREFUSED:
		ctl_error("no daemon listens at %s. %s", path, greet_advice(ctl));
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
static int write_record(const struct emission *emission, bool *ret_written)
{
	ssize_t written;

	if (!userev_enabled(&emission->event)) {
		*ret_written = false;
		return EXIT_DONE;
	}
	written = userev_write(&emission->event, emission->payload, emission->size);
	*ret_written = written > 0 || (written == 0 && emission->size == 0);
	if (written >= 0)
		return EXIT_DONE;
	if (written == -EAGAIN)
		ctl_error("the record is lost: the daemon's queue is full. Try again.");
	else if (written == -E2BIG)
		ctl_error("the record is lost: its %s are more than every tracer can hold.",
			  plural(emission->size, "byte", "bytes").text);
	else
		ctl_error("the record is lost: %s.", strerror((int)-written));
	return EXIT_REFUSED;
}

const char *emission_name(const struct emission *emission)
{
	const char *name = userev_event_name(&emission->event);

	return name ? name : emission->ctl->argv[0];
}

static void report(const struct emission *emission, bool written)
{
	const char *name = emission_name(emission);
	struct json json = { .file = emission->ctl->output.file };

	if (!emission->ctl->json) {
		const char *outcome = written		    ? "written"
				      : emission->no_daemon ? "not written, since there is no daemon"
							    : "not written, since nobody traces it";

		ctl_note("%s: %s (%s).", name, outcome, plural(emission->size, "byte", "bytes").text);
		return;
	}
	json_begin(&json, '{');
	json_key(&json, "event", 5);
	json_string(&json, name, strlen(name));
	json_key(&json, "bytes", 5);
	json_u64(&json, emission->size);
	json_key(&json, "written", 7);
	json_bool(&json, written);
	json_end(&json, '}');
	putc('\n', json.file);
}

static int emit_one(struct emission *emission)
{
	bool written;
	int r = write_record(emission, &written);

	if (r == EXIT_DONE && (emission->verbose || emission->ctl->json))
		report(emission, written);
	return r;
}

static int emit(struct emission *emission, int (*write_records)(struct emission *))
{
	struct ctl *ctl = emission->ctl;
	int r;

	r = userev_connected(emission->userev);
	/* A script goes on as any program does where there is no daemon; one that comes later gets the next lines of stdin. */
	emission->no_daemon = control_nobody(r) && !emission->require;
	if (r < 0 && !emission->no_daemon)
		return explain_connection(ctl, r);
	r = userev_register(emission->userev, &emission->event, ctl->argv[0], 0);
	if (r < 0)
		return explain_refusal(r);
	r = write_records(emission);
	userev_release(emission->userev, &emission->event);
	/* What was printed matters also where some records were refused. */
	return MAX(r, ctl_finish(ctl));
}

static int open_and_emit(struct emission *emission, bool from_stdin)
{
	const char *debug = getenv("USEREV_DEBUG");
	int r;

	r = build(emission, from_stdin);
	if (r != EXIT_DONE)
		return r;
	/* What is refused is explained here. */
	if (debug && streq(debug, "refused"))
		unsetenv("USEREV_DEBUG");
	setenv("USEREV_WAIT", WAIT_MS, 0);
	emission->userev = userev_open(emission->ctl->socket, 0);
	if (!emission->userev)
		return explain_connection(emission->ctl, -errno);
	r = emit(emission, from_stdin ? emit_stream : emit_one);
	userev_close(emission->userev);
	return r;
}

static int emit_run(struct ctl *ctl)
{
	_cleanup_(freep) struct emission *emission = calloc(1, sizeof(*emission));
	const char *value;
	bool given[OPTION_REQUIRE + 1] = { false };
	int option;

	while ((option = ctl_next_option(ctl, &value)) != 0)
		given[option] = true;
	ctl_expect_arguments(ctl, 1, given[OPTION_STDIN] ? 1 : INT32_MAX);
	if (!emission) {
		ctl_error("out of memory.");
		return EXIT_REFUSED;
	}
	emission->ctl = ctl;
	emission->verbose = given[OPTION_VERBOSE];
	emission->require = given[OPTION_REQUIRE];
	return open_and_emit(emission, given[OPTION_STDIN]);
}

static const struct ctl_option emit_options[] = {
	{ "verbose", NULL, "say whether somebody traces the event", OPTION_VERBOSE },
	{ "stdin", NULL, "a record from each line of stdin", OPTION_STDIN },
	{ "require", NULL, "fail where there is no daemon", OPTION_REQUIRE },
	{ 0 },
};

const struct command command_emit = {
	.name = "emit",
	.arguments = "DESCRIPTION FIELD=VALUE...",
	.summary = "write one record, from a shell script",
	.help = "Registers the event and writes one record, if somebody traces it. It is no error\n"
		"that nobody does, nor, without --require, that there is no daemon. Fields that\n"
		"are not named are zero or empty. Numbers may be decimal, 0x... or 0...; structs\n"
		"and arrays of numbers are hex bytes, or an array is [1,2,3].\n"
		"\n"
		"  userevctl emit 'saved u32 status; __rel_loc char[] path' status=0 path=/home\n"
		"\n"
		"With --stdin, each line has the fields of one record: FIELD=VALUE ..., a text\n"
		"with blanks in double quotes; or an object of JSON. A line that is wrong is\n"
		"told by its number, and makes the exit status 1.",
	.options = emit_options,
	.run = emit_run,
};
