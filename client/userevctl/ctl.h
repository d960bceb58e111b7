/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* userevctl: its commands, and the functions that they share. */

#include <fnmatch.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "client/userevctl/control.h"
#include "client/userevctl/output.h"
#include "daemon/policy/problem.h"
#include "protocol/base/option.h"
#include "protocol/base/text.h"

/* A promise to shell scripts, documented in userevctl(1). */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_REFUSED = 1, /* or failed */
	EXIT_USAGE = 2,
	EXIT_NO_DAEMON = 3,
	EXIT_NOT_PERMITTED = 4,
	/* `run` returns its command's status; without one, these codes of env(1) and timeout(1). */
	EXIT_RUN_FAILED = 125,
	EXIT_RUN_CANNOT = 126,
	EXIT_RUN_NOT_FOUND = 127,
};

/* Rows of a command's options: the member is one of the command's own struct; a number has 64 bits. */
#define VALUE_ROW(name_, argument_, kind_, struct_, member_, ...)                                                      \
	{                                                                                                              \
		.name = name_, .argument = argument_, .kind = kind_, .member = offsetof(struct_, member_), __VA_ARGS__ \
	}
#define FLAG_ROW(name, struct_, member, help_) VALUE_ROW(name, NULL, OPTION_FLAG, struct_, member, .help = help_)
#define TEXT_ROW(name, argument, struct_, member, help_)                                                               \
	VALUE_ROW(name, argument, OPTION_TEXT, struct_, member, .help = help_)
#define NUMBER_ROW(name, argument, struct_, member, least_, most_, help_)                                              \
	VALUE_ROW(name, argument, OPTION_LONG, struct_, member, .least = least_, .most = most_, .help = help_)

struct ctl;
struct command {
	const char *name;
	const char *arguments;
	const char *summary; /* one line of the overview; "": together with the command before; NULL: not there */
	const struct option_row *options; /* ends with an option without a name; or NULL */
	int (*run)(struct ctl *);	  /* an enum exit_code; main() flushes the output */
	const char *help;		  /* the text of `help COMMAND` */
	bool stops_at_argument;		  /* the options behind the first argument belong to another program */
};

/* `options`: OPTIONS(row, row, …) or NULL. Behind the help further members may stand. */
#define OPTIONS(...) ((const struct option_row[]){ __VA_ARGS__, { 0 } })
#define COMMAND_BY(name_, run_, arguments, summary, options, ...)                                                      \
	const struct command command_##name_ = { .name = #name_, arguments, summary, options, run_, __VA_ARGS__ }
#define COMMAND(name, ...) COMMAND_BY(name, name##_run, __VA_ARGS__)

struct ctl {
	const char *socket;	    /* --socket, or NULL: the library's choice */
	const char *control_socket; /* never NULL */
	/* The signal state at the start, in which other programs are started. */
	bool sigpipe_was_default;
	sigset_t signal_mask;
	int signal;	      /* that ended the command: it ends the program, after all cleanup; 0: none */
	struct output output; /* stdout */
	const struct command *command;
	int argc; /* once the options are read: the arguments */
	char **argv;
};

extern const struct command command_status, command_events, command_tenants, command_top, command_metrics,
	command_enable, command_disable, command_delete, command_mute, command_unmute, command_block, command_unblock,
	command_tail, command_hist, command_latency, command_stats, command_record, command_report, command_session,
	command_emit, command_run, command_policy, command_reload, command_name, command_doctor, command_version,
	command_help;

/*
 * main.c. Reads the command's options into `values`; afterwards `argc` and `argv` are the arguments, and `output` is ready. Wrong
 * options, or fewer or more arguments than expected, end the program with a message; so does --help.
 */
void options_read(struct ctl *, void *values, int least_arguments, int most_arguments);
void ctl_expect_arguments(const struct ctl *, int least, int most);

/* "userevctl: …" on stderr; ctl_note() without the prefix. */
#define ctl_error(...) ctl_print("userevctl: ", __VA_ARGS__)
#define ctl_note(...)  ctl_print("", __VA_ARGS__)
void ctl_print(const char *prefix, const char *format, ...) _printf_(2, 3);
/* Ends the program with a message for NULL, which an allocation returns if memory is short. */
void *must(void *);
/* On the monotonic clock. */
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)
uint64_t ctl_now_ns(void);
/* Flushes the output: an enum exit_code. */
int ctl_finish(struct ctl *);
/* EXIT_DONE if the reader has closed the pipe (| head), otherwise EXIT_REFUSED after a message. */
int ctl_output_failed(int error);
/* sigprocmask() with a list of signals that ends with 0: the mask before. */
#define SIGNALS(...) ((const int[]){ __VA_ARGS__, 0 })
sigset_t signals_mask(int how, const int *signals);
/* Blocks the signals: an fd from which they are read instead, or -1. */
int signals_take(const int *signals);
/* The next signal of that fd; 0: none. */
int signals_next(int fd);
/* Flushes the output if that cannot block, and ends the program by `signal`. */
void ctl_end_by_signal(struct ctl *);

/* Prints a message with advice for an error of the control socket; returns the exit code. */
int control_explain(const char *path, int error);

#define name_matches(pattern, name) (fnmatch((pattern), (name), 0) == 0)

/* clients_socket.c: the socket that a client would use. */
const char *clients_socket_path(const struct ctl *);
bool clients_socket_listens(const char *path);
