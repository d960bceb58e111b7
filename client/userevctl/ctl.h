/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* userevctl: its commands, and what they share. */

#include <signal.h>
#include <sys/types.h>

#include "client/userevctl/output.h"
#include "protocol/base/suggest.h"
#include "protocol/base/text.h"
#include "protocol/wire.h"

/* What a shell script may rely on; userevctl(1) says so. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_REFUSED = 1, /* or failed */
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3,
	EXIT_NOT_PERMITTED = 4,
	/* `run` returns its command's status; these, as env(1) and timeout(1) have them, where there is none. */
	EXIT_RUN_FAILED = 125,
	EXIT_RUN_CANNOT = 126,
	EXIT_RUN_NOT_FOUND = 127,
};

struct ctl;

struct ctl_option {
	const char *name;
	const char *argument; /* what it is called in the help; NULL: takes none */
	const char *help;
	int key; /* what ctl_next_option() returns: 1 … */
};

struct command {
	const char *name;
	const char *arguments;
	const char *summary;		  /* one line of the overview */
	const char *help;		  /* the paragraph behind it */
	const struct ctl_option *options; /* ends with a nameless one; or NULL */
	bool stops_at_argument;		  /* what follows belongs to somebody else */
	int (*run)(struct ctl *);	  /* an enum exit_code */
};

struct ctl {
	const char *socket;	    /* where clients connect: --socket, or NULL for the library's choice */
	const char *control_socket; /* where admins connect */
	enum colour_when colour;
	unsigned width; /* as for a terminal of so many columns; 0: as the terminal is */
	bool json;
	bool sigpipe_was_default; /* before we chose to see EPIPE instead */
	struct output output;	  /* stdout */
	const struct command *command;
	int argc; /* once the options are read: the arguments */
	char **argv;
};

extern const struct command command_status, command_events, command_tenants, command_top, command_metrics,
	command_enable, command_disable, command_tail, command_emit, command_run, command_policy, command_reload,
	command_doctor, command_version;

/*
 * ctl_options.c. The next of the command's own options, or 0 when all are read; the arguments are then in argc and
 * argv, and `output` is ready. What is wrong with them ends the program with a sentence; so does --help.
 */
int ctl_next_option(struct ctl *, const char **ret_value);
/* For a command without options of its own. Too few or too many arguments end the program. */
void ctl_no_options(struct ctl *);
void ctl_expect_arguments(struct ctl *, int least, int most);
/* The value of such an option; anything else ends the program. */
uint64_t ctl_number(const char *option, const char *value, uint64_t least, uint64_t most);

unsigned ctl_width(const char *option, const char *value);
/* A command's options, or with NULL those for all. */
void ctl_print_options(FILE *, const struct command *);

/* userevctl.c: the help of a command, or with NULL the overview. */
void ctl_print_help(FILE *, const struct command *);

/* What a person typed, fit to be shown back. */
struct shown {
	char text[TEXT_EXCERPT_MAX * 4 + 8];
};
struct shown ctl_shown(const char *typed);

/* "userevctl: …" on stderr. */
void ctl_error(const char *format, ...) _printf_(1, 2);
void ctl_note(const char *format, ...) _printf_(1, 2);
/* Flushes the output: EXIT_DONE, or as the next one says. */
int ctl_finish(struct ctl *);
/* EXIT_DONE where the reader has gone (| head), else EXIT_REFUSED after a sentence. */
int ctl_output_failed(int error);

/* ctl_trace.c: all is cleaned up: ends as whoever sent the signal expects, with what can still be printed. */
void ctl_end_by(struct ctl *, int signal_number);

/* ctl_control.c: the connection to the control socket. */
struct control {
	int fd;
	const char *path;
	uint32_t serial;
	uint32_t refusal;
	char sentence[WIRE_SENTENCE_MAX * 4 + 1]; /* of the last refusal, safe to show */
	struct cursor rows;			  /* what control_next_row() has still to give */
	bool more;
	uint8_t buffer[WIRE_PACKET_MAX];
};

enum { CONTROL_PATIENCE_MS = 10000 }; /* for a daemon that should answer at once */

/* A socket that is connected to that path, or a negative errno. */
int ctl_connect(const char *path);
/* Opens a connection: 0 or a negative errno. */
int control_open(const char *path, struct control **ret);
struct control *control_free(struct control *);
static inline void control_freep(struct control **control)
{
	*control = control_free(*control);
}

/* Sends one request: 0 or a negative errno. */
int control_ask(struct control *, uint16_t kind);
int control_ask_strings(struct control *, uint16_t kind, uint16_t flags, const char *const *strings, size_t n);

/*
 * Takes one packet: 0; -ETIMEDOUT after that many milliseconds (-1: never); -ECONNRESET when the daemon has gone;
 * -EREMOTEIO when it refused, with the sentence in `sentence`; -EBADMSG. The message lives until the next call.
 */
int control_receive(struct control *, int timeout, struct message *ret);
/* The next row of the answer: 1; 0 at its end; else as above. */
int control_next_row(struct control *, struct cursor *ret);

/* Says what went wrong and what to do; the exit code for it. */
int control_explain(const char *path, int error, const struct control *);
/* control_open() with the sentence: an enum exit_code. */
int ctl_open_control(struct ctl *, struct control **ret);
/* Asks, and the first row of the answer: 1; 0 where there is none; or a negative errno. */
int control_ask_row(struct control *, uint16_t kind, struct cursor *ret);
/* Whether an error of control_open() says that nobody is there. */
bool control_nobody(int error);

/* ctl_names.c: names that nobody knows. */
bool name_matches(const char *pattern, const char *name, size_t length);
bool is_pattern(const char *);
/*
 * Whether each of the patterns matches an event that may be dealt with: EXIT_DONE, or EXIT_REFUSED after naming, for
 * each that does not, those that look alike. Patterns with *, ? or [ may match nothing if `may_wait`.
 */
struct tracing;
int names_check(struct tracing *, char *const *patterns, int n, bool may_wait);

/* ctl_events.c: the table that ends a status, or its JSON. */
int events_table(struct ctl *, struct tracing *);
int events_json(struct ctl *, struct tracing *, struct json *);

/* ctl_record.c: records, as tail and run show them. */
struct piece {
	const void *at;
	size_t length;
};
struct taken_record {
	uint64_t time; /* ns since 1970 */
	uint64_t pid;
	uint64_t uid;
	bool uid_known;
	struct piece comm;
	struct piece tenant;	  /* empty: not known */
	struct piece name;	  /* of the event; empty: as in its description */
	struct piece description; /* "name type field; …" */
	struct piece payload;
};
struct record_view {
	struct output *output;
	uint64_t records;
	uint64_t missed;
	uint64_t most;			 /* ends after so many; 0: never */
	struct description *description; /* the last one that was parsed */
	char *canonical;		 /* … and its text */
};
void record_view_deinit(struct record_view *);
void record_view_put(struct record_view *, const struct taken_record *);
/* So many came faster than they were read. */
void record_view_missed(struct record_view *, uint64_t missed);
/* Prints all the rows of a ROWS packet, and flushes. 0 or a negative errno. */
int record_view_rows(struct record_view *, struct cursor body);
bool record_view_done(const struct record_view *);

/* ctl_private.c: a daemon of our own in a directory of its own. */
struct private_daemon {
	pid_t pid; /* 0: none */
	char directory[80];
	char socket[100];
	char control_socket[100];
};
/* How a child is to start: with the signals as they were when we were started ourselves. */
struct spawn_state {
	sigset_t mask;
	bool sigpipe_was_default;
};
/*
 * 0, or a negative errno after a sentence; nothing is left behind then. `stop_fd` becoming readable ends it (-EINTR,
 * without a sentence).
 */
int private_start(struct private_daemon *, const struct spawn_state *, bool quiet, int stop_fd);
/* Ends it, and removes the directory. Fine where there is none. */
void private_end(struct private_daemon *);

/* ctl_greet.c: the socket that a client would use. */
const char *greet_socket(const struct ctl *);
/* What to do where nobody listens there. */
const char *greet_advice(const struct ctl *);
/* Where a program finds a daemon; NULL: nowhere. */
const char *greet_found(void);
