/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Random histories: clients connect, register, release and disconnect while the kernel answers late or refuses. After each step the
 * charges are equal to the sum of what the clients hold.
 */

#include "daemon/registry/precedent.h"
#include "tests/unit/books.h"

enum {
	ACTORS = 8,
	COPIES = 6,
	HISTORIES = 4,
	STEPS = 2500,
	CAPACITY = 6, /* of the small world */
	MAX_EVENTS = 4,
};

static const char *const descriptions[] = {
	"one u32 x", "two u32 x", "three u32 x", "four u32 x", "five u32 x", "one u64 y", "no long x",
};

/* A long request for a precedent: all of these, or all but the last one or two. The last one is refused now and then. */
static const char *const usual[] = {
	"six u32 x", "three u32 x", "seven u32 x", "eight u32 x", "nine u32 x",
	"ten u32 x", "eleven",	    "two u32 x",   "twelve",	  "one u64 y",
};

struct actor {
	struct end end;
	bool there;
};

struct history {
	struct world *world;
	bool is_shared; /* the world has a guard, so files are shared */
	struct actor actor[ACTORS];
	int copy[COPIES]; /* fds of files whose client has left, as in a child of the client */
	unsigned granted;
	unsigned refused;
	unsigned shared; /* files that a second client got */
	unsigned alike;	 /* steps with a precedent */
	unsigned kept;	 /* steps with a kept stream */
	unsigned flips;	 /* of the guard */
};

static void actor_leaves(struct history *history, struct actor *actor)
{
	int *copy = &history->copy[random() % COPIES];

	/* A child of the client may keep the file open. */
	if (random() % 3 == 0 && *copy < 0)
		*copy = fd_steal(&actor->end.stream);
	end_deinit(&actor->end);
	actor->there = false;
}

static void actor_asks_as_usual(struct actor *actor)
{
	say_register(&actor->end, 0, usual, PRECEDENT_EVENTS_MIN + (size_t)random() % 3);
}

/* A client of one of two tenants, each with two users. */
static void actor_comes(struct history *history, struct actor *actor)
{
	actor->end = end_of_user(history->world, 1 + random() % 2, getuid() + (uid_t)(random() % 2));
	actor->there = true;
	say_hello(&actor->end);
	if (history->is_shared && random() % 2)
		actor_asks_as_usual(actor);
}

/* A request to the embedded backend names no event twice: since releases may fail here, the two answers could differ. */
static void actor_asks(const struct history *history, struct actor *actor)
{
	const char *batch[4];
	size_t n = (size_t)random() % ARRAY_SIZE(batch), next = (size_t)random();
	uint16_t flags = random() % 4 ? 0 : REGISTER_MULTI_FORMAT;

	for (size_t i = 0; i < n; i++)
		batch[i] = descriptions[(history->is_shared ? (size_t)random() : next++) % ARRAY_SIZE(descriptions)];
	say_register(&actor->end, flags, batch, n);
}

/* Only a stream that is marked as shared may serve two clients. */
static void take_files(struct history *history, struct end *end)
{
	const struct daemon *daemon = history->world->daemon;

	for (size_t i = 0; i < end->heard.fds.count; i++) {
		const struct stream *stream = stream_by_number(&daemon->registry, end->heard.message.stream[i]);
		unsigned shares = stream ? count_shares(daemon, stream) : 0;

		history->shared += shares > 1;
		if (shares > 1 && !stream->shared)
			ck_abort_msg("stream %u is shared, and must not be", stream->number);
		fd_close(end->stream);
		end->stream = fdset_steal(&end->heard.fds, i);
	}
}

static void count_answers(struct history *history, struct end *end)
{
	struct strings answers;
	struct answer answer;

	if (end->heard.message.kind != KIND_REGISTERED)
		return;
	ck_assert_int_eq(decode_registered(end->heard.message.body, &answers), 0);
	while (answers_next(&answers, &answer))
		*(answer.refusal ? &history->refused : &history->granted) += 1;
	take_files(history, end);
}

/* Receives all answers. A client that the daemon has disconnected leaves. */
static void actors_hear(struct history *history)
{
	for (size_t i = 0; i < ACTORS; i++) {
		struct actor *actor = &history->actor[i];

		while (actor->there && hear(&actor->end))
			count_answers(history, &actor->end);
		if (actor->there && actor->end.heard.size != -EAGAIN)
			actor_leaves(history, actor);
	}
}

/* A bit that may be in use; the embedded backend's are multiples of 8. */
static uint32_t any_bit(const struct history *history)
{
	return history->is_shared ? 1 + (uint32_t)random() % 6 : (uint32_t)random() % (2 * MAX_EVENTS) * 8;
}

static void act(struct history *history, struct actor *actor)
{
	if (!actor->there)
		actor_comes(history, actor);
	else if (random() % 12 == 0)
		actor_leaves(history, actor);
	else if (random() % 12 == 0)
		break_connection(&actor->end);
	else if (random() % 3 == 0)
		say_release(&actor->end, any_bit(history));
	else if (history->is_shared && random() % 3 == 0)
		actor_asks_as_usual(actor);
	else
		actor_asks(history, actor);
}

static void kernel_will_refuse(void)
{
	static const enum kernel_op ops[] = {
		KERNEL_PAGE_NEW, KERNEL_STREAM_NEW, KERNEL_REGISTER, KERNEL_RELEASE, KERNEL_STILL_OPEN,
	};
	enum kernel_op op = ops[(size_t)random() % ARRAY_SIZE(ops)];
	int result = op == KERNEL_RELEASE    ? KERNEL_E_LINGERS
		     : op == KERNEL_REGISTER ? 1 + random() % KERNEL_E_UNSUPPORTED
					     : -EMFILE;

	refuse(op, result, (unsigned)random() % 3, (unsigned)random() % 3);
}

static void meddle(struct history *history)
{
	int *copy = &history->copy[random() % COPIES];

	switch (random() % 8) {
	case 0:
	case 1:
		kernel_will_refuse();
		break;
	case 2:
	case 3:
		*copy = fd_close(*copy);
		break;
	case 4:
		look_at_lingering(history->world);
		break;
	case 5:
		fake.stream[random() % (2 * ACTORS)].self_registered = true;
		streams_probe(&history->world->daemon->registry);
		break;
	default:
		if (history->is_shared) {
			set_guard(history->world, !fake.guard || random() % 4);
			history->flips += !fake.guard;
		}
	}
}

static void count_step(struct history *history)
{
	const struct daemon *daemon = history->world->daemon;
	bool alike = false, kept = false;

	for (const struct tenant *tenant = daemon->registry.tenants; tenant; tenant = tenant->by_number.next)
		alike |= tenant->precedent && tenant->precedent->ended == tenant->ended;
	for (const struct stream *stream = daemon->registry.streams; stream; stream = stream->by_number.next)
		kept |= stream->kept;
	history->alike += alike;
	history->kept += kept;
}

static void check_maxima(const struct world *world)
{
	const struct registry *registry = &world->daemon->registry;

	if (registry->machine.common > world->capacity)
		ck_abort_msg("%u events of %u", registry->machine.common, world->capacity);
	for (const struct tenant *tenant = registry->tenants; tenant; tenant = tenant->by_number.next)
		if (tenant->level->own[RESOURCE_EVENTS].held > registry->options->max_events)
			ck_abort_msg("%s has %u events", tenant->path, tenant->level->own[RESOURCE_EVENTS].held);
}

static void step(struct history *history)
{
	switch (random() % 14) {
	case 0:
	case 1:
		meddle(history);
		break;
	case 2:
	case 3:
		for (int n = random() % 4; n > 0 && script.n_under_way > 0; n--)
			answer_one();
		break;
	case 4:
		answer_all();
		break;
	default:
		act(history, &history->actor[random() % ACTORS]);
	}
	turn(history->world);
	actors_hear(history);
	check_books(history->world->daemon);
	check_maxima(history->world);
	count_step(history);
}

/* Runs one history. The world must have no clients, and has none afterwards. */
static void live(struct history *history, struct world *world, unsigned seed, bool is_shared)
{
	srandom(seed);
	memset(history, 0, sizeof(*history));
	history->world = world;
	history->is_shared = is_shared;
	memset(history->copy, -1, sizeof(history->copy));
	hold();
	for (unsigned i = 0; i < STEPS; i++)
		step(history);
	ck_assert_uint_gt(history->granted, STEPS / 40);
	ck_assert_uint_gt(history->refused, STEPS / 40);
	ck_assert_uint_gt(history->shared + !is_shared * STEPS, STEPS / 100);
	ck_assert_uint_gt(history->alike + !is_shared * STEPS, STEPS / 200);
	ck_assert_uint_gt(history->flips + !is_shared * STEPS, 5);
	refuse(0, 0, 0, 0);
	hold_no_more();
	for (size_t i = 0; i < ACTORS; i++)
		if (history->actor[i].there)
			actor_leaves(history, &history->actor[i]);
	for (size_t i = 0; i < COPIES; i++)
		history->copy[i] = fd_close(history->copy[i]);
}

TEST(embedded_history_balances)
{
	static struct history history;

	for (unsigned seed = 1; seed <= HISTORIES; seed++) {
		WORLD(world, CAPACITY, MAX_EVENTS);

		live(&history, world, seed, false);
	}
}

TEST(guarded_history_balances)
{
	static struct history history;

	for (unsigned seed = 1; seed <= HISTORIES; seed++) {
		GUARDED(world);

		live(&history, world, seed, true);
	}
}

/* There is so little room that kept streams are given up now and then. */
TEST(history_with_kept_streams_balances)
{
	static struct history history;

	for (unsigned seed = 1; seed <= HISTORIES; seed++) {
		GUARDED(world);

		world->daemon->options.max_events = 14;
		keep_for(world, "1h");
		live(&history, world, seed, true);
		ck_assert_uint_gt(history.kept, STEPS / 500);
		keep_nothing(world);
	}
}

/* --- memory --- */

static void live_a_little(struct world *world)
{
	END(first, world, 1);
	END(second, world, 1);

	first.may_be_cut = true;
	second.may_be_cut = true;
	say_hello(&first);
	say_hello(&second);
	for (unsigned i = 0; i < 3; i++) {
		REGISTER(&first, "one u32 x", "bad long x");
		REGISTER(&second, "one u32 x", "two u32 x");
		say_release(&second, script.real == &fake_ops ? 1 : 8);
		say_simply(&second, KIND_QUERY);
		REGISTER(&first, "two u32 x");
		while (hear(&first) || hear(&second))
			;
	}
}

static void expect_to_survive(struct world *world, bool comes_back)
{
	long n;

	memory_comes_back = comes_back;
	script.kernel->ops = script.real;
	for (n = 0; n < 1000; n++) {
		bool enough;

		allocations_given = n;
		live_a_little(world);
		enough = memory_comes_back ? allocations_given >= 0 : allocations_given > 0;
		allocations_given = -1;
		expect_all_gone(world);
		if (enough)
			break;
	}
	ck_assert_int_gt(n, 20);
	ck_assert_int_lt(n, 1000);
}

/* The n-th allocation fails, for each n. */
TEST(shortage_of_memory_leaves_nothing)
{
	ev_set_allocator(evs_own_memory);
	for (unsigned mode = 0; mode < 2; mode++) {
		{
			WORLD(world, 10, 10);

			expect_to_survive(world, mode);
		}
		for (unsigned guarded = 0; guarded < 2; guarded++) {
			_cleanup_(world_leave) struct world *world = world_on("prefer", guarded);

			expect_to_survive(world, mode);
		}
	}
}
