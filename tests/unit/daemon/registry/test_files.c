/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The limit of data files, how long a file is charged, and when the kernel is polled for lingering streams. */

#include <sys/resource.h>

#include "daemon/process/clock.h"
#include "daemon/registry/linger.h"
#include "tests/unit/books.h"

static uint32_t files_of(const struct tenant *tenant)
{
	return tenant->level->own[RESOURCE_FILES].held;
}

static void expect_refusal(struct end *end, const char *description, const char *part)
{
	struct answer answer;

	REGISTER(end, description);
	expect_answers(end, &answer, 1);
	ck_assert_uint_eq(answer.refusal, REFUSAL_QUOTA_EXCEEDED);
	ck_assert_msg(strstr(answer.text, part), "'%s' is not in '%s'", part, answer.text);
	check_books(end->world->daemon);
}

TEST(file_beyond_the_maximum_is_refused_with_the_key)
{
	UNGUARDED(world);
	WELCOMED(first, world, 1);
	WELCOMED(second, world, 1);
	WELCOMED(neighbour, world, 2);

	world_adopt(world, "[/]\nMaxFiles=1\n");
	get(&first, "event u32 x");
	expect_refusal(&neighbour, "event u32 x", "all in the cgroup / hold 1 of 1 data files (MaxFiles=1 of [/])");
	world_adopt(world, "[Daemon]\nDefaultMaxFiles=1\n");
	expect_refusal(&second, "event u32 x", "this tenant holds 1 of 1 data files (DefaultMaxFiles=1 of [Daemon])");
	expect_refusal(&second, "other u32 x", "close some, or ask the admin for a larger maximum");
	ck_assert_uint_eq(count_fake_streams(), 1);
	/* Refused events are not charged. */
	ck_assert_uint_eq(query(&second).events, 1);
	/* The first file takes more events. */
	get(&first, "other u32 x");
	get(&neighbour, "event u32 x");
	world_adopt(world, "[Daemon]\nDefaultMaxFiles=2\n");
	get(&second, "event u32 x");
	check_books(world->daemon);
}

TEST(file_counts_until_no_copy_is_open)
{
	UNGUARDED(world);
	WELCOMED(next, world, 1);

	world_adopt(world, "[Daemon]\nDefaultMaxFiles=1\n");
	{
		WELCOMED(end, world, 1);

		get(&end, "event u32 x");
		end_hang_up(&end);
		expect_refusal(&next, "event u32 x", "1 of 1 data files");
		ck_assert(look_at_lingering(world));
		expect_refusal(&next, "event u32 x", "1 of 1 data files");
	}
	ck_assert(!look_at_lingering(world));
	ck_assert_uint_eq(files_of(tenant_of(&next)), 0);
	get(&next, "event u32 x");
}

TEST(files_and_leases_count_again_after_a_restart)
{
	KEPT(world);
	WELCOMED(end, world, 1);
	WELCOMED(next, world, 1);
	uint32_t leases;

	get(&end, "event u32 x");
	get(&end, "other u32 x");
	get(&next, "event u32 x");
	leases = tenant_of(&end)->level->own[RESOURCE_LEASES].held;
	ck_assert_uint_eq(leases, 3);
	world_restart(world);
	ck_assert_uint_eq(files_of(world->daemon->registry.tenants), 1);
	ck_assert_uint_eq(world->daemon->registry.tenants->level->own[RESOURCE_LEASES].held, leases);
	ck_assert_uint_eq(world->daemon->registry.files.common, 1);
	check_books(world->daemon);
}

static void have_fds(rlim_t number)
{
	const struct rlimit few = { .rlim_cur = number, .rlim_max = number };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

TEST(reserve_of_events_keeps_files_free)
{
	WORLD(world, 1000, 10);

	world_adopt(world, "[/one]\nReserveEvents=10\n[/two]\nReserveEvents=5\n");
	ck_assert_uint_eq(world->daemon->registry.files.claimed, 15);
	/* 248 fds allow 50 files: a quarter of those that the daemon does not need itself. Half may be reserved. */
	have_fds(248);
	world_adopt(world, "[/one]\nReserveEvents=60\n[/two]\nReserveEvents=20\n[/three]\nReserveEvents=1\n");
	ck_assert_uint_eq(world->daemon->registry.files.capacity, 50);
	ck_assert_uint_eq(world->daemon->registry.files.claimed, 60 * 25 / 81 + 20 * 25 / 81 + 1);
	world_adopt(world, "");
	ck_assert_uint_eq(world->daemon->registry.files.claimed, 0);
}

/* Open files of clients that have disconnected. */
static int left[STREAMS];
static unsigned n_left;

static struct stream *leave_file(struct world *world, pid_t pid)
{
	struct end end = end_welcomed(world, pid);
	struct stream *stream;

	get(&end, "event u32 x");
	stream = LIST_FIRST(&end.client->holder.shares)->stream;
	left[n_left++] = fd_steal(&end.stream);
	end_deinit(&end);
	turn(world);
	ck_assert(stream->lingers);
	return stream;
}

static void close_files(struct world *world)
{
	while (n_left > 0)
		close(left[--n_left]);
	ck_assert(!look_at_lingering(world));
}

TEST(file_is_looked_at_less_and_less_often)
{
	UNGUARDED(world);
	struct stream *stream = leave_file(world, 1);
	double after = stream->look_after;

	ck_assert(after <= LINGER_FIRST);
	for (unsigned i = 0; i < 10; i++) {
		look_at_lingering(world);
		ck_assert(stream->look_after >= after);
		after = stream->look_after;
	}
	ck_assert_double_eq_tol(after, LINGER_LAST, 1e-6);
	/* With very many lingering streams the interval grows up to LINGER_MOST. */
	stream->tenant->lingering_streams += 100 * LINGER_PER_SECOND;
	for (unsigned i = 0; i < 10; i++)
		look_at_lingering(world);
	stream->tenant->lingering_streams -= 100 * LINGER_PER_SECOND;
	ck_assert_double_eq_tol(stream->look_after, LINGER_MOST, 1e-6);
	close_files(world);
}

TEST(tenants_take_turns_when_files_are_looked_at)
{
	enum { MANY = 40 };
	UNGUARDED(world);
	struct daemon *daemon = world->daemon;
	struct stream *stream, *neighbours;
	unsigned asked;

	for (unsigned i = 0; i < MANY; i++)
		leave_file(world, 1);
	neighbours = leave_file(world, 2);
	/* All streams are due, the neighbour's last, and two may be polled. */
	bucket_init(&daemon->registry.look_tokens, 1, 2, clock_now());
	TAILQ_FOREACH(stream, &daemon->registry.lingering, idle)
		if (!stream->is_due) {
			ev_timer_stop(daemon->loop, &stream->w_idle);
			ev_invoke(daemon->loop, &stream->w_idle, EV_TIMER);
		}
	ck_assert(neighbours->is_due);
	asked = script.asked[KERNEL_STILL_OPEN];
	ev_invoke(daemon->loop, &daemon->registry.w_linger, EV_TIMER);
	ck_assert_uint_eq(script.asked[KERNEL_STILL_OPEN] - asked, 2);
	ck_assert(!neighbours->is_due);
	close_files(world);
}
