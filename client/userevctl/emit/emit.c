/* SPDX-License-Identifier: GPL-2.0-or-later */

/* emit: one record from a shell script, through libuserev as in any program; or many, see stream.c. */

#include "client/userevctl/emit/emit.h"

#define WAIT_MS "10000" /* for a busy daemon */

static int explain_connection(const struct ctl *ctl, int error)
{
	ctl_error("cannot connect to %s: %s. 'userevctl doctor' shows why.", clients_socket_path(ctl),
		  error == -EPROTO ? safe_string(userev_refusal()).text : strerror(-error));
	if (control_nobody(error))
		return EXIT_NO_DAEMON;
	return error == -EACCES || error == -EPERM ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
}

int emission_write(struct emission *emission)
{
	ssize_t written;

	if (!userev_enabled(&emission->event))
		return 0;
	written = userev_write(&emission->event, emission->payload, emission->size);
	return written < 0 ? (int)written : written > 0 || emission->size == 0;
}

static int emit_one(struct emission *emission)
{
	const struct output *output = &emission->ctl->output;
	int written = emission_write(emission);

	if (written < 0) {
		ctl_error("the record is lost: %s.", written == -EAGAIN ? "the daemon's queue is full; try again"
						     : written == -E2BIG
							     ? "it has more bytes than every tracer can hold"
							     : strerror(-written));
		return EXIT_REFUSED;
	}
	if (output->json)
		json_print(output->file, json_text("event", emission->name), json_u64("bytes", emission->size),
			   json_bool("written", written > 0));
	else if (emission->verbose)
		ctl_note("%s: %s (%s).", emission->name,
			 written > 0	       ? "written"
			 : emission->no_daemon ? "not written: there is no daemon"
					       : "not written: no tracer is active",
			 plural(emission->size, "byte", "bytes").text);
	return EXIT_DONE;
}

static int register_and_emit(struct emission *emission)
{
	struct ctl *ctl = emission->ctl;
	struct safe_string sentence;
	int r = userev_connected(emission->userev);

	/* Without a daemon a script goes on, as any program does; with --stdin one that starts later gets the next lines. */
	emission->no_daemon = control_nobody(r) && !emission->require;
	if (r < 0 && !emission->no_daemon)
		return explain_connection(ctl, r);
	r = userev_register(emission->userev, &emission->event, ctl->argv[0], 0);
	if (r < 0) {
		sentence = safe_string(userev_refusal());
		ctl_error("the event was refused: %s.", sentence.text[0] ? sentence.text : strerror(-r));
		return r == -EACCES ? EXIT_NOT_PERMITTED : EXIT_REFUSED;
	}
	emission->name = userev_event_name(&emission->event);
	if (!emission->name)
		emission->name = ctl->argv[0];
	r = emission->from_stdin ? emit_stream(emission) : emit_one(emission);
	userev_release(emission->userev, &emission->event);
	return r;
}

static int emit_run(struct ctl *ctl)
{
	_cleanup_(freep) struct emission *emission = must(calloc(1, sizeof(*emission)));
	const char *debug = getenv("USEREV_DEBUG");
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	int r;

	emission->ctl = ctl;
	options_read(ctl, emission, 1, INT32_MAX);
	if (emission->from_stdin)
		ctl_expect_arguments(ctl, 1, 1);
	r = description_parse(ctl->argv[0], strlen(ctl->argv[0]), &emission->description, &why);
	if (r == 0 && !emission->from_stdin)
		r = record_build(&emission->description, (const char *const *)ctl->argv + 1, (size_t)ctl->argc - 1,
				 emission->payload, sizeof(emission->payload), &emission->size, &why);
	if (r == -ENOSPC)
		ctl_error("the record is too large: at most %d bytes reach every tracer.", WIRE_PAYLOAD_MAX);
	else if (r != 0)
		ctl_error("%s.", sentence);
	if (r != 0)
		return EXIT_REFUSED;
	/* emit explains refusals itself. */
	if (debug && streq(debug, "refused"))
		unsetenv("USEREV_DEBUG");
	setenv("USEREV_WAIT", WAIT_MS, 0);
	emission->userev = userev_open(ctl->socket, 0);
	r = emission->userev ? register_and_emit(emission) : explain_connection(ctl, -errno);
	userev_close(emission->userev);
	return r;
}

COMMAND(emit, "DESCRIPTION FIELD=VALUE...", "write one record, from a shell script",
	OPTIONS(FLAG_ROW("verbose", struct emission, verbose, "print whether the record was written"),
		FLAG_ROW("stdin", struct emission, from_stdin, "a record from each line of stdin"),
		FLAG_ROW("require", struct emission, require, "fail without a daemon")),
	"Registers the event and writes one record, if a tracer is active. It is no error\n"
	"if none is, nor, without --require, if there is no daemon. Fields without a value\n"
	"are zero or empty. Numbers may be decimal, 0x... or 0...; structs and arrays of\n"
	"numbers are hex bytes; an array may also be [1,2,3].\n"
	"\n"
	"  userevctl emit 'saved u32 status; __rel_loc char[] path' status=0 path=/home\n"
	"\n"
	"With --stdin, each line has the fields of one record: FIELD=VALUE ..., with texts\n"
	"that have blanks in double quotes; or an object of JSON. For a wrong line emit\n"
	"prints its number and the error, and the exit status is 1.");
