/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A program with a private daemon around it, whose records go to a view. */

#include "client/userevctl/ctl.h"
#include "client/userevctl/tracing/record.h"

/* private.c: a private daemon in a directory of its own. */
struct private_daemon {
	pid_t pid; /* 0: none */
	char directory[80];
	char socket[100];
	char control_socket[100];
};

/* fork(), with the new process in the signal state in which userevctl was started. */
pid_t private_fork(const struct ctl *);
/*
 * 0; a negative errno after a message; or the signal that came from `signals`, an fd of signals_take(). Unless 0 nothing is
 * left behind.
 */
int private_start(const struct ctl *, struct private_daemon *, bool quiet, int signals);
/* Ends the daemon and removes the directory. Does nothing if there is none. */
void private_end(struct private_daemon *);

/* run.c */
struct run {
	struct ctl *ctl; /* its arguments are the command */
	struct option_list patterns;
	const char *output_path;
	bool quiet;
	struct output output;
	struct record_view view;

	bool complete;	    /* the program ran to its end, and then: */
	uint64_t lost, bad; /* records */

	int signals; /* fd */
	struct private_daemon daemon;
	struct control *control; /* NULL after the last record */
	bool syncing;
	pid_t pid; /* the command's; 0 once it has ended */
	int status;
};
/* The exit status of the command, or of userevctl if the command could not be run. */
int run_program(struct run *);
