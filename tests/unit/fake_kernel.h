/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A world where data files are shared, for a guard keeps clients from registering on them, or where they are not. The kernel
 * is the test's own: pipes are its data files, and it never lets go of an event before the file is closed, as the real ones.
 * The guard is a filter of system calls: it refuses the ioctl by which the daemon proves it, on all fds from GUARDED_FDS on,
 * and so a data file is guarded or not by the number that its fd has here.
 */

#include "daemon/registry/tenant.h"
#include "tests/unit/world.h"

enum { GUARDED_FDS = 512, PAGES = 16, STREAMS = 128, SLOTS = 2048, DEPOSITS = 64, TEXT_MAX = 32 };

struct fake_stream {
	bool there;
	uint32_t number;
	uint32_t page;
	uint32_t next_index;
	int ours;  /* until somebody asks whether it is still open */
	int watch; /* the pipe's other end */
	bool self_registered;
	bool jumps;  /* so that REGISTER tells of it */
	bool wanted; /* by the daemon that there is now */
};

struct fake_slot {
	bool there;
	uint32_t stream;
	uint32_t page;
	uint32_t bit;
	uint32_t index;
	uint16_t flags;
	char text[TEXT_MAX];
};

struct fake_deposit {
	bool there;
	bool wanted;
	uint64_t number;
	int fd;
};

/* There is one, as there is one script. */
struct fake {
	bool keeps;			  /* what it has outlives the daemon */
	const struct kernel_ops *carrier; /* the embedded backend, for what is left */
	bool guard;
	uint64_t out_of_memory; /* for calls of these kinds, a bit for each */
	uint32_t foreign;	/* events of others */
	uint32_t page[PAGES];	/* their numbers; 0: none */
	int page_fd[PAGES];
	struct fake_stream stream[STREAMS];
	struct fake_slot slot[SLOTS];
	struct fake_deposit deposit[DEPOSITS];
};

extern struct fake fake;
/* The flags that daemons are offered, from their first moment on. */
extern uint16_t kernel_offers;

extern const struct kernel_ops fake_ops;

/* NULL: there is none of that number. */
struct fake_stream *find_stream(uint32_t number);
unsigned count_fake_streams(void);
unsigned count_fake_slots(void);
unsigned count_deposits(void);
struct fake_deposit *find_deposit(uint64_t number);
/* Calls of all kinds. */
unsigned count_calls(void);

struct world *world_on(const char *guard, bool guarded);
/* With a keeper that outlives its daemons. */
struct world *world_kept(bool guarded);
/* The daemon ends, and before another one takes its place there is time for the second of these. */
void world_leave_daemon(struct world *);
void world_next_daemon(struct world *);
/* One with memory for so many allocations while it takes over: what that says. */
int world_try_next_daemon(struct world *, long allocations);
void world_restart(struct world *);
void expect_all_gone(struct world *);
void world_leave(struct world **);

#define GUARDED(name)	_cleanup_(world_leave) struct world *name = world_on("prefer", true)
#define REQUIRED(name)	_cleanup_(world_leave) struct world *name = world_on("require", true)
#define UNGUARDED(name) _cleanup_(world_leave) struct world *name = world_on("prefer", false)
#define KEPT(name)	_cleanup_(world_leave) struct world *name = world_kept(true)

/* Somebody has taken it away, or put it back: from all files, those that the daemon holds included. */
void set_guard(struct world *, bool guard);

/* Another user of the same tenant. */
struct end end_welcomed_as(struct world *, pid_t, uid_t);

#define WELCOMED_AS(name, world, pid, uid) _cleanup_(end_deinit) struct end name = end_welcomed_as(world, pid, uid)

void expect_same_answer(const struct answer *, const struct answer *);
struct answer get_with(struct end *, uint16_t flags, const char *description);
/* Gives one event back. */
void release(struct end *, uint32_t bit);
struct tenant *tenant_of(const struct end *);
/* From now on programs are of one tenant, "/world", and what they leave behind is kept for that time. */
void keep_for(struct world *, const char *time);
/* And no more, nor what is kept already: before the world ends. */
void keep_nothing(struct world *);
