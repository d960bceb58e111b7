/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * Shared by the benchmarks. Each benchmark is a program that answers one question: it measures ours and an alternative in turn, and
 * prints rows, of which run.py makes tables and plots. Smaller is better in every row.
 */

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "client/userev.h"
#include "protocol/base/base.h"
#include "protocol/wire.h"

enum { ROUNDS_MAX = 128, NAME_BYTES = 64, FILES = 4096 };

/* --- bench.c: figures --- */

struct side {
	const char *name;
	double value[ROUNDS_MAX];
	unsigned n;
};

/* Prints the sentence and errno, and exits. */
_Noreturn void fail(const char *what);
/* In microseconds. */
double now(void);
/* The second number with QUICK in the environment, otherwise the first. */
unsigned pick(unsigned all, unsigned when_quick);
/* The aim of a row whose figure is a number of instructions; 0 where the clock does not count them. A µs is 1,000 instructions. */
double counted(double aim);
void side_add(struct side *, double);
/* These sort the values. */
double median(double *values, size_t n);
double quantile(double *values, size_t n, double part);
/* `aim`: the highest ratio that is wanted, or the highest value where there is no other side; 0: no aim. */
void report(const char *question, const char *unit, struct side *ours, struct side *theirs, double aim);
/* The same for one figure without another side. */
void report_value(const char *question, const char *unit, const char *name, double value, double aim);
/* A point of a plot that run.py knows by this name. */
void point(const char *plot, const char *series, double x, double y);
/* A sentence below the table. */
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);
/* In place of a row. */
void report_missing(const char *question, const char *other, const char *why);
void write_text(const char *path, const char *text);
/* Runs a command without its output; true if it exits with 0. */
bool run(const char *const *argv);
/* The same in the background; the output goes to a file, or nowhere (NULL). The process ends with ours. */
pid_t start(const char *const *argv, const char *output);
/* Sends a signal (0: none) and waits for the end. Returns the process's processor time in microseconds. */
double finish(pid_t, int signal);
/* The path of another program of this build, such as "userevd"; valid until the next call. */
const char *built(const char *name);
/* Descriptions of events that were not used before. */
void make_names(char (*names)[NAME_BYTES], unsigned n);
/* The name alone. */
const char *name_of(const char *description);
/* True if this process and its children may have so many open files. */
bool raise_limits(unsigned files);

/* --- process.c --- */

/* User and kernel, in microseconds; exact, not in ticks. */
double process_time(pid_t);
/* The number of a line of /proc/PID/status. Memory is in KiB. */
double process_status(pid_t, const char *key);
/* The process's share of the machine's memory (PSS), in KiB. */
double process_share(pid_t);
/* Of all its threads. */
double process_wake_ups(pid_t);
/* Adds all descendants of the first n processes; returns the new number. */
unsigned process_family(pid_t *pids, unsigned n, unsigned most);
void process_pin(pid_t, int processor);
/* Moves this process into the cgroup, which is made if necessary. "" is the root, which is depth 1. */
void enter_cgroup(const char *path);

/* --- broker.c --- */

struct broker {
	/* Set before broker_start(). */
	const char *backend; /* of a bare daemon; NULL: detected */
	const char *policy;  /* text; NULL: no_limits */
	const char *option;  /* one more option of an installed daemon, or NULL */
	bool installed; /* as systemd starts it: sockets that outlive daemon and keeper, with ledger and deposits */
	bool counted;	/* daemon and keeper run under callgrind; only with `installed` */
	bool native;	/* with native events; only with `installed` */
	/* Set by it. */
	char directory[64];
	char socket[96];
	char control[96];
	char keeper_socket[96];
	int clients; /* listening sockets, if installed */
	int controls;
	int keepers;
	int ready; /* a pipe, into which the daemon writes when it is ready */
	pid_t daemon;
	pid_t keeper; /* if installed; otherwise it is a child of the daemon */
};

/* A policy that refuses nothing. */
extern const char no_limits[];

bool has_user_events(void);
void broker_start(struct broker *);
/* Another daemon for the same sockets, if installed. */
void broker_start_daemon(struct broker *);
void broker_stop(struct broker *);
/* Backend and guard, as notes. */
void broker_describe(const struct broker *);
/* Daemon, keeper, and all processes that these started. Returns their number. */
unsigned broker_processes(const struct broker *, pid_t *ret, unsigned most);
/* Processor time of all of these, in microseconds. */
double broker_time(const struct broker *);
/* Waits until none of these has anything to do, so that nothing else pays for what a client left behind. */
void broker_rest(const struct broker *);
/* Waits until no event is charged to our tenant. */
void broker_empty(const struct broker *);
/* The same, and until the kernel has forgotten the events. */
void broker_settle(const struct broker *);
/* Ends daemon and keeper under callgrind: instructions of each in user space since their start. broker_stop() follows. */
void broker_count(struct broker *, double *ret_daemon, double *ret_keeper);
void broker_switch(const struct broker *, const char *name, bool on);

/* --- packets.c: clients --- */

/* Packets wait for as long as an answer takes; the library's timeouts are too short for a slow guest. */
int dial(const char *path);
/* HELLO and WELCOME; the page is closed with NULL. */
void greet(int socket, int *ret_page);
int connect_to_broker(const struct broker *);
/* Registers events. Returns the last stream that was passed, and the first event's index, unless NULL. */
void ask_broker(int socket, char (*names)[NAME_BYTES], unsigned n, int *ret_stream, uint32_t *ret_index);
struct wire_account query_broker(int socket);
/* Its answer is not read. */
void send_query(int socket);
void query_by_all(const int *sockets, unsigned n);
/* The same by libuserev. */
struct userev *broker_open(const struct broker *);
void broker_register(struct userev *, struct userev_event *, char (*names)[NAME_BYTES], unsigned n);

/* --- direct.c: the kernel's own interface, of either version --- */

extern const char tracefs[];

int direct_open(void);
/* Linux 5.18 to 6.3: an event that was registered directly is never deleted, and there is room for 32,767. */
bool has_status_page(void);
/* The event's index on that file. */
uint32_t direct_register(int data, const char *description, uint32_t *word);
/* Unregisters the file's only event. */
void direct_close(int data, uint32_t *word);
void direct_register_all(int data, char (*names)[NAME_BYTES], unsigned n);
/*
 * Waits while the kernel deletes events. It deletes them one by one, with a grace period, and with the lock that registering takes,
 * so a measurement would pay for earlier events.
 */
void direct_settle(void);
/* Switches the event in the top instance of tracefs. Returns microseconds. */
double direct_switch(const char *name, bool on);

/* --- programs.c: many programs at once --- */

struct programs {
	unsigned n;
	/* Run in each program, with its number. The first comes before the measurement; its result is passed to the second. */
	int (*prepare)(unsigned number);
	void (*work)(int prepared, unsigned number);
	pid_t *pid;
	int open[2];  /* closed: begin */
	int leave[2]; /* closed: end */
	int done[2];  /* a byte from each program: prepared, and later done */
};

/* Returns when all have prepared. */
void programs_start(struct programs *);
/* Microseconds until the last program has done its work. */
double programs_run(struct programs *);
void programs_stop(struct programs *);

/* --- echo.c --- */

/* A server that sends back each packet: the least that a server can do. */
struct echo {
	char path[64];
	pid_t pid;
};

void echo_start(struct echo *);
void echo_trip(int socket);
void echo_stop(struct echo *);
