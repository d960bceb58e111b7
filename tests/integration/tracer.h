/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A tracer: the daemon itself with the embedded backend; otherwise the kernel's, in an instance of the test's own, which is
 * made when it is first needed and removed when the test ends, also by a signal.
 */

#include "tests/suite.h"

#include <sys/queue.h>
#include <sys/types.h>

#include "protocol/protocol.h"
#include "tests/integration/machine.h"

struct fixture;

/* The records of one event. */
struct seen {
	unsigned records;
	uint64_t sum; /* of the first u32 of each */
	/* Of the last one. The kernel's tracer rounds its length up to a multiple of four. */
	pid_t pid;
	size_t length;
	uint8_t payload[WIRE_PAYLOAD_MAX];
	char description[WIRE_DESCRIPTION_MAX + 1];
	/* Only from the daemon's own tracer: */
	uint64_t uid;
	uint64_t time;
	char comm[32];
};

SLIST_HEAD(traced_list, traced);

struct tracer {
	char directory[96];	   /* "": there is none yet */
	struct janitor janitor;	   /* removes it */
	struct traced_list events; /* that were ever switched on */
	int *pipes;		   /* of each processor */
	int n_pipes;
};

/* Switches all events of that name on or off, at one moment as far as the daemon can tell; how many there are. */
uint64_t trace(struct fixture *, const char *pattern, bool on);
/* The last record, as it is printed. It has to be well-formed. */
void expect_record_text(const struct seen *, const char *text);
/* All that was written up to now, while the event was on; "NAME." are those of many formats, together. */
void see(struct fixture *, const char *event, struct seen *ret);
/* Both with the kernel's tracer, and without asking the daemon, which may have ended. False: the kernel has no such event. */
bool tracer_switch(struct tracer *, const char *event, bool on);
void tracer_see(struct tracer *, const char *event, struct seen *ret);
/* Nothing is traced any more. */
void tracer_stop(struct tracer *);
