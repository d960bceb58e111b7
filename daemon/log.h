/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Only the daemon logs, once, where the decision is taken. Journal fields under systemd, plain lines on a terminal. */

#include <syslog.h>

#include "protocol/base.h"

/* A level's name ("err", "warning", "notice", "info", "debug") → its number; -EINVAL. */
int log_level_from_name(const char *name);

/* `journal`: false writes lines to stderr unless stderr is the journal's already. */
void log_open(int level, bool journal);

void log_line(int level, const char *format, ...) _printf_(2, 3);

/* For who is to be told of refusals of one kind now and then only. */
struct refusal_told {
	double since;  /* when that was done; 0: never */
	uint64_t more; /* since then */
};

/* The same with fields that a script can select by. NULL where there is none. `more` were not logged since the last one. */
void log_refusal(const char *tenant, const char *event, const char *reason, const char *sentence, uint64_t more);

#define log_error(...)	 log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)	 log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)	 log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)	 log_line(LOG_DEBUG, __VA_ARGS__)
