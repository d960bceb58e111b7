/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Others' events, each with a u32 and a u64, in files of their own: their headers are not ours to check. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* --- rival_lttng.c --- */

/* So many turns of a loop, each with one tracepoint of lttng-ust. */
void rival_lttng(uint32_t times);
/* A recording of it into memory that is overwritten, as ftrace's; false where there is none to be had. */
bool rival_lttng_start(void);
void rival_lttng_stop(void);

/* --- rival_usdt.c --- */

/* The same with a probe of SystemTap's that has a semaphore. */
void rival_usdt(uint32_t times);

/* --- rival_dbus.c --- */

/* dbus-broker, on a bus of its own: its pid; 0 where there is none to be had, and `ret_why`. */
pid_t rival_dbus_start(const char **ret_why);
void rival_dbus_stop(void);
int rival_dbus_connect(void);
/* A method call to the broker itself, and its answer. */
void rival_dbus_trip(int socket);

/* --- rival_journal.c --- */

/* A journald of its own namespace; false where there is none to be had, and `ret_why`. */
bool rival_journal_start(const char **ret_why);
void rival_journal_stop(void);
/* One entry with the same two numbers: false where it was not taken. */
bool rival_journal_write(uint32_t turn, uint64_t cost);
