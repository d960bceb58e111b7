/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The insides of userevctl as a tracer: what tracefs says in text, what the daemon says of the same events, and
 * records.
 */

#include <tracefs.h>

#include "client/userevctl/tracing/tracer.h"
#include "protocol/event/description.h"

/* tracer_tracefs_text.c: what the kernel writes as text. Pure. */
struct status_line {
	const char *name; /* not terminated */
	size_t length;
	unsigned used_by;
};
/* The next event of a user_events_status, of whichever kernel: false at the end. What makes no sense is left out. */
bool status_text_next(struct cursor *text, struct status_line *ret);

enum { FORMAT_FIELDS_MAX = 2 * WIRE_DESCRIPTION_MAX };
struct event_format {
	uint16_t id;
	bool exact; /* the fields say where in a record everything is */
	char fields[FORMAT_FIELDS_MAX];
};
/* An event's format file: 0 or -EBADMSG. */
int event_format_parse(const char *text, struct event_format *ret);

/* The number behind "key: " at the beginning of a line: false where there is none. */
bool text_find_number(const char *text, const char *key, uint64_t *ret);
/* Whether there is such a line. */
bool text_has_line(const char *text, const char *line);
/* The command of a pid in a saved_cmdlines: false where it is not there. */
bool cmdlines_find(const char *text, uint64_t pid, char *ret, size_t size);
/* The pid in the name of a tail's instance; 0: that is somebody else's. */
uint64_t instance_name_pid(const char *name);

/* tracer_tracefs_catalogue.c: tracefs and the daemon, put together. Pure. */
struct catalogue_event {
	char *name;   /* as programs know it; the same as `shown` where that is so */
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
	struct catalogue_event *events; /* by `shown`, once merged */
	size_t n;
	size_t capacity;
	size_t n_rows; /* the first ones are the daemon's, until merged */
	size_t foreign;
};

/* Each once, rows first; 0 or -ENOMEM. */
int catalogue_add_row(struct catalogue *, struct cursor row);
int catalogue_add_status(struct catalogue *, const char *text, size_t size);
/*
 * What has a name with a dot that tracefs shows in user_events_multi: whether, and its fields as the kernel shows them.
 */
typedef bool catalogue_look(void *data, const char *shown, char *ret_fields, size_t size);
int catalogue_merge(struct catalogue *, catalogue_look *, void *data);
void catalogue_deinit(struct catalogue *);
void catalogue_view(const struct catalogue_event *, struct event_view *ret);
/* Whether it can be a directory's name, so that its files may be looked for. */
bool catalogue_is_file_name(const char *name);

/* tracer_tracefs_buffer.c: the records of all CPUs of one instance, in the order of their times. */
struct trace_buffers;
struct trace_record {
	uint64_t time;	  /* of the instance's clock */
	uint64_t missed;  /* that many were overwritten before it */
	const void *data; /* NULL: only `missed` is said */
	size_t size;
};
int trace_buffers_open(struct tracefs_instance *, struct trace_buffers **ret);
struct trace_buffers *trace_buffers_free(struct trace_buffers *);
static inline void trace_buffers_freep(struct trace_buffers **buffers)
{
	*buffers = trace_buffers_free(*buffers);
}
/* 0 or a negative errno. */
int trace_buffers_watch(struct trace_buffers *, int epoll);
/* The next one that is not younger than `horizon`, a time that has not come before: valid until the next call. */
bool trace_buffers_next(struct trace_buffers *, uint64_t horizon, struct trace_record *ret);
/* Whether one waits that is younger. */
bool trace_buffers_waiting(const struct trace_buffers *);

/* tracer_tracefs_writer.c: who wrote a record, by the pid in it. */
struct writer {
	char comm[64];
	char tenant[WIRE_TENANT_MAX + 1]; /* "": not known */
	uint64_t uid;
	bool uid_known;
};
struct writers;
/* `ask`: to call writers_learn() with what the daemon says now, if it may be asked again already. */
typedef void writers_ask(void *data);
int writers_new(writers_ask *ask, void *data, struct writers **ret);
struct writers *writers_free(struct writers *);
/* Before the rows of one answer. */
void writers_begin(struct writers *);
/* The holders of one EVENTS row. */
void writers_learn(struct writers *, struct cursor row);
/* Never NULL; lives until the next call. */
const struct writer *writers_find(struct writers *, uint64_t pid);

/* tracer_tracefs.c */
struct tail_session;
struct tracefs_tracing {
	struct tracing tracing;
	bool blind; /* tracefs may not be looked into */
	struct tail_session *session;
};
static inline struct tracefs_tracing *tracefs_of(struct tracing *tracing)
{
	return container_of(tracing, struct tracefs_tracing, tracing);
}

uint64_t monotonic_ns(void);
/* A file of tracefs, terminated; NULL with errno. */
char *tracefs_text(const char *name, size_t *ret_size);
/* 0 or a negative errno; -ENOENT also for a name that cannot be one. */
int tracefs_read_format(const char *system, const char *name, struct event_format *ret);
/* Writes an event's enable file, of the top instance if NULL: 0 or a negative errno. */
int tracefs_turn(struct tracefs_instance *, const char *system, const char *name, bool on);
/* Who has no permission, or what else is wrong: an enum exit_code. */
int tracefs_explain(const char *what, int error);
/*
 * Everything, merged; the rows also go to `writers`, if any. `status`: what user_events_status said, or NULL. 0 or a
 * negative errno; -EREMOTE after the daemon's error was put into `ret_daemon`.
 */
int tracefs_catalogue(struct tracefs_tracing *, const char *status, size_t size, struct writers *,
		      struct catalogue *ret, int *ret_daemon);

/* tracer_tracefs_settle.c: an enum exit_code. */
int tracefs_settle(struct tracing *);

/* tracer_tracefs_tail.c */
int tail_session_begin(struct tracefs_tracing *, const struct tail_wish *);
int tail_session_read(struct tracefs_tracing *, struct record_view *);
struct tail_session *tail_session_free(struct tail_session *);
