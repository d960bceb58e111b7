/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * A whole daemon with several clients, controlled by the bytes: they send valid and invalid messages, with fds and without, in
 * any order, while the kernel delays answers, refuses, loses its guard, and the daemon is replaced by the next. After each
 * step the daemon's books have to agree, and in the end nothing may be left.
 */

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include "daemon/registry/kept.h"
#include "protocol/transport.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/books.h"

enum { ENDS = 6, COPIES = 4, STEPS_MAX = 200 };

/* The bytes that are not used yet. */
struct script_of_bytes {
	const uint8_t *at;
	size_t left;
};

struct play {
	struct world *world;
	bool keeps;
	struct end end[ENDS];
	bool there[ENDS];
	int copy[COPIES]; /* of data files, not held by any client */
};

static const char *const descriptions[] = {
	"a u32 x",
	"b u32 x",
	"c u32 x",
	"d u64 y",
	"a u64 other",
	"e",
	"f char[8] s",
	"g __rel_loc char[] s",
	"h u8 a; u8 b",
	"bad long x",
	"",
	"i u32 x",
	"j u32 x",
	"k u32 x",
	"l u32 x",
	"m u32 x",
};

static const char *const policies[] = {
	"",
	"[/world]\nMaxEvents=3\n",
	"[/world]\nKeepFor=1h\n",
	"[Event a]\nFields=u32 x\n[Event z]\n",
	"[Event z]\nFields=u8 a\nTenants=/other\n[/world]\nStream=client\n",
	"[/world]\nNamePrefix=p_\nAllowMultiFormat=no\n",
	"[/]\nMaxEvents=5\n[/world]\nReserveEvents=2\n",
	"[/world]\nStream=shared\nDenyEvents=b\n",
};

/* Memory is not short here: AddressSanitizer has its own. */
long allocations_left = -1;
bool memory_comes_back;

/* Assertions of the test's own files that fail end here. */
__attribute__((noreturn)) void __wrap__ck_assert_failed(const char *file, int line, const char *what,
							const char *message, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *what, const char *message, ...)
{
	va_list arguments;

	fprintf(stderr, "%s:%d: %s: ", file, line, what);
	va_start(arguments, message);
	if (message)
		vfprintf(stderr, message, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	abort();
}

void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file _unused_, int line _unused_)
{
}

static unsigned take(struct script_of_bytes *script_bytes, unsigned below)
{
	if (script_bytes->left == 0)
		return 0;
	script_bytes->left--;
	return *script_bytes->at++ % below;
}

/* --- clients --- */

static void drain(struct play *play, unsigned i)
{
	struct end *end = &play->end[i];

	while (hear(end))
		if (end->heard.message.kind == KIND_REGISTERED && end->heard.fds.count > 0) {
			fd_close(end->stream);
			end->stream = fdset_steal(&end->heard.fds, 0);
		}
	/* The connection has ended: the client hangs up. */
	if (end->heard.size != -EAGAIN) {
		play->there[i] = false;
		end_deinit(end);
	}
}

static void come(struct play *play, unsigned i, struct script_of_bytes *bytes)
{
	if (play->there[i])
		return;
	play->end[i] = end_of_user(play->world, 1 + (pid_t)take(bytes, 3), getuid() + take(bytes, 2));
	play->end[i].may_be_cut = true;
	play->there[i] = true;
}

static void ask(struct end *end, struct script_of_bytes *bytes)
{
	const char *wanted[64];
	unsigned n = take(bytes, 4) ? take(bytes, 8) : take(bytes, ARRAY_SIZE(wanted));
	uint16_t flags = (uint16_t)(take(bytes, 8) == 7 ? take(bytes, 8) : 0);

	for (unsigned i = 0; i < n; i++)
		wanted[i] = descriptions[take(bytes, ARRAY_SIZE(descriptions))];
	say_register(end, flags, wanted, n);
}

/* Any bytes, sometimes with fds. */
static void say_nonsense(struct end *end, struct script_of_bytes *bytes)
{
	uint8_t packet[256];
	size_t size = MIN((size_t)take(bytes, 255), bytes->left);
	int fds[4] = { 0, 0, 0, 0 };
	unsigned n = take(bytes, 8) == 0 ? take(bytes, 4) : 0;

	size = MIN(size, bytes->left);
	memcpy(packet, bytes->at, size);
	bytes->at += size;
	bytes->left -= size;
	/* Random bytes seldom contain their own length. */
	if (size >= sizeof(uint32_t) && take(bytes, 4) > 0)
		memcpy(packet, &(uint32_t){ htole32((uint32_t)size) }, sizeof(uint32_t));
	transport_send(end->socket, packet, size, fds, n, MSG_DONTWAIT);
}

static void hold_copy(struct play *play, const struct end *end, unsigned i)
{
	play->copy[i] = fd_close(play->copy[i]);
	if (end->stream >= 0)
		play->copy[i] = fcntl(end->stream, F_DUPFD_CLOEXEC, 0);
}

static void act(struct play *play, unsigned i, struct script_of_bytes *bytes)
{
	struct end *end = &play->end[i];

	switch (take(bytes, 10)) {
	case 0:
	case 1:
		say_hello(end);
		break;
	case 2:
	case 3:
	case 4:
		ask(end, bytes);
		break;
	case 5:
		say_release(end, take(bytes, 16));
		break;
	case 6:
		say_simply(end, take(bytes, 2) ? KIND_WATCH : KIND_QUERY);
		break;
	case 7:
		say_nonsense(end, bytes);
		break;
	case 8:
		hold_copy(play, end, take(bytes, COPIES));
		break;
	default:
		end_deinit(end);
		play->there[i] = false;
	}
}

/* --- kernel, policy, the next daemon --- */

/* Answers all calls, also those that are made meanwhile. */
static void answer_in_order(void)
{
	answer_all();
	hold_no_more();
}

static void turn_kernel(struct play *play, struct script_of_bytes *bytes)
{
	static const int results[] = { KERNEL_E_NAME_TAKEN, KERNEL_E_FULL, KERNEL_E_PAGE_FULL, -ENOMEM, -EMFILE };

	switch (take(bytes, 6)) {
	case 0:
		hold();
		break;
	case 1:
		answer_in_order();
		break;
	case 2:
		if (!TAILQ_EMPTY(&script.under_way))
			answer_one();
		break;
	case 3:
		refuse(take(bytes, 2) ? KERNEL_REGISTER : KERNEL_STREAM_NEW, results[take(bytes, ARRAY_SIZE(results))],
		       take(bytes, 4), 1 + take(bytes, 3));
		break;
	case 4:
		set_guard(play->world, take(bytes, 2));
		break;
	default:
		look_at_lingering(play->world);
	}
}

static void change_policy(struct play *play, struct script_of_bytes *bytes)
{
	world_adopt(play->world, policies[take(bytes, ARRAY_SIZE(policies))]);
}

static void set_out(struct play *play)
{
	play->world->daemon->options.tenant_is_process = false;
}

static void follow(struct play *play)
{
	if (!play->keeps)
		return;
	answer_in_order();
	world_restart(play->world);
	set_out(play);
}

static void step(struct play *play, struct script_of_bytes *bytes)
{
	unsigned i = take(bytes, ENDS);

	switch (take(bytes, 8)) {
	case 0:
		turn_kernel(play, bytes);
		break;
	case 1:
		if (take(bytes, 4) == 0)
			change_policy(play, bytes);
		else if (take(bytes, 8) == 0)
			follow(play);
		break;
	default:
		if (!play->there[i])
			come(play, i, bytes);
		act(play, i, bytes);
	}
	turn(play->world);
	for (i = 0; i < ENDS; i++)
		if (play->there[i])
			drain(play, i);
	check_books(play->world->daemon);
}

static void end_play(struct play *play)
{
	answer_in_order();
	for (unsigned i = 0; i < ENDS; i++)
		if (play->there[i])
			end_deinit(&play->end[i]);
	for (unsigned i = 0; i < COPIES; i++)
		fd_close(play->copy[i]);
	script.times = 0;
	world_adopt(play->world, "");
	for (struct level *level = play->world->daemon->registry.levels, *next; level; level = next) {
		next = level->by_path.next;
		if (kept_yield(level))
			next = play->world->daemon->registry.levels;
	}
	turn(play->world);
	world_leave(&play->world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script_of_bytes bytes = { data, size };
	unsigned kind = take(&bytes, 3);
	struct play play = { .keeps = kind == 2, .copy = { -1, -1, -1, -1 } };

	/* A persistent event would be charged for as long as the daemon lives. */
	kernel_offers = REGISTER_MULTI_FORMAT;
	play.world = kind == 2 ? world_kept(true) : world_on("prefer", kind == 0);
	set_out(&play);
	for (unsigned i = 0; i < STEPS_MAX && bytes.left > 0; i++)
		step(&play, &bytes);
	end_play(&play);
	return 0;
}
