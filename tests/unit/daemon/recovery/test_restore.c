/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A daemon ends and the next daemon restores its state: clients, tenants and the kernel notice nothing. */

#include "daemon/recovery/restore.h"

#include "daemon/connection/deposit.h"
#include "daemon/ledger/entries.h"
#include "daemon/ledger/ledger.h"
#include "daemon/registry/event.h"
#include "daemon/registry/reference.h"
#include "tests/unit/lists.h"

static uint64_t lasting_events(const struct world *world)
{
	return world->daemon->registry.machine.common + world->daemon->registry.machine.filled;
}

TEST(without_deposits_there_is_no_ledger)
{
	GUARDED(world);
	WELCOMED(end, world, 1);

	get(&end, "hello u32 x");
	ck_assert_ptr_null(world->daemon->registry.ledger);
	ck_assert_uint_eq(count_deposits(), 0);
}

TEST(restart_keeps_leases_streams_and_answers)
{
	struct answer before, after;
	KEPT(world);
	WELCOMED(end, world, 1);
	WELCOMED(neighbour, world, 2);

	before = get(&end, "hello u32 x");
	world_restart(world);
	expect_silence(&end);
	ck_assert_uint_eq(HASH_CNT(by_number, world->daemon->registry.tenants), 2);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 2);
	ck_assert_uint_eq(lasting_events(world), 1);
	ck_assert_uint_eq(query(&end).leases, 1);
	/* Without the file, which the client has already. */
	after = get(&end, "hello u32 x");
	expect_same_answer(&before, &after);
	ck_assert_uint_eq(end.heard.message.streams, 0);
	ck_assert_uint_eq(count_fake_slots(), 1);
	/* A new event is on the same stream, and so is a new client. */
	after = get(&end, "world u32 x");
	ck_assert_uint_eq(after.stream, before.stream);
	ck_assert_uint_ne(after.bit, before.bit);
	ck_assert_uint_eq(end.heard.message.streams, 0);
	ck_assert_uint_eq(query(&end).leases, 2);
	{
		WELCOMED(other, world, 1);

		after = get(&other, "hello u32 x");
		expect_same_answer(&before, &after);
		ck_assert(is_same_file(other.stream, end.stream));
		ck_assert(is_same_file(other.page, end.page));
		ck_assert(!is_same_file(other.page, neighbour.page));
	}
	ck_assert_uint_eq(count_fake_streams(), 1);
}

TEST(client_that_left_meanwhile_is_gone)
{
	KEPT(world);
	WELCOMED(stays, world, 1);

	{
		WELCOMED(leaves, world, 2);

		get(&stays, "stays u32 x");
		get(&leaves, "leaves u32 x");
		world_leave_daemon(world);
	}
	world_next_daemon(world);
	look_at_lingering(world);
	turn(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 1);
	ck_assert_uint_eq(lasting_events(world), 1);
	ck_assert_uint_eq(HASH_CNT(by_number, world->daemon->registry.tenants), 1);
	ck_assert_uint_eq(count_deposits(), 2);
}

TEST(lingering_event_goes_on_lingering)
{
	_cleanup_(fd_closep) int held = -1;
	KEPT(world);

	{
		WELCOMED(end, world, 1);

		get(&end, "hello u32 x");
		held = dup(end.stream);
	}
	ck_assert_uint_eq(lasting_events(world), 1);
	world_restart(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 0);
	ck_assert_uint_eq(lasting_events(world), 1);
	ck_assert(!TAILQ_EMPTY(&world->daemon->registry.lingering));
	close(fd_steal(&held));
	look_at_lingering(world);
	turn(world);
	ck_assert_uint_eq(lasting_events(world), 0);
}

TEST(released_event_is_not_leased_again)
{
	KEPT(world);
	WELCOMED(end, world, 1);

	get(&end, "kept u32 x");
	release(&end, get(&end, "released u32 x").bit);
	world_restart(world);
	ck_assert_uint_eq(query(&end).leases, 1);
	/* Still on the stream, and charged. */
	ck_assert_uint_eq(query(&end).lingering, 1);
	ck_assert_uint_eq(lasting_events(world), 2);
}

TEST(unread_request_is_answered_by_the_next_daemon)
{
	KEPT(world);
	WELCOMED(end, world, 1);

	world_leave_daemon(world);
	REGISTER(&end, "hello u32 x");
	world_next_daemon(world);
	expect_granted(&end);
	expect_silence(&end);
}

TEST(pending_request_is_answered_once)
{
	KEPT(world);
	WELCOMED(end, world, 1);

	get(&end, "before u32 x");
	hold();
	REGISTER(&end, "hello u32 x");
	expect_silence(&end);
	world_restart(world);
	expect_granted(&end);
	expect_silence(&end);
	ck_assert_uint_eq(query(&end).leases, 2);
	ck_assert_uint_eq(query(&end).lingering, 0);
	ck_assert_uint_eq(count_fake_slots(), 2);
}

/* It has no page yet, and nothing that could be lost. */
TEST(client_with_a_pending_hello_is_disconnected)
{
	KEPT(world);
	END(end, world, 1);

	hold();
	say_hello(&end);
	expect_silence(&end);
	world_restart(world);
	expect_disconnected(&end);
	expect_all_gone(world);
}

/* The kernel has the event, and the client has left without an answer. */
TEST(registration_without_answer_is_found_and_charged)
{
	KEPT(world);
	WELCOMED(stays, world, 1);

	get(&stays, "stays u32 x");
	{
		WELCOMED(leaves, world, 1);

		hold();
		REGISTER(&leaves, "left u32 x");
		world_leave_daemon(world);
	}
	world_next_daemon(world);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(lasting_events(world), 2);
	ck_assert_uint_eq(query(&stays).lingering, 1);
}

/* Grant and stream live on, with another client and with another event: an entry that was not struck would be found with both. */
TEST(refused_event_of_a_sibling_is_not_repeated)
{
	_cleanup_(world_leave) struct world *world = world_kept(false);
	WELCOMED(holds, world, 1);
	WELCOMED(refused, world, 1);

	get(&holds, "hello u32 x");
	get(&refused, "world u32 x");
	refuse(KERNEL_REGISTER, KERNEL_E_FULL, 0, 1);
	REGISTER(&refused, "hello u32 x");
	expect_refused(&refused, REFUSAL_MACHINE_FULL);
	world_restart(world);
	ck_assert_uint_eq(script.asked[KERNEL_REGISTER], 0);
	ck_assert_uint_eq(count_fake_slots(), 2);
	ck_assert_uint_eq(query(&holds).leases, 1);
	ck_assert_uint_eq(query(&refused).leases, 1);
}

/* So many that the entry grows. */
TEST(leases_on_a_long_stream_are_restored)
{
	enum { MANY = 400 };
	KEPT(world);
	WELCOMED(end, world, 1);
	struct list list = list_of(0, MANY);
	struct granted granted = get_list(&end, &list);

	for (unsigned i = 0; i < MANY; i += 2)
		release(&end, granted.answer[i].bit);
	world_restart(world);
	ck_assert_uint_eq(query(&end).leases, MANY / 2);
	for (unsigned i = 1; i < MANY; i += 2)
		release(&end, granted.answer[i].bit);
	ck_assert_uint_eq(query(&end).leases, 0);
}

TEST(watching_client_gets_changed_for_all_events)
{
	struct wire_changed changed;
	struct cursor bits;
	KEPT(world);
	WELCOMED(end, world, 1);

	get(&end, "hello u32 x");
	say_simply(&end, KIND_WATCH);
	expect(&end, KIND_WATCHING);
	world_restart(world);
	ck_assert_int_eq(decode_changed(expect(&end, KIND_CHANGED)->body, &changed, &bits), 0);
	ck_assert_uint_eq(changed.count, 0);
	expect_silence(&end);
	ck_assert(!TAILQ_EMPTY(&world->daemon->connections.clients));
	ck_assert(TAILQ_FIRST(&world->daemon->connections.clients)->holder.known.watching);
}

TEST(persistent_event_is_still_charged)
{
	KEPT(world);

	{
		WELCOMED(end, world, 1);

		REGISTER_WITH(&end, REGISTER_PERSIST, "stays u32 x");
		expect_granted(&end);
	}
	look_at_lingering(world);
	turn(world);
	ck_assert_uint_eq(lasting_events(world), 1);
	world_restart(world);
	ck_assert_uint_eq(lasting_events(world), 1);
	ck_assert(LIST_FIRST(&world->daemon->registry.events->grants)->persistent);
	grants_end(&world->daemon->registry);
}

TEST(events_beyond_a_new_maximum_are_kept)
{
	KEPT(world);
	WELCOMED(end, world, 1);

	get(&end, "one u32 x");
	get(&end, "two u32 x");
	world->max_events = 1;
	world_restart(world);
	ck_assert_uint_eq(query(&end).leases, 2);
	ck_assert_uint_eq(lasting_events(world), 2);
	REGISTER(&end, "three u32 x");
	expect_refused(&end, REFUSAL_QUOTA_EXCEEDED);
}

TEST(may_be_root_is_restored)
{
	KEPT(world);
	WELCOMED(one, world, 1);
	WELCOMED(other, world, 2);
	unsigned n = 0;

	ck_assert(!other.client->holder.known.may_be_root);
	one.client->holder.known.may_be_root = true;
	holder_enter(&one.client->holder);
	world_restart(world);
	for (const struct client *client = TAILQ_FIRST(&world->daemon->connections.clients); client;
	     client = TAILQ_NEXT(client, all))
		n += client->holder.known.may_be_root;
	ck_assert_uint_eq(n, 1);
}

TEST(without_guard_each_client_keeps_its_stream)
{
	struct answer first, second, again;
	_cleanup_(world_leave) struct world *world = world_kept(false);
	WELCOMED(one, world, 1);
	WELCOMED(two, world, 1);

	first = get(&one, "hello u32 x");
	second = get(&two, "hello u32 x");
	ck_assert_uint_ne(first.stream, second.stream);
	world_restart(world);
	again = get(&one, "hello u32 x");
	expect_same_answer(&first, &again);
	again = get(&two, "more u32 x");
	ck_assert_uint_eq(again.stream, second.stream);
	ck_assert_uint_eq(count_fake_streams(), 2);
}

/* The prefix is gone after the restart, so the pending request names other events than those that were registered. */
TEST(unanswered_grants_end_with_another_prefix)
{
	static const char *const both[] = { "hello u32 x", "more u32 x" };
	KEPT(world);

	world->daemon->options.tenant_is_process = false;
	world_adopt(world, "[/**]\nNamePrefix=p_\n");
	{
		WELCOMED(one, world, 1);
		WELCOMED(two, world, 2);
		struct answer answers[2];

		get(&one, "hello u32 x");
		hold();
		say_register(&two, 0, both, ARRAY_SIZE(both));
		expect_silence(&two);
		world_leave_daemon(world);
		fake.guard = false;
		world_next_daemon(world);
		expect_answers(&two, answers, ARRAY_SIZE(both));
		for (size_t i = 0; i < ARRAY_SIZE(both); i++)
			ck_assert_uint_eq(answers[i].refusal, REFUSAL_TROUBLE);
		ck_assert_uint_eq(query(&two).leases, 0);
	}
}

TEST(broken_connection_is_withdrawn)
{
	KEPT(world);
	WELCOMED(end, world, 1);

	ck_assert_uint_eq(count_deposits(), 2);
	break_connection(&end);
	ck_assert_uint_eq(count_deposits(), 1);
	expect_disconnected(&end);
}

/* The keeper drops everything that is in no ledger, and the client is disconnected. */
static void expect_start_without_state(struct world *world, struct end *end)
{
	world_next_daemon(world);
	ck_assert_uint_eq(world->daemon->registry.n_holders, 0);
	ck_assert_uint_eq(lasting_events(world), 0);
	ck_assert_uint_eq(count_fake_streams(), 0);
	ck_assert_uint_eq(count_deposits(), 1);
	expect_disconnected(end);
}

TEST(other_or_damaged_ledger_is_not_read)
{
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		struct ledger_header header;
		KEPT(world);
		WELCOMED(end, world, 1);
		int fd;

		get(&end, "hello u32 x");
		world_leave_daemon(world);
		fd = find_deposit(DEPOSIT_LEDGER)->fd;
		ck_assert_int_eq(pread(fd, &header, sizeof(header), 0), sizeof(header));
		header.version = LEDGER_VERSION + 1;
		ck_assert_int_eq(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
		if (damaged)
			ck_assert_int_eq(ftruncate(fd, 5), 0);
		expect_start_without_state(world, &end);
		fake.page[0] = 0;
		fake.page_fd[0] = fd_close(fake.page_fd[0]);
	}
}

TEST(many_restarts_keep_everything)
{
	KEPT(world);
	WELCOMED(one, world, 1);
	WELCOMED(two, world, 2);
	struct list eight = list_of(100, 8);

	get_list(&one, &eight);
	for (unsigned i = 0; i < 20; i++) {
		struct list list = list_of(i, 1);

		get_list(&two, &list);
		world_restart(world);
		ck_assert_uint_eq(query(&one).leases, 8);
		ck_assert_uint_eq(query(&two).leases, 1 + i);
		ck_assert_uint_eq(lasting_events(world), 9 + i);
		check_books(world->daemon);
	}
	ck_assert_uint_eq(count_fake_streams(), 2);
	ck_assert_uint_eq(count_deposits(), 3);
}
