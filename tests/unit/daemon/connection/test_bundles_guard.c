/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Bundles whose files may not be sent any more: without the guard, after a self-registration, or with many dead events. */

#include <fcntl.h>

#include "daemon/registry/bundle.h"
#include "tests/unit/lists.h"

enum { N = BUNDLE_EVENTS_MIN };

static const struct holder *bundle_of(const struct end *end)
{
	return end->client->holder.bundle;
}

TEST(bundle_serves_no_new_client_without_the_guard)
{
	GUARDED(world);
	CLIENTS(c, world, 4);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list), again;

	get_list(&c[1], &list);
	set_guard(world, false);
	get_list(&c[2], &list);
	get_list(&c[3], &list);
	ck_assert(!bundle_of(&c[2]) && !bundle_of(&c[3]));
	ck_assert(!is_same_file(c[0].stream, c[2].stream));
	ck_assert(!is_same_file(c[0].stream, c[3].stream));
	ck_assert(!is_same_file(c[2].stream, c[3].stream));
	/* The members keep it. */
	again = get_list(&c[0], &list);
	expect_same_answers(&one, &again, N);
	ck_assert_ptr_eq(bundle_of(&c[0]), bundle_of(&c[1]));
	ck_assert_uint_eq(bundle_of(&c[0])->n_members, 2);
	expect_charged(world, N, 4 * N);
}

TEST(unguarded_file_is_not_shared_with_a_new_guard)
{
	GUARDED(world);
	CLIENTS(c, world, 4);
	WELCOMED_AS(other, world, 1, getuid() + 1);
	struct list list = list_of(0, N);

	get_list(&c[0], &list);
	set_guard(world, false);
	get_list(&c[1], &list);
	set_guard(world, true);
	get_list(&other, &list);
	ck_assert(world->daemon->registry.guarded);
	get_list(&c[2], &list);
	ck_assert_ptr_ne(bundle_of(&c[0]), bundle_of(&c[2]));
	ck_assert(!is_same_file(c[0].stream, c[2].stream));
	ck_assert(!is_same_file(c[1].stream, c[2].stream));
	get_list(&c[3], &list);
	ck_assert_ptr_eq(bundle_of(&c[2]), bundle_of(&c[3]));
	/* The old bundle goes without disturbing the new one. */
	end_hang_up(&c[0]);
	check_books(world->daemon);
	ck_assert_uint_eq(bundle_of(&c[2])->n_members, 2);
}

/* From that file alone. */
static void take_guard_from(struct stream *stream)
{
	int fd = fcntl(stream->fd, F_DUPFD_CLOEXEC, 0);

	ck_assert_int_lt(fd, GUARDED_FDS);
	close(stream->fd);
	stream->fd = fd;
}

/* Either of them may be proved first. */
TEST(bundle_with_one_unguarded_file_is_not_sent)
{
	for (unsigned i = 0; i < 10; i += 9) {
		GUARDED(world);
		CLIENTS(c, world, 3);
		struct list before = list_of(0, STREAM_EVENTS_MAX), list = list_of(STREAM_EVENTS_MAX - 5, 10);
		struct granted granted;
		uint32_t without;

		get_list(&c[0], &before);
		without = get_list(&c[1], &list).answer[i].stream;
		take_guard_from(stream_by_number(&world->daemon->registry, without));
		granted = get_list(&c[2], &list);
		ck_assert_ptr_ne(bundle_of(&c[1]), bundle_of(&c[2]));
		ck_assert_uint_eq(c[2].heard.message.streams, 1);
		for (unsigned j = 0; j < list.n; j++)
			ck_assert_uint_eq(granted.answer[j].stream, c[2].heard.message.stream[0]);
		ck_assert_uint_ne(granted.answer[0].stream, without);
		ck_assert_uint_eq(query(&c[1]).leases, list.n);
	}
}

TEST(required_guard_that_is_gone_refuses_new_members)
{
	REQUIRED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);

	get_list(&c[0], &list);
	get_list(&c[1], &list);
	set_guard(world, false);
	say_list(&c[2], &list);
	expect_list_refused(&c[2], &list, REFUSAL_TROUBLE);
	ck_assert_ptr_eq(bundle_of(&c[0]), bundle_of(&c[1]));
	expect_account(&c[1], N, N, 0);
}

TEST(self_registered_file_ends_all_members)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);
	uint32_t stream = get_list(&c[0], &list).answer[0].stream;

	get_list(&c[1], &list);
	set_guard(world, false);
	get(&c[2], "event_50 u32 x");
	register_on(stream);
	streams_probe(&world->daemon->registry);
	expect_cut(&c[0], REFUSAL_SELF_REGISTERED);
	expect_cut(&c[1], REFUSAL_SELF_REGISTERED);
	check_books(world->daemon);
	ck_assert_uint_eq(world->daemon->registry.leases, 1);
	set_guard(world, true);
	ck_assert_uint_ne(get_list(&c[2], &list).answer[0].stream, stream);
}

TEST(bundle_on_a_dying_file_serves_its_members_alone)
{
	GUARDED(world);
	CLIENTS(c, world, 5);
	struct list list = list_of(0, N);
	struct granted one = get_list(&c[0], &list), other;

	get_list(&c[1], &list);
	leave_dead(&c[1], STREAM_DEAD_MIN + 1);
	other = get_list(&c[2], &list);
	ck_assert_uint_ne(one.answer[0].stream, other.answer[0].stream);
	ck_assert_uint_eq(one.answer[0].bit, other.answer[0].bit);
	ck_assert_ptr_ne(bundle_of(&c[0]), bundle_of(&c[2]));
	get_list(&c[3], &list);
	ck_assert_ptr_eq(bundle_of(&c[2]), bundle_of(&c[3]));
	other = get_list(&c[0], &list);
	expect_same_answers(&one, &other, N);
	/* The old bundle is not found any more. */
	end_hang_up(&c[0]);
	check_books(world->daemon);
	get_list(&c[4], &list);
	ck_assert_ptr_eq(bundle_of(&c[2]), bundle_of(&c[4]));
	ck_assert_uint_eq(world->daemon->registry.leases, 4 * N);
}
