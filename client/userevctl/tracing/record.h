/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Records, as tail, run and doctor show them. */

#include "client/userevctl/control.h"
#include "client/userevctl/output.h"
#include "client/userevctl/show/tenant_name.h"
#include "protocol/event/description.h"

#define UID_UNKNOWN UINT64_MAX
struct taken_record {
	uint64_t time; /* ns since 1970 */
	uint64_t pid;
	uint64_t uid;		   /* UID_UNKNOWN */
	const char *comm, *tenant; /* "": not known */
	const struct tenant_name
		*tenant_name;	 /* as it was when the record was written; NULL: as it is on this machine now */
	const char *name;	 /* of the event */
	const char *description; /* "name type field; …" */
	const void *payload;
	size_t size;
	const char *fields; /* written already, as text or JSON, whichever the output is; NULL: of the payload */
	/* Of the event, and of the process: the same number as before stands for the same name and description, or uid, comm and tenant. */
	uint64_t event_version, writer_version; /* 0: not known */
};
/* Takes records in place of an output. */
struct record_sink {
	bool (*put)(struct record_sink *, const struct taken_record *); /* false: it is full */
	void (*missed)(struct record_sink *, uint64_t missed);
	void (*flush)(struct record_sink *);
};
struct record_view {
	struct output *output;
	struct record_sink *sink; /* NULL: the records are printed */
	bool full;		  /* the sink takes no more */
	const char *tenant;	  /* a pattern: of these alone; NULL: of all */
	uint64_t since;		  /* ns since 1970: not of earlier ones */
	uint64_t records;
	uint64_t missed;
	uint64_t most;	  /* ends after so many; 0: never */
	int output_error; /* a negative errno */
};
/* NULL: the description is not known to this build, or the payload does not fit it. Valid until the next call. */
const struct description *record_fitting_description(const struct taken_record *);
void record_view_put(struct record_view *, const struct taken_record *);
/* So many records were overwritten before they were read. */
void record_view_missed(struct record_view *, uint64_t missed);
/* Receives a packet, prints its records, and flushes: 0 or the errno of control_next_packet(). */
int record_view_take(struct record_view *, struct control *);
bool record_view_done(const struct record_view *);
/*
 * since.c: "5m" ago, or a time or date, "12:34", "2026-11-26 12:34:56", of this machine's time zone. `now` and the result are ns since 1970.
 * False: it is none.
 */
bool since_parse(const char *text, uint64_t now, uint64_t *ret);
/* Of an option, if it is not NULL. False after a message. */
bool record_view_set_since(struct record_view *, const char *command, const char *since);
/* 0 or a negative errno of the output. */
int record_view_flush(const struct record_view *);
