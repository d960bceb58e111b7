/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * What the benchmarks have in common. Each is a program that answers one question: it measures ours and another's in turn, and
 * prints rows, which run.py makes tables and plots of. All that is measured is the better the smaller it is.
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

/* Says what and why (errno), and ends. */
_Noreturn void fail(const char *what);
/* In microseconds. */
double now(void);
/* QUICK is set in the environment: the first of two numbers is for full runs, the second for runs of two minutes. */
unsigned pick(unsigned all, unsigned when_quick);
void side_add(struct side *, double);
/* These sort what they are given. */
double median(double *values, size_t n);
double quantile(double *values, size_t n, double part);
/* `aim`: the ratio that ours is to keep below, or where there is no other side the value; 0: as measured. */
void report(const char *question, const char *unit, struct side *ours, struct side *theirs, double aim);
/* A point of a plot, which run.py knows by that name. */
void point(const char *plot, const char *series, double x, double y);
/* A sentence that stands below the table. */
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);
/* As long as there is none, the row says why. */
void report_missing(const char *question, const char *other, const char *why);
void write_text(const char *path, const char *text);
/* Runs a command, without what it prints: true when it ended with 0. */
bool run(const char *const *argv);
/* The same in the background; with its output to a file, or nowhere (NULL). It ends with us. */
pid_t start(const char *const *argv, const char *output);
/* By that signal (0: it ends by itself), and its time on a processor, in microseconds. */
double finish(pid_t, int signal);
/* Where we are, another program of the same build: "userevd". */
const char *built(const char *name);
/* Names that nobody had before. */
void make_names(char (*names)[NAME_BYTES], unsigned n);
/* The name alone. */
const char *name_of(const char *description);
/* True when this process may have so many files open, and what it starts. */
bool raise_limits(unsigned files);

/* --- broker.c: the daemon, and how it is spoken to without libuserev --- */

struct broker {
	char directory[64];
	char socket[96];
	char control[96];
	char keeper_socket[96];
	const char *backend;
	const char *tenants;
	int clients; /* listening: as systemd does it, where they outlive daemon and keeper; 0: they start each other */
	int controls;
	int keepers;
	pid_t daemon;
	pid_t keeper;
};

/* With this policy, and the backend that it finds by itself (NULL), or the one of that name. */
void broker_start(struct broker *, const char *backend, const char *policy);
/* Daemon and keeper side by side, as systemd starts them; the daemon with one more option, or NULL. */
void broker_start_apart(struct broker *, const char *policy, const char *tenants);
void broker_start_daemon(struct broker *);
void broker_stop(struct broker *);
/* Its backend and its guard, below the table. */
void broker_describe(const struct broker *);
bool has_user_events(void);
/* A policy in which nobody is refused anything. */
extern const char no_limits[];

/* Packets, for as long as an answer takes: the library's patience is a program's, and a guest is slow. */
int dial(const char *path);
/* HELLO and its answer; a page is closed unless wanted. */
void greet(int socket, int *ret_page);
int connect_to_broker(const struct broker *);
/* Each of them granted, or the program ends. The last stream that came with it, and the first event's index, unless NULL. */
void ask_broker(int socket, char (*names)[NAME_BYTES], unsigned n, int *ret_stream, uint32_t *ret_index);
struct wire_account query_broker(int socket);
void query_by_all(const int *sockets, unsigned n);
/* Until nothing is charged to our tenant any more, and the kernel has forgotten it, too. */
void broker_settle(const struct broker *);
/* Through libuserev, and waits until the daemon has answered. */
struct userev *broker_open(const struct broker *);
void broker_register(struct userev *, struct userev_event *, char (*names)[NAME_BYTES], unsigned n);
void broker_switch(const struct broker *, const char *name, bool on);

/* --- direct.c: the kernel's own interface, whichever it has --- */

int direct_open(void);
/* Linux 5.18 to 6.3: it never forgets an event that was registered directly, and has room for 32,767. */
bool has_status_page(void);
/* The event's index on that file; each has a word of its own, as programs do it. */
uint32_t direct_register(int data, const char *description, uint32_t *word);
/* The file, and the word of its only event: the kernel has forgotten both. */
void direct_close(int data, uint32_t *word);
void direct_register_all(int data, char (*names)[NAME_BYTES], unsigned n);
/*
 * Until the kernel has no fewer events than a moment ago. What nobody has any more it removes one by one, with its grace period and
 * the lock that registering takes: a measurement meanwhile would include the earlier ones.
 */
void direct_settle(void);
/* Turns it on or off in the top instance of tracefs: microseconds. */
double direct_switch(const char *name, bool on);
extern const char tracefs[];

/* --- programs.c: many programs at once --- */

struct programs {
	unsigned n;
	/* What each does before it may begin, what it then does, `number` being its own: the first returns what the second gets. */
	int (*prepare)(unsigned number);
	void (*work)(int prepared, unsigned number);
	pid_t *pid;
	int open[2];  /* closed: begin */
	int leave[2]; /* closed: end */
	int done[2];  /* a byte from each: ready, and later done */
};

/* Starts them, and waits until all have prepared. */
void programs_start(struct programs *);
/* From the moment when all may begin until the last has done its work: microseconds. */
double programs_run(struct programs *);
void programs_stop(struct programs *);
/* How long all processors were in the kernel since the machine's start, in microseconds. */
double kernel_time(void);

/* --- echo.c: the least that two programs can say to each other --- */

struct echo {
	char path[64];
	pid_t pid;
};

/* A program that sends back each packet, to any number of clients. */
void echo_start(struct echo *);
void echo_trip(int socket);
void echo_stop(struct echo *);
