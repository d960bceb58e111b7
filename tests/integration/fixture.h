/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The real daemon in a temporary directory, with the backend that it chooses by itself. fixture_start() begins every test and
 * fixture_stop() ends it; between them the daemon must come back to what it was: no fd, no charge, no lease, no stream more
 * than before. Nor may anything of it be left in the kernel, or any process.
 */

#include "tests/suite.h"

#include <sys/types.h>

#include "protocol/protocol.h"
#include "protocol/row.h"
#include "tests/integration/tracer.h"

struct tally {
	uint64_t fds; /* that the daemon has open */
	uint64_t keeper_fds;
	uint64_t enablers; /* processes of the keeper's */
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
	char policy[96];
	enum wire_backend backend;
	bool guarded;
	pid_t keeper;	    /* 0: there is none */
	pid_t enablers[64]; /* at its end */
	size_t n_enablers;
	struct tracer tracer;
	char *events_before; /* what the kernel had; NULL: it has none */
	struct tally before;
};

/*
 * A test with a daemon of its own, which is started before the body and stopped after it:
 *
 *	DAEMON_TEST(third_event_is_refused, .options = { "--max-events=2" })
 *	{
 *		… fixture->socket …
 *	}
 */
struct daemon_test {
	const char *policy;
	const char *options[8];
	/* The test is left out, in these words, where the machine has none. */
	const char *needs_root;
	const char *needs_guest; /* it changes the machine */
	const char *needs_cgroups;
	const char *needs_kernel; /* with user_events */
};

#define DAEMON_TEST(name, ...)                                                                                         \
	static void name##_with(struct fixture *fixture);                                                              \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		fixture_run(&(const struct daemon_test){ __VA_ARGS__ }, name##_with);                                  \
	}                                                                                                              \
	static void name##_with(struct fixture *fixture)

void fixture_run(const struct daemon_test *, void (*test)(struct fixture *));

/* Starts build/userevd with these options more, which end in NULL (or are NULL), and waits until it listens. */
void fixture_start(struct fixture *, const char *const *options);
/* For a test that starts the daemon itself: its directory with that policy file; and, once it answers, its backend. */
void fixture_prepare(struct fixture *, const char *policy);
/* What fixture_start() does then. */
void fixture_launch(struct fixture *, const char *const *options);
void fixture_read_backend(struct fixture *);
void fixture_print_log(const struct fixture *);
/* The same with this text in its one policy file. */
void fixture_start_with_policy(struct fixture *, const char *policy, const char *const *options);
/* For the next reload. */
void fixture_write_policy(const struct fixture *, const char *text);
/* Waits until the tally is what it was, ends the daemon, which must exit with 0, and removes the directory. */
void fixture_stop(struct fixture *);
/* Ends the daemon by that signal, for tests of what is then; its status, as of waitpid(). */
int fixture_end(struct fixture *, int signal);
/* After that, or where the daemon has ended by itself: cleans up, and waits for the end of what belonged to it. */
void fixture_abandon(struct fixture *);
/* A client that has said hello: its socket. */
int fixture_client(const struct fixture *);

/*
 * What is promised on some backends only, by the promise's name.
 */
/* The daemon is the tracer: TRACE, TAIL and SYNC are answered, records go through it, and end with it. */
bool keeps_records_itself(const struct fixture *);
/* What is released is free when that is answered. Else it lingers until the last copy of its stream is closed. */
bool releases_at_once(const struct fixture *);
/* Where else they share one, all see each other's bits, and the daemon does not choose them. */
bool has_a_page_per_tenant(const struct fixture *);
bool offers_multi_format(const struct fixture *);
/* The refusal of an event that may not persist: by policy, or because the kernel has no such events. */
uint32_t refusal_to_persist(const struct fixture *);
/* Processes set and clear the bits, which may die. */
bool has_enablers(const struct fixture *);
/* Else each client has a stream of its own. */
bool shares_streams(const struct fixture *);
/* Of those events that a test has charged, how many still are after `released` of them were. */
uint64_t still_charged(const struct fixture *, uint64_t charged, uint64_t released);

/* For tests of what only a kernel with user_events can do: false, having said so and ended the daemon, where it has none. */
bool need_kernel(struct fixture *, const char *what);
/* The daemon's log so far has this text. */
bool log_has(const struct fixture *, const char *text);
/* So many of its lines have it. */
unsigned log_count(const struct fixture *, const char *text);
/* Waits until the daemon has read all records, where it reads them itself. */
void sync_records(const struct fixture *);

/* A program in build/: "userevctl". */
const char *built(const char *name);
/* Runs a command with stdout and stderr into `output`, terminated; its exit status. The fixture may be NULL. */
int run_command(const struct fixture *, char *output, size_t size, const char *const *argv);

void tally_take(const struct fixture *, struct tally *ret);
/* When the tally does not change any more: before Linux 6.16 fds of a client that has left may still be being closed. */
void tally_take_at_rest(const struct fixture *, struct tally *ret);
/* What differs, as text; "" where nothing does. */
void tally_compare(const struct tally *before, const struct tally *after, char *ret, size_t size);
/* Waits up to a minute for the daemon to be back at `before`; false with the difference in `ret`. */
bool tally_settles(const struct fixture *, const struct tally *before, char *ret, size_t size);

/* One number of `userevctl status`, asked for on the control socket. */
uint64_t status_number(const struct fixture *, const char *key);
/* One number of the first tenant (or event) that there is; 0 where there is none. */
uint64_t tenant_number(const struct fixture *, const char *key);
uint64_t event_number(const struct fixture *, const char *event, const char *key);
/* How many refusals the first tenant has had for that reason. */
uint64_t refusal_count(const struct fixture *, const char *reason);
/* Waits up to a minute for it to become true. */
#define eventually(condition)                                                                                          \
	({                                                                                                             \
		bool held_ = false;                                                                                    \
		for (int i_ = 0; !held_ && i_ < 6000; i_++) {                                                          \
			held_ = (condition);                                                                           \
			if (!held_)                                                                                    \
				usleep(10000);                                                                         \
		}                                                                                                      \
		held_;                                                                                                 \
	})
