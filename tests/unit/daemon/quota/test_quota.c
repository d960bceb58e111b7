/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The ledger's rules, each by itself; what they come to in whichever order is in test_quota_history.c. */

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/quota/charge.h"
#include "tests/suite.h"

enum { EVENTS = 64, CAPACITY = 1000 };

/* A machine with one tree: two slices, in each of which there are two tenants. */
struct ledger {
	struct machine machine;
	struct quota root, slice[2], tenant[2][2];
	struct quota_event event[EVENTS];
	struct quota_refusal refusal; /* the last one */
};

static void ledger_init(struct ledger *ledger, uint32_t capacity)
{
	*ledger = (struct ledger){ 0 };
	machine_init(&ledger->machine, capacity);
	quota_init(&ledger->root, NULL);
	for (size_t i = 0; i < 2; i++) {
		quota_init(&ledger->slice[i], &ledger->root);
		for (size_t j = 0; j < 2; j++)
			quota_init(&ledger->tenant[i][j], &ledger->slice[i]);
	}
	for (size_t i = 0; i < EVENTS; i++)
		quota_event_init(&ledger->event[i], &ledger->machine);
}

/* Everything must have come back. */
static void ledger_deinit(struct ledger *ledger)
{
	for (size_t i = 0; i < EVENTS; i++)
		quota_event_deinit(&ledger->event[i]);
	for (size_t i = 0; i < 4; i++)
		quota_deinit(&ledger->tenant[i / 2][i % 2]);
	quota_deinit(&ledger->slice[0]);
	quota_deinit(&ledger->slice[1]);
	quota_deinit(&ledger->root);
	machine_deinit(&ledger->machine);
}

#define LEDGER(name, capacity)                                                                                         \
	_cleanup_(ledger_deinit) struct ledger name;                                                                   \
	ledger_init(&(name), capacity)

static int charge(struct ledger *ledger, struct quota *quota, size_t event, struct quota_charge *ret)
{
	return quota_charge(quota, &ledger->event[event], NULL, ret, &ledger->refusal);
}

static int charge_reserve(struct ledger *ledger, struct quota *quota, size_t event, struct reserve *reserve,
			  struct quota_charge *ret)
{
	const struct quota_reserves reserves = { .reserve = &reserve, .n = 1 };

	return quota_charge(quota, &ledger->event[event], &reserves, ret, &ledger->refusal);
}

/* Events from `first` on, one after the other, as far as it may: how many. */
static size_t charge_all(struct ledger *ledger, struct quota *quota, size_t first, struct quota_charge *ret)
{
	size_t n = 0;

	while (first + n < EVENTS && charge(ledger, quota, first + n, &ret[n]) == 0)
		n++;
	return n;
}

static void refund(struct quota_charge *charges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		quota_charge_deinit(&charges[i]);
}

/* --- maxima --- */

TEST(the_last_that_fits_is_admitted_and_one_more_is_not_and_costs_nothing)
{
	LEDGER(ledger, CAPACITY);
	struct quota *tenant = &ledger.tenant[0][0];
	struct quota_charge charges[3] = { 0 }, more = { 0 };

	quota_set_maximum(tenant, 3, false);
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(charge(&ledger, tenant, i, &charges[i]), 0);
	ck_assert_int_eq(charge(&ledger, tenant, 3, &more), QUOTA_E_MAXIMUM);
	ck_assert_ptr_eq(ledger.refusal.at, tenant);
	ck_assert_uint_eq(tenant->held, 3);
	ck_assert_uint_eq(tenant->paid, 3);
	ck_assert_uint_eq(ledger.machine.common, 3);
	ck_assert_ptr_null(more.quota);
	quota_charge_deinit(&charges[1]);
	ck_assert_int_eq(charge(&ledger, tenant, 3, &more), 0);
	ck_assert_uint_eq(tenant->held, 3);
	refund(charges, 3);
	refund(&more, 1);
}

TEST(a_maximum_of_nothing_admits_nothing)
{
	LEDGER(ledger, CAPACITY);
	struct quota_charge receipt = { 0 };

	quota_set_maximum(&ledger.tenant[0][0], 0, true);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 0, &receipt), QUOTA_E_MAXIMUM);
	ck_assert_ptr_null(quota_warn(&ledger.slice[0]));
}

TEST(what_is_charged_counts_at_every_level_above)
{
	LEDGER(ledger, CAPACITY);
	struct quota_charge below = { 0 }, here = { 0 };

	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 0, &below), 0);
	ck_assert_int_eq(charge(&ledger, &ledger.slice[0], 1, &here), 0);
	ck_assert_uint_eq(ledger.tenant[0][0].held, 1);
	ck_assert_uint_eq(ledger.tenant[0][1].held, 0);
	ck_assert_uint_eq(ledger.slice[0].held, 2);
	ck_assert_uint_eq(ledger.slice[1].held, 0);
	ck_assert_uint_eq(ledger.root.held, 2);
	ck_assert_uint_eq(ledger.root.paid, 2);
	quota_charge_deinit(&below);
	ck_assert_uint_eq(ledger.tenant[0][0].held, 0);
	ck_assert_uint_eq(ledger.slice[0].held, 1);
	ck_assert_uint_eq(ledger.root.held, 1);
	quota_charge_deinit(&here);
}

TEST(each_level_has_its_say_and_the_lowest_without_room_is_named)
{
	for (size_t full = 1; full < 8; full++) {
		LEDGER(ledger, CAPACITY);
		struct quota *levels[] = { &ledger.tenant[0][0], &ledger.slice[0], &ledger.root };
		struct quota_charge receipt = { 0 };

		for (size_t i = 0; i < 3; i++)
			if (full & 1u << i)
				quota_set_maximum(levels[i], 0, false);
		ck_assert_int_eq(charge(&ledger, levels[0], 0, &receipt), QUOTA_E_MAXIMUM);
		ck_assert_ptr_eq(ledger.refusal.at, levels[__builtin_ctzl(full)]);
		ck_assert_uint_eq(ledger.root.held, 0);
	}
}

TEST(a_maximum_that_was_lowered_takes_nothing_away_and_gives_nothing)
{
	LEDGER(ledger, CAPACITY);
	struct quota *tenant = &ledger.tenant[0][0];
	struct quota_charge charges[5] = { 0 }, more = { 0 };

	for (size_t i = 0; i < 5; i++)
		ck_assert_int_eq(charge(&ledger, tenant, i, &charges[i]), 0);
	quota_set_maximum(tenant, 3, true);
	ck_assert_uint_eq(tenant->held, 5);
	ck_assert_uint_eq(quota_room(tenant), 0);
	ck_assert_int_eq(charge(&ledger, tenant, 5, &more), QUOTA_E_MAXIMUM);
	refund(charges, 2);
	ck_assert_int_eq(charge(&ledger, tenant, 5, &more), QUOTA_E_MAXIMUM);
	refund(&charges[2], 1);
	ck_assert_int_eq(charge(&ledger, tenant, 5, &more), 0);
	refund(charges, 5);
	refund(&more, 1);
}

TEST(a_refund_gives_back_once_however_often_it_is_asked_for)
{
	LEDGER(ledger, CAPACITY);
	struct quota *tenant = &ledger.tenant[0][0];
	struct quota_charge one = { 0 }, other = { 0 }, never = { 0 };

	ck_assert_int_eq(charge(&ledger, tenant, 0, &one), 0);
	ck_assert_int_eq(charge(&ledger, tenant, 1, &other), 0);
	quota_charge_deinit(&one);
	quota_charge_deinit(&one);
	quota_charge_deinit(&never);
	ck_assert_uint_eq(tenant->held, 1);
	ck_assert_uint_eq(ledger.machine.common, 1);
	quota_charge_deinit(&other);
}

TEST(eighty_percent_of_a_maximum_are_told_once_and_again_after_seventy)
{
	LEDGER(ledger, CAPACITY);
	struct quota *tenant = &ledger.tenant[0][0];
	struct quota_charge charges[10] = { 0 };

	quota_set_maximum(tenant, 10, false);
	for (size_t i = 0; i < 10; i++) {
		ck_assert_int_eq(charge(&ledger, tenant, i, &charges[i]), 0);
		ck_assert_ptr_eq(quota_warn(tenant), i == 7 ? tenant : NULL);
	}
	refund(charges, 3); /* 70 % */
	ck_assert_int_eq(charge(&ledger, tenant, 0, &charges[0]), 0);
	ck_assert_ptr_null(quota_warn(tenant));
	refund(charges, 4);
	ck_assert_int_eq(charge(&ledger, tenant, 0, &charges[0]), 0);
	ck_assert_ptr_null(quota_warn(tenant));
	ck_assert_int_eq(charge(&ledger, tenant, 1, &charges[1]), 0);
	ck_assert_ptr_eq(quota_warn(tenant), tenant);
	/* A larger maximum is a new one. */
	quota_set_maximum(tenant, 100, false);
	quota_set_maximum(tenant, 10, false);
	ck_assert_ptr_eq(quota_warn(tenant), tenant);
	refund(charges, 10);
}

TEST(every_level_that_comes_near_to_its_maximum_is_told)
{
	LEDGER(ledger, CAPACITY);
	struct quota *tenant = &ledger.tenant[0][0];
	struct quota_charge receipt = { 0 };

	quota_set_maximum(tenant, 1, false);
	quota_set_maximum(&ledger.root, 1, true);
	ck_assert_int_eq(charge(&ledger, tenant, 0, &receipt), 0);
	ck_assert_ptr_eq(quota_warn(tenant), tenant);
	ck_assert_ptr_eq(quota_warn(tenant), &ledger.root);
	ck_assert_ptr_null(quota_warn(tenant));
	quota_charge_deinit(&receipt);
}

/* --- the machine --- */

TEST(an_event_of_two_tenants_costs_each_of_them_one_and_the_machine_one)
{
	LEDGER(ledger, CAPACITY);
	struct quota_charge one = { 0 }, other = { 0 };

	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 0, &one), 0);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[1][0], 0, &other), 0);
	ck_assert_uint_eq(ledger.tenant[0][0].held, 1);
	ck_assert_uint_eq(ledger.tenant[1][0].held, 1);
	ck_assert_uint_eq(ledger.root.held, 2);
	ck_assert_uint_eq(ledger.machine.common, 1);
	ck_assert_uint_eq(ledger.tenant[0][0].paid, 1);
	ck_assert_uint_eq(ledger.tenant[1][0].paid, 0);
	quota_charge_deinit(&other);
	ck_assert_uint_eq(ledger.machine.common, 1);
	quota_charge_deinit(&one);
	ck_assert_uint_eq(ledger.machine.common, 0);
}

TEST(when_who_pays_lets_go_another_pays_and_is_not_refused)
{
	LEDGER(ledger, CAPACITY);
	struct quota_charge one = { 0 }, other = { 0 };

	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 0, &one), 0);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[1][0], 0, &other), 0);
	ledger.machine.capacity = 0;
	quota_set_maximum(&ledger.tenant[1][0], 0, false);
	quota_charge_deinit(&one);
	ck_assert_uint_eq(ledger.tenant[0][0].paid, 0);
	ck_assert_uint_eq(ledger.slice[0].paid, 0);
	ck_assert_uint_eq(ledger.slice[0].sharing, 0);
	ck_assert_uint_eq(ledger.tenant[1][0].paid, 1);
	ck_assert_uint_eq(ledger.slice[1].paid, 1);
	ck_assert_uint_eq(ledger.slice[1].sharing, 1);
	ck_assert_uint_eq(ledger.root.paid, 1);
	ck_assert_uint_eq(ledger.machine.common, 1);
	quota_charge_deinit(&other);
}

TEST(a_full_machine_gives_what_is_there_and_nothing_else)
{
	LEDGER(ledger, 1);
	struct quota_charge one = { 0 }, other = { 0 }, more = { 0 };

	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 0, &one), 0);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[1][0], 1, &more), QUOTA_E_MACHINE);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[1][0], 0, &other), 0);
	ledger.machine.capacity = 0;
	ck_assert_uint_eq(machine_room(&ledger.machine), 0);
	quota_charge_deinit(&one);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 1, &more), QUOTA_E_MACHINE);
	quota_charge_deinit(&other);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 1, &more), QUOTA_E_MACHINE);
	ledger.machine.capacity = 1;
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 1, &more), 0);
	quota_charge_deinit(&more);
}

/* --- reserves --- */

TEST(the_nearest_reserve_is_filled_first_then_the_next_one_then_the_pool)
{
	LEDGER(ledger, CAPACITY);
	struct reserve *reserve[2] = { reserve_new(&ledger.machine, 1), reserve_new(&ledger.machine, 2) };
	const struct quota_reserves reserves = { .reserve = reserve, .n = 2 };
	struct quota_charge charges[4] = { 0 };

	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(
			quota_charge(&ledger.tenant[0][0], &ledger.event[i], &reserves, &charges[i], &ledger.refusal),
			0);
	ck_assert_ptr_eq(charges[0].reserve, reserve[0]);
	ck_assert_ptr_eq(charges[1].reserve, reserve[1]);
	ck_assert_ptr_eq(charges[2].reserve, reserve[1]);
	ck_assert_ptr_null(charges[3].reserve);
	ck_assert_uint_eq(ledger.machine.common, 1);
	ck_assert_uint_eq(ledger.machine.filled, 3);
	ck_assert_uint_eq(ledger.machine.claimed, 3);
	ck_assert_uint_eq(ledger.tenant[0][0].held, 4);
	ck_assert_uint_eq(ledger.tenant[0][0].paid, 1);
	refund(charges, 4);
	ck_assert_uint_eq(ledger.machine.claimed, 3);
	reserve_unref(reserve[0]);
	reserve_unref(reserve[1]);
	ck_assert_uint_eq(ledger.machine.claimed, 0);
}

TEST(a_reserve_can_be_filled_whatever_others_did)
{
	LEDGER(ledger, 20);
	struct reserve *reserve = reserve_new(&ledger.machine, 10);
	struct quota_charge others[EVENTS] = { 0 }, more[EVENTS] = { 0 }, ours[10] = { 0 };
	size_t n, n_more;

	/* All that the pool has, by who shares with nobody, and by who is greedy. */
	quota_set_maximum(&ledger.tenant[1][0], 1000, true);
	quota_set_maximum(&ledger.slice[1], 1000, true);
	n_more = charge_all(&ledger, &ledger.tenant[0][1], 30, more);
	n = charge_all(&ledger, &ledger.tenant[1][0], 0, others);
	ck_assert_uint_eq(n + n_more, 10);
	ck_assert_uint_eq(machine_room(&ledger.machine), 0);
	for (size_t i = 0; i < 10; i++)
		ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], i, reserve, &ours[i]), 0);
	ck_assert(!reserve_has_room(reserve));
	ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], 20, reserve, &ours[0]), QUOTA_E_MACHINE);
	/* Even where the machine has shrunk. */
	quota_charge_deinit(&ours[3]);
	ledger.machine.capacity = 1;
	ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], 3, reserve, &ours[3]), 0);
	refund(ours, 10);
	refund(others, n);
	refund(more, n_more);
	reserve_unref(reserve);
}

TEST(a_reserve_does_not_lift_a_maximum)
{
	LEDGER(ledger, CAPACITY);
	struct reserve *reserve = reserve_new(&ledger.machine, 10);
	struct quota_charge receipt = { 0 };

	quota_set_maximum(&ledger.slice[0], 0, true);
	ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], 0, reserve, &receipt), QUOTA_E_MAXIMUM);
	ck_assert_ptr_eq(ledger.refusal.at, &ledger.slice[0]);
	ck_assert_uint_eq(reserve->filled, 0);
	reserve_unref(reserve);
}

TEST(an_event_in_a_reserve_and_in_the_pool_takes_a_place_in_each)
{
	LEDGER(ledger, 2);
	struct reserve *reserve = reserve_new(&ledger.machine, 1);
	struct quota_charge ours = { 0 }, theirs = { 0 }, more = { 0 };

	ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], 0, reserve, &ours), 0);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[1][0], 0, &theirs), 0);
	ck_assert_uint_eq(ledger.machine.common, 1);
	ck_assert_uint_eq(ledger.tenant[1][0].paid, 1);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[1][1], 1, &more), QUOTA_E_MACHINE);
	/* Whoever goes leaves the other's place alone. */
	quota_charge_deinit(&theirs);
	ck_assert_uint_eq(ledger.machine.common, 0);
	ck_assert_uint_eq(reserve->filled, 1);
	quota_charge_deinit(&ours);
	reserve_unref(reserve);
}

TEST(a_reserve_that_shrinks_claims_what_is_filled_until_that_comes_back)
{
	LEDGER(ledger, CAPACITY);
	struct reserve *reserve = reserve_new(&ledger.machine, 5);
	struct quota_charge charges[4] = { 0 };

	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], i, reserve, &charges[i]), 0);
	ck_assert_uint_eq(ledger.machine.claimed, 5);
	reserve_set_maximum(reserve, 2);
	ck_assert_uint_eq(ledger.machine.claimed, 4);
	ck_assert_uint_eq(machine_pool(&ledger.machine), CAPACITY - 4);
	refund(charges, 1);
	ck_assert_uint_eq(ledger.machine.claimed, 3);
	/* There is no room in it. */
	ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], 0, reserve, &charges[0]), 0);
	ck_assert_ptr_null(charges[0].reserve);
	refund(charges, 4);
	ck_assert_uint_eq(ledger.machine.claimed, 2);
	reserve_set_maximum(reserve, 7);
	ck_assert_uint_eq(ledger.machine.claimed, 7);
	reserve_unref(reserve);
}

TEST(a_section_that_is_gone_lives_on_in_what_fills_it)
{
	LEDGER(ledger, CAPACITY);
	struct reserve *reserve = reserve_new(&ledger.machine, 5);
	struct quota_charge receipt = { 0 };

	ck_assert_int_eq(charge_reserve(&ledger, &ledger.tenant[0][0], 0, reserve, &receipt), 0);
	reserve_set_maximum(reserve, 0);
	ck_assert_ptr_null(reserve_unref(reserve));
	ck_assert_uint_eq(ledger.machine.claimed, 1);
	quota_charge_deinit(&receipt);
	ck_assert_uint_eq(ledger.machine.claimed, 0);
}

TEST(reserves_beyond_all_numbers_leave_a_pool_of_nothing)
{
	LEDGER(ledger, UINT32_MAX);
	struct reserve *one = reserve_new(&ledger.machine, UINT32_MAX),
		       *other = reserve_new(&ledger.machine, UINT32_MAX);
	struct quota_charge receipt = { 0 };

	ck_assert_uint_eq(machine_room(&ledger.machine), 0);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 0, &receipt), QUOTA_E_MACHINE);
	reserve_set_maximum(one, 0);
	ck_assert_uint_eq(machine_room(&ledger.machine), 0);
	reserve_set_maximum(other, 0);
	ck_assert_uint_eq(machine_room(&ledger.machine), UINT32_MAX);
	reserve_unref(one);
	reserve_unref(other);
	reserve_unref(NULL);
}

/* --- the fair share --- */

TEST(who_is_alone_may_have_half)
{
	LEDGER(ledger, 40);
	struct quota_charge charges[EVENTS] = { 0 };

	ck_assert_uint_eq(charge_all(&ledger, &ledger.tenant[0][0], 0, charges), 20);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 20, &charges[20]), QUOTA_E_SHARE);
	/* (1 + 1) * (20 + 1) - 20 */
	ck_assert_uint_eq(ledger.refusal.needed, 22);
	ck_assert_uint_eq(ledger.refusal.remaining, 20);
	ck_assert_uint_eq(ledger.refusal.sharing, 1);
	ck_assert_uint_eq(ledger.root.held, 20);
	refund(charges, 20);
}

TEST(what_somebody_has_already_is_for_all_who_pay_for_no_more_than_an_equal_part)
{
	LEDGER(ledger, 12);
	struct quota_charge ours[8] = { 0 }, theirs = { 0 };

	ck_assert_uint_eq(charge_all(&ledger, &ledger.tenant[0][0], 0, ours), 6);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[1][0], 10, &theirs), 0);
	/* With two who pay an equal part is a third: 4 of 12. */
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 10, &ours[6]), QUOTA_E_SHARE);
	ck_assert_uint_eq(ledger.refusal.needed, 3 * 6 - 7);
	ck_assert_uint_eq(ledger.refusal.remaining, 5);
	refund(&ours[4], 2);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 10, &ours[6]), 0);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 11, &ours[7]), QUOTA_E_SHARE);
	refund(ours, 8);
	refund(&theirs, 1);
}

TEST(two_who_take_turns_do_not_get_the_whole_pool)
{
	LEDGER(ledger, 60);
	struct quota_charge stays[EVENTS] = { 0 }, takes[EVENTS] = { 0 };
	size_t kept = charge_all(&ledger, &ledger.tenant[0][0], 0, stays);

	for (size_t i = kept; i < EVENTS; i++) {
		if (charge(&ledger, &ledger.tenant[1][0], i, &takes[i]) != 0)
			break;
		kept += charge(&ledger, &ledger.tenant[0][0], i, &stays[i]) == 0;
		quota_charge_deinit(&takes[i]);
	}
	ck_assert_uint_eq(kept, 30);
	refund(stays, EVENTS);
}

TEST(siblings_in_one_slice_share_and_the_other_slice_does_not_suffer)
{
	LEDGER(ledger, 60);
	struct quota_charge one[EVENTS] = { 0 }, two[EVENTS] = { 0 }, stranger[EVENTS] = { 0 };
	size_t n_one = charge_all(&ledger, &ledger.tenant[0][0], 0, one);
	size_t n_two = charge_all(&ledger, &ledger.tenant[0][1], 40, two);
	size_t n_stranger = charge_all(&ledger, &ledger.tenant[1][0], 40 + n_two, stranger);

	/* Their slice is one of two, and has half; the brother's brother is refused for the slice's sake. */
	ck_assert_uint_eq(n_one, 30);
	ck_assert_uint_eq(n_two, 0);
	ck_assert_uint_eq(n_stranger, 10);
	refund(one, 20);
	/* The slice pays for 10 and 40 are left; at 16 it would take (2 + 1) * (16 + 1) - 16. */
	ck_assert_uint_eq(charge_all(&ledger, &ledger.tenant[0][1], 0, two), 6);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][1], 6, &two[6]), QUOTA_E_SHARE);
	ck_assert_ptr_eq(ledger.refusal.at, &ledger.slice[0]);
	ck_assert_uint_eq(ledger.refusal.sharing, 2);
	ck_assert_uint_eq(ledger.refusal.needed, 35);
	ck_assert_uint_eq(ledger.refusal.remaining, 34);
	refund(two, 6);
	refund(one, n_one);
	refund(stranger, n_stranger);
}

TEST(what_remains_is_the_least_of_what_is_left_above)
{
	LEDGER(ledger, CAPACITY);
	struct quota_charge charges[EVENTS] = { 0 };

	quota_set_maximum(&ledger.slice[0], 12, true);
	ck_assert_uint_eq(charge_all(&ledger, &ledger.tenant[0][0], 0, charges), 6);
	refund(charges, 6);
	quota_set_maximum(&ledger.root, 8, true);
	ck_assert_uint_eq(charge_all(&ledger, &ledger.tenant[0][0], 0, charges), 4);
	ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 4, &charges[4]), QUOTA_E_SHARE);
	ck_assert_ptr_eq(ledger.refusal.at, &ledger.tenant[0][0]);
	ck_assert_uint_eq(ledger.refusal.remaining, 4);
	refund(charges, 4);
}

TEST(who_has_a_maximum_of_its_own_is_no_part_of_the_fair_share)
{
	LEDGER(ledger, 40);
	struct quota *tenant = &ledger.tenant[0][0], *sibling = &ledger.tenant[0][1];
	struct quota_charge charges[EVENTS] = { 0 }, theirs[EVENTS] = { 0 };

	quota_set_maximum(&ledger.slice[0], 39, true);
	quota_set_maximum(tenant, 30, true);
	ck_assert_uint_eq(charge_all(&ledger, tenant, 0, charges), 30);
	ck_assert_int_eq(charge(&ledger, tenant, 30, &charges[30]), QUOTA_E_MAXIMUM);
	ck_assert_uint_eq(ledger.slice[0].sharing, 0);
	ck_assert_uint_eq(ledger.root.sharing, 0);
	/* Nine are left to the sibling, who is alone among those who share. */
	ck_assert_uint_eq(charge_all(&ledger, sibling, 40, theirs), 4);
	ck_assert_uint_eq(ledger.slice[0].sharing, 1);
	/* A maximum that is taken back makes it one of them. */
	quota_set_maximum(tenant, QUOTA_NO_MAXIMUM, false);
	ck_assert_uint_eq(ledger.slice[0].sharing, 2);
	ck_assert_int_eq(charge(&ledger, tenant, 30, &charges[30]), QUOTA_E_SHARE);
	ck_assert_int_eq(charge(&ledger, sibling, 50, &theirs[10]), QUOTA_E_SHARE);
	quota_set_maximum(tenant, QUOTA_NO_MAXIMUM, true);
	ck_assert_uint_eq(ledger.slice[0].sharing, 1);
	ck_assert_int_eq(charge(&ledger, tenant, 30, &charges[30]), 0);
	refund(charges, 31);
	refund(theirs, 4);
	ck_assert_uint_eq(ledger.slice[0].sharing, 0);
}

TEST(of_greedy_siblings_about_as_many_find_room_as_the_root_of_the_capacity)
{
	enum { SIBLINGS = 300, MANY = 10000, ROOT = 100 };
	static struct quota_event events[MANY];
	static struct quota_charge charges[MANY];
	static struct quota sibling[SIBLINGS];
	struct quota_refusal refusal;
	size_t next = 0, found_room = 0, first[SIBLINGS];
	struct machine machine;
	struct quota root;

	machine_init(&machine, MANY);
	quota_init(&root, NULL);
	for (size_t i = 0; i < MANY; i++)
		quota_event_init(&events[i], &machine);
	for (size_t i = 0; i < SIBLINGS; i++) {
		quota_init(&sibling[i], &root);
		first[i] = next;
		while (next < MANY && quota_charge(&sibling[i], &events[next], NULL, &charges[next], &refusal) == 0)
			next++;
		found_room += next > first[i];
	}
	ck_assert_uint_eq(first[1], MANY / 2);
	ck_assert_uint_eq(first[2] - first[1], MANY / 6);
	ck_assert_uint_ge(found_room, ROOT * 9 / 10);
	ck_assert_uint_le(found_room, ROOT * 12 / 10);
	refund(charges, MANY);
	for (size_t i = 0; i < SIBLINGS; i++)
		quota_deinit(&sibling[i]);
	quota_deinit(&root);
	machine_deinit(&machine);
}

/* --- what is not survived --- */

static int run_in_child(void (*run)(struct ledger *), struct ledger *ledger)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		const struct rlimit none = { 0 };

		fclose(stderr);
		setrlimit(RLIMIT_CORE, &none);
		run(ledger);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void end_tenant(struct ledger *ledger)
{
	quota_deinit(&ledger->tenant[0][0]);
}

static void end_event(struct ledger *ledger)
{
	quota_event_deinit(&ledger->event[0]);
}

static void end_machine(struct ledger *ledger)
{
	machine_deinit(&ledger->machine);
}

TEST(what_ends_with_something_charged_is_a_bug_that_is_not_survived)
{
	static void (*const ends[])(struct ledger *) = { end_tenant, end_event, end_machine };
	LEDGER(ledger, CAPACITY);
	struct quota_charge receipt = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		int status;

		ck_assert_int_eq(run_in_child(ends[i], &ledger), 0);
		ck_assert_int_eq(charge(&ledger, &ledger.tenant[0][0], 0, &receipt), 0);
		status = run_in_child(ends[i], &ledger);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		quota_charge_deinit(&receipt);
	}
}
