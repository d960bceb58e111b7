/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Warnings, refusals, extremes and examples. test_quota_history.c compares all decisions and sums with a model. */

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/quota/charge.h"
#include "tests/suite.h"

enum { EVENTS = 64, CAPACITY = 1000 };

/* A machine with one tree: two slices, in each of which there are two tenants. */
struct books {
	struct machine machine;
	struct quota root, slice[2], tenant[2][2];
	struct quota_event event[EVENTS];
	struct quota_refusal refusal; /* the last one */
};

static void books_init(struct books *books, uint32_t capacity)
{
	*books = (struct books){ 0 };
	machine_init(&books->machine, capacity);
	quota_init(&books->root, NULL);
	for (size_t i = 0; i < 2; i++) {
		quota_init(&books->slice[i], &books->root);
		for (size_t j = 0; j < 2; j++)
			quota_init(&books->tenant[i][j], &books->slice[i]);
	}
	for (size_t i = 0; i < EVENTS; i++)
		quota_event_init(&books->event[i], &books->machine);
}

/* Everything must have come back. */
static void books_deinit(struct books *books)
{
	for (size_t i = 0; i < EVENTS; i++)
		quota_event_deinit(&books->event[i]);
	for (size_t i = 0; i < 4; i++)
		quota_deinit(&books->tenant[i / 2][i % 2]);
	quota_deinit(&books->slice[0]);
	quota_deinit(&books->slice[1]);
	quota_deinit(&books->root);
	machine_deinit(&books->machine);
}

#define BOOKS(name, capacity)                                                                                          \
	_cleanup_(books_deinit) struct books name;                                                                     \
	books_init(&(name), capacity)

static int charge(struct books *books, struct quota *quota, size_t event, struct quota_charge *ret)
{
	return quota_charge(quota, &books->event[event], NULL, ret, &books->refusal);
}

static void refund(struct quota_charge *charges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		quota_charge_deinit(&charges[i]);
}

/* Charges events until one is refused. Returns how many were admitted. */
static size_t charge_all(struct books *books, struct quota *quota, struct quota_charge *ret)
{
	size_t n = 0;

	while (n < EVENTS && charge(books, quota, n, &ret[n]) == 0)
		n++;
	return n;
}

TEST(lowest_full_level_is_named_in_the_refusal)
{
	for (size_t full = 1; full < 8; full++) {
		BOOKS(books, CAPACITY);
		struct quota *levels[] = { &books.tenant[0][0], &books.slice[0], &books.root };
		struct quota_charge receipt = { 0 };

		for (size_t i = 0; i < 3; i++)
			if (full & 1u << i)
				quota_set_maximum(levels[i], 0, false);
		ck_assert_int_eq(charge(&books, levels[0], 0, &receipt), QUOTA_E_MAXIMUM);
		ck_assert_ptr_eq(books.refusal.at, levels[__builtin_ctzl(full)]);
		ck_assert_uint_eq(books.root.held, 0);
	}
}

TEST(warning_at_80_percent_again_after_70)
{
	BOOKS(books, CAPACITY);
	struct quota *tenant = &books.tenant[0][0];
	struct quota_charge charges[10] = { 0 };

	quota_set_maximum(tenant, 10, false);
	for (size_t i = 0; i < 10; i++) {
		ck_assert_int_eq(charge(&books, tenant, i, &charges[i]), 0);
		ck_assert_ptr_eq(quota_warn(tenant), i == 7 ? tenant : NULL);
	}
	refund(charges, 3); /* 70 % */
	ck_assert_int_eq(charge(&books, tenant, 0, &charges[0]), 0);
	ck_assert_ptr_null(quota_warn(tenant));
	refund(charges, 4);
	ck_assert_int_eq(charge(&books, tenant, 0, &charges[0]), 0);
	ck_assert_ptr_null(quota_warn(tenant));
	ck_assert_int_eq(charge(&books, tenant, 1, &charges[1]), 0);
	ck_assert_ptr_eq(quota_warn(tenant), tenant);
	/* A larger maximum is a new one. */
	quota_set_maximum(tenant, 100, false);
	quota_set_maximum(tenant, 10, false);
	ck_assert_ptr_eq(quota_warn(tenant), tenant);
	refund(charges, 10);
}

TEST(each_level_near_its_maximum_is_warned_of)
{
	BOOKS(books, CAPACITY);
	struct quota *tenant = &books.tenant[0][0];
	struct quota_charge receipt = { 0 };

	quota_set_maximum(tenant, 1, false);
	quota_set_maximum(&books.root, 1, true);
	ck_assert_int_eq(charge(&books, tenant, 0, &receipt), 0);
	ck_assert_ptr_eq(quota_warn(tenant), tenant);
	ck_assert_ptr_eq(quota_warn(tenant), &books.root);
	ck_assert_ptr_null(quota_warn(tenant));
	quota_charge_deinit(&receipt);
}

TEST(huge_reserves_leave_an_empty_pool)
{
	BOOKS(books, UINT32_MAX);
	struct reserve *one = reserve_new(&books.machine, UINT32_MAX), *other = reserve_new(&books.machine, UINT32_MAX);
	struct quota_charge receipt = { 0 };

	ck_assert_uint_eq(machine_room(&books.machine), 0);
	ck_assert_int_eq(charge(&books, &books.tenant[0][0], 0, &receipt), QUOTA_E_MACHINE);
	reserve_set_maximum(one, 0);
	ck_assert_uint_eq(machine_room(&books.machine), 0);
	reserve_set_maximum(other, 0);
	ck_assert_uint_eq(machine_room(&books.machine), UINT32_MAX);
	reserve_unref(one);
	reserve_unref(other);
	reserve_unref(NULL);
}

TEST(single_tenant_gets_half_of_the_pool)
{
	BOOKS(books, 40);
	struct quota_charge charges[EVENTS] = { 0 };

	ck_assert_uint_eq(charge_all(&books, &books.tenant[0][0], charges), 20);
	ck_assert_int_eq(charge(&books, &books.tenant[0][0], 20, &charges[20]), QUOTA_E_SHARE);
	/* (1 + 1) * (20 + 1) - 20 */
	ck_assert_uint_eq(books.refusal.needed, 22);
	ck_assert_uint_eq(books.refusal.remaining, 20);
	ck_assert_uint_eq(books.refusal.sharing, 1);
	ck_assert_uint_eq(books.root.held, 20);
	refund(charges, 20);
}

TEST(least_room_above_limits_the_fair_share)
{
	BOOKS(books, CAPACITY);
	struct quota_charge charges[EVENTS] = { 0 };

	quota_set_maximum(&books.slice[0], 12, true);
	ck_assert_uint_eq(charge_all(&books, &books.tenant[0][0], charges), 6);
	refund(charges, 6);
	quota_set_maximum(&books.root, 8, true);
	ck_assert_uint_eq(charge_all(&books, &books.tenant[0][0], charges), 4);
	ck_assert_int_eq(charge(&books, &books.tenant[0][0], 4, &charges[4]), QUOTA_E_SHARE);
	ck_assert_ptr_eq(books.refusal.at, &books.tenant[0][0]);
	ck_assert_uint_eq(books.refusal.remaining, 4);
	refund(charges, 4);
}

TEST(square_root_of_capacity_siblings_find_room)
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

/* --- assertions --- */

static int run_in_child(void (*run)(struct books *), struct books *books)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		const struct rlimit none = { 0 };

		fclose(stderr);
		setrlimit(RLIMIT_CORE, &none);
		run(books);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void end_tenant(struct books *books)
{
	quota_deinit(&books->tenant[0][0]);
}

static void end_event(struct books *books)
{
	quota_event_deinit(&books->event[0]);
}

static void end_machine(struct books *books)
{
	machine_deinit(&books->machine);
}

TEST(end_with_a_charge_left_aborts)
{
	static void (*const ends[])(struct books *) = { end_tenant, end_event, end_machine };
	BOOKS(books, CAPACITY);
	struct quota_charge receipt = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		int status;

		ck_assert_int_eq(run_in_child(ends[i], &books), 0);
		ck_assert_int_eq(charge(&books, &books.tenant[0][0], 0, &receipt), 0);
		status = run_in_child(ends[i], &books);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		quota_charge_deinit(&receipt);
	}
}
