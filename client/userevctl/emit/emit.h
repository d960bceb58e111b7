/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* emit: one record from the command line, or one from each line of stdin. */

#include "client/userev.h"
#include "client/userevctl/ctl.h"
#include "protocol/event/record.h"

struct emission {
	struct ctl *ctl;
	bool verbose;
	bool from_stdin;
	bool require;	/* fail without a daemon */
	bool no_daemon; /* at the start */
	struct userev *userev;
	struct userev_event event;
	const char *name; /* with its prefix, once it is granted */
	struct description description;
	uint8_t payload[WIRE_PAYLOAD_MAX]; /* of the current record */
	size_t size;
};

/* Writes the record: 1; 0: no tracer is active; or a negative errno: it is lost. */
int emission_write(struct emission *);

/* stream.c: until stdin ends: an enum exit_code. */
int emit_stream(struct emission *);

/*
 * line.c: splits a line into "FIELD=VALUE" strings, in `assignments` of which there are at most `most`. `line` ends in a NUL behind its
 * `length` bytes, and is overwritten. A line is such assignments between blanks, as tail shows them, or an object of JSON. 0, or
 * REFUSAL_BAD_DESCRIPTION with a sentence in `why`.
 */
int emit_line_split(char *line, size_t length, const char **assignments, size_t most, size_t *ret_n, struct text *why);
