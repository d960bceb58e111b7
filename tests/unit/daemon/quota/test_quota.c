/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Warnings, refusals, extremes and examples. test_quota_history.c compares all decisions and sums with a model. */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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
	books->machine = (struct machine){ .capacity = capacity };
	quota_init(&books->root, NULL);
	for (size_t i = 0; i < 2; i++) {
		quota_init(&books->slice[i], &books->root);
		for (size_t j = 0; j < 2; j++)
			quota_init(&books->tenant[i][j], &books->slice[i]);
	}
	for (size_t i = 0; i < EVENTS; i++)
		books->event[i] = (struct quota_event){ .machine = &books->machine };
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

/* --- assertions --- */

TEST(end_with_a_charge_left_aborts)
{
	enum { TENANT, EVENT, MACHINE, ALL };
	const struct rlimit none = { 0 };
	BOOKS(books, CAPACITY);
	struct quota_charge receipt = { 0 };

	for (int end = 0; end < 2 * ALL; end++) {
		pid_t pid;
		int status;

		if (end == ALL)
			ck_assert_int_eq(charge(&books, &books.tenant[0][0], 0, &receipt), 0);
		pid = fork();
		if (pid == 0) {
			fclose(stderr);
			setrlimit(RLIMIT_CORE, &none);
			if (end % ALL == TENANT)
				quota_deinit(&books.tenant[0][0]);
			else if (end % ALL == EVENT)
				quota_event_deinit(&books.event[0]);
			else
				machine_deinit(&books.machine);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, end < ALL ? 0 : SIGABRT);
	}
	quota_charge_deinit(&receipt);
}

/* --- with the kernel, which counts as well --- */

static struct quota_shared shared_maximum, shared_reserve, shared_pool;
static atomic_int holders;
static atomic_bool history_over, too_many;

enum { SHARED_MAXIMUM = 2 };

static void hold_for_a_moment(void)
{
	if (atomic_fetch_add(&holders, 1) >= SHARED_MAXIMUM)
		history_over = too_many = true;
	atomic_fetch_sub(&holders, 1);
}

/* As kernel/guard/admission.bpf.c has it. */
static void *count_in_kernel(void *data)
{
	struct quota_shared *shared = data;

	while (!history_over) {
		const uint32_t before = __atomic_fetch_add(&shared->used, 1, __ATOMIC_SEQ_CST);

		if (before < __atomic_load_n(&shared->limit, __ATOMIC_SEQ_CST))
			hold_for_a_moment();
		__atomic_fetch_sub(&shared->used, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static unsigned charge_beside_the_kernel(struct quota *quota, struct machine *machine, struct quota_reserves *reserves,
					 struct quota_shared *shared)
{
	enum { ROUNDS = 500000 };
	struct quota_event event = { .machine = machine };
	pthread_t kernel;
	unsigned admitted = 0;

	history_over = false;
	ck_assert_int_eq(pthread_create(&kernel, NULL, count_in_kernel, shared), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct quota_charge charge = { 0 }, second = { 0 };
		struct quota_event other = { .machine = machine };
		struct quota_refusal refusal;

		if (quota_charge(quota, &event, reserves, &charge, &refusal) != 0)
			continue;
		admitted++;
		atomic_fetch_add(&holders, 1);
		if (quota_charge(quota, &other, reserves, &second, &refusal) == 0)
			hold_for_a_moment();
		quota_charge_deinit(&second);
		atomic_fetch_sub(&holders, 1);
		quota_charge_deinit(&charge);
		quota_event_deinit(&other);
	}
	history_over = true;
	pthread_join(kernel, NULL);
	ck_assert(!too_many);
	quota_event_deinit(&event);
	return admitted;
}

TEST(kernel_and_daemon_together_keep_to_a_maximum)
{
	struct machine machine = { .capacity = 1000 };
	struct quota root, quota;

	quota_init(&root, NULL);
	quota_init(&quota, &root);
	quota_set_maximum(&quota, SHARED_MAXIMUM, true);
	quota_share(&quota, &shared_maximum);
	ck_assert_uint_eq(shared_maximum.limit, SHARED_MAXIMUM);
	ck_assert_uint_gt(charge_beside_the_kernel(&quota, &machine, NULL, &shared_maximum), 0);
	ck_assert_uint_eq(shared_maximum.limit, SHARED_MAXIMUM);
	quota_deinit(&quota);
	quota_deinit(&root);
	machine_deinit(&machine);
}

TEST(kernel_and_daemon_together_keep_to_the_pool)
{
	struct machine machine = { .capacity = SHARED_MAXIMUM };
	struct quota root, quota;

	quota_init(&root, NULL);
	quota_init(&quota, &root);
	quota_set_maximum(&quota, QUOTA_NO_MAXIMUM, true);
	machine_share(&machine, &shared_pool);
	ck_assert_uint_eq(shared_pool.limit, SHARED_MAXIMUM);
	ck_assert_uint_gt(charge_beside_the_kernel(&quota, &machine, NULL, &shared_pool), 0);
	ck_assert_uint_eq(shared_pool.limit, SHARED_MAXIMUM);
	quota_deinit(&quota);
	quota_deinit(&root);
	machine_deinit(&machine);
}

TEST(kernel_and_daemon_together_keep_to_a_reserve)
{
	struct machine machine = { .capacity = SHARED_MAXIMUM };
	struct reserve *reserve = reserve_new(&machine, SHARED_MAXIMUM);
	struct quota_reserves reserves = { .reserve = &reserve, .n = 1 };
	struct quota root, quota;

	quota_init(&root, NULL);
	quota_init(&quota, &root);
	quota_set_maximum(&quota, QUOTA_NO_MAXIMUM, true);
	reserve_share(reserve, &shared_reserve);
	ck_assert_uint_gt(charge_beside_the_kernel(&quota, &machine, &reserves, &shared_reserve), 0);
	ck_assert_uint_eq(shared_reserve.limit, SHARED_MAXIMUM);
	/* What the kernel has filled stays claimed when the maximum shrinks. */
	shared_reserve.used = 1;
	reserve_set_maximum(reserve, 0);
	ck_assert_uint_eq(machine.claimed, 1);
	shared_reserve.used = 0;
	reserve_update(reserve);
	ck_assert_uint_eq(machine.claimed, 0);
	reserve_unref(reserve);
	quota_deinit(&quota);
	quota_deinit(&root);
	machine_deinit(&machine);
}
