/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A program with a private daemon around it, whose records go to a view. */

#include "client/userevctl/private.h"
#include "client/userevctl/tracing/record.h"

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
