/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* userevctl as a tracer of the kernel: texts of tracefs, the daemon's rows about the same events, and records. */

#include <tracefs.h>

#include "client/userevctl/tracing/tracing.h"
#include "protocol/event/description.h"

/* text.c: texts of the kernel. Pure. */
struct status_line {
	const char *name; /* not terminated */
	size_t length;
	unsigned used_by;
};
/* The next event of a user_events_status, of any kernel: false at the end. Lines of another form are skipped. */
bool text_next_status(struct cursor *text, struct status_line *ret);

enum { FORMAT_FIELDS_MAX = 2 * WIRE_DESCRIPTION_MAX };
struct event_format {
	uint16_t id;
	bool exact; /* the fields determine the layout of a record */
	char fields[FORMAT_FIELDS_MAX];
};
/* An event's format file: 0 or -EBADMSG. */
int text_read_format(const char *text, struct event_format *ret);
/* The number behind "key:" at the beginning of a line: false if there is none. */
bool text_find_number(const char *text, const char *key, uint64_t *ret);
bool text_has_line(const char *text, const char *line);
/* The command of a pid in a saved_cmdlines: false if it is not listed. */
bool text_find_command(const char *text, uint64_t pid, char *ret, size_t size);
/* The pid in the name of a tail's instance; 0: the instance is not a tail's. */
uint64_t text_instance_pid(const char *name);

/* catalogue.c: the events of tracefs and those of the daemon, merged. Pure. */
struct catalogue_event {
	char *name;   /* as programs know it; the same pointer as `shown` if they are equal */
	char *shown;  /* as tracers do */
	char *fields; /* of the daemon's description; NULL: foreign */
	bool in_tracefs;
	bool multi; /* of the system user_events_multi */
	bool foreign;
	unsigned used_by;
	uint8_t *row; /* the daemon's; NULL: foreign */
	size_t row_size;
};

struct catalogue {
	struct catalogue_event *events; /* sorted by `shown`, once merged */
	size_t n;
	size_t capacity;
	size_t n_rows; /* the first ones are the daemon's, until merged */
	size_t foreign;
};

/* All rows are added first; 0 or -ENOMEM. */
int catalogue_add_row(struct catalogue *, struct cursor row);
int catalogue_add_status(struct catalogue *, const char *text, size_t size);
/* Whether tracefs shows this name in user_events_multi, and its fields as the kernel shows them. */
typedef bool catalogue_look(void *data, const char *shown, char *ret_fields, size_t size);
int catalogue_merge(struct catalogue *, catalogue_look *, void *data);
void catalogue_deinit(struct catalogue *);
void catalogue_view(const struct catalogue_event *, struct event_view *ret);
/* Whether it can be the name of a directory, so that its files may be opened. */
bool catalogue_is_file_name(const char *name);

/* buffer.c: the records of all CPUs of one instance, in the order of their times. */
struct buffers;
struct buffer_record {
	uint64_t time;	  /* of the instance's clock */
	uint64_t missed;  /* that many records were overwritten before it */
	const void *data; /* NULL: only `missed` is set */
	size_t size;
};
int buffers_open(struct tracefs_instance *, struct buffers **ret);
struct buffers *buffers_free(struct buffers *);
static inline void buffers_freep(struct buffers **buffers)
{
	*buffers = buffers_free(*buffers);
}
/* 0 or a negative errno. */
int buffers_watch(struct buffers *, int epoll);
/* The next record that is not later than `horizon`, which is new in each round of calls. Valid until the next call. */
bool buffers_next(struct buffers *, uint64_t horizon, struct buffer_record *ret);
/* Whether a later record is waiting. */
bool buffers_waiting(const struct buffers *);

/* writer.c: the process that wrote a record, by the pid in it. */
struct writer {
	char comm[64];
	char tenant[WIRE_TENANT_MAX + 1]; /* "": not known */
	uint64_t uid;
	bool uid_known;
};
struct writers;
/* `ask` passes the current rows of the daemon to writers_learn(), unless the daemon was asked a moment ago. */
typedef void writers_ask(void *data);
int writers_new(writers_ask *ask, void *data, struct writers **ret);
struct writers *writers_free(struct writers *);
/* Before the rows of one answer. */
void writers_begin(struct writers *);
/* The holders of one EVENTS row. */
void writers_learn(struct writers *, struct cursor row);
/* Never NULL; valid until the next call. */
const struct writer *writers_find(struct writers *, uint64_t pid);

/* tracefs.c */
struct session;
struct tracefs_tracing {
	struct tracing tracing;
	bool blind; /* this user may not read tracefs */
	struct session *session;
};
static inline struct tracefs_tracing *tracefs_of(struct tracing *tracing)
{
	return container_of(tracing, struct tracefs_tracing, tracing);
}

/* A file of tracefs, terminated; NULL with errno. */
char *tracefs_text(const char *name, size_t *ret_size);
/* 0 or a negative errno; -ENOENT also for a name that cannot be a file's. */
int tracefs_read_format(const char *system, const char *name, struct event_format *ret);
/* Writes an event's enable file, of the top instance if NULL: 0 or a negative errno. */
int tracefs_turn(struct tracefs_instance *, const char *system, const char *name, bool on);
/* Prints "cannot WHAT" and the error: an enum exit_code. */
int tracefs_explain(const char *what, int error);
/*
 * All events, merged; the rows also go to `writers`, unless NULL. `status`: the text of user_events_status, or NULL. 0 or a
 * negative errno; -EREMOTE with the daemon's error in `ret_daemon`.
 */
int tracefs_catalogue(struct tracefs_tracing *, const char *status, size_t size, struct writers *,
		      struct catalogue *ret, int *ret_daemon);

/* session.c: a tail. Both return an enum exit_code. */
int session_begin(struct tracing *, const struct tail_request *);
int session_read(struct tracing *, struct record_view *);
struct session *session_free(struct session *);
