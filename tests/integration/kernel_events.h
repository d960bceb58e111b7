/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The kernel's user_events, which the test reads, makes and deletes itself. */

#include "tests/integration/machine.h"

/* The names of the kernel's events, each between two newlines. To be freed; NULL: it has no user_events. */
char *read_events(void);
/* The name of an event that is not in `before`; "" and false: there is none. */
bool find_new_event(const char *before, char *ret, size_t size);
/* Waits until it is unused. An event that doesn't exist is no error. */
void delete_event(const char *event);
/* All of those, for a kernel that keeps events until they are deleted. */
void delete_new_events(const char *before);
/* How many names read_events() has returned. */
unsigned count_events(const char *events);
/* An event that no daemon has registered, until janitor_end(). */
void foreign_event_begin(struct janitor *, const char *description);
/* The ioctl on a data file, which keeps the event; this process gets no enabler. 0 or a negative errno. */
int register_by_itself(int data, const char *description);
/* The event's line in user_events_status; false: there is none. */
bool status_line(const char *event, char *ret, size_t size);
bool kernel_has(const char *event);
