/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The real daemon in a temporary directory, with the backend that it chooses by itself. fixture_start() begins every test and
 * fixture_stop() ends it; in the end the daemon must hold no fd, charge, lease or stream more than at the beginning. Nor may an event of
 * its be left in the kernel, or a process.
 */

#include "tests/suite.h"

#include <sys/types.h>

#include "protocol/protocol.h"
#include "protocol/row.h"
#include "tests/integration/programs.h"
#include "tests/integration/raw.h"
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
	pid_t pid; /* 0: it has ended */
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
	char *events_before; /* in the kernel; NULL: it has no user_events */
	struct tally before;
};

/*
 * A test with a daemon of its own, which is started before the body and stopped after it, unless the body has ended it:
 *
 *	DAEMON_TEST(third_event_is_refused, .options = { "--max-events=2" })
 *	{
 *		… fixture->socket …
 *	}
 */
struct daemon_test {
	const char *policy;
	const char *options[8];
	/* Where the machine has no such thing, these words are printed, and the test is left out. */
	const char *needs_root;
	const char *needs_guest; /* it changes the machine */
	const char *needs_cgroups;
	const char *needs_kernel; /* with user_events */
	unsigned fds_max;	  /* of the test and of all that it starts; 0: as they are */
};

#define DAEMON_TEST(name, ...)                                                                                         \
	static void name##_with(struct fixture *fixture);                                                              \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		fixture_run(&(const struct daemon_test){ __VA_ARGS__ }, name##_with);                                  \
	}                                                                                                              \
	static void name##_with(struct fixture *fixture)

/* False, having printed what is missing, where the test can't run. */
bool test_is_possible(const struct daemon_test *);
void fixture_run(const struct daemon_test *, void (*test)(struct fixture *));

/* Starts build/userevd with these options more, which end in NULL (or are NULL), and waits until it listens. */
void fixture_start(struct fixture *, const char *const *options);
/* For a test that starts the daemon itself: makes its directory with that policy file. */
void fixture_prepare(struct fixture *, const char *policy);
/* Then starts the daemon, like fixture_start(). */
void fixture_launch(struct fixture *, const char *const *options);
void fixture_read_backend(struct fixture *);
void fixture_print_log(const struct fixture *);
/* The same with this text in its one policy file. */
void fixture_start_with_policy(struct fixture *, const char *policy, const char *const *options);
/* Writes the policy file, for the next reload. */
void fixture_write_policy(const struct fixture *, const char *text);
/* Waits until the tally is as before, ends the daemon, which must exit with 0, and removes the directory. */
void fixture_stop(struct fixture *);
/* Sends the signal to the daemon or to its keeper, and waits until the daemon has ended. Its status, as of waitpid(). */
int fixture_end(struct fixture *, pid_t victim, int signal);
/* After that: cleans up, and waits until its keeper has ended, too. */
void fixture_abandon(struct fixture *);
/* A client that has said hello: its socket. */
int fixture_client(const struct fixture *);

/*
 * Promises of some backends, by the promise's name.
 */
/* The daemon is the tracer: TRACE, TAIL and SYNC are answered, records go through it, and end with it. */
bool keeps_records_itself(const struct fixture *);
/* A released event is free at once. Otherwise it lingers until the last copy of its stream is closed. */
bool releases_at_once(const struct fixture *);
/* Otherwise all tenants share one page and see each other's bits, which the kernel chooses. */
bool has_a_page_per_tenant(const struct fixture *);
bool offers_multi_format(const struct fixture *);
/* The refusal of an event that may not persist: by policy, or because the kernel has no such events. */
uint32_t refusal_to_persist(const struct fixture *);
/* Processes set and clear the bits, which may die. */
bool has_enablers(const struct fixture *);
/* Otherwise each client has a stream of its own. */
bool shares_streams(const struct fixture *);
/* How many of the test's charged events are still charged after it has released so many. */
uint64_t still_charged(const struct fixture *, uint64_t charged, uint64_t released);

/* The daemon's log so far has this text. */
bool log_has(const struct fixture *, const char *text);
/* So many of its lines have it. */
unsigned log_count(const struct fixture *, const char *text);
/* Waits until the daemon has read all records, where it reads them itself. */
void sync_records(const struct fixture *);

/* A second daemon, started with that option beside the fixture's, ends with these words. */
void fixture_expect_no_start(const struct fixture *, const char *program, const char *option, const char *words);

void tally_take(const struct fixture *, struct tally *ret);
/* When the tally does not change any more: before Linux 6.16 fds of a client that has left may still be being closed. */
void tally_take_at_rest(const struct fixture *, struct tally *ret);
/* Describes the differences; "": there is none. */
void tally_compare(const struct tally *before, const struct tally *after, char *ret, size_t size);
/* Waits until the daemon holds no more than when the test began. */
void expect_settled(const struct fixture *);
/* Waits up to a minute for the daemon to be back at `before`; false with the difference in `ret`. */
bool tally_settles(const struct fixture *, const struct tally *before, char *ret, size_t size);

/* Wake-ups of daemon and keeper in the quietest of a few spells of two seconds. */
void expect_wake_ups(const struct fixture *, uint64_t most);

/* Asks for rows of that kind on the control socket. */
void ask_rows(const struct fixture *, uint16_t kind, void (*on_row)(void *data, struct cursor row), void *data);
/* One number of `userevctl status`. */
uint64_t status_number(const struct fixture *, const char *key);
/* One number of the first tenant, or of that event; 0 if there is none. */
uint64_t tenant_number(const struct fixture *, const char *key);
uint64_t event_number(const struct fixture *, const char *event, const char *key);
/* How many refusals the first tenant has had for that reason. */
uint64_t refusal_count(const struct fixture *, const char *reason);
/*
 * Numbers of STATUS, or of the first tenant, are those of the text: expect_status(fixture, "charges=3 leases=%u", n). With await_ they
 * become so soon. A refund may take two seconds, and one more on a busy machine.
 */
#define expect_status(fixture, ...) expect_numbers(fixture, KIND_STATUS, 0, __VA_ARGS__)
#define await_status(fixture, ...)  expect_numbers(fixture, KIND_STATUS, 100000, __VA_ARGS__)
#define await_refund(fixture, ...)  expect_numbers(fixture, KIND_STATUS, 3000, __VA_ARGS__)
#define expect_tenant(fixture, ...) expect_numbers(fixture, KIND_TENANTS, 0, __VA_ARGS__)
void expect_numbers(const struct fixture *, uint16_t kind, uint64_t within_ms, const char *format, ...) _printf_(4, 5);
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
