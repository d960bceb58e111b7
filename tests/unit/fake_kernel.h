/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A world with a kernel of the test's own, where a guard holds and data files are shared, or where there is none. Pipes are its data
 * files, and it frees no event before the file is closed, like the real ones. The guard is a filter of system calls: on fds from
 * GUARDED_FDS on it refuses the ioctl that the daemon proves it with. So the number of its fd decides whether a data file is guarded.
 */

#include "daemon/registry/tenant.h"
#include "tests/unit/world.h"

enum { GUARDED_FDS = 512, PAGES = 16, STREAMS = 128, SLOTS = 2048, DEPOSITS = 1024, TEXT_MAX = 32 };

struct fake_stream {
	bool there;
	uint32_t number;
	uint32_t page;
	uint32_t next_index;
	int ours;  /* until the daemon asks whether it is still open */
	int watch; /* the pipe's other end */
	bool self_registered;
	bool jumps;  /* REGISTER reports a program's own registrations */
	bool wanted; /* by the present daemon */
};

struct fake_slot {
	bool there;
	uint32_t stream;
	uint32_t page;
	uint32_t bit;
	uint32_t index;
	uint16_t flags;
	bool silent; /* as all slots of the event and the page */
	char text[TEXT_MAX];
};

struct fake_deposit {
	bool there;
	bool wanted;
	uint64_t number;
	int fd;
};

/* There is one at a time, like the script. */
struct fake {
	bool keeps;			  /* pages, streams and deposits outlive the daemon */
	const struct kernel_ops *carrier; /* the embedded backend, for all other calls */
	bool guard;
	uint64_t out_of_memory; /* for calls of these kinds, a bit for each */
	uint32_t foreign;	/* foreign events */
	uint32_t page[PAGES];	/* their numbers; 0: none */
	int page_fd[PAGES];
	struct fake_stream stream[STREAMS];
	struct fake_slot slot[SLOTS];
	struct fake_deposit deposit[DEPOSITS];
};

extern struct fake fake;
/* The flags that the kernel of new daemons supports. */
extern uint16_t kernel_offers;

extern const struct kernel_ops fake_ops;

/* NULL: there is no stream of that number. */
struct fake_stream *find_stream(uint32_t number);
unsigned count_fake_streams(void);
unsigned count_fake_slots(void);
unsigned count_deposits(void);
struct fake_deposit *find_deposit(uint64_t number);
/* The stream of the client's last answer. */
struct fake_stream *stream_of(const struct end *);
/* NULL: that event is not there. */
const struct fake_slot *find_slot(uint32_t stream, uint32_t index, uint32_t bit, const char *text);
const struct fake_slot *find_event(const char *text);
void expect_kernel_has(unsigned streams, unsigned slots);
/* Calls of all kinds. */
unsigned count_calls(void);

struct world *world_on(const char *guard, bool guarded);
/* With a keeper that outlives its daemons. */
struct world *world_kept(bool guarded);
/* The daemon ends; then its successor starts. */
void world_leave_daemon(struct world *);
void world_next_daemon(struct world *);
/* A daemon with memory for so many allocations while it restores: the result of that. */
int world_try_next_daemon(struct world *, long allocations);
void world_restart(struct world *);
void expect_all_gone(struct world *);
void world_leave(struct world **);

#define GUARDED(name)	_cleanup_(world_leave) struct world *name = world_on("prefer", true)
#define REQUIRED(name)	_cleanup_(world_leave) struct world *name = world_on("require", true)
#define UNGUARDED(name) _cleanup_(world_leave) struct world *name = world_on("prefer", false)
#define KEPT(name)	_cleanup_(world_leave) struct world *name = world_kept(true)

/* The guard goes, or comes back: for all files, also those that the daemon holds. */
void set_guard(struct world *, bool guard);

/* Another user of the same tenant. */
struct end end_welcomed_as(struct world *, pid_t, uid_t);

#define WELCOMED_AS(name, world, pid, uid) _cleanup_(end_deinit) struct end name = end_welcomed_as(world, pid, uid)

/* A program has registered on the stream by itself. */
void register_on(uint32_t stream);
/* How often that was refused to the client's tenant. */
uint64_t count_self_registered(const struct end *);
/* The client leaves, and another process keeps its file open. */
void hang_up_and_keep(struct end *, int *ret);

void expect_same_answer(const struct answer *, const struct answer *);
/* From now on programs are of one tenant, "/world", with KeepFor= that time. */
void keep_for(struct world *, const char *time);
/* Ends that, and gives up kept streams: before the world ends. */
void keep_nothing(struct world *);
