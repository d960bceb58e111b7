/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Programs with the same events whose files may not be sent any more, or that ask at the same time. */

#include <fcntl.h>

#include "daemon/limits.h"
#include "daemon/registry/precedent.h"
#include "daemon/registry/tenant.h"
#include "tests/unit/lists.h"

enum { N = PRECEDENT_EVENTS_MIN };

/* From that file alone. */
static void take_guard_from(struct stream *stream)
{
	int fd = fcntl(stream->fd, F_DUPFD_CLOEXEC, 0);

	ck_assert_int_lt(fd, GUARDED_FDS);
	close(stream->fd);
	stream->fd = fd;
}

/* Either of them may be proved first. */
TEST(unguarded_one_of_two_files_is_not_sent)
{
	static struct answer answer[WIRE_BATCH_MAX];

	for (unsigned i = 0; i < 10; i += 9) {
		GUARDED(world);
		CLIENTS(c, world, 3);
		struct list before = list_of(0, STREAM_EVENTS_MAX), list = list_of(STREAM_EVENTS_MAX - 5, 10);
		struct granted granted;
		uint32_t without;

		get_list(&c[0], &before);
		without = get_list(&c[1], &list).answer[i].stream;
		take_guard_from(stream_by_number(&world->daemon->registry, without));
		say_list(&c[2], &list);
		expect_answers(&c[2], answer, list.n);
		for (unsigned j = 0; j < c[2].heard.message.streams; j++)
			ck_assert_uint_ne(c[2].heard.message.stream[j], without);
		granted = get_list(&c[2], &list);
		for (unsigned j = 0; j < list.n; j++)
			ck_assert_uint_ne(granted.answer[j].stream, without);
		ck_assert_uint_eq(query(&c[1]).leases, list.n);
	}
}

TEST(required_guard_that_is_gone_refuses_new_clients)
{
	REQUIRED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);

	get_list(&c[0], &list);
	get_list(&c[1], &list);
	set_guard(world, false);
	say_list(&c[2], &list);
	expect_list_refused(&c[2], &list, REFUSAL_TROUBLE);
	expect_account(&c[1], N, N, 0);
}

/* Any of the clients that share it may have done that. */
TEST(self_registered_file_disconnects_all_clients)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	WELCOMED_AS(other, world, 1, getuid() + 1);
	struct list list = list_of(0, N);
	uint32_t stream = get_list(&c[0], &list).answer[0].stream;

	get_list(&c[1], &list);
	get(&other, "event_0 u32 x");
	set_guard(world, false);
	get(&c[2], "event_50 u32 x");
	register_on(stream);
	streams_probe(&world->daemon->registry);
	ck_assert_uint_eq(count_self_registered(&other), 1);
	expect_cut(&c[0], REFUSAL_SELF_REGISTERED);
	expect_cut(&c[1], REFUSAL_SELF_REGISTERED);
	expect_silence(&other);
	expect_silence(&c[2]);
	ck_assert_uint_eq(count_self_registered(&other), 1);
	check_books(world->daemon);
	ck_assert_uint_eq(world->daemon->registry.leases, 2);
	set_guard(world, true);
	ck_assert_uint_ne(get_list(&c[2], &list).answer[0].stream, stream);
}

/* --- at the same time --- */

TEST(clients_that_all_leave_while_waiting_leave_nothing)
{
	GUARDED(world);
	CLIENTS(c, world, 3);
	struct list list = list_of(0, N);

	hold();
	for (unsigned i = 0; i < 3; i++)
		say_list(&c[i], &list);
	for (unsigned i = 0; i < 3; i++)
		break_connection(&c[(i + 1) % 3]);
	expect_charged(world, N, 0);
	hold_no_more();
	expect_all_gone(world);
}
