/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Inside of tracing: texts of tracefs, an instance with events, and records. */

#include <signal.h>
#include <tracefs.h>

#include "client/userevctl/tracing/ring_page.h"
#include "client/userevctl/tracing/tracing.h"
#include "protocol/base/table.h"
#include "protocol/event/description.h"

/* text.c: texts of the kernel. Pure. */

/*
 * The name of the next event of a user_events_status, of any kernel; NULL at the end. Lines of another form are skipped. Overwrites
 * the text.
 */
char *text_next_status(char **text, unsigned *ret_used_by);

enum { FORMAT_FIELDS_MAX = 2 * WIRE_DESCRIPTION_MAX };
struct event_format {
	unsigned id;
	bool complete; /* otherwise some fields are missing */
	char fields[FORMAT_FIELDS_MAX];
};
/* An event's format file, which is overwritten: 0 or -EBADMSG. */
int text_read_format(char *text, struct event_format *ret);
/* Whether an event's name can be that of a directory, so that its files may be opened. */
bool text_is_file_name(const char *name);
/* The command of a pid in a saved_cmdlines, which is overwritten: false if it is not listed. */
bool text_find_command(char *text, uint64_t pid, char ret[static 64]);
/* A buffer's stats file. Numbers that are not there are left as they are. */
struct buffer_stats {
	uint64_t entries; /* records that can be read */
	uint64_t overrun; /* … that were overwritten */
	uint64_t dropped; /* … for which there was no room */
};
void text_read_stats(const char *text, struct buffer_stats *ret);
/* Whether a snapshot file has records behind its head; and the number of records before these that were overwritten, if the head has it. */
bool text_read_snapshot(const char *text, uint64_t *ret_lost);
/* The pid in the name of an instance of ours; 0: the instance is not ours. */
pid_t text_instance_pid(const char *name);

/* tracing.c: as tracing_look(), from this text of user_events_status or without one; 0 or the error of asking the daemon. */
int tracing_read(const struct tracing *, char *status, struct catalogue *ret);

/* tracefs.c */

/* Finds tracefs, or mounts it: an enum exit_code; EXIT_NO_DAEMON without a message if there is neither a daemon nor user_events. */
int tracefs_open(struct tracing *, enum tracing_use);
/* 0 or a negative errno; -ENOENT also for a name that cannot be a file's. */
int tracefs_read_format(const char *system, const char *name, struct event_format *ret);
/* Writes an event's enable file, of the top instance if NULL: 1, 0 if the event has gone, or a negative errno. */
int tracefs_turn(struct tracefs_instance *, const struct event *, bool on);
/* The same of any file of the event. */
int tracefs_write_event_file(struct tracefs_instance *, const struct event *, const char *file, const char *text);
/* The same of a filter or a trigger, with the kernel's own sentence if it refuses the text. */
enum { CONDITION_REFUSED = 2 }; /* a message has been printed */
int tracefs_set_condition(struct tracefs_instance *, const struct event *, const char *file, const char *text);
/* Prints that the kernel refuses this text, with the last sentence of the error log, or without one (NULL) that of the error. */
void tracefs_explain_refused(const char *name, const char *text, const char *log, int error);
/* Prints "cannot ACTION" and the error: an enum exit_code. */
int tracefs_explain(const char *action, int error);

/* An instance of our own. Other tracers' buffers, clocks and switches stay as they are; its events end with it. 0 or a negative errno. */
int instance_make(struct tracefs_instance **ret);
int instance_remove(struct tracefs_instance *);
/* Options and clock of a new instance, which is on, and overwrites the oldest records. */
int instance_set_up(struct tracefs_instance *);
int instance_write(struct tracefs_instance *, const char *file, const char *text);

/* buffer.c: the records of all CPUs of one instance, in the order of their times. */
struct cpu_buffer;
struct buffer_record {
	uint64_t time;			/* of the instance's clock */
	uint64_t missed;		/* that many records were overwritten before it */
	const struct ring_entry *entry; /* NULL: only `missed` is set */
};
/* `file`: of each CPU, "trace_pipe_raw" or "snapshot_raw". 0 or a negative errno. */
int buffers_open(struct follower *, const char *file);
void buffers_close(struct follower *);
void buffer_read_stats(struct tracefs_instance *, size_t cpu, struct buffer_stats *ret);
/*
 * The next record that is not later than `horizon`, which is new in each round of calls. Valid until the next call. At the end `busy` of
 * the tracing is set if a later record is waiting.
 */
bool buffers_next(struct follower *, uint64_t horizon, struct buffer_record *ret);

/* kernel_record.c: records of other events than user_events. */
struct kernel_events;
/* Those of these systems, up to NULL. NULL: their formats are not readable. */
struct kernel_events *kernel_events_load(const char *const *systems);
struct kernel_events *kernel_events_free(struct kernel_events *);
/* The event's name and its fields, as JSON or text, valid until the next call. False: the event is not known. */
bool kernel_events_read(struct kernel_events *, const void *data, size_t size, bool json, const char **ret_name,
			const char **ret_fields);

/* writer.c: the process that wrote a record, by the pid in it. */
struct writer {
	uint64_t pid;
	uint64_t looked; /* ns; 0: /proc was not read yet */
	bool is_inside;	 /* in a tenant of the daemon's */
	char comm[64];
	char *tenant; /* NULL: not known */
	uint64_t uid; /* or UID_UNKNOWN */
	uint64_t version;
	UT_hash_handle by_pid;
};
void writers_deinit(struct follower *);
/* Learns the holders in one answer of the daemon. */
void writers_learn(struct follower *, const struct catalogue *);
/* Valid until the next call. */
const struct writer *writers_find(struct follower *, uint64_t pid, uint64_t now);

/* follow.c: a tail in an instance. */

struct follower_event {
	bool on;
	uint64_t seen;		 /* the number of the last look that wanted it */
	struct event event;	 /* its `name`, `shown` and `system` */
	UT_hash_handle by_shown; /* no name is in both systems */
	uint64_t version;	 /* of the description */
	char description[FORMAT_FIELDS_MAX + 16];
};

enum { RECORD_TYPES_MAX = 65536 };
struct follower {
	struct tracing *tracing;
	struct tracefs_instance *instance; /* which is removed at the end */
	bool is_snapshot;
	struct cpu_buffer *cpus;
	size_t n_cpus;
	size_t page_header;
	struct cpu_buffer *given; /* of the record that the last buffers_next() returned */
	uint64_t until;		  /* no other CPU has a record that is older */
	struct writer *writers, *last_writer;
	struct follower_event *events;
	struct follower_event *by_type[RECORD_TYPES_MAX]; /* the type in a record */
	struct kernel_events *kernel_events;		  /* types that are not user_events; NULL: none */
	uint64_t versions;				  /* so many were given to events and writers */
	uint64_t looks;
	uint64_t look_took; /* ns */
	uint64_t looked;    /* the time of the last complete look */
	uint64_t asked;	    /* the time when the daemon was asked last */
	uint64_t settled;   /* from then on looks are needed only when the texts change */
	uint64_t wall;	    /* ns from the trace clock to the wall clock */
	bool daemon_gone;
	char *status;	 /* the texts of the last look */
	char *set_event; /* between line breaks */
};

/* The signal that ends the tail; 0: none. It interrupts poll() and write(); before these, the tail ends when it is due. */
extern volatile sig_atomic_t follower_stopped;

/* Becomes that of the tracing; from now on signals do not end the program. Without an instance. */
struct follower *follower_new(struct tracing *);
int follower_begin(struct tracing *, uint16_t flags);	   /* an enum exit_code */
int follower_read(struct tracing *, struct record_view *); /* … */
struct follower *follower_free(struct follower *);
/* Prints the records that there are: 0 or a negative errno. */
int follower_drain(struct follower *, struct record_view *);

/*
 * look.c: switches on wanted events that have come, and off those that are not wanted any more: an enum exit_code. `view`:
 * NULL in the first look. Sets the time of the next look, `due`.
 */
int look_now(struct follower *, struct record_view *view);
/* The follower's own of this event, made if it has none. */
struct follower_event *follower_event_of(struct follower *, const struct event *);
/* Reads its format, for records of its type: 0 or a negative errno. The event must be on, otherwise its type may be reused. */
int follower_learn_type(struct follower *, struct follower_event *);
/* How long to wait before the next look, in ns. */
uint64_t look_pause(const struct follower *);
