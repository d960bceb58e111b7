/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Only the daemon logs, once, where it decides. Journal fields under systemd, plain lines on a terminal. */

#include <syslog.h>

#include "protocol/base/base.h"

/* `journal`: false writes lines to stderr, unless that is a stream of the journal. */
void log_open(int level, bool journal);

/* Warnings and notices have a rate limit for each source, so that clients cannot suppress the daemon's own lines. */
enum log_source { LOG_OF_DAEMON, LOG_OF_CLIENTS, LOG_SOURCES };

void log_line(enum log_source, int level, const char *format, ...) _printf_(3, 4);

/* Refusals of one kind: when one was last logged, and how many have not been logged since. */
struct refusal_told {
	double since; /* 0: never */
	uint64_t more;
};

/* A notice with journal fields. Tenant and event may be NULL. `more` refusals were not logged since the last notice. */
void log_refusal(enum log_source, const char *tenant, const char *event, const char *reason, const char *sentence,
		 uint64_t more);

#define log_error(...)	 log_line(LOG_OF_DAEMON, LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_OF_DAEMON, LOG_WARNING, __VA_ARGS__)
#define log_notice(...)	 log_line(LOG_OF_DAEMON, LOG_NOTICE, __VA_ARGS__)
#define log_info(...)	 log_line(LOG_OF_DAEMON, LOG_INFO, __VA_ARGS__)
#define log_debug(...)	 log_line(LOG_OF_DAEMON, LOG_DEBUG, __VA_ARGS__)
