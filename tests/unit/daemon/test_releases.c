/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Events that are released while the kernel answers late, and streams that linger. */

#include "tests/unit/world.h"

TEST(released_event_is_charged_until_it_is_freed)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x");

	hold();
	release(&end, answer.bit);
	say_release(&end, answer.bit);
	expect_released(&end, 0);
	expect_account(&end, 1, 0, 1);
	hold_no_more();
	expect_account(&end, 0, 0, 0);
	expect_no_charges(world);
}

TEST(released_event_that_the_kernel_keeps_is_charged)
{
	static const int results[] = { KERNEL_E_LINGERS, -EIO };
	WORLD(world, 10, 10);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		WELCOMED(end, world, 1);
		struct answer answer = get(&end, "event u32 x");

		refuse(KERNEL_RELEASE, results[i], 0, 1);
		release(&end, answer.bit);
		expect_account(&end, 1, 0, 1);
		end_hang_up(&end);
		expect_charged(world, 1, 0);
		ck_assert(look_at_lingering(world));
		end.stream = fd_close(end.stream);
		ck_assert(!look_at_lingering(world));
		expect_nothing_left(world);
	}
}

TEST(lingering_event_is_leased_again_for_nothing)
{
	WORLD(world, 10, 1);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x");

	refuse(KERNEL_RELEASE, KERNEL_E_LINGERS, 0, 1);
	release(&end, answer.bit);
	expect_account(&end, 1, 0, 1);
	ck_assert_uint_eq(get(&end, "event u32 x").bit, answer.bit);
	expect_account(&end, 1, 1, 0);
	release(&end, answer.bit);
	look_at_lingering(world);
	expect_no_charges(world);
}

/* By the same client, or by a second one. */
TEST(event_leased_again_while_released_takes_records)
{
	for (unsigned other = 0; other < 2; other++) {
		WORLD(world, 10, 1);
		CLIENTS(c, world, 2);
		struct answer answer = get(&c[0], "event u32 x");

		hold();
		release(&c[0], answer.bit);
		REGISTER(&c[other], "event u32 x");
		hold_no_more();
		answer = expect_granted(&c[other]);
		expect_account(&c[other], 1, 1, 0);
		expect_record(&c[other], &answer);
		say_release(&c[1 - other], answer.bit);
		expect_released(&c[1 - other], 0);
		release(&c[other], answer.bit);
		expect_no_charges(world);
	}
}

/* The calls are carried out in order, and answered in another. */
TEST(event_leased_again_before_the_answer_stays)
{
	WORLD(world, 10, 1);
	WELCOMED(end, world, 1);
	struct answer first = get(&end, "event u32 x"), answer;
	struct batch *released, *claim;

	hold();
	release(&end, first.bit);
	REGISTER(&end, "event u32 x");
	released = TAILQ_FIRST(&script.under_way);
	claim = TAILQ_LAST(&script.under_way, batches);
	carry_out_batch(released);
	carry_out_batch(claim);
	answer_batch(claim);
	answer = expect_granted(&end);
	ck_assert_uint_ne(answer.stream, first.stream);
	hold_no_more();
	expect_account(&end, 1, 1, 0);
	ck_assert_uint_eq(count_slots(), 1);
	release(&end, answer.bit);
	expect_no_charges(world);
}

TEST(release_answered_after_its_stream_is_ignored)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);
	struct answer answer = get(&end, "event u32 x");
	struct batch *released;

	hold();
	release(&end, answer.bit);
	end.stream = fd_close(end.stream);
	end_hang_up(&end);
	released = TAILQ_FIRST(&script.under_way);
	TAILQ_REMOVE(&script.under_way, released, entry);
	hold_no_more();
	TAILQ_INSERT_TAIL(&script.under_way, released, entry);
	expect_nothing_left(world);
	answer_all();
	expect_nothing_left(world);
}

/* --- STILL_OPEN --- */

/* One that the kernel does not have is gone. */
TEST(stream_of_unknown_state_stays_charged)
{
	static const int results[] = { -EIO, -ENOMEM, -ETIMEDOUT };
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	get(&end, "event u32 x");
	end_hang_up(&end);
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		refuse(KERNEL_STILL_OPEN, results[i], 0, 1);
		ck_assert(look_at_lingering(world));
		expect_charged(world, 1, 0);
		ck_assert_uint_eq(count_slots(), 1);
	}
	refuse(KERNEL_STILL_OPEN, KERNEL_E_NO_SUCH, 0, 1);
	ck_assert(!look_at_lingering(world));
	expect_nothing_left(world);
}

/* However slow the kernel is. */
TEST(stream_is_asked_about_once_at_a_time)
{
	WORLD(world, 10, 10);
	WELCOMED(end, world, 1);

	get(&end, "event u32 x");
	hold();
	end_hang_up(&end);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 5; i++)
			ck_assert(look_at_lingering(world));
		expect_under_way(1);
		answer_all();
	}
}
