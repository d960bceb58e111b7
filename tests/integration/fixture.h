/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The real daemon in a temporary directory. fixture_start() begins every test and fixture_stop() ends it; between them the
 * daemon must come back to what it was: no fd, no charge, no lease, no stream more than before.
 */

#include "tests/suite.h"

#include <sys/types.h>

#include "protocol/row.h"

struct tally {
	uint64_t fds; /* that the daemon has open */
	uint64_t connections;
	uint64_t tenants;
	uint64_t events;
	uint64_t leases;
	uint64_t lingering;
	uint64_t streams;
	uint64_t charges;
};

struct fixture {
	pid_t pid;
	char directory[64];
	char socket[96];
	char control[96];
	char log[96];
	struct tally before;
};

/* Starts build/userevd with these options more, which end in NULL (or are NULL), and waits until it listens. */
void fixture_start(struct fixture *, const char *const *options);
/* Waits until the tally is what it was, ends the daemon, which must exit with 0, and removes the directory. */
void fixture_stop(struct fixture *);
/* For tests that end the daemon themselves: only cleans up. */
void fixture_abandon(struct fixture *);

/* A program in build/: "userevctl". */
const char *built(const char *name);
/* Runs a command with stdout and stderr into `output`, terminated; its exit status. The fixture may be NULL. */
int run_command(const struct fixture *, char *output, size_t size, const char *const *argv);

void tally_take(const struct fixture *, struct tally *ret);
/* What differs, as text; "" where nothing does. */
void tally_compare(const struct tally *before, const struct tally *after, char *ret, size_t size);
/* Waits up to five seconds for the daemon to be back at `before`; false with the difference in `ret`. */
bool tally_settles(const struct fixture *, const struct tally *before, char *ret, size_t size);

/* One number of `userevctl status`, asked for on the control socket. */
uint64_t status_number(const struct fixture *, const char *key);
/* One number of the first tenant (or event) that there is; 0 where there is none. */
uint64_t tenant_number(const struct fixture *, const char *key);
uint64_t event_number(const struct fixture *, const char *event, const char *key);
/* Switches events on or off; how many matched. */
uint64_t trace(const struct fixture *, const char *pattern, bool on);

/* Waits up to five seconds for it to become true. */
#define eventually(condition)                                                                                          \
	({                                                                                                             \
		bool held_ = false;                                                                                    \
		for (int i_ = 0; !held_ && i_ < 500; i_++) {                                                           \
			held_ = (condition);                                                                           \
			if (!held_)                                                                                    \
				usleep(10000);                                                                         \
		}                                                                                                      \
		held_;                                                                                                 \
	})
