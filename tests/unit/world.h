/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * A daemon in the test's own process, with clients in it too and a kernel that takes its time: the test decides when calls are
 * answered, in their order, and which of them fail. The embedded backend carries the calls out, unless the test replaces it.
 */

#include <sys/queue.h>

#include "daemon/daemon.h"
#include "daemon/registry/share.h"
#include "daemon/registry/stream.h"
#include "kernel/embedded/embedded.h"
#include "tests/suite.h"
#include "tests/unit/shortage.h"

enum {
	HEARD_MAX = WIRE_PACKET_MAX,
	TURNS = 4, /* of the loop: work that one turn puts off is done in the second, and may lead to more */
};

/* --- a kernel that answers when the test wants --- */

struct batch {
	struct kernel_call *calls;
	size_t n;
	kernel_done *done;
	void *data;
	TAILQ_ENTRY(batch) entry;
	bool carried_out;
	struct kernel_call told; /* a call without an answer */
};

TAILQ_HEAD(batches, batch);

/* There is one at a time: the calls' contract has no place for more. */
struct script {
	const struct kernel_ops *real; /* carries the calls out, one at a time and at once */
	struct kernel *kernel;
	struct batches under_way;
	size_t n_under_way;
	bool holds;
	bool cancelled;
	bool gives_pages_twice; /* instead of -EEXIST: another fd of the same page */
	int page;
	/* After `well` calls of this kind, `times` calls have this result and are not carried out. */
	enum kernel_op refuses;
	int result;
	unsigned well;
	unsigned times;
	/* Calls of each kind that were carried out, or refused by the script. */
	unsigned asked[KERNEL_OP_MAX_];
};

extern struct script script;

/* Takes the place of the daemon's kernel, which carries the calls out. */
void script_begin(struct kernel *);
/* From now on each call waits until the test answers it. */
void hold(void);
void hold_no_more(void);
/* Carries out, and answers, the oldest batch; or all. */
void answer_one(void);
void answer_all(void);
/* The two steps of answering, for any batch. */
void carry_out_batch(struct batch *);
void answer_batch(struct batch *);
/* After `well` calls of this kind, the next `times` get that answer. */
void refuse(enum kernel_op, int result, unsigned well, unsigned times);
/* The number of unanswered batches. */
void expect_under_way(size_t n);
void expect_asked(enum kernel_op, unsigned n);

/* --- a daemon in this process --- */

struct world {
	char directory[64];
	char socket[80];
	char control[80];
	uint32_t capacity;
	uint32_t max_events;
	struct daemon *daemon;
	bool clients_stay_young;
	bool stands_still; /* turn() does nothing */
};

struct world *world_new(uint32_t capacity, uint32_t max_events);
/* Starts a daemon in the world; the last one must have ended. */
void world_begin(struct world *);
/* Ends the daemon without waiting for anything. */
void world_end(struct world *);
/* The end of every test: when all clients have gone, nothing is left. */
void world_free(struct world **);

#define WORLD(name, capacity, max_events) _cleanup_(world_free) struct world *name = world_new(capacity, max_events)

/* How many allocations the daemon will still find memory for; negative: all. */
extern long allocations_given;

/* Runs turns of the loop until the daemon has nothing to do. */
void turn(struct world *);
/* Polls the clients' sockets, as a turn of the loop begins. */
void find_events(void);
/* … and queues the clients with events; their requests are not read yet. */
void take_events(void);

/* Redirects stderr to memory, and logs up to this level. */
void log_begin(int level);
/* The log since log_begin() or the last call. */
const char *logged(void);
/* Asserts how many times the text was logged. */
void expect_logged(const char *log, const char *text, unsigned times);

/* Loads this policy. Its file is removed again. */
void world_adopt(struct world *, const char *policy);

/* Polls for each lingering stream now. Returns whether any are left. */
bool look_at_lingering(struct world *);

/* Of the embedded backend. */
struct embedded *embedded(void);
unsigned count_slots(void);

/* Events charged to the machine, and leases. */
void expect_charged(const struct world *, unsigned events, unsigned leases);
void expect_no_charges(const struct world *);
void expect_nothing_left(struct world *);

/* --- a client in this process --- */

struct heard {
	struct message message;
	struct fdset fds;
	ssize_t size;
	_Alignas(8) uint8_t packet[HEARD_MAX];
};

struct end {
	struct world *world;
	struct client *client;
	int socket;
	int page;     /* that it was welcomed with */
	int stream;   /* that it was sent last; -1: none */
	uint32_t bit; /* of its last single event */
	uint32_t serial;
	bool may_be_cut;    /* the daemon may have disconnected it */
	struct heard heard; /* last */
};

/* Two with the same pid are of one tenant. */
struct end end_new(struct world *, pid_t);
struct end end_of_user(struct world *, pid_t, uid_t);
/* One that was welcomed while the kernel did not hold, and whose connection is deposited. */
struct end end_welcomed(struct world *, pid_t);
/* From now on connections are deposited by grow_up() alone: as if DEFER_INTERVAL had passed. */
void stay_young(struct world *);
void grow_up(struct world *);
void end_deinit(struct end *);
void end_hang_up(struct end *);
/* Disconnects it as the daemon does. */
void break_connection(struct end *);

#define END(name, world, pid)	   _cleanup_(end_deinit) struct end name = end_new(world, pid)
#define WELCOMED(name, world, pid) _cleanup_(end_deinit) struct end name = end_welcomed(world, pid)

/* Several welcomed clients of tenant 1, as an array. */
enum { ENDS_MAX = 8 };

struct ends {
	unsigned n;
	struct end end[ENDS_MAX];
};

struct ends ends_welcomed(struct world *, unsigned n);
void ends_deinit(struct ends *);

#define CLIENTS(name, world, n)                                                                                        \
	_cleanup_(ends_deinit) struct ends name##_ends = ends_welcomed(world, n);                                      \
	struct end *const name = name##_ends.end

/* A packet of that kind, to be filled and then sent. */
struct packet begin(struct end *, uint16_t kind);
void say(struct end *, struct packet *);
void say_hello(struct end *);
/* Each with the same flags. */
void say_register(struct end *, uint16_t flags, const char *const *descriptions, size_t n);
void say_release(struct end *, uint32_t bit);
/* A request that needs nothing more than its kind. */
void say_simply(struct end *, uint16_t kind);

#define REGISTER_WITH(end, flags, ...)                                                                                 \
	say_register(end, flags, (const char *const[]){ __VA_ARGS__ },                                                 \
		     ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))
#define REGISTER(end, ...) REGISTER_WITH(end, 0, __VA_ARGS__)

/* The same, without a turn of the daemon. */
void say_at_once(struct end *, uint16_t kind);

/* Whether a packet waits to be received. */
bool has_an_answer(const struct end *);
/* Receives a packet. False: there is none. */
bool hear(struct end *);
void expect_silence(struct end *);
const struct message *expect(struct end *, uint16_t kind);
void expect_welcome(struct end *);
void expect_disconnected(struct end *);
/* ERROR or REFUSED: its sentence. */
struct string_item expect_error(struct end *, uint16_t kind, uint32_t refusal);
/* ERROR is its last packet. */
void expect_cut(struct end *, uint32_t refusal);
/* REGISTERED with that many answers; keeps the stream that came with it. */
void expect_answers(struct end *, struct answer *ret, size_t n);
/* REGISTERED where each answer is that refusal, which may be REFUSAL_NONE; a refusal has a sentence. */
void expect_each(struct end *, uint32_t refusal, size_t n);
struct answer expect_granted(struct end *);
void expect_refused(struct end *, uint32_t refusal);
/* REGISTER of that event, and its refusal. */
void be_refused(struct end *, const char *description, uint32_t refusal);
void expect_released(struct end *, unsigned n);
/* Gives one event back. */
void release(struct end *, uint32_t bit);
void expect_file(const struct end *);
void expect_no_file(const struct end *);

struct wire_account query(struct end *);
/* What QUERY says: events and lingering events of its tenant, and its own leases. */
void expect_account(struct end *, unsigned events, unsigned leases, unsigned lingering);
struct answer get(struct end *, const char *description);
struct answer get_with(struct end *, uint16_t flags, const char *description);
void write_record(const struct end *, uint32_t index);
/* Writes a record of the first event of the client. */
void expect_record(struct end *, const struct answer *);
bool is_same_file(int one, int other);
struct tenant *tenant_of(const struct end *);

/* --- an admin --- */

struct end admin_new(struct world *);

#define ADMIN(name, world) _cleanup_(end_deinit) struct end name = admin_new(world)

/* A listing that fits in one packet, of so many rows. */
struct cursor ask_for_rows(struct end *admin, uint16_t kind, uint16_t n);
struct cursor next_row(struct cursor *rows);
void expect_string(struct cursor row, const char *key, const char *value);
/* Of an event's row. */
struct cursor holders_of(struct cursor row);
unsigned count_items(struct cursor rows);
